"""Has Spark write the Parquet files of this folder, see README.md. The rows are the same each time.

    generate.py JARS TARGET [CELL ...]
"""
import datetime
import decimal
import glob
import os
import random
import shutil
import sys
import tempfile

os.environ["TZ"] = "UTC"

from pyspark.sql import SparkSession  # noqa: E402 (the zone must be set before the JVM starts)
from pyspark.sql.types import StructType  # noqa: E402

PLAIN = ["TINYINT", "SMALLINT"]  # types that Iceberg does not have
TYPES = ["BOOLEAN", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "STRING", "BINARY", "DECIMAL(9,2)",
         "DECIMAL(18,4)", "DECIMAL(38,10)"]
PAIRS = [("BOOLEAN", "INT"), ("BIGINT", "FLOAT"), ("DATE", "DOUBLE"), ("STRING", "TIMESTAMP"), ("DECIMAL(9,2)", "TIMESTAMP_NTZ"),
         ("DECIMAL(18,4)", "BINARY"), ("STRING", "DECIMAL(38,10)")]
CATALOG = "spark.sql.catalog.local"
DICTIONARY = "64"  # bytes, from which a dictionary is given up in the middle of a chunk
EPOCH = datetime.datetime(1970, 1, 1)


def flat(types):
    inner = ", ".join(f"f{i}: {t}" for i, t in enumerate(types))
    return [(f"flat_{i}", t) for i, t in enumerate(types)] + [("struct", f"STRUCT<{inner}>")]


def nested(types):
    inner = ", ".join(f"f{i}: {t}" for i, t in enumerate(types[::4]))
    return ([(f"list_{i}", f"ARRAY<{t}>") for i, t in enumerate(types)]
            + [(f"map_{i}", f"MAP<{k}, {v}>") for i, (k, v) in enumerate(PAIRS)]
            + [("lists", "ARRAY<ARRAY<STRING>>"), ("structs", f"ARRAY<STRUCT<{inner}>>"),
               ("within", "STRUCT<a: ARRAY<BIGINT>, m: MAP<STRING, ARRAY<DOUBLE>>>")])


