"""A Spark application of its own process: `python -m tests.pipeline.spark.other_application CLUSTER JSON`.

It has the Java of the wheel where that is installed, an executor for two tasks, and no jar but Spark's. First
it writes rows into a topic and reads them; then it runs queries with faults (`faulty_sink`), those of `acts`
one list after the other and those of a list at once. `driver` as `fault.kills` becomes the id of its own JVM.
What it has done it tells in lines of JSON.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pipeline.spark.java import bundled_java, find_java
from pipeline.spark.session import activate, start_session
from tests.pipeline.spark.crash_queries import copy_of, run_to_the_end
from tests.pipeline.spark.faulty_sink import FaultyDataSource

# Tests are over before the better compiler is worth its time; a collector beside them has no core of its own;
# and Spark's classes were verified by others, a fifth of the time until a session has done its first query.
JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
CONFIGURATION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
}


def main(bootstrap: str, told: str) -> None:
    asked = json.loads(told)
    java = bundled_java() or find_java()
    spark = start_session("other", CONFIGURATION, master="local-cluster[1,2,1024]", java=java)
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(FaultyDataSource)
    tell(**round_trip(spark, bootstrap, asked["topic"]))
    for act in asked["acts"]:
        with ThreadPoolExecutor(len(act)) as threads:
            failures = list(threads.map(lambda query: run(spark, query), act))
        tell(failures=failures)


def round_trip(spark: SparkSession, bootstrap: str, topic: str) -> dict[str, Any]:
    """Three rows there and back, and what the application runs on."""
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
    """Until it ends well; what it failed of before."""
    activate(spark)
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    driver = str(jvm.java.lang.ProcessHandle.current().pid())
    options = {name: driver if value == "driver" else value for name, value in query["options"].items()}
    return run_to_the_end(copy_of(spark, Path(query["folder"]), format="faulty", **options))


def tell(**what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
