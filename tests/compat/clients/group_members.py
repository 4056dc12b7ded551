"""Members of consumer groups that use the clients for Python, each in a thread of its own.

Usage: group_members.py confluent|kafka-python|aiokafka. The lines in, and the lines of JSON out, are those of
GroupMembers.java.

A member commits the records of a poll before the next poll. If a rebalance rejects the commit, the next one
repeats it for the partitions that the member still has.
"""

import asyncio
import importlib
import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

POLL_S = 0.2
# kafka-python's poll ends as soon as there is a record, but it must not end in the middle of a join:
# kafka-python would take what it learns of the topic meanwhile for its assignment, and never join again
# (node/coordinators/DESIGN.md D40).
KAFKA_PYTHON_POLL_S = 3.0
_output_lock = threading.Lock()


class Member:
    """One member: its settings, its uncommitted offsets, and the events that it reports."""

    def __init__(self, name: str, topics: list[str], settings: dict[str, str]) -> None:
        self.name, self.topics, self.settings = name, topics, settings
        self.closing = threading.Event()
        self.uncommitted: dict[tuple[str, int], int] = {}  # (topic, partition) -> the next offset

    def report(self, event: str, **more: Any) -> None:
        line = json.dumps({"at": int(time.monotonic() * 1000), "member": self.name, "event": event, **more})
        with _output_lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    def polled(self, generation: int, records: Iterable[tuple[str, int, int, bytes]]) -> None:
        """Report records (topic, partition, offset, value), and keep their offsets to commit them."""
        lines = []
        for topic, partition, offset, value in records:
            lines.append([f"{topic}-{partition}", offset, value.decode()])
            self.uncommitted[topic, partition] = offset + 1
        self.report("polled", generation=generation, records=lines)

    def changed(self, event: str, partitions: Iterable[Any]) -> None:
        """Report that partitions were assigned, revoked or lost."""
        places = [(one.topic, one.partition) for one in partitions]
        if event != "assigned":
            for place in places:
                self.uncommitted.pop(place, None)
        self.report(event, partitions=[f"{topic}-{number}" for topic, number in places])

    def milliseconds(self, name: str) -> int:
        return int(self.settings[name])


def confluent(member: Member) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    own = {"client.id": member.name, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**member.settings, **own})

    def commit() -> None:
        offsets = [TopicPartition(*place, offset) for place, offset in member.uncommitted.items()]
        if offsets:
            try:
                consumer.commit(offsets=offsets, asynchronous=False)
                member.uncommitted.clear()
            except KafkaException as error:
                report_failure(member, error)

    def revoked(_: object, partitions: list[TopicPartition]) -> None:
        commit()
        member.changed("revoked", partitions)

    consumer.subscribe(
        member.topics,
        on_assign=lambda _, partitions: member.changed("assigned", partitions),
        on_revoke=revoked,
        on_lost=lambda _, partitions: member.changed("lost", partitions),
    )
    while not member.closing.is_set():
        messages = [one for one in consumer.consume(500, POLL_S) if one.error() is None]
        if messages:
            # b"CGMDv2:", the generation as a little-endian int32, then names.
            generation = int.from_bytes(consumer.consumer_group_metadata()[7:11], "little", signed=True)
            member.polled(
                generation, [(one.topic(), one.partition(), one.offset(), one.value()) for one in messages]
            )
        commit()
    consumer.close()


