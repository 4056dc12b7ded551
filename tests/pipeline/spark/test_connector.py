"""Spark's own Kafka connector as a client of the cluster, and as the reference for `format("ottla")`.

Equal options give equal rows and schemas. Its jars come from Maven Central; without them or Maven these tests
are skipped.
"""

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from tests.conftest import StartNode
from tests.pipeline.spark.either_format import FORMATS, Either, collect_batches, rows_of
from tests.pipeline.spark.topic_rows import read_topic, values_of
from tests.pipeline.topics import fill, make_topic

pytestmark = [pytest.mark.slow, pytest.mark.java]

COUNT = 30  # in each of two partitions
Ranges = dict[int, range]


# ---- the same options, the same rows -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def begun_ms() -> int:
    """Return a time of today, a minute ago: brokers delete what is older than a week."""
    return int(time.time() * 1000) - 60_000


@pytest.fixture(scope="module")
def source_topic(bootstrap: str, begun_ms: int) -> str:
    """Return the name of a topic of two partitions, in which record n has the timestamp `begun_ms` + n.

    Some records have null keys, null values or headers, and one partition is compressed.
    """
    topic = make_topic(bootstrap, partitions=2)
    for partition, compression in enumerate(("none", "zstd")):
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "compression.type": compression})
        for number in range(COUNT):
            producer.produce(
                topic,
                partition=partition,
                key=None if number % 5 == 0 else b"key %d" % number,
                value=None if number % 7 == 0 else b"value %d" % number,
                headers=[] if number % 3 == 0 else [("h", b"%d" % number), ("h", None), ("", b"")],
                timestamp=begun_ms + number,
            )
        assert producer.flush(60) == 0
    return topic


def case(name: str, at: int, topic: str) -> tuple[dict[str, str], Ranges]:
    """Return options, and the offsets of each partition that they mean. `at` is the timestamp of record 0."""
    every = {0: range(COUNT), 1: range(COUNT)}
    last = at + COUNT
    subscribe = {"subscribe": topic}
    cases: dict[str, tuple[dict[str, object], Ranges]] = {
        "everything": (subscribe, every),
        "headers": ({**subscribe, "includeHeaders": "true"}, every),
        "pattern": ({"subscribePattern": f".*{topic[5:]}"}, every),
        "assign": ({"assign": {topic: [1]}}, {1: range(COUNT)}),
        "offsets": (
            {
                **subscribe,
                "startingOffsets": {topic: {"0": 5, "1": -2}},
                "endingOffsets": {topic: {"0": 20, "1": -1}},
            },
            {0: range(5, 20), 1: range(COUNT)},
        ),
        "timestamp": (
            {**subscribe, "startingTimestamp": at + 10, "endingTimestamp": at + 20},
            {0: range(10, 20), 1: range(10, 20)},
        ),
        "timestamps": (
            {
                **subscribe,
                "startingOffsetsByTimestamp": {topic: {"0": at + 10, "1": at + 20}},
                "endingOffsetsByTimestamp": {topic: {"0": at + 12, "1": last}},
            },
            {0: range(10, 12), 1: range(20, COUNT)},
        ),
        "too late a timestamp": (
            {
                **subscribe,
                "startingTimestamp": last,
                "startingOffsetsByTimestampStrategy": "latest",
            },
            {},
        ),
        "least number of partitions": ({**subscribe, "minPartitions": 7}, every),
        "most records a partition": ({**subscribe, "maxRecordsPerPartition": 8}, every),
        "small fetches": ({**subscribe, "kafka.max.partition.fetch.bytes": 100}, every),
    }
    options, expected = cases[name]
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in options.items()}
    return texts, expected


CASES = (
    "everything",
    "headers",
    "pattern",
    "assign",
    "offsets",
    "timestamp",
    "timestamps",
    "too late a timestamp",
    "least number of partitions",
    "most records a partition",
    "small fetches",
)


@pytest.mark.parametrize("name", CASES)
def test_an_option_gives_the_same_rows_in_both_formats(
    either: dict[str, Either], source_topic: str, begun_ms: int, name: str
) -> None:
    options, expected = case(name, begun_ms, source_topic)

    frames = {format_name: one.read(**options) for format_name, one in either.items()}
    rows = {format_name: rows_of(frame) for format_name, frame in frames.items()}

    offsets = [(row.partition, row.offset) for row in rows["kafka"]]
    assert offsets == [(partition, offset) for partition, of_it in expected.items() for offset in of_it]
    assert rows["ottla"] == rows["kafka"]
    assert frames["ottla"].schema == frames["kafka"].schema
    if name == "least number of partitions":
        assert frames["ottla"].rdd.getNumPartitions() == frames["kafka"].rdd.getNumPartitions() >= 7


