"""`ottla topic reassign` and `elect`: changes replicas and leaders. Each returns the exit code."""

import asyncio
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli.answers import Results, print_json
from ottla.node.cli.failure import DOCTOR, EXIT_FAILURE, EXIT_USAGE, CommandError
from ottla.node.cli.topic_commands import print_table
from ottla.node.client import cluster_admin, topic_admin
from ottla.node.client.cluster_client import Client
from ottla.node.wire.messages.list_partition_reassignments import OngoingPartitionReassignment

EVERY_PARTITION: Final = -1
POLL_S: Final = 0.2
LAG_S: Final = 2.0  # the node that answers may apply the end of a move later than the controller


def parse_moves(texts: Sequence[str]) -> dict[int, list[int]]:
    """Parse `[P:]ID,ID,...` into brokers by partition, EVERY_PARTITION for all others; or CommandError."""
    moves: dict[int, list[int]] = {}
    for text in texts:
        partition, separator, brokers = text.rpartition(":")
        words = brokers.split(",")
        if not all(word.isascii() and word.isdigit() for word in ([partition] if separator else []) + words):
            raise CommandError(
                f"{text!r} is not a list of broker ids; write ID,ID,... or PARTITION:ID,ID,...", EXIT_USAGE
            )
        number = int(partition) if separator else EVERY_PARTITION
        if number in moves:
            raise CommandError(f"{text!r} names a partition that was already named.", EXIT_USAGE)
        moves[number] = [int(word) for word in words]
    return moves


async def reassign(
    client: Client, name: str, moves: Mapping[int, list[int]], wait: bool, as_json: bool
) -> int:
    async with client:
        [topic] = await topic_admin.describe_topics(client.renewed(), [name])
        there = {one.partition_index for one in topic.partitions}
        missing = sorted(number for number in moves if number != EVERY_PARTITION and number not in there)
        if missing:
            raise CommandError(
                f"Topic {name} has no partition {missing[0]}; it has {len(there)} partitions, counted from 0."
            )
        default = moves.get(EVERY_PARTITION)
        wanted: dict[TopicPartition, list[int] | None] = {}
        for number in sorted(there):
            replicas = moves.get(number, default)
            if replicas is not None:
                wanted[TopicPartition(name, number)] = replicas
        await cluster_admin.move_partitions(client, wanted)
        if wait:
            await until_moved(client, wanted)
            await check_moved(client, wanted)
    if as_json:
        rows = [
            {"partition": partition.partition, "replicas": replicas, "moved": wait}
            for partition, replicas in wanted.items()
        ]
        print_json(rows)
        return 0
    for partition, replicas in wanted.items():
        print(f"{partition} {'is' if wait else 'moves'} {'on' if wait else 'to'} {_brokers(replicas or ())}")
    return 0


async def check_moved(client: Client, wanted: Mapping[TopicPartition, Sequence[int] | None]) -> None:
    """Raise CommandError if another request cancelled or changed a move during the wait."""
    deadline = time.monotonic() + LAG_S
    topics = sorted({one.topic for one in wanted})
    while True:
        there = await assignment(client.renewed(), topics)
        elsewhere = [one for one, replicas in wanted.items() if there.get(one) != replicas]
        if not elsewhere:
            return
        if time.monotonic() > deadline:
            first = elsewhere[0]
            raise CommandError(
                f"{first} stays on {_brokers(there.get(first, ()))}: its move was cancelled by another "
                "request."
            )
        await asyncio.sleep(POLL_S)


async def assignment(client: Client, topics: Sequence[str]) -> dict[TopicPartition, list[int]]:
    """Return the brokers of each partition; if it is being reassigned, both the old and the new ones."""
    return {
        TopicPartition(topic.name or "", one.partition_index): list(one.replica_nodes)
        for topic in await topic_admin.describe_topics(client, topics)
        for one in topic.partitions
    }


