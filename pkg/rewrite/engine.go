package rewrite

import (
	"errors"
	"fmt"
	"strings"

	"github.com/apache/iceberg-go/table"

	"compactor/pkg/rewrite/splice"
	"compactor/pkg/rewrite/splice/codec"
	"compactor/pkg/rewrite/splice/column"
	"compactor/pkg/rewrite/splice/delta"
	"compactor/pkg/rewrite/splice/dict"
	"compactor/pkg/rewrite/splice/hybrid"
	"compactor/pkg/rewrite/splice/layout"
	"compactor/pkg/rewrite/splice/page"
	"compactor/pkg/rewrite/splice/refuse"
	"compactor/pkg/rewrite/splice/remake"
	"compactor/pkg/rewrite/splice/thrift"
)

// The engines. EngineAuto and EngineSplice both try each group with the splice
// engine and leave to the general one what it refuses.
const (
	// EngineGeneral decodes, applies deletes and encodes.
	EngineGeneral = "general"
	// EngineSplice moves encoded pages; see package splice.
	EngineSplice = "splice"
	EngineAuto   = "auto"
)

// Engine is how the outputs of a group came about.
type Engine struct {
	// Name is EngineGeneral or EngineSplice.
	Name string
	// Reason says why a group was not spliced; empty when it was, or when the
	// general engine was asked for. Detail says about what.
	Reason, Detail string
	// Pages are zero for the general engine, which decodes all of them.
	Pages column.Counts
}

// Rules under which a group is not spliced.
const (
	ruleHook      refuse.Rule = "batches are to be changed on the way"
	ruleDeletes   refuse.Rule = "equality deletes apply"
	ruleSort      refuse.Rule = "rows are to be sorted"
	ruleSpec      refuse.Rule = "files of an old partition spec"
	rulePartition refuse.Rule = "partition value that the footer does not prove"
	ruleSizes     refuse.Rule = "row groups too large for outputs of the wanted size"
	ruleRows      refuse.Rule = "row group with more rows than the table allows"
	ruleMemory    refuse.Rule = "row group too large for the memory"
	ruleCount     refuse.Rule = "row count differs from the manifest's"
	ruleFileSize  refuse.Rule = "size differs from the manifest's"
	ruleDamage    refuse.Rule = "unusual or damaged file"
)

// choose says whether to try to splice a group, and why not.
func (r *Rewriter) choose(tbl *table.Table, g Group) error {
	if r.opts.BeforeWrite != nil {
		return &refuse.Error{Rule: ruleHook}
	}
	// Rows of an old spec may belong to several partitions of the new one, unless it
	// has none.
	if spec := tbl.Spec(); g.SpecID != spec.ID() && !spec.IsUnpartitioned() {
		return &refuse.Error{Rule: ruleSpec, Detail: fmt.Sprintf("spec %d", g.SpecID)}
	}
	if g.sorting != nil {
		return &refuse.Error{Rule: ruleSort, Detail: g.SortedBy()}
	}
	if hasEquality(g) {
		return &refuse.Error{Rule: ruleDeletes}
	}

	return nil
}

// notSpliced turns an error of the splice engine into the reason for which the
// general engine takes over. It returns nil for errors that are failures: of
// storage, of a cancelled context, and checksums, which the general engine does
// not look at.
func notSpliced(err error) *refuse.Error {
	var refused *refuse.Error
	if errors.As(err, &refused) {
		detail := refused.Detail
		if path, _, found := strings.Cut(err.Error(), ": "); found && detail == "" {
			detail = path
		}

		return &refuse.Error{Rule: refused.Rule, Detail: detail}
	}
	if errors.Is(err, page.ErrChecksum) {
		return nil
	}
	for _, damage := range []error{
		splice.ErrCorrupt, remake.ErrCorrupt, page.ErrCorrupt, layout.ErrCorrupt, dict.ErrCorrupt, delta.ErrCorrupt,
		codec.ErrCorrupt, hybrid.ErrCorrupt, thrift.ErrCorrupt,
	} {
		if errors.Is(err, damage) {
			return &refuse.Error{Rule: ruleDamage, Detail: err.Error()}
		}
	}

	return nil
}