FILTERS = (
    "offset >= 27",
    "offset = 3 AND partition = 1",
    "offset IN (2, 3, 29, 99)",
    "offset > 5 AND offset <> 8 AND offset < 12",
    "partition < 1",
    "topic = '{topic}' AND offset BETWEEN 10 AND 12",
    "topic <> '{topic}'",
    "timestamp >= '{at[25]}'",
    "timestamp < '{at[4]}' AND partition IN (0, 5)",
    "timestamp > '{at[7]}' AND timestamp <= '{at[11]}' AND offset >= 9",
)


def test_where_gives_the_rows_of_a_filter_on_the_connector(
    either: dict[str, Either], source_topic: str, begun_ms: int
) -> None:
    moments = [datetime.fromtimestamp((begun_ms + number) / 1000, UTC) for number in range(COUNT)]
    at = [moment.isoformat(timespec="milliseconds") for moment in moments]
    whole = either["kafka"].read(subscribe=source_topic, includeHeaders="true").cache()
    try:
        for text in FILTERS:
            where = text.format(topic=source_topic, at=at)
            for more in ({}, {"minPartitions": "5"}):
                frame = either["ottla"].read(
                    subscribe=source_topic, includeHeaders="true", where=where, **more
                )
                assert rows_of(frame) == rows_of(whole.where(where)), where
    finally:
        whole.unpersist()


@pytest.mark.parametrize(
    "options",
    [
        {"startingTimestamp": "{late}"},
        {"startingOffsets": "latest"},
        {"endingOffsets": "earliest"},
        {"startingOffsets": '{{"{topic}": {{"0": 0}}}}'},
        {"assign": '{{"{topic}": [0]}}'},
        {"minPartitions": "0"},
        {"kafka.auto.offset.reset": "earliest"},
        {"kafka.enable.auto.commit": "true"},
        {"kafka.key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_both_formats_reject_the_same_options(
    either: dict[str, Either], source_topic: str, begun_ms: int, options: dict[str, str]
) -> None:
    given = {name: text.format(topic=source_topic, late=begun_ms + COUNT) for name, text in options.items()}

    for one in either.values():
        with pytest.raises(Exception) as rejected:
            one.read(subscribe=source_topic, **given).collect()

        assert one.name == "kafka" or next(iter(given)).lower() in str(rejected.value).lower()


def test_only_committed_records_are_read_with_read_committed(
    either: dict[str, Either], bootstrap: str
) -> None:
    topic = make_topic(bootstrap)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"x-{uuid4().hex}"})
    producer.init_transactions(60)
    for committed in (True, False, True):
        producer.begin_transaction()
        for number in range(5):
            producer.produce(topic, b"%s %d" % (b"kept" if committed else b"aborted", number))
        producer.flush(60)  # records that the producer still holds when it aborts are never sent
        producer.commit_transaction(60) if committed else producer.abort_transaction(60)

    for isolation, count in (("read_committed", 10), ("read_uncommitted", 15)):
        options = {"subscribe": topic, "kafka.isolation.level": isolation}
        rows = {name: rows_of(one.read(**options)) for name, one in either.items()}

        assert len(rows["kafka"]) == count
        assert rows["ottla"] == rows["kafka"]


# ---- the same rows written ---------------------------------------------------------------------------------


def written(message: Message) -> tuple[object, ...]:
    return message.partition(), message.key(), message.value(), message.headers()


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_both_formats_write_rows_to_the_same_partitions(
    either: dict[str, Either], bootstrap: str, compression: str
) -> None:
    topics = {name: make_topic(bootstrap, partitions=5) for name in FORMATS}
    frame = (
        either["kafka"]
        .spark.range(200)
        .selectExpr(
            "repeat(string(id), int(id % 12)) key",
            "if(id % 9 = 0, null, string(id)) value",
            "if(id % 2 = 0, null, array(struct('h' as key, cast(string(id) as binary) as value))) headers",
            "if(id % 3 = 0, int(id % 5), null) partition",
        )
    )

    for name, one in either.items():
        one.write(frame, topic=topics[name], **{"kafka.compression.type": compression})

    found = {
        name: sorted(map(written, read_topic(bootstrap, topic)), key=repr) for name, topic in topics.items()
    }
    assert len(found["kafka"]) == 200
    assert found["ottla"] == found["kafka"]


