"""A Spark application with secrets among its options.

Run as `python -m tests.pipeline.spark.applications.secret_application JSON`. It reads, writes, explains,
fails, makes tables, and prints all that Spark shows of them; it logs at INFO.
"""

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ottla.pipeline.spark.session import start_session
from tests.pipeline.spark.sessions import CONFIGURATION


def main(text: str) -> None:
    request = json.loads(text)
    folder = Path(request["folder"])
    (folder / "events").mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}/events",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.debug.maxToStringFields": "1000",
        "spark.log.level": "INFO",
    }
    spark = start_session("secrets", {**CONFIGURATION, **settings}, master="local[2]")
    for name, options in request["options"].items():
        for wrong in (False, True):
            use(
                spark, folder / f"{name}-{wrong}", request, {**options, **(request["wrong"] if wrong else {})}
            )
    tables(spark, request)
    spark.stop()


def use(spark: SparkSession, folder: Path, request: dict[str, Any], options: dict[str, str]) -> None:
    """Read and write, and print what Spark shows of both; some options are wrong."""
    with suppress(PySparkException):
        frame = spark.read.format("ottla").options(**options, subscribe=request["topic"]).load()
        show(frame)
        print(frame.select("value").collect())
        sink = {**options, "topic": request["copies"]}
        frame.select("value").write.format("ottla").mode("append").options(**sink).save()
    try:
        stream = spark.readStream.format("ottla").options(**options, subscribe=request["topic"])
        rows = stream.option("startingOffsets", "earliest").load()
        show(rows)
        once = {**options, "delivery.guarantee": "exactly_once", "transactional.id": folder.name}
        writer = rows.select("value").writeStream.format("ottla").options(**once, topic=request["copies"])
        query = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
        query.awaitTermination()
        query.explain(True)
        print(query.lastProgress, query.status)
    except PySparkException as error:
        print("failed:", error)


def show(frame: DataFrame) -> None:
    frame.explain(True)
    frame.explain("formatted")
    print(frame, frame.schema.json(), frame._jdf.queryExecution().toString())


def tables(spark: SparkSession, request: dict[str, Any]) -> None:
    """Make tables of the catalog: one with its secrets in a file, one with them among its options."""
    for name, options in request["options"].items():
        all_options = {**options, "topic": request["topic"]}
        given = ", ".join(f"{key} '" + value.replace("'", "\\'") + "'" for key, value in all_options.items())
        try:
            spark.sql(f"CREATE TABLE {name} USING ottla OPTIONS ({given})")
        except PySparkException as error:
            print(f"no table {name}:", error)
            continue
        print(f"rows of table {name}:", len(spark.table(name).select("value").collect()))
        show(spark.table(name))
        for statement in ("DESCRIBE EXTENDED", "SHOW CREATE TABLE", "DESCRIBE FORMATTED"):
            with suppress(PySparkException):
                spark.sql(f"{statement} {name}").show(1000, truncate=False)


if __name__ == "__main__":
    main(sys.argv[1])
