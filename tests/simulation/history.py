"""The history of clients' requests and the cluster's responses, with the checks that it is consistent.

Checked during the run: an offset of a partition shows the same record to all readers. Checked at the end:
each record acknowledged with acks=all is at its offset; each producer's records are in the order in which it
sent them, none twice; a group's offset is the last one committed, or one whose commit was not answered.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.logstore.words.topic_partition import TopicPartition
from tests.simulation.admin_history import AdminHistory
from tests.simulation.group_history import GroupHistory
from tests.simulation.virtual_loop import SimulationError


@dataclass(slots=True)
class PartitionHistory:
    """The values of one partition by offset, as acknowledged and as read."""

    acknowledged: dict[int, bytes] = field(default_factory=dict)
    read: dict[int, bytes] = field(default_factory=dict)
    attempted: set[bytes] = field(default_factory=set)
    delete_requested: int = 0  # records below may be gone
    deleted: int = 0  # records below are gone


class Content(NamedTuple):
    """The final content of a partition: its log start offset, and values by offset."""

    start_offset: int
    values: dict[int, bytes]


@dataclass(slots=True)
class CommitHistory:
    """The last acknowledged commit of a group in a partition, and those that were not answered."""

    acknowledged: int = -1
    in_doubt: set[int] = field(default_factory=set)


class History:
    """The knowledge of all clients; with `may_lose` records may be lost, and none is checked."""

    def __init__(self, *, may_lose: bool = False) -> None:
        self.may_lose = may_lose
        self.partitions: dict[TopicPartition, PartitionHistory] = {}
        self.on_deleted: Callable[[TopicPartition, int], None] = lambda *_: None
        self.commits: dict[tuple[str, TopicPartition], CommitHistory] = {}
        self.admin = AdminHistory()
        self.members = GroupHistory("m", may_lose=may_lose)

    def of(self, topic_partition: TopicPartition) -> PartitionHistory:
        return self.partitions.setdefault(topic_partition, PartitionHistory())

    def attempt(self, topic_partition: TopicPartition, values: list[bytes]) -> None:
        self.of(topic_partition).attempted.update(values)

    def acknowledge(self, topic_partition: TopicPartition, base_offset: int, values: list[bytes]) -> None:
        """Note and check a produce request with acks=all that was acknowledged at an offset."""
        history = self.of(topic_partition)
        if self.may_lose:
            return
        if base_offset < 0:
            raise SimulationError(f"{topic_partition} has acknowledged {values[0][:24]!r} at {base_offset}")
        for offset, value in enumerate(values, base_offset):
            for known in (history.acknowledged, history.read):
                if known.get(offset, value) != value:
                    raise SimulationError(
                        f"{topic_partition} offset {offset} is acknowledged as {value[:24]!r}"
                        f" and was {known[offset][:24]!r}"
                    )
            history.acknowledged[offset] = value

    def note_read(self, topic_partition: TopicPartition, offset: int, value: bytes) -> None:
        """Note and check a record that a consumer read."""
        history = self.of(topic_partition)
        if self.may_lose:
            return
        for known in (history.acknowledged, history.read):
            if known.get(offset, value) != value:
                raise SimulationError(
                    f"{topic_partition} offset {offset} shows {value[:24]!r} and was {known[offset][:24]!r}"
                )
        if value not in history.attempted:
            raise SimulationError(f"{topic_partition} {offset} shows {value[:24]!r}, which was not sent")
        history.read[offset] = value

    def note_deleted(self, topic_partition: TopicPartition, offset: int, low_watermark: int) -> None:
        """Note and check an answered DeleteRecords up to `offset`."""
        history = self.of(topic_partition)
        if low_watermark < offset:
            raise SimulationError(
                f"{topic_partition} was deleted up to {offset}, and its low watermark is {low_watermark}"
            )
        history.deleted = max(history.deleted, offset)
        self.on_deleted(topic_partition, offset)

    def check_end(self, topic_partition: TopicPartition, content: Content) -> None:
        """Compare with the content of the partition after recovery."""
        history, start, values = self.of(topic_partition), content.start_offset, content.values
        if self.may_lose:
            return
        if not history.deleted <= start <= max(history.deleted, history.delete_requested):
            raise SimulationError(
                f"{topic_partition} starts at {start}; records were deleted up to {history.deleted},"
                f" and requested up to {history.delete_requested}"
            )
        for name, known in (("acknowledged", history.acknowledged), ("read before", history.read)):
            for offset, value in known.items():
                if offset >= start and values.get(offset) != value:
                    there = values.get(offset)
                    raise SimulationError(
                        f"{topic_partition} offset {offset} was {name} as {value[:24]!r} and is"
                        f" {'gone' if there is None else repr(there[:24])}, of {len(values)} records"
                    )
        self._check_order(topic_partition, history, content)

    def _check_order(
        self, topic_partition: TopicPartition, history: PartitionHistory, content: Content
    ) -> None:
        """Check that each producer's records are in the order in which it sent them, none twice."""
        last_of: dict[bytes, int] = {}
        for offset, value in sorted(content.values.items()):
            if value not in history.attempted:
                raise SimulationError(f"{topic_partition} has {value[:24]!r} at {offset}, which was not sent")
            producer, number = _sender_of(value)
            if last_of.get(producer, -1) >= number:
                raise SimulationError(
                    f"{topic_partition} has {value[:24]!r} at {offset} after"
                    f" {last_of[producer]} of the same producer"
                )
            last_of[producer] = number

    # ---- groups ------------------------------------------------------------------------------------

    def commit_of(self, group: str, topic_partition: TopicPartition) -> CommitHistory:
        return self.commits.setdefault((group, topic_partition), CommitHistory())

    def check_committed(self, group: str, topic_partition: TopicPartition, offset: int) -> None:
        """Check a committed offset that the coordinator returned."""
        if self.may_lose:
            return
        known = self.commit_of(group, topic_partition)
        if offset != known.acknowledged and offset not in known.in_doubt:
            raise SimulationError(
                f"group {group} has {offset} for {topic_partition}, and committed {known.acknowledged}"
                f" (in doubt: {sorted(known.in_doubt)})"
            )


def _sender_of(value: bytes) -> tuple[bytes, int]:
    """Return the producer of a record, and the record's number in its sequence."""
    producer, number, *_ = value.split(b":")
    return producer, int(number)
