"""Exactly once without failures: streams, foreachBatch in update mode, and invalid input."""

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from ottla.pipeline.client.client_settings import Role
from ottla.pipeline.client.group_offsets import committed_offsets
from ottla.pipeline.client.transactions import Transactions
from ottla.pipeline.sink.commit_record import decode_record
from ottla.pipeline.sink.sink_cluster import RECORD_PARTITION
from ottla.pipeline.spark.active_session import activate
from tests.pipeline.conftest import MakeClient
from tests.pipeline.spark.file_streams import stream_of_files
from tests.pipeline.spark.topic_rows import read_topic, values_of
from tests.pipeline.topics import make_topic

pytestmark = pytest.mark.slow

BATCHES = [["a", "b"], ["c"], ["b", "d"]]


def once(bootstrap: str, transactional_id: str, **more: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": bootstrap,
        "delivery.guarantee": "exactly_once",
        "transactional.id": transactional_id,
        **more,
    }


def run(frame: DataFrame, checkpoint: str, options: dict[str, str]) -> StreamingQuery:
    query = (
        frame.writeStream.format("ottla")
        .trigger(availableNow=True)
        .options(**options)
        .option("checkpointLocation", checkpoint)
        .start()
    )
    query.awaitTermination()
    return query


def rejected(run: Callable[[], object]) -> str:
    with pytest.raises(Exception) as error:
        run()
    return str(error.value)


def test_a_stream_is_written_once_and_its_record_shows_the_batch(
    spark: SparkSession, bootstrap: str, checkpoint: str, tmp_path: Path, client: MakeClient
) -> None:
    topic, name = make_topic(bootstrap, partitions=2), f"T.{uuid4().hex}"

    query = run(stream_of_files(spark, tmp_path, BATCHES), checkpoint, once(bootstrap, name, topic=topic))

    assert values_of(read_topic(bootstrap, topic)) == {b"a": 1, b"b": 2, b"c": 1, b"d": 1}
    offset = committed_offsets(client(), name)[RECORD_PARTITION]
    record = decode_record(offset.metadata)
    assert (offset.offset, record.batch_id, str(record.query_id)) == (3, 2, query.id)
    assert len(record.participants) == 1
    assert Transactions(client(Role.SINK)).list_open(f"{name}-") == set()


def test_updates_are_written_once_in_foreach_batch(
    spark: SparkSession, bootstrap: str, checkpoint: str, tmp_path: Path
) -> None:
    topic = make_topic(bootstrap)
    options = once(bootstrap, f"T.{uuid4().hex}", topic=topic)
    counts = stream_of_files(spark, tmp_path, BATCHES).groupBy("value").count()

    def write(batch: DataFrame, _batch_id: int) -> None:
        changed = batch.selectExpr("value || count value")
        changed.write.format("ottla").mode("append").options(**options).save()

    query = (
        counts.writeStream.outputMode("update")
        .foreachBatch(write)
        .trigger(availableNow=True)
        .option("checkpointLocation", checkpoint)
        .start()
    )
    query.awaitTermination()

    expected = {b"a1": 1, b"b1": 1, b"b2": 1, b"c1": 1, b"d1": 1}
    assert values_of(read_topic(bootstrap, topic)) == expected


def test_an_id_belongs_to_one_query_unless_an_option_takes_it_over(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    topic, name = make_topic(bootstrap), f"T.{uuid4().hex}"
    frame = stream_of_files(spark, tmp_path, [["a"]])
    options = once(bootstrap, name, topic=topic)
    run(frame, str(tmp_path / "first"), options)

    message = rejected(lambda: run(frame, str(tmp_path / "second"), options))
    run(frame, str(tmp_path / "second"), {**options, "transactional.id.takeover": "true"})

    assert "transactional.id: belongs to query" in message
    assert values_of(read_topic(bootstrap, topic)) == {b"a": 2}


def test_a_second_write_of_a_batch_under_one_id_is_rejected(
    spark: SparkSession, bootstrap: str, checkpoint: str, tmp_path: Path
) -> None:
    topic = make_topic(bootstrap)
    options = once(bootstrap, f"T.{uuid4().hex}", topic=topic)

    def write(batch: DataFrame, _batch_id: int) -> None:
        for _ in range(2):
            batch.write.format("ottla").mode("append").options(**options).save()

    query = (
        stream_of_files(spark, tmp_path, [["a"]])
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    message = rejected(query.awaitTermination)

    assert "transactional.id: has already written batch 0" in message


def test_a_write_under_another_job_group_is_rejected(
    spark: SparkSession, bootstrap: str, checkpoint: str, tmp_path: Path
) -> None:
    """Its run is unknown, so it might be the second write of its batch."""
    topic = make_topic(bootstrap)
    options = once(bootstrap, f"T.{uuid4().hex}", topic=topic)

    def write(batch: DataFrame, _batch_id: int) -> None:
        spark.sparkContext.setJobGroup("nightly", "a job of ours")
        batch.write.format("ottla").mode("append").options(**options).save()

    query = (
        stream_of_files(spark, tmp_path, [["a"]])
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    message = rejected(query.awaitTermination)

    assert "spark.jobGroup.id: is not the id that Spark gives each run of a query" in message
    assert values_of(read_topic(bootstrap, topic)) == {}


def test_options_that_prevent_exactly_once_are_rejected_by_name(
    spark: SparkSession, bootstrap: str, checkpoint: str, tmp_path: Path
) -> None:
    topic = make_topic(bootstrap)
    options = once(bootstrap, f"T.{uuid4().hex}", topic=topic)
    frame = stream_of_files(spark, tmp_path, [["a"]])

    batch = spark.range(1).selectExpr("string(id) value")
    message = rejected(lambda: batch.write.format("ottla").mode("append").options(**options).save())
    assert "exactly_once is for streams" in message

    message = rejected(lambda: run(frame, checkpoint, {**options, "asyncProgressTrackingEnabled": "true"}))
    assert "does not support async progress tracking" in message  # Spark's own error, before ours
    message = rejected(
        lambda: run(frame, checkpoint, {**options, "_asyncProgressTrackingOverrideSinkSupportCheck": "true"})
    )
    assert "_asyncProgressTrackingOverrideSinkSupportCheck: is not supported by this sink" in message

    assert values_of(read_topic(bootstrap, topic)) == {}


@pytest.fixture
def speculating(spark: SparkSession) -> Iterator[SparkSession]:
    """Make a session as if the application's configuration had the setting; sessions copy that."""
    configuration = spark.sparkContext._jsc.sc().conf()
    configuration.set("spark.speculation", "true")
    session = spark.newSession()
    yield session
    assert session.conf.get("spark.speculation") == "true"
    configuration.remove("spark.speculation")
    activate(spark)


def test_a_session_that_speculates_is_rejected_by_name(
    speculating: SparkSession, bootstrap: str, checkpoint: str, tmp_path: Path
) -> None:
    topic = make_topic(bootstrap)
    frame = stream_of_files(speculating, tmp_path, [["a"]])

    message = rejected(lambda: run(frame, checkpoint, once(bootstrap, f"T.{uuid4().hex}", topic=topic)))

    assert "spark.speculation: must be false" in message
    assert values_of(read_topic(bootstrap, topic)) == {}
