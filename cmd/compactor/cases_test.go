package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	icebergcatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
	"compactor/internal/testenv"
	"compactor/pkg/claim"
)

// A data file whose read is split into slices is rewritten whole or not at all.
func TestCase_C1_slices(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"480000", "2000000"} {
		t.Run("target "+target, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tbl := w.create(props("write.parquet.row-group-limit", "10000", "read.split.target-size", "200000"))
			tbl = tabletest.Append(t, tbl, tabletest.IDs(0, 50_000))
			for i := range 4 {
				tbl = tabletest.Append(t, tbl, tabletest.IDs(50_000+10*i, 10))
			}
			before := tabletest.Rows(t, tbl)
			require.Len(t, before, 50_040)
			r := w.compact("--target-file-size", target, "--min-input-files", "2", "--verify")
			require.Equal(t, 0, r.code, r.stdout+r.stderr)
			require.Equal(t, before, tabletest.Rows(t, w.load()))
			require.Less(t, len(tabletest.Files(t, w.load())), 5)
		})
	}
}

// A position-delete file that also covers a file which stays must stay too.
func TestCase_C2_sharedPositionDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := w.create(props(table.WriteDeleteModeKey, table.WriteModeMergeOnRead))
	for i := range 5 {
		tbl = tabletest.Append(t, tbl, tabletest.IDs(10*i, 2))
	}
	tbl = tabletest.Append(t, tbl, bigRows(1000, 4000))
	tbl = tabletest.SharedPositionDelete(t, tbl, []int64{0, 1000})
	before := tabletest.Rows(t, tbl)
	require.Len(t, before, 4008)
	r := w.compact("--target-file-size", "40000", "--max-file-size", "400000", "--min-input-files", "5")
	require.Equal(t, 0, r.code, r.stdout+r.stderr)
	after := w.load()
	require.Equal(t, before, tabletest.Rows(t, after), "no deleted row comes back")
	require.Len(t, tabletest.Files(t, after), 2)
	require.Len(t, tabletest.DeleteFiles(t, after), 1, "the delete file stays because the big file stays")
}

// bigRows makes rows that do not compress well.
func bigRows(first, n int) string {
	var b strings.Builder
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		x := uint64(first+i) * 0x9E3779B97F4A7C15
		fmt.Fprintf(&b, `{"id":%d,"s":"%016x%016x"}`, first+i, x, x*x)
	}
	b.WriteByte(']')

	return b.String()
}

// Files of an older partition spec are rewritten into the current one.
func TestCase_C3_partitionEvolution(t *testing.T) {
	t.Parallel()
	for name, evolve := range map[string]func(*table.UpdateSpec){
		"identity": func(u *table.UpdateSpec) { u.AddField("p", iceberg.IdentityTransform{}, "p_id") },
		"bucket":   func(u *table.UpdateSpec) { u.AddField("id", iceberg.BucketTransform{NumBuckets: 16}, "id_bucket") },
		"truncate": func(u *table.UpdateSpec) { u.AddField("s", iceberg.TruncateTransform{Width: 2}, "s_trunc") },
		"void":     func(u *table.UpdateSpec) { u.AddField("s", iceberg.VoidTransform{}, "s_void") },
		"unpartition": func(u *table.UpdateSpec) {
			u.AddField("p", iceberg.IdentityTransform{}, "p_id")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tbl := w.createPartitioned()
			fill := func() {
				for i := range 6 {
					tbl = tabletest.Append(t, tbl, fmt.Sprintf(`[{"id":%d,"s":"käse","p":"a"},{"id":%d,"s":"x/y","p":"b"},{"id":%d,"s":"z","p":"a"},{"id":%d,"s":"q","p":null}]`, 4*i, 4*i+1, 4*i+2, 4*i+3))
				}
			}
			change := func(f func(*table.UpdateSpec)) {
				tx := tbl.NewTransaction()
				u := tx.UpdateSpec(true)
				f(u)
				require.NoError(t, u.Commit())
				next, err := tx.Commit(context.Background())
				require.NoError(t, err)
				tbl = next
			}
			if name == "unpartition" {
				change(evolve)
				fill()
				change(func(u *table.UpdateSpec) { u.RemoveField("p_id") })
			} else {
				fill()
				change(evolve)
			}
			before := tabletest.Rows(t, tbl)
			r := w.compact("--verify")
			require.Equal(t, 0, r.code, r.stdout+r.stderr)
			after := w.load()
			require.Equal(t, before, tabletest.Rows(t, after))
			for path, spec := range tabletest.Specs(t, after) {
				require.Equal(t, after.Metadata().DefaultPartitionSpec(), spec, "%s is in the current spec", path)
			}
			require.Equal(t, "nothing-to-do", w.compact().step(t).Status, "the second run finds nothing to do")
		})
	}
}

