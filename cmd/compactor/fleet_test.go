package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	icebergcatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"compactor/internal/tabletest"
	"compactor/pkg/claim"
	"compactor/pkg/maintenance"
)

// filesEach is how many small files the tables of a fleet begin with.
const filesEach = 6

// fleet is many small tables in five namespaces, one of them inside another.
type fleet struct {
	*world
	idents []table.Identifier
	rows   map[string][]string
}

func newFleet(t *testing.T, tables int) *fleet {
	t.Helper()
	f := &fleet{world: newWorld(t), rows: map[string][]string{}}
	root := f.lake.Namespace
	namespaces := []table.Identifier{{root}, {root, "deep"}, {root + "_b"}, {root + "_c"}, {root + "_d"}}
	for i := range tables {
		f.idents = append(f.idents, append(slices.Clone(namespaces[i%len(namespaces)]), fmt.Sprintf("t%03d", i)))
	}
	var mu sync.Mutex
	var work errgroup.Group
	work.SetLimit(8)
	for _, ns := range namespaces { // One after the other: the second lies in the first.
		require.NoError(t, f.direct.Client().CreateNamespace(f.direct.Context(context.Background()), ns, nil))
	}
	for i, ident := range f.idents {
		work.Go(func() error {
			var opts []icebergcatalog.CreateTableOpt
			if i == refusedTable {
				opts = append(opts, props("coldfront.sort-key", "no_such_column"))
			}
			tbl := tabletest.Create(f.direct.Context(context.Background()), t, f.direct.Client(), ident, tabletest.Schema(), opts...)
			tbl, err := f.direct.LoadTable(context.Background(), tbl.Identifier())
			if err != nil {
				return err
			}
			rows := tabletest.Rows(t, tabletest.FragmentAtOnce(t, tbl, filesEach, i+1))
			mu.Lock()
			defer mu.Unlock()
			f.rows[strings.Join(ident, ".")] = rows

			return nil
		})
	}
	require.NoError(t, work.Wait())

	return f
}

// Tables of a fleet that are broken on purpose.
const (
	refusedTable = 3
	missingTable = 7
	heldTable    = 11
)

func (f *fleet) nameOf(i int) string { return strings.Join(f.idents[i], ".") }

// glob matches the fleet and nothing else.
func (f *fleet) glob() string { return f.lake.Namespace + "*" }

// fleetDoc is what tests look at in the report of many tables.
type fleetDoc struct {
	ExitCode int `json:"exit_code"`
	Tables   []struct {
		Table    string             `json:"table"`
		Status   maintenance.Status `json:"status"`
		ExitCode int                `json:"exit_code"`
		Error    string             `json:"error"`
		Reason   string             `json:"reason"`
		Steps    []stepDoc          `json:"steps"`
	} `json:"tables"`
}

func (r result) fleet(t *testing.T) fleetDoc {
	t.Helper()
	var doc fleetDoc
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &doc), "stdout: %s\nstderr: %s", r.stdout, r.stderr)
	validReport(t, r.stdout)

	return doc
}

func (d fleetDoc) codes() map[string]int {
	out := map[string]int{}
	for _, t := range d.Tables {
		out[t.Table] = t.ExitCode
	}

	return out
}

// holdTable takes the claim of a table as another writer does, until the test
// gives it back.
func (f *fleet) holdTable(i int) (release func()) {
	f.t.Helper()
	ident := f.idents[i]
	key := claim.Key{Realm: f.realm(), Namespace: ident[:len(ident)-1], Table: ident[len(ident)-1]}
	held, err := f.openClaimer().Acquire(context.Background(), key, claim.AcquireOptions{})
	require.NoError(f.t, err)

	return func() { require.NoError(f.t, held.Release(context.Background())) }
}

// spoil makes the table's metadata unreadable for the program.
func (f *fleet) spoil(i int) {
	f.t.Helper()
	tbl, err := f.direct.LoadTable(context.Background(), f.idents[i])
	require.NoError(f.t, err)
	fio, err := tbl.FS(context.Background())
	require.NoError(f.t, err)
	require.NoError(f.t, fio.Remove(tbl.CurrentSnapshot().ManifestList))
	require.NoError(f.t, fio.Remove(tbl.MetadataLocation()))
}

// checkRows compares every row of a table, and how many files hold them.
func (f *fleet) checkRows(i, files int) {
	f.t.Helper()
	tbl, err := f.direct.LoadTable(context.Background(), f.idents[i])
	require.NoError(f.t, err)
	require.Equal(f.t, f.rows[f.nameOf(i)], tabletest.Rows(f.t, tbl), f.nameOf(i))
	require.Len(f.t, tabletest.Files(f.t, tbl), files, f.nameOf(i))
}

// testFleet maintains a fleet with three tables broken on purpose.
func testFleet(t *testing.T, tables int) {
	f := newFleet(t, tables)
	f.spoil(missingTable)
	release := f.holdTable(heldTable)
	run := func(more ...string) (result, fleetDoc) {
		t.Helper()
		args := []string{"run", "--config", f.config, "-o", "json", "--parallel", "4", "--memory", "1GiB", "--claim-timeout", "500ms", f.glob()}
		r := f.compactor(append(args, more...)...)
		doc := r.fleet(t)
		require.Equal(t, r.code, doc.ExitCode)

		return r, doc
	}

	r, doc := run()
	require.Equal(t, 10, r.code, r.stderr)
	require.Len(t, doc.Tables, tables)
	want := map[string]int{}
	for i := range f.idents {
		want[f.nameOf(i)] = 0
	}
	want[f.nameOf(missingTable)], want[f.nameOf(refusedTable)], want[f.nameOf(heldTable)] = 1, 3, 10
	require.Equal(t, want, doc.codes())
	for i := range f.idents {
		switch i {
		case missingTable:
		case refusedTable, heldTable:
			f.checkRows(i, filesEach)
		default:
			f.checkRows(i, 1)
		}
	}
	needs := map[string]int{}
	for i, tr := range doc.Tables {
		needs[tr.Table] = i
	}
	require.Less(t, needs[f.nameOf(tables-1)], needs[f.nameOf(0)], "the table with more bytes in small files comes first")

	release()
	r, doc = run()
	require.Equal(t, 1, r.code, r.stderr)
	want[f.nameOf(heldTable)] = 0
	require.Equal(t, want, doc.codes())
	f.checkRows(heldTable, 1)

	r, doc = run("--exclude", f.nameOf(missingTable))
	require.Equal(t, 3, r.code, r.stderr)
	require.Len(t, doc.Tables, tables-1)
	require.NotContains(t, doc.codes(), f.nameOf(missingTable))

	text := f.compactor("run", "--config", f.config, "--parallel", "4", f.glob())
	require.Equal(t, 1, text.code)
	list := text.stdout[strings.LastIndex(text.stdout, fmt.Sprintf("\n%d tables: ", tables)):]
	require.Regexp(t, fmt.Sprintf(`^\n%d tables: %d nothing-to-do, 1 refused, 1 failed\n`, tables, tables-2), list)
	require.Regexp(t, `(?m)^  1  +`+f.nameOf(missingTable)+` +failed +\S`, list)
	require.Regexp(t, `(?m)^  3  +`+f.nameOf(refusedTable)+` +refused +compact: `, list)
	require.Equal(t, 4, strings.Count(list, "\n"), "no other table wants a look: %s", list)
}

// One command maintains a fleet. Three tables are broken: the rest is done, and
// the worst of them decides the exit code.
func TestOneCommandMaintainsAFleet(t *testing.T) {
	t.Parallel()
	testFleet(t, 40)
}
