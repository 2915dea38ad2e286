package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"compactor/pkg/inspect"
)

// pagePath is where a page goes: the file that a name stands for, symbolic
// links followed. What is there has to be a file, because it is replaced: a
// device or a pipe would be gone. It also finds a missing folder before any
// work is done.
func pagePath(name string) (string, error) {
	if name == "" {
		return "", usagef("--html has an empty value; name a file")
	}
	path, err := filepath.EvalSymlinks(name)
	if errors.Is(err, fs.ErrNotExist) {
		path, err = name, nil
	}
	if err != nil {
		return "", usagef("--html: %w", err)
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", usagef("--html: %w", err)
	case !info.Mode().IsRegular():
		return "", usagef("--html %s: it is there and no regular file", name)
	}
	folder, err := os.Stat(filepath.Dir(path))
	switch {
	case err != nil:
		return "", usagef("--html: %w", err)
	case !folder.IsDir():
		return "", usagef("--html %s: %s is no folder", name, filepath.Dir(path))
	}

	return path, nil
}

// writePage writes the page, if one was asked for.
func (i inspector) writePage(d inspection) error {
	if i.options.html == "" {
		return nil
	}
	page := inspect.Page{Version: d.Version, At: d.At, Tables: d.Tables, Failed: d.Failed}

	return replaceFile(i.options.html, page.WriteHTML)
}

// replaceFile writes a file under another name in the same folder and renames
// it, so that a reader sees the old one or the new one, whole. When something
// fails the old one stays and the new one is removed. A crash may leave it, with
// a hidden name.
func replaceFile(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".compactor-page-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	b := bufio.NewWriter(f)
	err = cmp.Or(write(b), b.Flush(), f.Chmod(pageMode(path)), f.Sync())
	if err = cmp.Or(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
	}

	return nil
}

// pageMode is the mode of the file that is replaced. A new one is for all to
// read, as a web server may show it.
func pageMode(path string) fs.FileMode {
	if info, err := os.Stat(path); err == nil {
		return info.Mode().Perm()
	}

	return 0o644
}
