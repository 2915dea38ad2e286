package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/store"
)

// Target is a store under test.
type Target struct {
	Store *store.Store
	Root  string // a folder of its own, as a location without a slash at the end
	// Pending lists what is left of writes that have not ended: temporary files,
	// multipart uploads.
	Pending func(t *testing.T) []string
}

// Conformance runs every property that callers may rely on. The store should have
// small limits (SmallObject and PartSize a few MiB at most), so that large objects are cheap.
func Conformance(t *testing.T, open func(t *testing.T) Target) {
	for name, test := range map[string]func(*testing.T, Target, *store.FS){
		"written bytes read back the same":          readBack,
		"reads at any offset see the right bytes":   randomReads,
		"a missing object is fs.ErrNotExist":        missing,
		"an object is invisible until it is closed": invisible,
		"an aborted write leaves nothing":           aborted,
		"the end of the context aborts a write":     cancelled,
		"a dead context makes no request":           deadContext,
		"a write replaces what was there":           replaces,
		"a listing is flat and keeps to its folder": lists,
		"deleting what is missing succeeds":         deletes,
		"odd names keep their spelling":             oddNames,
		"a walk shows what a listing shows":         walks,
	} {
		t.Run(name, func(t *testing.T) {
			target := open(t)
			test(t, target, target.Store.FS(t.Context(), nil))
		})
	}
}

// pattern is reproducible noise; the seed is its length.
func pattern(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)})
	_, _ = r.Read(b)
	return b
}

func readBack(t *testing.T, target Target, f *store.FS) {
	const mib = 1 << 20
	for _, size := range []int{0, 1, 1000, mib, 5 * mib, 5*mib + 1, 17 * mib} {
		path := fmt.Sprintf("%s/sizes/%d.bin", target.Root, size)
		want := pattern(size)
		w, err := f.Create(path)
		require.NoError(t, err)
		n, err := w.ReadFrom(bytes.NewReader(want))
		require.NoError(t, err)
		require.EqualValues(t, size, n)
		require.NoError(t, w.Close())

		got, err := f.ReadFile(path)
		require.NoError(t, err, "size %d", size)
		require.True(t, bytes.Equal(want, got), "size %d: content differs", size)

		info, err := f.Stat(path)
		require.NoError(t, err)
		require.EqualValues(t, size, info.Size())
		require.WithinDuration(t, time.Now(), info.ModTime(), time.Hour)
		require.Equal(t, fmt.Sprintf("%d.bin", size), info.Name())

		file, err := f.Open(path)
		require.NoError(t, err)
		info, err = file.Stat()
		require.NoError(t, err)
		require.EqualValues(t, size, info.Size())
		streamed, err := io.ReadAll(file)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, streamed), "size %d: streamed content differs", size)
		require.NoError(t, file.Close())
	}
	require.Empty(t, target.Pending(t))
}

func randomReads(t *testing.T, target Target, f *store.FS) {
	const size = 13<<20 + 77
	path, want := target.Root+"/random.bin", pattern(size)
	require.NoError(t, f.WriteFile(path, want))
	file, err := f.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	errs := make(chan error, 4)
	for range cap(errs) {
		type read struct{ off, length int }
		reads := make([]read, 25)
		for i := range reads {
			reads[i] = read{rnd.IntN(size + 10), rnd.IntN([]int{16, 4096, 200_000, 3 << 20}[rnd.IntN(4)])}
		}
		go func() {
			for _, r := range reads {
				p := make([]byte, r.length)
				n, err := file.ReadAt(p, int64(r.off))
				expect := want[min(r.off, size):min(r.off+r.length, size)]
				if (n < r.length) != errors.Is(err, io.EOF) || !bytes.Equal(expect, p[:n]) {
					errs <- fmt.Errorf("read %d bytes at %d: n=%d err=%w", r.length, r.off, n, err)
					return
				}
			}
			errs <- nil
		}()
	}
	for range cap(errs) {
		require.NoError(t, <-errs)
	}

	pos, err := file.Seek(-8, io.SeekEnd)
	require.NoError(t, err)
	require.EqualValues(t, size-8, pos)
	last, err := io.ReadAll(file)
	require.NoError(t, err)
	require.Equal(t, want[size-8:], last)
	_, err = file.Seek(-1, io.SeekStart)
	require.Error(t, err)
}

