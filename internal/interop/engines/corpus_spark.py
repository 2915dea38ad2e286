"""Has Spark read Parquet files, by its own reader and as tables of Iceberg, with and without vectors. One JSON job after the other comes
on standard input; the answer is a JSON list of what was found wrong.
"""
import glob
import json
import os
import shutil
import sys

answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)  # what libraries print must not get into the answer

from pyspark.sql import SparkSession, functions  # noqa: E402 (the JVM inherits where output goes)

settings = {
    "spark.jars": ",".join(glob.glob(os.environ["INTEROP_JARS"] + "/iceberg-spark-runtime-*.jar")),
    "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "1g", "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "1", "spark.sql.session.timeZone": "UTC",
}
builder = SparkSession.builder.master("local[1]")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")


def by_spark(paths, vectors):
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectors)
    return [spark.read.parquet(path) for path in paths]


def by_iceberg(location, vectors):
    return [spark.read.format("iceberg").option("vectorization-enabled", vectors).load(location)]


def rows(frames):
    return [tuple(row) for frame in frames for row in frame.collect()]


def conditions(number, names, found):
    """A few columns with a value each that some row has; bounds, page indexes and dictionaries decide."""
    flat = [i for i, name in enumerate(names) if name.startswith("flat_")]
    for k in range(3 if flat else 0):
        column = flat[(3 * number + k) % len(flat)]
        values = [row[column] for row in found if row[column] is not None and row[column] == row[column]]
        if values:
            value = values[len(values) // 2]
            yield names[column], value, [row for row in found if row[column] == value]


def located(metadata):
    """Gives a table's metadata the name by which Iceberg finds it without a catalog."""
    folder = os.path.dirname(metadata)
    shutil.copyfile(metadata, folder + "/v1.metadata.json")
    with open(folder + "/version-hint.text", "w", encoding="utf-8") as hint:
        hint.write("1")
    return "file://" + os.path.dirname(folder)


def differs(job, what, got, want):
    # The text tells NaN and both zeros apart, which == does not.
    got, want = [repr(row) for row in got], [repr(row) for row in want]
    if got != want:
        at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
        yield f"{job['name']}: {what}: {len(got)} of {len(want)}, at {at}: {str(got[at:at + 1])[:500]} is not {str(want[at:at + 1])[:500]}"


def compare(number, job):
    tables = {engine: located(metadata) for engine, metadata in job["tables"].items()}
    kinds = ("true", "false") if job["vectors"] else ("false",)
    readers = {f"Iceberg, vectors {kind}": lambda engine, k=kind: by_iceberg(tables[engine], k) for kind in kinds}
    if job["plain"]:
        readers.update({f"Spark, vectors {kind}": lambda engine, k=kind: by_spark(job[engine], k) for kind in kinds})
    for reader, frames in readers.items():
        want = rows(frames("general"))
        if reader.startswith("Spark") and job["inputs"]:
            yield from differs(job, reader + ", inputs", rows(frames("inputs")), want)
        yield from differs(job, reader, rows(frames("spliced")), want)
        if reader.endswith("false") and job["vectors"]:
            continue
        for name, value, expected in conditions(number, frames("spliced")[0].columns, want):
            for frame in frames("spliced"):
                yield from differs(job, f"{reader}, {name} = {value!r}", rows([frame.where(functions.col(name) == functions.lit(value))]), expected)


wrong = []
for number, line in enumerate(sys.stdin):
    job = json.loads(line)
    try:
        wrong += compare(number, job)
    except Exception as error:
        wrong.append(f"{job['name']}: {type(error).__name__}: {str(error)[:400]}")
print(json.dumps(wrong), file=answers, flush=True)
spark.stop()
