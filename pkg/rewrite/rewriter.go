package rewrite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"compactor/internal/tablename"
	"compactor/pkg/rewrite/splice"
	"compactor/pkg/rewrite/splice/column"
)

// ErrIntegrity means that rows did not come out as they went in. Nothing may be
// committed, and a retry would hide what happened.
var ErrIntegrity = errors.New("integrity check failed")

// Options configure a Rewriter. The zero value works: one group at a time, no
// memory limit, no log.
type Options struct {
	// Memory in bytes for everything allocated here, over all parallel groups.
	// 0 sets no limit. The process must also set the runtime's memory limit to
	// it, or the collector lets the heap grow beyond.
	Memory int64
	// Parallel is how many groups are rewritten at once. Values below 1 mean 1.
	Parallel int
	// TargetFileSize in bytes overrides the size the plan was made with. 0 keeps it.
	TargetFileSize int64
	// Verify makes Prove run Verify on every group, not only on those whose
	// deletes could not be counted independently.
	Verify bool
	// Progress, when set, is called after every batch, from several goroutines.
	Progress func(Progress)
	// Logger receives one line per group. The zero value logs nothing.
	Logger zerolog.Logger
	// BeforeWrite, when set, replaces each batch between reader and writer. It
	// exists to inject faults in tests; it owns its argument and returns an owned
	// batch.
	BeforeWrite func(arrow.RecordBatch) arrow.RecordBatch
	// BeforeChunk, when set, sees each column chunk that was spliced before it is
	// written, with the column's path. It exists to inject faults in tests.
	BeforeChunk func(path []string, chunk *column.Built)
	// TempDir is the folder for rows that are being sorted and do not fit the
	// memory, and for columns of timestamps that are converted. Empty is the system's own for temporary files.
	TempDir string
	// BeforeUnits, when set, replaces the inputs' row groups of which one is about
	// to be spliced. It exists to inject faults in tests.
	BeforeUnits func([]splice.Unit) []splice.Unit
	// Recompress compresses moved pages anew where the table names another codec
	// than theirs, and all of them where it names a level. The general engine
	// always does.
	Recompress bool
	// Engine is EngineAuto, EngineGeneral or EngineSplice; empty is EngineAuto.
	// A group that cannot be spliced goes the general way.
	Engine string
}

// Progress is how far one group is.
type Progress struct {
	Group               string
	RowsDone, RowsTotal int64
	BytesDone, Bytes    int64 // input bytes, estimated from rows
}

// Result is what became of one group.
type Result struct {
	Group   Group
	Outputs []iceberg.DataFile
	// RowsIn are the rows of the inputs, RowsDeleted those that deletes removed
	// by the engine's account, RowsOut those in the outputs' metadata.
	RowsIn, RowsDeleted, RowsOut int64
	BytesIn, BytesOut            int64
	// IndependentlyProven is set by Prove: the deleted rows were counted without
	// reading the inputs. Groups with equality deletes never are; they are
	// verified by reading again.
	IndependentlyProven bool
	Elapsed             time.Duration
	// Refused are files that were left out of the group. Its other files were
	// rewritten, unless Err says that they alone are not worth it.
	Refused []Refusal
	// Err is why the group failed; its outputs are removed then.
	Err error
	// Engine is how the outputs came about.
	Engine Engine

	created []string // every path this group made
}

// Rewriter rewrites groups. It is safe for concurrent use.
type Rewriter struct {
	opts   Options
	memory *semaphore.Weighted
}

// New returns a Rewriter.
func New(o Options) *Rewriter {
	o.Parallel = max(1, o.Parallel)
	r := &Rewriter{opts: o}
	if o.Memory > 0 {
		r.memory = semaphore.NewWeighted(o.Memory)
	}

	return r
}

// Rewrite reads each group with its deletes applied and writes its outputs.
// Results come in the order of groups.
//
// A group that fails has its Err set and its outputs removed; the others go on.
// Rewrite itself fails only when the context is cancelled or two groups share a
// file, and then every output of the call is removed. The table is not changed
// in any case, so the call may be repeated.
func (r *Rewriter) Rewrite(ctx context.Context, tbl *table.Table, groups []Group) ([]Result, error) {
	if err := disjoint(groups); err != nil {
		return nil, err
	}
	results := make([]Result, len(groups))
	var work errgroup.Group
	work.SetLimit(r.opts.Parallel)
	for i, g := range groups {
		work.Go(func() error {
			results[i] = r.one(ctx, tbl, g)

			return nil
		})
	}
	_ = work.Wait() // no goroutine above returns an error
	if ctx.Err() == nil {
		return results, nil
	}
	cause := fmt.Errorf("rewrite groups: %w", context.Cause(ctx))
	if _, err := r.RemoveOutputs(ctx, tbl, results); err != nil {
		return nil, errors.Join(cause, err)
	}

	return nil, cause
}

// disjoint makes sure that no file would be read twice.
func disjoint(groups []Group) error {
	owner := make(map[string]string)
	for _, g := range groups {
		for _, f := range g.Files {
			path := f.Data.FilePath()
			if first, twice := owner[path]; twice {
				return fmt.Errorf("%w: data file %s is in groups %s and %s", ErrIntegrity, path, first, g.ID)
			}
			owner[path] = g.ID
		}
	}

	return nil
}

