"""A query that fails before its end and is started again, and the expected rows of its topic."""

import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.pipeline.spark.file_streams import stream_of_files
from tests.pipeline.spark.topic_rows import read_topic
from tests.pipeline.topics import make_topic

KEYS = 8
ROWS_OF_A_KEY = 5
BATCHES = 3
MOST_STARTS = 5
TIMEOUT_S = 120.0


def lines_of(batch_id: int) -> list[str]:
    """Return rows `key batch number`, those of a key in order."""
    return [f"{key} {batch_id} {number}" for number in range(ROWS_OF_A_KEY) for key in range(KEYS)]


def faulty_options(
    bootstrap: str, folder: Path, point: str, kills: str, *, replicas: int = 1, **more: str
) -> dict[str, str]:
    """Make a topic and the options of a sink with a fault (`faulty_sink`), whose flag is in the folder."""
    folder.mkdir(exist_ok=True)
    return {
        "kafka.bootstrap.servers": bootstrap,
        "topic": make_topic(bootstrap, partitions=3, replicas=replicas),
        "transactional.id": f"T.{uuid4().hex}",
        "fault.point": point,
        "fault.flag": str(folder / "flag"),
        "fault.kills": kills,
        **more,
    }


def query_starter(
    spark: SparkSession, folder: Path, *, format: str = "ottla", **options: str
) -> Callable[[], StreamingQuery]:
    """Return a function that starts a query of three batches, each by two tasks, divided by key."""
    rows = stream_of_files(spark, folder, [lines_of(batch_id) for batch_id in range(BATCHES)])
    keyed = rows.selectExpr("split(value, ' ')[0] key", "value").repartition(2, "key")

    def start() -> StreamingQuery:
        return (
            keyed.writeStream.format(format)
            .trigger(availableNow=True)
            .option("delivery.guarantee", "exactly_once")
            .options(**options)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )

    return start


def run_to_the_end(start: Callable[[], StreamingQuery]) -> list[str]:
    """Start it until it ends well; return its failures before."""
    failures: list[str] = []
    for _ in range(MOST_STARTS):
        try:
            start().awaitTermination()
        except StreamingQueryException as failure:
            failures.append(str(failure))
        else:
            return failures
    raise AssertionError(failures)


def check_rows(bootstrap: str, topic: str, batches: int) -> None:
    """Check that committed rows are there once, and those of a key in order."""
    found: dict[str, list[str]] = {}
    for message in read_topic(bootstrap, topic):
        value = message.value()
        assert value is not None
        found.setdefault(value.decode().split()[0], []).append(value.decode())
    rows = [line for batch_id in range(batches) for line in lines_of(batch_id)]
    expected = {str(key): [line for line in rows if line.split()[0] == str(key)] for key in range(KEYS)}
    assert found == expected


def wait_for(flag: Path, query: StreamingQuery) -> None:
    """Wait until the query's fault is under way."""
    deadline = time.monotonic() + TIMEOUT_S
    while not flag.exists():
        assert query.isActive and time.monotonic() < deadline, query.exception()
        time.sleep(0.02)
