"""Reads the groups that this node coordinates, and how far they are behind: on the node's loop, in turns.

Only the coordinator of a group tells of it, so that a sum over all nodes is right.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from groupcoord.classic_group import ClassicGroup
from groupcoord.offset_values import read_offset_value
from groupcoord.shard import Group, Shard
from logstore.topic_partition import TopicPartition
from node.metrics.readings import CommittedReading, GroupReading
from node.runtime.group_lag import PartitionLag, Place

if TYPE_CHECKING:
    from node.broker import Broker

# Read in one call: some 2 us each, and 1 us for each of its offsets.
GROUPS_AT_ONCE: Final = 256
# For the ends of logs that other nodes lead. Who does not answer by then is left out of this scrape.
LAG_TIMEOUT_S: Final = 2.0

Found: TypeAlias = tuple[Shard, Group]


def groups_of(broker: "Broker") -> list[Found]:
    """All groups that this node coordinates, to be read some at a time."""
    shards = [one.coordinator.shard for one in broker.groups.shards if one.coordinator is not None]
    return [(shard, group) for shard in shards for group in list(shard.groups.values())]


def read_groups(_: "Broker", found: Sequence[Found], max_offsets: int) -> tuple[list[GroupReading], int]:
    """These groups, with as many of their offsets as are wanted; how many of these were left out."""
    readings: list[GroupReading] = []
    left_out = 0
    for shard, group in found:
        topics = shard.offsets.topics_of(group.group_id)
        count = sum(map(len, topics.values()))
        committed: list[CommittedReading] = []
        if count > max_offsets:
            left_out += count
        else:
            max_offsets -= count
            committed = [
                CommittedReading(topic, partition, read_offset_value(value).offset, None, None)
                for topic, partitions in topics.items()
                for partition, value in partitions.items()
            ]
        is_classic = isinstance(group, ClassicGroup)
        readings.append(
            GroupReading(
                group_id=group.group_id,
                protocol="classic" if is_classic else "consumer",
                state=group.state.value,
                protocol_type=(group.protocol_type or "") if isinstance(group, ClassicGroup) else "consumer",
                protocol_name=(group.protocol_name or "") if isinstance(group, ClassicGroup) else "",
                member_count=len(group.members),
                committed=committed,
            )
        )
    return readings, left_out


def places_of(groups: Sequence[GroupReading]) -> list[Place]:
    """Where logs have to be looked at for the lag of these groups; each place once."""
    return list(
        dict.fromkeys(
            Place(TopicPartition(one.topic, one.partition), one.offset)
            for group in groups
            for one in group.committed
        )
    )


async def measure(broker: "Broker", places: Sequence[Place]) -> dict[Place, PartitionLag]:
    """How far each place is behind, as far as leaders answer in time."""
    return await broker.group_lag.measure(places, timeout_s=LAG_TIMEOUT_S)


def with_lag(group: GroupReading, lags: Mapping[Place, PartitionLag]) -> GroupReading:
    """The group with what was measured."""
    found = []
    for one in group.committed:
        lag = lags.get(Place(TopicPartition(one.topic, one.partition), one.offset))
        found.append(one if lag is None else one._replace(lag=lag.records, lag_ms=lag.behind_ms))
    return replace(group, committed=found)
