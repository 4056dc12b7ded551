"""A Spark application on the PySpark that is first on the path.

Run as `python -m tests.pipeline.spark.applications.earlier_spark CLUSTER JSON`. Its session is Spark's own.
It writes and reads a topic in a thread of a pool, as a table of SQL, with a filter, and with a frame that is
read again; it copies files by an exactly-once stream, and reports in lines of JSON.
"""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

import pyspark_ottla
from ottla.pipeline.spark.java import find_java
from ottla.pipeline.spark.scan_sources import SETTING, give_each_scan_a_source
from tests.pipeline.spark.applications.other_application import report, round_trip
from tests.pipeline.spark.crash_queries import query_starter, run_to_the_end
from tests.pipeline.spark.scanned_rows import read_by_scans
from tests.pipeline.spark.sessions import CONFIGURATION


def main(bootstrap: str, text: str) -> None:
    request = json.loads(text)
    os.environ["JAVA_HOME"] = str(find_java().path)
    assert pyspark_ottla.DefaultSource.name() == "ottla"  # a pool's threads need no more than this import
    builder = SparkSession.builder.master("local[2]").appName("earlier")
    warehouse = str(Path(request["folder"], "warehouse"))
    settings = {**CONFIGURATION, SETTING: "true", "spark.sql.warehouse.dir": warehouse}
    spark = builder.config(map=settings).getOrCreate()
    give_each_scan_a_source(spark)
    spark.sparkContext.setLogLevel("ERROR")
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(round_trip, spark, bootstrap, request["topic"]).result()
    report(pyspark=pyspark.__version__, spark=spark.version, **found)
    topic = {"kafka.bootstrap.servers": bootstrap, "subscribe": request["topic"]}
    rows = spark.read.format("ottla").options(**topic).load()
    late = rows.where("offset >= 1")
    report(late=late.count(), all=rows.count(), scanned=read_by_scans(late), both=rows.union(late).count())
    report(counts=counts_of_a_table(spark, bootstrap, request["topic"]))
    failures = run_to_the_end(query_starter(spark, Path(request["folder"]), **request["options"]))
    report(failures=failures)
    spark.stop()


def counts_of_a_table(spark: SparkSession, bootstrap: str, topic: str) -> list[int]:
    """Return the counts of one frame before and after a row is inserted."""
    options = f"kafka.bootstrap.servers '{bootstrap}', topic '{topic}'"
    spark.sql(f"CREATE TABLE rows USING ottla OPTIONS ({options})")
    frame = spark.table("rows")
    before = frame.count()
    spark.sql("INSERT INTO rows (key, value) VALUES (NULL, X'33')")
    counts = [before, frame.count()]
    spark.sql("DROP TABLE rows")
    return counts


if __name__ == "__main__":
    main(*sys.argv[1:])
