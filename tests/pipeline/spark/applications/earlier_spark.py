"""A Spark application on the PySpark that is first on the path: `python -m
tests.pipeline.spark.applications.earlier_spark CLUSTER JSON`.

It writes and reads a topic in batches, one with a filter, copies files by an exactly-once stream, and tells
of it in lines of JSON.
"""

import json
import sys
from pathlib import Path

import pyspark

from pipeline.spark.java import find_java
from pipeline.spark.scan_sources import SETTING
from pipeline.spark.session import start_session
from tests.pipeline.spark.applications.other_application import round_trip, tell
from tests.pipeline.spark.crash_queries import copy_of, run_to_the_end
from tests.pipeline.spark.scanned_rows import read_by_scans
from tests.pipeline.spark.sessions import CONFIGURATION


def main(bootstrap: str, told: str) -> None:
    asked = json.loads(told)
    spark = start_session("earlier", {**CONFIGURATION, SETTING: "true"}, master="local[2]", java=find_java())
    spark.sparkContext.setLogLevel("ERROR")
    tell(pyspark=pyspark.__version__, spark=spark.version, **round_trip(spark, bootstrap, asked["topic"]))
    topic = {"kafka.bootstrap.servers": bootstrap, "subscribe": asked["topic"]}
    rows = spark.read.format("ottla").options(**topic).load()
    late = rows.where("offset >= 1")
    tell(late=late.count(), all=rows.count(), scanned=read_by_scans(late), both=rows.union(late).count())
    failures = run_to_the_end(copy_of(spark, Path(asked["folder"]), **asked["options"]))
    tell(failures=failures)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
