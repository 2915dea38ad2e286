package maintenance

import (
	"fmt"
	"strings"
	"time"

	"github.com/apache/iceberg-go/table"

	"compactor/pkg/rewrite"
)

// CompactWhen are thresholds of compaction: one that is reached is enough. The
// zero value has none, and then compaction is always due.
type CompactWhen struct {
	SmallFiles  int     // files below the minimum size; 0: no threshold
	SmallShare  float64 // share of the bytes that are in such files; 0: no threshold
	DeleteShare float64 // records of position deletes and deletion vectors to rows; 0: no threshold
}

// Live is what thresholds look at: live files, their bytes and rows.
type Live struct {
	Files, SmallFiles, Bytes, SmallBytes, Rows, DeletedRows int64
}

func liveOf(t rewrite.Totals) Live {
	return Live{
		Files: int64(t.Files), SmallFiles: int64(t.SmallFiles), Bytes: t.Bytes, SmallBytes: t.SmallBytes, Rows: t.Rows, DeletedRows: t.DeletedRows,
	}
}

// NotYet says why a table does not want compaction yet; empty when it does.
func (w CompactWhen) NotYet(live Live) string {
	if w.reached(live) {
		return ""
	}

	return w.describe(live)
}

func (w CompactWhen) reached(live Live) bool {
	return w == CompactWhen{} ||
		w.SmallFiles > 0 && live.SmallFiles >= int64(w.SmallFiles) ||
		w.SmallShare > 0 && share(live.SmallBytes, live.Bytes) >= w.SmallShare ||
		w.DeleteShare > 0 && share(live.DeletedRows, live.Rows) >= w.DeleteShare
}

// describe says what the thresholds are and how far the table is from them.
func (w CompactWhen) describe(live Live) string {
	var parts []string
	if w.SmallFiles > 0 {
		parts = append(parts, fmt.Sprintf("%d small files (there are %d)", w.SmallFiles, live.SmallFiles))
	}
	if w.SmallShare > 0 {
		parts = append(parts, fmt.Sprintf("%.3g %% of the bytes in small files (there are %.3g %%)", 100*w.SmallShare, 100*share(live.SmallBytes, live.Bytes)))
	}
	if w.DeleteShare > 0 {
		parts = append(parts, fmt.Sprintf("%.3g %% of the rows deleted (there are %.3g %%)", 100*w.DeleteShare, 100*share(live.DeletedRows, live.Rows)))
	}

	return "the policy asks for it from " + strings.Join(parts, " or ") + " on"
}

func share(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}

	return float64(part) / float64(whole)
}

// LastRun is when this program last committed a step to the table, as far as
// the retained snapshots tell; zero when none does. Steps that make no snapshot
// have none.
func LastRun(md table.Metadata, step string) time.Time {
	var last time.Time
	for _, s := range md.Snapshots() {
		if s.Summary == nil || s.Summary.Operation != table.OpReplace || s.Summary.Properties[SummaryRunID] == "" {
			continue
		}
		manifests := s.Summary.Properties[SummaryRound] == roundManifests
		if at := time.UnixMilli(s.TimestampMs); (step == StepManifests) == manifests && at.After(last) {
			last = at
		}
	}

	return last
}