// What the program makes of every way in which the answer to a commit can go
// astray. In no case is a committed file deleted.
func TestCase_C13_lostAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rule    func(w *world) testenv.Rule
		code    int
		commits bool // our snapshot is in the table
		kept    bool // the files of the round stay and are named
		text    string
	}{
		"a forwarded, 504": {rule: action(testenv.ForwardThenAnswer(504, `{"error":{"message":"gateway","type":"x","code":504}}`)), commits: true},
		"b dropped, 500":   {rule: action(testenv.AnswerWithoutForward(500, `{"error":{"message":"boom","type":"x","code":500}}`)), code: 5, kept: true},
		"c foreign append first": {rule: func(w *world) testenv.Rule {
			return testenv.Rule{Before: func(*http.Request) { tabletest.Append(w.t, w.load(), `[{"id":777,"s":"foreign"}]`) }}
		}, code: 4, text: "operation append"},
		"d forwarded, connection closed": {rule: action(testenv.ForwardThenClose()), commits: true},
		"e forwarded, 409":               {rule: action(testenv.ForwardThenAnswer(409, `{"error":{"message":"conflict","type":"CommitFailedException","code":409}}`)), commits: true},
		"f 409, head unmoved":            {rule: action(testenv.AnswerWithoutForward(409, `{"error":{"message":"conflict","type":"CommitFailedException","code":409}}`)), code: 4, kept: true},
		"forwarded, truncated 200":       {rule: action(testenv.ForwardThenAnswer(200, `{"metadata-lo`)), commits: true},
		"refused, 403":                   {rule: action(testenv.AnswerWithoutForward(403, `{"error":{"message":"no","type":"ForbiddenException","code":403}}`)), code: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tbl := tabletest.FragmentAtOnce(t, w.create(), 6, 2)
			before, objects := tabletest.Rows(t, tbl), w.objects()
			rule := c.rule(w)
			match := w.isCommit()
			rule.Match = func(r *http.Request) bool { return match(r.Method, r.URL.Path) }
			rule.Times = 1
			w.catalog.Handle(rule)
			r := w.compact()
			require.Equal(t, c.code, r.code, r.stdout+r.stderr)
			step := r.step(t)
			after := w.load()
			if strings.HasPrefix(name, "c ") {
				before = append(before, "id=777;s=foreign;")
				slices.Sort(before)
			}
			require.Equal(t, before, tabletest.Rows(t, after), "no row is lost and no committed file deleted")
			require.Equal(t, c.commits, len(tabletest.Files(t, after)) == 1)
			require.Contains(t, step.Reason, c.text)
			require.Equal(t, 1, w.commits(), "a commit is never sent again")
			if c.kept {
				require.NotEmpty(t, step.Kept)
				require.Subset(t, w.objects(), step.Kept, "the files of the round are kept and named")
			}
			if c.code != 0 && !c.kept {
				left := slices.DeleteFunc(w.objects(), func(k string) bool { return slices.Contains(objects, k) || strings.Contains(k, "metadata") })
				if strings.HasPrefix(name, "c ") {
					require.Len(t, left, 1, "only the foreign file is new")
				} else {
					require.Empty(t, left, "the files of the round are gone")
				}
			}
			if c.commits {
				require.True(t, step.Rounds[0].Found)
			}
			require.True(t, w.claimFree())
		})
	}
}

