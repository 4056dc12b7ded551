"""Resets of a group's offsets without a cluster: targets, plans, and the files of plans.

The rules are those of Apache Kafka's `kafka-consumer-groups --reset-offsets`: an offset outside the log is
moved to its start or its end, with a warning; a time after the last record means the end; a partition without
a committed offset cannot be shifted, and continues at the end with --to-current.
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


class LogBound(Enum):
    """A target that every partition has: the start of the log, its end, or the committed offset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"


class ToOffset(NamedTuple):
    """A target: the same offset in every partition."""

    offset: int


class ShiftBy(NamedTuple):
    """A target: this many offsets after the committed one; before it if negative."""

    by: int


class ToTime(NamedTuple):
    """A target: the first record at or after this time, in ms since 1970."""

    timestamp_ms: int


class ToFile(NamedTuple):
    """A target: the offsets that a file has for each group."""

    offsets: Mapping[str, Mapping[TopicPartition, int]]


Target: TypeAlias = LogBound | ToOffset | ShiftBy | ToTime | ToFile


class PartitionFacts(NamedTuple):
    """The committed offset of a partition, the start and end of its log, and the offset at a time."""

    committed: int | None
    first: int
    end: int
    at_time: int | None = None


class Change(NamedTuple):
    """The offset of a group in a partition before and after a reset; a warning if it was adjusted."""

    partition: TopicPartition
    before: int | None
    after: int
    warning: str | None = None


def plan_reset(group_id: str, target: Target, facts: Mapping[TopicPartition, PartitionFacts]) -> list[Change]:
    """Return the change of each partition; ValueError with a sentence if one of them cannot be reset."""
    return [_change(group_id, partition, target, known) for partition, known in sorted(facts.items())]


def _change(group_id: str, partition: TopicPartition, target: Target, known: PartitionFacts) -> Change:
    warning = None
    match target:
        case LogBound.EARLIEST:
            after = known.first
        case LogBound.LATEST:
            after = known.end
        case LogBound.CURRENT:
            after = known.end if known.committed is None else known.committed
        case ToOffset(offset):
            after, warning = _clamped(offset, known)
        case ToFile(offsets):
            after, warning = _clamped(offsets[group_id][partition], known)
        case ShiftBy(by):
            if known.committed is None:
                raise ValueError(
                    f"{partition} cannot be shifted: group {group_id} has no committed offset there"
                )
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
    """Return the offset, or the nearest one that the log has, with a warning."""
    if offset > known.end:
        return known.end, f"{offset} is after the log end; {known.end} is used"
    if offset < known.first:
        return known.first, f"{offset} is before the first record; {known.first} is used"
    return offset, None


def parse_partitions(text: str) -> tuple[str, list[int] | None]:
    """Parse `TOPIC` (None: all of its partitions) or `TOPIC:0,1`; ValueError for anything else."""
    name, separator, numbers = text.partition(":")
    if not separator and name:
        return name, None
    words = numbers.split(",")
    if not name or not all(word.isascii() and word.isdigit() and len(word) < 11 for word in words):
        raise ValueError(f"{text!r} is not TOPIC or TOPIC:PARTITION,...")
    return name, sorted({int(word) for word in words})


# ---- files ---------------------------------------------------------------------------------------


def parse_plan(text: str, group_ids: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    """Return the offsets of each group in a file of lines `group,topic,partition,offset`.

    For a single group, lines `topic,partition,offset` are accepted too. ValueError names the first invalid
    line.
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
    """Return an integer as Kafka's tools parse it; `plan_reset` moves a negative one to the first offset."""
    number = int(word) if re.fullmatch(r" *-?[0-9]{1,19} *", word, re.ASCII) else None
    return number if number is not None and abs(number) <= MAX_OFFSET else None


def plan_text(plans: Mapping[str, Sequence[Change]]) -> str:
    """Return a file for `parse_plan` and `kafka-consumer-groups --from-file`, short for a single group."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group_id, changes in plans.items():
        head = [] if len(plans) == 1 else [group_id]
        writer.writerows([*head, *one.partition, one.after] for one in changes)
    return out.getvalue()
