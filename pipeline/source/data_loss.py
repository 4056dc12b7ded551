"""Data that a query should read and cannot: deleted topics and records, and logs that end too early.

`failOnDataLoss` decides whether it stops the query or is only reported in Spark's log.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition
from ottla.pipeline.source.source_offsets import SourceOffsets

Report = Callable[[str], None]


class DataLossError(Exception):
    """Rows that the query should read are gone; `losses` are sentences without full stops."""

    def __init__(self, losses: Sequence[str]) -> None:
        super().__init__(tuple(losses))
        self.losses = tuple(losses)

    def __str__(self) -> str:
        losses = "; ".join(self.losses)
        return f"rows are lost: {losses}. To continue with the rows that are left, set failOnDataLoss=false."


@dataclass(frozen=True, slots=True, kw_only=True)
class LossPolicy:
    """The handling of losses: DataLossError, or a line in a log."""

    fails: bool
    warn: Report = field(repr=False)

    def report(self, losses: Sequence[str]) -> None:
        """Raise or log these losses, if there are any."""
        if losses and self.fails:
            raise DataLossError(losses)
        for loss in losses:
            self.warn(f"rows are lost, but the query continues, because failOnDataLoss is false: {loss}")


def is_replaced(topic: str, before: SourceOffsets, after: SourceOffsets) -> bool:
    """Return True if the name belongs to another topic now; an unknown id counts as the same topic."""
    ids = {before.topic_id(topic), after.topic_id(topic)}
    return ZERO_UUID not in ids and len(ids) == 2


def losses_between(read: SourceOffsets, ends: SourceOffsets) -> list[str]:
    """Return the reasons why a query that has read up to `read` cannot continue to the ends of the logs."""
    losses: dict[str, None] = {}
    for partition, offset in sorted(read.offsets.items()):
        end = ends.offsets.get(partition)
        if is_replaced(partition.topic, read, ends):
            losses[f"topic {partition.topic} was deleted and created again"] = None
        elif end is None:
            losses[f"{partition} no longer exists; everything before offset {offset} was read"] = None
        elif end < offset:
            losses[
                f"{partition} ends at offset {end}, but everything before offset {offset} was already read"
            ] = None
    return list(losses)


def new_partitions(read: SourceOffsets, ends: SourceOffsets) -> list[TopicPartition]:
    """Return the partitions of which nothing was read: added ones, new topics, and topics created again."""
    return [
        partition
        for partition in ends.offsets
        if partition not in read.offsets or is_replaced(partition.topic, read, ends)
    ]


def losses_at_beginnings(beginnings: dict[TopicPartition, int], read: SourceOffsets) -> list[str]:
    """Return the losses of added partitions before they were read, without those of replaced topics."""
    return [
        f"{partition} was added, but begins at offset {offset}"
        for partition, offset in sorted(beginnings.items())
        if offset > 0 and partition not in read.offsets
    ]
