package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"compactor/internal/store"
)

// checkProbe refuses a --probe that names no folder.
func (d *checkup) checkProbe() error {
	switch {
	case d.probe == probeTable && d.typed == nil:
		return usagef("--probe table needs a TABLE: name the one whose folder may be written to")
	case d.probe == probeTable, strings.Contains(d.probe, "://"):
		return nil
	}

	return usagef("--probe %q: use a folder with its scheme, such as s3://bucket/probe, or the word table", d.probe)
}

// tryRights writes an object, reads it back, lists it and deletes it. Effects, in
// order: one object appears in the folder, and goes again. Its name is none that
// the removal of orphans keeps, so that what a crash leaves there goes with time.
func (d *checkup) tryRights(ctx context.Context, files *store.FS) {
	folder := d.probe
	if folder == probeTable {
		if d.table == nil {
			d.add(partStore, "write", checkSkipped, "the table could not be loaded", "")

			return
		}
		folder = d.table.Location() + "/data" // Stores for tables take nothing beside data and metadata.
	}
	path := strings.TrimRight(folder, "/") + "/compactor-probe-" + d.session.runID
	if !strings.HasPrefix(folder, "file:") {
		folder, path = path, path+"/object" // A list of it is short; a local folder would stay.
	}
	content := []byte("written by compactor doctor to learn whether it may; it can be deleted\n")
	if err := files.WriteFile(path, content); err != nil {
		d.fail(partStore, "write", err, "allow writing (s3:PutObject)")
		if ctx.Err() != nil {
			d.takeBack(ctx, files, path)
		}

		return
	}
	d.add(partStore, "write", checkOK, path+" written", "")
	d.readBack(files, path, content)
	d.findListed(ctx, files, folder, path)
	after, cancel := d.afterwards(ctx)
	defer cancel()
	_, err := files.DeleteFiles(after, []string{path})
	if err != nil {
		d.fail(partStore, "delete", err, "allow deleting (s3:DeleteObject)")
		d.add(partStore, "left", checkWarning, path+" could not be deleted", "delete it by hand")

		return
	}
	if _, err := files.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		d.add(partStore, "delete", checkWrong, fmt.Sprintf("the store confirmed the delete of %s, and it is still there (%v)", path, err), "look for a policy or a version of the store that keeps objects")

		return
	}
	d.add(partStore, "delete", checkOK, path+" deleted", "")
}

// takeBack deletes an object of which nobody knows whether it was written: the
// store may still carry out a request that was given up.
func (d *checkup) takeBack(ctx context.Context, files *store.FS, path string) {
	after, cancel := d.afterwards(ctx)
	defer cancel()
	text := "nobody knows whether " + path + " was written; a delete was sent after it"
	if _, err := files.DeleteFiles(after, []string{path}); err != nil {
		text = "nobody knows whether " + path + " was written, and it could not be deleted: " + err.Error()
	}
	d.add(partStore, "left", checkWarning, text, "look whether it is there, and delete it by hand")
}

// afterwards is the time to take back what was written, also when the time of the
// part is up or a signal has come.
func (d *checkup) afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return d.within(context.WithoutCancel(ctx))
}

func (d *checkup) readBack(files *store.FS, path string, content []byte) {
	got, err := files.ReadFile(path)
	switch {
	case err != nil:
		d.fail(partStore, "read back", err, "allow reading (s3:GetObject)")
	case !bytes.Equal(got, content):
		d.add(partStore, "read back", checkWrong, fmt.Sprintf("%s holds other bytes than were written", path), "do not use this store until it is known why")
	default:
		d.add(partStore, "read back", checkOK, "the object has what was written", "")
	}
}

// findListed looks for the object in the list of its folder, which the removal
// of orphans goes by.
func (d *checkup) findListed(ctx context.Context, files *store.FS, folder, path string) {
	for o, err := range files.List(ctx, folder) {
		switch {
		case err != nil:
			d.fail(partStore, "listed", err, "allow listing the bucket (s3:ListBucket)")

			return
		case o.Path == path:
			d.add(partStore, "listed", checkOK, "the object is in the list of its folder", "")

			return
		}
	}
	d.add(partStore, "listed", checkWrong, "the object is missing in the list of its folder", "a store whose lists are late hides files from orphans; use one that is consistent")
}
