package maintenance

import (
	"strconv"

	"github.com/apache/iceberg-go/table"
)

// Need is how much a table wants a compaction, by the account that its current
// snapshot gives of itself.
type Need struct {
	SmallBytes  int64 // estimate of the bytes that lie in more files than they should
	Files       int64 // live data files
	DeleteFiles int64 // live delete files
}

// NeedOf estimates the need from the summary of the current snapshot, so that
// many tables can be put in order without an object being read. target is the
// size in bytes that data files should have. A snapshot without totals has no
// need by this account; the plan of the step will tell.
func NeedOf(md table.Metadata, target int64) Need {
	snap := md.CurrentSnapshot()
	if snap == nil || snap.Summary == nil || target < 1 {
		return Need{}
	}
	total := func(key string) int64 {
		n, err := strconv.ParseInt(snap.Summary.Properties[key], 10, 64)
		if err != nil {
			return 0
		}

		return max(0, n)
	}
	n := Need{Files: total("total-data-files"), DeleteFiles: total("total-delete-files")}
	bytes := total("total-files-size")
	ideal := max(1, (bytes+target-1)/target)
	if surplus := n.Files - ideal + n.DeleteFiles; surplus > 0 && n.Files > 0 {
		share := float64(surplus) / float64(max(n.Files, surplus))
		n.SmallBytes = int64(float64(bytes) * share)
	}

	return n
}
