"""Moves of replicas between the log directories of their brokers (AlterReplicaLogDirs, KIP-113)."""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.cluster_client import Client, check
from ottla.node.client.log_dirs import describe_log_dirs
from ottla.node.client.reassignment_plan import Replica
from ottla.node.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)


class LogDirMove(NamedTuple):
    """A replica that a plan puts into a log directory.

    `current` is the directory it is in, None if no directory that is online has it; `future` is the directory
    that it is being copied to, None if it is not moving. Both are unknown if there is a `problem`: the broker
    did not answer.
    """

    replica: Replica
    wanted: str
    current: str | None
    future: str | None
    problem: KafkaError | None = None

    @property
    def is_active(self) -> bool:
        """Return whether the replica is being copied to another directory."""
        return self.current is not None and self.future is not None

    @property
    def is_completed(self) -> bool:
        """Return whether the replica is in the directory of the plan, and stays there."""
        return self.current == self.wanted and self.future is None


async def start_log_dir_moves(client: Client, wanted: Mapping[Replica, str]) -> set[Replica]:
    """Ask brokers to move replicas to these directories; return those that are moving or there already.

    The others are not on their broker yet: it creates them in that directory if they come before it is
    restarted. KafkaError for a directory that is not one of the broker's or is offline; moves of other
    brokers may have started then.
    """
    started: set[Replica] = set()
    for broker_id in sorted({one.broker_id for one in wanted}):
        mine = {one: path for one, path in wanted.items() if one.broker_id == broker_id}
        connection = await client.node(broker_id)
        response = await connection.request(
            AlterReplicaLogDirsRequest(dirs=_dirs(mine)),
            AlterReplicaLogDirsResponse,
            timeout_s=client.remaining_s,
        )
        for topic in response.results:
            for result in topic.partitions:
                replica = Replica(TopicPartition(topic.topic_name, result.partition_index), broker_id)
                if result.error_code == ErrorCode.REPLICA_NOT_AVAILABLE:
                    continue
                check(result.error_code, None, f"log directory {mine.get(replica)} of broker {broker_id}")
                started.add(replica)
    return started


def _dirs(wanted: Mapping[Replica, str]) -> list[AlterReplicaLogDir]:
    found: dict[str, dict[str, list[int]]] = {}
    for one, path in sorted(wanted.items()):
        topics = found.setdefault(path, {})
        topics.setdefault(one.partition.topic, []).append(one.partition.partition)
    return [
        AlterReplicaLogDir(
            path=path,
            topics=[
                AlterReplicaLogDirTopic(name=name, partitions=numbers) for name, numbers in topics.items()
            ],
        )
        for path, topics in found.items()
    ]


async def describe_log_dir_moves(client: Client, wanted: Mapping[Replica, str]) -> list[LogDirMove]:
    """Return the state of the moves to these directories; a broker that does not answer is their problem."""
    if not wanted:
        return []
    current: dict[Replica, str] = {}
    future: dict[Replica, str] = {}
    problems: dict[int, KafkaError] = {}
    partitions = sorted({one.partition for one in wanted})
    broker_ids = sorted({one.broker_id for one in wanted})
    for broker in await describe_log_dirs(client, broker_ids=broker_ids, partitions=partitions):
        if broker.error is not None:
            problems[broker.broker_id] = broker.error
        for log_dir in broker.log_dirs:
            for size in log_dir.replicas:
                found = future if size.is_future else current
                found[Replica(size.partition, broker.broker_id)] = log_dir.path
    return [
        LogDirMove(one, path, current.get(one), future.get(one), problems.get(one.broker_id))
        for one, path in sorted(wanted.items())
    ]


def sentence_of(move: LogDirMove) -> str:
    """Return the state of a move in the words of kafka-reassign-partitions."""
    replica, wanted, current, future, problem = move
    on_broker = f"Partition {replica.partition} on broker {replica.broker_id}"
    if problem is not None:
        return (
            f"The log directory of replica {replica} is unknown, because broker {replica.broker_id} "
            "does not answer."
        )
    if current is None:
        return (
            f"Partition {replica.partition} is not found in any live log dir on broker {replica.broker_id}. "
            "There is likely an offline log directory on the broker."
        )
    if future is not None and future != wanted:
        return f"{on_broker} is being moved to log dir {future} instead of {wanted}."
    if future is not None:
        return f"Reassignment of replica {replica} is still in progress."
    if current != wanted:
        return f"{on_broker} is not being moved from log dir {current} to {wanted}."
    return f"Reassignment of replica {replica} completed successfully."
