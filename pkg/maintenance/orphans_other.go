package maintenance

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/apache/iceberg-go/table"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"
)

// otherTables reads the metadata files that the listing showed and this
// table's metadata does not name. It returns the trees that belong to other
// tables, and refuses when another table lives in this table's own folder.
//
// In a folder that holds older metadata of this table every file is read,
// because one of them may be another table's; in a folder of another table one
// file is enough. A file that is no table metadata is nobody's.
func (s *survey) otherTables(ctx context.Context, files lister, tbl *table.Table) ([]string, error) {
	own := []place{folderOf(parent(tbl.MetadataLocation())), folderOf(tbl.Location() + "/metadata")}
	var trees []string
	for _, dir := range slices.Sorted(maps.Keys(s.metadata)) {
		if slices.ContainsFunc(trees, func(t string) bool { return placeOf(dir).below(folderOf(t)) }) {
			continue
		}
		found, err := s.foreignIn(ctx, files, dir, tbl)
		if err != nil {
			return nil, err
		}
		if found == nil {
			continue
		}
		claimed := found.trees(dir)
		if slices.Contains(own, folderOf(dir)) {
			claimed = append(claimed, tbl.Location())
		}
		for _, t := range claimed {
			if !s.refs.within(folderOf(t)) {
				if s.holdsRoot(t) {
					return nil, shared(found, t, tbl)
				}

				continue
			}
			if folderOf(tbl.Location()).below(folderOf(t)) {
				return nil, shared(found, t, tbl)
			}
			trees = append(trees, t)
			s.rep.Skipped = append(s.rep.Skipped, Refusal{
				What:   t,
				Reason: fmt.Sprintf("it holds another table (uuid %s, metadata %s)", found.UUID, found.path),
			})
		}
	}

	return trees, nil
}

func (s *survey) holdsRoot(tree string) bool {
	return slices.ContainsFunc(s.roots, func(root string) bool { return folderOf(root).below(folderOf(tree)) })
}

func shared(found *tableDocument, tree string, tbl *table.Table) error {
	return fmt.Errorf("shared location: %s also belongs to another table (uuid %s, location %s, metadata %s), whose files cannot be told "+
		"from orphans of %s: %w", tree, found.UUID, found.Location, found.path, name(tbl), ErrRefused)
}

// tableDocument is the part of a metadata.json file that tells tables apart.
type tableDocument struct {
	path       string
	UUID       string            `json:"table-uuid"`
	Location   string            `json:"location"`
	Format     int               `json:"format-version"`
	Properties map[string]string `json:"properties"`
}

// trees are the folders a table claims: where its metadata was found, its
// location, and the paths that its properties name.
func (d *tableDocument) trees(dir string) []string {
	home := dir
	if strings.HasSuffix(dir, "/metadata") {
		home = parent(dir)
	}
	out := []string{home}
	for _, t := range []string{d.Location, d.Properties[table.WriteDataPathKey], d.Properties[table.WriteMetadataPathKey]} {
		if t != "" && !slices.ContainsFunc(out, func(o string) bool { return folderOf(t).below(folderOf(o)) }) {
			out = append(out, strings.TrimRight(t, "/"))
		}
	}

	return out
}

// isOf says whether the document is of tbl. Tables of the first format had no
// uuid at first; their location decides.
func (d *tableDocument) isOf(tbl *table.Table) bool {
	if d.UUID == "" {
		return folderOf(d.Location) == folderOf(tbl.Location())
	}

	return strings.EqualFold(d.UUID, tbl.Metadata().TableUUID().String())
}

// foreignIn returns another table's document from the folder, or nil.
func (s *survey) foreignIn(ctx context.Context, files lister, dir string, tbl *table.Table) (*tableDocument, error) {
	list := slices.Clone(s.metadata[dir])
	// The newest first: in the folder of another table it decides at once.
	slices.SortFunc(list, func(a, b int) int { return s.names[b].mod.Compare(s.names[a].mod) })
	for i, batch := 0, 1; i < len(list); batch = referenceReaders {
		part := list[i:min(i+batch, len(list))]
		i += len(part)
		docs := make([]*tableDocument, len(part))
		work, ctx := errgroup.WithContext(ctx)
		for j, n := range part {
			work.Go(func() error {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				doc, err := readDocument(files, s.names[n].path)
				docs[j] = doc

				return err
			})
		}
		if err := work.Wait(); err != nil {
			return nil, fmt.Errorf("look at unknown metadata in %s: %w", dir, err)
		}
		for _, d := range docs {
			if d != nil && !d.isOf(tbl) {
				return d, nil
			}
		}
	}

	return nil, nil //nolint:nilnil // No other table is no error.
}

// readDocument reads a metadata file, or returns nil when it holds none.
func readDocument(files lister, path string) (*tableDocument, error) {
	raw, err := files.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // It was removed meanwhile.
	}
	if err != nil {
		return nil, fmt.Errorf("read metadata file %s: %w", path, err)
	}
	if plain, err := decompress(raw); err == nil {
		raw = plain
	}
	doc := &tableDocument{path: path}
	if json.Unmarshal(raw, doc) != nil || doc.UUID == "" && doc.Location == "" && doc.Format == 0 {
		return nil, nil //nolint:nilnil // Not a table's metadata, whatever its name says.
	}

	return doc, nil
}

// decompress undoes gzip and zstd, which metadata files may be written with,
// and returns everything else as it is.
func decompress(raw []byte) ([]byte, error) {
	var r io.Reader
	switch {
	case bytes.HasPrefix(raw, []byte{0x1f, 0x8b}):
		zr, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, fmt.Errorf("open gzip: %w", err)
		}
		r = zr
	case bytes.HasPrefix(raw, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		zr, err := zstd.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, fmt.Errorf("open zstd: %w", err)
		}
		defer zr.Close()
		r = zr
	default:
		return raw, nil
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}

	return plain, nil
}

func parent(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }
