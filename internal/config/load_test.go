package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// env makes an environment of a map.
func env(m map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := m[name]; return v, ok }
}

// files makes a file system of a map.
func files(m map[string]string) func(string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		text, ok := m[path]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		return []byte(text), nil
	}
}

// source is a configuration file c.yaml with nothing around it.
func source(text string) Source {
	return Source{Path: "c.yaml", ReadFile: files(map[string]string{"c.yaml": text}), Env: env(nil)}
}

// mustLoad loads what has to be right.
func mustLoad(t *testing.T, s Source) *Config {
	t.Helper()
	c, err := Load(s)
	require.NoError(t, err)
	return c
}

// loadFails loads what has to be wrong and returns one violation a line.
func loadFails(t *testing.T, s Source) []string {
	t.Helper()
	_, err := Load(s)
	var v Violations
	require.ErrorAs(t, err, &v)
	out := make([]string, len(v))
	for i, one := range v {
		out[i] = one.String()
	}
	return out
}

// minimal is the least a file of the own form needs.
const minimal = "catalog:\n  uri: http://cat:8181/catalog\n  warehouse: lake\n"

func TestDefaults(t *testing.T) {
	c := mustLoad(t, source(minimal))
	assert.Equal(t, FormOwn, c.Form)
	assert.Equal(t, "rest", c.Catalog.Type)
	assert.Equal(t, Duration(time.Minute), c.Catalog.Timeout)
	assert.Equal(t, Storage{}, c.Storage)
	assert.Equal(t, Claim{Mode: "auto", Realm: "lake", Pooler: "refuse", DeadPeer: "quorum", Window: Duration(20 * time.Second),
		Timeout: Duration(10 * time.Minute), MaxHold: Duration(15 * time.Second), MaxRounds: 20}, c.Claim)
	assert.Equal(t, Policy{
		Compact: Compact{Enabled: true, TargetFileSize: 512 << 20, MinInputFiles: 5, DeleteRatioThreshold: 0.3,
			MaxGroupSize: 100 << 30, Strategy: "auto", Engine: "auto"},
		Manifests: Manifests{Enabled: true, TargetSize: 8 << 20},
		Expire:    Expire{OlderThan: Duration(5 * 24 * time.Hour), RetainLast: 1},
		Orphans:   Orphans{OlderThan: Duration(72 * time.Hour), MaxShare: 0.5},
	}, c.Defaults)
	assert.Empty(t, c.Warnings)

	byHand := Default()
	byHand.Catalog.URI = "http://cat:8181"
	require.NoError(t, byHand.Validate(), "a program can start from Default")
	assert.Equal(t, c.Defaults, byHand.PolicyFor("a.b", nil))
}

func TestEveryDefaultIsValid(t *testing.T) {
	for _, k := range allKeys() {
		ptr := k.field(&Config{})
		if k.def != "" {
			require.NoError(t, assign(ptr, k.def), k.name)
			require.NoError(t, k.check(ptr), k.name)
		}
		for _, end := range []string{k.low, k.high} {
			_, ok := k.bound(end)
			assert.Equal(t, end != "", ok, "the range of %s can be read: %q", k.name, end)
		}
		assert.True(t, strings.HasSuffix(k.doc, "."), "the doc of %s is a sentence", k.name)
	}
	for name, text := range coldFrontDefaults() {
		k := newSchema(allKeys()).keys[name]
		require.NotNil(t, k, name)
		require.NoError(t, assign(k.field(&Config{}), text))
	}
	for theirs, ours := range coldFrontKeys() {
		if ours != "" {
			assert.Contains(t, newSchema(allKeys()).keys, ours, theirs)
		}
	}
}

func TestUnknownKeysNameTheLineAndTheNearestKey(t *testing.T) {
	got := loadFails(t, source(`catalog:
  uri: http://cat:8181
  warehose: lake
catalgo: {}
claim:
  uri: http://elsewhere
  tiemout: 5m
defaults:
  compact:
    target_filesize: 1MiB
tables:
  - match: a.*
    orphans: {older_then: 80h}
    compcat: {}
`))
	assert.Equal(t, []string{
		"c.yaml:3: catalog.warehose: unknown key; did you mean catalog.warehouse?",
		"c.yaml:4: catalgo: unknown key; did you mean catalog?",
		"c.yaml:6: claim.uri: unknown key; there is catalog.uri",
		"c.yaml:7: claim.tiemout: unknown key; did you mean claim.timeout?",
		"c.yaml:10: defaults.compact.target_filesize: unknown key; did you mean defaults.compact.target_file_size?",
		"c.yaml:13: tables[0].orphans.older_then: unknown key; did you mean orphans.older_than?",
		"c.yaml:14: tables[0].compcat: unknown key; did you mean compact?",
	}, got)
}

