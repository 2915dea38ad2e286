package store_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"compactor/internal/store"
	"compactor/internal/store/storetest"
	"compactor/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func newStore(t *testing.T, o store.Options) *store.Store {
	t.Helper()
	s, err := store.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestLocalFilesConform(t *testing.T) {
	for form, prefix := range map[string]string{"bare path": "", "file URI": "file://", "short file URI": "file:"} {
		t.Run(form, func(t *testing.T) {
			storetest.Conformance(t, func(t *testing.T) storetest.Target {
				dir := t.TempDir()
				return storetest.Target{
					Store: newStore(t, store.Options{}), Root: prefix + dir,
					Pending: func(t *testing.T) []string { return partFiles(t, dir) },
				}
			})
		})
	}
}

func partFiles(t *testing.T, dir string) []string {
	t.Helper()
	var parts []string
	require.NoError(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(p, ".part") {
			parts = append(parts, p)
		}
		return err
	}))
	return parts
}

func TestLocalDeleteKeepsFoldersAndNamesWhatIsLeft(t *testing.T) {
	dir := t.TempDir()
	f := newStore(t, store.Options{}).FS(t.Context(), nil)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	require.NoError(t, f.WriteFile(dir+"/file", []byte("x")))

	deleted, err := f.DeleteFiles(t.Context(), []string{dir + "/folder", dir + "/file"})
	require.Equal(t, []string{dir + "/file"}, deleted)
	var de *store.DeleteError
	require.ErrorAs(t, err, &de)
	require.Len(t, de.Failed, 1)
	require.Equal(t, dir+"/folder", de.Failed[0].Path)
	require.DirExists(t, dir+"/folder")
}

func TestLocalPathsOnAnotherHostAreRefused(t *testing.T) {
	f := newStore(t, store.Options{}).FS(t.Context(), nil)
	_, err := f.Open("file://elsewhere/tmp/x")
	require.ErrorIs(t, err, fs.ErrInvalid)
	_, err = f.Open("hdfs://nn/tmp/x")
	require.ErrorContains(t, err, `there is no backend for this scheme: "hdfs"`)
}
