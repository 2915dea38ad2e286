package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"compactor/internal/demo"
)

// state is what the table consists of, read with the client library.
type state struct {
	table     *table.Table
	rows      demo.Fingerprint
	data      []string // data files of the current snapshot
	deletes   []string // its delete files
	tagged    []string // data files of the tagged snapshot
	snapshots int
}

func (s state) String() string {
	return fmt.Sprintf("%d data files, %d delete files, %d snapshots, %s", len(s.data), len(s.deletes), s.snapshots, s.rows)
}

// look reads the table and every row of it.
func (j *job) look(ctx context.Context) (state, error) {
	tbl, err := j.cat.LoadTable(ctx, j.ident)
	if err != nil {
		return state{}, fmt.Errorf("load table: %w", err)
	}
	s := state{table: tbl, snapshots: len(tbl.Metadata().Snapshots())}
	if s.rows, err = demo.Take(ctx, tbl); err != nil {
		return s, fmt.Errorf("read rows: %w", err)
	}
	if s.data, s.deletes, err = files(ctx, tbl, tbl.CurrentSnapshot()); err != nil {
		return s, err
	}
	s.tagged, _, err = files(ctx, tbl, tbl.SnapshotByName(demo.Tag))

	return s, err
}

// files lists the data and the delete files of a snapshot.
func files(ctx context.Context, tbl *table.Table, snapshot *table.Snapshot) (data, deletes []string, err error) {
	if snapshot == nil {
		return nil, nil, errors.New("a snapshot is gone")
	}
	fio, err := tbl.FS(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("open files: %w", err)
	}
	manifests, err := snapshot.Manifests(fio)
	if err != nil {
		return nil, nil, fmt.Errorf("read manifest list of %d: %w", snapshot.SnapshotID, err)
	}
	for _, m := range manifests {
		for entry, err := range m.Entries(fio, true) {
			if err != nil {
				return nil, nil, fmt.Errorf("read manifest %s: %w", m.FilePath(), err)
			}
			if m.ManifestContent() == iceberg.ManifestContentData {
				data = append(data, entry.DataFile().FilePath())
			} else {
				deletes = append(deletes, entry.DataFile().FilePath())
			}
		}
	}
	slices.Sort(data)

	return data, deletes, nil
}

// exists asks the store for a file.
func exists(ctx context.Context, tbl *table.Table, path string) (bool, error) {
	fio, err := tbl.FS(ctx)
	if err != nil {
		return false, fmt.Errorf("open files: %w", err)
	}
	f, err := fio.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open %s: %w", path, err)
	}
	if err := f.Close(); err != nil {
		return false, fmt.Errorf("close %s: %w", path, err)
	}

	return true, nil
}
