package maintenance

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"compactor/pkg/rewrite"
	"compactor/pkg/rewrite/splice/column"
)

func TestEnginesAreCountedByReason(t *testing.T) {
	spliced := func(pages column.Counts, files int) rewrite.Result {
		return rewrite.Result{
			Group: rewrite.Group{Files: make([]rewrite.File, files)}, BytesIn: int64(100 * files),
			Engine: rewrite.Engine{Name: rewrite.EngineSplice, Pages: pages},
		}
	}
	general := func(reason string) rewrite.Result {
		return rewrite.Result{Group: rewrite.Group{Files: make([]rewrite.File, 3)}, BytesIn: 70, Engine: rewrite.Engine{Name: rewrite.EngineGeneral, Reason: reason}}
	}
	var step StepReport
	step.addEngines([]rewrite.Result{
		spliced(column.Counts{Verbatim: 1000, Promoted: 200, Remapped: 30, Gathered: 4, Coalesced: 50, Transcoded: 6, Decoded: 7, Trimmed: 8, BytesVerbatim: 3 << 20, BytesMade: 1 << 20}, 10),
		general("equality deletes apply"),
	})
	step.addEngines([]rewrite.Result{
		general("rows are to be sorted"), spliced(column.Counts{Verbatim: 1, BytesVerbatim: 1 << 20}, 2), general("equality deletes apply"), general(""),
	})
	assert.Equal(t, []EngineUse{
		{
			Engine: "splice", Groups: 2, Files: 12, Bytes: 1200,
			PagesMoved: 1001, PagesPromoted: 200, PagesReindexed: 30, PagesJoined: 54, PagesTranscoded: 6, ChunksDecoded: 7, PagesTrimmed: 8,
			BytesMoved: 4 << 20, BytesMade: 1 << 20,
		},
		{Engine: "general", Reason: "equality deletes apply", Groups: 2, Files: 6, Bytes: 140},
		{Engine: "general", Reason: "rows are to be sorted", Groups: 1, Files: 3, Bytes: 70},
		{Engine: "general", Groups: 1, Files: 3, Bytes: 70},
	}, step.Engines)
	var lines []string
	for _, u := range step.Engines {
		lines = append(lines, engineText(u))
	}
	assert.Equal(t, []string{
		"splice, 2 groups: of 1,291 pages 1,201 moved, 30 reindexed, 54 joined; 7 column chunks decoded; 8 pages decoded that lost rows; 4.0 MiB moved, 1.0 MiB made",
		"general, 2 groups, not spliced: equality deletes apply",
		"general, 1 groups, not spliced: rows are to be sorted",
		"general, 1 groups",
	}, lines)
	assert.Equal(t, "splice, 1 groups: of 0 pages 0 moved, 0 reindexed, 0 joined; 2 column chunks decoded; 0 B moved, 10 B made",
		engineText(EngineUse{Engine: "splice", Groups: 1, ChunksDecoded: 2, BytesMade: 10}))
}
