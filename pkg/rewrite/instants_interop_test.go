//go:build interop

package rewrite

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
)

// TestInt96OfPyArrow has PyArrow write the files and read what comes out.
func TestInt96OfPyArrow(t *testing.T) {
	python := func(script string, args ...string) {
		cmd := exec.CommandContext(t.Context(), testenv.Tool(t, "engines-python", "bin", "python"), append([]string{"-c", script}, args...)...)
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "TZ=America/New_York")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	const values = `
import sys, datetime as dt, pyarrow as pa, pyarrow.parquet as pq
values = [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), None, dt.datetime(1901, 1, 1), dt.datetime(2024, 2, 29, 12, 0, 0, 1)] * 700
`
	for _, typ := range []iceberg.Type{iceberg.PrimitiveTypes.Timestamp, iceberg.PrimitiveTypes.TimestampTz} {
		t.Run(typ.String(), func(t *testing.T) {
			source := filepath.Join(t.TempDir(), "source.parquet")
			python(values+`
field = pa.field("x", pa.timestamp("us"), metadata={"PARQUET:field_id": "1"})
pq.write_table(pa.table([values], pa.schema([field])), sys.argv[1], use_deprecated_int96_timestamps=True, row_group_size=1000)
assert pq.ParquetFile(sys.argv[1]).schema.column(0).physical_type == "INT96"
`, source)
			raw, err := os.ReadFile(source)
			require.NoError(t, err)
			e := newEnv(t, iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "x", Type: typ}), *iceberg.UnpartitionedSpec, nil)
			for range 2 {
				e.addRaw(raw, 2800)
			}
			out := e.compact(PlanOptions{MinInputFiles: 2}, Options{Verify: true})
			require.Len(t, out.results[0].Outputs, 1)
			assert.EqualValues(t, 5600, out.results[0].RowsOut)
			python(values+`
found = pq.read_table(sys.argv[1]).column("x")
assert found.type.unit == "us", found.type
assert [v.replace(tzinfo=None) if v else v for v in found.cast(pa.timestamp("us", "UTC")).to_pylist()] == values * 2
`, strings.TrimPrefix(out.results[0].Outputs[0].FilePath(), "file://"))
		})
	}
}
