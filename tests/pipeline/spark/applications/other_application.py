"""A Spark application in a process of its own.

Run as `python -m tests.pipeline.spark.applications.other_application CLUSTER JSON`. It has the Java of the
wheel if that is installed, no jar but Spark's, and the given `master`. With a `topic` it first writes rows
into it and reads them; then it runs queries, whose sink may have a fault (`faulty_sink`): the lists in
`query_groups` one after the other, and the queries of a list at once. `driver` and `executor` as
`fault.kills` become the ids of their JVMs. It reports in lines of JSON.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from ottla.pipeline.spark.java import bundled_java, find_java
from ottla.pipeline.spark.session import start_session
from tests.pipeline.spark.crash_queries import query_starter, run_to_the_end
from tests.pipeline.spark.faulty_sink import FaultyDataSource
from tests.pipeline.spark.sessions import CONFIGURATION


def main(bootstrap: str, text: str) -> None:
    request = json.loads(text)
    java = bundled_java() or find_java()
    spark = start_session("other", CONFIGURATION, master=request["master"], java=java)
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(FaultyDataSource)
    if "topic" in request:
        report(**round_trip(spark, bootstrap, request["topic"]))
    for group in request["query_groups"]:
        with ThreadPoolExecutor(len(group)) as threads:
            failures = list(threads.map(lambda query: run(spark, query), group))
        report(failures=failures)


def round_trip(spark: SparkSession, bootstrap: str, topic: str) -> dict[str, Any]:
    """Write three rows and read them; return them with the Java of the application."""
    options = {"kafka.bootstrap.servers": bootstrap}
    rows = spark.range(3).selectExpr("string(id) value")
    rows.write.format("ottla").mode("append").options(**options, topic=topic).save()
    found = spark.read.format("ottla").options(**options, subscribe=topic).load().collect()
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return {
        "values": sorted(row.value.decode() for row in found),
        "java": jvm.java.lang.System.getProperty("java.version"),
        "jars": spark.sparkContext.getConf().get("spark.jars", ""),
    }


def run(spark: SparkSession, query: dict[str, Any]) -> list[str]:
    """Run the query until it ends well; return its failures before."""
    options = dict(query["options"])
    kills = options["fault.kills"]
    if kills in ("driver", "executor"):
        options["fault.kills"] = str(process_of(spark, kills))
    return run_to_the_end(query_starter(spark, Path(query["folder"]), format="faulty", **options))


def process_of(spark: SparkSession, role: str) -> int:
    """Return the process id of the driver's JVM, or of the only executor, which the driver has started."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    driver = jvm.java.lang.ProcessHandle.current()
    if role == "driver":
        return int(driver.pid())
    [executor] = [
        child.pid()
        for child in driver.children().toArray()
        if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{child.pid()}/cmdline").read_bytes()
    ]
    return int(executor)


def report(**values: object) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
