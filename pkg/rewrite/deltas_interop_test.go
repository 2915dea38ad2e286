//go:build interop

package rewrite

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
)

// writeDeltas writes files of a few rows whose columns are stored as differences.
// Some differences of 32-bit integers need 33 bits, which DuckDB gives them.
const writeDeltas = `
import random, sys
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

program, seed, folder = sys.argv[1:]
random.seed(int(seed))
for rows in (1, 2, 32, 33, 34, 129, 1000):
    def column(kind, value, nulls=0.3):
        return pa.array([None if random.random() < nulls else value(i) for i in range(rows)], kind)
    made = pa.table({
        "a": column(pa.int64(), lambda i: random.randrange(-2**63, 2**63) if i % 3 else i, 0),
        "b": column(pa.int32(), lambda i: random.choice([-2**31, 2**31 - 1]) if i % 5 == 0 else i),
        "c": column(pa.string(), lambda i: f"é{i}" * (i % 7)),
        "d": column(pa.binary(), lambda i: b"\x00\xff" * (i % 9)),
        "e": column(pa.list_(pa.int32()), lambda i: [k * i for k in range(i % 4)]),
        "f": column(pa.int32(), lambda i: i, 1),
    })
    target = f"{folder}/{rows:05}.parquet"
    if program == "DuckDB":
        ids = "a: 1, b: 2, c: 3, d: 4, e: {__duckdb_field_id: 5, element: 6}, f: 7"
        duckdb.execute(f"COPY made TO '{target}' (FORMAT parquet, PARQUET_VERSION v2, FIELD_IDS {{{ids}}})")
        continue
    ids = [pa.field(f.name, f.type, f.nullable, {"PARQUET:field_id": str(i)}) for f, i in zip(made.schema, (1, 2, 3, 4, 5, 7))]
    ids[4] = pa.field("e", pa.list_(pa.field("element", pa.int32(), metadata={"PARQUET:field_id": "6"})), metadata=ids[4].metadata)
    delta = {"c": "DELTA_LENGTH_BYTE_ARRAY", "d": "DELTA_BYTE_ARRAY"}
    pq.write_table(made.cast(pa.schema(ids)), target, use_dictionary=False, data_page_version="2.0" if rows % 2 else "1.0",
                   column_encoding={c: delta.get(c, "DELTA_BINARY_PACKED") for c in ("a", "b", "c", "d", "e.list.element", "f")})
`

// readDeltas compares what PyArrow and DuckDB read of the outputs with what DuckDB
// reads of the inputs, which PyArrow cannot read.
const readDeltas = `
import sys
import duckdb
import pyarrow.parquet as pq

folder, *outputs = sys.argv[1:]
def rows(files):
    return duckdb.execute(f"SELECT a, b, c, d, e, f FROM read_parquet({files})").fetchall()
want = rows([f"{folder}/*.parquet"])
got = [tuple(row[c] for c in "abcdef") for path in outputs for row in pq.read_table(path).to_pylist()]
print("rows", len(want), want == rows(outputs), want == got)
`

func TestTinyPagesOfDeltasByOtherWriters(t *testing.T) {
	p := iceberg.PrimitiveTypes
	python := testenv.Tool(t, "engines-python", "bin", "python")
	for seed, writer := range []string{"DuckDB", "PyArrow"} {
		t.Run(writer, func(t *testing.T) {
			e := newEnv(t, iceberg.NewSchema(0,
				iceberg.NestedField{ID: 1, Name: "a", Type: p.Int64}, iceberg.NestedField{ID: 2, Name: "b", Type: p.Int32},
				iceberg.NestedField{ID: 3, Name: "c", Type: p.String}, iceberg.NestedField{ID: 4, Name: "d", Type: p.Binary},
				iceberg.NestedField{ID: 5, Name: "e", Type: &iceberg.ListType{ElementID: 6, Element: p.Int32}},
				iceberg.NestedField{ID: 7, Name: "f", Type: p.Int32}), *iceberg.UnpartitionedSpec, nil)
			dir := t.TempDir()
			out, err := exec.CommandContext(t.Context(), python, "-c", writeDeltas, writer, strconv.Itoa(seed), dir).CombinedOutput()
			require.NoError(t, err, string(out))
			for _, rows := range []int64{1, 2, 32, 33, 34, 129, 1000} {
				raw, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%05d.parquet", rows)))
				require.NoError(t, err)
				e.addRaw(raw, rows)
			}
			tbl, plan := e.load(), e.plan(PlanOptions{MinInputFiles: 2})
			require.Len(t, plan.Groups, 1, plan.Reason)
			res := rewriteWith(t, tbl, plan, Options{Engine: EngineSplice})[0]
			require.Equal(t, EngineSplice, res.Engine.Name, "%s: %s", res.Engine.Reason, res.Engine.Detail)
			assert.Zero(t, res.Engine.Pages.Verbatim, "all pages are tiny")
			require.Len(t, res.Outputs, 1)
			output := strings.TrimPrefix(res.Outputs[0].FilePath(), "file://")
			out, err = exec.CommandContext(t.Context(), python, "-c", readDeltas, dir, output).CombinedOutput()
			require.NoError(t, err, string(out))
			assert.Equal(t, "rows 1231 True True\n", string(out))
		})
	}
}
