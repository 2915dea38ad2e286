package maintenance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"
)

// lostRef is a branch or tag that disappeared together with its snapshot,
// although it was not past its age: somebody made it while an expiry was under
// way, and the catalog dropped both. No snapshot of the table names its files
// any more, yet somebody wanted them kept.
type lostRef struct {
	name, kind string
	snapshot   refSnapshot
	state      string // the metadata file that still has it
	aged       bool   // past its age, so that it may go with its snapshot
}

// refState is one state of a table: its refs, and which snapshots it has.
type refState struct {
	path string
	ids  []int64 // sorted
	refs map[string]lostRef
}

type refSnapshot struct {
	ID        int64  `json:"snapshot-id"`
	Timestamp int64  `json:"timestamp-ms"`
	List      string `json:"manifest-list"`
}

// refDocument is the part of a metadata file that tells about refs.
type refDocument struct {
	UUID       string             `json:"table-uuid"`
	Properties iceberg.Properties `json:"properties"`
	Snapshots  []refSnapshot      `json:"snapshots"`
	Refs       map[string]struct {
		ID     int64  `json:"snapshot-id"`
		Kind   string `json:"type"`
		MaxAge *int64 `json:"max-ref-age-ms"`
	} `json:"refs"`
}

// history finds lost refs in the states that the metadata log lists. Those
// states never change, so that each is read once.
type history struct {
	files lister
	now   time.Time
	read  map[string]*refState // nil: gone, or of another table
}

// refuseLostRefs refuses to delete where a ref was lost whose manifest list
// still exists, other than those in accepted: its snapshot can still be read.
// Once the list is gone there is nothing left to keep. What lies further back
// than the metadata log is not known.
func (h *history) refuseLostRefs(ctx context.Context, tbl *table.Table, accepted []string) error {
	lost, err := h.lostRefs(ctx, tbl)
	if err != nil {
		return fmt.Errorf("look for lost refs of %s: %w", name(tbl), err)
	}
	fio, err := tbl.FS(ctx)
	if err != nil {
		return fmt.Errorf("open file io of %s: %w", name(tbl), err)
	}
	for _, l := range lost {
		if slices.Contains(accepted, l.name) {
			continue
		}
		there, err := exists(fio, l.snapshot.List)
		if err != nil {
			return fmt.Errorf("look for the manifest list of snapshot %d: %w", l.snapshot.ID, err)
		}
		if there {
			return fmt.Errorf("%s %s was lost when its snapshot %d expired at the moment it was made, and nothing else names its files: "+
				"to keep them, read the table as it was from %s; to give them up, accept the loss of %s: %w",
				l.kind, l.name, l.snapshot.ID, l.state, l.name, ErrRefused)
		}
	}

	return nil
}

// exists says whether the file is there; true where the storage cannot tell.
func exists(fio icebergio.IO, path string) (bool, error) {
	stat, ok := fio.(icebergio.StatIO)
	if !ok || path == "" {
		return path != "", nil // A snapshot without a list leads nowhere.
	}
	_, err := stat.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("stat %s: %w", path, err)
	}

	return true, nil
}

// lostRefs compares each state with the next one. A ref is lost when the next
// state has neither a ref of that name nor the snapshot, and no later state
// has one of them again: whoever made it anew has taken notice.
func (h *history) lostRefs(ctx context.Context, tbl *table.Table) ([]lostRef, error) {
	states, err := h.states(ctx, tbl)
	if err != nil {
		return nil, err
	}
	lost := map[string]lostRef{}
	for i, state := range states {
		for refName, l := range lost {
			if state != nil && (state.has(refName) || state.hasSnapshot(l.snapshot.ID)) {
				delete(lost, refName)
			}
		}
		if i == 0 || state == nil || states[i-1] == nil {
			continue
		}
		for refName, ref := range states[i-1].refs {
			if !ref.aged && !state.has(refName) && !state.hasSnapshot(ref.snapshot.ID) {
				lost[refName] = ref
			}
		}
	}
	out := make([]lostRef, 0, len(lost))
	for _, l := range lost {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b lostRef) int { return strings.Compare(a.name, b.name) })

	return out, nil
}

func (s *refState) has(refName string) bool { _, has := s.refs[refName]; return has }

func (s *refState) hasSnapshot(id int64) bool {
	_, has := slices.BinarySearch(s.ids, id)

	return has
}

// states are those of the metadata log, oldest first, and the current one.
func (h *history) states(ctx context.Context, tbl *table.Table) ([]*refState, error) {
	var paths []string
	for e := range tbl.Metadata().PreviousFiles() {
		paths = append(paths, e.MetadataFile)
	}
	paths = append(paths, tbl.MetadataLocation())
	states := make([]*refState, len(paths))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(referenceReaders)
	for i, p := range paths {
		state, known := h.read[p]
		if known {
			states[i] = state

			continue
		}
		work.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			state, err := h.state(p, tbl.Metadata().TableUUID().String())
			states[i] = state

			return err
		})
	}
	if err := work.Wait(); err != nil {
		return nil, fmt.Errorf("read the states of the metadata log: %w", err)
	}
	for i, p := range paths {
		h.read[p] = states[i]
	}

	return states, nil
}

// state reads a metadata file; one that is gone, or of another table, is nil.
func (h *history) state(path, uuid string) (*refState, error) {
	raw, err := h.files.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // Old states are deleted by and by.
	}
	if err != nil {
		return nil, fmt.Errorf("read metadata file %s: %w", path, err)
	}
	if raw, err = decompress(raw); err != nil {
		return nil, fmt.Errorf("read metadata file %s: %w", path, err)
	}
	var doc refDocument
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("read metadata file %s: %w", path, err)
	}
	if !strings.EqualFold(doc.UUID, uuid) {
		return nil, nil //nolint:nilnil // It says nothing about this table.
	}

	return doc.state(path, h.now)
}

func (d *refDocument) state(path string, now time.Time) (*refState, error) {
	maxAge, err := maxRefAge(d.Properties)
	if err != nil {
		return nil, err
	}
	out := &refState{path: path, refs: map[string]lostRef{}}
	snapshots := make(map[int64]refSnapshot, len(d.Snapshots))
	for _, s := range d.Snapshots {
		out.ids = append(out.ids, s.ID)
		snapshots[s.ID] = s
	}
	slices.Sort(out.ids)
	for refName, r := range d.Refs {
		s := snapshots[r.ID]
		aged := refName != table.MainBranch && now.UnixMilli()-s.Timestamp > *cmp.Or(r.MaxAge, &maxAge)
		out.refs[refName] = lostRef{name: refName, kind: r.Kind, snapshot: s, state: path, aged: aged}
	}

	return out, nil
}
