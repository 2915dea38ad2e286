package rewrite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"

	"compactor/pkg/rewrite/splice"
	"compactor/pkg/rewrite/splice/codec"
	"compactor/pkg/rewrite/splice/column"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/layout"
	"compactor/pkg/rewrite/splice/refuse"
)

const (
	// spliceRowGroup is the compressed size of a row group that is written.
	spliceRowGroup = 64 << 20
	// spliceLeast is the least memory in which row groups are put together.
	spliceLeast = 64 << 20
	// spliceParts is how many row groups the memory has to hold: the one that is
	// put together, what is fetched ahead of it, and what is made anew of it.
	spliceParts = 3
	// spliceSlack is room for files that are being fetched.
	spliceSlack = 3 * spliceWhole
	// spliceWriter is the writer that footers name, with a version of its own. Readers
	// of Java refuse some pages of DELTA_BYTE_ARRAY by a writer without a version or
	// with one below 1.8, whoever that is (PARQUET-246).
	spliceWriter = "compactor version 2.0.0 (build splice)"
	// spliceTrim is the size of a column chunk from which only those pages are
	// decoded that lose rows.
	spliceTrim = 64 << 10
	// splicePage is the average size of pages below which a column's pages are
	// put together; docs/performance.md has the measurement.
	splicePage = 16 << 10
	// spliceFrame is the average size of their bodies from which on they are not
	// compressed anew for that, and spliceExcess how many percent larger than what is
	// compressed anew they may be; docs/performance.md has the measurement.
	spliceFrame  = 8 << 10
	spliceExcess = 10
)

// spliceRun writes the outputs of one group from the pages of its inputs.
type spliceRun struct {
	rewriter *Rewriter
	tbl      *table.Table // as it is read
	out      *table.Table // as it is written
	schema   *iceberg.Schema
	group    Group
	fs       *recorder
	cutter   *cutter
	opts     splice.Options
	rowGroup int64 // bytes
	rowLimit int64
	enough   bool // a row group ends when it is large enough
	reader   *spliceReader
	loose    bool // outputs have columns as optional as the table has them

	open  *spliceOutput
	units []spliceUnit // of the row group that is being put together
	bytes int64
	cost  int64 // what the units hold of the reader's budget
	rows  int64
	files int
	pages column.Counts
}

// spliceGroup writes the outputs of the result's group into the result.
func (r *Rewriter) spliceGroup(ctx context.Context, tbl *table.Table, rec *recorder, res *Result) error {
	budget := int64(spliceParts*spliceRowGroup + spliceSlack)
	if r.memory != nil {
		budget = min(budget, r.opts.Memory/int64(r.opts.Parallel))
		if budget < spliceLeast {
			return &refuse.Error{Rule: ruleMemory, Detail: fmt.Sprintf("%d bytes for a group", budget)}
		}
		share := min(r.opts.Memory, gross(budget))
		if err := r.memory.Acquire(ctx, share); err != nil {
			return fmt.Errorf("wait for memory: %w", err)
		}
		defer r.memory.Release(share)
		budget = share * livePercent / 100
	}
	run := spliceRun{rewriter: r, tbl: tbl, group: res.Group, fs: rec, rowGroup: (budget - spliceSlack) / spliceParts}
	first := run
	err := first.all(ctx, res)
	why := notSpliced(err)
	if why == nil || why.Rule != layout.RuleDifferent || ctx.Err() != nil || rec.failure() != nil {
		return err
	}
	// The first file requires a column that a later one does not, or the like. The
	// form that the table asks for has room for both.
	if err := rec.undo(ctx, tbl, res); err != nil {
		return err
	}
	run.loose = true

	return run.all(ctx, res)
}

// all does the group from its start to its end.
func (s *spliceRun) all(ctx context.Context, res *Result) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	defer s.abandon()

	return s.write(ctx, res)
}

