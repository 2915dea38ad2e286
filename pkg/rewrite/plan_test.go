package rewrite

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const mib = 1 << 20

// bare is a table without storage, for plans over invented entries.
func bare(t *testing.T, spec iceberg.PartitionSpec, props iceberg.Properties) *table.Table {
	t.Helper()
	meta, err := table.NewMetadata(idAndText, &spec, table.UnsortedSortOrder, "file:///nowhere", props)
	require.NoError(t, err)

	return table.New(table.Identifier{"db", "t"}, meta, "", nil, nil)
}

func inventedEntry(t *testing.T, tbl *table.Table, name string, size, seq int64) *entry {
	t.Helper()
	spec := tbl.Spec()
	values := map[int]any{}
	for _, f := range spec.Fields() {
		values[f.FieldID] = "x"
	}
	b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, name, iceberg.ParquetFile, values, nil, nil, 1000, size)
	require.NoError(t, err)

	return &entry{file: b.Build(), seq: seq, key: partitionKey(spec, values)}
}

func planOf(t *testing.T, tbl *table.Table, entries []*entry, o PlanOptions) *Plan {
	t.Helper()
	o, err := o.withDefaults(tbl)
	require.NoError(t, err)
	set, err := newFileSet(tbl.Metadata(), [][]*entry{entries})
	require.NoError(t, err)
	p := &Plan{options: o, set: set, Live: totals(set, o)}
	require.NoError(t, p.group(tbl))

	return p
}

func invent(t *testing.T, tbl *table.Table, sizes ...int64) []*entry {
	t.Helper()
	var out []*entry
	for i, size := range sizes {
		out = append(out, inventedEntry(t, tbl, fmt.Sprintf("in-%03d", i), size, int64(i)))
	}

	return out
}

// simulate replaces the inputs of every group by outputs of even size.
func simulate(t *testing.T, tbl *table.Table, p *Plan, round int) []*entry {
	t.Helper()
	gone := make(map[string]bool)
	var next []*entry
	for _, g := range p.Groups {
		for _, f := range g.Files {
			gone[f.Data.FilePath()] = true
		}
		for i := range g.Outputs {
			name := fmt.Sprintf("out-%d-%s-%d", round, g.ID, i)
			next = append(next, inventedEntry(t, tbl, name, g.Bytes/int64(g.Outputs), 1000))
		}
	}
	for _, e := range p.set.data {
		if !gone[e.path()] {
			next = append(next, e)
		}
	}

	return next
}

func TestPlanOfItsOwnOutputsIsEmpty(t *testing.T) {
	tbl := bare(t, *iceberg.UnpartitionedSpec, nil)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for range 500 {
		var sizes []int64
		for range 1 + random.IntN(60) {
			sizes = append(sizes, 1+random.Int64N([]int64{10, 300, 1200, 3000}[random.IntN(4)]))
		}
		o := PlanOptions{TargetFileSize: 512}
		first := planOf(t, tbl, invent(t, tbl, sizes...), o)
		second := planOf(t, tbl, simulate(t, tbl, first, 1), o)
		assert.Empty(t, second.Groups, "sizes %v", sizes)

		// With small groups or a narrow window outputs may meet again, but it has
		// to end.
		o.MaxGroupBytes = 1024
		o.MinFileSize, o.MaxFileSize = 384+random.Int64N(128), 513+random.Int64N(400)
		entries := invent(t, tbl, sizes...)
		for round := 0; ; round++ {
			p := planOf(t, tbl, entries, o)
			if len(p.Groups) == 0 {
				assert.NotEmpty(t, p.Reason)

				break
			}
			require.Less(t, round, 6, "no fixed point for %v", sizes)
			entries = simulate(t, tbl, p, round)
		}
	}
}

func TestPlanRules(t *testing.T) {
	tbl := bare(t, *iceberg.UnpartitionedSpec, iceberg.Properties{"write.target-file-size-bytes": "1000"})
	repeat := func(n int, size int64) []int64 {
		var out []int64
		for range n {
			out = append(out, size)
		}

		return out
	}
	cases := []struct {
		name    string
		sizes   []int64
		options PlanOptions
		groups  int
		outputs int
	}{
		{"files of the right size", repeat(30, 900), PlanOptions{}, 0, 0},
		{"too few small files", repeat(4, 100), PlanOptions{}, 0, 0},
		{"enough small files", repeat(5, 100), PlanOptions{}, 1, 1},
		{"two files above one target", repeat(2, 700), PlanOptions{}, 1, 1},
		{"one file alone", repeat(1, 100), PlanOptions{MinInputFiles: 1}, 0, 0},
		{"one file above the maximum", repeat(1, 1900), PlanOptions{}, 1, 2},
		{"twenty files of 0.4 target", repeat(20, 400), PlanOptions{}, 1, 8},
		{"the same in capped groups", repeat(20, 400), PlanOptions{MaxGroupBytes: 2000}, 4, 8},
		{"one and a half targets stay one file", repeat(5, 300), PlanOptions{}, 1, 1},
		{"seven files in a cap of five", repeat(7, 400), PlanOptions{MaxGroupBytes: 2000}, 2, 2},
		{"a file that no count of outputs brings into the window", repeat(1, 1400), PlanOptions{MinFileSize: 900, MaxFileSize: 1100}, 0, 0},
		{"everything", repeat(2, 900), PlanOptions{RewriteAll: true}, 1, 2},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := planOf(t, tbl, invent(t, tbl, c.sizes...), c.options)
			outputs := 0
			for _, g := range p.Groups {
				outputs += g.Outputs
				assert.NotEmpty(t, g.ReasonPicked)
			}
			assert.Len(t, p.Groups, c.groups)
			assert.Equal(t, c.outputs, outputs)
			assert.Equal(t, c.groups == 0, p.Reason != "", p.Reason)
		})
	}
}

