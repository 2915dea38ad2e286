"""Spark with the Iceberg runtime on the lake: one session for all tests."""
import glob
import os

import ask

lake = ask.LAKE
os.environ["AWS_REGION"] = lake["Region"]

from pyspark.sql import SparkSession  # noqa: E402 (the region must be set before the JVM starts)

settings = {
    "spark.jars": ",".join(glob.glob(os.environ["INTEROP_JARS"] + "/*.jar")),
    "spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "1", "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
}
catalog = {
    "type": "rest", "uri": lake["CatalogURI"], "warehouse": lake["Warehouse"], "cache-enabled": "false",
    "credential": lake["AccessKey"] + ":" + lake["SecretKey"], "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    "s3.endpoint": lake["S3Endpoint"], "s3.path-style-access": "true", "client.region": lake["Region"],
    "s3.access-key-id": lake["AccessKey"], "s3.secret-access-key": lake["SecretKey"],
}
builder = SparkSession.builder.master("local[2]")
for key, value in settings.items():
    builder = builder.config(key, value)
for key, value in catalog.items():
    builder = builder.config("spark.sql.catalog.lake." + key, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")


def sql(text):
    return [list(row) for row in spark.sql(text).collect()]


def spark_rows(table, where="", columns="*"):
    condition = f" WHERE {where}" if where else ""
    return ask.texts(tuple(row) for row in spark.sql(f"SELECT {columns} FROM lake.{table}{condition}").collect())


ask.serve(dict(spark=spark, sql=sql, spark_rows=spark_rows))
