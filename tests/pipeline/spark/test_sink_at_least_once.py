"""The sink without transactions: columns, partitions, topics, batches and streams, and invalid input."""

import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME
from pyspark.sql import DataFrame, SparkSession

from ottla.pipeline.columns.murmur2 import murmur2
from tests.compat import batches
from tests.compat.topics import leader_of
from tests.compat.wire_client import WireClient, only
from tests.pipeline.spark.file_streams import stream_of_files
from tests.pipeline.spark.topic_rows import read_topic, values_of
from tests.pipeline.topics import make_topic

pytestmark = pytest.mark.slow

CODEC_BITS = 7  # of the attributes of a batch


def save(frame: DataFrame, bootstrap: str, **options: str) -> None:
    frame.write.format("ottla").mode("append").options(
        **{"kafka.bootstrap.servers": bootstrap}, **options
    ).save()


def test_rows_of_a_batch_are_written_with_all_their_columns(spark: SparkSession, bootstrap: str) -> None:
    topic = make_topic(bootstrap, partitions=3)
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=datetime.UTC)
    rows = [
        ("k", "v", [("h", b"1"), ("h", None)], 2, moment),
        (None, "chosen", None, 1, moment),
        ("only a key", None, [], 0, moment),
    ]
    schema = (
        "key string, value string, headers array<struct<key: string, value: binary>>, "
        "partition int, timestamp timestamp"
    )

    save(spark.createDataFrame(rows, schema), bootstrap, topic=topic)

    found = [
        (one.partition(), one.key(), one.value(), one.headers(), one.timestamp())
        for one in read_topic(bootstrap, topic)
    ]
    created = (TIMESTAMP_CREATE_TIME, int(moment.timestamp() * 1000))
    assert found == [
        (0, b"only a key", None, None, created),
        (1, None, b"chosen", None, created),
        (2, b"k", b"v", [("h", b"1"), ("h", None)], created),
    ]


def test_rows_go_where_a_java_producer_puts_their_keys(spark: SparkSession, bootstrap: str) -> None:
    topic = make_topic(bootstrap, partitions=5)

    save(spark.range(500).selectExpr("string(id) key", "string(id) value"), bootstrap, topic=topic)

    found = read_topic(bootstrap, topic)
    hashes = murmur2(pa.array([one.key() for one in found], pa.binary()))
    assert [one.partition() for one in found] == [(int(each) & 0x7FFFFFFF) % 5 for each in hashes]
    assert values_of(found) == {b"%d" % number: 1 for number in range(500)}


def test_a_column_names_the_topic_and_an_option_wins_over_it(spark: SparkSession, bootstrap: str) -> None:
    topics = [make_topic(bootstrap) for _ in range(2)]
    frame = spark.createDataFrame([("a", topics[0]), ("b", topics[1])], "value string, topic string")

    save(frame, bootstrap)
    save(frame, bootstrap, topic=topics[1])

    assert values_of(read_topic(bootstrap, topics[0])) == {b"a": 1}
    assert values_of(read_topic(bootstrap, topics[1])) == {b"a": 1, b"b": 2}


@pytest.mark.parametrize(
    ("compression", "codec"),
    [("gzip", batches.GZIP), ("snappy", batches.SNAPPY), ("lz4", batches.LZ4), ("zstd", batches.ZSTD)],
)
def test_batches_are_compressed(spark: SparkSession, bootstrap: str, compression: str, codec: int) -> None:
    topic = make_topic(bootstrap)

    save(
        spark.range(100).selectExpr("repeat('x', 100) || id value"),
        bootstrap,
        topic=topic,
        **{"kafka.compression.type": compression},
    )

    assert len(values_of(read_topic(bootstrap, topic))) == 100
    assert codecs_of(bootstrap, topic) == {codec}


def codecs_of(bootstrap: str, topic: str) -> set[int]:
    """Return the compression codecs of the batches of a topic of one partition."""
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    with WireClient(leader_of(bootstrap, topic)) as client:
        answer = client.call(
            "fetch",
            12,
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[{"topic": topic, "partitions": [wanted]}],
        )
    headers = batches.read_headers(only(only(answer.responses).partitions).records)
    return {header["attributes"] & CODEC_BITS for header in headers}


@pytest.mark.parametrize("mode", ["append", "complete"])
def test_a_stream_is_written(
    spark: SparkSession, bootstrap: str, checkpoint: str, tmp_path: Path, mode: str
) -> None:
    topic = make_topic(bootstrap, partitions=2)
    frame = stream_of_files(spark, tmp_path, [["a", "b"], ["b"]])
    if mode == "complete":
        frame = frame.groupBy("value").count().selectExpr("value || count value")

    query = (
        frame.writeStream.format("ottla")
        .outputMode(mode)
        .queryName(f"written-{mode}")
        .trigger(availableNow=True)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", topic)
        .option("checkpointLocation", checkpoint)
        .start()
    )
    query.awaitTermination()

    expected = {b"a": 1, b"b": 2} if mode == "append" else {b"a1": 2, b"b1": 1, b"b2": 1}
    assert values_of(read_topic(bootstrap, topic)) == expected


def rejection(frame: DataFrame, bootstrap: str, **options: str) -> str:
    with pytest.raises(Exception) as rejected:
        save(frame, bootstrap, **options)
    return str(rejected.value)


def test_errors_are_named_before_a_task_begins(spark: SparkSession, bootstrap: str) -> None:
    frame = spark.range(1).selectExpr("string(id) value")

    assert "topic: is neither an option nor a column" in rejection(frame, bootstrap)
    assert "subscribe: is an option of the source" in rejection(frame, bootstrap, subscribe="t")
    assert "value: is a column that is required in every row" in rejection(
        spark.range(1), bootstrap, topic="t"
    )
    wrong = spark.range(1).selectExpr("string(id) value", "id partition")
    assert "partition: is a column of type int64, but must be int" in rejection(wrong, bootstrap, topic="t")
    with pytest.raises(Exception, match="mode: overwrite is not supported"):
        options = {"kafka.bootstrap.servers": bootstrap, "topic": "t"}
        frame.write.format("ottla").mode("overwrite").options(**options).save()


def test_a_topic_that_does_not_exist_is_named(spark: SparkSession, bootstrap: str) -> None:
    frame = spark.range(1).selectExpr("string(id) value")

    message = rejection(frame, bootstrap, topic="nowhere", **{"kafka.retry.backoff.ms": "1"})

    assert "topic: nowhere does not exist" in message