def kafka_python(member: Member) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.errors import KafkaConnectionError, KafkaError

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }
    consumer = KafkaConsumer(
        bootstrap_servers=member.settings["bootstrap.servers"].split(","),
        client_id=member.name,
        group_id=member.settings["group.id"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[assignors[member.settings["partition.assignment.strategy"]]],
        heartbeat_interval_ms=member.milliseconds("heartbeat.interval.ms"),
        session_timeout_ms=member.milliseconds("session.timeout.ms"),
    )

    def commit() -> None:
        offsets = {
            TopicPartition(*place): OffsetAndMetadata(offset, "", -1)
            for place, offset in member.uncommitted.items()
        }
        if offsets:
            try:
                consumer.commit(offsets)
                member.uncommitted.clear()
            except KafkaError as error:
                report_failure(member, error)

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
            member.changed("assigned", assigned)

        def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
            commit()
            member.changed("revoked", revoked)

        def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
            member.changed("lost", lost)

    is_subscribed = False
    while not member.closing.is_set():
        found = {}
        try:
            if not is_subscribed:
                for topic in member.topics:  # known before the first join, for the reason above
                    consumer.partitions_for_topic(topic)
                consumer.subscribe(member.topics, listener=Listener())
                is_subscribed = True
            found = consumer.poll(timeout_ms=int(KAFKA_PYTHON_POLL_S * 1000))
        except KafkaConnectionError as error:
            # If a node dies at this moment, kafka-python leaves the error to the application.
            report_failure(member, error)
        records = [
            (one.topic, one.partition, one.offset, one.value) for batch in found.values() for one in batch
        ]
        if records:
            member.polled(consumer.group_metadata().generation_id, records)
        commit()
    consumer.close(autocommit=False)


def aiokafka(member: Member) -> None:
    asyncio.run(_aiokafka(member))


async def _aiokafka(member: Member) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from aiokafka.errors import KafkaError

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }
    consumer = AIOKafkaConsumer(
        bootstrap_servers=member.settings["bootstrap.servers"].split(","),
        client_id=member.name,
        group_id=member.settings["group.id"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[assignors[member.settings["partition.assignment.strategy"]]],
        heartbeat_interval_ms=member.milliseconds("heartbeat.interval.ms"),
        session_timeout_ms=member.milliseconds("session.timeout.ms"),
    )

    async def commit() -> None:
        offsets = {TopicPartition(*place): offset for place, offset in member.uncommitted.items()}
        if offsets:
            try:
                await consumer.commit(offsets)
                member.uncommitted.clear()
            except KafkaError as error:
                report_failure(member, error)

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
            member.changed("assigned", assigned)

        async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
            await commit()
            member.changed("revoked", revoked)

    consumer.subscribe(member.topics, listener=Listener())
    await consumer.start()
    while not member.closing.is_set():
        # While a rebalance runs in the background, it returns no records.
        found = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
        records = [
            (one.topic, one.partition, one.offset, one.value) for batch in found.values() for one in batch
        ]
        if records:
            member.polled(consumer._coordinator.generation, records)
        await commit()
    await consumer.stop()


def report_failure(member: Member, error: Exception) -> None:
    """Print an error that does not end the member: offsets of a failed commit are kept for the next one."""
    print(f"{time.monotonic():.3f} {member.name}: {error!r}", file=sys.stderr, flush=True)


# Name -> the package, and the function that runs a member.
CLIENTS: Mapping[str, tuple[str, Callable[[Member], None]]] = {
    "confluent": ("confluent_kafka", confluent),
    "kafka-python": ("kafka", kafka_python),
    "aiokafka": ("aiokafka", aiokafka),
}


def run_member(run: Callable[[Member], None], member: Member) -> None:
    member.report("started")
    try:
        run(member)
    except Exception as error:
        member.report("failed", error=repr(error))
    else:
        member.report("closed")


def main() -> None:
    package, run = CLIENTS[sys.argv[1]]
    warnings.simplefilter("ignore")
    importlib.import_module(package)  # before the threads, which would all import it at once
    members: dict[str, Member] = {}
    for line in sys.stdin:
        verb, name, *words = line.split()
        if verb == "close":
            members[name].closing.set()
            continue
        settings = dict(word.split("=", 1) for word in words[1:])
        members[name] = Member(name, words[0].split(","), settings)
        threading.Thread(target=run_member, args=(run, members[name]), daemon=True).start()
    os._exit(0)  # the members crash


if __name__ == "__main__":
    main()
