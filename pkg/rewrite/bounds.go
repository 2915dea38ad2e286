package rewrite

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

// soundBounds completes what iceberg-go's own writer says about an output, for one
// read of the footer where that is needed.
func (g *groupRun) soundBounds(ctx context.Context, df iceberg.DataFile, nans nanCounter) (iceberg.DataFile, error) {
	var unsound map[int]struct{}
	if len(df.SplitOffsets()) > 1 && len(df.LowerBoundValues())+len(df.UpperBoundValues()) > 0 {
		storage, err := g.tbl.FS(ctx)
		if err != nil {
			return nil, fmt.Errorf("open storage of table: %w", err)
		}
		footer, err := footerOf(storage, df.FilePath())
		if err != nil {
			return nil, fmt.Errorf("read footer of output %s: %w", df.FilePath(), err)
		}
		unsound = withoutExtremes(footer)
	}

	return described(g.tbl, df, measured{unsound, nans, g.group.sorting.orderID()})
}

// measured is what is known of an output beside its footer.
type measured struct {
	unsound map[int]struct{} // columns whose bounds do not cover all rows
	nans    map[int]int64
	order   int // id of the sort order that its rows have
}

// described is an output without the bounds that do not cover all of its rows,
// and with counts of NaNs and the id of its sort order. arrow-go (v18.8.0) leaves
// the extremes of a column chunk out when one is longer than 4096 bytes, and
// iceberg-go (v0.7.0) then takes those of the other row groups for the file's: a
// scan would skip the file for values that it has. An output of one row group has
// all or none of a column.
func described(tbl *table.Table, df iceberg.DataFile, m measured) (iceberg.DataFile, error) {
	lower, upper := df.LowerBoundValues(), df.UpperBoundValues()
	kept := len(lower) + len(upper)
	for id := range m.unsound {
		delete(lower, id)
		delete(upper, id)
	}
	known := table.UnsortedSortOrderID
	if id := df.SortOrderID(); id != nil {
		known = *id
	}
	nans := countedNaNs(df, m.nans)
	if len(lower)+len(upper) == kept && known == m.order && len(nans) == 0 {
		return df, nil
	}
	sound, err := iceberg.NewDataFileBuilder(tbl.Spec(), df.ContentType(), df.FilePath(), df.FileFormat(), df.Partition(),
		avroTypes(tbl.Spec(), tbl.Schema()), nil, df.Count(), df.FileSizeBytes())
	if err != nil {
		return nil, fmt.Errorf("describe output %s: %w", df.FilePath(), err)
	}
	sound.LowerBoundValues(lower).UpperBoundValues(upper).ColumnSizes(df.ColumnSizes()).ValueCounts(df.ValueCounts()).
		NullValueCounts(df.NullValueCounts()).NaNValueCounts(nans).SplitOffsets(df.SplitOffsets())
	if m.order != table.UnsortedSortOrderID {
		sound.SortOrderID(m.order)
	}

	return sound.Build(), nil
}

// avroTypes are the logical types with which a manifest stores the values of a
// partition, by the id of the partition field.
func avroTypes(spec iceberg.PartitionSpec, schema *iceberg.Schema) map[int]string {
	out := make(map[int]string)
	for _, field := range spec.Fields() {
		source, found := schema.FindTypeByID(field.SourceID())
		if !found {
			continue
		}
		switch field.Transform.ResultType(source).(type) {
		case iceberg.DateType:
			out[field.FieldID] = "date"
		case iceberg.TimeType:
			out[field.FieldID] = "time-micros"
		case iceberg.TimestampType, iceberg.TimestampTzType:
			out[field.FieldID] = "timestamp-micros"
		case iceberg.DecimalType:
			out[field.FieldID] = "decimal"
		case iceberg.UUIDType:
			out[field.FieldID] = "uuid"
		}
	}

	return out
}

// footerOf reads the footer of a Parquet file.
func footerOf(storage iceio.IO, path string) (footer *metadata.FileMetaData, err error) {
	defer func() {
		// A damaged footer makes the Parquet library panic.
		if p := recover(); p != nil {
			footer, err = nil, fmt.Errorf("%w: %v", errUnreadable, p)
		}
	}()
	in, err := storage.Open(path)
	if err != nil {
		return nil, unreadable(err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	pf, err := file.NewParquetReader(in)
	if err != nil {
		return nil, unreadable(err)
	}

	return pf.MetaData(), nil
}

// withoutExtremes are the ids of the columns of bytes of which some row group has
// values but no minimum and maximum.
func withoutExtremes(footer *metadata.FileMetaData) map[int]struct{} {
	out := make(map[int]struct{})
	for i := range footer.NumRowGroups() {
		for pos := range footer.Schema.NumColumns() {
			leaf := footer.Schema.Column(pos)
			if t := leaf.PhysicalType(); t != parquet.Types.ByteArray && t != parquet.Types.FixedLenByteArray {
				continue
			}
			chunk, err := footer.RowGroup(i).ColumnChunk(pos)
			if err != nil {
				out[int(leaf.SchemaNode().FieldID())] = struct{}{}

				continue
			}
			stats, err := chunk.Statistics()
			if err == nil && stats != nil && (stats.HasMinMax() || stats.HasNullCount() && stats.NullCount() == chunk.NumValues()) {
				continue
			}
			out[int(leaf.SchemaNode().FieldID())] = struct{}{}
		}
	}

	return out
}
