package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
)

// The program does its work as a user without rights whose root file system has
// nothing but the program and its configuration, and cannot be written to: no
// /tmp, no home, no /proc, no name service, no time zones.
func TestWorksOnAReadOnlyRootFileSystem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 20, 5)
	rows := tabletest.Rows(t, w.load())

	root := t.TempDir()
	require.NoError(t, os.Rename(built(t), filepath.Join(root, "compactor")))
	require.NoError(t, os.Mkdir(filepath.Join(root, "etc"), 0o755)) //nolint:gosec // The other user has to read it.
	config, err := os.ReadFile(w.config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/compactor.yaml"), config, 0o644)) //nolint:gosec // As above.
	for _, dir := range []string{root, filepath.Join(root, "etc")} {
		require.NoError(t, os.Chmod(dir, 0o555)) //nolint:gosec // As above.
	}
	t.Cleanup(func() { _ = os.Chmod(root, 0o755) }) //nolint:gosec // So that it can be removed.

	p := w.startIn(jail(root), "/compactor", "run", "--config", "/etc/compactor.yaml", "--output", "json", w.name())
	r := p.result(5 * time.Minute)
	require.Equal(t, 0, r.code, r.stderr)
	require.Equal(t, "done", r.steps(t)[0].Status)
	require.Equal(t, rows, tabletest.Rows(t, w.load()))
	require.Len(t, tabletest.Files(t, w.load()), 1)

	var found []string
	require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		found = append(found, path)

		return err
	}))
	require.Len(t, found, 4, "nothing was written")
}

// jail confines a process to a folder, as user 65532. Root just changes its user;
// anybody else does it in a user namespace.
func jail(root string) *syscall.SysProcAttr {
	const nobody = 65532
	attr := &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: os.Geteuid() != 0}}
	if os.Geteuid() != 0 {
		attr.Cloneflags = syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getgid(), Size: 1}}
	}

	return attr
}