func action(a testenv.Action) func(*world) testenv.Rule {
	return func(*world) testenv.Rule { return testenv.Rule{Action: a} }
}

// Nothing to do is cheap: no claim, no snapshot, exit 0, and the reason in words.
func TestCase_C17_nothingToDo(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]func(*testing.T, *table.Table) *table.Table{
		"no snapshot": func(_ *testing.T, tbl *table.Table) *table.Table { return tbl },
		"no rows":     func(t *testing.T, tbl *table.Table) *table.Table { return tabletest.Append(t, tbl, `[]`) },
		"one file": func(t *testing.T, tbl *table.Table) *table.Table {
			return tabletest.Append(t, tbl, tabletest.IDs(0, 5))
		},
		"all right size": func(t *testing.T, tbl *table.Table) *table.Table {
			for i := range 6 {
				tbl = tabletest.Append(t, tbl, bigRows(4000*i, 4000))
			}

			return tbl
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tbl := fill(t, w.create(props(table.WriteTargetFileSizeBytesKey, "80000")))
			// The claim is held by somebody: no work means no wait.
			held, err := w.openClaimer().Acquire(context.Background(), w.key(), claim.AcquireOptions{})
			require.NoError(t, err)
			defer func() { require.NoError(t, held.Release(context.Background())) }()
			r := w.compact("--claim-timeout", "1s")
			require.Equal(t, 0, r.code, r.stdout+r.stderr)
			step := r.step(t)
			require.Equal(t, "nothing-to-do", step.Status)
			require.NotEmpty(t, step.Reason)
			require.Equal(t, tbl.MetadataLocation(), w.load().MetadataLocation())
		})
	}
	t.Run("second run", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tabletest.FragmentAtOnce(t, w.create(), 20, 5)
		require.Equal(t, "done", w.compact().step(t).Status)
		location := w.load().MetadataLocation()
		require.Equal(t, "nothing-to-do", w.compact().step(t).Status)
		require.Equal(t, location, w.load().MetadataLocation())
	})
	t.Run("twenty files of 0.4 target", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tbl := w.create()
		for i := range 20 {
			tbl = tabletest.Append(t, tbl, bigRows(1000*i, 1000))
		}
		size := tabletest.LargestFile(t, tbl)
		before := tabletest.Rows(t, tbl)
		r := w.compact("--target-file-size", fmt.Sprint(size*10/4))
		require.Equal(t, 0, r.code, r.stdout+r.stderr)
		n := len(tabletest.Files(t, w.load()))
		require.True(t, n == 8 || n == 9, "20 files of 0.4 target become 8 or 9, not %d", n)
		require.Equal(t, before, tabletest.Rows(t, w.load()))
		require.Equal(t, "nothing-to-do", w.compact("--target-file-size", fmt.Sprint(size*10/4)).step(t).Status)
	})
}

// Two processes started together: one rewrites, the other finds nothing to do.
func TestCase_X1_twoRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := tabletest.FragmentAtOnce(t, w.create(), 20, 5)
	before := tabletest.Rows(t, tbl)
	snapshots := len(tbl.Metadata().Snapshots())
	a, b := w.start(w.compactArgs()...), w.start(w.compactArgs()...)
	ra, rb := a.result(time.Minute), b.result(time.Minute)
	require.Equal(t, 0, ra.code, ra.stderr)
	require.Equal(t, 0, rb.code, rb.stderr)
	statuses := []string{ra.step(t).Status, rb.step(t).Status}
	slices.Sort(statuses)
	require.Equal(t, []string{"done", "nothing-to-do"}, statuses)
	after := w.load()
	require.Len(t, after.Metadata().Snapshots(), snapshots+1, "one snapshot")
	require.Equal(t, before, tabletest.Rows(t, after))
}

