package rewrite

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"reflect"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"compactor/pkg/rewrite/splice"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
	"compactor/pkg/rewrite/splice/refuse"
)

// spliceOutput is the output that is being written.
type spliceOutput struct {
	path   string
	file   iceio.FileWriter
	writer *splice.Writer
}

// openOutput begins a file with the columns as the unit's file stores them.
func (s *spliceRun) openOutput(u spliceUnit) error {
	path, err := s.newPath()
	if err != nil {
		return err
	}
	file, err := s.fs.Create(path)
	if err != nil {
		return err
	}
	s.open = &spliceOutput{path: path, file: file}
	columns := u.File.Layout
	if s.loose {
		if columns, err = columns.Loose(s.schema); err != nil {
			return fmt.Errorf("output %s: %w", path, err)
		}
	}
	if s.open.writer, err = splice.NewWriter(file, columns, s.opts); err != nil {
		return fmt.Errorf("output %s: %w", path, err)
	}

	return nil
}

// newPath names the next data file.
func (s *spliceRun) newPath() (string, error) {
	s.files++

	return outputPath(s.tbl, s.out, s.group, s.files-1)
}

// closeOutput finishes the open file and describes it.
func (s *spliceRun) closeOutput(ctx context.Context, res *Result) error {
	if s.open == nil {
		return nil
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	o := s.open
	footer, err := o.writer.Close()
	if err != nil {
		return fmt.Errorf("output %s: %w", o.path, err)
	}
	s.open = nil
	if err := o.file.Close(); err != nil {
		return fmt.Errorf("close output %s: %w", o.path, err)
	}
	df, err := s.describe(o, footer)
	if err != nil {
		return fmt.Errorf("describe output %s: %w", o.path, err)
	}
	res.Outputs = append(res.Outputs, df)
	s.pages.Add(o.writer.Counts())
	s.cutter.closed(o.writer.Written())

	return nil
}

// describe makes the manifest entry from the footer, by the library's own rules,
// so that its metrics are those that the general engine would give.
func (s *spliceRun) describe(o *spliceOutput, footer []byte) (iceberg.DataFile, error) {
	meta, err := metadata.NewFileMetaData(footer, nil)
	if err != nil {
		return nil, fmt.Errorf("read footer: %w", err)
	}
	df, err := table.DataFileFromMetadata(table.DataFileArgs{
		Schema: s.schema, Spec: s.tbl.Spec(), Format: iceberg.ParquetFile, Metadata: meta,
		FilePath: o.path, FileSize: o.writer.Written(), Content: iceberg.EntryContentData,
		PartitionValues: s.partition(), Properties: s.out.Properties(),
		FormatVersion: s.tbl.Metadata().Version(),
	})
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}

	return described(s.tbl, df, measured{nans: o.writer.NaNs(), order: s.group.sorting.orderID()})
}

// partition is that of every output: the inputs' own, or none after the table has
// lost its partitions.
func (s *spliceRun) partition() map[int]any {
	if spec := s.tbl.Spec(); spec.IsUnpartitioned() {
		return nil
	}

	return s.group.Files[0].Data.Partition()
}

// check looks at a unit before it is loaded. It has to fit the limits, and the
// partition of its file: under an identity transform every row holds the
// partition's value, which equal bounds prove.
func (s *spliceRun) check(u splice.Unit, df iceberg.DataFile) error {
	if u.Rows() > s.rowLimit {
		return &refuse.Error{Rule: ruleRows, Detail: fmt.Sprintf("%d rows in %s", u.Rows(), df.FilePath())}
	}
	if u.Held() > s.rowGroup {
		return &refuse.Error{Rule: ruleMemory, Detail: fmt.Sprintf("%d bytes in %s", u.Held(), df.FilePath())}
	}
	spec := s.tbl.Metadata().PartitionSpecByID(int(df.SpecID()))
	if spec == nil {
		return &refuse.Error{Rule: ruleSpec, Detail: df.FilePath()}
	}
	for _, field := range identityFields(*spec) {
		if _, live := s.tbl.Schema().FindFieldByID(field.SourceID()); !live {
			continue
		}
		want := df.Partition()[field.FieldID]
		sum, leaf, found := u.Bounds(field.SourceID())
		known := found && !sum.Unknown
		if want == nil {
			known = known && sum.Nulls == u.Rows()
		} else {
			known = known && sum.Nulls == 0 && sum.Min != nil && bytes.Equal(sum.Min, sum.Max) && plainEquals(leaf, sum.Min, want)
		}
		if !known {
			return &refuse.Error{Rule: rulePartition, Detail: fmt.Sprintf("%s in %s", field.Name, df.FilePath())}
		}
	}

	return nil
}

// plainEquals compares a PLAIN value with one of a partition; what is not known
// here is not equal.
func plainEquals(leaf page.Leaf, plain []byte, want any) bool {
	var value decimal128.Num
	switch d := want.(type) {
	case iceberg.Decimal:
		value = d.Val
	case iceberg.DecimalLiteral:
		value = d.Val
	default:
		return plainSame(leaf, plain, want)
	}
	switch leaf.Type {
	case format.Int32:
		return decimal128.FromI64(int64(int32(binary.LittleEndian.Uint32(plain)))) == value
	case format.Int64:
		return decimal128.FromI64(int64(binary.LittleEndian.Uint64(plain))) == value
	case format.FixedLenByteArray:
		wide := make([]byte, 16)
		for i := range wide {
			if plain[0] >= 0x80 {
				wide[i] = 0xff
			}
		}
		copy(wide[16-len(plain):], plain)

		return decimal128.New(int64(binary.BigEndian.Uint64(wide)), binary.BigEndian.Uint64(wide[8:])) == value
	}

	return false
}

func plainSame(leaf page.Leaf, plain []byte, want any) bool {
	switch leaf.Type {
	case format.Int32, format.Int64:
		got := int64(int32(binary.LittleEndian.Uint32(plain)))
		if leaf.Type == format.Int64 {
			got = int64(binary.LittleEndian.Uint64(plain))
		}

		return isInt(want) && sameInt(func(int) int64 { return got }, want)(0)
	case format.ByteArray, format.FixedLenByteArray:
		return isBytes(want) && sameBytes(func(int) []byte { return plain }, want)(0)
	case format.Boolean:
		return want == (plain[0] == 1)
	}

	return false
}

func isInt(v any) bool { return reflect.ValueOf(v).CanInt() }

func isBytes(v any) bool {
	switch reflect.ValueOf(v).Kind() {
	case reflect.String, reflect.Slice, reflect.Array:
		return true
	}

	return false
}
