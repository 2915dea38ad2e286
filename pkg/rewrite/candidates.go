package rewrite

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// candidate is a file that is worth rewriting, and why.
type candidate struct {
	*entry
	deletes     applied
	deleted     int64 // rows that file-scoped deletes are known to remove
	small       bool
	large       bool
	overDeleted bool
	misplaced   string // a delete file of another partition that names it
}

// liveBytes is an estimate of what the file's surviving rows take.
func (c candidate) liveBytes() int64 {
	size := c.file.FileSizeBytes()

	return size - int64(float64(size)*ratio(c.deleted, c.file.Count()))
}

// bucket collects the candidates that may share a group.
type bucket struct {
	specID    int
	partition string
	key       string
	lineage   bool
	oldSpec   bool
	files     []candidate
}

// group fills Groups, Refused and Reason from the loaded snapshot.
func (p *Plan) group(tbl *table.Table) error {
	refusals := newRefusals()
	buckets, err := p.collect(tbl, refusals)
	if err != nil {
		return err
	}
	candidates := 0
	for _, b := range buckets {
		candidates += len(b.files)
		for _, files := range pack(b, p.options) {
			g, why := p.makeGroup(b, files)
			if why == "" {
				continue
			}
			g.ReasonPicked = why
			need := p.options.Reserved + estimate(tbl, g).minimum()
			if p.options.Memory > 0 && need > p.options.Memory {
				refusals.group(g, fmt.Sprintf("needs %d bytes of memory, has %d", need, p.options.Memory))

				continue
			}
			p.Groups = append(p.Groups, g)
		}
	}
	p.order()
	p.Refused = refusals.list()
	if len(p.Groups) == 0 {
		p.Reason = p.emptyReason(candidates)
	}

	return nil
}

// collect sorts candidates into buckets, in a fixed order.
func (p *Plan) collect(tbl *table.Table, refusals *refusals) ([]*bucket, error) {
	current := tbl.Spec()
	byKey := make(map[string]*bucket)
	var order []*bucket
	for _, e := range p.set.data {
		c, picked, err := p.consider(e)
		if err != nil {
			return nil, err
		}
		if !picked {
			continue
		}
		if reason := refuseFile(tbl, c); reason != "" {
			refusals.file(c, reason)

			continue
		}
		b := &bucket{specID: e.spec(), key: e.key, lineage: e.file.FirstRowID() != nil, oldSpec: e.spec() != current.ID()}
		if b.oldSpec {
			b.key = ""
		}
		name := fmt.Sprintf("%d/%t/%s", b.specID, b.lineage, b.key)
		if known, ok := byKey[name]; ok {
			b = known
		} else {
			if !b.oldSpec {
				b.partition = partitionPath(current, tbl.Schema(), e.file)
			}
			byKey[name] = b
			order = append(order, b)
		}
		b.files = append(b.files, c)
	}
	for _, b := range order {
		slices.SortFunc(b.files, func(x, y candidate) int {
			byKey := cmp.Compare(x.key, y.key) // old specs: one partition after the other
			return cmp.Or(byKey, cmp.Compare(x.seq, y.seq), cmp.Compare(x.path(), y.path()))
		})
	}

	return order, nil
}

// consider applies the rules for a single file.
func (p *Plan) consider(e *entry) (candidate, bool, error) {
	deletes, err := p.set.deletes.forFile(e)
	if err != nil {
		return candidate{}, false, err
	}
	o := p.options
	size := e.file.FileSizeBytes()
	c := candidate{entry: e, deletes: deletes, small: size < o.MinFileSize, large: size > o.MaxFileSize, misplaced: p.set.misplaced[e.path()]}
	if deletes.vector != nil {
		c.deleted = deletes.vector.file.Count()
	}
	for _, d := range deletes.positional {
		if d.fileScoped(p.set.byPath) {
			c.deleted += d.file.Count()
		}
	}
	count := len(deletes.entries())
	tooMany := o.DeleteFileThreshold > 0 && count >= o.DeleteFileThreshold
	tooMuch := c.deleted > 0 && ratio(c.deleted, e.file.Count()) >= o.DeleteRatioThreshold
	c.overDeleted = tooMany || tooMuch

	return c, o.RewriteAll || c.small || c.large || c.overDeleted, nil
}

