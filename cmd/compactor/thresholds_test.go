package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
)

func setProps(t *testing.T, tbl *table.Table, kv ...string) {
	t.Helper()
	p := iceberg.Properties{}
	for i := 0; i+1 < len(kv); i += 2 {
		p[kv[i]] = kv[i+1]
	}
	tx := tbl.NewTransaction()
	require.NoError(t, tx.SetProperties(p))
	_, err := tx.Commit(t.Context())
	require.NoError(t, err)
}

// Thresholds of the policy, from the file and from the table's properties,
// decide whether a step of a run begins; a step asked for by name begins.
func TestThresholdsDecideWhetherAStepRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.writeConfig("advisory", "defaults: {expire: {enabled: true, older_than: 0s, when_snapshots: 5}, manifests: {when_manifests: 6}}\n")
	tbl := tabletest.Fragment(t, w.create(props("compactor.compact.when-small-files", "5", "compactor.compact.min-input-files", "2")), 4, 10)
	tbl = tabletest.DeleteWhere(t, tbl, iceberg.LessThan(iceberg.Reference("id"), int64(2)))
	rows := tabletest.Rows(t, tbl)
	require.Len(t, rows, 38)
	run := func(command string) map[string]string {
		t.Helper()
		r := w.do(command)
		require.Equal(t, 0, r.code, r.stderr)
		out := map[string]string{}
		for _, s := range r.steps(t) {
			out[s.Step] = s.Status + ": " + s.Reason
		}

		return out
	}
	setProps(t, w.load(), "compactor.expire.when-snapshots", "1") // The file is stronger.
	snapshots := len(w.load().Metadata().Snapshots())
	require.Equal(t, 5, snapshots)
	w.writeConfig("advisory", "defaults: {expire: {enabled: true, older_than: 0s, when_snapshots: 6}, manifests: {when_manifests: 6}}\n")
	out := run("run")
	require.Equal(t, "nothing-to-do: the policy asks for it from 5 small files (there are 4) on", out["compact"])
	require.Equal(t, "nothing-to-do: the policy asks for it from 6 manifests on, there are 5", out["manifests"])
	require.Equal(t, "nothing-to-do: the policy asks for it from 6 snapshots on, there are 5", out["expire"])
	require.Zero(t, w.commits())

	setProps(t, w.load(), "compactor.compact.when-delete-share", "5%")
	out = run("run")
	require.True(t, strings.HasPrefix(out["compact"], "done: "), "2 of 40 rows are deleted: %s", out["compact"])
	require.True(t, strings.HasPrefix(out["expire"], "done: "), out["expire"])
	require.Equal(t, rows, tabletest.Rows(t, w.load()))

	tabletest.FragmentAtOnce(t, w.load(), 6, 1)
	setProps(t, w.load(), "compactor.compact.interval", "1d")
	require.Contains(t, run("run")["compact"], "nothing-to-do: the policy asks for it every 24h0m0s, the last was at 20")
	w.now = func() time.Time { return time.Now().Add(25 * time.Hour) }
	require.NotContains(t, run("run")["compact"], "every")
	w.now = nil
	tabletest.FragmentAtOnce(t, w.load(), 6, 1)
	require.True(t, strings.HasPrefix(run("compact")["compact"], "done: "), "asked for by name")
}

// config show names the origin of every value of one table's policy.
func TestConfigShowOfOneTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(props("compactor.compact.when-small-files", "7", "write.target-file-size-bytes", "1048576", "history.expire.min-snapshots-to-keep", "3"))
	w.writeConfig("advisory", "defaults: {expire: {retain_last: 2}}\ntables: [{match: '"+w.lake.Namespace+".*', compact: {min_input_files: 9}}]\n")
	r := w.compactor("config", "show", "--config", w.config, "-o", "json", "--table", w.name(), "--target-file-size", "2MiB")
	require.Equal(t, 0, r.code, r.stderr)
	var doc struct {
		Table  string
		Policy []struct{ Key, Value, Origin string }
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &doc))
	require.Equal(t, w.name(), doc.Table)
	got := map[string]string{}
	for _, e := range doc.Policy {
		got[e.Key] = e.Value + " from " + strings.ReplaceAll(e.Origin, w.config, "F")
	}
	require.Equal(t, "7 from table property compactor.compact.when-small-files", got["compact.when_small_files"])
	require.Equal(t, "2MiB from flag --target-file-size", got["compact.target_file_size"])
	require.Equal(t, "9 from file F:14", got["compact.min_input_files"])
	require.Equal(t, "2 from file F:13", got["expire.retain_last"])
	require.Equal(t, "0.3 from default", got["compact.delete_ratio_threshold"])

	setProps(t, w.load(), "compactor.compact.when-smal-files", "7")
	r = w.compactor("config", "show", "--config", w.config, "--table", w.name())
	require.Equal(t, 2, r.code)
	require.Contains(t, r.stderr, "did you mean compactor.compact.when-small-files?")
	require.Contains(t, r.stdout, "POLICY OF "+w.name())
	r = w.compactor("config", "show", "--config", w.config, "--table", w.ident[0]+".missing")
	require.Equal(t, 1, r.code)
}
