package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const policies = minimal + `defaults:
  compact: {target_file_size: 256MiB, min_input_files: 4}
  expire: {enabled: true, older_than: 7d}
tables:
  - match: "sales.*"
    compact: {target_file_size: 64MiB, engine: general}
    expire: {retain_last: 3}
  - match: sales.big
    compact: {target_file_size: 1GiB}
    disabled: true
  - match: "*.big"
    disabled: false
    expire: {enabled: false}
`

func TestLaterEntriesOverrideEarlierOnesKeyByKey(t *testing.T) {
	c := mustLoad(t, source(policies))
	p := c.PolicyFor("sales.big", nil)
	assert.Equal(t, "1GiB", p.Compact.TargetFileSize.String(), "from the second entry")
	assert.Equal(t, "general", p.Compact.Engine, "from the first entry")
	assert.Equal(t, 4, p.Compact.MinInputFiles, "from the defaults section")
	assert.Equal(t, 3, p.Expire.RetainLast)
	assert.False(t, p.Expire.Enabled, "false overrides true")
	assert.False(t, c.Disabled("sales.big", nil), "the last entry that says anything decides")
	assert.True(t, mustLoad(t, source(strings.Replace(policies, "disabled: false\n    ", "", 1))).Disabled("sales.big", nil))
	assert.Equal(t, "256MiB", c.PolicyFor("other.t", nil).Compact.TargetFileSize.String())

	for _, e := range c.PolicyEntries("sales.big", nil) {
		if e.Key == "compact.target_file_size" {
			assert.Equal(t, "file c.yaml:12", e.Origin.String())
		}
	}
}

func TestFlagAndEnvironmentBeatTableEntries(t *testing.T) {
	s := source(policies)
	s.Flags = map[string]string{"defaults.compact.target_file_size": "32MiB"}
	s.Env = env(map[string]string{"COMPACTOR_DEFAULTS_COMPACT_ENGINE": "auto"})
	p := mustLoad(t, s).PolicyFor("sales.big", map[string]string{"write.target-file-size-bytes": "1048576"})
	assert.Equal(t, "32MiB", p.Compact.TargetFileSize.String())
	assert.Equal(t, "auto", p.Compact.Engine)
}

func TestTablePropertiesBeatOnlyDefaults(t *testing.T) {
	c := mustLoad(t, source(policies))
	props := map[string]string{
		"write.target-file-size-bytes": "1048576", "compactor.compact.min-input-files": "9", "compactor.orphans.older-than": "10d",
		"history.expire.min-snapshots-to-keep": "12", "min-snapshots-to-keep": "2", "commit.manifest.target-size-bytes": "4194304",
		"compactor.compact.delete-ratio-threshold": "20%", "unrelated": "x",
	}
	p := c.PolicyFor("other.t", props)
	assert.Equal(t, "256MiB", p.Compact.TargetFileSize.String(), "the file is stronger")
	assert.Equal(t, 4, p.Compact.MinInputFiles, "the file is stronger")
	assert.Equal(t, "10d", p.Orphans.OlderThan.String())
	assert.Equal(t, 12, p.Expire.RetainLast, "Iceberg's name before the old one")
	assert.Equal(t, "4MiB", p.Manifests.TargetSize.String())
	assert.InDelta(t, 0.2, p.Compact.DeleteRatioThreshold, 1e-9)
	require.NoError(t, c.CheckTable("other.t", props))

	plain := mustLoad(t, source(minimal))
	assert.Equal(t, "1MiB", plain.PolicyFor("a.b", props).Compact.TargetFileSize.String())
	props["compactor.compact.target-file-size"] = "2MiB"
	assert.Equal(t, "2MiB", plain.PolicyFor("a.b", props).Compact.TargetFileSize.String(), "our own name before Iceberg's")
	assert.True(t, plain.Disabled("a.b", map[string]string{"compactor.disabled": "TRUE"}))
}

// Whether a table is left alone is shown with where that is said.
func TestShownWhereATableIsDisabled(t *testing.T) {
	first := func(c *Config, props map[string]string) string {
		e := c.PolicyEntries("a.b", props)[0]
		require.Equal(t, "disabled", e.Key)

		return e.Value + " from " + e.Origin.String()
	}
	c := mustLoad(t, source(minimal))
	assert.Equal(t, "false from default", first(c, nil))
	property := map[string]string{"compactor.disabled": "true"}
	assert.Equal(t, "true from table property compactor.disabled", first(c, property))
	c.Tables = []TablePolicy{{Match: "a.*", Set: map[string]Origin{"disabled": {Kind: FromFile, Path: "c.yaml", Line: 7}}}}
	assert.Equal(t, "false from file c.yaml:7", first(c, property), "the file is stronger")
}

