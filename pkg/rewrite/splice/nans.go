package splice

import (
	"compactor/pkg/rewrite/splice/column"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/layout"
)

// FileNaNs is what is known of the NaNs of an input as it was written.
type FileNaNs struct {
	// Counts are by field id. A column without one is not known.
	Counts map[int]int64
	// Units is how many units the file has, those of which no row is left included.
	Units int
}

// WithNaNs says what is known of the unit's file. All units of a file get the same
// pointer.
func (u Unit) WithNaNs(known *FileNaNs) Unit {
	u.nans = known

	return u
}

// nanLedger adds up the NaNs of an output. The counts of inputs are those of whole
// files, so a file counts when the unit of the next one comes.
type nanLedger struct {
	file  *FileNaNs
	units int                 // of the file so far
	parts map[int]column.NaNs // of the file so far, by field id; Counted of all units
	total map[int]int64
	lost  map[int]bool // columns that cannot be known any more
}

// countNaNs takes in a row group. The general engine counts NaNs outside of lists
// and maps alone.
func (w *Writer) countNaNs(units []Unit, group []*column.Built) {
	for n, u := range units {
		w.nans.begin(u.nans)
		for i, c := range w.columns {
			if countsNaNs(c) && n < len(group[i].NaNs) {
				w.nans.note(c.ID, group[i].NaNs[n])
			}
		}
	}
}

func countsNaNs(c layout.Column) bool {
	return c.Leaf.MaxRep == 0 && (c.Leaf.Type == format.Float || c.Leaf.Type == format.Double)
}

// NaNs are the counts of the columns, by field id, that are known for all inputs
// so far. No row group may follow.
func (w *Writer) NaNs() map[int]int64 {
	w.nans.begin(nil)

	return w.nans.total
}

// begin notes one more unit, of this file.
func (l *nanLedger) begin(file *FileNaNs) {
	if file == nil || file != l.file {
		l.close()
		l.file, l.units, l.parts = file, 0, make(map[int]column.NaNs)
	}
	l.units++
}

// note takes in what is known of a column of the unit.
func (l *nanLedger) note(id int, n column.NaNs) {
	if known, seen := l.parts[id]; seen {
		n = plus(known, n)
	}
	l.parts[id] = n
}

// close adds the file up.
func (l *nanLedger) close() {
	if l.total == nil {
		l.total, l.lost = make(map[int]int64), make(map[int]bool)
	}
	for id, part := range l.parts {
		n, known := l.sum(id, part)
		if !known {
			l.lost[id] = true
			delete(l.total, id)
		} else if !l.lost[id] {
			l.total[id] += n
		}
	}
}

// sum is what the units of the file put into the output. A count of the whole file
// holds for it when no unit went elsewhere, or when there is no NaN; one that is
// less than was seen, or more than there are values, is not believed.
func (l *nanLedger) sum(id int, part column.NaNs) (int64, bool) {
	if part.Counted {
		return part.Kept, true
	}
	if l.file == nil {
		return 0, false
	}
	whole, known := l.file.Counts[id]
	if !known || whole < part.Kept+part.Dropped || whole > part.Values+part.Dropped || (whole > 0 && l.units != l.file.Units) {
		return 0, false
	}

	return whole - part.Dropped, true
}

// ofUnits adds up the parts of each unit.
func ofUnits(of []column.NaNs, parts []int) []column.NaNs {
	out := make([]column.NaNs, 0, len(parts))
	for _, n := range parts {
		sum := of[0]
		for _, part := range of[1:n] {
			sum = plus(sum, part)
		}
		out, of = append(out, sum), of[n:]
	}

	return out
}

func plus(a, b column.NaNs) column.NaNs {
	return column.NaNs{
		Kept: a.Kept + b.Kept, Dropped: a.Dropped + b.Dropped, Values: a.Values + b.Values, Counted: a.Counted && b.Counted,
	}
}
