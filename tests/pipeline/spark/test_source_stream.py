"""`spark.readStream.format("ottla")`: the rows of a batch, restarts, and changes while a query runs."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.embedded import Cluster as Nodes
from ottla.pipeline.source.progress import lag_of_source
from tests.pipeline.topics import (
    TIMEOUT_S,
    delete_records,
    delete_topic,
    fill,
    fill_in_transactions,
    make_topic,
)

pytestmark = pytest.mark.slow

HUNDRED = [b"%d" % index for index in range(100)]


class Query:
    """A stream that keeps the values of each of its batches; it runs until it has what is available."""

    def __init__(self, spark: SparkSession, bootstrap: str, checkpoint: str, **options: str) -> None:
        given = {name.replace("__", "."): value for name, value in options.items()}
        self.options = {"kafka.bootstrap.servers": bootstrap, "fetchOffset.retryIntervalMs": "10", **given}
        self.spark, self.checkpoint = spark, checkpoint
        self.batches: list[list[int]] = []
        self.progress: list[dict[str, Any]] = []
        self.during_a_batch: Callable[[], None] = lambda: None

    def run(self) -> list[list[int]]:
        """Return the values of the batches of this run, each sorted."""
        self.batches.clear()
        stream = self.spark.readStream.format("ottla").options(**self.options).load()
        writer = stream.writeStream.foreachBatch(self._keep).option("checkpointLocation", self.checkpoint)
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(TIMEOUT_S), "the query has no end"
        self.progress = [json.loads(one.json) for one in query.recentProgress]
        return self.batches

    def _keep(self, frame: DataFrame, _batch_id: int) -> None:
        self.during_a_batch()
        self.batches.append(sorted(int(row.value) for row in frame.select("value").collect()))


def test_a_query_reads_up_to_a_limit_and_continues_after_a_restart(
    spark: SparkSession, bootstrap: str, checkpoint: str
) -> None:
    topic = make_topic(bootstrap, partitions=2)
    fill(bootstrap, topic, HUNDRED[:60], partition=0)
    fill(bootstrap, topic, HUNDRED[60:], partition=1)
    query = Query(
        spark,
        bootstrap,
        checkpoint,
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger="50",
        kafka__group__id=f"lag-{topic}",
    )
    # Later records are for the next run: this one reads what was available when it began.
    query.during_a_batch = lambda: fill(bootstrap, topic, [b"100"])

    first = query.run()

    assert [len(batch) for batch in first] == [50, 50]
    assert sorted(first[0] + first[1]) == list(range(100))
    # The lag of each batch, as it was known when the batch was planned.
    lags = [lag_of_source(progress["sources"][0]) for progress in query.progress]
    assert [lag.metrics()["maxOffsetsBehindLatest"] for lag in lags if lag] == ["30", "0"]
    assert [lag.total for lag in lags if lag] == [50, 0]
    assert _committed(bootstrap, f"lag-{topic}", topic) == {0: 60, 1: 40}

    query.during_a_batch = lambda: None
    assert query.run() == [[100, 100]]
    assert _committed(bootstrap, f"lag-{topic}", topic) == {0: 62, 1: 40}


def test_a_query_from_the_end_misses_no_record_written_while_it_is_down(
    spark: SparkSession, bootstrap: str, checkpoint: str
) -> None:
    topic = make_topic(bootstrap)
    fill(bootstrap, topic, HUNDRED[:3])
    query = Query(spark, bootstrap, checkpoint, subscribe=topic)
    assert query.run() == [[]]
    fill(bootstrap, topic, HUNDRED[3:5])

    assert query.run() == [[3, 4]]


def _committed(bootstrap: str, group_id: str, topic: str) -> dict[int, int]:
    """Return the offsets that lag tools see of a group."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    futures = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group_id)])
    found = futures[group_id].result(TIMEOUT_S).topic_partitions
    return {one.partition: one.offset for one in found if one.topic == topic}


def test_a_checkpoint_of_the_connector_is_taken_over(
    spark: SparkSession, bootstrap: str, checkpoint: str, tmp_path: Any
) -> None:
    """Its offsets are the same JSON, but without ids of topics."""
    topic = make_topic(bootstrap)
    fill(bootstrap, topic, HUNDRED[:3])
    query = Query(spark, bootstrap, checkpoint, subscribe=topic, startingOffsets="earliest")
    assert query.run() == [[0, 1, 2]]
    (offsets,) = [path for path in (tmp_path / "checkpoint" / "offsets").iterdir() if path.name == "0"]
    written = offsets.read_text()
    offsets.write_text(written.replace(written.splitlines()[-1], json.dumps({topic: {"0": 3}})))
    offsets.with_name(".0.crc").unlink()
    fill(bootstrap, topic, HUNDRED[3:5])

    assert query.run() == [[3, 4]]


