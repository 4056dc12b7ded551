"""The source, the sinks and what is built on them, with Apache Kafka 4.3.1 as the cluster.

Most are tests of other files, which get its address as `bootstrap` here.
"""

import time
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

from ottla.pipeline.connect import file_source
from ottla.pipeline.sink.sink_cluster import KafkaSinkCluster
from ottla.pipeline.streams import dedup
from ottla.pipeline.streams.json_records import parse
from tests.pipeline.spark import (
    test_connect_http,
    test_load,
    test_sink_crashes,
    test_sink_exactly_once,
    test_source_batch,
    test_source_stream,
    test_stream_functions,
)
from tests.pipeline.spark.file_streams import stream_of_files
from tests.pipeline.spark.topic_rows import read_topic
from tests.pipeline.test_sink_protocol import Sink, decide_only
from tests.pipeline.topics import make_topic

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.thorough]

TIMEOUT_S = 120
# Long enough for a decision on a busy machine, and waited for once.
SHORT_TIMEOUT_MS = "4000"


@pytest.fixture(scope="module")
def bootstrap(kafka: str) -> str:
    """Replace the cluster of the other tests."""
    return kafka


hook = test_connect_http.hook

# Limits, AvailableNow, a restart, the group's progress and lag; ids of topics; the last stable offset.
test_a_query_continues = test_source_stream.test_a_query_reads_up_to_a_limit_and_continues_after_a_restart
test_a_topic_created_again = (
    test_source_stream.test_a_topic_created_again_meanwhile_stops_a_query_or_is_read_from_0
)
test_committed_records = test_source_stream.test_a_query_of_committed_records_ends_at_the_last_stable_offset
# A batch by offsets, in SQL; loads with their manifest, by offsets and by timestamps.
test_a_batch_by_offsets = test_source_batch.test_sql_reads_a_view
test_a_load = test_load.test_a_load_continues_where_the_last_one_ended
test_a_load_by_time = test_load.test_rows_are_laid_out_by_date_and_hour_of_utc
test_a_record_of_a_batch = test_sink_exactly_once.test_a_stream_is_written_once_and_its_record_shows_the_batch
test_dead_letters = test_connect_http.test_rejected_records_are_in_the_topic_of_dead_letters
test_a_join = test_stream_functions.test_each_batch_sees_the_table_as_it_is_when_the_batch_begins


@pytest.mark.parametrize("point", ["in the middle of a task", "after the decision"])
def test_rows_are_there_once_after_a_fault(
    spark: SparkSession, bootstrap: str, tmp_path: Path, point: str
) -> None:
    test_sink_crashes.test_rows_are_there_once_after_a_fault(spark, bootstrap, tmp_path, point)


def test_a_decided_batch_whose_transactions_expired_stops_the_query_by_name(
    spark: SparkSession, bootstrap: str, tmp_path: Path, checkpoint: str
) -> None:
    """Clients of Apache Kafka have no two-phase commit, so a decided batch can be lost."""
    sink = Sink(bootstrap, make_topic(bootstrap), transaction_timeout_ms=SHORT_TIMEOUT_MS)
    (task,) = decide_only(sink, 0, "a")
    cluster = KafkaSinkCluster(sink.cluster)
    while (described := cluster.describe([task.name])[task.name]) and described.state == "Ongoing":
        time.sleep(0.05)
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "delivery.guarantee": "exactly_once",
        "transactional.id": sink.options.transactional_id,
        "topic": sink.options.topic or "",
    }
    writer = stream_of_files(spark, tmp_path, [["b"]]).writeStream.format("ottla").options(**options)
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)

    for _ in range(2):
        with pytest.raises(StreamingQueryException, match=f"Batch 0 was decided, .*{task.name}"):
            writer.option("checkpointLocation", checkpoint).trigger(
                availableNow=True
            ).start().awaitTermination()

    sink.cluster.close()
    assert read_topic(bootstrap, sink.options.topic or "") == []


def test_lines_of_files_are_written_once_and_read_without_their_duplicates(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    topic, inbox = make_topic(bootstrap, partitions=2), tmp_path / "inbox"
    inbox.mkdir()
    line = '{"id": %d, "at": "2026-01-01T00:00:0%dZ"}\n'
    (inbox / "a.json").write_text("".join(line % (number, number) for number in range(5)))
    (inbox / "b.json").write_text("".join(line % (number, number) for number in range(3, 8)))
    files = file_source.read_stream(spark, {"path": str(inbox), "file.format": "lines"})
    rows: list[Row] = []

    def keep(batch: DataFrame, _batch_id: int) -> None:
        rows.extend(batch.collect())

    written = files.writeStream.format("ottla").options(
        **{
            "kafka.bootstrap.servers": bootstrap,
            "topic": topic,
            "delivery.guarantee": "exactly_once",
            "transactional.id": f"T.{uuid4().hex}",
        }
    )
    written = written.option("checkpointLocation", str(tmp_path / "to-the-topic"))
    assert written.trigger(availableNow=True).start().awaitTermination(TIMEOUT_S)
    records = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    parsed = parse(
        records.option("subscribe", topic).option("startingOffsets", "earliest").load(),
        schema="id LONG, at TIMESTAMP",
    )
    once = dedup.once(parsed, key="id", time="at", watermark="1 hour").writeStream.foreachBatch(keep)
    once = once.option("checkpointLocation", str(tmp_path / "from-the-topic"))
    assert once.trigger(availableNow=True).start().awaitTermination(TIMEOUT_S)

    assert len(read_topic(bootstrap, topic)) == 10
    assert sorted(row.id for row in rows) == list(range(8))
