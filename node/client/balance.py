"""Balances a cluster on request: shows the plan, starts it, returns its progress and cancels it.

The controller does the work (`ottla.balance.requested`), so the client need not stay connected.
"""

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.balance_plan import BalancePlan, BrokerRoom, PlacedPartition, plan_balance
from ottla.node.client import cluster_admin, topic_admin
from ottla.node.client.balance_exclusion import settings_of_first_broker
from ottla.node.client.cluster_client import Client
from ottla.node.client.config_admin import (
    DELETE,
    SET,
    ConfigChange,
    change_config,
    config_of_all_brokers,
)
from ottla.node.client.log_dirs import BrokerLogDirs, describe_log_dirs
from ottla.node.settings.balance_settings import (
    ENABLE,
    EXCLUDED,
    MAX_RATE,
    NOT_LEADING,
    REQUESTED,
    excluded_brokers,
)
from ottla.node.wire.messages.describe_cluster import DescribeClusterBroker

# The growth of partitions is measured over this time, and over at most this share of the timeout.
SAMPLE_S: Final = 3.0
SAMPLE_SHARE: Final = 0.25


class BalanceSettings(NamedTuple):
    """The current settings, as a broker that is up returns them."""

    is_enabled: bool
    is_requested: bool
    max_bytes_per_second: int
    excluded: frozenset[int]
    not_leading: frozenset[int]


class BalanceStatus(NamedTuple):
    """The settings, the partitions that move, and the plan for the state after these moves."""

    settings: BalanceSettings
    moving: Mapping[TopicPartition, "MovingPartition"]
    plan: BalancePlan


class MovingPartition(NamedTuple):
    """The brokers that get and lose a replica of a partition."""

    adding: tuple[int, ...]
    removing: tuple[int, ...]


async def read_settings(client: Client) -> BalanceSettings:
    """Return the settings of a balance, as a broker that is up has them."""
    values = await settings_of_first_broker(client)
    return BalanceSettings(
        values.get(ENABLE) == "true",
        values.get(REQUESTED) == "true",
        int(values.get(MAX_RATE) or 0),
        excluded_brokers(values.get(EXCLUDED, "").split(",")),
        excluded_brokers(values.get(NOT_LEADING, "").split(",")),
    )


async def make_plan(client: Client, settings: BalanceSettings, *, measures: bool = True) -> BalancePlan:
    """Return the plan for the state of the cluster after the current moves.

    It takes some seconds if it `measures` how fast partitions grow. KafkaError if a broker that is not fenced
    does not answer.
    """
    sample_s = min(SAMPLE_S, SAMPLE_SHARE * client.timeout_s) if measures else 0.0
    cluster = await cluster_admin.describe_cluster(client)
    up = {one.broker_id: one for one in cluster.brokers if not one.is_fenced}
    before = _sizes(await _log_dirs(client, up)) if sample_s else {}
    await asyncio.sleep(sample_s)
    log_dirs = await _log_dirs(client, up)
    sizes = _sizes(log_dirs)
    ongoing = await cluster_admin.list_moves(client)
    partitions = []
    for topic in await topic_admin.describe_topics(client, None):
        for one in topic.partitions:
            partition = TopicPartition(topic.name or "", one.partition_index)
            move = ongoing.get(partition)
            leaving = move.removing_replicas if move is not None else ()
            replicas = tuple(replica for replica in one.replica_nodes if replica not in leaving)
            size_bytes = max((sizes.get((replica, partition), 0) for replica in replicas), default=0)
            led = (one.leader_id, partition)
            grown = max(0, sizes.get(led, 0) - before.get(led, sizes.get(led, 0)))
            rate = grown / sample_s if sample_s else 0.0
            partitions.append(PlacedPartition(partition, replicas, size_bytes, rate))
    rooms = _rooms(log_dirs, up)
    return await asyncio.to_thread(
        partial(
            plan_balance,
            rooms,
            partitions,
            leaving=settings.excluded,
            not_leading=settings.not_leading,
        )
    )


async def _log_dirs(client: Client, up: Iterable[int]) -> list[BrokerLogDirs]:
    """Return the log directories of these brokers; without those of all, disks would count as empty."""
    brokers = await describe_log_dirs(client, broker_ids=list(up))
    for one in brokers:
        if one.error is not None:
            raise one.error
    return brokers


def _sizes(brokers: Iterable[BrokerLogDirs]) -> dict[tuple[int, TopicPartition], int]:
    return {
        (broker.broker_id, replica.partition): replica.size_bytes
        for broker in brokers
        for log_dir in broker.log_dirs
        for replica in log_dir.replicas
        if not replica.is_future
    }


def _rooms(brokers: Iterable[BrokerLogDirs], up: Mapping[int, DescribeClusterBroker]) -> list[BrokerRoom]:
    rooms = []
    for broker in brokers:
        totals = [(one.total_bytes or 0, one.usable_bytes or 0) for one in broker.log_dirs if not one.error]
        disk_bytes = sum(total for total, _ in totals)
        used_bytes = disk_bytes - sum(usable for _, usable in totals)
        rooms.append(BrokerRoom(broker.broker_id, up[broker.broker_id].rack, disk_bytes, used_bytes))
    return rooms


async def begin(client: Client) -> None:
    """Make the controller balance the cluster until nothing is left to move."""
    await change_config(client, config_of_all_brokers(), [ConfigChange(REQUESTED, SET, "true")])


async def cancel(client: Client) -> list[TopicPartition]:
    """Stop the balance in the controller, and cancel all reassignments, also those that it did not start.

    Return the partitions whose reassignments were under way.
    """
    # The throttle is removed with the request, and then moves could complete before they are cancelled.
    moving = await _take_back(client)
    await change_config(client, config_of_all_brokers(), [ConfigChange(REQUESTED, DELETE)])
    return sorted({*moving, *await _take_back(client)})


async def _take_back(client: Client) -> list[TopicPartition]:
    moving = list(await cluster_admin.list_moves(client))
    await cluster_admin.move_partitions(client, dict.fromkeys(moving))
    return moving


async def status(client: Client, *, measures: bool = False) -> BalanceStatus:
    """Return the settings, the current moves and the plan; `measures` as in `make_plan`."""
    settings = await read_settings(client)
    moving = {
        partition: MovingPartition(tuple(one.adding_replicas), tuple(one.removing_replicas))
        for partition, one in sorted((await cluster_admin.list_moves(client)).items())
    }
    return BalanceStatus(settings, moving, await make_plan(client, settings, measures=measures))


def as_json(made: BalancePlan, settings: BalanceSettings, most: int | None = None) -> dict[str, object]:
    """Return a plan and its first `most` moves as a JSON object, for the command line and the REST API."""
    return {
        "enabled": settings.is_enabled,
        "requested": settings.is_requested,
        "max_bytes_per_second": settings.max_bytes_per_second,
        "excluded": sorted(settings.excluded),
        "not_leading": sorted(settings.not_leading),
        "copied_bytes": made.copied_bytes,
        "least_ms": round(1_000 * made.least_s(settings.max_bytes_per_second)),
        "move_count": len(made.moves),
        "moves": [
            {
                "topic": move.topic_partition.topic,
                "partition": move.topic_partition.partition,
                "replicas": list(move.before),
                "new_replicas": list(move.after),
                "copied_bytes": move.copied_bytes,
                "reason": move.goal.value,
            }
            for move in made.moves[:most]
        ],
        "brokers": [
            {"broker": broker_id, "before": share._asdict(), "after": made.after[broker_id]._asdict()}
            for broker_id, share in made.before.items()
        ],
    }
