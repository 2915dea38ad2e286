//go:build interop

package interop

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTableOfPyIceberg(t *testing.T) {
	w := newWorld(t)
	w.run(python, fmt.Sprintf(`
name = %q
catalog.create_table(name, pa.schema([("id", pa.int64()), ("s", pa.string()), ("d", pa.date32())]))
for i in range(6):
    append(name, id=[10 * i + k for k in range(5)], s=["%%s-%%d" %% ("ä" * 30, i)] * 4 + [None], d=[i - 3] * 5)
`, w.table("t")))
	steps := w.maintain("t", []reader{byPyIceberg, byDuckDB}, "id >= 20 AND id < 40", "s IS NULL", "d < '1970-01-01'")
	assert.Equal(t, 1, steps[0].Rewritten.FilesOut)
}

func TestTableOfDuckDB(t *testing.T) {
	w := newWorld(t)
	w.duck("t", "CREATE TABLE {t} (id BIGINT, s VARCHAR, n STRUCT(a INTEGER, l VARCHAR[]), d DECIMAL(18, 3), seen TIMESTAMP)")
	for i := range 6 {
		w.duck("t", fmt.Sprintf("INSERT INTO {t} SELECT k, 's' || k, {'a': k, 'l': ['x', NULL]}, k * -1.5, TIMESTAMP '1969-12-31 23:59:59.5' FROM range(%d, %d) r(k)", 10*i, 10*i+5))
	}
	w.duck("t", "DELETE FROM {t} WHERE id IN (3, 24)")
	steps := w.maintain("t", []reader{byPyIceberg, byDuckDB}, "id >= 20 AND id < 40", "s = 's21'", "d < -30")
	assert.Equal(t, 1, steps[0].Rewritten.FilesOut)
}
