"""The session has our source without a call."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.pipeline.spark.either_format import TIMEOUT_S
from tests.pipeline.spark.topic_rows import read_topic
from tests.pipeline.topics import fill, make_topic


def test_the_format_is_known_without_register(spark: SparkSession) -> None:
    told = {}
    for name in ("ottla", "ottlaa"):
        # Ours asks for its options; how is the matter of the source's tests.
        with pytest.raises(Exception) as error:
            spark.read.format(name).load()
        told[name] = str(error.value)

    assert "DATA_SOURCE_NOT_FOUND" in told["ottlaa"]
    assert "DATA_SOURCE_NOT_FOUND" not in told["ottla"]


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
