"""The pipeline in the demo: a Spark job over the flights, exactly once, and proof of it.

The job reads the topic `flights` in micro-batches, joins each flight with the topic `airports` as a table,
and counts departures and delays by carrier, hour and time zone of the destination. The rows that a
micro-batch changes are written to the compacted topic `delays` in one transaction. In the middle the node
that leads the first partition of `delays` is killed with SIGKILL. Then an unmodified client reads the topic,
read_committed: the latest record of each key must be what pandas computes from the package's files, and no
count may be repeated. The input of pandas does not go through the cluster.
"""

import csv
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from demo_access import Access
from demo_cluster import QUIET
from demo_error import DemoError
from demo_failure import Failure
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

FLIGHTS, RESULT = "flights", "delays"
PARTITIONS = 3
ROWS_IN_BATCH = 50_000
LEAST_BATCHES = 4
KILL_AFTER_BATCHES = 2
TIMEOUT_S = 60
STALL_TIMEOUT_S = 300  # after which the demo gives up without a further batch
KEY = ["carrier", "dest_tzone", "window_start"]
SPARK = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # The job is too short for the optimising compiler, and there is no spare core for a parallel collector.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of the job, the result of pandas, and figures of the run."""

    found: "pd.DataFrame"  # KEY, count, sum_dep_delay: the latest record of each key
    expected: "pd.DataFrame"
    records: int
    repeated: int  # records whose count is not above that of the record before with the same key
    batches: int
    flights: int
    seconds: float
    failure: Failure

    @property
    def is_same(self) -> bool:
        return self.repeated == 0 and self.found.equals(self.expected)


def missing() -> str:
    """Return the reason why Spark cannot run here, in a sentence; empty if it can."""
    try:
        import matplotlib  # noqa: F401
        import pyspark  # noqa: F401

        from ottla.pipeline.spark.java import NoJavaError, find_java
    except ModuleNotFoundError as error:
        return f"the package {error.name} is not installed; scripts/setup --force demo installs it."
    try:
        find_java()
    except NoJavaError as error:
        return f"{error}."
    return ""


def run(
    access: Access,
    source: Path,
    count: int,
    folder: Path,
    make_failure: Callable[[str], Failure],
    console: Console,
) -> Outcome:
    """Run the job over all flights in the cluster, and compute its expected result.

    The flights are the first `count` of the package's files in `source`; `folder` gets the checkpoint.
    """
    load_tables(access, source)
    flights = count_of(access, FLIGHTS)
    failure = make_failure(RESULT)
    with quiet_stderr(folder / "spark.log"):
        with console.status("Starting Spark"):
            begun_s = time.monotonic()
            spark = start(folder)
        console.print(f"Spark {spark.version} started in {time.monotonic() - begun_s:.1f} s.")
        try:
            begun_s = time.monotonic()
            query = start_query(spark, access, folder, rows_in_batch(flights), failure)
            batches = follow(query, flights, console)
            seconds = time.monotonic() - begun_s
        finally:
            failure.wait()
            spark.stop()
    if failure.problem:
        raise DemoError(failure.problem)
    if failure.victim < 0:
        raise DemoError("the job was over before a node could be killed")
    with console.status("Reading the result, and computing it with pandas"):
        found, records, repeated = read_result(access)
        expected = compute_with_pandas(source, count)
    return Outcome(
        found=found,
        expected=expected,
        records=records,
        repeated=repeated,
        batches=batches,
        flights=flights,
        seconds=seconds,
        failure=failure,
    )


# ---- preparation -----------------------------------------------------------------------------------


