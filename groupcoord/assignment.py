"""Sets of partitions: those that a member is to own, and those that it owns with the epoch of each."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

# Topic id -> partitions. A topic without partitions is left out.
Assignment: TypeAlias = Mapping[bytes, frozenset[int]]
# Topic id -> partition -> the member epoch in which the member got it (KIP-1251).
OwnedEpochs: TypeAlias = Mapping[bytes, Mapping[int, int]]


class TopicPartitions(NamedTuple):
    """Partitions of one topic, as requests and responses list them."""

    topic_id: bytes
    partitions: Sequence[int]


def listed(assignment: Mapping[bytes, Iterable[int]]) -> list[TopicPartitions]:
    """Return the partitions sorted by topic id and number."""
    return [TopicPartitions(topic_id, sorted(assignment[topic_id])) for topic_id in sorted(assignment)]


def without_epochs(owned: OwnedEpochs) -> Assignment:
    return {topic_id: frozenset(partitions) for topic_id, partitions in owned.items()}


def with_epoch(assignment: Assignment, epoch: int) -> OwnedEpochs:
    """Return the partitions as owned since that epoch."""
    return {topic_id: dict.fromkeys(partitions, epoch) for topic_id, partitions in assignment.items()}


def owns_any(owned: Sequence[TopicPartitions] | None, known: OwnedEpochs) -> bool:
    """Return True if a member reports a known partition, or reports nothing: it may own all of them then."""
    if owned is None:
        return True
    return any(
        partition in known.get(topic_id, ()) for topic_id, partitions in owned for partition in partitions
    )


def is_subset(owned: Sequence[TopicPartitions] | None, known: OwnedEpochs) -> bool:
    """Return True if all partitions that a member reports are among the known ones.

    A member that reports nothing may own others, so the result is False.
    """
    if owned is None:
        return False
    return all(
        topic_id in known and known[topic_id].keys() >= set(partitions) for topic_id, partitions in owned
    )
