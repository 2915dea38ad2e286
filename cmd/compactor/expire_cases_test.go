package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
	"compactor/internal/testenv"
)

// A table whose files may be shared is refused, by dry runs too; compaction
// still works.
func TestCase_C6_collectionOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := tabletest.Fragment(t, w.create(props("gc.enabled", "false")), 3, 2)
	objects := w.objects()
	for _, flags := range [][]string{{"--older-than", "0s"}, {"--older-than", "0s", "--dry-run"}} {
		r := w.do("expire", flags...)
		require.Equal(t, 3, r.code, r.stdout+r.stderr)
		step := r.step(t)
		require.Equal(t, "refused", step.Status)
		require.Contains(t, step.Reason, "gc.enabled")
	}
	require.Equal(t, objects, w.objects())
	require.Equal(t, tbl.MetadataLocation(), w.load().MetadataLocation())
	require.Zero(t, w.commits())
	require.Equal(t, 0, w.compact("--min-input-files", "2").code)
	require.Len(t, tabletest.Files(t, w.load()), 1)
}

// Lost answers to the commit of an expiry. Files are deleted only when it is
// certain that the snapshots are gone.
func TestCase_C13_lostAnswersToAnExpiry(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rule    func(w *world) testenv.Rule
		code    int
		expired bool
		text    string
	}{
		"a forwarded, 504": {rule: action(testenv.ForwardThenAnswer(504, `{"error":{"message":"gateway","type":"x","code":504}}`)), expired: true},
		"b dropped, 500":   {rule: action(testenv.AnswerWithoutForward(500, `{"error":{"message":"boom","type":"x","code":500}}`)), code: 5, text: "no file was deleted"},
		"c foreign append first": {rule: func(w *world) testenv.Rule {
			return testenv.Rule{Before: func(*http.Request) { tabletest.Append(w.t, w.load(), `[{"id":777,"s":"foreign"}]`) }}
		}, code: 4, text: "operation append"},
		"d forwarded, connection closed": {rule: action(testenv.ForwardThenClose()), expired: true},
		"e forwarded, 409":               {rule: action(testenv.ForwardThenAnswer(409, `{"error":{"message":"conflict","type":"CommitFailedException","code":409}}`)), expired: true},
		"f 409, head unmoved":            {rule: action(testenv.AnswerWithoutForward(409, `{"error":{"message":"conflict","type":"CommitFailedException","code":409}}`)), code: 4, text: "no file was deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tbl := tabletest.Fragment(t, w.create(), 6, 2)
			require.Equal(t, 0, w.compact("--min-input-files", "2").code)
			rows, objects := tabletest.Rows(t, tbl), w.objects()
			rule, match := c.rule(w), w.isCommit()
			rule.Match = func(r *http.Request) bool { return match(r.Method, r.URL.Path) }
			rule.Times = 1
			w.catalog.Handle(rule)
			r := w.do("expire", "--older-than", "0s")
			require.Equal(t, c.code, r.code, r.stdout+r.stderr)
			step := r.step(t)
			require.Contains(t, step.Reason, c.text)
			after := w.load()
			if strings.HasPrefix(name, "c ") {
				rows = append(rows, "id=777;s=foreign;")
				slices.Sort(rows)
			}
			require.Equal(t, rows, tabletest.Rows(t, after))
			require.Equal(t, 2, w.commits(), "a commit is never sent again")
			if c.expired {
				require.Len(t, snapshotIDs(after), 1)
				require.True(t, step.Rounds[0].Found)
				require.Len(t, w.dataObjects(), 1, "the files were deleted")
			} else {
				require.Subset(t, w.objects(), objects, "no file was deleted")
				require.Greater(t, len(snapshotIDs(after)), 6)
			}
			require.True(t, w.claimFree())
		})
	}
}

// A store that refuses deletes, and a catalog that forbids them.
func TestCase_C19_deleteDenied(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) (*world, []string) {
		t.Helper()
		w := newWorld(t)
		tabletest.Fragment(t, w.create(), 6, 2)
		require.Equal(t, 0, w.compact("--min-input-files", "2").code)

		return w, w.objects()
	}
	t.Run("store refuses all, a later run removes them", func(t *testing.T) {
		t.Parallel()
		w, objects := start(t)
		isDelete := func(r *http.Request) bool {
			return r.Method == "DELETE" || r.Method == "POST" && r.URL.Query().Has("delete")
		}
		w.s3.Handle(testenv.Rule{Match: isDelete, Action: testenv.AnswerWithoutForward(403,
			`<?xml version="1.0" encoding="UTF-8"?><Error><Code>AccessDenied</Code><Message>no</Message></Error>`)})
		r := w.do("expire", "--older-than", "0s")
		require.Equal(t, 3, r.code, r.stdout+r.stderr)
		step := r.step(t)
		require.Equal(t, "partial", step.Status)
		require.Len(t, snapshotIDs(w.load()), 1, "the snapshots are expired")
		files := step.Expire.Files
		require.Zero(t, files.Deleted)
		require.Equal(t, 6, files.Failed, "the six data files were tried, the way to them was not")
		require.Equal(t, files.Planned, files.Failed+files.Left)
		require.NotEmpty(t, files.Failures)
		require.Subset(t, w.objects(), objects)
		w.s3.ClearRules()
		r = w.do("expire", "--older-than", "0s")
		require.Equal(t, 0, r.code, r.stdout+r.stderr)
		step = r.step(t)
		require.Equal(t, 6, step.Expire.Resumed)
		require.Equal(t, files.Planned, step.Expire.Files.Deleted, "the later run removes the rest")
		w.onlyLiveObjects()
		require.Equal(t, "nothing-to-do", w.do("expire", "--older-than", "0s").step(t).Status)
	})
	for name, override := range map[string]string{"by the catalog's policy": "false", "with the override": "true"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, objects := start(t)
			w.catalogSends("s3.delete-enabled", "false")
			w.env["COMPACTOR_STORAGE_OVERRIDE_DELETE_DISABLED"] = override
			r := w.do("expire", "--older-than", "0s")
			require.Equal(t, 0, r.code, r.stdout+r.stderr)
			files := r.step(t).Expire.Files
			require.Len(t, snapshotIDs(w.load()), 1, "the metadata is committed")
			if override == "true" {
				require.Equal(t, files.Planned, files.Deleted)
				w.onlyLiveObjects()

				return
			}
			require.Equal(t, files.Planned, files.Left)
			require.Positive(t, files.Left)
			require.Contains(t, files.Why, "s3.delete-enabled")
			require.Contains(t, r.stderr, `"level":"warn"`)
			require.Subset(t, w.objects(), objects)
		})
	}
}