def load_tables(access: Access, source: Path) -> None:
    """Create and fill the topics `airports` and `weather` (for `examples/flights`); create the result's."""
    compacted = {"cleanup.policy": "compact", "min.insync.replicas": "2"}
    topics = [
        NewTopic("airports", 1, 3, config=compacted),
        NewTopic("weather", 1, 3, config={"min.insync.replicas": "2"}),
        NewTopic(RESULT, PARTITIONS, 3, config=compacted),
    ]
    admin = AdminClient({**access.confluent, **QUIET})
    for made in admin.create_topics(topics).values():
        made.result(TIMEOUT_S)
    producer = Producer({**access.confluent, "enable.idempotence": True, "linger.ms": 20, **QUIET})
    for topic, key, numbers in (
        ("airports", "faa", ("lat", "lon")),
        ("weather", "origin", ("temp", "wind_speed", "visib")),
    ):
        with (source / f"{topic}.csv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                record = {name: value_of(text, name in numbers) for name, text in row.items()}
                producer.produce(topic, orjson.dumps(record), row[key])
                producer.poll(0)
    if producer.flush(TIMEOUT_S):
        raise DemoError("the airports and the weather were not acknowledged")


def count_of(access: Access, topic: str) -> int:
    """Return the number of records of a topic."""
    reader = Consumer({**access.confluent, "group.id": "demo-reader", **QUIET})
    partitions = reader.list_topics(topic, TIMEOUT_S).topics[topic].partitions
    ends = [reader.get_watermark_offsets(TopicPartition(topic, index), TIMEOUT_S) for index in partitions]
    reader.close()
    return sum(end - begin for begin, end in ends)


def value_of(text: str, is_number: bool) -> str | float | None:
    if text in ("", "NA"):
        return None
    return float(text) if is_number else text


@contextmanager
def quiet_stderr(log: Path) -> Iterator[None]:
    """Redirect stderr to a file, as the output of Spark's processes would break the progress bar."""
    sys.stderr.flush()
    before = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)


def start(folder: Path) -> "SparkSession":
    from ottla.pipeline.spark.session import start_session

    settings = {**SPARK, "spark.sql.warehouse.dir": str(folder / "warehouse")}
    return start_session("ottla-demo", settings, master="local[2]")


# ---- the job ---------------------------------------------------------------------------------------