def test_a_leader_that_dies_while_it_is_read_loses_no_row(
    spark: SparkSession, checkpoint: str, ottla_cluster_factory: Callable[..., Nodes]
) -> None:
    nodes = ottla_cluster_factory(nodes=3)
    topic = make_topic(nodes.bootstrap, partitions=3, replicas=3)
    for partition in range(3):
        fill(nodes.bootstrap, topic, HUNDRED, partition=partition)
    query = Query(
        spark,
        nodes.bootstrap,
        checkpoint,
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger="100",
        kafka__max__partition__fetch__bytes="500",
    )
    # Each of the three leads something, and the plan of the batch is made.
    query.during_a_batch = lambda: nodes.kill(2) if not query.batches else None

    batches = query.run()

    assert sorted(value for batch in batches for value in batch) == sorted([*range(100)] * 3)
    assert len(batches) == 4


def test_a_topic_created_again_meanwhile_stops_a_query_or_is_read_from_0(
    spark: SparkSession, bootstrap: str, checkpoint: str
) -> None:
    topic = make_topic(bootstrap)
    fill(bootstrap, topic, HUNDRED[:5])
    query = Query(spark, bootstrap, checkpoint, subscribe=topic, startingOffsets="earliest")
    assert query.run() == [[0, 1, 2, 3, 4]]
    delete_topic(bootstrap, topic)
    make_topic(bootstrap, name=topic)
    fill(bootstrap, topic, HUNDRED[:7])

    with pytest.raises(StreamingQueryException, match=f"topic {topic} was deleted and created again"):
        query.run()

    query.options["failOnDataLoss"] = "false"
    assert query.run() == [[0, 1, 2, 3, 4, 5, 6]]


def test_deleted_records_stop_a_query_or_are_skipped(
    spark: SparkSession, bootstrap: str, checkpoint: str
) -> None:
    topic = make_topic(bootstrap)
    fill(bootstrap, topic, HUNDRED[:5])
    query = Query(spark, bootstrap, checkpoint, subscribe=topic, startingOffsets="earliest")
    assert query.run() == [[0, 1, 2, 3, 4]]
    fill(bootstrap, topic, HUNDRED[5:10])
    delete_records(bootstrap, topic, 8)

    with pytest.raises(StreamingQueryException, match=f"{topic}-0 has offsets 8 to 10, but not 5"):
        query.run()

    query.options["failOnDataLoss"] = "false"
    assert query.run() == [[8, 9]]


def test_a_query_of_committed_records_ends_at_the_last_stable_offset(
    spark: SparkSession, bootstrap: str, checkpoint: str
) -> None:
    topic = make_topic(bootstrap)
    fill_in_transactions(bootstrap, topic, [True, False, True])
    query = Query(
        spark,
        bootstrap,
        checkpoint,
        subscribe=topic,
        startingOffsets="earliest",
        kafka__isolation__level="read_committed",
    )

    assert query.run() == [[0, 2]]
    (source,) = query.progress[0]["sources"]
    assert lag_of_source(source).by_partition == {TopicPartition(topic, 0): 0}  # type: ignore[union-attr]


def test_a_filter_of_a_stream_stays_in_its_query(
    spark: SparkSession, bootstrap: str, checkpoint: str
) -> None:
    """Spark pushes no filter to a stream's source, whatever its settings, and reads all records."""
    topic = make_topic(bootstrap, partitions=2)
    fill(bootstrap, topic, HUNDRED[:10], partition=0)
    fill(bootstrap, topic, HUNDRED[10:20], partition=1)
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    stream = spark.readStream.format("ottla").options(**given)
    kept = stream.load().where("partition = 1 AND offset >= 3 AND timestamp >= '1980-01-01T00:00:00Z'")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        writer = kept.writeStream.format("memory").queryName("filtered_stream")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(TIMEOUT_S)
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")

    assert sorted(int(row.value) for row in spark.table("filtered_stream").collect()) == [*range(13, 20)]


def test_a_stream_rejects_an_end_by_name(spark: SparkSession, bootstrap: str, checkpoint: str) -> None:
    query = Query(spark, bootstrap, checkpoint, subscribe="t", endingOffsets="latest")

    with pytest.raises(
        StreamingQueryException, match="endingOffsets: is for batch reads: a stream has no end"
    ):
        query.run()
