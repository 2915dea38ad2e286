package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	icebergcatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/store"
	"compactor/internal/tabletest"
	"compactor/internal/testenv"
)

// numbersOf lists the numbers of a JSON document by their path.
func numbersOf(at string, v any, into map[string]string) {
	switch v := v.(type) {
	case json.Number:
		into[at] = v.String()
	case map[string]any:
		for k, e := range v {
			numbersOf(strings.TrimPrefix(at+"."+k, "."), e, into)
		}
	case []any:
		for i, e := range v {
			numbersOf(fmt.Sprintf("%s.%d", at, i), e, into)
		}
	}
}

// tablesOf are the documents of the tables, by name.
func tablesOf(t *testing.T, text string) map[string]any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var doc struct{ Tables []map[string]any }
	require.NoError(t, dec.Decode(&doc))
	out := map[string]any{}
	for _, one := range doc.Tables {
		out[one["table"].(string)] = one
	}

	return out
}

// figuresScript collects what the page says, by table: the values of figures by
// their path, and the text. A path that has two values is an error.
const figuresScript = `Object.fromEntries([...document.querySelectorAll("section.table")].map(s => {
	const figures = {};
	for (const d of s.querySelectorAll("data")) {
		const at = d.dataset.field;
		if (at in figures && figures[at] !== d.value) throw new Error(at);
		if (d.textContent.trim() === "") throw new Error(at + " is not shown");
		figures[at] = d.value;
	}
	return [s.dataset.table, {Figures: figures, Text: s.textContent}];
}))`

// The page of two tables, one of them with deletes, partitions, tags and a sort
// order, in a real browser: nothing is asked for, nothing is complained of,
// every number of the JSON is there and no other, and a phone need not scroll
// sideways.
func TestThePageSaysWhatTheJSONSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.writeConfig("advisory", "defaults: {orphans: {enabled: true}}\n")
	order, err := table.NewSortOrder(1, []table.SortField{{
		SourceIDs: []int{1}, Transform: iceberg.IdentityTransform{}, Direction: table.SortDESC, NullOrder: table.NullsLast,
	}})
	require.NoError(t, err)
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{3}, FieldID: 1000, Name: "p", Transform: iceberg.IdentityTransform{}})
	tbl := w.createPartitioned(icebergcatalog.WithPartitionSpec(&spec), icebergcatalog.WithSortOrder(order))
	for i := range 6 {
		tbl = tabletest.Append(t, tbl, fmt.Sprintf(`[{"id":%d,"s":"x","p":"a"},{"id":%d,"s":"y","p":"a"},{"id":%d,"s":"z","p":"b c/d"}]`, 3*i, 3*i+1, 3*i+2))
	}
	tabletest.DeleteWhere(t, tbl, iceberg.LessThan(iceberg.Reference("id"), int64(1)))
	w.put(tbl.Location()+"/data/lost-1.parquet", tbl.Location()+"/data/lost-2.parquet")
	w.ageEverything()
	first := w.name()
	w.ident = table.Identifier{w.lake.Namespace, "other"}
	w.create()

	path := filepath.Join(t.TempDir(), "health.html")
	require.NoError(t, os.WriteFile(path, []byte("an earlier page"), 0o640))
	r := w.compactor("inspect", "--config", w.config, "-o", "json", "--estimate-orphans", "--html", path, w.lake.Namespace+".*")
	require.Equal(t, 0, r.code, r.stderr)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	require.NoError(t, err)
	require.Equal(t, []string{path}, left, "nothing but the renamed file")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode().Perm(), "the mode stays")

	b := testenv.NewBrowser(t)
	address := (&url.URL{Scheme: "file", Path: path}).String()
	for _, screen := range []testenv.Screen{{Width: 1280, Height: 900}, {Width: 360, Height: 800, Phone: true, Dark: true}} {
		p := b.Open(address, screen)
		require.Equal(t, []string{address}, p.Requests())
		require.Empty(t, p.Complaints())
		var page map[string]struct {
			Figures map[string]string
			Text    string
		}
		p.Eval(figuresScript, &page)
		tables := tablesOf(t, r.stdout)
		require.Len(t, tables, 2)
		require.Len(t, page, 2)
		for name, doc := range tables {
			want := map[string]string{}
			numbersOf("", doc, want)
			require.Equal(t, want, page[name].Figures, name)
			for _, step := range doc.(map[string]any)["steps"].([]any) {
				require.Contains(t, page[name].Text, step.(map[string]any)["reason"])
			}
		}
		require.Equal(t, []string{"2", "14"}, []string{page[first].Figures["orphans.files"], page[first].Figures["orphans.bytes"]})
		require.Contains(t, page[first].Text, "p=a")
		require.Contains(t, page[first].Text, "id desc nulls-last")
		require.Contains(t, page[first].Text, "6 of 6 small", "the text is the number")
		var wide int
		p.Eval(`document.documentElement.scrollWidth`, &wide)
		require.LessOrEqual(t, wide, screen.Width, "sideways")
		var back string
		p.Eval(`getComputedStyle(document.body).backgroundColor`, &back)
		require.Equal(t, map[bool]string{false: "rgb(246, 247, 249)", true: "rgb(18, 22, 28)"}[screen.Dark], back)
		if dir := os.Getenv("SCREENSHOTS"); dir != "" {
			p.Eval(`[...document.querySelectorAll("details")].map(d => d.open = true)`, new(any))
			p.Screenshot(filepath.Join(dir, fmt.Sprintf("health-%d.png", screen.Width)))
		}
	}
	require.Empty(t, b.Asked(), "nothing reached the network")
}

