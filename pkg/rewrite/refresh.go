package rewrite

import (
	"context"
	"fmt"

	"github.com/apache/iceberg-go/table"
)

// Refresh checks the plan's groups against a newly loaded table and returns a
// plan for its head, with the same groups in the same order under the same IDs.
//
// A group keeps its place when all its files are still live; the deletes that
// apply to each file are computed anew. A group with a file that is gone, or
// that may no longer be rewritten, is left out and named in Refused, as is every
// group when the table's partition spec or sort order has changed. Files that
// appeared since are not looked at: they wait for the next NewPlan. Manifests
// that the plan has read are not read again. The receiver stays as it was.
//
// An error means that a manifest could not be read; the call may be repeated.
func (p *Plan) Refresh(ctx context.Context, tbl *table.Table) (*Plan, error) {
	next := &Plan{asked: p.asked, options: p.options, cache: p.cache}
	if err := next.load(ctx, tbl); err != nil {
		return nil, err
	}
	if next.set == nil {
		next.Reason = "the table has no snapshot"

		return next, nil
	}
	if refusal, refused := refuseTable(tbl); refused {
		refusal.Files, refusal.Bytes = next.Live.Files, next.Live.Bytes
		next.Refused, next.Reason = []Refusal{refusal}, refusal.Reason

		return next, nil
	}
	var reason string
	next.sorting, reason = sortingOf(tbl, p.options)
	refused := newRefusals()
	for _, g := range p.Groups {
		if reason != "" || !next.sorting.equal(p.sorting) {
			refused.group(g, "the table's sort order has changed")

			continue
		}
		if next.specID != p.specID {
			refused.group(g, "the table's partition spec has changed")

			continue
		}
		bound, reason, err := next.rebind(tbl, g)
		if err != nil {
			return nil, fmt.Errorf("refresh %s: %w", groupName(g), err)
		}
		if reason != "" {
			refused.group(g, reason)

			continue
		}
		next.Groups = append(next.Groups, bound)
	}
	if err := next.readNaNs(ctx, tbl); err != nil {
		return nil, fmt.Errorf("refresh plan: %w", err)
	}
	next.Refused = append(append([]Refusal(nil), p.Refused...), refused.list()...)
	if len(next.Groups) == 0 {
		next.Reason = "no planned group is left"
	}

	return next, nil
}

// rebind builds the group from the entries of the new head, or says why not.
func (p *Plan) rebind(tbl *table.Table, g Group) (Group, string, error) {
	files := make([]File, 0, len(g.Files))
	for _, f := range g.Files {
		now, live := p.set.byPath[f.Data.FilePath()]
		if !live || now.seq != f.SequenceNumber || now.spec() != g.SpecID {
			return g, fmt.Sprintf("data file %s is no longer live", f.Data.FilePath()), nil
		}
		if (now.file.FirstRowID() != nil) != g.lineage {
			return g, fmt.Sprintf("data file %s: its rows were given ids", f.Data.FilePath()), nil
		}
		c, _, err := p.consider(now)
		if err != nil {
			return g, "", err
		}
		if reason := refuseFile(tbl, c); reason != "" {
			return g, reason, nil
		}
		files = append(files, newFile(c))
	}
	g.Files = files
	if need := p.options.Reserved + estimate(tbl, g).minimum(); p.options.Memory > 0 && need > p.options.Memory {
		return g, fmt.Sprintf("needs %d bytes of memory, has %d", need, p.options.Memory), nil
	}

	return g, "", nil
}
