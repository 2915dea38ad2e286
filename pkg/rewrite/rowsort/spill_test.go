package rowsort

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fullDisk takes so many bytes over all its files.
type fullDisk struct {
	left   int
	opened int
	closed int
}

type fullFile struct {
	File
	disk *fullDisk
}

func (f fullFile) Write(p []byte) (int, error) {
	if f.disk.left -= len(p); f.disk.left < 0 {
		return 0, syscall.ENOSPC
	}

	return f.File.Write(p)
}

func (f fullFile) Close() error {
	f.disk.closed++

	return f.File.Close()
}

// Whatever byte the disk is full at, the error says so and every file is closed.
func TestFullDisk(t *testing.T) {
	sc := schemaOf(iceberg.PrimitiveTypes.String)
	dir := t.TempDir()
	failed := 0
	for left := 0; ; left += 40 << 10 {
		disk := &fullDisk{left: left}
		create := TempFiles(dir)
		s := New(Options{Order: mustParse(t, "c0", sc), Memory: 64 << 10, Create: func() (File, error) {
			f, err := create()
			disk.opened++

			return fullFile{f, disk}, err
		}})
		r := rand.New(rand.NewPCG(7, 8))
		var err error
		for range 40 {
			var rows []string
			for range 100 {
				rows = append(rows, fmt.Sprintf(`{"c0":"%x%x"}`, r.Uint64(), r.Uint64()))
			}
			if err = s.Add(t.Context(), fromJSON(t, sc, rows...)); err != nil {
				break
			}
		}
		if err == nil {
			for rec, e := range s.Rows(t.Context()) {
				if err = e; e != nil {
					break
				}
				rec.Release()
			}
		}
		require.NoError(t, s.Close())
		require.Equal(t, disk.opened, disk.closed)
		left, listErr := os.ReadDir(dir)
		require.NoError(t, listErr)
		require.Empty(t, left, "files keep no name")
		if err == nil {
			break
		}
		require.ErrorIs(t, err, syscall.ENOSPC)
		failed++
	}
	require.Greater(t, failed, 2)
}

// Many runs are merged a few at a time. Each row is then written about as often
// as there are levels, and not once for every merge.
func TestMergesWriteRowsFewTimes(t *testing.T) {
	sc := schemaOf(iceberg.PrimitiveTypes.Int64)
	disk := &fullDisk{left: math.MaxInt}
	create, open := TempFiles(t.TempDir()), 0
	s := New(Options{Order: mustParse(t, "c0", sc), Memory: 64, Create: func() (File, error) {
		f, err := create()
		disk.opened++
		open = max(open, disk.opened-disk.closed)

		return fullFile{f, disk}, err
	}})
	defer func() { require.NoError(t, s.Close()) }()
	const runs, levels = 256, 8
	var one int64 // bytes of a run
	for i := range runs {
		var rows []string
		for k := range 50 {
			rows = append(rows, fmt.Sprintf(`{"c0":%d}`, k*runs+(i*37)%runs))
		}
		require.NoError(t, s.Add(t.Context(), fromJSON(t, sc, rows...)))
		if i == 0 {
			one = s.Spilled().Bytes
		}
	}
	want := int64(0)
	for rec, err := range s.Rows(t.Context()) {
		require.NoError(t, err)
		for _, v := range rec.Column(0).(*array.Int64).Values() {
			require.Equal(t, want, v)
			want++
		}
		rec.Release()
	}
	assert.EqualValues(t, runs*50, want)
	assert.LessOrEqual(t, s.Spilled().Bytes, runs*one*(levels+1))
	assert.LessOrEqual(t, open, mostRuns+2, "files open at once")
}

// A folder that is not there is named before any row is lost.
func TestNoFolderForFiles(t *testing.T) {
	_, err := TempFiles(t.TempDir() + "/missing")()
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "missing")
}

func TestCancelledMerge(t *testing.T) {
	sc := schemaOf(iceberg.PrimitiveTypes.Int64)
	ctx, cancel := context.WithCancelCause(t.Context())
	s := New(Options{Order: mustParse(t, "c0", sc), BatchBytes: 8, Create: TempFiles(t.TempDir())})
	defer func() { require.NoError(t, s.Close()) }()
	require.NoError(t, s.Add(ctx, fromJSON(t, sc, `{"c0":3}`, `{"c0":1}`, `{"c0":2}`)))
	require.NoError(t, s.Add(ctx, fromJSON(t, sc, `{"c0":3}`, `{"c0":1}`, `{"c0":2}`)))
	why := errors.New("claim lost")
	cancel(why)
	for _, err := range s.Rows(ctx) {
		require.ErrorIs(t, err, why)
	}
}

// Damage in a file is an error, not other rows.
func TestDamagedFile(t *testing.T) {
	sc := schemaOf(iceberg.PrimitiveTypes.Int64)
	create := TempFiles(t.TempDir())
	var made []File
	s := New(Options{Order: mustParse(t, "c0", sc), Memory: 64, Create: func() (File, error) {
		f, err := create()
		made = append(made, f)

		return f, err
	}})
	defer func() { require.NoError(t, s.Close()) }()
	require.NoError(t, s.Add(t.Context(), fromJSON(t, sc, `{"c0":3}`, `{"c0":1}`)))
	require.NoError(t, s.Add(t.Context(), fromJSON(t, sc, `{"c0":2}`, `{"c0":4}`)))
	require.Len(t, made, 2)
	require.NoError(t, made[0].(interface{ Truncate(int64) error }).Truncate(100))
	_, err := made[0].Seek(0, io.SeekEnd)
	require.NoError(t, err)
	var failed error
	for _, err := range s.Rows(t.Context()) {
		failed = err
	}
	require.Error(t, failed)
}