// What a compaction says is left is what inspect counts after it, in the report
// and in the metrics, also when it was not done with everything.
func TestSmallFilesLeftAreThoseThatInspectCounts(t *testing.T) {
	t.Parallel()
	store.Register()
	config, cat := embedded(t)
	ident := table.Identifier{"left", "events"}
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{3}, FieldID: 1000, Name: "p", Transform: iceberg.IdentityTransform{}})
	tabletest.Create(cat.Context(t.Context()), t, cat.Client(), ident, tabletest.PartitionedSchema(), icebergcatalog.WithPartitionSpec(&spec))
	tbl, err := cat.LoadTable(t.Context(), ident)
	require.NoError(t, err)
	for i := range 6 {
		tbl = tabletest.Append(t, tbl, fmt.Sprintf(`[{"id":%d,"s":"x","p":"a"},{"id":%d,"s":"y","p":"b"}]`, 2*i, 2*i+1))
	}
	textfile := filepath.Join(t.TempDir(), "compactor.prom")
	w := &world{t: t, env: map[string]string{"COMPACTOR_METRICS_TEXTFILE": textfile}}
	for _, want := range []int{6 + 1, 2, 2} { // A file of one partition's rows is small as well.
		r := w.compactor("compact", "--config", config, "-o", "json", "--max-hold", "1ms", "--max-rounds", "1", "left.events")
		require.Equal(t, 0, r.code, r.stderr)
		var rep struct {
			Tables []struct {
				Steps []struct {
					Left *int `json:"small_files_left"`
				}
			}
		}
		validReport(t, r.stdout)
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &rep))
		require.Equal(t, want, *rep.Tables[0].Steps[0].Left)
		text, err := os.ReadFile(textfile)
		require.NoError(t, err)
		require.Contains(t, string(text), fmt.Sprintf("\ncompactor_small_files_left %d\n", want))
		var doc inspection
		require.NoError(t, json.Unmarshal([]byte(w.compactor("inspect", "--config", config, "-o", "json", "left.events").stdout), &doc))
		require.Equal(t, int64(want), doc.Tables[0].Data.SmallFiles)
	}
}
