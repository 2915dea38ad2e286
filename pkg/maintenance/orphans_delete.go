package maintenance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/iceberg-go/table"

	"compactor/internal/store"
)

// orphanBatch is how many files one delete names: what one request of an S3
// store takes.
const orphanBatch = 1000

// failuresNamed is how many failed deletes a report names.
const failuresNamed = 100

// rounds deletes until the list is empty, a round fails, or MaxRounds is
// reached.
func (s *orphanSweep) rounds(ctx context.Context) error {
	for n := 1; len(s.orphans) > 0 && !s.o.Deletes.spent(); n++ {
		if s.o.MaxRounds > 0 && n > s.o.MaxRounds {
			break
		}
		if ctx.Err() != nil {
			s.rep.Orphans.Left = len(s.orphans)

			return fmt.Errorf("before round %d: %w", n, context.Cause(ctx))
		}
		if err := s.round(ctx, n); err != nil {
			s.rep.Orphans.Left = len(s.orphans)

			return fmt.Errorf("round %d: %w", n, err)
		}
	}
	s.rep.Orphans.Left = len(s.orphans)

	return s.finish()
}

func (s *orphanSweep) finish() error {
	rep := s.rep.Orphans
	s.rep.Status = StatusDone
	s.rep.Reason = fmt.Sprintf("%d of %d orphans deleted", rep.Deleted, rep.Found)
	if rep.Rescued > 0 {
		s.rep.Reason += fmt.Sprintf("; %d were referenced meanwhile", rep.Rescued)
	}
	switch limit, _ := s.o.Deletes.bound(); {
	case rep.Left == 0:
	case s.o.Deletes.spent():
		s.rep.Reason += fmt.Sprintf("; %d left for the next run (--max-deletes %d)", rep.Left, limit)
		if len(s.rep.Rounds) == 0 {
			s.rep.Status = StatusLeft
		}
	default:
		s.rep.Reason += fmt.Sprintf("; %d left after max_rounds %d", rep.Left, s.o.MaxRounds)
	}
	s.rep.Reason = s.withUnlisted(s.rep.Reason)
	if rep.Failed > 0 {
		return fmt.Errorf("%s; %d deletes failed, the first: %s: %s: %w",
			s.rep.Reason, rep.Failed, s.rep.Failed[0].What, s.rep.Failed[0].Reason, ErrPartial)
	}

	return nil
}

// round is one claim. It returns after the claim was released.
func (s *orphanSweep) round(ctx context.Context, n int) error {
	claim, err := s.m.Claimer.Acquire(ctx, s.ident)
	if err != nil {
		return fmt.Errorf("claim %s: %w", identString(s.ident), err)
	}
	rep := RoundReport{Round: n, ClaimWait: Seconds(claim.Waited())}
	held := s.m.now()
	defer func() {
		if rerr := claim.Release(ctx); rerr != nil {
			s.m.Log.Warn().Err(rerr).Str("table", identString(s.ident)).Msg("claim release")
		}
		rep.ClaimHold = Seconds(s.m.now().Sub(held))
		s.rep.Rounds = append(s.rep.Rounds, rep)
		s.rep.ClaimWait += rep.ClaimWait
		s.rep.ClaimHold += rep.ClaimHold
		s.rep.LongestHold = max(s.rep.LongestHold, rep.ClaimHold)
	}()
	tbl, err := s.recheck(claim.Context()) //nolint:contextcheck // It works under the claim's context, a child of ctx.
	if err == nil {
		rep.Parent = currentHead(tbl)
		err = s.deleteUntil(claim, tbl, held) //nolint:contextcheck // As above.
	}

	return lostOr(ctx, claim, err)
}

