package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// demoMarker says that a folder was made by an earlier demo and may be
// replaced.
const demoMarker = ".compactor-demo"

// freshFolder makes dir, or empties it when it holds an earlier demo. A folder
// with anything else in it is refused, and so is one in which another demo is
// running. The folder is this demo's own until free is called or the process ends.
func freshFolder(dir string) (abs string, free func(), err error) {
	if abs, err = filepath.Abs(dir); err != nil {
		return "", nil, fmt.Errorf("resolve folder %s: %w", dir, err)
	}
	if strings.ContainsAny(abs, "#?%") {
		return "", nil, usagef("folder %s: # ? and %% have a meaning of their own in table locations; name another with --dir", abs)
	}
	entries, err := os.ReadDir(abs)
	marked := slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == demoMarker })
	switch {
	case len(entries) > 0 && !marked:
		return "", nil, usagef("folder %s is not empty and was not made by a demo; name another with --dir", dir)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return "", nil, usagef("folder %s: %w; name another with --dir", dir, err)
	}
	if err := os.MkdirAll(abs, 0o750); err != nil {
		return "", nil, fmt.Errorf("make folder %s: %w", dir, err)
	}
	if free, err = lockDemo(abs); err != nil {
		return "", nil, err
	}
	if err := emptyDemo(abs); err != nil {
		free()

		return "", nil, err
	}

	return abs, free, nil
}

// lockDemo locks the marker of a folder, so that one demo at a time is in it.
func lockDemo(dir string) (free func(), err error) {
	marker, err := os.OpenFile(filepath.Join(dir, demoMarker), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("mark folder %s: %w", dir, err)
	}
	free = func() { _ = marker.Close() } // It was only locked.
	if err := syscall.Flock(int(marker.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		free()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, usagef("another demo is running in folder %s; wait for its end, or name another with --dir", dir)
		}

		return nil, fmt.Errorf("lock folder %s: %w", dir, err)
	}

	return free, nil
}

// emptyDemo removes what an earlier demo left, all but the marker, and makes the
// folders that a demo needs.
func emptyDemo(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read folder %s: %w", dir, err)
	}
	for _, e := range entries {
		if e.Name() == demoMarker {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("remove earlier demo: %w", err)
		}
	}
	for _, sub := range []string{"warehouse", "claims"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o750); err != nil {
			return fmt.Errorf("make folder %s: %w", sub, err)
		}
	}

	return nil
}
