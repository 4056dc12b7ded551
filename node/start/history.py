"""Samples the counters of this node for its history."""

import asyncio
from collections.abc import Iterable
from typing import Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.coordinators.group_lag import GroupOffset
from ottla.node.counters.history import METERS, NO_REQUESTS, TOPIC_METERS, Kind
from ottla.node.counters.node_counts import read_counts
from ottla.node.counters.topic_counters import DELETED_TOPICS
from ottla.node.metrics import read_groups, read_share_starts
from ottla.node.metrics.readings import CommittedReading
from ottla.node.services import Services
from ottla.node.work.turns import Steps, take_turns

APIS: Final = ("Produce", "Fetch")
# Committed offsets in one sample; groups beyond that have no lag in it.
MAX_OFFSETS: Final = 5_000


async def keep_history(services: Services) -> None:
    """Take a sample in each interval of the wall clock until cancelled."""
    history, clock, loop = services.history, services.clock, asyncio.get_running_loop()
    while True:
        if history.begin(clock.now_ms(), loop.time()):
            await take_turns(_note_node_and_topics(services))
            await _note_groups(services)
        await asyncio.sleep((history.interval_ms - clock.now_ms() % history.interval_ms) / 1000)


def _note_node_and_topics(services: Services) -> Steps[None]:
    replicas, history = services.replica_manager, services.history
    counts = yield from read_counts(replicas.counters.values(), services.request_counters.by_version.values())
    size_bytes = 0
    led_bytes: dict[str, int] = {}
    for partition in list(replicas):
        yield
        log_bytes, topic = partition.log.size_bytes, partition.topic_partition.topic
        size_bytes += log_bytes
        if partition.is_leader:
            led_bytes[topic] = led_bytes.get(topic, 0) + log_bytes
    values = [counts.meters[name] for name in METERS]
    values += [counts.requests.get(api, 0) for api in APIS]
    values.append(size_bytes)
    for api in APIS:
        values += counts.latencies.get(api, NO_REQUESTS)
    history.note(Kind.NODE, "", values)
    for topic, one in list(replicas.counters.items()):
        yield
        if topic != DELETED_TOPICS:
            meters = [getattr(one, name) for name in TOPIC_METERS]
            history.note(Kind.TOPIC, topic, [*meters, led_bytes.get(topic, 0)])


async def _note_groups(services: Services) -> None:
    """Record the lags of groups. Leaders know the ends of their logs, so no log is read."""
    groups, _ = await take_turns(read_groups.read_groups(services, MAX_OFFSETS))
    starts, _ = await take_turns(read_share_starts.read_share_starts(services, MAX_OFFSETS))
    places = await take_turns(_places(offsets for _, offsets in groups))
    partitions = dict.fromkeys(places + read_share_starts.ends_to_measure(starts))
    if not partitions:
        return
    ends = await read_groups.measure(services, list(partitions))

    def note_lags() -> Steps[None]:
        for group, offsets in groups:
            yield
            committed = []
            for one in read_groups.with_offsets(group, offsets).committed:
                end = ends.get(_place(one.topic, one.partition))
                lag = None if end is None else max(0, end.log_end_offset - one.offset)
                committed.append(one._replace(lag=lag))
            _note_lag(services, group.group_id, committed)
        for group_id, ones in starts.items():
            yield
            _note_lag(services, group_id, read_share_starts.with_ends(group_id, ones, ends).committed)

    await take_turns(note_lags())


def _places(groups: Iterable[read_groups.Offsets]) -> Steps[list[GroupOffset]]:
    found = []
    for topics in groups:
        yield
        found += [_place(topic, one) for topic, partitions in topics.items() for one in partitions]
    return found


def _place(topic: str, partition: int) -> GroupOffset:
    return GroupOffset(TopicPartition(topic, partition), None)


def _note_lag(services: Services, group_id: str, committed: Iterable[CommittedReading]) -> None:
    known = [one.lag for one in committed if one.lag is not None]
    if known:
        services.history.note(Kind.GROUP, group_id, [sum(known)])
