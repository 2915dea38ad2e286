package maintenance

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"compactor/pkg/rewrite"
)

// Status is the outcome of a step on a table, as reports and exit codes name
// it.
type Status string

// The outcomes. Conflict, ambiguous, lost and halt end all further work on
// that table in the same run.
const (
	StatusDone      Status = "done"
	StatusNothing   Status = "nothing-to-do"
	StatusPlanned   Status = "planned" // dry run
	StatusPartial   Status = "partial"
	StatusRefused   Status = "refused"
	StatusFailed    Status = "failed"
	StatusConflict  Status = "conflict"
	StatusAmbiguous Status = "ambiguous"
	StatusHeld      Status = "held"
	StatusLost      Status = "lost"
	StatusHalt      Status = "halt"
	StatusStopped   Status = "stopped"
	StatusLeft      Status = "left" // for the next run; no failure
)

// The steps.
const (
	StepCompact   = "compact"
	StepManifests = "manifests"
	StepExpire    = "expire"
)

// Report is the one document of a run.
type Report struct {
	Program    string        `json:"program"`
	Version    string        `json:"version"`
	RunID      string        `json:"run_id"`
	StartedAt  time.Time     `json:"started_at"`
	FinishedAt time.Time     `json:"finished_at"`
	DryRun     bool          `json:"dry_run,omitempty"`
	Error      string        `json:"error,omitempty"` // why there is no more than this
	ExitCode   int           `json:"exit_code"`       // the worst of the tables
	Tables     []TableReport `json:"tables"`          // in the order of the work
}

// TableReport is what a run did to one table.
type TableReport struct {
	Table    string       `json:"table"`
	Status   Status       `json:"status"` // of the step that says most, see Close
	ExitCode int          `json:"exit_code"`
	Steps    []StepReport `json:"steps"`
	Error    string       `json:"error,omitempty"`  // set when no step could start
	Reason   string       `json:"reason,omitempty"` // why steps are missing that did not fail
}

// StepReport is what one step did to one table. Byte counts are bytes of data
// files; durations are nanoseconds in Go and seconds in JSON.
type StepReport struct {
	Step           string           `json:"step"`
	Status         Status           `json:"status"`
	Reason         string           `json:"reason,omitempty"`
	SnapshotBefore *int64           `json:"snapshot_before"`
	SnapshotAfter  *int64           `json:"snapshot_after"`
	Before         TableSize        `json:"before"`
	Groups         int              `json:"groups"`
	Rewritten      Change           `json:"rewritten"`
	SortedBy       string           `json:"sorted_by,omitempty"` // the order that rows are written in
	Engines        []EngineUse      `json:"engines,omitempty"`
	DeletesRemoved int              `json:"delete_files_removed"`
	DeletesAdded   int              `json:"delete_files_written,omitempty"`
	GroupsLeft     int              `json:"groups_left"`
	SmallFilesLeft *int             `json:"small_files_left,omitempty"` // live data files below the minimum size after a compaction
	Refused        []Refusal        `json:"refused,omitempty"`
	Failed         []Refusal        `json:"failed,omitempty"`
	Rounds         []RoundReport    `json:"rounds,omitempty"`
	Kept           []string         `json:"kept_files,omitempty"` // uncommitted files that may not be removed
	Plan           *PlanReport      `json:"plan,omitempty"`       // dry run
	Manifests      *ManifestsReport `json:"manifests,omitempty"`
	Expire         *ExpireReport    `json:"expire,omitempty"`
	Orphans        *OrphanReport    `json:"orphans,omitempty"`
	Duration       Seconds          `json:"duration_seconds"`
	ClaimWait      Seconds          `json:"claim_wait_seconds"`
	ClaimHold      Seconds          `json:"claim_hold_seconds"`
	LongestHold    Seconds          `json:"claim_longest_hold_seconds"`
}

// TableSize counts the live data files of the snapshot that was planned on.
type TableSize struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	Rows  int64 `json:"rows"`
}

