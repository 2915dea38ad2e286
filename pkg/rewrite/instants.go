package rewrite

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

const (
	julianEpoch  = 2440588 // the Julian day of 1970-01-01
	dayNanos     = 86_400_000_000_000
	dayMicros    = dayNanos / microNanos
	microNanos   = 1000
	maxMicroDays = math.MaxInt64/dayMicros - 1
)

// instants is a column of timestamps that a file stores in another form than
// the table's: as INT96, a day and the nanoseconds in it, which Hive, Impala and
// older Spark write, or as nanoseconds where the table has microseconds.
//
// INT96 is cut down to whole microseconds, towards the past, as Iceberg's own
// reader for Java does it, so that rows read the same before and after. It has no
// word about time zones, and is taken for UTC, as there. Nanoseconds are converted
// when nothing is lost; otherwise the group fails.
type instants struct {
	column int // among the leaves of the file
	name   string
	nanos  bool // the table's unit is the nanosecond
	utc    bool // the table's type has a zone
}

// instantsOf finds the columns of a file that have to be converted.
func instantsOf(tbl *table.Table, footer *metadata.FileMetaData, stored fileSchema) ([]instants, error) {
	if len(stored.leaves) != footer.Schema.NumColumns() {
		return nil, nil
	}
	fields, err := iceberg.IndexByID(tbl.Schema())
	if err != nil {
		return nil, fmt.Errorf("index schema of table: %w", err)
	}
	var out []instants
	for i, id := range stored.leaves {
		field, known := fields[id]
		if !known {
			continue
		}
		in := instants{column: i, name: field.Name}
		switch field.Type.(type) {
		case iceberg.TimestampType:
		case iceberg.TimestampTzType:
			in.utc = true
		case iceberg.TimestampNsType:
			in.nanos = true
		case iceberg.TimestampTzNsType:
			in.nanos, in.utc = true, true
		default:
			continue
		}
		if in.convert(footer.Schema.Column(i)) {
			out = append(out, in)
		}
	}

	return out, nil
}

// form is the column as it is read.
func (in instants) form() arrow.DataType {
	if in.nanos {
		return &arrow.TimestampType{Unit: arrow.Nanosecond}
	}

	return &arrow.TimestampType{Unit: arrow.Microsecond}
}

// convert reports whether a column is in one of the forms.
func (in instants) convert(column *schema.Column) bool {
	if column.PhysicalType() == parquet.Types.Int96 {
		return true
	}
	logical, is := column.LogicalType().(schema.TimestampLogicalType)
	if !is {
		if p, pointer := column.LogicalType().(*schema.TimestampLogicalType); pointer {
			logical, is = *p, true
		}
	}

	return is && !in.nanos && logical.TimeUnit() == schema.TimeUnitNanos && logical.IsAdjustedToUTC() == in.utc
}

// ofInt96 converts a value of the twelve bytes.
func (in instants) ofInt96(v parquet.Int96) (int64, error) {
	nanos := int64(binary.LittleEndian.Uint64(v[:8]))
	days := int64(int32(binary.LittleEndian.Uint32(v[8:]))) - julianEpoch
	if nanos < 0 || nanos >= dayNanos {
		return 0, fmt.Errorf("%w: an INT96 timestamp has %d nanoseconds of its day", ErrRefused, nanos)
	}
	if in.nanos {
		at, err := v.ToTimestamp()
		if err != nil {
			return 0, fmt.Errorf("%w: an INT96 timestamp cannot be held: %w", ErrRefused, err)
		}

		return int64(at), nil
	}
	if days > maxMicroDays || days < -maxMicroDays {
		return 0, fmt.Errorf("%w: an INT96 timestamp is %d days from 1970, which microseconds cannot hold", ErrRefused, days)
	}

	return days*dayMicros + nanos/microNanos, nil
}

// ofNanos converts a number of nanoseconds to one of microseconds.
func (instants) ofNanos(v int64) (int64, error) {
	if v%microNanos != 0 {
		return 0, fmt.Errorf("%w: a timestamp of %d nanoseconds is not one of whole microseconds", ErrRefused, v)
	}

	return v / microNanos, nil
}
