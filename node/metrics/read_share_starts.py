"""Reads where share groups start and how far they are behind, of states whose coordinator is this node.

A state is with one share coordinator of the cluster, which alone tells of it, so that a sum over all nodes is
right; a group has some on several nodes. The ends of the logs come from their leaders (`group_lag`).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.groupcoord.share_state.share_state_words import NOT_GIVEN
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.coordinators.group_lag import GroupOffset, PartitionLag
from ottla.node.metrics.readings import CommittedReading, GroupReading
from ottla.node.services import Services
from ottla.node.work.turns import Steps


class ShareStart(NamedTuple):
    """The start of a share group in a partition; `done` counts records behind it, -1 where nobody knows."""

    topic: str
    partition: int
    offset: int
    done: int


def read_share_starts(services: Services, most: int) -> Steps[tuple[dict[str, list[ShareStart]], int]]:
    """The starts by group, as many as are wanted, and how many were left out: a step for each state."""
    topics = services.metadata.image.topics.by_id
    starts: dict[str, list[ShareStart]] = {}
    left_out = 0
    for core in services.share_states.cores:
        for key, known in list(core.shard.states.items()):
            yield
            topic, state = topics.get(key.topic_id), known.current
            if topic is None or state.start_offset == NOT_GIVEN:
                continue  # the topic is gone, or nobody has read yet
            if most <= 0:
                left_out += 1
                continue
            most -= 1
            one = ShareStart(topic.name, key.partition, state.start_offset, state.delivery_complete_count)
            starts.setdefault(key.group, []).append(one)
    return starts, left_out


def places_of(starts: Mapping[str, Sequence[ShareStart]]) -> list[GroupOffset]:
    """Return the partitions whose ends have to be known, each once."""
    places = {TopicPartition(one.topic, one.partition) for ones in starts.values() for one in ones}
    return [GroupOffset(place, None) for place in sorted(places)]


def with_ends(
    group_id: str, starts: Sequence[ShareStart], ends: Mapping[GroupOffset, PartitionLag]
) -> GroupReading:
    """Return the group with its starts as offsets, and what lies behind them and is not done with as lag."""
    committed = []
    for topic, partition, offset, done in starts:
        end = ends.get(GroupOffset(TopicPartition(topic, partition), None))
        is_known = end is not None and done != NOT_GIVEN
        lag = max(end.log_end_offset - offset - done, 0) if end is not None and is_known else None
        committed.append(CommittedReading(topic, partition, offset, lag, None))
    return GroupReading(
        group_id=group_id,
        protocol="share",
        state="",
        protocol_type="share",
        protocol_name="",
        member_count=0,
        committed=committed,
    )