func (s *spliceRun) prepare(ctx context.Context) error {
	if t := s.rewriter.opts.TargetFileSize; t > 0 {
		s.group.size = sizing{target: t, min: t * minFileSizePercent / 100, max: t * maxFileSizePercent / 100}
	}
	var err error
	if s.out, err = writerTable(s.tbl, s.fs, false); err != nil {
		return err
	}
	if _, err := s.fs.open(s.tbl)(ctx); err != nil {
		return err
	}
	columns := s.tbl.Schema()
	if s.group.lineage && s.tbl.Metadata().Version() >= 3 {
		columns = iceberg.SchemaWithRowLineage(columns)
	}
	if s.schema, err = iceberg.SanitizeColumnNames(columns); err != nil {
		return fmt.Errorf("adapt column names: %w", err)
	}
	storage, err := s.tbl.FS(ctx)
	if err != nil {
		return fmt.Errorf("open storage of table: %w", err)
	}
	props := s.out.Properties()
	s.rowGroup = min(s.rowGroup, int64(props.GetInt(table.ParquetRowGroupSizeBytesKey, table.ParquetRowGroupSizeBytesDefault)))
	s.rowLimit = int64(props.GetInt(table.ParquetRowGroupLimitKey, table.ParquetRowGroupLimitDefault))
	s.enough = choosesRowGroups(s.tbl.Properties())
	s.reader = newSpliceReader(storage, &layout.Finder{Schema: s.schema, Names: s.tbl.Metadata().NameMapping()}, 2*s.rowGroup+spliceSlack)
	s.reader.guard = s.check
	if s.reader.deleted, err = readDeletedRows(storage, s.group.Files); err != nil {
		return err
	}
	rows, bytes := (&groupRun{tbl: s.tbl, group: s.group}).expected()
	s.cutter = newCutter(s.group.size, rows, bytes, 1)

	return s.options()
}

// options maps the table's properties, as the general engine has them too.
func (s *spliceRun) options() error {
	props := s.out.Properties()
	tableCodec, err := codecOf(props)
	if err != nil {
		return err
	}
	schema, err := json.Marshal(s.tbl.Schema())
	if err != nil {
		return fmt.Errorf("write schema of table: %w", err)
	}
	pageVersion := parquet.DataPageV2
	if props.Get(table.ParquetPageVersionKey, table.ParquetPageVersionDefault) == "1" {
		pageVersion = parquet.DataPageV1
	}
	level := props.GetInt(compressionLevelKey, compress.DefaultCompressionLevel)
	s.opts = splice.Options{
		Column: column.Options{
			Pool: codec.New(tableCodec, level), Buffers: &column.Buffers{},
			Codec: tableCodec, V2: pageVersion == parquet.DataPageV2,
			PageBytes:       props.GetInt(table.ParquetPageSizeBytesKey, table.ParquetPageSizeBytesDefault),
			DictionaryBytes: props.GetInt(table.ParquetDictSizeBytesKey, table.ParquetDictSizeBytesDefault),
			SmallPage:       splicePage, SmallFrame: spliceFrame, FrameExcess: spliceExcess,
		},
		Workers: runtime.GOMAXPROCS(0), CreatedBy: spliceWriter,
		TrimBytes: spliceTrim,
		Bloom:     bloomColumns(props), BloomBytes: props.GetInt(table.ParquetBloomFilterMaxBytesKey, table.ParquetBloomFilterMaxBytesDefault),
		KeyValues: []format.KeyValue{{Key: "iceberg.schema", Value: string(schema)}},
		Tamper:    s.rewriter.opts.BeforeChunk,
	}
	if s.rewriter.opts.Recompress {
		s.opts.Column.Recompress = column.RecompressOther
		// What the writer's view of the table adds is no wish of its owner.
		if s.tbl.Properties()[compressionLevelKey] != "" {
			s.opts.Column.Recompress = column.RecompressAll
		}
	}
	s.opts.Remake = []parquet.WriterProperty{
		parquet.WithCompression(compress.Compression(tableCodec)), parquet.WithCompressionLevel(level),
		parquet.WithDataPageVersion(pageVersion), parquet.WithDataPageSize(int64(s.opts.Column.PageBytes)),
		parquet.WithDictionaryPageSizeLimit(int64(s.opts.Column.DictionaryBytes)),
	}

	return nil
}

// bloomColumns are the columns, by their path in the file, for which the table
// asks for a Bloom filter.
func bloomColumns(props iceberg.Properties) map[string]bool {
	out := make(map[string]bool)
	for key, value := range props {
		if name, found := strings.CutPrefix(key, table.ParquetBloomFilterColumnEnabledKeyPrefix+"."); found {
			out[name] = strings.EqualFold(value, "true")
		}
	}

	return out
}

