"""Writes Parquet files with PyArrow and DuckDB, and reads them with both. One JSON job after the other comes on standard input; the
answer is a JSON list of what was found wrong.
"""
import json
import sys
import uuid

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

duck = duckdb.connect(config={"threads": "1"})
duck.execute("SET TimeZone = 'UTC'")


def encoding(name, physical):
    number = physical in ("INT32", "INT64")
    if name == "delta" and number:
        return "DELTA_BINARY_PACKED"
    if name == "delta" and physical == "BYTE_ARRAY":
        return "DELTA_LENGTH_BYTE_ARRAY"
    if name == "delta" and physical == "BOOLEAN":
        return "RLE"
    if name == "deltabytes" and physical in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"):
        return "DELTA_BYTE_ARRAY"
    if name == "split" and (number or physical in ("FLOAT", "DOUBLE", "FIXED_LEN_BYTE_ARRAY")):
        return "BYTE_STREAM_SPLIT"
    return "PLAIN"


def by_pyarrow(job):
    source = pq.ParquetFile(job["source"])
    leaves = [source.schema.column(i) for i in range(len(source.schema))]
    dictionary = job["encoding"] == "dictionary"
    pq.write_table(
        source.read(), job["target"], data_page_version="2.0" if job["version"] == "v2" else "1.0", data_page_size=512,
        write_batch_size=50, compression=job["codec"], use_dictionary=dictionary, write_page_index=True, write_page_checksum=True,
        column_encoding=None if dictionary else {leaf.path: encoding(job["encoding"], leaf.physical_type) for leaf in leaves})


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def ids(field):
    own = int(field.metadata[b"PARQUET:field_id"])
    kind = field.type
    if pa.types.is_struct(kind):
        inner = {f.name: f for f in kind}
    elif pa.types.is_map(kind):
        inner = {"key": kind.key_field, "value": kind.item_field}
    elif pa.types.is_list(kind):
        inner = {"element": kind.value_field}
    else:
        return str(own)
    return "{__duckdb_field_id: %d, %s}" % (own, ", ".join(f"{quoted(n)}: {ids(f)}" for n, f in inner.items()))


def by_duckdb(job):
    # DuckDB has no byte strings of a fixed length.
    fields = [f for f in pq.read_schema(job["source"]) if "fixed_size_binary[5]" not in str(f.type)]
    columns = ", ".join(quoted(f.name) for f in fields)
    numbers = ", ".join(f"{quoted(f.name)}: {ids(f)}" for f in fields)
    codec = {"none": "uncompressed"}.get(job["codec"], job["codec"])
    duck.execute(f"""COPY (SELECT {columns} FROM read_parquet('{job["source"]}')) TO '{job["target"]}'
        (FORMAT parquet, COMPRESSION {codec}, PARQUET_VERSION {job["version"]}, FIELD_IDS {{{numbers}}})""")


def plain(value):
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


def arrow_rows(paths, names):
    return [repr([plain(row[n]) for n in names]) for p in paths for row in pq.read_table(p).to_pylist()]


def duck_rows(paths, names):
    columns = ", ".join(f"{quoted(n)}::VARCHAR" for n in names)
    return [row for p in paths for row in duck.execute(f"SELECT {columns} FROM read_parquet('{p}')").fetchall()]


def counts(paths, names):
    """How many rows are found by conditions that bounds decide."""
    found = []
    files = "[" + ", ".join(f"'{p}'" for p in paths) + "]"
    for name, kind, *_ in duck.execute(f"DESCRIBE SELECT * FROM read_parquet({files})").fetchall():
        if name not in names or not name.startswith("flat_") or kind == "BLOB":
            continue
        column = quoted(name)
        low, mid, high = duck.execute(
            f"SELECT min({column})::VARCHAR, quantile_disc({column}, 0.5)::VARCHAR, max({column})::VARCHAR FROM read_parquet({files})").fetchone()
        for value in (low, mid, high):
            if value is not None and value != "nan":  # DuckDB trusts bounds that leave NaN out
                for op in ("=", "<=", ">="):
                    condition = f"{column} {op} CAST('{value}' AS {kind})"
                    found.append((condition, duck.execute(f"SELECT count(*) FROM read_parquet({files}) WHERE {condition}").fetchone()[0]))
    return found


def compare(job):
    names = pq.read_schema(job["inputs"][0]).names
    readers = [("PyArrow", arrow_rows), ("DuckDB", duck_rows), ("conditions", counts)]
    if job["encoding"] == "split":
        del readers[1:]  # DuckDB knows split streams of floating-point numbers alone
    for what, read in readers:
        want = read(job["inputs"], names)
        for engine in ("general", "spliced"):
            got = read(job[engine], names)
            if got != want:
                at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
                yield f"{job['name']}: {what}, {engine}: {len(got)} of {len(want)}, at {at}: {str(got[at:at + 1])[:500]} is not {str(want[at:at + 1])[:500]}"


wrong = []
for line in sys.stdin:
    job = json.loads(line)
    try:
        if job["do"] == "compare":
            wrong += compare(job)
        else:
            {"PyArrow": by_pyarrow, "DuckDB": by_duckdb}[job["do"]](job)
    except Exception as error:
        wrong.append(f"{job}: {type(error).__name__}: {error}")
print(json.dumps(wrong))