func TestPlanIsDeterministicAndTakesMostSmallFilesFirst(t *testing.T) {
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1000, Name: "s", Transform: iceberg.IdentityTransform{}})
	tbl := bare(t, spec, nil)
	var entries []*entry
	for i := range 40 {
		value := any([]string{"a", "b", "c"}[min(2, i/8)])
		e := inventedEntry(t, tbl, fmt.Sprintf("f-%02d", i), mib, int64(i))
		b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, e.path(), iceberg.ParquetFile,
			map[int]any{1000: value}, nil, nil, 10, mib)
		require.NoError(t, err)
		entries = append(entries, &entry{file: b.Build(), seq: e.seq, key: partitionKey(spec, map[int]any{1000: value})})
	}
	first := planOf(t, tbl, entries, PlanOptions{})
	require.Len(t, first.Groups, 3)
	assert.Equal(t, "s=c", first.Groups[0].Partition)
	assert.Equal(t, []string{"s=a", "s=b"}, []string{first.Groups[1].Partition, first.Groups[2].Partition})
	rand.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	again := planOf(t, tbl, entries, PlanOptions{})
	assert.Equal(t, shape(first), shape(again))
}

// shape is what a plan says, without the pointers behind it.
func shape(p *Plan) []string {
	var out []string
	for _, g := range p.Groups {
		out = append(out, fmt.Sprint(g.ID, g.SpecID, g.Partition, g.Bytes, g.Rows, g.Outputs, g.ReasonPicked))
		for _, f := range g.Files {
			line := fmt.Sprint(" ", f.Data.FilePath(), f.SequenceNumber)
			for _, d := range f.Deletes {
				line += " -" + d.FilePath()
			}
			out = append(out, line)
		}
	}

	return out
}

func TestPartitionKeysAreTyped(t *testing.T) {
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1000, Name: "s", Transform: iceberg.IdentityTransform{}})
	keys := make(map[string]any)
	for _, v := range []any{nil, "<nil>", "null", "n", "", "1", int64(1), 1.0, true, []byte("1")} {
		key := partitionKey(spec, map[int]any{1000: v})
		assert.NotContains(t, keys, key, "%v", v)
		keys[key] = v
	}
	assert.Equal(t, partitionKey(spec, map[int]any{1000: int32(7)}), partitionKey(spec, map[int]any{1000: int64(7)}),
		"a widened column is one partition")
}

func TestPlanRefusesWhatDoesNotFitMemory(t *testing.T) {
	tbl := bare(t, *iceberg.UnpartitionedSpec, nil)
	p := planOf(t, tbl, invent(t, tbl, 100*mib, 100*mib, 100*mib, 100*mib, 200*mib), PlanOptions{Memory: 64 * mib})
	assert.Empty(t, p.Groups)
	require.Len(t, p.Refused, 1)
	assert.Equal(t, 5, p.Refused[0].Files)
	assert.Contains(t, p.Refused[0].Reason, "bytes of memory, has 67108864")
}

func TestPlanRefusesTables(t *testing.T) {
	for name, c := range map[string]struct {
		props iceberg.Properties
		says  string
	}{
		"ColdFront sort key": {iceberg.Properties{"coldfront.sort-key": "nope"}, `no column "nope"`},
		"encryption":         {iceberg.Properties{"encryption.key-id": "k"}, "encrypted table"},
		"ORC":                {iceberg.Properties{"write.format.default": "orc"}, "asks for orc"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
			for i := range 6 {
				e.appendSeries(i, 1)
			}
			e.commit(func(tx *table.Transaction) { require.NoError(t, tx.SetProperties(c.props)) })
			p := e.plan(PlanOptions{})
			assert.Empty(t, p.Groups)
			require.Len(t, p.Refused, 1)
			assert.Contains(t, p.Refused[0].Reason, c.says)
			assert.Equal(t, 6, p.Refused[0].Files)
			assert.Equal(t, p.Refused[0].Reason, p.Reason)
		})
	}
}

func TestPlanRefusesOnlyFilesItCannotRead(t *testing.T) {
	tbl := bare(t, *iceberg.UnpartitionedSpec, nil)
	entries := invent(t, tbl, 1, 1, 1, 1, 1, 1)
	b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, "x.orc", iceberg.OrcFile, nil, nil, nil, 1, 7)
	require.NoError(t, err)
	p := planOf(t, tbl, append(entries, &entry{file: b.Build()}), PlanOptions{})
	require.Len(t, p.Groups, 1)
	assert.Len(t, p.Groups[0].Files, 6)
	require.Len(t, p.Refused, 1)
	assert.Equal(t, Refusal{What: "file x.orc", Reason: "ORC data files cannot be read", Files: 1, Bytes: 7}, p.Refused[0])
}

func TestCase_C17_NothingToDoSaysWhy(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	p := e.plan(PlanOptions{})
	assert.Equal(t, "the table has no snapshot", p.Reason)
	one := e.appendSeries(0, 3)
	p = e.plan(PlanOptions{})
	assert.Empty(t, p.Groups)
	assert.Contains(t, p.Reason, "1 of 1 data files have the wrong size")
	assert.Equal(t, one.CurrentSnapshot().SnapshotID, p.SnapshotID)
	assert.Equal(t, Totals{Files: 1, SmallFiles: 1, Bytes: p.Live.Bytes, SmallBytes: p.Live.Bytes, Rows: 3}, p.Live)
	e.commit(func(tx *table.Transaction) { require.NoError(t, tx.Delete(t.Context(), iceberg.AlwaysTrue{}, nil)) })
	assert.Equal(t, "the table has no data files", e.plan(PlanOptions{}).Reason)
}
