package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// hostile is a name that a terminal and a browser would obey.
const hostile = "a\x1b[31m\n<script>alert(1)</script>&\"'\u202e"

func sample() Health {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	id := int64(8123456789012345678)

	return Health{
		Table: "s." + hostile, Location: "s3://b/" + hostile, FormatVersion: 2, SnapshotID: &id, TargetFileSize: 512 << 20, MinFileSize: 384 << 20,
		Data:  Data{Files: 1234567, Bytes: 1 << 40, Rows: 1 << 50, SmallFiles: 1234000, SmallBytes: 1 << 39, LargeFiles: 3},
		Sizes: []Bar{{0, 1 << 20, 1000000, 1 << 30}, {1 << 20, 8 << 20, 1, 1 << 20}, {8 << 20, 0, 0, 0}},
		Partitions: Partitions{Count: 2, More: 7, Worst: []Partition{
			{hostile + strings.Repeat("x", 300), 1000, 2 << 30, 900, 1 << 30}, {"p=b", 10, 1000, 0, 0},
		}},
		Deletes:   Deletes{PositionFiles: 1, Vectors: 2, EqualityFiles: 3, Rows: 4, Share: 0.1234},
		Snapshots: Snapshots{Count: 3, Oldest: &at, Newest: &at, Ages: []AgeBar{{"1h", 1}, {"", 2}}, Refs: []Ref{{hostile, "tag", id, &at}, {"gone", "branch", 5, nil}}},
		Manifests: Manifests{Count: 9, DeleteCount: 2, Bytes: 12345, Small: 8, Target: 8 << 20}, Metadata: MetadataFile{Location: hostile, Earlier: 4},
		Sort: Sort{OrderID: 2, Order: hostile, SortedFiles: 11}, Compaction: Estimate{100, 10, 120, 30},
		Orphans: &Orphans{Files: 1, Bytes: 2, Young: 3, Age: "3d", Listed: 4, ListedBytes: 5, Reason: hostile},
		Steps:   []Verdict{{"compact", true, hostile}, {"expire", false, strings.Repeat("word ", 40)}},
	}
}

// Names cannot command a terminal, and lines fit on it, whatever its width.
func TestTextFitsAndObeysNobody(t *testing.T) {
	t.Parallel()
	unbreakable := regexp.MustCompile(`s3://|alert\(1\)|^s\.`)
	for _, o := range []TextOptions{{}, {Width: 20}, {Width: 30, Plain: true}, {Width: 45}, {Width: 80}, {Width: 200}} {
		var b bytes.Buffer
		require.NoError(t, sample().WriteText(&b, o))
		for _, h := range [][]Health{{sample(), {Table: "empty"}}, {}} {
			require.NoError(t, WriteRanking(&b, h, o))
		}
		require.NotContains(t, b.String(), "\x1b")
		require.NotContains(t, b.String(), "\u202e")
		require.Contains(t, b.String(), `a\x1b[31m\n<script>`)
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); o.Width >= 36 && n > o.Width {
				require.Regexp(t, unbreakable, line, "width %d", o.Width)
			}
		}
	}
}

func TestBarsShowShares(t *testing.T) {
	t.Parallel()
	s := sheet{}
	require.Equal(t, "", s.draw(0, 40))
	require.Equal(t, "▏", s.draw(1e-9, 40), "what is there has something of a bar")
	require.Equal(t, strings.Repeat("█", 40), s.draw(1, 40))
	require.Equal(t, strings.Repeat("█", 40), s.draw(2, 40))
	require.Equal(t, "█████▌", s.draw(0.55, 10))
	s.o.Plain = true
	require.Equal(t, "#####", s.draw(0.55, 10))
	require.Equal(t, "#", s.draw(1e-9, 10))
	require.Equal(t, "ab…yz", elide("abcdefuvwxyz", 5))
	require.Equal(t, []string{"one two", "three", "four"}, wrap("one  two three four", 7))
	require.Equal(t, []string{"unbreakably", "x"}, wrap("unbreakably x", 4))
}

// Narrow terminals keep the name and what matters most.
func TestRankingLeavesColumnsOut(t *testing.T) {
	t.Parallel()
	small, big := Health{Table: "ns.small"}, Health{Table: "ns.big", Data: Data{SmallBytes: 5 << 30}, Steps: []Verdict{{"compact", true, ""}}}
	big.Orphans = &Orphans{Files: 12}
	show := func(width int) []string {
		var b bytes.Buffer
		require.NoError(t, WriteRanking(&b, []Health{small, big}, TextOptions{Width: width}))

		return strings.Split(strings.TrimSpace(b.String()), "\n")
	}
	all := show(0)
	require.Equal(t, strings.Fields("TABLE FILES SMALL SMALL BYTES DELETED SNAPSHOTS MANIFESTS ORPHANS DUE"), strings.Fields(all[0]))
	require.Equal(t, strings.Fields("ns.big 0 0 5.0 GiB 0.0 % 0 0 12 compact"), strings.Fields(all[1]), "the one with most small bytes comes first")
	require.Equal(t, strings.Fields("ns.small 0 0 0 B 0.0 % 0 0 ? -"), strings.Fields(all[2]))
	require.Equal(t, strings.Fields("TABLE SMALL BYTES DUE"), strings.Fields(show(32)[0]))
	require.Equal(t, strings.Fields("TABLE SMALL BYTES"), strings.Fields(show(25)[0]))
}

// failing takes some bytes.
type failing struct{ room int }

var errFull = errors.New("full")

func (f *failing) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errFull
	}

	return len(p), nil
}

func TestWritersThatFail(t *testing.T) {
	t.Parallel()
	page := Page{Tables: []Health{sample()}}
	for _, room := range []int{0, 1, 3000} {
		require.ErrorIs(t, page.WriteHTML(&failing{room}), errFull)
	}
	require.ErrorIs(t, sample().WriteText(&failing{}, TextOptions{}), errFull)
	require.ErrorIs(t, WriteRanking(&failing{}, []Health{sample()}, TextOptions{}), errFull)
}

// Every number of the JSON is in the page with the path it has there, for full
// tables and empty ones, and no name becomes markup.
func TestPageHasEveryNumber(t *testing.T) {
	t.Parallel()
	h := sample()
	var b bytes.Buffer
	require.NoError(t, Page{Version: "v<1>", Tables: []Health{h, {Table: "empty"}}, Failed: []Failure{{hostile, hostile}}}.WriteHTML(&b))
	text := b.String()
	require.NotContains(t, text, "<script")
	require.NotContains(t, strings.ToLower(text), "javascript:")
	require.NotContains(t, text, "ZgotmplZ", "nothing was refused by the template")
	require.NotRegexp(t, `(src|href)="[^#d]`, text, "no address but in the page, or none at all")
	raw, err := json.Marshal(h)
	require.NoError(t, err)
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var doc any
	require.NoError(t, dec.Decode(&doc))
	n := 0
	walk("", doc, func(at, value string) {
		n++
		require.Contains(t, text, `<data data-field="`+at+`" value="`+value+`">`)
	})
	require.Greater(t, n, 50)
}

func walk(at string, v any, number func(at, value string)) {
	switch v := v.(type) {
	case json.Number:
		number(at[1:], v.String())
	case map[string]any:
		for k, e := range v {
			walk(at+"."+k, e, number)
		}
	case []any:
		for i, e := range v {
			walk(at+"."+string(rune('0'+i)), e, number)
		}
	}
}
