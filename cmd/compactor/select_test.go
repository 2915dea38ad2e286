package main

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/store"
	"compactor/pkg/claim"
)

func itoa[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

func acquireNow() claim.AcquireOptions { return claim.AcquireOptions{} }

func writeText(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestWhichTablesACommandLineSelects(t *testing.T) {
	t.Parallel()
	store.Register()
	config, _ := embedded(t, "sales.orders", "sales.items", "sales.eu.orders", "hr.people", `hr."odd.name"`, `hr."star*"`)
	w := &world{t: t, env: map[string]string{}, config: config}
	for _, c := range []struct {
		args []string
		want []string // nil: the command line is refused
		says string
	}{
		{args: []string{"sales.orders"}, want: []string{"sales.orders"}},
		{args: []string{"sales.*"}, want: []string{"sales.eu.orders", "sales.items", "sales.orders"}},
		{args: []string{"sales.?????s"}, want: []string{"sales.orders"}},
		{args: []string{"*.orders", "sales.orders"}, want: []string{"sales.eu.orders", "sales.orders"}},
		{args: []string{"sales.eu.*"}, want: []string{"sales.eu.orders"}},
		{args: []string{"[gh]r.p*"}, want: []string{"hr.people"}},
		{args: []string{`hr."star*"`}, want: []string{`hr."star*"`}},
		{args: []string{`hr."odd.name"`, "hr.odd*"}, want: []string{`hr."odd.name"`}},
		{args: []string{"--all", "--exclude", "sales.*"}, want: []string{`hr."odd.name"`, `hr."star*"`, "hr.people"}},
		{args: []string{"--exclude", "*.orders", "--exclude", "hr.*", "--all"}, want: []string{"sales.items"}},
		{args: []string{"--all"}, want: []string{`hr."odd.name"`, `hr."star*"`, "hr.people", "sales.eu.orders", "sales.items", "sales.orders"}},
		{args: []string{"sales.*", "nowhere.*"}, says: `"nowhere.*" matches no table`},
		{args: []string{"sales.*", "--exclude", "sales.*"}, says: "--exclude leaves none of the 3 tables"},
		{args: []string{"--all", "sales.orders"}, says: "--all stands for every table"},
		{args: []string{"sales.[a"}, says: "is not a glob"},
		{args: []string{"--all", "--exclude", "sales.[a"}, says: "--exclude: "},
		{args: []string{"sales..*"}, says: "an empty name"},
		{args: []string{"orders"}, says: "has no namespace"},
		{args: []string{}, says: "or say --all"},
		{args: []string{"--all", "--parallel", "0"}, says: "--parallel 0: use 1 or more"},
		{args: []string{"--all", "--max-duration", "0s"}, says: "--max-duration"},
		{args: []string{"--all", "--rate-limit", "-1"}, says: "--rate-limit -1"},
		{args: []string{"--all", "--bandwidth", "1"}, says: "--bandwidth \"1\": use 1MiB or more"},
		{args: []string{"--all", "--bandwidth", "fast"}, says: "--bandwidth \"fast\""},
	} {
		r := w.compactor(append([]string{"expire", "--config", config, "-o", "json"}, c.args...)...)
		if c.want == nil {
			require.Equal(t, 2, r.code, "%v: %s", c.args, r.stderr)
			require.Contains(t, r.stderr, c.says, "%v", c.args)

			continue
		}
		require.Equal(t, 0, r.code, "%v: %s", c.args, r.stderr)
		require.Equal(t, c.want, slices.Sorted(maps.Keys(r.fleet(t).codes())), "%v", c.args)
	}
}

func TestAnEmptyCatalogIsNotAllRight(t *testing.T) {
	t.Parallel()
	store.Register()
	config, _ := embedded(t)
	w := &world{t: t, env: map[string]string{}}
	r := w.compactor("run", "--config", config, "--all")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.stderr, "the catalog has no tables")
}

// Only namespaces that can hold a match are listed.
func TestNamespacesThatCannotMatchAreNotListed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		glob string
		ns   table.Identifier
		want bool
	}{
		{"*", table.Identifier{"a"}, true},
		{"sales.*", table.Identifier{"sales"}, true},
		{"sales.*", table.Identifier{"sales", "eu"}, true},
		{"sales.*", table.Identifier{"sales2"}, false},
		{"sales*", table.Identifier{"sales2"}, true},
		{"sales.eu.*", table.Identifier{"sales"}, true},
		{"sales.eu.*", table.Identifier{"sales", "us"}, false},
		{"*.orders", table.Identifier{"hr"}, true},
		{`od\*d.*`, table.Identifier{"od*d"}, true},
	} {
		require.Equal(t, c.want, anyWithin([]string{c.glob}, c.ns), "%s in %v", c.glob, c.ns)
	}
}