// A key may stand in what could not be read of the file: it is not called
// missing then.
func TestWhatCouldNotBeReadIsNotCalledMissing(t *testing.T) {
	for text, want := range map[string]string{
		"catalog: [":                           "not YAML",
		"- catalog":                            "must be a mapping",
		"catalog: 5":                           "catalog",
		"catalog: {uri: [a, b]}":               "catalog.uri",
		"iceberg: 5\npostgres: {dsn: host=db}": "iceberg",
	} {
		got := loadFails(t, source(text+"\n"))
		assert.Contains(t, got[0], want, text)
		assert.NotContains(t, strings.Join(got, "\n"), "is required", text)
	}
	got := loadFails(t, source("claim: 5\n"))
	assert.Contains(t, strings.Join(got, "\n"), "catalog.uri: is required")
}

func TestAllViolationsAreReportedAtOnce(t *testing.T) {
	got := loadFails(t, source(`catalog:
  type: hive
  timeout: 1h
  uri: cat:8181
claim:
  mode: bakry
  realm: a"b
  max_hold: 100
  max_hold: 15s
storage:
  s3: {endpoint: minio, access_key_id: me, max_retries: many}
  gcs: {no_auth: perhaps}
defaults:
  orphans: {older_than: 1h, max_share: 150%}
  compact: {target_file_size: 128M, min_input_files: 1}
tables:
  - disabled: true
  - match: "a["
    compact: {min_file_size: 1GiB}
`))
	want := []string{
		"c.yaml:2: catalog.type: hive is refused: " + noCompareAndSwap,
		"c.yaml:3: catalog.timeout: 1h is out of range: 1s to 10m",
		`c.yaml:6: claim.mode: "bakry" is none of auto, coldfront, bakery, advisory, file, none; did you mean bakery?`,
		"c.yaml:7: claim.realm: must not hold a double quote, which begins the namespace in the key of a table",
		`c.yaml:8: claim.max_hold: "100" needs a unit: d, h, m, s or ms`,
		"c.yaml:9: claim.max_hold: is already given in line 8",
		"c.yaml:11: storage.s3.endpoint: minio must start with http:// or https://",
		"c.yaml:11: storage.s3.access_key_id: has no secret key beside it: set COMPACTOR_STORAGE_S3_SECRET_ACCESS_KEY or AWS_SECRET_ACCESS_KEY",
		`c.yaml:11: storage.s3.max_retries: "many" is not a whole number`,
		`c.yaml:12: storage.gcs.no_auth: "perhaps" is neither true nor false`,
		"c.yaml:14: defaults.orphans.older_than: 1h is out of range: 24h to 36500d; " + orphanFloorAs,
		"c.yaml:14: defaults.orphans.max_share: 1.5 is out of range: 0.0001 to 1",
		`c.yaml:15: defaults.compact.target_file_size: "128M" has no clear unit: write MB (powers of 1000) or MiB (powers of 1024)`,
		"c.yaml:15: defaults.compact.min_input_files: 1 is out of range: 2 to 100000",
		"c.yaml:17: tables[0]: has no match: a table or a glob such as sales.*",
		`c.yaml:18: tables[1].match: "a[" is not a glob: syntax error in pattern`,
		"c.yaml:19: tables[1].compact.min_file_size: 1GiB is more than the target of 512MiB: a rewritten file would be a candidate again",
		"storage: holds more than one of s3, azure and gcs; a table lives in one store",
	}
	assert.ElementsMatch(t, want, got)
}

func TestShapesThatAreNotAConfiguration(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"not YAML", "catalog: [", "c.yaml:1: not YAML"},
		{"a list", "- a", "c.yaml:1: the file must be a mapping"},
		{"two documents", minimal + "---\nclaim: {}\n", "more than one document"},
		{"a section that is a text", "catalog: rest\n", "c.yaml:1: catalog: must be a section"},
		{"a value that is a section", "catalog: {uri: {a: b}}\n", "c.yaml:1: catalog.uri: must be a single value"},
		{"a merge", "x: &x {mode: none}\nclaim:\n  <<: *x\n", "c.yaml:3: claim: merge keys"},
		{"tables that are no list", "tables: {match: a}\n", "c.yaml:1: tables: must be a list"},
		{"an entry that is no mapping", "tables: [a.b]\n", "c.yaml:1: tables[0]: must be a mapping"},
		{"properties that are no mapping", "catalog: {properties: a}\n", "c.yaml:1: catalog.properties: must be a mapping"},
		{"missing address", "catalog: {type: rest}\n", "catalog.uri: is required"},
		{"empty file", "", "catalog.uri: is required"},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Contains(t, strings.Join(loadFails(t, source(c.text)), "\n"), c.want)
		})
	}
}