func codecOf(props iceberg.Properties) (format.Codec, error) {
	var c compress.Compression
	name := strings.ToUpper(props.Get(compressionCodecKey, "zstd"))
	if name == "LZ4RAW" {
		name = "LZ4_RAW"
	}
	if err := c.UnmarshalText([]byte(name)); err != nil || !codec.Known(format.Codec(c)) {
		return 0, &refuse.Error{Rule: splice.RuleCodec, Detail: name}
	}

	return format.Codec(c), nil
}

// write takes the units in their order and cuts them into row groups and files.
func (s *spliceRun) write(ctx context.Context, res *Result) error {
	units := make(chan spliceUnit)
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return s.reader.run(ctx, s.group.Files, units) })
	work.Go(func() error {
		for u := range units {
			if err := s.take(ctx, u, res); err != nil {
				return err
			}
		}
		if err := context.Cause(ctx); err != nil {
			return err // the reader has said why
		}

		return s.closeOutput(ctx, res)
	})
	if err := work.Wait(); err != nil {
		if written := s.fs.failure(); written != nil && ctx.Err() == nil {
			return errors.Join(err, written)
		}

		return err //nolint:wrapcheck // wrapped where it was made
	}
	res.Engine = Engine{Name: EngineSplice, Pages: s.pages}

	return s.account(res)
}

// take puts one unit where it belongs.
func (s *spliceRun) take(ctx context.Context, u spliceUnit, res *Result) error {
	if u.Bytes() > s.group.size.target/2 && s.group.Outputs > 1 {
		return &refuse.Error{Rule: ruleSizes, Detail: fmt.Sprintf("%d bytes", u.Bytes())}
	}
	full := s.rows+u.Rows() > s.rowLimit || s.bytes+u.Bytes() > s.group.size.target/2 || s.cost+u.cost > s.rowGroup ||
		s.enough && s.rows >= enoughRows && s.bytes >= enoughBytes
	if len(s.units) > 0 && full {
		if err := s.flush(ctx); err != nil {
			return err
		}
	}
	if s.cutter.full(u.Rows()) {
		if err := s.closeOutput(ctx, res); err != nil {
			return err
		}
	}
	if s.open == nil {
		if err := s.openOutput(u); err != nil {
			return err
		}
	}
	s.units = append(s.units, u)
	s.rows += u.Rows()
	s.bytes += u.Bytes()
	s.cost += u.cost
	s.cutter.add(u.Rows())

	return nil
}

// flush writes the row group that was put together and lets its inputs go.
func (s *spliceRun) flush(ctx context.Context) error {
	if len(s.units) == 0 {
		return nil
	}
	plain := make([]splice.Unit, len(s.units))
	for i, u := range s.units {
		plain[i] = u.Unit
	}
	if hook := s.rewriter.opts.BeforeUnits; hook != nil {
		plain = hook(plain)
	}
	if err := s.open.writer.RowGroup(ctx, plain); err != nil {
		return fmt.Errorf("output %s: %w", s.open.path, err)
	}
	s.reader.held.Release(s.cost)
	s.units, s.rows, s.bytes, s.cost = nil, 0, 0, 0
	s.cutter.observe(s.open.writer.Written())
	s.report()

	return nil
}

// abandon closes what a failure left open. The caller removes the outputs.
func (s *spliceRun) abandon() {
	if s.open != nil {
		_ = s.open.file.Close() // the output is removed
	}
}

func (s *spliceRun) report() {
	if s.rewriter.opts.Progress == nil {
		return
	}
	done := s.cutter.rowsDone + s.cutter.rows
	s.rewriter.opts.Progress(Progress{
		Group: s.group.ID, RowsDone: done, RowsTotal: s.cutter.rowsTotal,
		BytesDone: int64(float64(s.group.Bytes) * ratio(done, s.cutter.rowsTotal)), Bytes: s.group.Bytes,
	})
}

// account compares what was written with what went in, as the general engine
// does with the rows it read.
func (s *spliceRun) account(res *Result) error {
	general := &groupRun{tbl: s.tbl, group: s.group, fs: s.fs, rows: s.cutter.rowsDone}

	return general.check(res)
}
