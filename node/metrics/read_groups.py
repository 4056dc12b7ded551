"""Reads the groups that this node coordinates, and their lag, on the node's loop in steps.

Only the coordinator of a group reports it, so a sum over all nodes is right.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.offsets.offset_values import read_offset_value
from ottla.groupcoord.shard import Group
from ottla.groupcoord.share.share_group import ShareGroup
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.coordinators.group_lag import GroupOffset, PartitionLag
from ottla.node.metrics.readings import CommittedReading, GroupReading
from ottla.node.services import Services
from ottla.node.work.turns import Steps

# For the ends of logs that other nodes lead; partitions of nodes that do not answer by then have no lag.
LAG_TIMEOUT_S: Final = 2.0
# The most series of a group and of a committed offset, by the names of both exporters together, and the bytes
# of a series without the id of the group.
SERIES_OF_GROUP: Final = 3
SERIES_OF_OFFSET: Final = 8
BYTES_OF_SERIES: Final = 150

# Topic -> partition -> value for `read_offset_value`.
Offsets: TypeAlias = Mapping[str, Mapping[int, bytes]]


def read_groups(
    services: Services, max_offsets: int
) -> Steps[tuple[list[tuple[GroupReading, Offsets]], int]]:
    """Read the groups that this node coordinates, one in a step, and the number of offsets left out.

    Offsets remain encoded. A group with more offsets than are left of `max_offsets` is read without any.
    """
    found = [
        (one.coordinator.shard, group)
        for one in services.groups.shards.values()
        if one.coordinator is not None
        for group in one.coordinator.shard.groups.values()
    ]
    readings: list[tuple[GroupReading, Offsets]] = []
    left_out = 0
    for shard, group in found:
        yield
        offsets: Offsets = shard.offsets.topics_of(group.group_id)
        count = sum(map(len, offsets.values()))
        if count > max_offsets:
            left_out += count
            offsets = {}
        max_offsets -= sum(map(len, offsets.values()))
        readings.append((_read_group(group), {topic: dict(values) for topic, values in offsets.items()}))
    return readings, left_out


def _read_group(group: Group) -> GroupReading:
    protocol = {ClassicGroup: "classic", ShareGroup: "share"}.get(type(group), "consumer")
    return GroupReading(
        group_id=group.group_id,
        protocol=protocol,
        state=group.state.value,
        protocol_type=(group.protocol_type or "") if isinstance(group, ClassicGroup) else protocol,
        protocol_name=(group.protocol_name or "") if isinstance(group, ClassicGroup) else "",
        member_count=len(group.members),
    )


def shown_one_by_one(groups: Sequence[GroupReading], max_groups: int, max_bytes: int) -> list[GroupReading]:
    """Return the first groups: at most `max_groups`, and as many as have room in `max_bytes`.

    Each series of a group contains its id, whose length the client chose.
    """
    shown: list[GroupReading] = []
    for group in groups:
        id_bytes = 2 * len(group.group_id.encode(errors="replace"))  # as if each character were escaped
        series = SERIES_OF_GROUP + SERIES_OF_OFFSET * len(group.committed)
        max_bytes -= series * (id_bytes + BYTES_OF_SERIES)
        if len(shown) == max_groups or max_bytes < 0:
            break
        shown.append(group)
    return shown


def with_offsets(group: GroupReading, offsets: Offsets) -> GroupReading:
    """Return the group with its offsets decoded; at 1 us each this is not done on the node's loop."""
    committed = [
        CommittedReading(topic, partition, read_offset_value(value).offset, None, None)
        for topic, partitions in offsets.items()
        for partition, value in partitions.items()
    ]
    return replace(group, committed=committed)


def offsets_to_measure(groups: Sequence[GroupReading]) -> list[GroupOffset]:
    """Return the committed offsets whose lag must be measured for these groups, each once."""
    return list(
        dict.fromkeys(
            GroupOffset(TopicPartition(one.topic, one.partition), one.offset)
            for group in groups
            for one in group.committed
        )
    )


async def measure(services: Services, offsets: Sequence[GroupOffset]) -> dict[GroupOffset, PartitionLag]:
    """Measure the lag at each offset; those whose leader does not answer in time are missing."""
    return await services.group_lag.measure(offsets, timeout_s=LAG_TIMEOUT_S)


def with_lag(group: GroupReading, lags: Mapping[GroupOffset, PartitionLag]) -> GroupReading:
    """Return the group with its measured lag."""
    found = []
    for one in group.committed:
        lag = lags.get(GroupOffset(TopicPartition(one.topic, one.partition), one.offset))
        found.append(one if lag is None else one._replace(lag=lag.records, lag_ms=lag.lag_ms))
    return replace(group, committed=found)