def test_the_connector_creates_a_topic_where_the_cluster_allows_it(
    either: dict[str, Either], bootstrap: str
) -> None:
    topic = f"made-{uuid4().hex}"

    either["kafka"].write(either["kafka"].spark.range(3).selectExpr("string(id) value"), topic=topic)

    assert values_of(read_topic(bootstrap, topic)) == {b"0": 1, b"1": 1, b"2": 1}


def test_the_connector_creates_no_topic_where_auto_creation_is_off(
    spark: SparkSession, connector: str, start_node: StartNode, tmp_path: Path
) -> None:
    node = start_node(tmp_path, "auto.create.topics.enable=false")
    one = Either(spark=spark, bootstrap=node.bootstrap, name=connector)

    with pytest.raises(Exception, match="not present in metadata"):
        one.write(spark.range(1).selectExpr("string(id) value"), topic="no", **{"kafka.max.block.ms": "2000"})


# ---- streams -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "sink"),
    [("kafka", "kafka"), ("kafka", "ottla"), ("ottla", "kafka")],
    ids=["kafka to kafka", "kafka to ottla", "ottla to kafka"],
)
def test_a_stream_is_copied_micro_batch_by_micro_batch(
    either: dict[str, Either], bootstrap: str, source_topic: str, checkpoint: str, source: str, sink: str
) -> None:
    topic = make_topic(bootstrap, partitions=2)
    stream = either[source].read_stream(
        subscribe=source_topic, startingOffsets="earliest", maxOffsetsPerTrigger="25", includeHeaders="true"
    )
    rows = stream.select("key", "value", "headers", "partition")

    batches = either[sink].copy(rows, checkpoint, topic=topic)

    assert batches == 3
    columns = ("key", "value", "headers", "partition", "offset")
    copies = rows_of(either["kafka"].read(subscribe=topic, includeHeaders="true").select("topic", *columns))
    originals = rows_of(
        either["kafka"].read(subscribe=source_topic, includeHeaders="true").select("topic", *columns)
    )
    assert [tuple(row)[1:] for row in copies] == [tuple(row)[1:] for row in originals]


def test_the_connector_finds_offsets_as_a_member_of_a_group(
    either: dict[str, Either], source_topic: str, checkpoint: str
) -> None:
    stream = either["kafka"].read_stream(subscribe=source_topic, startingOffsets="earliest")
    either["kafka"].spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
    try:
        batches, _ = collect_batches(stream, checkpoint, lambda row: row.offset)
    finally:
        either["kafka"].spark.conf.unset("spark.sql.streaming.kafka.useDeprecatedOffsetFetching")

    assert batches == [[*range(COUNT), *range(COUNT)]]


@pytest.mark.parametrize(
    ("first", "second"),
    [("kafka", "ottla"), ("ottla", "kafka")],
    ids=["kafka then ottla", "ottla then kafka"],
)
def test_a_query_that_one_format_began_continues_with_the_other(
    either: dict[str, Either], source_topic: str, tmp_path: Path, first: str, second: str
) -> None:
    begun = either[first].read_stream(assign=json.dumps({source_topic: [0]}), startingOffsets="earliest")
    one, ends = collect_batches(begun, str(tmp_path / "first"), lambda row: (row.partition, row.offset))

    # The partition that the first one did not read is read from its beginning.
    starts = json.dumps({source_topic: {**ends[source_topic], "1": -2}})
    goes_on = either[second].read_stream(subscribe=source_topic, startingOffsets=starts)
    other, last = collect_batches(goes_on, str(tmp_path / "second"), lambda row: (row.partition, row.offset))

    assert one == [[(0, offset) for offset in range(COUNT)]]
    assert other == [[(1, offset) for offset in range(COUNT)]]
    assert last == {source_topic: {"0": COUNT, "1": COUNT}}


@pytest.mark.parametrize("name", FORMATS)
def test_records_deleted_before_they_were_read_stop_a_query_that_must_not_lose_data(
    either: dict[str, Either], bootstrap: str, checkpoint: str, name: str
) -> None:
    topic = make_topic(bootstrap)
    fill(bootstrap, topic, [b"first"])

    def run(fails: str) -> list[list[object]]:
        stream = either[name].read_stream(
            subscribe=topic, startingOffsets="earliest", failOnDataLoss=fails, maxOffsetsPerTrigger="100"
        )
        return collect_batches(stream, checkpoint, lambda row: row.offset)[0]

    assert run("true") == [[0]]
    fill(bootstrap, topic, [b"%d" % number for number in range(1, 20)])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_records([TopicPartition(topic, 0, 10)]).values():
        done.result(60)

    with pytest.raises(Exception, match=r"(?i)data.?loss|lost|missed"):
        run("true")
    kept = run("false")
    assert [offset for batch in kept for offset in batch] == list(range(10, 20))
