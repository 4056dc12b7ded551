"""The history of administrators' requests, with the checks that the metadata agree with it in the end.

A request without an answer may still take effect, once, at any later time. Its value stays in doubt: at the
end the metadata may have it, or the value that was answered last.
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
class RequestedValue(Generic[V]):
    """A value that can be set: the last one that was answered, and others that may have taken effect."""

    settled: V
    in_doubt: list[V] = field(default_factory=list)
    is_unknown: bool = False  # unknown until the next answer

    def request(self, value: V) -> None:
        self.in_doubt.append(value)

    def settle(self, value: V) -> None:
        """Note that the value was set."""
        self.in_doubt.remove(value)
        self.settled, self.is_unknown = value, False

    def reject(self, value: V) -> None:
        """Note that the value was rejected."""
        self.in_doubt.remove(value)

    def allows(self, value: V) -> bool:
        return self.is_unknown or value == self.settled or value in self.in_doubt

    def __str__(self) -> str:
        return f"{self.settled!r}, in doubt {self.in_doubt!r}"


@dataclass(slots=True)
class TopicHistory:
    """The requests for a topic and their answers."""

    partitions: RequestedValue[int]
    is_created: bool = False  # answered with success
    is_deletion_requested: bool = False
    is_deleted: bool = False  # answered with success
    settings: dict[str, RequestedValue[str | None]] = field(default_factory=dict)

    def setting(self, name: str) -> RequestedValue[str | None]:
        return self.settings.setdefault(name, RequestedValue(None))


class AdminHistory:
    """The knowledge of all administrators."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicHistory] = {}
        self.assignments: dict[TopicPartition, RequestedValue[tuple[int, ...]]] = {}
        self._cancels_in_doubt: set[TopicPartition] = set()
        self.votes: dict[int, RequestedValue[bool]] = {}  # by node: True if it is a voter

    # ---- topics ----------------------------------------------------------------------------------------

    def check_not_repeated(self, error: KafkaError, topic: str) -> None:
        """Check that no request took effect twice or was lost, as each is sent only once."""
        is_gone = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self.topics[topic].is_created
        is_there = error.code in (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_PARTITIONS)
        if is_gone or is_there:
            raise SimulationError(f"a single request for {topic} was carried out twice, or is lost: {error}")

    # ---- reassignments ---------------------------------------------------------------------------------

    def cancel_requested(self, partition: TopicPartition) -> None:
        self._cancels_in_doubt.add(partition)

    def cancel_answered(self, partition: TopicPartition, *, is_done: bool) -> None:
        """Note the answer to a cancellation, after which any earlier assignment is possible."""
        self._cancels_in_doubt.discard(partition)
        if is_done and partition in self.assignments:
            self.assignments[partition].is_unknown = True

    # ---- end -------------------------------------------------------------------------------------------

    def check(self, node: str, image: MetadataImage) -> None:
        """Compare with the metadata of a node, which must be complete."""
        for name, topic in self.topics.items():
            self._check_topic(node, name, topic, image)
        for partition, requested in self.assignments.items():
            found = image.topics.partition(partition)
            if found is not None and partition not in self._cancels_in_doubt:
                _check_assignment(node, partition, requested, found)
        voters = [voter.voter_id for voter in image.voters]
        for node_id, vote in self.votes.items():
            if not vote.allows(node_id in voters):
                raise SimulationError(f"{node} has the voters {voters}, requested of {node_id} was {vote}")

    def _check_topic(self, node: str, name: str, topic: TopicHistory, image: MetadataImage) -> None:
        found: TopicImage | None = image.topics.by_name.get(name)
        if topic.is_created and not topic.is_deletion_requested and found is None:
            raise SimulationError(f"{node} does not know topic {name}, which was created")
        if topic.is_deleted and found is not None:
            raise SimulationError(f"{node} still knows topic {name}, which was deleted")
        if found is None:
            return
        if not topic.partitions.allows(len(found.partitions)):
            raise SimulationError(
                f"{node} has {len(found.partitions)} partitions of {name}, requested was {topic.partitions}"
            )
        settings: Mapping[str, str] = image.configs.topic(name)
        for key, setting in topic.settings.items():
            if not setting.allows(settings.get(key)):
                raise SimulationError(f"{node} has {key} {settings.get(key)} of {name}, not {setting}")


def _check_assignment(
    node: str, partition: TopicPartition, requested: RequestedValue[tuple[int, ...]], found: PartitionImage
) -> None:
    replicas: Sequence[int] = found.replicas
    if found.adding_replicas or found.removing_replicas or not requested.allows(tuple(replicas)):
        raise SimulationError(
            f"{node} has {partition} on {list(replicas)} (adding {list(found.adding_replicas)}, removing"
            f" {list(found.removing_replicas)}), requested was {requested}"
        )
