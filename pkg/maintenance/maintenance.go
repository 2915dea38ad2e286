package maintenance

import (
	"context"
	"errors"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/rs/zerolog"

	"compactor/pkg/rewrite"
)

// Claim is what a step needs of the table's claim while it holds it.
type Claim interface {
	// Context dies, with its cause, the moment the claim is lost.
	Context() context.Context
	// Verify asks the authority whether the claim is still held and returns
	// the time by which a commit request must have been answered. Its error
	// wraps ErrClaimLost when the claim is no longer ours.
	Verify(ctx context.Context) (deadline time.Time, err error)
	// Release gives the claim back. It is bounded, idempotent, and safe after
	// a loss and after cancellation.
	Release(ctx context.Context) error
	// Waited is how long the claim was queued for.
	Waited() time.Duration
}

// Claimer grants the claim of a table. ident is the identifier as the catalog
// returned it, so that two spellings of one table are one claim.
type Claimer interface {
	Acquire(ctx context.Context, ident table.Identifier) (Claim, error)
}

// Catalog loads tables and commits to them. CommitTable sends exactly one
// request.
type Catalog interface {
	LoadTable(ctx context.Context, ident table.Identifier) (*table.Table, error)
	CommitTable(ctx context.Context, ident table.Identifier, reqs []table.Requirement,
		updates []table.Update) (table.Metadata, string, error)
}

// Rewriter turns groups of data files into fewer, larger ones and proves that
// no row was lost. It commits nothing.
type Rewriter interface {
	Rewrite(ctx context.Context, tbl *table.Table, groups []rewrite.Group) ([]rewrite.Result, error)
	Prove(ctx context.Context, tbl *table.Table, plan *rewrite.Plan, results []rewrite.Result) (rewrite.Proof, error)
	Verify(ctx context.Context, tbl *table.Table, results []rewrite.Result) error
	RemoveOutputs(ctx context.Context, tbl *table.Table, results []rewrite.Result) (removed []string, err error)
}

// Version names the program in snapshot summaries.
type Version struct {
	Name    string // engine-name, such as "compactor"
	Version string // engine-version
}

// Maintainer runs steps on tables. It is safe for concurrent use on different
// tables; its fields are not changed after the first call.
type Maintainer struct {
	Catalog  Catalog
	Claimer  Claimer // not used, and may be nil, in a dry run
	Rewriter Rewriter
	Version  Version
	RunID    string // unique for one run of the program
	Log      zerolog.Logger
	Now      func() time.Time // wall clock, for reports
	// Deleting is told during deletes of many files how many of how many were
	// dealt with. It must not block; nil tells nobody.
	Deleting func(done, total int)

	// Resolve bounds the search for the outcome of a commit whose answer was
	// unclear. Zero means DefaultResolve.
	Resolve time.Duration
}

// DefaultResolve is how long a table is reloaded after an unclear answer
// before the commit is called ambiguous.
const DefaultResolve = 20 * time.Second

// Classes of failure. Each is terminal for the step: none of them is retried.
var (
	// ErrConflict: the catalog rejected the commit under a held claim, so some
	// writer does not take the claim.
	ErrConflict = errors.New("conflict under a held claim")
	// ErrAmbiguous: it could not be learnt whether the commit happened.
	ErrAmbiguous = errors.New("outcome of the commit is unknown")
	// ErrHalt: an integrity check failed. Nothing was committed.
	ErrHalt = errors.New("integrity check failed")
	// ErrPartial: some groups were refused or failed, the rest is done.
	ErrPartial = errors.New("partly done")
	// ErrRefused: the table or all of its groups are refused, with a reason.
	ErrRefused = errors.New("refused")
	// ErrClaimLost: the claim was lost before the commit was sent.
	ErrClaimLost = errors.New("claim lost")
	// ErrClaimHeld: the claim was not granted within its timeout. A Claimer's
	// error wraps it.
	ErrClaimHeld = errors.New("claim held by another writer")
	// ErrStopped: the run was asked to stop (a signal, or its caller).
	ErrStopped = errors.New("stopped")
)

// Summary keys that every commit of this program carries.
const (
	SummaryRunID         = "compactor.run-id"
	SummaryRound         = "compactor.round"
	summaryEngineName    = "engine-name"
	summaryEngineVersion = "engine-version"
)

func (m *Maintainer) deleting(done, total int) {
	if m.Deleting != nil {
		m.Deleting(done, total)
	}
}

func (m *Maintainer) now() time.Time {
	if m.Now == nil {
		return time.Now().UTC()
	}

	return m.Now()
}

func (m *Maintainer) resolveFor() time.Duration {
	if m.Resolve > 0 {
		return m.Resolve
	}

	return DefaultResolve
}

// cleanupTimeout bounds what is still done after the work was cancelled.
const cleanupTimeout = 30 * time.Second

// afterwards is the context of clean-up work: it survives the cancellation of
// the work it cleans up after, but not for ever.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
}

func currentHead(tbl *table.Table) *int64 {
	s := tbl.CurrentSnapshot()
	if s == nil {
		return nil
	}
	id := s.SnapshotID

	return &id
}

func (m *Maintainer) summary(round string) iceberg.Properties {
	return iceberg.Properties{
		SummaryRunID:         m.RunID,
		SummaryRound:         round,
		summaryEngineName:    m.Version.Name,
		summaryEngineVersion: m.Version.Version,
	}
}
