"""What administrators asked of the cluster, and whether it is as they were told at the end.

A request that was given up may still be carried out, once, at any later time. What it asked for stays in
doubt: it may be what is found, and so may what was answered last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.image import MetadataImage, PartitionImage, TopicImage
from tests.simulation.virtual_loop import SimulationError

V = TypeVar("V")


@dataclass(slots=True)
class Asked(Generic[V]):
    """One thing that can be set: what it is after the last answer, and what may have come of the others."""

    settled: V
    in_doubt: list[V] = field(default_factory=list)
    is_anything: bool = False  # what it is cannot be told until the next answer

    def ask(self, value: V) -> None:
        self.in_doubt.append(value)

    def settle(self, value: V) -> None:
        """It was answered with success."""
        self.in_doubt.remove(value)
        self.settled, self.is_anything = value, False

    def refuse(self, value: V) -> None:
        """It was answered, and nothing was done."""
        self.in_doubt.remove(value)

    def allows(self, value: V) -> bool:
        return self.is_anything or value == self.settled or value in self.in_doubt

    def __str__(self) -> str:
        return f"{self.settled!r}, in doubt {self.in_doubt!r}"


@dataclass(slots=True)
class TopicHistory:
    """What the cluster was asked to do with a topic, and what it answered."""

    partitions: Asked[int]
    is_made: bool = False  # answered with success
    is_deletion_asked: bool = False
    is_deleted: bool = False  # answered with success
    settings: dict[str, Asked[str | None]] = field(default_factory=dict)

    def setting(self, name: str) -> Asked[str | None]:
        return self.settings.setdefault(name, Asked(None))


class AdminHistory:
    """All that administrators know of the cluster."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicHistory] = {}
        self.assignments: dict[TopicPartition, Asked[tuple[int, ...]]] = {}
        self._cancels_in_doubt: set[TopicPartition] = set()
        self.votes: dict[int, Asked[bool]] = {}  # by node: whether it is a voter

    # ---- topics ----------------------------------------------------------------------------------------

    def judge_repeated(self, error: KafkaError, topic: str) -> None:
        """Each thing is asked for once, whatever its answer: a second time is the cluster's own doing."""
        is_gone = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self.topics[topic].is_made
        is_there = error.code in (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_PARTITIONS)
        if is_gone or is_there:
            raise SimulationError(f"what was asked for {topic} once was done twice, or is lost: {error}")

    # ---- reassignments ---------------------------------------------------------------------------------

    def cancel_asked(self, partition: TopicPartition) -> None:
        self._cancels_in_doubt.add(partition)

    def cancel_answered(self, partition: TopicPartition, *, is_done: bool) -> None:
        """A move that was cancelled ends somewhere between all that were asked for."""
        self._cancels_in_doubt.discard(partition)
        if is_done and partition in self.assignments:
            self.assignments[partition].is_anything = True

    # ---- the end ---------------------------------------------------------------------------------------

    def check(self, who: str, image: MetadataImage) -> None:
        """Compare with the metadata of a node that has all of them."""
        for name, told in self.topics.items():
            self._check_topic(who, name, told, image)
        for partition, asked in self.assignments.items():
            found = image.topics.partition(partition)
            if found is not None and partition not in self._cancels_in_doubt:
                _check_assignment(who, partition, asked, found)
        voters = [voter.voter_id for voter in image.voters]
        for node_id, vote in self.votes.items():
            if not vote.allows(node_id in voters):
                raise SimulationError(f"{who} has the voters {voters}, and asked was of {node_id}: {vote}")

    def _check_topic(self, who: str, name: str, told: TopicHistory, image: MetadataImage) -> None:
        found: TopicImage | None = image.topics.by_name.get(name)
        if told.is_made and not told.is_deletion_asked and found is None:
            raise SimulationError(f"{who} does not know topic {name}, which was made")
        if told.is_deleted and found is not None:
            raise SimulationError(f"{who} still knows topic {name}, which was deleted")
        if found is None:
            return
        if not told.partitions.allows(len(found.partitions)):
            raise SimulationError(
                f"{who} has {len(found.partitions)} partitions of {name}, asked was for {told.partitions}"
            )
        settings: Mapping[str, str] = image.configs.topic(name)
        for key, setting in told.settings.items():
            if not setting.allows(settings.get(key)):
                raise SimulationError(f"{who} has {key} {settings.get(key)} of {name}, set was {setting}")


def _check_assignment(
    who: str, partition: TopicPartition, asked: Asked[tuple[int, ...]], found: PartitionImage
) -> None:
    replicas: Sequence[int] = found.replicas
    if found.adding_replicas or found.removing_replicas or not asked.allows(tuple(replicas)):
        raise SimulationError(
            f"{who} has {partition} on {list(replicas)} (coming {list(found.adding_replicas)}, going"
            f" {list(found.removing_replicas)}), asked was for {asked}"
        )