async def until_moved(client: Client, partitions: Collection[TopicPartition]) -> None:
    """Wait until none of these moves; REQUEST_TIMED_OUT if their number does not fall for the timeout."""
    since, left = time.monotonic(), len(partitions) + 1
    while True:
        moving = [one for one in await cluster_admin.list_moves(client.renewed()) if one in partitions]
        if not moving:
            return
        if len(moving) < left:
            since, left = time.monotonic(), len(moving)
        if time.monotonic() - since > client.timeout_s:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{moving[0]} is still moving; the move continues in the background",
            )
        await asyncio.sleep(POLL_S)


async def cancel(client: Client, name: str, as_json: bool) -> int:
    async with client:
        moving = await _moves_of(client, name)
        await cluster_admin.move_partitions(client, dict.fromkeys(moving))
    stays = {
        partition: [one for one in move.replicas if one not in move.adding_replicas]
        for partition, move in moving.items()
    }
    if as_json:
        rows = [{"partition": one.partition, "replicas": replicas} for one, replicas in stays.items()]
        print_json(rows)
        return 0
    for partition, replicas in stays.items():
        print(f"{partition} stays on {_brokers(replicas)}")
    if not moving:
        print(f"no partition of {name} is moving")
    return 0


async def show(client: Client, name: str, as_json: bool) -> int:
    async with client:
        moving = await _moves_of(client, name)
    rows = [
        {
            "partition": partition.partition,
            "replicas": list(one.replicas),
            "adding": list(one.adding_replicas),
            "removing": list(one.removing_replicas),
        }
        for partition, one in moving.items()
    ]
    if as_json:
        print_json(rows)
    elif not rows:
        print(f"no partition of {name} is moving")
    else:
        print_table(
            ("partition", "replicas", "adding", "removing"),
            [
                (
                    partition.partition,
                    _brokers(one.replicas),
                    _brokers(one.adding_replicas) or None,
                    _brokers(one.removing_replicas) or None,
                )
                for partition, one in moving.items()
            ],
        )
    return 0


async def _moves_of(client: Client, name: str) -> dict[TopicPartition, OngoingPartitionReassignment]:
    await topic_admin.describe_topics(client, [name])  # raises if there is none
    moving = await cluster_admin.list_moves(client)
    return {partition: one for partition, one in sorted(moving.items()) if partition.topic == name}


async def elect(
    client: Client, names: Sequence[str], partitions: Sequence[int], unclean: bool, as_json: bool
) -> int:
    async with client:
        preferred = {
            TopicPartition(topic.name or "", one.partition_index): next(iter(one.replica_nodes), -1)
            for topic in await topic_admin.describe_topics(client, names)
            for one in topic.partitions
            if not partitions or one.partition_index in partitions
        }
        if not preferred:
            raise CommandError(f"None of these topics has a partition {partitions[0]}.")
        election_type = cluster_admin.UNCLEAN if unclean else cluster_admin.PREFERRED
        outcomes = await cluster_admin.elect_leaders(client, preferred, election_type)
    failed = False
    with Results(as_json=as_json) as results:
        for partition, error in sorted(outcomes, key=lambda one: one.partition):
            row = {**partition._asdict(), "elected": error is None, "error": None}
            if error is None:
                line = f"{partition} is now led by {_broker_text(preferred, partition, unclean)}"
            elif error.code is ErrorCode.ELECTION_NOT_NEEDED:
                line = f"{partition} was already led by {_broker_text(preferred, partition, unclean)}"
            else:
                failed = True
                row["error"] = f"{error.detail} ({error.code.name})"
                line = f"{partition} got no new leader: {row['error']}"
            results.add(row, line)
    if failed:
        print(f"ottla: {DOCTOR}", file=sys.stderr)
    return EXIT_FAILURE if failed else 0


def _broker_text(preferred: Mapping[TopicPartition, int], partition: TopicPartition, unclean: bool) -> str:
    return "a live broker" if unclean else str(preferred.get(partition))


def _brokers(replicas: Sequence[int]) -> str:
    return ",".join(map(str, replicas))