// Change is what a rewrite replaced.
type Change struct {
	FilesIn     int   `json:"files_in"`
	FilesOut    int   `json:"files_out"`
	BytesIn     int64 `json:"bytes_in"`
	BytesOut    int64 `json:"bytes_out"`
	RowsIn      int64 `json:"rows_in"`
	RowsDeleted int64 `json:"rows_deleted"`
	RowsOut     int64 `json:"rows_out"`
	// IndependentlyProven is false when equality deletes were among the
	// deletes that were applied: they are verified by re-reading instead.
	IndependentlyProven bool `json:"independently_proven"`
}

// EngineUse is what one engine wrote, for one reason.
type EngineUse struct {
	Engine string `json:"engine"`
	// Reason is why pages were not moved, when that was asked for.
	Reason string `json:"reason,omitempty"`
	Groups int    `json:"groups"`
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
	// Pages of the inputs by what became of them: moved as they are, made of a
	// dictionary page that held a page's values in their order, indices rewritten
	// for another dictionary, values put together undecoded (also from a
	// dictionary), compressed anew. All are zero for the general engine, which
	// decodes every page.
	PagesMoved      int64 `json:"pages_moved"`
	PagesPromoted   int64 `json:"pages_promoted"`
	PagesReindexed  int64 `json:"pages_reindexed"`
	PagesJoined     int64 `json:"pages_joined"`
	PagesTranscoded int64 `json:"pages_transcoded"`
	// ChunksDecoded are columns of a row group that were decoded for themselves
	// alone, because of deleted rows, a wider type, default values or row lineage.
	// Their pages are not among those above.
	ChunksDecoded int64 `json:"chunks_decoded"`
	// PagesTrimmed were decoded because of deleted rows, while other pages of their
	// column and row group were moved.
	PagesTrimmed int64 `json:"pages_trimmed"`
	// BytesMoved and BytesMade are the compressed bytes of pages that were moved,
	// and that were made anew.
	BytesMoved int64 `json:"bytes_moved"`
	BytesMade  int64 `json:"bytes_made"`
}

// replaceSmall counts the small files that a round took away, and those that
// it wrote: a partition may have no more rows than that.
func (s *StepReport) replaceSmall(plan *rewrite.Plan, results []rewrite.Result) {
	left := *s.SmallFilesLeft
	for _, r := range results {
		left -= r.Group.SmallFiles
		for _, f := range r.Outputs {
			if plan.IsSmall(f.FileSizeBytes()) {
				left++
			}
		}
	}
	s.SmallFilesLeft = &left
}

// addEngines counts the results of a round by engine and reason.
func (s *StepReport) addEngines(results []rewrite.Result) {
	for _, r := range results {
		i := slices.IndexFunc(s.Engines, func(u EngineUse) bool { return u.Engine == r.Engine.Name && u.Reason == r.Engine.Reason })
		if i < 0 {
			i = len(s.Engines)
			s.Engines = append(s.Engines, EngineUse{Engine: r.Engine.Name, Reason: r.Engine.Reason})
		}
		u, pages := &s.Engines[i], r.Engine.Pages
		u.Groups++
		u.Files += len(r.Group.Files)
		u.Bytes += r.BytesIn
		u.PagesMoved += pages.Verbatim
		u.PagesPromoted += pages.Promoted
		u.PagesReindexed += pages.Remapped
		u.PagesJoined += pages.Coalesced + pages.Gathered
		u.PagesTranscoded += pages.Transcoded
		u.ChunksDecoded += pages.Decoded
		u.PagesTrimmed += pages.Trimmed
		u.BytesMoved += pages.BytesVerbatim
		u.BytesMade += pages.BytesMade
	}
}