def rows_in_batch(flights: int) -> int:
    """Return a batch size that gives a few batches before the kill and a few after it."""
    return min(ROWS_IN_BATCH, flights // LEAST_BATCHES)


def start_query(
    spark: "SparkSession", access: Access, folder: Path, rows_in_batch: int, failure: Failure
) -> "StreamingQuery":
    """Start the job, which triggers the failure in the middle of one of its batches."""
    from ottla.pipeline.query import AvailableNow, QuerySettings
    from ottla.pipeline.streams import table
    from ottla.pipeline.streams.flights import delays_by_hour
    from ottla.pipeline.streams.json_records import to_records

    cluster = dict(access.spark)
    flights = {
        "subscribe": FLIGHTS,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(rows_in_batch),
    }
    sink = {"topic": RESULT, "delivery.guarantee": "exactly_once", "transactional.id": "demo-delays"}
    rows = delays_by_hour(
        spark.readStream.format("ottla").options(**cluster, **flights).load(),
        table.records(spark, {**cluster, "subscribe": "airports"}),
    )

    def write(batch: "DataFrame", batch_id: int) -> None:
        if batch_id == KILL_AFTER_BATCHES:  # the first has id 0
            failure.kill_leader(0)
        batch.write.format("ottla").mode("append").options(**cluster, **sink).save()

    query = QuerySettings(
        name="delays", checkpoint=str(folder / "checkpoint"), trigger=AvailableNow(), output_mode="update"
    )
    return query.start(to_records(rows, key=", ".join(KEY)).writeStream.foreachBatch(write))


def follow(query: "StreamingQuery", flights: int, console: Console) -> int:
    """Show the progress of the query until it ends; return the number of its batches."""
    seen: dict[int, int] = {}  # rows by batch
    columns = (TextColumn("{task.description:>9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("in Spark", total=flights)
        last_s = time.monotonic()
        while query.isActive:
            query.awaitTermination(0.2)
            for one in query.recentProgress:
                if one.numInputRows and one.batchId not in seen:
                    seen[one.batchId] = one.numInputRows
                    last_s = time.monotonic()
            progress.update(task, completed=sum(seen.values()))
            if time.monotonic() - last_s > STALL_TIMEOUT_S:
                query.stop()
                raise DemoError(f"Spark finished no batch for {STALL_TIMEOUT_S} s")
        if query.exception() is not None:
            raise DemoError(f"the query failed: {query.exception()}")
        for one in query.recentProgress:
            if one.numInputRows:
                seen[one.batchId] = one.numInputRows
        progress.update(task, completed=sum(seen.values()))
    return len(seen)


# ---- the proof -------------------------------------------------------------------------------------


def read_result(access: Access) -> "tuple[pd.DataFrame, int, int]":
    """Return the latest record of each key, the number of records, and the number of repeated ones."""
    consumer = Consumer(
        {
            **access.confluent,
            "group.id": "demo-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            **QUIET,
        }
    )
    consumer.assign([TopicPartition(RESULT, index, 0) for index in range(PARTITIONS)])
    latest: dict[bytes, dict[str, Any]] = {}
    records = repeated = ended = 0
    last_s = time.monotonic()
    while ended < PARTITIONS:
        for message in consumer.consume(5000, 0.2):
            last_s = time.monotonic()
            error = message.error()
            if error is not None and error.name() == "_PARTITION_EOF":
                ended += 1
            elif error is not None:
                raise DemoError(f"the reader of {RESULT} failed: {error}")
            else:
                row = orjson.loads(message.value())
                before = latest.get(message.key())
                # Every batch adds departures to each key that it writes.
                repeated += before is not None and row["count"] <= before["count"]
                latest[message.key()] = row
                records += 1
        if time.monotonic() - last_s > TIMEOUT_S:
            raise DemoError(f"no record of {RESULT} arrived for {TIMEOUT_S} s")
    consumer.close()
    return in_order(latest.values()), records, repeated


def in_order(rows: Any) -> "pd.DataFrame":
    import pandas as pd

    frame = pd.DataFrame(list(rows), columns=[*KEY, "count", "sum_dep_delay"])
    frame["window_start"] = pd.to_datetime(frame["window_start"], utc=True).astype("datetime64[ns, UTC]")
    frame["dest_tzone"] = frame["dest_tzone"].astype(object).where(frame["dest_tzone"].notna(), "")
    for name in ("count", "sum_dep_delay"):
        frame[name] = frame[name].astype("int64")
    return frame.sort_values(KEY).reset_index(drop=True)


def compute_with_pandas(source: Path, count: int) -> "pd.DataFrame":
    """Compute the result with pandas from the package's own files, of the first `count` flights by day."""
    import pandas as pd

    flights = pd.read_csv(source / "flights.csv.zip").sort_values(["month", "day"], kind="stable")
    flights = flights.head(count).dropna(subset=["dep_delay"])
    airports = pd.read_csv(source / "airports.csv")[["faa", "tzone"]]
    joined = flights.merge(airports, how="left", left_on="dest", right_on="faa")
    joined["dest_tzone"] = joined["tzone"].fillna("")
    joined["window_start"] = joined["time_hour"]
    groups = joined.groupby(KEY)["dep_delay"]
    counted = groups.agg(count="size", sum_dep_delay="sum").reset_index()
    return in_order(counted.to_dict("records"))


def carriers_of(source: Path) -> dict[str, str]:
    """Return the names of the airlines by their codes."""
    with (source / "airlines.csv").open(encoding="utf-8", newline="") as file:
        return {row["carrier"]: short_name(row["name"]) for row in csv.DictReader(file)}


def short_name(name: str) -> str:
    kept = name.split()
    while len(kept) > 1 and kept[-1] in {"Inc.", "Co.", "Corporation", "Airlines", "Lines", "Air"}:
        kept.pop()
    return " ".join(kept)


def show(outcome: Outcome, console: Console) -> None:
    """Print the comparison and the figures of the run."""
    failure = outcome.failure
    console.print(
        f"Spark took {outcome.flights:,} flights in {outcome.batches} batches and {outcome.seconds:.1f} s."
        f" Node {failure.victim}, leader of {RESULT}-0, was killed in the middle, and served again"
        f" {failure.started_again_s:.2f} s after it was started."
    )
    found, expected = outcome.found, outcome.expected
    result = "[green]the same as pandas'" if outcome.is_same else "[red]NOT the same as pandas'"
    console.print(
        f"{outcome.records:,} records of {RESULT}, read_committed, are {len(found):,} hours of carriers with"
        f" {found['count'].sum():,} departures and {found['sum_dep_delay'].sum():,} minutes of delay:"
        f" [bold]{result}[/]; {outcome.repeated} of them twice.",
        highlight=False,
    )
    if not outcome.is_same:
        console.print(
            f"[red]pandas has {len(expected):,} hours with {expected['count'].sum():,} departures and"
            f" {expected['sum_dep_delay'].sum():,} minutes."
        )