func TestOneKindOfLogin(t *testing.T) {
	s := source(minimal + "  sigv4: true\n")
	s.Env = env(map[string]string{"COMPACTOR_CATALOG_TOKEN": "x", "COMPACTOR_CATALOG_CREDENTIAL": "y"})
	assert.Equal(t, []string{
		"c.yaml:4: catalog.sigv4: is given beside a token or a credential; requests carry one kind of signature",
		"environment COMPACTOR_CATALOG_TOKEN: catalog.token: is given beside catalog.credential; give one of the two",
	}, loadFails(t, s))
	assert.Equal(t, []string{"c.yaml:1: catalog.sigv4: belongs to catalog.type rest; a glue catalog does not use it"},
		loadFails(t, source("catalog: {type: glue, sigv4: true}\n")))
	assert.Equal(t, []string{"c.yaml:1: catalog.uri: must not hold a user or a password"},
		loadFails(t, source("catalog: {uri: \"http://me:hush@cat\"}\n")))
}

func TestSectionsWithoutValuesCountAsAbsent(t *testing.T) {
	c := mustLoad(t, source(minimal+"storage:\n  s3:\nclaim:\ndefaults:\n  expire:\n    older_than:\ntables:\n"))
	assert.Nil(t, c.Storage.S3)
	assert.Equal(t, "default", c.Origin("defaults.expire.older_than").String())

	c = mustLoad(t, source(minimal+"storage:\n  s3: {}\n"))
	require.NotNil(t, c.Storage.S3)
	assert.Equal(t, 4, c.Storage.S3.MaxRetries)
}

func TestAliasesAreFollowed(t *testing.T) {
	c := mustLoad(t, source(minimal+"defaults:\n  expire: {older_than: &age 9d}\n  orphans: {older_than: *age}\n"))
	assert.Equal(t, "9d", c.Defaults.Orphans.OlderThan.String())
}

func TestPrecedence(t *testing.T) {
	s := source(minimal + "claim:\n  timeout: 2m\n  window: 30s\n  max_hold: 9s\n")
	s.Env = env(map[string]string{"COMPACTOR_CLAIM_TIMEOUT": "3m", "COMPACTOR_CLAIM_WINDOW": "40s", "COMPACTOR_CLAIM_DIR": ""})
	s.Flags = map[string]string{"claim.timeout": "4m", "claim.max_rounds": "7"}
	s.FlagNames = map[string]string{"claim.timeout": "wait"}
	c := mustLoad(t, s)
	for key, want := range map[string][2]string{
		"claim.timeout":    {"4m", "flag --wait"},
		"claim.window":     {"40s", "environment COMPACTOR_CLAIM_WINDOW"},
		"claim.max_hold":   {"9s", "file c.yaml:7"},
		"claim.max_rounds": {"7", "flag --claim-max-rounds"},
		"claim.dir":        {"", "default"},
		"claim.realm":      {"lake", "default, from catalog.warehouse"},
	} {
		assert.Equal(t, want, [2]string{value(c, key), c.Origin(key).String()}, key)
	}
}

// value returns an effective value as Show prints it.
func value(c *Config, key string) string {
	for _, e := range c.Entries() {
		if e.Key == key {
			return e.Value
		}
	}
	return "(no such key)"
}

func TestUnknownFlagKeyIsAViolation(t *testing.T) {
	s := source(minimal)
	s.Flags = map[string]string{"claim.tmeout": "1m"}
	assert.Equal(t, []string{"flag --claim-tmeout: claim.tmeout: unknown key; did you mean claim.timeout?"}, loadFails(t, s))
}

