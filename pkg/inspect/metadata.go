package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// snapshots counts the snapshots by age, and lists the refs by name.
func snapshots(md table.Metadata, now time.Time) Snapshots {
	limits := []struct {
		name string
		d    time.Duration
	}{{"1h", time.Hour}, {"1d", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}, {"30d", 30 * 24 * time.Hour}, {"", 0}}
	out := Snapshots{Refs: []Ref{}}
	for _, l := range limits {
		out.Ages = append(out.Ages, AgeBar{Under: l.name})
	}
	times := map[int64]*time.Time{}
	for _, s := range md.Snapshots() {
		at := time.UnixMilli(s.TimestampMs).UTC()
		times[s.SnapshotID] = &at
		if out.Oldest == nil || at.Before(*out.Oldest) {
			out.Oldest = &at
		}
		if out.Newest == nil || at.After(*out.Newest) {
			out.Newest = &at
		}
		out.Count++
		for i, l := range limits {
			if l.d == 0 || now.Sub(at) < l.d {
				out.Ages[i].Snapshots++

				break
			}
		}
	}
	for name, ref := range md.Refs() {
		out.Refs = append(out.Refs, Ref{Name: name, Type: string(ref.SnapshotRefType), SnapshotID: ref.SnapshotID, At: times[ref.SnapshotID]})
	}
	slices.SortFunc(out.Refs, func(a, b Ref) int { return cmp.Compare(a.Name, b.Name) })

	return out
}

// sortOrder writes the table's sort order for people, empty without one.
func sortOrder(md table.Metadata) string {
	order, schema := md.SortOrder(), md.CurrentSchema()
	var parts []string
	for _, f := range order.Fields() {
		var columns []string
		for _, id := range f.SourceIDs {
			name, ok := schema.FindColumnName(id)
			if !ok {
				name = fmt.Sprintf("field %d", id)
			}
			columns = append(columns, name)
		}
		text := strings.Join(columns, ", ")
		if _, plain := f.Transform.(iceberg.IdentityTransform); !plain && f.Transform != nil {
			text = f.Transform.String() + "(" + text + ")"
		}
		parts = append(parts, fmt.Sprintf("%s %s %s", text, f.Direction, f.NullOrder))
	}

	return strings.Join(parts, ", ")
}
