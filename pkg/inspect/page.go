package inspect

import (
	_ "embed" // For the template.
	"fmt"
	"html/template"
	"io"
	"strconv"
	"time"
)

// Page is what a page shows: the tables of one look, and those that could not
// be looked at.
type Page struct {
	Version string
	At      time.Time
	Tables  []Health
	Failed  []Failure
}

// Failure is a table that could not be inspected.
type Failure struct {
	Table string `json:"table"`
	Error string `json:"error"`
}

//go:embed page.html
var pageText string

// WriteHTML writes one page with everything in it: it asks for no other file,
// has no script, and its policy forbids both. Each figure is a data element,
// whose data-field is the path of the same figure in the JSON of its table and
// whose value is that number. It fails when w does.
func (p Page) WriteHTML(w io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"comma": comma, "num": number, "size": sizeOf, "pct": percent, "bar": newChart, "at": indexed, "time": utc,
		"most": mostFiles, "mostSnapshots": mostSnapshots,
	}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("parse template of the page: %w", err)
	}
	p.Tables = Ranked(p.Tables)
	if err := t.Execute(w, p); err != nil {
		return fmt.Errorf("write page: %w", err)
	}

	return nil
}

// figure is a number of the page: where it is in the JSON, what it is there,
// and how people read it.
type figure struct{ Field, Value, Text string }

// number makes a figure of any integer.
func number(field string, n any) (figure, error) {
	v, err := integer(n)

	return figure{field, strconv.FormatInt(v, 10), comma(v)}, err
}

func sizeOf(field string, n any) (figure, error) {
	v, err := integer(n)

	return figure{field, strconv.FormatInt(v, 10), size(v)}, err
}

func percent(field string, share float64) figure {
	return figure{field, strconv.FormatFloat(share, 'g', -1, 64), strconv.FormatFloat(100*share, 'f', 1, 64) + " %"}
}

func integer(n any) (int64, error) {
	switch v := n.(type) {
	case int:
		return int64(v), nil
	case int64:
		return v, nil
	default:
		return 0, fmt.Errorf("%v is no integer", n)
	}
}

// indexed is the path of a field of an entry of a list.
func indexed(list string, i int, field string) string { return fmt.Sprintf("%s.%d.%s", list, i, field) }

// chart is a bar, in percent of the longest one. Part of it may be set off.
type chart struct{ Whole, Part string }

func newChart(part, whole, most any) (chart, error) {
	var v [3]int64
	for i, n := range []any{part, whole, most} {
		var err error
		if v[i], err = integer(n); err != nil {
			return chart{}, err
		}
	}
	scale := func(n int64) string {
		if v[2] <= 0 || n <= 0 {
			return "0"
		}

		return strconv.FormatFloat(max(0.5, 100*float64(n)/float64(v[2])), 'f', 2, 64)
	}

	return chart{scale(v[1]), scale(v[0])}, nil
}

// mostFiles is the longest bar of a chart.
func mostFiles(h Health) map[string]int64 {
	out := map[string]int64{}
	for _, b := range h.Sizes {
		out["sizes"] = max(out["sizes"], b.Files)
	}
	for _, p := range h.Partitions.Worst {
		out["partitions"] = max(out["partitions"], p.Files)
	}

	return out
}

func mostSnapshots(h Health) int {
	most := 0
	for _, a := range h.Snapshots.Ages {
		most = max(most, a.Snapshots)
	}

	return most
}

func utc(t any) string {
	switch v := t.(type) {
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case *time.Time:
		if v != nil {
			return v.UTC().Format(time.RFC3339)
		}
	}

	return "never"
}
