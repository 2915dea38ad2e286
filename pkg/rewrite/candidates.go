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
		SpecID: b.specID, Partition: b.partition, key: b.key, lineage: b.lineage,
		size: sizing{target: p.options.TargetFileSize, min: p.options.MinFileSize, max: p.options.MaxFileSize},
	}
	var live int64
	large, overDelete := 0, 0
	for _, c := range files {
		g.Files = append(g.Files, newFile(c.entry, c.deletes))
		g.Bytes += c.file.FileSizeBytes()
		g.Rows += c.file.Count()
		live += c.liveBytes()
		g.SmallFiles += count(c.small)
		large += count(c.large)
		overDelete += count(c.overDeleted)
	}
	g.Outputs = p.options.outputCount(live)
	progress := g.Outputs < len(files) || (large > 0 && g.Outputs > len(files)) || overDelete > 0 || b.oldSpec
	switch {
	case p.options.RewriteAll:
		return g, "every file was asked for"
	case !progress:
		return g, ""
	case overDelete > 0:
		return g, fmt.Sprintf("%d of %d files carry many deletes", overDelete, len(files))
	case len(files) >= max(2, p.options.MinInputFiles):
		return g, fmt.Sprintf("%d files of the wrong size", len(files))
	case len(files) > 1 && g.Bytes > p.options.TargetFileSize:
		return g, fmt.Sprintf("%d files hold more than one target size", len(files))
	case g.Bytes > p.options.MaxFileSize:
		return g, fmt.Sprintf("%d bytes in one file are above the maximum", g.Bytes)
	default:
		return g, ""
	}
}

func newFile(e *entry, a applied) File {
	return File{
		Data: e.file, SequenceNumber: e.seq, FirstRowID: e.file.FirstRowID(),
		Deletes: a.files(), entry: e, applied: a,
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
