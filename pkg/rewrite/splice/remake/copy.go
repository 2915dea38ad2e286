package remake

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/parquet/file"
)

// batch is how many levels are read, and about how many are written, at once.
const batch = 4096

// sink takes values in.
type sink[U any] struct {
	write func(values []U, def, rep []int16) (int64, error)
	// value reads a PLAIN value.
	value func(plain []byte) U
}

// copier holds rows that are about to be written. Rows are written whole, which
// version 2 pages need.
type copier[U any] struct {
	job      *Job
	sink     sink[U]
	fill     func(row int64) U
	row      int64 // the one that is read, -1 before the first
	keep     bool
	kept     int64
	def, rep []int16
	values   []U
}

func newCopier[U any](j *Job, put sink[U]) (*copier[U], error) {
	c := &copier[U]{job: j, sink: put, row: -1}
	if j.Fill == nil {
		return c, nil
	}
	if number := j.Fill.Number; number != nil {
		as, ok := any(func(row int64) int64 { return number(row) }).(func(int64) U)
		if !ok {
			return nil, fmt.Errorf("%w: numbers in type %d", ErrCorrupt, j.Leaf.Type)
		}
		c.fill = as

		return c, nil
	}
	if w := j.Leaf.Width(); w > 0 && len(j.Fill.Value) != w {
		return nil, fmt.Errorf("%w: a value of %d bytes, not %d", ErrCorrupt, len(j.Fill.Value), w)
	}
	value := put.value(j.Fill.Value)
	c.fill = func(int64) U { return value }

	return c, nil
}

// begin starts a row.
func (c *copier[U]) begin() error {
	if len(c.def) >= batch {
		if err := c.flush(); err != nil {
			return err
		}
	}
	c.row++
	if c.keep = c.job.Keep == nil || c.job.Keep(c.row); c.keep {
		c.kept++
	}

	return nil
}

// add takes in one entry of the row, with its value where there is one.
func (c *copier[U]) add(def, rep int16, value U, present bool) {
	if s := c.job.Shape; s != nil {
		if int(rep) > s.Rep {
			return
		}
		def, present = min(def, int16(s.Def)), false
	}
	if f := c.job.Fill; f != nil && !present && int(def) == f.At {
		def, value, present = int16(f.Def), c.fill(c.row), true
	}
	if c.job.Levels != nil {
		def = c.job.Levels[def]
	}
	c.def, c.rep = append(c.def, def), append(c.rep, rep)
	if present {
		c.values = append(c.values, value)
	}
}

func (c *copier[U]) flush() error {
	if len(c.def) == 0 {
		return nil
	}
	def, rep := c.def, c.rep
	if c.job.Leaf.MaxDef == 0 {
		def = nil
	}
	if c.job.Leaf.MaxRep == 0 {
		rep = nil
	}
	if _, err := c.sink.write(c.values, def, rep); err != nil {
		return fmt.Errorf("write values: %w", err)
	}
	clear(c.values) // what a byte array refers to may go
	c.def, c.rep, c.values = c.def[:0], c.rep[:0], c.values[:0]

	return nil
}

// finish counts the rows.
func (c *copier[U]) finish() (int64, error) {
	if c.row+1 != c.job.Rows {
		return 0, fmt.Errorf("%w: %d rows decoded of %d", ErrCorrupt, c.row+1, c.job.Rows)
	}

	return c.kept, c.flush()
}

// nulls makes a column of a flat field that is not in the file.
func nulls[U any](j *Job, put sink[U]) (int64, error) {
	c, err := newCopier(j, put)
	if err != nil {
		return 0, err
	}
	var none U
	for range j.Rows {
		if err := c.begin(); err != nil {
			return 0, err
		}
		if c.keep {
			c.add(0, 0, none, false)
		}
	}

	return c.finish()
}

// read is ReadBatch of a reader.
type read[T any] func(size int64, values []T, def, rep []int16) (total int64, got int, err error)

// run copies all entries of a chunk.
func run[T, U any](j *Job, reader file.ColumnChunkReader, next read[T], conv func(T) (U, error), put sink[U]) (int64, error) {
	c, err := newCopier(j, put)
	if err != nil {
		return 0, err
	}
	e := entries[T]{
		values: make([]T, batch), def: make([]int16, batch), rep: make([]int16, batch),
		most: reader.Descriptor().MaxDefinitionLevel(), repeated: reader.Descriptor().MaxRepetitionLevel() > 0,
	}
	for reader.HasNext() {
		total, got, err := next(batch, e.values, e.def, e.rep)
		if err != nil {
			return 0, fmt.Errorf("%w: read values: %w", ErrCorrupt, err)
		}
		if total == 0 {
			break
		}
		if err := copyEntries(c, &e, [2]int{int(total), got}, conv); err != nil {
			return 0, err
		}
	}
	if err := reader.Err(); err != nil {
		return 0, errors.Join(ErrCorrupt, fmt.Errorf("read values: %w", err))
	}

	return c.finish()
}

// entries are a part of a chunk, decoded.
type entries[T any] struct {
	values   []T
	def, rep []int16
	most     int16 // the definition level of a value
	repeated bool
}

// copyEntries takes so many entries with so many values.
func copyEntries[T, U any](c *copier[U], e *entries[T], count [2]int, conv func(T) (U, error)) error {
	at := 0
	for i := range count[0] {
		d := e.most
		if e.most > 0 {
			d = e.def[i]
		}
		r := int16(0)
		if e.repeated {
			r = e.rep[i]
		}
		switch {
		case r == 0:
			if err := c.begin(); err != nil {
				return err
			}
		case c.row < 0:
			return fmt.Errorf("%w: it begins within a row", ErrCorrupt)
		}
		present := d == e.most
		var value U
		if present {
			if at >= count[1] {
				return fmt.Errorf("%w: %d values where there should be more", ErrCorrupt, count[1])
			}
			if c.keep {
				var err error
				if value, err = conv(e.values[at]); err != nil {
					return err
				}
			} else {
				c.job.drop(e.values[at])
			}
			at++
		}
		if c.keep {
			c.add(d, r, value, present)
		} else if !present {
			c.job.gone.Nulls++
		}
	}

	return nil
}