// A group with a corrupt or missing input fails and names the file; the others
// go on, and nothing is removed.
func TestCase_X6_corruptInput(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"truncated", "missing"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{3}, FieldID: 1000, Name: "p", Transform: iceberg.IdentityTransform{}})
			tbl := w.createPartitioned(icebergcatalog.WithPartitionSpec(&spec))
			for i := range 6 {
				tbl = tabletest.Append(t, tbl, fmt.Sprintf(`[{"id":%d,"s":"x","p":"good"},{"id":%d,"s":"y","p":"bad"}]`, 2*i, 2*i+1))
			}
			bad := slices.DeleteFunc(tabletest.Files(t, tbl), func(p string) bool { return !strings.Contains(p, "p=bad") })
			require.Len(t, bad, 6)
			w.spoil(bad[2], how == "missing")
			objects := w.dataObjects()
			r := w.compact()
			require.Equal(t, 3, r.code, r.stdout+r.stderr)
			step := r.step(t)
			require.Len(t, step.Failed, 1)
			require.Contains(t, step.Failed[0].Reason, bad[2], "the file is named")
			require.Equal(t, how == "truncated", strings.Contains(step.Failed[0].Reason, "unreadable data file"))
			require.NotContains(t, step.Failed[0].Reason, "\n")
			require.Equal(t, 6, step.Rewritten.FilesIn)
			require.Equal(t, 1, step.Rewritten.FilesOut)
			require.Subset(t, w.dataObjects(), objects, "nothing is removed")
			require.Len(t, w.dataObjects(), len(objects)+1, "the failed group left nothing behind")
			require.True(t, w.claimFree())
		})
	}
}

// spoil truncates or removes an object of the table behind everybody's back.
func (w *world) spoil(path string, remove bool) {
	w.t.Helper()
	fio, err := w.load().FS(context.Background())
	require.NoError(w.t, err)
	if remove {
		require.NoError(w.t, fio.Remove(path))

		return
	}
	f, err := fio.Open(path)
	require.NoError(w.t, err)
	whole, err := io.ReadAll(f)
	require.NoError(w.t, err)
	require.NoError(w.t, f.Close())
	out, err := fio.(writer).Create(path)
	require.NoError(w.t, err)
	_, err = io.Copy(out, bytes.NewReader(whole[:len(whole)/2]))
	require.NoError(w.t, err)
	require.NoError(w.t, out.Close())
}

// A commit that lands while the program queues for the claim is no conflict:
// the table is loaded after the claim was granted.
func TestCase_X10_commitWhileQueued(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 20, 2)
	held, err := w.openClaimer().Acquire(context.Background(), w.key(), claim.AcquireOptions{})
	require.NoError(t, err)
	p := w.start(w.compactArgs()...)
	w.waitQueued()
	appended := tabletest.Append(t, w.load(), `[{"id":1000,"s":"while queued"}]`)
	require.NoError(t, held.Release(context.Background()))
	r := p.result(time.Minute)
	require.Equal(t, 0, r.code, r.stderr)
	step := r.step(t)
	require.Equal(t, 21, step.Rewritten.FilesIn)
	after := w.load()
	require.Equal(t, appended.CurrentSnapshot().SnapshotID, *after.CurrentSnapshot().ParentSnapshotID, "one snapshot on top of the append")
	require.Len(t, tabletest.Rows(t, after), 41)
	require.Equal(t, 1, w.commits())
}

// waitQueued waits until a session waits for an advisory lock of the database.
func (w *world) waitQueued() {
	w.t.Helper()
	conn := w.db.Conn(w.t)
	require.Eventually(w.t, func() bool {
		var n int
		err := conn.QueryRow(context.Background(), `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
			WHERE l.locktype = 'advisory' AND NOT l.granted AND d.datname = current_database()`).Scan(&n)

		return err == nil && n > 0
	}, 30*time.Second, 50*time.Millisecond)
}
