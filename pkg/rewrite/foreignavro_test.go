package rewrite

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// avroFile changes an Avro file as another writer might have written it: without
// some keys of its metadata, and with other bytes in its blocks.
func avroFile(t *testing.T, path string, without []string, change func([]byte) []byte) {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "Obj\x01", string(raw[:4]))
	in, out, deflated := bytes.NewReader(raw[4:]), []byte("Obj\x01"), false
	next := func() int64 {
		n, err := binary.ReadVarint(in)
		require.NoError(t, err)

		return n
	}
	text := func() string {
		b := make([]byte, next())
		_, err := io.ReadFull(in, b)
		require.NoError(t, err)

		return string(b)
	}
	for n := next(); n != 0; n = next() {
		if n < 0 {
			n = -n
			next()
		}
		for range n {
			key, value := text(), text()
			deflated = deflated || key == "avro.codec" && value == "deflate"
			if !slices.Contains(without, key) {
				out = binary.AppendVarint(out, 1)
				out = append(binary.AppendVarint(out, int64(len(key))), key...)
				out = append(binary.AppendVarint(out, int64(len(value))), value...)
			}
		}
	}
	out = binary.AppendVarint(out, 0)
	sync := make([]byte, 16)
	_, err = io.ReadFull(in, sync)
	require.NoError(t, err)
	out = append(out, sync...)
	for in.Len() > 0 {
		out = binary.AppendVarint(out, next())
		block := []byte(text())
		if deflated {
			block, err = io.ReadAll(flate.NewReader(bytes.NewReader(block)))
			require.NoError(t, err)
		}
		if block = change(block); deflated {
			var packed bytes.Buffer
			w, err := flate.NewWriter(&packed, flate.DefaultCompression)
			require.NoError(t, err)
			_, err = w.Write(block)
			require.NoError(t, err)
			require.NoError(t, w.Close())
			block = packed.Bytes()
		}
		out = append(binary.AppendVarint(out, int64(len(block))), block...)
		_, err = io.ReadFull(in, sync)
		require.NoError(t, err)
		out = append(out, sync...)
	}
	require.NoError(t, os.WriteFile(path, out, 0o600))
}

// TestManifestListsWithoutVersionAndFormatsInLowerCase has metadata as DuckDB
// writes it. Taken for one of version 1, such a list would make data files of
// delete files.
func TestManifestListsWithoutVersionAndFormatsInLowerCase(t *testing.T) {
	for _, version := range []string{"1", "2", "3"} {
		for _, engine := range []string{EngineGeneral, EngineSplice} {
			t.Run("v"+version+" "+engine, func(t *testing.T) {
				e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, iceberg.Properties{"format-version": version})
				for i := range 3 {
					e.appendSeries(3*i, 3)
				}
				data, _ := e.files()
				switch version {
				case "2":
					e.deletePositions(data[0], position{data[0].FilePath(), 1})
				}
				want := e.rows()
				e.inOtherSpelling()
				out := e.compact(PlanOptions{MinInputFiles: 2}, Options{Engine: engine})
				require.Len(t, out.results, 1)
				assert.Equal(t, want, e.rows())
				data, deletes := e.files()
				assert.Len(t, data, 1)
				assert.Empty(t, deletes)
				assert.Equal(t, iceberg.ParquetFile, data[0].FileFormat())
			})
		}
	}
}

func TestDeletionVectorsInAnotherSpellingAreRefused(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, iceberg.Properties{"format-version": "3"})
	for i := range 3 {
		e.appendSeries(3*i, 3)
	}
	data, _ := e.files()
	e.deleteVector(position{data[0].FilePath(), 1})
	e.inOtherSpelling()
	plan := e.plan(PlanOptions{MinInputFiles: 2})
	require.Len(t, plan.Refused, 1)
	assert.Contains(t, plan.Refused[0].Reason, "deletion vector has a format that is not in capitals")
	assert.Contains(t, plan.Refused[0].What, data[0].FilePath())
	out := e.compact(PlanOptions{MinInputFiles: 2}, Options{})
	require.Len(t, out.results, 1)
	assert.Len(t, out.results[0].Group.Files, 2)
	left, deletes := e.files()
	assert.Len(t, left, 2)
	assert.Len(t, deletes, 1)
}

// inOtherSpelling rewrites the metadata files of the current snapshot in place.
func (e *env) inOtherSpelling() {
	e.t.Helper()
	tbl := e.load()
	storage, err := tbl.FS(e.t.Context())
	require.NoError(e.t, err)
	manifests, err := tbl.CurrentSnapshot().Manifests(storage)
	require.NoError(e.t, err)
	lower := func(b []byte) []byte {
		after := bytes.ReplaceAll(b, []byte("\x0ePARQUET"), []byte("\x0eparquet"))
		after = bytes.ReplaceAll(after, []byte("\x0cPUFFIN"), []byte("\x0cpuffin"))
		require.NotEqual(e.t, b, after)

		return after
	}
	for _, m := range manifests {
		avroFile(e.t, strings.TrimPrefix(m.FilePath(), "file://"), nil, lower)
	}
	list := strings.TrimPrefix(tbl.CurrentSnapshot().ManifestList, "file://")
	before, err := os.ReadFile(list)
	require.NoError(e.t, err)
	avroFile(e.t, list, []string{"format-version"}, func(b []byte) []byte { return b })
	after, err := os.ReadFile(list)
	require.NoError(e.t, err)
	require.Contains(e.t, string(before), "format-version")
	require.NotContains(e.t, string(after), "format-version")
}