func missing(t *testing.T, target Target, f *store.FS) {
	path := target.Root + "/no/such.parquet"
	_, openErr := f.Open(path)
	_, readErr := f.ReadFile(path)
	_, statErr := f.Stat(path)
	for op, err := range map[string]error{"open": openErr, "read": readErr, "stat": statErr} {
		require.ErrorIs(t, err, fs.ErrNotExist, op)
		var pe *fs.PathError
		require.ErrorAs(t, err, &pe, op)
		require.Equal(t, path, pe.Path)
	}
	for _, err := range f.List(t.Context(), target.Root+"/no/such/folder") {
		require.NoError(t, err)
		t.Fatal("a folder that does not exist has an object")
	}
}

func invisible(t *testing.T, target Target, f *store.FS) {
	for _, size := range []int{10, 12 << 20} {
		path := fmt.Sprintf("%s/invisible-%d", target.Root, size)
		w, err := f.Create(path)
		require.NoError(t, err)
		_, err = w.Write(pattern(size))
		require.NoError(t, err)
		_, err = f.Stat(path)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.NoError(t, w.Close())
		_, err = f.Stat(path)
		require.NoError(t, err)
		_, err = w.Write([]byte("late"))
		require.ErrorIs(t, err, fs.ErrClosed)
		require.Error(t, w.Close(), "closing twice")
		require.NoError(t, w.(store.Writer).Abort(), "aborting after the end")
		_, err = f.Stat(path)
		require.NoError(t, err)
	}
}

