"""`ottla topic copy`: copies the records of a topic to another topic or cluster. Returns the exit code.

Each partition is copied to the one of the same number, with keys, headers, timestamps and the order of its
records. Records of aborted transactions are left out, and so are all records from the first one of an open
transaction on.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from ottla.logstore.compression import Compression
from ottla.logstore.record import Record
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli.answers import print_json
from ottla.node.cli.failure import EXIT_USAGE, CommandError
from ottla.node.cli.progress import Progress
from ottla.node.cli.record_commands import find_start_offsets, parse_offset_spec
from ottla.node.cli.topic_commands import counted, print_table
from ottla.node.client import cluster_admin, topic_admin
from ottla.node.client.cluster_client import Client, unknown_partition
from ottla.node.client.consumer import READ_COMMITTED, Consumer
from ottla.node.client.producer import Producer, ProducerRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOptions:
    """The two topics, and the part of the first that is copied; no partitions means all."""

    source: str
    target: str
    partitions: Sequence[int]
    begin: str
    compression: str
    may_create: bool
    as_json: bool


class _Copied:
    """The progress of each partition: the first offset, the next offset and the end of its copy."""

    def __init__(
        self, topic: str, begins: dict[TopicPartition, int], ends: dict[TopicPartition, int]
    ) -> None:
        self._topic, self._begins, self._ends = topic, begins, ends
        self.next = dict(begins)  # the offset after the last record that the target acknowledged
        self.records = dict.fromkeys(begins, 0)

    def print(self, *, as_json: bool) -> None:
        """Print a row for each partition; after an interruption, it has the offset to continue with."""
        rows = [
            {
                "partition": one.partition,
                "records": self.records[one],
                "first_offset": self._begins[one],
                "next_offset": self.next[one],
                "end_offset": self._ends[one],
            }
            for one in sorted(self._begins)
        ]
        if as_json:
            print_json(rows)
        else:
            heads = ("partition", "records", "from offset", "next offset", "end offset")
            print_table(heads, [tuple(row.values()) for row in rows])


async def copy(source: Client, target: Client, options: CopyOptions) -> int:
    """Copy the records of a topic up to the last stable offsets that its partitions have at the start."""
    try:
        begin = parse_offset_spec(options.begin)
    except ValueError as error:
        raise CommandError(f"{str(error).rstrip('.')}.", EXIT_USAGE) from None
    async with AsyncExitStack() as open_clients:
        for client in dict.fromkeys((source, target)):
            await open_clients.enter_async_context(client)
        topic = await source.topic_as_it_is(options.source)
        for number in options.partitions:
            if number not in topic.leaders:
                raise unknown_partition(topic, number)
        if options.source == options.target and await _is_same_cluster(source, target):
            raise CommandError(f"Topic '{options.source}' cannot be copied into itself.", EXIT_USAGE)
        places = [
            TopicPartition(options.source, number)
            for number in sorted(set(options.partitions) or topic.leaders)
        ]
        begins = (await find_start_offsets(source, places, begin, read_committed=True)).all()
        ends = await topic_admin.list_offsets(
            source, dict.fromkeys(places, topic_admin.LATEST), isolation_level=READ_COMMITTED
        )
        producer = await _producer(target, options, max(topic.leaders) + 1)
        copied = _Copied(options.target, dict(begins), {one: each.offset for one, each in ends.items()})
        try:
            await _copy(source, producer, copied, {one: each.offset for one, each in ends.items()})
        finally:  # also after an interruption
            copied.print(as_json=options.as_json)
    return 0


async def _is_same_cluster(source: Client, target: Client) -> bool:
    if source is target:
        return True
    ids = [(await cluster_admin.describe_cluster(one)).cluster_id for one in (source, target)]
    return ids[0] == ids[1]


async def _producer(target: Client, options: CopyOptions, partitions: int) -> Producer:
    """Return the producer of the target; CommandError if the topic is missing or has too few partitions."""
    name, needed = options.target, max(options.partitions, default=partitions - 1) + 1
    if options.may_create:
        await _create(target, name, partitions)
    try:
        there = len((await target.topic(name, may_create=options.may_create)).leaders)
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        raise CommandError(
            f"Topic '{name}' does not exist there. `ottla topic create {name} --partitions {partitions}` or "
            "--create-topic creates it."
        ) from None
    if there < needed:
        raise CommandError(
            f"Topic '{name}' has {counted(there, 'partition')}, and {options.source} needs {needed}: "
            f"`ottla topic alter {name} --partitions {needed}` adds them."
        )
    producer = Producer(target, name, compression=Compression[options.compression.upper()])
    await producer.start()
    return producer


async def _create(target: Client, name: str, partitions: int) -> None:
    try:
        await topic_admin.create_topic(
            target, name, partitions=partitions, replicas=-1, configs={}, only_check=False
        )
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


async def _copy(source: Client, producer: Producer, copied: _Copied, ends: dict[TopicPartition, int]) -> None:
    consumer = Consumer(source, read_committed=True)
    consumer.positions = dict(copied.next)
    progress = Progress()
    try:
        while True:
            consumer.positions = {one: at for one, at in consumer.positions.items() if at < ends[one]}
            if not consumer.positions:
                break
            added: dict[TopicPartition, int] = {}
            for partition, records in await consumer.fetch():
                wanted = [one for one in records if one.offset < ends[partition]]
                for record in wanted:
                    _add(producer, partition, record)
                added[partition] = len(wanted)
            await producer.flush()
            for partition, position in consumer.positions.items():
                copied.next[partition] = min(position, ends[partition])
                copied.records[partition] += added.get(partition, 0)
            progress.show(producer.acknowledged_bytes, producer.acknowledged)
    finally:
        progress.end()


def _add(producer: Producer, partition: TopicPartition, record: Record) -> None:
    try:
        producer.add(
            ProducerRecord(record.key, record.value, record.headers, partition.partition, record.timestamp)
        )
    except ValueError as error:
        raise CommandError(
            f"The record at offset {record.offset} of {partition} cannot be copied: {str(error).rstrip('.')}."
        ) from None
