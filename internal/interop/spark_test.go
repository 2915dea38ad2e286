//go:build interop && spark

package interop

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
	"compactor/internal/testenv"
)

// sparkJars is a folder of the cache; scripts/lib.sh has the same versions.
const sparkJars = "iceberg-spark-4.0_2.13-1.11.0"

// spark is one session with its JVM for all tests.
var spark = &engine{script: "engines/spark.py", home: "engines-spark", env: func(tb testing.TB) []string {
	return []string{"INTEROP_JARS=" + testenv.Tool(tb, sparkJars), "JAVA_HOME=/usr/lib/jvm/java-17-openjdk-" + runtime.GOARCH}
}}

var bySpark = reader{"Spark", spark, "spark_rows(%q, %q)"}

// spark has Spark run statements, in which {t} is the table.
func (w *world) spark(table string, statements ...string) {
	w.t.Helper()
	for _, s := range statements {
		s = strings.ReplaceAll(s, "{t}", "lake."+w.table(table))
		w.run(spark, fmt.Sprintf("sql(%q)", s))
	}
}

// everyone reads tables that all three engines understand.
func everyone() []reader { return []reader{byDuckDB, byPyIceberg, bySpark} }

func TestPositionDeletesOfSpark(t *testing.T) {
	for _, granularity := range []string{"file", "partition"} {
		t.Run(granularity, func(t *testing.T) {
			w := newWorld(t)
			w.spark("t", fmt.Sprintf(`CREATE TABLE {t} (id BIGINT, s STRING, p STRING) USING iceberg PARTITIONED BY (p) TBLPROPERTIES
				('format-version'='2', 'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.delete.granularity'='%s')`, granularity))
			for i := range 3 {
				w.spark("t", fmt.Sprintf("INSERT INTO {t} SELECT id, concat('s', id), if(id %% 2 = 0, 'even/x', null) FROM range(%d, %d)", 10*i, 10*i+10))
			}
			w.spark("t", "DELETE FROM {t} WHERE id IN (2, 4, 12, 25)", "UPDATE {t} SET s = 'changed' WHERE id = 21")
			w.maintain("t", everyone(), "id > 12", "s = 'changed'", "p IS NULL", "p = 'even/x'")
			assert.Empty(t, tabletest.DeleteFiles(t, w.load("t")))
		})
	}
}

func TestDeletionVectorsAndRowIdsOfSpark(t *testing.T) {
	w := newWorld(t)
	w.spark("t", fmt.Sprintf(`CREATE TABLE {t} (id BIGINT, s STRING) USING iceberg TBLPROPERTIES
		('format-version'='3', 'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.data.path'='%s')`, w.data("t")))
	for i := range 3 {
		w.spark("t", fmt.Sprintf("INSERT INTO {t} SELECT id, concat('s', id) FROM range(%d, %d)", 10*i, 10*i+10))
	}
	w.spark("t", "DELETE FROM {t} WHERE id IN (2, 4, 12)", "UPDATE {t} SET s = 'changed' WHERE id = 21")
	lineage := reader{"Spark with row ids", spark, "spark_rows(%q, %q, '*, _row_id, _last_updated_sequence_number')"}
	w.maintain("t", []reader{byDuckDB, bySpark, lineage}, "id > 12", "s = 'changed'")
	assert.Empty(t, tabletest.DeleteFiles(t, w.load("t")))
	w.spark("t", "DELETE FROM {t} WHERE id = 5", "INSERT INTO {t} VALUES (100, 'after')")
	w.maintain("t", []reader{byDuckDB, bySpark, lineage}, "id = 100", "id BETWEEN 4 AND 6")
}

// Spark and DuckDB find the same rows by page indexes, bloom filters and bounds of
// files that were sorted, and by their counts of NaNs.
func TestSortedTableOfSpark(t *testing.T) {
	w := newWorld(t)
	w.spark("t", `CREATE TABLE {t} (id BIGINT, s STRING, d DOUBLE, st STRUCT<x: FLOAT, tags: ARRAY<STRING>>) USING iceberg TBLPROPERTIES
		('write.parquet.page-size-bytes'='4096', 'write.parquet.row-group-limit'='3000', 'write.parquet.page-row-limit'='100',
		 'write.parquet.bloom-filter-enabled.column.s'='true', 'write.parquet.bloom-filter-enabled.column.st.tags.element'='true')`,
		"ALTER TABLE {t} WRITE LOCALLY ORDERED BY s DESC NULLS LAST, bucket(4, id), d")
	for i := range 3 {
		w.spark("t", fmt.Sprintf(`INSERT INTO {t} SELECT id, if(id %% 11 = 0, null, concat('s', id * 7919 %% 5000)),
			if(id %% 5 = 0, double('NaN'), id / 4), if(id %% 3 = 0, null, named_struct('x', if(id %% 7 = 0, float('NaN'), float(id)), 'tags', array('a', concat('t', id))))
			FROM range(%d, %d)`, 4000*i, 4000*i+4000))
	}
	steps := w.maintain("t", []reader{byDuckDB, bySpark}, "id BETWEEN 3990 AND 4010", "s = 's77'", "s IS NULL AND id < 200", "s > 's4990'",
		"isnan(d) AND id < 100", "d < 3", "isnan(st.x) AND id > 11000", "NOT isnan(d) AND s = 's1234'")
	assert.Equal(t, 1, steps[0].Rewritten.FilesOut)
	tasks, err := w.load("t").Scan().PlanFiles(t.Context())
	require.NoError(t, err)
	require.Len(t, tasks, 1)
	require.NotNil(t, tasks[0].File.SortOrderID())
	assert.Equal(t, 1, *tasks[0].File.SortOrderID())
	assert.Equal(t, map[int]int64{3: 2400, 5: 1143}, tasks[0].File.NaNValueCounts())
}