func TestWithoutAFileTheEnvironmentIsEnough(t *testing.T) {
	c := mustLoad(t, Source{Env: env(map[string]string{
		"COMPACTOR_CATALOG_URI": "http://cat:8181", "COMPACTOR_CATALOG_CREDENTIAL": "id:pw",
		"COMPACTOR_CATALOG_PROPERTIES": "prefix=p, header.x=y", "COMPACTOR_DEFAULTS_COMPACT_TARGET_FILE_SIZE": "1GiB",
		"COMPACTOR_STORAGE_S3_ENDPOINT": "http://minio:9000", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key"})})
	assert.Equal(t, S3{Endpoint: "http://minio:9000", Region: "us-east-1", AccessKeyID: "id", SecretAccessKey: "key", MaxRetries: 4}, *c.Storage.S3,
		"one of our names makes the section, and then the standard names count")
	assert.Equal(t, URL("http://cat:8181"), c.Catalog.URI)
	assert.Equal(t, "id:pw", c.Catalog.Credential.Reveal())
	assert.Equal(t, Properties{"prefix": "p", "header.x": "y"}, c.Catalog.Properties)
	assert.Equal(t, Size(1<<30), c.Defaults.Compact.TargetFileSize)
	assert.Equal(t, "default", c.Claim.Realm, "the realm follows the catalog's name where there is no warehouse")
}

func TestAMissingFileIsAPlainError(t *testing.T) {
	_, err := Load(Source{Path: filepath.Join(t.TempDir(), "none.yaml")})
	require.ErrorIs(t, err, fs.ErrNotExist)
	var v Violations
	assert.False(t, errors.As(err, &v))
}

func TestClaimRequirementsAreSeparate(t *testing.T) {
	c := mustLoad(t, source(minimal))
	require.ErrorContains(t, c.ValidateClaim(), "claim.postgres: is required in claim mode auto")
	c.Claim.Mode = "file"
	require.ErrorContains(t, c.ValidateClaim(), "claim.dir: is required")
	c.Claim.Dir = "/run/claims"
	require.NoError(t, c.ValidateClaim())
	c.Claim = Claim{Mode: "none"}
	require.NoError(t, c.ValidateClaim())

	none := mustLoad(t, source(minimal+"claim: {mode: none}\n"))
	require.Len(t, none.Warnings, 1)
	assert.Contains(t, none.Warnings[0], "takes no claim")
}

func TestExamplesLoad(t *testing.T) {
	environment := map[string]map[string]string{
		"coldfront.yaml":        nil,
		"lakekeeper-minio.yaml": {"COMPACTOR_CATALOG_CREDENTIAL": "id:pw", "COMPACTOR_STORAGE_S3_SECRET_ACCESS_KEY": "minio-secret"},
		"aws.yaml":              {"AWS_REGION": "eu-central-1"},
		"embedded.yaml":         nil,
	}
	examples, err := filepath.Glob("../../configs/*.yaml")
	require.NoError(t, err)
	require.Len(t, examples, len(environment), "every example is tested here")
	seen := map[string]*Config{}
	for _, path := range examples {
		c, err := Load(Source{Path: path, Env: env(environment[filepath.Base(path)])})
		require.NoError(t, err, path)
		require.NoError(t, c.ValidateClaim(), path)
		assert.Empty(t, c.Warnings, path)
		seen[filepath.Base(path)] = c
	}
	for name, want := range map[string]struct {
		form              Form
		kind, mode, realm string
	}{
		"coldfront.yaml":        {FormColdFront, "rest", "coldfront", "cold"},
		"lakekeeper-minio.yaml": {FormOwn, "rest", "advisory", "lake"},
		"aws.yaml":              {FormOwn, "glue", "advisory", "example-lake"},
		"embedded.yaml":         {FormOwn, "sql", "file", "local"},
	} {
		c := seen[name]
		require.NotNil(t, c, name)
		assert.Equal(t, want.form, c.Form, name)
		assert.Equal(t, []string{want.kind, want.mode, want.realm}, []string{c.Catalog.Type, c.Claim.Mode, c.Claim.Realm}, name)
	}
	assert.Equal(t, "eu-central-1", seen["aws.yaml"].Storage.S3.Region)
	assert.Equal(t, "eu-central-1", seen["aws.yaml"].Catalog.SigningRegion)
	assert.True(t, seen["lakekeeper-minio.yaml"].Disabled("sales.orders_archive", nil))
	assert.Equal(t, "30d", seen["lakekeeper-minio.yaml"].PolicyFor("sales.orders", nil).Expire.OlderThan.String())
}

// TestTheAlternativeInTheAWSExampleLoads takes the commented catalog section
// of the example in place of the other one.
func TestTheAlternativeInTheAWSExampleLoads(t *testing.T) {
	text, err := os.ReadFile("../../configs/aws.yaml")
	require.NoError(t, err)
	var out []string
	for _, line := range strings.Split(string(text), "\n") {
		switch {
		case strings.HasPrefix(line, "# catalog:"), strings.HasPrefix(line, "#   ") && strings.Contains(line, ": ") && !strings.Contains(line, "AWS_"):
			out = append(out, strings.TrimPrefix(line, "# "))
		case strings.HasPrefix(line, "catalog:"), line == "  type: glue", strings.HasPrefix(line, "  warehouse: s3:"):
		default:
			out = append(out, line)
		}
	}
	c := mustLoad(t, source(strings.Join(out, "\n")))
	assert.True(t, c.Catalog.SigV4)
	assert.Equal(t, "s3tables", c.Catalog.SigningName)
	assert.Equal(t, "rest", c.Catalog.Type)
}