def cells():
    """How each pair of files is written: every codec in every encoding and shape, by one writer or the other, and what is odd."""
    for i, codec in enumerate(["zstd", "snappy", "gzip", "lz4_raw", "none"]):
        for j in range(8) if codec != "lz4_raw" else [1, 6]:
            version, dictionary, shape = j & 1, j >> 1 & 1, j >> 2
            yield dict(writer=["spark", "iceberg"][(i + version + dictionary + shape) % 2], version=1 + version, dictionary=dictionary == 1,
                       codec=codec, nulls=["none", "some"][(i // 2 + dictionary + version) % 2], shape=["flat", "nested"][shape])
    for writer in ["spark", "iceberg"]:
        for version in [1, 2]:
            base = dict(writer=writer, version=version, dictionary=version == 1, codec="zstd")
            yield dict(base, nulls="all", shape="nested" if (writer == "spark") == (version == 1) else "flat")
            yield dict(base, nulls="some", shape="flat" if writer == "spark" else "nested", extra="groups")
            yield dict(base, nulls="some", shape="flat", dictionary=version == 2, extra="bloom")
        yield dict(writer=writer, version=2, dictionary=True, codec="snappy", nulls="some", shape="flat", extra="fallback")
    base = dict(writer="spark", version=1, dictionary=True, codec="snappy", nulls="some", shape="flat")
    yield dict(base, extra="fallback")
    yield dict(base, extra="legacy")
    yield dict(base, extra="legacy", shape="nested")
    yield dict(base, extra="int96")
    yield dict(base, extra="millis")
    yield dict(base, extra="nochecksums", nulls="none")
    yield dict(base, codec="lz4")
    yield dict(base, writer="iceberg", extra="bytes")


def name(cell):
    parts = [cell["writer"], f"v{cell['version']}", "dictionary" if cell["dictionary"] else "plain", cell["codec"], cell["nulls"], cell["shape"]]
    return "-".join(parts + ([cell["extra"]] if "extra" in cell else []))


class Values:
    """Makes rows of a Spark schema. Values repeat, and each file has some of its own."""

    def __init__(self, seed, nulls):
        self.random, self.seed, self.nulls = random.Random(seed), seed, nulls

    def number(self):
        if self.random.randrange(4) == 0:
            return self.seed * 1000 + self.random.randrange(50)
        return self.random.randrange(12) - 5

    def of(self, kind, nullable=True, key=False):
        if nullable and not key and (self.nulls == "all" or (self.nulls == "some" and self.random.randrange(5) == 0)):
            return None
        what = kind.typeName()
        if what == "struct":
            return tuple(self.of(f.dataType, f.nullable) for f in kind.fields)
        if what == "array":
            return [self.of(kind.elementType) for _ in range(self.random.randrange(4))]
        if what == "map":
            return {self.of(kind.keyType, key=True): self.of(kind.valueType) for _ in range(self.random.randrange(3))}
        return self.plain(what, kind)

    def plain(self, what, kind):
        n = self.number()
        if what in ("float", "double"):
            odd = self.random.randrange(12)
            return [float("nan"), -0.0, float("-inf")][odd] if odd < 3 else n / 4
        return {
            "boolean": lambda: n % 2 == 0, "byte": lambda: n % 100, "short": lambda: n % 30000, "integer": lambda: n, "long": lambda: n << 33,
            "date": lambda: (EPOCH + datetime.timedelta(days=n)).date(), "timestamp": lambda: EPOCH + datetime.timedelta(microseconds=n * 1000001),
            "timestamp_ntz": lambda: EPOCH + datetime.timedelta(microseconds=n * 1000001), "string": lambda: f"texté {n}",
            "binary": lambda: b"\xff%d" % n, "decimal": lambda: decimal.Decimal(n).scaleb(-kind.scale),
        }[what]()


def session(jars, warehouse):
    settings = {
        "spark.jars": ",".join(sorted(glob.glob(jars + "/iceberg-spark-runtime-*.jar"))),
        "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC", CATALOG: "org.apache.iceberg.spark.SparkCatalog", CATALOG + ".type": "hadoop",
        CATALOG + ".warehouse": warehouse,
    }
    builder = SparkSession.builder.master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def by_spark(spark, cell, rows, folder):
    extra = cell.get("extra")
    settings = {
        "spark.sql.parquet.writeLegacyFormat": str(extra == "legacy").lower(),
        "spark.sql.parquet.outputTimestampType": {"int96": "INT96", "millis": "TIMESTAMP_MILLIS"}.get(extra, "TIMESTAMP_MICROS"),
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    writer = rows.coalesce(1).write.option("compression", cell["codec"])
    options = {
        "parquet.writer.version": f"PARQUET_{cell['version']}_0", "parquet.enable.dictionary": str(cell["dictionary"]).lower(),
        "parquet.page.row.count.limit": "15", "parquet.page.write-checksum.enabled": str(extra != "nochecksums").lower(),
    }
    if extra == "groups":
        options.update({"parquet.block.size": "8192", "parquet.page.size.row.check.min": "10", "parquet.memory.min.chunk.size": "0"})
    if extra == "bloom":
        options.update({"parquet.bloom.filter.enabled": "true", "parquet.bloom.filter.max.bytes": "64"})
    if extra == "fallback":
        options["parquet.dictionary.page.size"] = DICTIONARY
    for key, value in options.items():
        writer = writer.option(key, value)
    writer.parquet(folder)
    return glob.glob(folder + "/part-*.parquet")


def by_iceberg(spark, cell, rows, columns):
    extra = cell.get("extra")
    properties = {
        "format-version": "2", "write.parquet.page-version": f"v{cell['version']}", "parquet.enable.dictionary": str(cell["dictionary"]).lower(),
        "write.parquet.compression-codec": {"none": "uncompressed"}.get(cell["codec"], cell["codec"]), "write.parquet.page-row-limit": "15",
        "write.metadata.metrics.default": "full",
    }
    if extra == "groups":
        properties.update({"write.parquet.row-group-size-bytes": "1024", "write.parquet.row-group-check-min-record-count": "12",
                           "write.parquet.row-group-check-max-record-count": "12"})
    if extra == "fallback":
        properties["write.parquet.dict-size-bytes"] = DICTIONARY
    if extra == "bloom":
        properties["write.parquet.bloom-filter-max-bytes"] = "64"
        properties.update({f"write.parquet.bloom-filter-enabled.column.{n}": "true" for n, t in columns if t in ("INT", "STRING", "DATE")})
    jvm, target = spark._jvm, "local.db.t"
    spark.sql(f"DROP TABLE IF EXISTS {target} PURGE")
    if extra == "bytes":
        # Spark's SQL has no such types, but writes strings and byte strings to them.
        schema = jvm.org.apache.iceberg.SchemaParser.fromJson("""{"type": "struct", "schema-id": 0, "fields": [
            {"id": 1, "name": "id", "required": true, "type": "uuid"}, {"id": 2, "name": "five", "required": false, "type": "fixed[5]"},
            {"id": 3, "name": "ids", "required": false, "type": {"type": "list", "element-id": 4, "element-required": false, "element": "uuid"}}]}""")
        catalog = jvm.org.apache.iceberg.hadoop.HadoopCatalog(spark._jsc.hadoopConfiguration(), spark.conf.get(CATALOG + ".warehouse"))
        ident = jvm.org.apache.iceberg.catalog.TableIdentifier.parse("db.t")
        catalog.createTable(ident, schema, jvm.org.apache.iceberg.PartitionSpec.unpartitioned(), properties)
    else:
        text = ", ".join(f"'{k}'='{v}'" for k, v in properties.items())
        spark.sql(f"CREATE TABLE {target} ({ddl(columns, cell)}) USING iceberg TBLPROPERTIES ({text})")
    rows.coalesce(1).writeTo(target).option("check-nullability", "false").append()
    return [row[0] for row in spark.sql(f"SELECT file_path FROM {target}.files").collect()]


def ddl(columns, cell):
    """Where nothing is null, every other column requires values."""
    return ", ".join(f"{n} {t}" + (" NOT NULL" if cell["nulls"] == "none" and i % 2 == 0 else "") for i, (n, t) in enumerate(columns))


def uuids(values, rows):
    def uuid():
        return "00000000-0000-4000-8000-%012x" % (values.number() & 0xFFFFFF)

    for _ in range(rows):
        yield uuid(), values.random.choice([None, b"%05d" % values.random.randrange(90)]), [uuid() for _ in range(values.random.randrange(3))]


def write(spark, cell, number, target, seed, work):
    values, count = Values(seed, cell["nulls"]), 24 + 16 * number
    if cell.get("extra") == "bytes":
        columns = [("id", "STRING"), ("five", "BINARY"), ("ids", "ARRAY<STRING>")]
        data = list(uuids(values, count))
    else:
        types = TYPES + (PLAIN if cell["writer"] == "spark" else [])
        columns = {"flat": flat, "nested": nested}[cell["shape"]](types)
        data = [values.of(StructType.fromDDL(ddl(columns, cell)), nullable=False) for _ in range(count)]
    rows = spark.createDataFrame(data, StructType.fromDDL(ddl(columns, cell)))
    if cell["writer"] == "spark":
        written = by_spark(spark, cell, rows, os.path.join(work, f"{name(cell)}-{number}"))
    else:
        written = by_iceberg(spark, cell, rows, columns)
    if len(written) != 1:
        raise SystemExit(f"{name(cell)}: {len(written)} files instead of one")
    shutil.copyfile(written[0].removeprefix("file:"), os.path.join(target, f"{name(cell)}-{number}.parquet"))


def main(jars, target, wanted):
    with tempfile.TemporaryDirectory() as work:
        spark = session(jars, work + "/warehouse")
        for i, cell in enumerate(cells()):
            if not wanted or name(cell) in wanted:
                for number in range(2):
                    write(spark, cell, number, target, 2 * i + number + 1, work)
        spark.stop()


main(sys.argv[1], sys.argv[2], sys.argv[3:])