// makeGroup decides whether files are worth a group and says why; an empty
// reason means they are not.
func (p *Plan) makeGroup(b *bucket, files []candidate) (Group, string) {
	g := Group{
		SpecID: b.specID, Partition: b.partition, key: b.key, lineage: b.lineage, oldSpec: b.oldSpec, rules: p.options, sorting: p.sorting,
		size: sizing{target: p.options.TargetFileSize, min: p.options.MinFileSize, max: p.options.MaxFileSize},
	}
	for _, c := range files {
		g.Files = append(g.Files, newFile(c))
	}

	return g.weigh()
}

// weigh fills in what follows from the files of a group, and says why they are
// worth it; an empty reason means they are not.
func (g Group) weigh() (Group, string) {
	var live int64
	large, overDelete := 0, 0
	g.Bytes, g.Rows, g.SmallFiles = 0, 0, 0
	for _, f := range g.Files {
		g.Bytes += f.Data.FileSizeBytes()
		g.Rows += f.Data.Count()
		live += f.traits.live
		g.SmallFiles += count(f.traits.small)
		large += count(f.traits.large)
		overDelete += count(f.traits.overDeleted)
	}
	files := len(g.Files)
	g.Outputs = g.rules.outputCount(live)
	progress := g.Outputs < files || (large > 0 && g.Outputs > files) || overDelete > 0 || g.oldSpec
	switch {
	case files == 0:
		return g, ""
	case g.rules.RewriteAll:
		return g, "every file was asked for"
	case !progress:
		return g, ""
	case overDelete > 0:
		return g, fmt.Sprintf("%d of %d files carry many deletes", overDelete, files)
	case files >= max(2, g.rules.MinInputFiles):
		return g, fmt.Sprintf("%d files of the wrong size", files)
	case files > 1 && g.Bytes > g.rules.TargetFileSize:
		return g, fmt.Sprintf("%d files hold more than one target size", files)
	case g.Bytes > g.rules.MaxFileSize:
		return g, fmt.Sprintf("%d bytes in one file are above the maximum", g.Bytes)
	default:
		return g, ""
	}
}

func newFile(c candidate) File {
	return File{
		Data: c.file, SequenceNumber: c.seq, FirstRowID: c.file.FirstRowID(), Deletes: c.deletes.files(), entry: c.entry, applied: c.deletes,
		traits: traits{live: c.liveBytes(), small: c.small, large: c.large, overDeleted: c.overDeleted},
	}
}

func count(yes bool) int {
	if yes {
		return 1
	}

	return 0
}

// order puts groups in execution order and names them.
func (p *Plan) order() {
	slices.SortStableFunc(p.Groups, func(a, b Group) int {
		return cmp.Or(
			cmp.Compare(b.SmallFiles, a.SmallFiles), cmp.Compare(b.Bytes, a.Bytes),
			cmp.Compare(a.SpecID, b.SpecID), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.key, b.key), cmp.Compare(a.Files[0].Data.FilePath(), b.Files[0].Data.FilePath()))
	})
	for i := range p.Groups {
		p.Groups[i].ID = fmt.Sprintf("group-%04d", i+1)
	}
}

func (p *Plan) emptyReason(candidates int) string {
	o := p.options
	switch {
	case p.Live.Files == 0:
		return "the table has no data files"
	case len(p.Refused) > 0:
		return "everything that could be rewritten was refused"
	case candidates == 0:
		return fmt.Sprintf("all %d data files are between %d and %d bytes and carry few deletes",
			p.Live.Files, o.MinFileSize, o.MaxFileSize)
	default:
		return fmt.Sprintf("%d of %d data files have the wrong size, but no partition has %d of them or more than %d bytes to merge",
			candidates, p.Live.Files, o.MinInputFiles, o.TargetFileSize)
	}
}

// isParquet reports whether the engine can read the file.
func isParquet(df iceberg.DataFile) bool {
	return df.FileFormat() == iceberg.ParquetFile || table.IsDeletionVector(df)
}