// Refusal names what was left alone, or failed, and why.
type Refusal struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
	Files  int    `json:"files,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
}

// RoundReport is one claim: what was committed under it and for how long
// writers had to wait.
type RoundReport struct {
	Round      int     `json:"round"`
	Groups     int     `json:"groups"`
	Parent     *int64  `json:"parent_snapshot"`
	SnapshotID *int64  `json:"snapshot"` // nil: no snapshot was made
	Committed  bool    `json:"committed"`
	Change     Change  `json:"rewritten"`
	ClaimWait  Seconds `json:"claim_wait_seconds"`
	ClaimHold  Seconds `json:"claim_hold_seconds"`
	Found      bool    `json:"found_by_search,omitempty"` // the answer to the commit was unclear
}

// PlanReport is the plan of a dry run, groups in execution order.
type PlanReport struct {
	SnapshotID      int64       `json:"snapshot"`
	EstimatedRounds int         `json:"estimated_rounds"`
	Groups          []GroupPlan `json:"groups"`
	DeleteFiles     int         `json:"delete_files,omitempty"` // to be removed or replaced beside the groups
}

// GroupPlan is one planned group.
type GroupPlan struct {
	ID        string   `json:"id"`
	SpecID    int      `json:"spec_id"`
	Partition string   `json:"partition"`
	Files     []string `json:"files"`
	Bytes     int64    `json:"bytes"`
	Rows      int64    `json:"rows"`
	Outputs   int      `json:"expected_outputs"`
}

// Seconds is a duration that JSON shows in seconds.
type Seconds time.Duration

// MarshalJSON writes seconds with millisecond precision.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return []byte(formatSeconds(time.Duration(s))), nil
}

func formatSeconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', 3, 64)
}

func (c *Change) add(o Change) {
	c.FilesIn += o.FilesIn
	c.FilesOut += o.FilesOut
	c.BytesIn += o.BytesIn
	c.BytesOut += o.BytesOut
	c.RowsIn += o.RowsIn
	c.RowsDeleted += o.RowsDeleted
	c.RowsOut += o.RowsOut
	c.IndependentlyProven = c.IndependentlyProven && o.IndependentlyProven
}

func changeOf(results []rewrite.Result) Change {
	sum := Change{IndependentlyProven: true}
	for _, r := range results {
		sum.add(Change{
			FilesIn: len(r.Group.Files), FilesOut: len(r.Outputs),
			BytesIn: r.BytesIn, BytesOut: r.BytesOut,
			RowsIn: r.RowsIn, RowsDeleted: r.RowsDeleted, RowsOut: r.RowsOut,
			IndependentlyProven: r.IndependentlyProven,
		})
	}

	return sum
}

func planReport(p *rewrite.Plan, rounds int) *PlanReport {
	out := &PlanReport{SnapshotID: p.SnapshotID, EstimatedRounds: rounds}
	for _, g := range p.Groups {
		gp := GroupPlan{ID: g.ID, SpecID: g.SpecID, Partition: g.Partition, Bytes: g.Bytes, Rows: g.Rows, Outputs: g.Outputs}
		for _, f := range g.Files {
			gp.Files = append(gp.Files, f.Data.FilePath())
		}
		out.Groups = append(out.Groups, gp)
	}

	return out
}

// statusOf maps a step's error to its status. Errors of the claim are mapped
// by the caller that knows the claim's package.
func statusOf(err error) Status {
	switch {
	case err == nil:
		return StatusDone
	case errors.Is(err, ErrHalt), errors.Is(err, rewrite.ErrIntegrity):
		return StatusHalt
	case errors.Is(err, ErrAmbiguous):
		return StatusAmbiguous
	case errors.Is(err, ErrConflict):
		return StatusConflict
	case errors.Is(err, ErrClaimLost):
		return StatusLost
	case errors.Is(err, ErrClaimHeld):
		return StatusHeld
	case errors.Is(err, ErrStopped):
		return StatusStopped
	case errors.Is(err, ErrRefused):
		return StatusRefused
	case errors.Is(err, ErrPartial):
		return StatusPartial
	default:
		return StatusFailed
	}
}
