"""Real-time Mode: rows go from topic to topic within a long batch. Only Spark's own connector has it."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from tests.pipeline.spark.either_format import Either
from tests.pipeline.topics import make_topic

pytestmark = [pytest.mark.slow, pytest.mark.java]

TIMEOUT_S = 60.0


def start(either: Either, stream: DataFrame, checkpoint: str, topic: str) -> StreamingQuery:
    writer = stream.selectExpr("key", "upper(string(value)) value").writeStream.format(either.name)
    return (
        writer.outputMode("update")
        .trigger(realTime="10 minutes")
        .option("kafka.bootstrap.servers", either.bootstrap)
        .option("topic", topic)
        .option("checkpointLocation", checkpoint)
        .start()
    )


@pytest.fixture
def producer(bootstrap: str) -> Iterator[Producer]:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    yield producer
    assert producer.flush(TIMEOUT_S) == 0


def test_rows_arrive_while_their_batch_is_running(
    either: dict[str, Either], bootstrap: str, producer: Producer, checkpoint: str
) -> None:
    source, target = make_topic(bootstrap), make_topic(bootstrap)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "watches"})
    consumer.assign([TopicPartition(target, 0, 0)])
    connector = either["kafka"]

    query = start(
        connector, connector.read_stream(subscribe=source, startingOffsets="earliest"), checkpoint, target
    )
    for number in range(5):
        producer.produce(source, b"row %d" % number)
        producer.flush(TIMEOUT_S)
        message = consumer.poll(TIMEOUT_S)

        assert message is not None, query.exception()
        assert message.value() == b"ROW %d" % number
    assert query.lastProgress is None, "no batch has ended"
    query.stop()
    consumer.close()


@pytest.mark.parametrize(
    ("source", "sink", "reason"),
    [
        ("ottla", "kafka", "INPUT_STREAM_NOT_SUPPORTED"),
        ("kafka", "ottla", "OPERATOR_OR_SINK_NOT_IN_ALLOWLIST"),
    ],
)
def test_spark_rejects_real_time_mode_for_sources_and_sinks_in_python(
    either: dict[str, Either], bootstrap: str, checkpoint: str, source: str, sink: str, reason: str
) -> None:
    topic = make_topic(bootstrap)

    with pytest.raises(Exception, match=reason):
        query = start(either[sink], either[source].read_stream(subscribe=topic), checkpoint, topic)
        query.awaitTermination(TIMEOUT_S)