// one rewrites a single group and cleans up after a failure.
func (r *Rewriter) one(ctx context.Context, tbl *table.Table, g Group) Result {
	res := Result{Group: g}
	res.countInputs()
	start := time.Now()
	rec := &recorder{}
	done, err := r.trySplice(ctx, tbl, rec, &res)
	if !done && err == nil {
		err = r.general(ctx, tbl, rec, &res)
	}
	res.Elapsed = time.Since(start)
	res.created = rec.paths()
	if err != nil {
		res.Err = fmt.Errorf("rewrite %s: %w", groupName(g), err)
		if left := removeAll(ctx, tbl, res.created); left != nil {
			res.Err = errors.Join(res.Err, left)
		}
		res.Outputs, res.RowsOut, res.BytesOut = nil, 0, 0
	}
	r.log(ctx, tbl, res)

	return res
}

// trySplice splices the group when it is one that can be. Otherwise it leaves
// nothing behind but the reason, and the general engine begins anew.
func (r *Rewriter) trySplice(ctx context.Context, tbl *table.Table, rec *recorder, res *Result) (done bool, err error) {
	res.Engine = Engine{Name: EngineGeneral}
	if r.opts.Engine == EngineGeneral {
		return false, nil
	}
	err = r.choose(tbl, res.Group)
	if err == nil {
		if err = r.spliceGroup(ctx, tbl, rec, res); err == nil {
			return true, nil
		}
	}
	why := notSpliced(err)
	if why == nil || ctx.Err() != nil || rec.failure() != nil {
		return false, err
	}
	res.Engine = Engine{Name: EngineGeneral, Reason: string(why.Rule), Detail: why.Detail}

	return false, rec.undo(ctx, tbl, res)
}

// general decodes and encodes the group.
func (r *Rewriter) general(ctx context.Context, tbl *table.Table, rec *recorder, res *Result) error {
	files, refused, err := inspect(ctx, tbl, res.Group.Files, r.inspectionMemory)
	if err != nil {
		return err
	}
	if res.Group.Files = files; len(refused) > 0 {
		if err := res.leave(refused); err != nil {
			return err
		}
	}

	return r.writeGroup(ctx, tbl, rec, res)
}

// writeGroup writes the outputs of the result's group into the result.
func (r *Rewriter) writeGroup(ctx context.Context, tbl *table.Table, rec *recorder, res *Result) error {
	return r.reserve(ctx, tbl, res.Group, func(a allotment) error {
		run := groupRun{rewriter: r, tbl: tbl, group: res.Group, fs: rec, allotment: a}
		first := run
		err := first.write(ctx, res)
		if !errors.Is(err, errNaNForms) || ctx.Err() != nil {
			return err
		}
		if err := rec.undo(ctx, tbl, res); err != nil {
			return err
		}
		run.plainFloats = true

		return run.write(ctx, res)
	})
}

// reserve runs work with its share of the memory budget.
func (r *Rewriter) reserve(ctx context.Context, tbl *table.Table, g Group, work func(allotment) error) error {
	need := estimate(tbl, g)
	if r.memory == nil {
		return work(need.fit(0))
	}
	if need.minimum() > r.opts.Memory {
		return fmt.Errorf("needs %d bytes of memory, has %d", need.minimum(), r.opts.Memory)
	}
	a := need.fit(r.opts.Memory / int64(r.opts.Parallel))
	share := min(a.total, r.opts.Memory)
	if err := r.memory.Acquire(ctx, share); err != nil {
		return fmt.Errorf("wait for memory: %w", err)
	}
	defer r.memory.Release(share)

	return work(a)
}

// inspectionMemory hands out a group's share, for the rare file whose
// dictionary is too large to be looked at on the side.
func (r *Rewriter) inspectionMemory(ctx context.Context) (int64, func(), error) {
	if r.memory == nil {
		return math.MaxInt64, func() {}, nil
	}
	bytes := max(1, r.opts.Memory/int64(r.opts.Parallel))
	if err := r.memory.Acquire(ctx, bytes); err != nil {
		return 0, nil, fmt.Errorf("wait for memory: %w", err)
	}

	return bytes * livePercent / 100, func() { r.memory.Release(bytes) }, nil
}

func (r *Rewriter) log(ctx context.Context, tbl *table.Table, res Result) {
	event, what := r.opts.Logger.Debug(), "group rewritten"
	switch {
	case res.Err != nil && ctx.Err() != nil: // The step says why it was stopped.
		event, what = r.opts.Logger.Info().Err(res.Err), "group stopped"
	case res.Err != nil:
		event, what = r.opts.Logger.Error().Err(res.Err), "group failed"
	}
	event.Str("table", tablename.String(tbl.Identifier())).Str("group", res.Group.ID).Str("partition", res.Group.Partition).
		Int("files_in", len(res.Group.Files)).Int("files_out", len(res.Outputs)).
		Int64("rows_in", res.RowsIn).Int64("rows_out", res.RowsOut).
		Int64("bytes_in", res.BytesIn).Int64("bytes_out", res.BytesOut).
		Str("engine", res.Engine.Name).Str("engine_reason", res.Engine.Reason).
		Dur("elapsed", res.Elapsed).Msg(what)
}

// RemoveOutputs removes every file the results' groups created, and returns
// those that are gone. It works on a cancelled context. Files that are missing
// already count as removed, so the call may be repeated. It must not be called
// once a commit may have happened.
func (r *Rewriter) RemoveOutputs(ctx context.Context, tbl *table.Table, results []Result) ([]string, error) {
	var (
		mu      sync.Mutex
		removed []string
		failed  []error
		work    errgroup.Group
	)
	work.SetLimit(manifestReaders)
	fs, err := openFresh(ctx, tbl)
	if err != nil {
		return nil, err
	}
	for _, res := range results {
		for _, path := range res.created {
			work.Go(func() error {
				err := removeOne(fs, path)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed = append(failed, err)
				} else {
					removed = append(removed, path)
				}

				return nil
			})
		}
	}
	_ = work.Wait() // failures are gathered above

	return removed, errors.Join(failed...)
}
