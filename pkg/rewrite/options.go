package rewrite

import (
	"fmt"
	"slices"

	"github.com/apache/iceberg-go/table"
)

// Defaults of PlanOptions.
const (
	defaultMinInputFiles        = 5
	defaultDeleteRatioThreshold = 0.3
	defaultMaxGroupBytes        = 100 << 30
	minFileSizePercent          = 75
	maxFileSizePercent          = 180
)

// PlanOptions says which files are worth rewriting. The zero value takes every
// default.
type PlanOptions struct {
	// TargetFileSize is the size in bytes an output should have. 0 takes the
	// table's write.target-file-size-bytes, 512 MiB if the table has none.
	TargetFileSize int64
	// MinFileSize in bytes: smaller files are candidates. 0 is 75 % of the target.
	MinFileSize int64
	// MaxFileSize in bytes: larger files are candidates. 0 is 180 % of the target.
	MaxFileSize int64
	// MinInputFiles is how many candidates alone justify a group. 0 is 5.
	MinInputFiles int
	// DeleteFileThreshold makes a file with at least so many delete files a
	// candidate. 0 switches the rule off.
	DeleteFileThreshold int
	// DeleteRatioThreshold makes a file a candidate when file-scoped deletes and
	// deletion vectors cover at least this share of its rows. 0 is 0.3; a value
	// above 1 switches the rule off.
	DeleteRatioThreshold float64
	// MaxGroupBytes caps the input bytes of one group. 0 is 100 GiB. A single
	// file larger than the cap is a group of its own.
	MaxGroupBytes int64
	// RewriteAll makes every data file a candidate and keeps every group. A plan
	// made with it has no fixed point.
	RewriteAll bool
	// Strategy is StrategyAuto, StrategyBinpack or StrategySort; empty is
	// StrategyAuto. It says in which order rows are written; which files are
	// rewritten does not depend on it.
	Strategy string
	// SortBy is the order to sort by instead of the table's, in the form that
	// rowsort.Parse reads. It does not go with StrategyBinpack.
	SortBy string
	// Memory in bytes that one group may need. A group that cannot be rewritten
	// in it is refused with the value it would need. 0 sets no limit.
	Memory int64
	// Reserved are the bytes of Memory that the caller needs for other things,
	// such as the buffers of its store. A Rewriter gets Memory less Reserved.
	Reserved int64
}

// withDefaults fills the zero values from the table and checks the rest.
func (o PlanOptions) withDefaults(tbl *table.Table) (PlanOptions, error) {
	if o.TargetFileSize == 0 {
		o.TargetFileSize = int64(tbl.Properties().GetInt(
			table.WriteTargetFileSizeBytesKey, table.WriteTargetFileSizeBytesDefault))
		if o.TargetFileSize < 1 { // the table is refused for it
			o.TargetFileSize = table.WriteTargetFileSizeBytesDefault
		}
	}
	if o.MinFileSize == 0 {
		o.MinFileSize = o.TargetFileSize * minFileSizePercent / 100
	}
	if o.MaxFileSize == 0 {
		o.MaxFileSize = o.TargetFileSize * maxFileSizePercent / 100
	}
	if o.MinInputFiles == 0 {
		o.MinInputFiles = defaultMinInputFiles
	}
	if o.DeleteRatioThreshold == 0 {
		o.DeleteRatioThreshold = defaultDeleteRatioThreshold
	}
	if o.MaxGroupBytes == 0 {
		o.MaxGroupBytes = defaultMaxGroupBytes
	}

	return o, o.validate()
}

func (o PlanOptions) validate() error {
	switch {
	case o.TargetFileSize < 1:
		return fmt.Errorf("target file size %d: must be at least 1 byte", o.TargetFileSize)
	case o.MinFileSize < 0 || o.MinFileSize > o.TargetFileSize:
		return fmt.Errorf("minimum file size %d: must be between 0 and the target %d", o.MinFileSize, o.TargetFileSize)
	case o.MaxFileSize < o.TargetFileSize:
		return fmt.Errorf("maximum file size %d: must not be below the target %d", o.MaxFileSize, o.TargetFileSize)
	case o.MinInputFiles < 1:
		return fmt.Errorf("minimum input files %d: must be at least 1", o.MinInputFiles)
	case o.DeleteFileThreshold < 0:
		return fmt.Errorf("delete file threshold %d: must not be negative", o.DeleteFileThreshold)
	case o.DeleteRatioThreshold < 0:
		return fmt.Errorf("delete ratio threshold %g: must not be negative", o.DeleteRatioThreshold)
	case !slices.Contains([]string{"", StrategyAuto, StrategyBinpack, StrategySort}, o.Strategy):
		return fmt.Errorf("strategy %q: must be %s, %s or %s", o.Strategy, StrategyAuto, StrategyBinpack, StrategySort)
	case o.SortBy != "" && o.Strategy == StrategyBinpack:
		return fmt.Errorf("sort by %q: does not go with strategy %s", o.SortBy, StrategyBinpack)
	case o.MaxGroupBytes < 1 || o.Memory < 0 || o.Reserved < 0:
		return fmt.Errorf("group bytes %d and memory %d: must be positive", o.MaxGroupBytes, o.Memory)
	}

	return nil
}

// outputCount is how many files live bytes should become: the count nearest to
// the target whose average lies inside [min, max]. It depends on the total
// alone, so merging what it once split gives the same count again.
func (o PlanOptions) outputCount(live int64) int {
	return outputCount(live, sizing{target: o.TargetFileSize, min: o.MinFileSize, max: o.MaxFileSize})
}

// sizing is the window an output's size should fall in.
type sizing struct{ target, min, max int64 }

// The margins keep estimated sizes away from the edges of the window, because
// a file that lands just below the minimum would be a candidate again.
func outputCount(live int64, s sizing) int {
	if live <= 0 {
		return 0
	}
	n := max(1, (live+s.target/2)/s.target)
	if n > 1 && live/n < s.min+s.target/20 && live/(n-1) <= s.max-s.target/20 {
		n--
	}

	return int(n)
}
