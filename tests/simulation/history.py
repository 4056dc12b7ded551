"""What clients were told, and whether the cluster's answers fit together.

Held while the run goes on: an offset of a partition shows one record for ever, whoever reads it. Held at
its end: what was acknowledged with acks=all is there, where it was said to be; a producer's records are in
the order in which it sent them, none twice; a group's offset is one that was committed last or may have
been.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from logstore.topic_partition import TopicPartition
from metadata_raft.image import ConfigsImage, TopicImage
from tests.simulation.virtual_loop import SimulationError


@dataclass(slots=True)
class PartitionHistory:
    """Of one partition: value by offset, as it was acknowledged and as it was read."""

    acknowledged: dict[int, bytes] = field(default_factory=dict)
    read: dict[int, bytes] = field(default_factory=dict)
    attempted: set[bytes] = field(default_factory=set)
    unplaced: set[bytes] = field(default_factory=set)  # acknowledged again, without a word where they are


@dataclass(slots=True)
class CommitHistory:
    """Of one group and partition: what was acknowledged last, and what may have taken effect since."""

    acknowledged: int = -1
    in_doubt: set[int] = field(default_factory=set)


@dataclass(slots=True)
class TopicHistory:
    """What the cluster was asked to do with a topic, and what it answered."""

    partitions: int
    is_made: bool = False  # answered with success
    is_deletion_asked: bool = False
    is_deleted: bool = False  # answered with success
    retention_ms: int = -1  # set and answered last
    retentions_in_doubt: set[int] = field(default_factory=set)


class History:
    """All that clients know of the cluster. `may_lose`: records may be lost, so none is looked for."""

    def __init__(self, *, may_lose: bool = False) -> None:
        self.may_lose = may_lose
        self.partitions: dict[TopicPartition, PartitionHistory] = {}
        self.commits: dict[tuple[str, TopicPartition], CommitHistory] = {}
        self.topics: dict[str, TopicHistory] = {}

    def of(self, topic_partition: TopicPartition) -> PartitionHistory:
        return self.partitions.setdefault(topic_partition, PartitionHistory())

    def attempt(self, topic_partition: TopicPartition, values: list[bytes]) -> None:
        self.of(topic_partition).attempted.update(values)

    def acknowledge(self, topic_partition: TopicPartition, base_offset: int, values: list[bytes]) -> None:
        """An acks=all produce was told that its records are safe, and where."""
        told = self.of(topic_partition)
        if self.may_lose:
            return
        if base_offset < 0:
            told.unplaced.update(values)
            return
        for offset, value in enumerate(values, base_offset):
            for known in (told.acknowledged, told.read):
                if known.get(offset, value) != value:
                    raise SimulationError(
                        f"{topic_partition} offset {offset} is acknowledged as {value[:24]!r}"
                        f" and was {known[offset][:24]!r}"
                    )
            told.acknowledged[offset] = value

    def saw(self, topic_partition: TopicPartition, offset: int, value: bytes) -> None:
        """A consumer read a record."""
        told = self.of(topic_partition)
        if self.may_lose:
            return
        for known in (told.acknowledged, told.read):
            if known.get(offset, value) != value:
                raise SimulationError(
                    f"{topic_partition} offset {offset} shows {value[:24]!r} and was {known[offset][:24]!r}"
                )
        if value not in told.attempted:
            raise SimulationError(f"{topic_partition} {offset} shows {value[:24]!r}, which nobody sent")
        told.read[offset] = value

    def check_end(self, topic_partition: TopicPartition, content: dict[int, bytes]) -> None:
        """Compare with what is there when all is well again."""
        if self.may_lose:
            return
        told = self.of(topic_partition)
        for name, known in (("acknowledged", told.acknowledged), ("read before", told.read)):
            for offset, value in known.items():
                if content.get(offset) != value:
                    there = content.get(offset)
                    raise SimulationError(
                        f"{topic_partition} offset {offset} was {name} as {value[:24]!r} and is"
                        f" {'gone' if there is None else repr(there[:24])}, of {len(content)} records"
                    )
        missing = told.unplaced - set(content.values())
        if missing:
            raise SimulationError(f"{topic_partition} has lost {min(missing)[:24]!r}, which was acknowledged")
        last_of: dict[bytes, int] = {}
        for offset in sorted(content):
            value = content[offset]
            if value not in told.attempted:
                raise SimulationError(f"{topic_partition} has {value[:24]!r} at {offset}, which nobody sent")
            producer, number, *_ = value.split(b":")
            if last_of.get(producer, -1) >= int(number):
                raise SimulationError(
                    f"{topic_partition} has {value[:24]!r} at {offset} after"
                    f" {last_of[producer]} of the same producer"
                )
            last_of[producer] = int(number)

    # ---- topics ----------------------------------------------------------------------------------------

    def check_topics(self, who: str, known: Mapping[str, TopicImage], configs: ConfigsImage) -> None:
        """Compare with the metadata of a node that has all of them."""
        for name, told in self.topics.items():
            image = known.get(name)
            if told.is_made and not told.is_deletion_asked and image is None:
                raise SimulationError(f"{who} does not know topic {name}, which was made")
            if told.is_deleted and image is not None:
                raise SimulationError(f"{who} still knows topic {name}, which was deleted")
            if image is None:
                continue
            if len(image.partitions) != told.partitions:
                raise SimulationError(f"{who} has {len(image.partitions)} partitions of {name}")
            retention_ms = int(configs.topic(name).get("retention.ms", "-1"))
            if retention_ms != told.retention_ms and retention_ms not in told.retentions_in_doubt:
                raise SimulationError(
                    f"{who} has retention.ms {retention_ms} of {name}, set was {told.retention_ms}"
                    f" (in doubt: {sorted(told.retentions_in_doubt)})"
                )

    # ---- groups ------------------------------------------------------------------------------------

    def commit_of(self, group: str, topic_partition: TopicPartition) -> CommitHistory:
        return self.commits.setdefault((group, topic_partition), CommitHistory())

    def check_committed(self, group: str, topic_partition: TopicPartition, offset: int) -> None:
        """A committed offset was shown."""
        if self.may_lose:
            return
        known = self.commit_of(group, topic_partition)
        if offset != known.acknowledged and offset not in known.in_doubt:
            raise SimulationError(
                f"group {group} has {offset} for {topic_partition}, committed was {known.acknowledged}"
                f" (in doubt: {sorted(known.in_doubt)})"
            )