func aborted(t *testing.T, target Target, f *store.FS) {
	for _, size := range []int{10, 12 << 20} {
		path := fmt.Sprintf("%s/aborted-%d", target.Root, size)
		w, err := f.CreateWriter(path)
		require.NoError(t, err)
		_, err = w.Write(pattern(size))
		require.NoError(t, err)
		require.NoError(t, w.Abort())
		require.NoError(t, w.Abort(), "aborting twice")
		require.ErrorIs(t, w.Close(), fs.ErrClosed)
		_, err = f.Stat(path)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	require.Empty(t, target.Pending(t))
}

func cancelled(t *testing.T, target Target, f *store.FS) {
	cause := errors.New("the claim was lost")
	for _, size := range []int{10, 12 << 20} {
		path := fmt.Sprintf("%s/cancelled-%d", target.Root, size)
		ctx, cancel := context.WithCancelCause(t.Context())
		w, err := f.WithContext(ctx).Create(path)
		require.NoError(t, err)
		_, err = w.Write(pattern(size))
		require.NoError(t, err)
		cancel(cause)
		require.ErrorIs(t, w.Close(), cause)
		_, err = f.Stat(path)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	// A writer that is forgotten is aborted as well, in its own time.
	ctx, cancel := context.WithCancel(t.Context())
	w, err := f.WithContext(ctx).Create(target.Root + "/forgotten")
	require.NoError(t, err)
	_, err = w.Write(pattern(12 << 20))
	require.NoError(t, err)
	require.NotEmpty(t, target.Pending(t))
	cancel()
	require.Eventually(t, func() bool { return len(target.Pending(t)) == 0 }, 10*time.Second, 20*time.Millisecond)
}

func deadContext(t *testing.T, target Target, f *store.FS) {
	path := target.Root + "/dead.bin"
	require.NoError(t, f.WriteFile(path, pattern(10)))
	file, err := f.Open(path)
	require.NoError(t, err)
	require.NoError(t, file.Close())

	cause := errors.New("the work is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	dead, before := f.WithContext(ctx), f.Counters().Totals()
	_, err = dead.Open(path)
	require.ErrorIs(t, err, cause)
	_, err = dead.ReadFile(path)
	require.ErrorIs(t, err, cause)
	_, err = dead.Stat(path)
	require.ErrorIs(t, err, cause)
	_, err = dead.Create(path)
	require.ErrorIs(t, err, cause)
	require.ErrorIs(t, dead.WriteFile(path, nil), cause)
	require.ErrorIs(t, dead.Remove(path), cause)
	deleted, err := dead.DeleteFiles(t.Context(), []string{path})
	require.ErrorIs(t, err, cause)
	require.Empty(t, deleted)
	deleted, err = f.DeleteFiles(ctx, []string{path})
	require.ErrorIs(t, err, cause)
	require.Empty(t, deleted)
	for _, err := range dead.List(t.Context(), target.Root) {
		require.ErrorIs(t, err, cause)
	}
	require.Zero(t, f.Counters().Totals().Sub(before).Requests())

	require.NoError(t, dead.WithContext(t.Context()).Remove(path), "a fresh context cleans up")
}

func replaces(t *testing.T, target Target, f *store.FS) {
	path := target.Root + "/replaced"
	require.NoError(t, f.WriteFile(path, []byte("first, and longer")))
	require.NoError(t, f.WriteFile(path, []byte("second")))
	got, err := f.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "second", string(got))
}

func lists(t *testing.T, target Target, f *store.FS) {
	folder := target.Root + "/t"
	var want []string
	for _, name := range []string{"data/a.parquet", "data/p=1/b.parquet", "data/p=1/q=2/c.parquet", "metadata/v1.metadata.json", "data/_SUCCESS"} {
		want = append(want, folder+"/"+name)
	}
	for i, path := range append(slices.Clone(want), target.Root+"/t2/other", target.Root+"/t.txt") {
		require.NoError(t, f.WriteFile(path, pattern(i+1)))
	}
	for _, prefix := range []string{folder, folder + "/"} {
		sizes := map[string]int64{}
		for o, err := range f.List(t.Context(), prefix) {
			require.NoError(t, err)
			require.WithinDuration(t, time.Now(), o.ModTime, time.Hour)
			sizes[o.Path] = o.Size
		}
		require.Len(t, sizes, len(want), "%v", sizes)
		for i, path := range want {
			require.EqualValues(t, i+1, sizes[path], path)
		}
	}
	seen := 0
	for _, err := range f.List(t.Context(), folder) {
		require.NoError(t, err)
		seen++
		break
	}
	require.Equal(t, 1, seen, "a listing can be left early")
}

func deletes(t *testing.T, target Target, f *store.FS) {
	paths := make([]string, 30)
	for i := range paths {
		paths[i] = fmt.Sprintf("%s/del/%02d", target.Root, i)
		if i%3 != 0 {
			require.NoError(t, f.WriteFile(paths[i], []byte("x")))
		}
	}
	deleted, err := f.DeleteFiles(t.Context(), paths)
	require.NoError(t, err)
	require.Equal(t, paths, deleted)
	for _, err := range f.List(t.Context(), target.Root+"/del") {
		require.NoError(t, err)
		t.Fatal("an object is left")
	}
	require.NoError(t, f.Remove(paths[0]), "removing what is not there")
	deleted, err = f.DeleteFiles(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, deleted)
}

func oddNames(t *testing.T, target Target, f *store.FS) {
	for _, name := range []string{"s=a%2Fb/x y.parquet", "käse 🧀/ä+b&c=d.bin", "q?x#y/[z]{1}'(2)!", "a:b/c@d,e;f$"} {
		path := target.Root + "/odd/" + name
		require.NoError(t, f.WriteFile(path, []byte(name)), name)
		got, err := f.ReadFile(path)
		require.NoError(t, err, name)
		require.Equal(t, name, string(got))
		found := false
		for o, err := range f.List(t.Context(), target.Root+"/odd") {
			require.NoError(t, err)
			found = found || o.Path == path
		}
		require.True(t, found, "%q is listed under another name", name)
		deleted, err := f.DeleteFiles(t.Context(), []string{path})
		require.NoError(t, err)
		require.Equal(t, []string{path}, deleted)
		_, err = f.Stat(path)
		require.ErrorIs(t, err, fs.ErrNotExist, name)
	}
}

func walks(t *testing.T, target Target, f *store.FS) {
	root := target.Root + "/walk"
	for _, name := range []string{"a", "b/c", "b/d"} {
		require.NoError(t, f.WriteFile(root+"/"+name, []byte(name)))
	}
	var seen []string
	require.NoError(t, f.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if !d.IsDir() {
			seen = append(seen, strings.TrimPrefix(path, root+"/"))
		}
		return nil
	}))
	slices.Sort(seen)
	require.Equal(t, []string{"a", "b/c", "b/d"}, seen)
	calls := 0
	require.NoError(t, f.WalkDir(root, func(string, fs.DirEntry, error) error { calls++; return fs.SkipAll }))
	require.Equal(t, 1, calls)
}
