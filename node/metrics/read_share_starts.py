"""Reads the start offsets of share groups and their lag, from the states that this node coordinates.

Each share-partition state has one share coordinator in the cluster. Only that node reports it, so a sum over
all nodes is right. The states of one group may be on several nodes. The ends of logs come from their leaders
(`group_lag`).
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
    """The start offset of a share group in a partition.

    `done` counts the records after it whose delivery is complete; -1 if their number is unknown.
    """

    topic: str
    partition: int
    offset: int
    done: int


def read_share_starts(services: Services, most: int) -> Steps[tuple[dict[str, list[ShareStart]], int]]:
    """Return at most `most` start offsets by group, and the number left out; one state in a step."""
    topics = services.metadata.image.topics.by_id
    starts: dict[str, list[ShareStart]] = {}
    left_out = 0
    for core in services.share_states.cores:
        for key, known in list(core.shard.states.items()):
            yield
            topic, state = topics.get(key.topic_id), known.current
            if topic is None or state.start_offset == NOT_GIVEN:
                continue  # the topic is deleted, or no member has fetched yet
            if most <= 0:
                left_out += 1
                continue
            most -= 1
            one = ShareStart(topic.name, key.partition, state.start_offset, state.delivery_complete_count)
            starts.setdefault(key.group, []).append(one)
    return starts, left_out


def ends_to_measure(starts: Mapping[str, Sequence[ShareStart]]) -> list[GroupOffset]:
    """Return the partitions whose ends are needed, each once."""
    places = {TopicPartition(one.topic, one.partition) for ones in starts.values() for one in ones}
    return [GroupOffset(place, None) for place in sorted(places)]


def with_ends(
    group_id: str, starts: Sequence[ShareStart], ends: Mapping[GroupOffset, PartitionLag]
) -> GroupReading:
    """Return the group with its start offsets as committed offsets, and their lag.

    The lag is the number of records from the start offset to the end of the log, without those that are done.
    """
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
