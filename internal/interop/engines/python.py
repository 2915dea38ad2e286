"""PyIceberg and DuckDB on the lake, in one process."""
import importlib
import pathlib

import duckdb
import pyarrow as pa
from pyiceberg.catalog import load_catalog

import ask

lake = ask.LAKE
endpoint = lake["S3Endpoint"].removeprefix("http://")
credential = lake["AccessKey"] + ":" + lake["SecretKey"]

catalog = load_catalog(
    "lake",
    **{
        "type": "rest", "uri": lake["CatalogURI"], "warehouse": lake["Warehouse"], "credential": credential,
        "s3.endpoint": lake["S3Endpoint"], "s3.region": lake["Region"],
        "s3.access-key-id": lake["AccessKey"], "s3.secret-access-key": lake["SecretKey"],
    },
)


def extension(name):
    """The file of a DuckDB extension in the package that carries it."""
    package = importlib.import_module("duckdb_extension_" + name)
    return str(next(pathlib.Path(package.__file__).parent.glob(f"extensions/*/{name}.duckdb_extension")))


duck = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": "2"})
for name in ("httpfs", "avro", "iceberg"):
    duck.execute(f"LOAD '{extension(name)}'")
duck.execute(f"""CREATE SECRET (TYPE s3, KEY_ID '{lake["AccessKey"]}', SECRET '{lake["SecretKey"]}', ENDPOINT '{endpoint}',
    URL_STYLE 'path', USE_SSL false, REGION '{lake["Region"]}')""")
duck.execute(f"""CREATE SECRET lake (TYPE iceberg, CLIENT_ID '{lake["AccessKey"]}', CLIENT_SECRET '{lake["SecretKey"]}',
    OAUTH2_SERVER_URI '{lake["CatalogURI"]}/v1/oauth/tokens')""")
duck.execute(f"""ATTACH '{lake["Warehouse"]}' AS lake (TYPE iceberg, ENDPOINT '{lake["CatalogURI"]}', SECRET lake,
    READ_ONLY false)""")
duck.execute("SET TimeZone = 'UTC'")


def duck_rows(table, where=""):
    condition = f" WHERE {where}" if where else ""
    return ask.texts(duck.execute(f"SELECT COLUMNS(*)::VARCHAR FROM lake.{table}{condition}").fetchall())


def pyiceberg_rows(table, where=""):
    scan = catalog.load_table(table).scan(row_filter=where) if where else catalog.load_table(table).scan()
    return ask.texts(scan.to_arrow().to_pylist())


def pyiceberg_ids(table, where=""):
    """The ids alone, which also a table with types that PyIceberg does not know can tell."""
    scan = catalog.load_table(table).scan(selected_fields=("id",))
    return sorted(str(row["id"]) for row in scan.to_arrow().to_pylist())


def probes(table):
    """Conditions on every plain column by a value that it has, so that bounds, partitions and Bloom filters decide."""
    conditions = []
    for name, kind, *_ in duck.execute(f"DESCRIBE lake.{table}").fetchall():
        if any(c in kind for c in "([") and not kind.startswith("DECIMAL"):
            continue
        column = f'"{name}"'
        found = duck.execute(f"SELECT quantile_disc({column}, 0.5)::VARCHAR FROM lake.{table} WHERE {column} IS NOT NULL").fetchone()[0]
        conditions.append(f"{column} IS NULL")
        if found is not None and kind != "BLOB":
            text = found.replace("'", "''")
            conditions += [f"{column} {op} CAST('{text}' AS {kind})" for op in ("=", "<=", ">")]
    return conditions


def append(table, **columns):
    """Appends rows by PyIceberg, columns in the table's own Arrow types."""
    loaded = catalog.load_table(table)
    schema = loaded.schema().as_arrow()
    loaded.append(pa.table([pa.array(columns[f.name], f.type) for f in schema], schema=schema))


ask.serve(dict(catalog=catalog, duck=duck, pa=pa, duck_rows=duck_rows, pyiceberg_rows=pyiceberg_rows, append=append,
               probes=probes, pyiceberg_ids=pyiceberg_ids))
