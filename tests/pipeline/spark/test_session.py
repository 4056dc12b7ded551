"""The session has our source without a call."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from ottla.pipeline.spark.active_session import activate
from tests.pipeline.spark.either_format import TIMEOUT_S
from tests.pipeline.spark.topic_rows import read_topic
from tests.pipeline.topics import fill, make_topic


def test_the_format_is_known_without_register(spark: SparkSession) -> None:
    messages = {}
    for name in ("ottla", "ottlaa"):
        # Our source asks for its options; the tests of the source check how.
        with pytest.raises(Exception) as error:
            spark.read.format(name).load()
        messages[name] = str(error.value)

    assert "DATA_SOURCE_NOT_FOUND" in messages["ottlaa"]
    assert "DATA_SOURCE_NOT_FOUND" not in messages["ottla"]


def test_the_format_is_known_in_every_thread(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    source, sink = make_topic(bootstrap), make_topic(bootstrap)
    fill(bootstrap, source, [b"row"])
    cluster = {"kafka.bootstrap.servers": bootstrap}

    def save(frame: DataFrame) -> None:
        frame.select("value").write.format("ottla").mode("append").options(**cluster, topic=sink).save()

    def save_in_pool(frame: DataFrame, _batch_id: int) -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(save, frame).result()

    def stream() -> None:
        rows = spark.readStream.format("ottla").options(**cluster, startingOffsets="earliest")
        frame = rows.option("subscribe", source).load()
        plain = frame.writeStream.format("ottla").options(**cluster, topic=sink)
        for name, writer in ("plain", plain), ("batches", frame.writeStream.foreachBatch(save_in_pool)):
            writer = writer.option("checkpointLocation", str(tmp_path / name))
            assert writer.trigger(availableNow=True).start().awaitTermination(TIMEOUT_S)

    batch = spark.read.format("ottla").options(**cluster, subscribe=source).load()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(save, batch).result()
        pool.submit(stream).result()

    assert [message.value() for message in read_topic(bootstrap, sink)] == [b"row"] * 3


def test_a_thread_that_worked_before_has_a_session_and_keeps_its_own(spark: SparkSession) -> None:
    own = spark.newSession()

    def forget() -> None:
        """Put the thread into the state that it has before our module is imported."""
        sessions_of(spark).clearActiveSession()
        client = spark.sparkContext._gateway._gateway_client
        del client.get_thread_connection()._ottla_session

    with ThreadPoolExecutor(1) as pool:
        pool.submit(forget).result()
        assert pool.submit(lambda: is_active(spark)).result()

        pool.submit(forget).result()
        pool.submit(lambda: activate(own)).result()
        assert pool.submit(lambda: is_active(own)).result()


def test_the_thread_of_a_query_keeps_its_session_in_a_function_for_its_batches(
    spark: SparkSession, bootstrap: str, checkpoint: str
) -> None:
    topic, kept = make_topic(bootstrap), []
    fill(bootstrap, topic, [b"row"])
    rows = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    frame = rows.options(subscribe=topic, startingOffsets="earliest").load()
    writer = frame.writeStream.foreachBatch(lambda batch, _: kept.append(is_active(batch.sparkSession)))

    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()

    assert query.awaitTermination(TIMEOUT_S) and set(kept) == {True}


def sessions_of(spark: SparkSession) -> Any:
    assert spark._jvm is not None
    return spark._get_j_spark_session_class(spark._jvm)


def is_active(session: SparkSession) -> bool:
    return bool(sessions_of(session).getActiveSession().get().equals(session._jsparkSession))