// onlyLiveObjects says that the table's folder has what its snapshots reach,
// and metadata files, and nothing else.
func (w *world) onlyLiveObjects() {
	w.t.Helper()
	tbl := w.load()
	live := w.reach(tbl, snapshotIDs(tbl)...)
	require.Equal(w.t, slices.Sorted(maps.Keys(live)), notMetadataJSON(w.objects()))
}

// An expiry that queues behind a running compaction waits for it.
func TestCase_X2_expireBesideRewrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := tabletest.Fragment(t, w.create(), 6, 2)
	rows := tabletest.Rows(t, tbl)
	gate, reached := make(chan struct{}), make(chan struct{})
	match := w.isCommit()
	w.catalog.Handle(testenv.Rule{
		Match: func(r *http.Request) bool { return match(r.Method, r.URL.Path) }, Times: 1,
		Before: func(*http.Request) { close(reached) }, Action: testenv.BlockUntil(gate),
	})
	compact := w.start(w.args("compact", "--min-input-files", "2")...)
	select {
	case <-reached:
	case <-time.After(time.Minute):
		t.Fatal("the compaction did not get to its commit")
	}
	expire := w.start(w.args("expire", "--older-than", "0s", "--retain-last", "1")...)
	w.waitQueued()
	close(gate)
	require.Equal(t, 0, compact.wait(time.Minute), compact.stderr)
	r := expire.result(time.Minute)
	require.Equal(t, 0, r.code, r.stderr)
	require.Len(t, r.step(t).Expire.Snapshots, 6, "what the compaction left is expired")
	after := w.load()
	require.Len(t, snapshotIDs(after), 1)
	require.Equal(t, rows, tabletest.Rows(t, after), "no file is missing")
	w.onlyLiveObjects()
}

// A tag that comes up in the last moment is dropped by the catalog together
// with its snapshot. No file of that snapshot is deleted, and the tag is named,
// by every later step too, until the loss is accepted.
func TestCase_X8_tagInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := tabletest.Fragment(t, w.create(), 6, 2)
	require.Equal(t, 0, w.compact("--min-input-files", "2").code)
	old, rows := history(tbl)[2], tabletest.Rows(t, tbl)
	match := w.isCommit()
	w.catalog.Handle(testenv.Rule{
		Match: func(r *http.Request) bool { return match(r.Method, r.URL.Path) }, Times: 1,
		Before: func(*http.Request) { w.commitUpdates(tagAt("audit-2026", old, 0)) },
	})
	objects := w.objects()
	r := w.do("expire", "--older-than", "0s")
	require.Equal(t, 4, r.code, r.stdout+r.stderr)
	require.Contains(t, r.step(t).Reason, "tag audit-2026")
	require.Subset(t, w.objects(), objects, "no file of the snapshot is deleted")
	require.True(t, w.claimFree())
	r = w.do("expire", "--older-than", "0s")
	require.Equal(t, "nothing-to-do", r.step(t).Status)
	require.Contains(t, r.stderr, "tag audit-2026")
	require.Subset(t, w.objects(), objects, "nor by a later run")

	w.ageEverything()
	for _, flags := range [][]string{{"--dry-run"}, {}, {"--accept-lost-ref", "another"}} {
		r = w.do("orphans", flags...)
		require.Equal(t, 3, r.code, r.stdout+r.stderr)
		require.Contains(t, r.step(t).Reason, "tag audit-2026 was lost when its snapshot "+fmt.Sprint(old)+" expired")
		require.Subset(t, w.objects(), objects, "nor by the removal of orphans")
	}
	r = w.do("orphans", "--accept-lost-ref", "audit-2026")
	require.Equal(t, 0, r.code, r.stdout+r.stderr)
	require.Equal(t, rows, tabletest.Rows(t, w.load()))
	w.onlyLiveObjects()
	require.Equal(t, "nothing-to-do", w.do("orphans").step(t).Status, "what was accepted need not be accepted again")
}

// catalogSends puts a setting into the configuration that the catalog sends with
// the table.
func (w *world) catalogSends(key, value string) {
	w.catalog.Handle(testenv.Rule{
		Match: func(r *http.Request) bool {
			return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/tables/"+w.ident[1])
		},
		Action: testenv.RewriteAnswer(func(status int, h http.Header, body []byte) (int, []byte) {
			var doc map[string]json.RawMessage
			if json.Unmarshal(body, &doc) != nil {
				return status, body
			}
			config := map[string]any{}
			_ = json.Unmarshal(doc["config"], &config) // There may be none.
			config[key] = value
			doc["config"] = encode(config)
			h.Del("Content-Length")

			return status, encode(doc)
		}),
	})
}
