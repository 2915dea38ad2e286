package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
	"compactor/pkg/claim/claimtest"
)

// coldFrontWorld is a world of a ColdFront operator: its deployment file, its
// extension in the database, a catalog below /catalog as Lakekeeper serves it,
// and a table in schema public.
func coldFrontWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.ident = table.Identifier{"public", "t_" + w.lake.Namespace}
	claimtest.InstallColdFront(t, w.db.DSN)
	catalog, err := url.Parse(w.catalog.URL)
	require.NoError(t, err)
	lakekeeper := httptest.NewServer(http.StripPrefix("/catalog", httputil.NewSingleHostReverseProxy(catalog)))
	t.Cleanup(lakekeeper.Close)
	s3, err := url.Parse(w.s3.URL)
	require.NoError(t, err)
	text := fmt.Sprintf(`postgres:
  dsn: %q
iceberg:
  warehouse: %q
  lakekeeper_endpoint: %s
  namespace: public
s3:
  endpoint: %s
  region: %s
  access_key: %q
  secret_key: %q
  use_ssl: false
  url_style: path
archiver:
  tables:
    - source_table: events
      partition_period: daily
`, w.db.DSN, w.lake.Warehouse, lakekeeper.URL, s3.Host, w.lake.Region, w.lake.AccessKey, w.lake.SecretKey)
	w.config = filepath.Join(t.TempDir(), "deploy.yaml")
	require.NoError(t, os.WriteFile(w.config, []byte(text), 0o600))
	// The test's catalog wants a login, which Lakekeeper without authentication does not.
	w.env = map[string]string{"COMPACTOR_CATALOG_CREDENTIAL": w.lake.AccessKey + ":" + w.lake.SecretKey}

	return w
}

// bare is the table's name as an operator types it.
func (w *world) bare() string { return w.ident[1] }

// grep is what a script finds of a pattern in the whole output, or "".
func (r result) grep(pattern string) string {
	return regexp.MustCompile(pattern).FindString(r.stderr + r.stdout)
}

func TestColdFrontCommandLineCompacts(t *testing.T) {
	t.Parallel()
	w := coldFrontWorld(t)
	tbl := tabletest.FragmentAtOnce(t, w.create(props(table.WriteTargetFileSizeBytesKey, "4096")), 12, 10)
	rows := tabletest.Rows(t, tbl)

	// A dry run tells scripts of groups, with one dash or two, and changes nothing.
	w.env["COMPACTOR_CLAIM_POSTGRES"] = "postgres://nobody@127.0.0.1:1/none"
	for _, args := range [][]string{
		{"--config", w.config, "--table", w.bare(), "--dry-run"},
		{"-config", w.config, "-table", "public." + w.bare(), "-dry-run"},
		{"-dry-run=true", "--table=" + w.bare(), "-config=" + w.config},
	} {
		r := w.compactor(args...)
		require.Equal(t, 0, r.code, r.stderr)
		require.NotEmpty(t, r.grep(`12 file\(s\) in 1 group\(s\)`), r.stdout)
		require.Empty(t, r.grep("nothing to compact"), r.stdout)
		require.Contains(t, r.stdout, w.name())
	}
	require.Zero(t, w.commits())
	delete(w.env, "COMPACTOR_CLAIM_POSTGRES")

	r := w.compactor("--config", w.config, "--table", w.bare())
	require.Equal(t, 0, r.code, r.stdout+r.stderr)
	require.NotEmpty(t, r.grep(`compacted 12 file\(s\) in 1 group\(s\) into 1\n`), r.stdout)
	after := w.load()
	require.Len(t, tabletest.Files(t, after), 1, "the target is 128 MiB, whatever the table says")
	require.Equal(t, rows, tabletest.Rows(t, after))
	require.Equal(t, 1, w.commits())

	for _, flags := range [][]string{{"--dry-run"}, nil} {
		r = w.compactor(append([]string{"--config", w.config, "--table", w.bare()}, flags...)...)
		require.Equal(t, 0, r.code, r.stderr)
		require.NotEmpty(t, r.grep("nothing to compact"), r.stdout)
		require.Empty(t, r.grep(`group\(s\)`), r.stdout)
	}
	require.Equal(t, 1, w.commits())
}

