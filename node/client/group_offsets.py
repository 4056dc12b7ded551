"""Where the offsets of a group go when they are reset: targets, plans and their files, without a cluster.

The rules are those of Apache Kafka's `kafka-consumer-groups --reset-offsets`: an offset outside the log is
moved to its first or its end, with a warning; a time after the last record is the end, too; what was never
committed cannot be shifted, and with --to-current goes on at the end.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias

from ottla.logstore.words.topic_partition import TopicPartition

MAX_OFFSET = 2**63 - 1
MAX_PARTITION = 2**31 - 1


class Edge(Enum):
    """A place that every log has, and where the group is now."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"


class ToOffset(NamedTuple):
    """The same offset in every partition."""

    offset: int


class ShiftBy(NamedTuple):
    """So many records on from the committed offset; back if negative."""

    by: int


class ToTime(NamedTuple):
    """The first record at or after this time, ms since 1970."""

    timestamp_ms: int


class ToFile(NamedTuple):
    """The offsets that a file has for each group."""

    offsets: Mapping[str, Mapping[TopicPartition, int]]


Target: TypeAlias = Edge | ToOffset | ShiftBy | ToTime | ToFile


class PartitionFacts(NamedTuple):
    """What is known of a partition: the committed offset, the log's first and end, the offset at a time."""

    committed: int | None
    first: int
    end: int
    at_time: int | None = None


class Change(NamedTuple):
    """Where a group is in a partition and where it goes, and a warning if that is not what was asked for."""

    partition: TopicPartition
    before: int | None
    after: int
    warning: str | None = None


def plan_reset(group_id: str, target: Target, facts: Mapping[TopicPartition, PartitionFacts]) -> list[Change]:
    """What becomes of each partition; ValueError with a sentence when one of them cannot be reset so."""
    return [_change(group_id, partition, target, known) for partition, known in sorted(facts.items())]


def _change(group_id: str, partition: TopicPartition, target: Target, known: PartitionFacts) -> Change:
    warning = None
    match target:
        case Edge.EARLIEST:
            after = known.first
        case Edge.LATEST:
            after = known.end
        case Edge.CURRENT:
            after = known.end if known.committed is None else known.committed
        case ToOffset(offset):
            after, warning = _clamped(offset, known)
        case ToFile(offsets):
            after, warning = _clamped(offsets[group_id][partition], known)
        case ShiftBy(by):
            if known.committed is None:
                raise ValueError(f"{partition} cannot be shifted: group {group_id} has no offset there")
            after, warning = _clamped(known.committed + by, known)
        case ToTime():
            after = known.end if known.at_time is None else known.at_time
            warning = (
                None
                if known.at_time is not None
                else f"there is no record that late; the log end {after} is used"
            )
    return Change(partition, known.committed, after, None if warning is None else f"{partition}: {warning}")


def _clamped(offset: int, known: PartitionFacts) -> tuple[int, str | None]:
    """The offset, or the nearest one that the log has, with a warning."""
    if offset > known.end:
        return known.end, f"{offset} is after the log end; {known.end} is used"
    if offset < known.first:
        return known.first, f"{offset} is before the first record; {known.first} is used"
    return offset, None


def parse_partitions(text: str) -> tuple[str, list[int] | None]:
    """`TOPIC` (all of its partitions: None) or `TOPIC:0,1`; ValueError for others."""
    name, separator, numbers = text.partition(":")
    if not separator and name:
        return name, None
    words = numbers.split(",")
    if not name or not all(word.isascii() and word.isdigit() and len(word) < 11 for word in words):
        raise ValueError(f"{text!r} is not TOPIC or TOPIC:PARTITION,...")
    return name, sorted({int(word) for word in words})


# ---- files ---------------------------------------------------------------------------------------


def parse_plan(text: str, group_ids: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    """The offsets of each group in a file of lines `group,topic,partition,offset`.

    For a single group `topic,partition,offset` will do. ValueError names the line that is neither.
    """
    plan: dict[str, dict[TopicPartition, int]] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        fields = _fields(line, number)
        if not fields:
            continue
        if len(fields) == 3 and len(group_ids) == 1:
            fields = [group_ids[0], *fields]
        if len(fields) != 4:
            wanted = "topic,partition,offset" if len(group_ids) == 1 else "group,topic,partition,offset"
            raise ValueError(f"Line {number} is not {wanted}.")
        group_id, topic, *numbers = fields
        partition, offset = (_number(word) for word in numbers)
        if not topic or partition is None or not 0 <= partition <= MAX_PARTITION or offset is None:
            raise ValueError(f"Line {number} has no topic, or its partition or offset is not a number.")
        place = TopicPartition(topic, partition)
        if place in plan.setdefault(group_id, {}):
            raise ValueError(f"Line {number} names {place} again.")
        plan[group_id][place] = offset
    return plan


def _fields(line: str, number: int) -> list[str]:
    try:
        return next(csv.reader([line.rstrip("\r")]), [])
    except csv.Error as error:
        raise ValueError(f"Line {number} is not CSV: {error}.") from None


def _number(word: str) -> int | None:
    """A number as Kafka's tools read it; one below zero becomes the first offset later."""
    number = int(word) if re.fullmatch(r" *-?[0-9]{1,19} *", word, re.ASCII) else None
    return number if number is not None and abs(number) <= MAX_OFFSET else None


def plan_text(plans: Mapping[str, Sequence[Change]]) -> str:
    """The file that `parse_plan` reads, and `kafka-consumer-groups --from-file`: short for a single group."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group_id, changes in plans.items():
        head = [] if len(plans) == 1 else [group_id]
        writer.writerows([*head, *one.partition, one.after] for one in changes)
    return out.getvalue()