// recheck loads the table under the claim and takes off the list what it names
// by now. Whoever commits under a claim of their own cannot come in between any
// more; and what their commits named before is in the metadata read here.
func (s *orphanSweep) recheck(ctx context.Context) (*table.Table, error) {
	tbl, err := s.m.Catalog.LoadTable(ctx, s.ident)
	if err != nil {
		return nil, fmt.Errorf("load %s under the claim: %w", identString(s.ident), err)
	}
	if err := s.allowed(ctx, tbl); err != nil {
		return nil, err
	}
	if folderOf(tbl.Location()) != s.refs.roots[0] {
		return nil, fmt.Errorf("the table moved to %s since its files were listed: %w", tbl.Location(), ErrRefused)
	}
	s.refs.fresh = map[uint64]struct{}{}
	if err := s.refs.load(ctx, tbl); err != nil {
		return nil, fmt.Errorf("references of %s under the claim: %w", name(tbl), err)
	}
	kept := s.orphans[:0]
	for _, o := range s.orphans {
		p := placeOf(o.path)
		_, named := s.refs.files[p.exact()]
		if _, alike := alikeIn(s.refs.fresh, p); named || alike {
			s.rep.Orphans.Rescued++

			continue
		}
		kept = append(kept, o)
	}
	s.orphans = kept
	if err := s.history.refuseLostRefs(ctx, tbl, s.o.AcceptLostRefs); err != nil {
		return nil, err
	}

	return tbl, nil
}

// deleteUntil deletes from the front of the list, at least one batch, until
// the next batch would not fit into MaxHold. What it deletes is
//
//	below a listed folder of this table, and no other table's tree,
//	not named by any snapshot, statistics or metadata log of the table as it
//	was loaded under this claim, nor spelled like such a file,
//	no metadata.json, version hint or hidden name, and
//	older than the least age, by the store's clock at the listing,
//
// while the claim, verified before each batch, is still held.
func (s *orphanSweep) deleteUntil(claim Claim, tbl *table.Table, held time.Time) error {
	for first := true; len(s.orphans) > 0 && !s.o.Deletes.spent(); first = false {
		started := s.m.now()
		if !first && s.o.MaxHold > 0 && started.Sub(held) >= s.o.MaxHold {
			return nil
		}
		deadline, err := claim.Verify(claim.Context())
		if err != nil {
			return fmt.Errorf("verify claim before a delete: %w", err)
		}
		if err := s.deleteBatch(claim.Context(), tbl, deadline); err != nil {
			return err
		}
		if took := s.m.now().Sub(started); s.o.MaxHold > 0 && s.m.now().Sub(held)+took > s.o.MaxHold {
			return nil
		}
	}

	return nil
}

// deleteBatch deletes the next files. Those that fail are named in the report
// and not tried again in this run.
func (s *orphanSweep) deleteBatch(ctx context.Context, tbl *table.Table, deadline time.Time) error {
	files, err := openLister(ctx, tbl)
	if err != nil {
		return err
	}
	batch := s.orphans[:s.o.Deletes.take(min(len(s.orphans), orphanBatch))]
	if len(batch) == 0 {
		return nil // Another table has used the rest up.
	}
	paths := make([]string, len(batch))
	sizes := make(map[string]int64, len(batch))
	for i, o := range batch {
		paths[i], sizes[o.path] = o.path, o.size
	}
	bound, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	deleted, err := files.DeleteFiles(bound, paths)
	rep := s.rep.Orphans
	for _, p := range deleted {
		rep.Deleted++
		rep.Bytes += sizes[p]
		s.m.Log.Debug().Str("table", name(tbl)).Str("path", p).Msg("orphan deleted")
	}
	if ctx.Err() != nil {
		// What was not deleted is still on the list; deleting again is harmless.
		return fmt.Errorf("delete orphans of %s: %w", name(tbl), errors.Join(context.Cause(ctx), err))
	}
	s.orphans = s.orphans[len(batch):]
	rep.Failed += len(batch) - len(deleted)
	s.m.deleting(rep.Deleted+rep.Failed, s.planned-rep.Rescued)
	s.nameFailures(err)
	if len(deleted) == 0 && err != nil && len(s.orphans) > 0 {
		return fmt.Errorf("delete orphans of %s: none of %d was deleted, the rest is not tried: %w", name(tbl), len(batch),
			classed(ErrPartial, nil, err))
	}

	return nil
}

func (s *orphanSweep) nameFailures(err error) {
	if err == nil {
		return
	}
	var failed *store.DeleteError
	if !errors.As(err, &failed) {
		s.rep.Failed = append(s.rep.Failed, Refusal{What: "delete", Reason: err.Error()})

		return
	}
	for _, f := range failed.Failed {
		if len(s.rep.Failed) == failuresNamed {
			return
		}
		s.rep.Failed = append(s.rep.Failed, Refusal{What: f.Path, Reason: f.Err.Error(), Files: 1})
	}
}