// The claim is the one that ColdFront's writers take.
func TestColdFrontCommandLineTakesColdFrontsClaim(t *testing.T) {
	t.Parallel()
	w := coldFrontWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 6, 10)
	conn := w.db.Conn(t)
	_, err := conn.Exec(t.Context(), `BEGIN; SELECT coldfront._claim_iceberg_external('`+w.key().ColdFront("")+`')`)
	require.NoError(t, err)
	args := []string{"--config", w.config, "--table", w.bare(), "--claim-timeout", "500ms"}
	r := w.compactor(args...)
	require.Equal(t, 10, r.code, r.stderr)
	require.NotEmpty(t, r.grep("NOT compacted"), r.stdout)
	_, err = conn.Exec(t.Context(), "COMMIT")
	require.NoError(t, err)
	require.Equal(t, 0, w.compactor(args...).code)
	require.Equal(t, 1, w.commits())
}

func TestColdFrontCommandLineTarget(t *testing.T) {
	t.Parallel()
	w := coldFrontWorld(t)
	tbl := w.create()
	for i := range 5 {
		tbl = tabletest.Append(t, tbl, bigRows(20_000*i, 20_000))
	}
	r := w.compactor("--config", w.config, "--table", w.bare(), "--target-size-mb", "1", "--dry-run", "--output", "json")
	require.Equal(t, 0, r.code, r.stderr)
	small := r.step(t).Plan.Groups
	r = w.compactor("--config", w.config, "--table", w.bare(), "--dry-run", "--output", "json")
	require.Equal(t, 0, r.code, r.stderr)
	large := r.step(t).Plan.Groups
	outputs := 0
	for _, g := range small {
		outputs += g.Outputs
	}
	require.Greater(t, outputs, 1)
	require.Len(t, large, 1)
	require.Equal(t, 1, large[0].Outputs)
}

func TestColdFrontCommandLineMistakes(t *testing.T) {
	t.Parallel()
	w := coldFrontWorld(t)
	own := filepath.Join(t.TempDir(), "own.yaml")
	require.NoError(t, os.WriteFile(own, []byte("catalog: {uri: 'http://127.0.0.1:1'}\nclaim: {mode: none}\n"), 0o600))
	both := []string{"--config", w.config, "--table", w.bare()}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no config":            {[]string{"--table", w.bare()}, "--config is missing"},
		"empty config":         {[]string{"--config", "", "--table", w.bare()}, "--config is missing"},
		"no table":             {[]string{"--config", w.config}, "--table is missing"},
		"empty table":          {[]string{"--config", w.config, "--table="}, "--table is missing"},
		"flags alone":          {[]string{"--dry-run"}, "--config is missing"},
		"config not there":     {[]string{"--config", w.config + "x", "--table", w.bare()}, "no such file"},
		"own form":             {[]string{"--config", own, "--table", w.bare()}, "not a deployment file of ColdFront"},
		"two levels":           {[]string{"--config", w.config, "--table", "a.b.c"}, "[schema.]name"},
		"empty schema":         {[]string{"--config", w.config, "--table", ".c"}, "empty name"},
		"stray word":           {append(slices.Clone(both), "events"), `unknown command "events"`},
		"unknown flag":         {append(slices.Clone(both), "--vacuum"), "vacuum"},
		"target of nothing":    {append(slices.Clone(both), "--target-size-mb", "0"), "target-size-mb"},
		"empty age":            {append(slices.Clone(both), "--expire-older-than="), "--expire-older-than has an empty value"},
		"target in words":      {append(slices.Clone(both), "--target-size-mb", "much"), "target-size-mb"},
		"a command too":        {append(slices.Clone(both), "compact"), "which has no COMMAND"},
		"its flag and command": {[]string{"--orphans", "compact", w.name()}, "--orphans belongs to ColdFront"},
		"after a command":      {[]string{"compact", "--config", w.config, "--table", w.bare()}, "table"},
	} {
		r := w.compactor(c.args...)
		require.Equal(t, 2, r.code, "%s: %s", name, r.stderr)
		require.Contains(t, r.stderr, c.says, name)
	}
	require.Empty(t, w.catalog.Requests(), "nothing was connected to")
	require.Equal(t, 1, w.compactor("--config", w.config, "--table", w.bare()+"_none").code)
}

func TestColdFrontCommandLineVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, args := range [][]string{{"--version"}, {"-version"}, {"--version", "--table", "t"}} {
		r := w.compactor(args...)
		require.Equal(t, 0, r.code, r.stderr)
		require.Regexp(t, `^compactor \S+ .*\n$`, r.stdout)
	}
	help := w.compactor("--help").stdout
	for _, f := range coldFrontFlags() {
		require.True(t, strings.Contains(help, "--"+f.Names()[0]), f.Names()[0])
	}
}

func TestColdFrontCommandLineOrphans(t *testing.T) {
	t.Parallel()
	w := coldFrontWorld(t)
	tbl := tabletest.FragmentAtOnce(t, w.create(), 6, 10)
	rows := tabletest.Rows(t, tbl)
	var strays []string
	for i := range 3 {
		strays = append(strays, fmt.Sprintf("%s/data/stray-%d.parquet", tbl.Location(), i))
	}
	w.put(strays...)
	live := slices.DeleteFunc(w.objects(), func(o string) bool { return slices.Contains(strays, o) })
	w.ageEverything()
	run := func(flags ...string) result {
		return w.compactor(append([]string{"--config", w.config, "--table", w.bare()}, flags...)...)
	}
	r := run("--orphans", "--dry-run")
	require.Equal(t, 0, r.code, r.stderr)
	require.Equal(t, "3 orphan", r.grep(`[0-9]+ orphan`), r.stdout)
	require.NotEmpty(t, r.grep(`6 file\(s\) in 1 group\(s\) to compact`), r.stdout)
	require.Len(t, w.objects(), len(live)+len(strays), "a dry run deletes nothing")

	r = run("--orphans", "--orphan-age", "240000h", "--dry-run")
	require.Equal(t, 0, r.code, r.stderr)
	require.Equal(t, "0 orphan", r.grep(`[0-9]+ orphan`), r.stdout)
	r = run("--orphans", "--orphan-age", "0s")
	require.Equal(t, 2, r.code, r.stderr)
	require.Contains(t, r.stderr, "orphan-age")
	r = run("--orphan-age", "0s", "--dry-run")
	require.Equal(t, 0, r.code, "without --orphans its age has no meaning: %s", r.stderr)

	r = run("--orphans")
	require.Equal(t, 0, r.code, r.stdout+r.stderr)
	require.NotEmpty(t, r.grep(`3 orphan\(s\) deleted, 0 failed, 0 left`), r.stdout)
	left := w.objects()
	for _, o := range live {
		require.Contains(t, left, o, "what a snapshot references stays, also after the compaction")
	}
	for _, o := range strays {
		require.NotContains(t, left, o)
	}
	require.Equal(t, rows, tabletest.Rows(t, w.load()))
	r = run("--orphans", "--dry-run")
	require.Equal(t, "0 orphan", r.grep(`[0-9]+ orphan`), r.stdout)
	require.NotEmpty(t, r.grep("nothing to compact"), r.stdout)
}