func TestSnapshotAgeProperty(t *testing.T) {
	c := mustLoad(t, source(minimal))
	for in, want := range map[string]string{"432000000": "5d", "1500": "1.5s", "9223372036854775807": "36500d", "0": "0s"} {
		p := c.PolicyFor("a.b", map[string]string{"history.expire.max-snapshot-age-ms": in})
		assert.Equal(t, want, p.Expire.OlderThan.String(), in)
	}
}

func TestPropertiesThatCannotBeReadAreReported(t *testing.T) {
	c := mustLoad(t, source(minimal))
	props := map[string]string{"history.expire.max-snapshot-age-ms": "a week", "compactor.orphans.older-then": "9d", "compactor.orphans.max-share": "2",
		"compactor.orphans.older-than": "1h"}
	err := c.CheckTable("a.b", props)
	var v Violations
	require.True(t, errors.As(err, &v))
	var got []string
	for _, one := range v {
		got = append(got, one.String())
	}
	assert.ElementsMatch(t, []string{
		`table property history.expire.max-snapshot-age-ms: expire.older_than: "a week" is not a number of milliseconds`,
		"table property compactor.orphans.older-then: unknown property; did you mean compactor.orphans.older-than?",
		"table property compactor.orphans.max-share: orphans.max_share: 2 is out of range: 0.0001 to 1",
		"table property compactor.orphans.older-than: orphans.older_than: 1h is out of range: 24h to 36500d; " + orphanFloorAs,
	}, got)
	assert.Equal(t, "3d", c.PolicyFor("a.b", props).Orphans.OlderThan.String(), "what cannot be read is left out")

	err = c.CheckTable("a.b", map[string]string{"compactor.compact.max-file-size": "1MiB"})
	require.ErrorContains(t, err, "compact.max_file_size: 1MiB is less than the target of 512MiB")
}

func TestMatchTable(t *testing.T) {
	for _, c := range []struct {
		glob, table string
		want        bool
	}{
		{"sales.*", "sales.orders", true}, {"sales.*", "sales.eu.orders", true}, {"*", "a.b", true}, {"*.big", "x/y.big", true},
		{"sales.orders", "sales.orders2", false}, {"sales.?", "sales.ab", false}, {"s[ae]les.*", "sales.x", true}, {"[", "a", false},
		{"käse.*", "käse.🧀", true},
	} {
		assert.Equal(t, c.want, MatchTable(c.glob, c.table), "%s %s", c.glob, c.table)
	}
}

func TestShowJSONIsOneDocument(t *testing.T) {
	c := mustLoad(t, source(policies))
	var b bytes.Buffer
	require.NoError(t, c.Show(&b, ShowOptions{JSON: true, Table: "sales.big"}))
	var d struct {
		Form, Path, Table string
		Values, Policy    []struct{ Key, Value, Origin string }
	}
	require.NoError(t, json.Unmarshal(b.Bytes(), &d))
	assert.Equal(t, []string{"own", "c.yaml", "sales.big"}, []string{d.Form, d.Path, d.Table})
	assert.Equal(t, "catalog.type", d.Values[0].Key)
	assert.Contains(t, d.Values, struct{ Key, Value, Origin string }{"tables[1].disabled", "true", "file c.yaml:13"})
	assert.Contains(t, d.Policy, struct{ Key, Value, Origin string }{"expire.retain_last", "3", "file c.yaml:10"})
}

// updating says whether docs/configuration.md is rewritten instead of compared.
func updating() bool { return flag.Lookup("update").Value.String() == "true" }

var _ = flag.Bool("update", false, "rewrite docs/configuration.md")

func TestReferenceIsCurrent(t *testing.T) {
	const path = "../../docs/configuration.md"
	var b bytes.Buffer
	require.NoError(t, Reference(&b))
	if updating() {
		require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, b.String(), string(have), "run go test ./internal/config -run TestReferenceIsCurrent -update")
	for _, k := range allKeys() {
		assert.Contains(t, b.String(), "`"+strings.TrimPrefix(k.name, "defaults.")+"`")
	}
}
