"""The rows of a task on their way: syncs of copied rows, and topics that change meanwhile."""

from dataclasses import replace
from uuid import uuid4

import pyarrow as pa
import pytest

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.client_settings import Role
from ottla.pipeline.client.metadata import Cluster
from ottla.pipeline.client.offset_range import OffsetRange
from ottla.pipeline.client.partition_fetcher import PartitionFetcher
from ottla.pipeline.client.topic_admin import create_partitions
from ottla.pipeline.client.transactions import Transactions
from ottla.pipeline.columns.producer_pair import ProducerPair
from ottla.pipeline.mirror.sync_reader import SyncReader
from ottla.pipeline.sink.row_writer import Producer, RowWriter
from ottla.pipeline.sink.sink_options import SinkOptions
from tests.pipeline.conftest import MakeClient
from tests.pipeline.topics import alter_everywhere, make_topic

pytestmark = pytest.mark.slow


class Copying:
    """Tasks that copy rows to one topic, each in a transaction of its own."""

    def __init__(self, bootstrap: str, cluster: Cluster, *, partitions: int = 1) -> None:
        self.topic = make_topic(bootstrap, partitions=partitions)
        self.syncs = make_topic(bootstrap)
        self.cluster = cluster
        self.transactions = Transactions(cluster)
        self.options = SinkOptions.from_options(
            {
                "kafka.bootstrap.servers": bootstrap,
                "kafka.batch.size": "400",  # a few rows
                "topic": self.topic,
                "delivery.guarantee": "exactly_once",
                "transactional.id": "T",
                "offset.syncs.topic": self.syncs,
                "offset.lag.max": "0",
            }
        )

    def copy(self, offsets: list[int], *, commit: bool = True, partition: int = 0, batch_id: int = 1) -> None:
        transactional_id = f"T.{uuid4().hex}"
        pairs = self.transactions.init([transactional_id], timeout_ms=60_000, two_phase=False)
        writer = RowWriter(
            self.cluster,
            self.options,
            Producer(pair=pairs[transactional_id], transactional_id=transactional_id),
            begin_at=0,
            now_ms=lambda: 1,
            join=lambda joined: self.join(transactional_id, pairs[transactional_id], [*joined]),
            batch_id=batch_id,
        )
        writer.write(
            pa.RecordBatch.from_pydict(
                {
                    "value": pa.array([b"%d" % offset for offset in offsets]),
                    "partition": pa.array([partition] * len(offsets), pa.int32()),
                    "offset": pa.array(offsets, pa.int64()),
                }
            )
        )
        writer.finish()
        self.transactions.end(pairs, commit=commit)

    def join(self, transactional_id: str, pair: ProducerPair, partitions: list[TopicPartition]) -> None:
        self.transactions.add_partitions(transactional_id, pair, partitions)


def test_the_places_of_copied_rows_are_committed_with_them(bootstrap: str, client: MakeClient) -> None:
    copying = Copying(bootstrap, client(Role.SINK))
    reader = SyncReader(client(isolation_level="read_committed"), copying.syncs)

    copying.copy([*range(100, 200)], batch_id=1)
    copying.copy([*range(200, 250)], commit=False, batch_id=2)  # 50 rows that no reader sees
    copying.copy([*range(200, 205), *range(210, 220)], batch_id=2)

    # Each transaction has a marker behind its rows.
    places = dict(zip(range(100, 200), range(100), strict=True))
    places |= dict(zip([*range(200, 205), *range(210, 220)], range(152, 167), strict=True))
    partition = TopicPartition(copying.topic, 0)
    offset_map = reader.read()
    while offset_map.mirrored_to(partition) != 220:  # a coordinator answers before its markers are written
        offset_map = reader.read()
    assert {offset: offset_map.translate(partition, offset) for offset in places} == places
    assert offset_map.translate(partition, 207) == 157
    assert offset_map.translate(partition, 99) is None


def test_added_partitions_are_noticed(bootstrap: str, client: MakeClient) -> None:
    copying = Copying(bootstrap, client(Role.SINK))
    copying.copy([1])
    create_partitions(client(Role.SINK), {copying.topic: 3})

    copying.copy([2], partition=2)

    assert len(copying.cluster.topic(copying.topic).leaders) == 3


def test_rows_go_into_a_topic_that_takes_less_than_a_batch_even_if_its_limit_is_lowered_meanwhile(
    bootstrap: str, client: MakeClient
) -> None:
    copying = Copying(bootstrap, client(Role.SINK))
    copying.options = replace(copying.options, client=replace(copying.options.client, batch_size=900_000))
    rows = [*range(20_000)]

    alter_everywhere(bootstrap, copying.topic, {"max.message.bytes": "100000"})
    copying.copy(rows, batch_id=1)
    configured = copying.cluster.batch_bytes[copying.topic]
    alter_everywhere(bootstrap, copying.topic, {"max.message.bytes": "5000"})
    copying.copy(rows, batch_id=2)

    assert configured == 100_000
    read = client(isolation_level="read_committed")
    partition = TopicPartition(copying.topic, 0)
    values: list[bytes] = []
    # Each transaction has a marker behind its rows.
    wanted = OffsetRange(partition=partition, start=0, end=40_002)
    for fetched in PartitionFetcher(read, with_headers=False).batches(wanted):
        if fetched.columns is not None and fetched.columns.values is not None:
            values += fetched.columns.values.to_pylist()
    assert values == [b"%d" % row for row in rows] * 2