// A table that may not be compacted is still cleaned, as ColdFront does; the exit
// code says that something was refused.
func TestColdFrontCommandLineRefusedTable(t *testing.T) {
	t.Parallel()
	w := coldFrontWorld(t)
	tbl := tabletest.FragmentAtOnce(t, w.create(props("coldfront.sort-key", "no_such_column")), 6, 10)
	stray := tbl.Location() + "/data/stray.parquet"
	w.put(stray)
	w.ageEverything()
	r := w.compactor("--config", w.config, "--table", w.bare(), "--orphans")
	require.Equal(t, 3, r.code, r.stdout+r.stderr)
	require.NotEmpty(t, r.grep("NOT compacted: .*sort"), r.stdout)
	require.NotEmpty(t, r.grep(`1 orphan\(s\) deleted`), r.stdout)
	require.NotContains(t, w.objects(), stray)
}

func TestColdFrontCommandLineExpires(t *testing.T) {
	t.Parallel()
	w := coldFrontWorld(t)
	tbl := w.create()
	for i := range 6 {
		tbl = tabletest.Append(t, tbl, tabletest.IDs(10*i, 10))
	}
	rows := tabletest.Rows(t, tbl)
	run := func(flags ...string) result {
		t.Helper()
		r := w.compactor(append([]string{"--config", w.config, "--table", w.bare()}, flags...)...)
		require.Equal(t, 0, r.code, r.stdout+r.stderr)

		return r
	}
	snapshots := func() int { return len(w.load().Metadata().Snapshots()) }
	firstNumber := `[0-9]+ snapshot`

	require.Equal(t, "6 snapshot", run("--expire-snapshots", "--dry-run").grep(firstNumber), "the default of 168 h expires nothing")
	r := run("--expire-snapshots", "--expire-older-than", "0s", "--expire-retain-last", "2", "--dry-run")
	require.Equal(t, "6 snapshot", r.grep(firstNumber), r.stdout)
	require.Contains(t, r.stdout, "4 to expire, 2 to keep")
	require.Equal(t, 6, snapshots())

	// Compaction adds one, then all but the newest expire; their files stay.
	r = run("--expire-snapshots", "--expire-older-than", "0s", "--expire-keep-files")
	require.Contains(t, r.stdout, "6 snapshot(s) expired, 1 kept; 0 file(s) deleted")
	require.Equal(t, 1, snapshots())
	require.Len(t, w.dataObjects(), 7)
	require.Equal(t, "1 snapshot", run("--expire-snapshots", "--dry-run").grep(firstNumber))
	require.Equal(t, rows, tabletest.Rows(t, w.load()))

	// The files are orphans now, which the other step takes.
	w.ageEverything()
	r = run("--orphans", "--max-hold", "0")
	require.NotEqual(t, "0 orphan", r.grep(`[0-9]+ orphan`), r.stdout)
	require.Len(t, w.dataObjects(), 1)
	require.Equal(t, rows, tabletest.Rows(t, w.load()))

	// Without keep-files an expiry deletes them itself. A flag of it alone does nothing.
	for i := range 5 {
		tabletest.Append(t, w.load(), tabletest.IDs(100+10*i, 10))
	}
	before := snapshots()
	run("--expire-older-than", "0s", "--dry-run")
	run("--expire-older-than", "0s", "--expire-keep-files")
	require.Equal(t, before+1, snapshots(), "only a compaction")
	run("--expire-snapshots", "--expire-older-than", "0s")
	require.Equal(t, 1, snapshots())
	require.Len(t, w.dataObjects(), 1)
}

func TestColdFrontCommandLineDisabledTable(t *testing.T) {
	t.Parallel()
	w := coldFrontWorld(t)
	tabletest.FragmentAtOnce(t, w.create(props("compactor.disabled", "true")), 6, 10)
	r := w.compactor("--config", w.config, "--table", w.bare(), "--expire-snapshots", "--expire-older-than", "0s", "--orphans")
	require.Equal(t, 0, r.code, r.stderr)
	require.Contains(t, r.stdout, "nothing to compact: ")
	require.Contains(t, r.stdout, "NOT expired: ")
	require.Contains(t, r.stdout, "compactor.disabled")
	require.Zero(t, w.commits())
}
