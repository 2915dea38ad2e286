package rewrite

import (
	"context"
	"fmt"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
)

// deadDeletes finds the delete files that a rewrite leaves without a purpose.
type deadDeletes struct {
	plan    *Plan
	gone    map[string]bool // data files that were rewritten
	storage iceio.IO

	needed map[*entry]string          // delete file → a data file that still needs it
	named  map[*entry]map[string]bool // partition-wide delete file → what it names
}

// find returns the deletes that applied to a rewritten file and apply to none
// that stays, and those that applied to no file before. Outputs need no look: their data sequence number is that of the
// snapshot, no delete in it is newer, and their paths are in no delete.
//
// A delete for a whole partition is judged by what it says: its file is read,
// and it stays when it names a single live data file that stays. Judging by the
// files it was planned for alone would bring rows back.
func (d *deadDeletes) find(ctx context.Context) ([]iceberg.DataFile, error) {
	d.needed, d.named = make(map[*entry]string), make(map[*entry]map[string]bool)
	touched := make(map[*entry]bool)
	set := d.plan.set
	for _, data := range set.data {
		a, err := set.deletes.forFile(data)
		if err != nil {
			return nil, err
		}
		for _, e := range a.entries() {
			switch {
			case d.gone[data.path()]:
				touched[e] = true
			case d.certain(e):
				d.needed[e] = data.path()
			}
		}
	}
	var dead []iceberg.DataFile
	for _, e := range set.deletes.all {
		if !touched[e] || d.needed[e] != "" {
			continue
		}
		stays, err := d.namesStaying(ctx, e)
		if err != nil {
			return nil, err
		}
		if stays == "" {
			dead = append(dead, e.file)
		}
	}

	dead = append(dead, set.dangling...)

	return dead, d.prove(ctx, dead)
}

// certain reports whether a delete that applies to a file by the rules is known
// to be needed there: not so for position deletes of a whole partition, which
// apply to every file of it and may name none of them.
func (d *deadDeletes) certain(e *entry) bool {
	return !d.partitionWide(e)
}

func (d *deadDeletes) partitionWide(e *entry) bool {
	return e.partitionWide(d.plan.set.byPath)
}

// namesStaying returns a live data file that stays and that a partition-wide
// position-delete file names, or nothing.
func (d *deadDeletes) namesStaying(ctx context.Context, e *entry) (string, error) {
	if !d.partitionWide(e) {
		return "", nil
	}
	stays := ""
	err := readPositions(ctx, d.storage, e.path(), func(path string, _ int64) {
		if stays == "" && !d.gone[path] && d.plan.set.byPath[path] != nil {
			stays = path
		}
	})

	return stays, err
}

// prove looks at the same question from the other side: for every data file
// that stays, none of the deletes to be removed may apply to it.
func (d *deadDeletes) prove(ctx context.Context, dead []iceberg.DataFile) error {
	removed := make(map[iceberg.DataFile]bool, len(dead))
	for _, df := range dead {
		removed[df] = true
	}
	for _, data := range d.plan.set.data {
		if d.gone[data.path()] {
			continue
		}
		a, err := d.plan.set.deletes.forFile(data)
		if err != nil {
			return err
		}
		for _, e := range a.entries() {
			if !removed[e.file] {
				continue
			}
			if named, err := d.applies(ctx, e, data.path()); err != nil {
				return err
			} else if named {
				return fmt.Errorf("%w: delete file %s would be removed, but data file %s needs it", ErrIntegrity, e.path(), data.path())
			}
		}
	}

	return nil
}

// applies reports whether a delete really concerns a file its rules match. Each
// partition-wide delete file is read once for it.
func (d *deadDeletes) applies(ctx context.Context, e *entry, data string) (bool, error) {
	if !d.partitionWide(e) {
		return true, nil
	}
	named, read := d.named[e]
	if !read {
		named = make(map[string]bool)
		if err := readPositions(ctx, d.storage, e.path(), func(path string, _ int64) { named[path] = true }); err != nil {
			return false, err
		}
		d.named[e] = named
	}

	return named[data], nil
}
