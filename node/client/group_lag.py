"""The lag of groups, in records and in time: from the coordinator, or measured from any server's responses.

Kafka has no API for the time, which is the age of the oldest record that the group has not committed. Ottla
returns it with the offsets. For other servers it is read from one batch of each partition that has a lag, by
the clock of this machine.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from ottla.logstore.oldest_record import Oldest, oldest_record
from ottla.logstore.record_batch import NO_TIMESTAMP
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import group_admin, topic_admin
from ottla.node.client.ask_leaders import for_lookup
from ottla.node.client.cluster_client import RETRY_PAUSE_S, Client
from ottla.node.client.consumer import fetch_once, records_in
from ottla.node.client.group_admin import Committed, ListedGroup
from ottla.node.client.share_group_admin import SHARE, ShareStart, share_lags, share_starts
from ottla.node.wire.messages.describe_share_partitions import InFlightState
from ottla.node.wire.messages.fetch import PartitionData

ATTEMPTS: Final = 5  # to find a leader that moves; a caller that monitors lag will ask again
# Of a partition in the first fetch, since most batches are smaller. If a batch does not fit, more is fetched.
FIRST_FETCH_BYTES: Final = 32 * 1024
NEXT_FETCH_BYTES: Final = 1024 * 1024
GROUPS_PER_REQUEST: Final = 10  # the response, with each partition of each group, is decoded in one turn


class PartitionLag(NamedTuple):
    """The committed offset and the log end of a partition; None if unknown: no commit, or no leader."""

    committed_offset: int | None  # of a share group: its start offset
    log_end_offset: int | None
    age_ms: int | None = None
    coordinator_lag: int | None = None  # of a share group: the lag that its coordinator returns
    in_flight: InFlightState | None = None  # of a share group: the state at the partition's leader

    @property
    def records(self) -> int | None:
        """Return the offsets between commit and end; as in Kafka, markers and compacted gaps count too.

        In a share group, it is the offsets after the start that are neither acknowledged nor archived.
        """
        if self.coordinator_lag is not None:
            return self.coordinator_lag
        if self.committed_offset is None or self.log_end_offset is None:
            return None
        return max(self.log_end_offset - self.committed_offset, 0)


class GroupLag(NamedTuple):
    """The lag of a group over several partitions: the sum in records, and the longest in time, if known."""

    records: int | None
    age_ms: int | None


async def of_group(
    client: Client,
    group_id: str,
    assigned: Iterable[TopicPartition],
    *,
    is_wanted: Callable[[TopicPartition], bool],
    with_age: bool,
) -> dict[TopicPartition, PartitionLag]:
    """Return the lag of the partitions that a group committed, and of those assigned to its members."""
    known = await group_admin.committed(client, group_id, with_lag=with_age)
    every: dict[TopicPartition, int | None] = dict.fromkeys(assigned) | known.offsets
    committed_offsets = {one: offset for one, offset in every.items() if is_wanted(one)}
    returned = known.lags or {}
    lags = {
        one: PartitionLag(committed_offsets[one], end, age_ms)
        for one, (end, age_ms) in returned.items()
        if one in committed_offsets
    }
    # The rest is measured here: a new leader may have been elected, and other brokers may know a leader that
    # the coordinator does not know yet.
    rest = {one: offset for one, offset in committed_offsets.items() if one not in lags}
    return dict(sorted((lags | await measure(client, rest, with_age=with_age)).items()))


async def of_share_group(
    client: Client,
    group_id: str,
    assigned: Iterable[TopicPartition],
    *,
    is_wanted: Callable[[TopicPartition], bool],
    with_in_flight: bool = False,
) -> dict[TopicPartition, PartitionLag]:
    """Return the start offset and the lag of a share group in each partition; the age is unknown.

    As in `kafka-share-groups`, a partition has no lag if the coordinator returns none. But if members read it
    and have not acknowledged anything yet, the leader knows its start offset.
    """
    starts = await share_starts(client, group_id, with_in_flight=with_in_flight)
    partitions = sorted(one for one in {*assigned, *starts} if is_wanted(one))
    ends = await log_offsets(client, partitions, topic_admin.LATEST)
    lags: dict[TopicPartition, PartitionLag] = {}
    for one in partitions:
        lags[one] = _share_lag(starts.get(one), ends.get(one))
    return lags


def _share_lag(start: ShareStart | None, end: int | None) -> PartitionLag:
    if start is None:
        return PartitionLag(None, None)
    if start.lag is not None:
        return PartitionLag(start.offset, end, None, start.lag, start.in_flight)
    in_flight = start.in_flight
    if in_flight is None or start.offset is not None or end is None:
        # The log end is left out: `records` would be computed from it, and count acknowledged records as lag.
        return PartitionLag(start.offset, None, None, None, in_flight)
    left = max(end - in_flight.start_offset - in_flight.acknowledged - in_flight.archived, 0)
    return PartitionLag(in_flight.start_offset, end, None, left, in_flight)


async def totals(client: Client, groups: Iterable[ListedGroup]) -> dict[str, GroupLag]:
    """Return the total lag of each group as its coordinator returns it; two times None if it returns none.

    Nothing is retried: groups are left out if their coordinator fails with a retriable error, or answers
    them with an error.
    """
    return {name: _whole(topics.values()) for name, topics in (await by_topic(client, groups)).items()}


async def by_topic(client: Client, groups: Iterable[ListedGroup]) -> dict[str, dict[str, GroupLag]]:
    """Return the lag of each group in each topic that it reads, as its coordinator returns it."""
    by_coordinator: dict[tuple[int, bool], list[str]] = {}
    for one in groups:
        is_share = one.group_type.lower() == SHARE
        by_coordinator.setdefault((one.coordinator_id, is_share), []).append(one.group_id)
    found: dict[str, dict[str, GroupLag]] = {}
    for (coordinator_id, is_share), names in sorted(by_coordinator.items()):
        for begin in range(0, len(names), GROUPS_PER_REQUEST):
            some = names[begin : begin + GROUPS_PER_REQUEST]
            try:
                if is_share:
                    shared = await share_lags(client, coordinator_id, some)
                    for name, lags in shared.items():
                        found[name] = {topic: GroupLag(lag, None) for topic, lag in lags.items()}
                else:
                    answers = await group_admin.committed_by_groups(client, coordinator_id, some)
                    found |= {name: _lags_of(committed) for name, committed in answers.items()}
            except KafkaError as error:
                _raise_if_final(error)
                break
    return found


def _lags_of(committed: Committed) -> dict[str, GroupLag]:
    lags = committed.lags or {}
    parts: dict[str, list[GroupLag]] = {}
    for one in {**committed.offsets, **lags}:
        end, age = lags.get(one, (None, None))
        offset = committed.offsets.get(one)
        behind = None if end is None or offset is None else max(end - offset, 0)
        parts.setdefault(one.topic, []).append(GroupLag(behind, age))
    return {topic: _whole(mine) for topic, mine in parts.items()}


def _whole(parts: Iterable[GroupLag]) -> GroupLag:
    known = list(parts)
    records = [one.records for one in known if one.records is not None]
    ages = [one.age_ms for one in known if one.age_ms is not None]
    return GroupLag(sum(records) if records else None, max(ages, default=None))


async def measure(
    client: Client, committed: Mapping[TopicPartition, int | None], *, with_age: bool = True
) -> dict[TopicPartition, PartitionLag]:
    """Return the lag of each partition; if its leader does not answer, the end and the age are unknown."""
    ends = await log_offsets(client, committed, topic_admin.LATEST)
    lags = {one: PartitionLag(offset, ends.get(one)) for one, offset in sorted(committed.items())}
    if not with_age:
        return lags
    behind = {
        one: lag.committed_offset
        for one, lag in lags.items()
        if lag.records and lag.committed_offset is not None
    }
    oldest = await _oldest_records(client, behind, ends)
    now_ms = int(time.time() * 1000)
    return {one: lag._replace(age_ms=age_ms(lag, oldest.get(one), now_ms)) for one, lag in lags.items()}


def age_ms(lag: PartitionLag, oldest: Oldest | None, now_ms: int) -> int | None:
    """Return the age of the oldest record that is not consumed; None if it is unknown."""
    if lag.records is None:
        return None
    if lag.records == 0:
        return 0
    if oldest is None:
        return None
    if oldest.timestamp_ms is None:
        return 0  # only markers, or gaps that compaction left: there is no record to read
    return None if oldest.timestamp_ms == NO_TIMESTAMP else max(0, now_ms - oldest.timestamp_ms)


# ---- ends ----------------------------------------------------------------------------------------


async def log_offsets(
    client: Client, partitions: Iterable[TopicPartition], timestamp: int, *, isolation_level: int = 0
) -> dict[TopicPartition, int]:
    """Return the EARLIEST or LATEST offset of each partition whose leader answers; others are left out."""
    missing = set(partitions)
    client = for_lookup(client)
    found: dict[TopicPartition, int] = {}
    for attempt in range(ATTEMPTS):
        if attempt:
            if not client.deadline.allows(attempt * RETRY_PAUSE_S):
                break
            await asyncio.sleep(attempt * RETRY_PAUSE_S)
        for leader, mine in (await _by_leader(client, missing)).items():
            try:
                answers = await topic_admin.list_offsets_of(
                    client, leader, dict.fromkeys(mine, timestamp), isolation_level=isolation_level
                )
            except KafkaError as error:
                _raise_if_final(error)
                continue
            found |= {one: answer.offset for one, answer in answers.items() if not answer.error_code}
        missing -= found.keys()
        if not missing:
            break
    return found


async def _by_leader(
    client: Client, partitions: Collection[TopicPartition]
) -> dict[int, list[TopicPartition]]:
    """Return the partitions by their current leader; those without one are left out."""
    by_leader: dict[int, list[TopicPartition]] = {}
    if not partitions:
        return by_leader
    await client.refresh(sorted({one.topic for one in partitions}))
    for partition in sorted(partitions):
        topic = client.topics.get(partition.topic)
        leader = -1 if topic is None else topic.leaders.get(partition.partition, -1)
        if leader >= 0:
            by_leader.setdefault(leader, []).append(partition)
    return by_leader


def _raise_if_final(error: KafkaError) -> None:
    """Raise the error if it is not retriable."""
    if not error.code.retriable:
        raise error


# ---- the oldest record ---------------------------------------------------------------------------


async def _oldest_records(
    client: Client, behind: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Oldest]:
    """Return the oldest record of each partition at or after its offset; left out if no leader answers."""
    positions = dict(behind)
    found: dict[TopicPartition, Oldest] = {}
    bytes_each, idle = FIRST_FETCH_BYTES, 0
    while positions and idle < ATTEMPTS:
        before = dict(positions)
        for leader, mine in (await _by_leader(client, positions)).items():
            requested = {one: positions[one] for one in mine}
            try:
                answers = await fetch_once(client, leader, requested, partition_max_bytes=bytes_each)
            except KafkaError as error:
                _raise_if_final(error)
                continue
            too_early = [one for one, data in answers.items() if _is_before_log(data)]
            starts = await log_offsets(client, too_early, topic_admin.EARLIEST)
            for one, data in answers.items():
                if data.error_code:
                    oldest = Oldest(starts.get(one, positions[one]))
                else:
                    oldest = oldest_record(records_in(data), positions[one])
                if oldest.timestamp_ms is None and oldest.offset < ends[one]:
                    positions[one] = oldest.offset
                else:
                    found[one] = oldest
                    del positions[one]
        bytes_each = NEXT_FETCH_BYTES
        idle = idle + 1 if positions == before else 0
    return found


def _is_before_log(data: PartitionData) -> bool:
    """Return True if retention has deleted the group's next record."""
    return data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
