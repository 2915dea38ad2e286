//go:build interop

package rewrite

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
	"compactor/pkg/rewrite/rewritetest"
)

// writeBare has a program write the rows of a file anew that knows of no ids.
const writeBare = `
import sys
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

def bare(field):
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([bare(f) for f in kind])
    elif pa.types.is_map(kind):
        kind = pa.map_(bare(kind.key_field), bare(kind.item_field))
    elif pa.types.is_list(kind):
        kind = pa.list_(bare(kind.value_field))
    return pa.field(field.name, kind, field.nullable)

program, source, target = sys.argv[1:]
if program == "DuckDB":
    # It has no byte strings of a fixed length.
    names = ", ".join(f'"{f.name}"' for f in pq.read_schema(source) if "fixed_size_binary[5]" not in str(f.type))
    duckdb.execute("SET TimeZone = 'UTC'")
    duckdb.execute(f"COPY (SELECT {names} FROM read_parquet('{source}')) TO '{target}' (FORMAT parquet, PARQUET_VERSION v2)")
else:
    table = pq.read_table(source)
    table = table.cast(pa.schema([bare(f) for f in table.schema]))
    pq.write_table(table, target, use_compliant_nested_type=program == "PyArrow", data_page_size=512, write_batch_size=50)
`

// TestFilesOfOtherWritersAreSplicedByTheirNames takes files as they are added to
// a table that did not write them. PyArrow calls elements of lists what Iceberg
// calls them, or something else.
func TestFilesOfOtherWritersAreSplicedByTheirNames(t *testing.T) {
	for i, writer := range []string{"PyArrow", "PyArrow of old", "DuckDB"} {
		t.Run(writer, func(t *testing.T) {
			e := newEnv(t, rewritetest.CorpusSchema(), *iceberg.UnpartitionedSpec, nil)
			sc := e.load().Schema()
			e.names(sc.NameMapping())
			for n := range 3 {
				rec, err := rewritetest.CorpusBatch(sc, "some", 30+40*n, uint64(10*i+n))
				require.NoError(t, err)
				raw, err := rewritetest.WriteCell(rewritetest.Cell{Version: "v1", Encoding: "plain", Codec: "none"}, rec)
				require.NoError(t, err)
				source := filepath.Join(t.TempDir(), "source.parquet")
				require.NoError(t, os.WriteFile(source, raw, 0o600))
				out, err := exec.CommandContext(t.Context(), testenv.Tool(t, "engines-python", "bin", "python"), "-c", writeBare,
					writer, source, source+".bare").CombinedOutput()
				require.NoError(t, err, string(out))
				raw, err = os.ReadFile(source + ".bare")
				require.NoError(t, err)
				e.addRaw(raw, rec.NumRows())
			}
			res := e.splicedLikeGeneral()
			assert.EqualValues(t, 210, res.RowsOut)
			t.Logf("%+v", res.Engine.Pages)
		})
	}
}
