"""The limits of a read, as options give them: edges of the logs, offsets, or times.

There are three options for each limit, and only one of them may be given.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.source.option_names import one_of
from ottla.pipeline.source.source_offsets import (
    EARLIEST,
    LATEST,
    SourceOffsets,
    check_names,
    open_json,
    read_offsets,
)
from ottla.pipeline.words import OptionError


class Edge(Enum):
    """An end of each log."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class AtOffsets:
    """These offsets, which may be EARLIEST and LATEST; `edges` has one of these two for whole topics."""

    offsets: SourceOffsets
    edges: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AtTimestamp:
    """The first record of each partition at or after a moment."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AtTimestamps:
    """The first record of each partition at or after a moment of its own."""

    timestamps_ms: Mapping[TopicPartition, int]


RangeLimit = Edge | AtOffsets | AtTimestamp | AtTimestamps
_MAX_TIMESTAMP_MS: Final = 2**63 - 1
_LONG: Final = re.compile(r"[+-]?[0-9]{1,19}")


def read_limit(own: Mapping[str, str], names: tuple[str, str, str], default: Edge) -> tuple[RangeLimit, str]:
    """Return the limit that one of three options gives, and that option's name; OptionError for two."""
    given = [name for name in names if name in own]
    if len(given) > 1:
        raise OptionError(given[1], f"cannot be used together with {given[0]}; use one of {one_of(names)}")
    by_timestamp, by_timestamps, by_offsets = names
    if by_timestamp in own:
        return _read_timestamp(own[by_timestamp].strip(), by_timestamp), by_timestamp
    if by_timestamps in own:
        value = open_json(own[by_timestamps], by_timestamps)
        read = read_offsets(value, by_timestamps)
        return AtTimestamps(timestamps_ms=read.offsets), by_timestamps
    text = own.get(by_offsets, default.value).strip()
    for edge in Edge:
        if text.lower() == edge.value:
            return edge, by_offsets
    if not text.startswith("{"):
        edges = one_of([edge.value for edge in Edge])
        raise OptionError(
            by_offsets, f"is {text[:80]!r}; it must be {edges}, or offsets by topic and partition in JSON"
        )
    value = open_json(text, by_offsets)
    whole: dict[str, int] = {}
    if isinstance(value, dict):  # {"topic": "earliest"} stands for all of its partitions (SPARK-58774)
        whole = {topic: _MARKERS[edge] for topic, edge in value.items() if _is_edge(edge)}
        value = {topic: of_topic for topic, of_topic in value.items() if topic not in whole}
        check_names(whole, by_offsets)
    return AtOffsets(offsets=read_offsets(value, by_offsets, least=EARLIEST), edges=whole), by_offsets


_MARKERS: Final = {Edge.EARLIEST.value: EARLIEST, Edge.LATEST.value: LATEST}


def _is_edge(edge: object) -> bool:
    return isinstance(edge, str) and edge in _MARKERS


def restrict_limit(limit: RangeLimit, partitions: Collection[TopicPartition]) -> RangeLimit:
    """Return the limit restricted to these partitions; those that it does not name stay unnamed."""
    match limit:
        case AtOffsets(offsets=given, edges=edges):
            kept = {one: offset for one, offset in given.offsets.items() if one in partitions}
            topics = {one.topic for one in partitions}
            ids = {topic: topic_id for topic, topic_id in given.topic_ids.items() if topic in topics}
            kept_edges = {topic: edge for topic, edge in edges.items() if topic in topics}
            return AtOffsets(offsets=replace(given, offsets=kept, topic_ids=ids), edges=kept_edges)
        case AtTimestamps(timestamps_ms=moments):
            return AtTimestamps(timestamps_ms={one: ms for one, ms in moments.items() if one in partitions})
        case Edge() | AtTimestamp():
            return limit


def check_start(limit: RangeLimit, name: str) -> None:
    """Raise OptionError if a batch would begin at the end of the log."""
    if limit is Edge.LATEST:
        raise OptionError(name, "is latest, after which a batch finds nothing")
    _refuse_marker(limit, name, LATEST, "is latest (-1), after which a batch finds nothing")


def check_end(limit: RangeLimit, name: str) -> None:
    """Raise OptionError if a batch would end at the beginning of the log."""
    if limit is Edge.EARLIEST:
        raise OptionError(name, "is earliest, before which a batch finds nothing")
    _refuse_marker(limit, name, EARLIEST, "is earliest (-2), before which a batch finds nothing")


def check_order(start: RangeLimit, start_name: str, end: RangeLimit, end_name: str) -> None:
    """Raise OptionError if limits of one kind name different partitions, or an end lies before its start."""
    match start, end:
        case AtOffsets(offsets=first) as begin, AtOffsets(offsets=last) as until:
            whole = {*begin.edges, *until.edges}
            firsts, lasts = (
                {one: offset for one, offset in each.offsets.items() if one.topic not in whole}
                for each in (first, last)
            )
            _compare(firsts, start_name, lasts, end_name)
        case AtTimestamps(timestamps_ms=firsts), AtTimestamps(timestamps_ms=lasts):
            _compare(firsts, start_name, lasts, end_name)
        case AtTimestamp(timestamp_ms=one), AtTimestamp(timestamp_ms=other) if one > other:
            raise OptionError(end_name, f"is {other}, which is before {start_name}, {one}")
        case _:
            pass


def _compare(
    starts: Mapping[TopicPartition, int],
    start_name: str,
    ends: Mapping[TopicPartition, int],
    end_name: str,
) -> None:
    if unmatched := starts.keys() ^ ends.keys():
        one = min(unmatched)
        has, lacks = (start_name, end_name) if one in starts else (end_name, start_name)
        raise OptionError(lacks, f"does not name {one}, but {has} does")
    for partition, start in sorted(starts.items()):
        if start >= 0 and 0 <= ends[partition] < start:
            raise OptionError(
                end_name, f"is {ends[partition]} for {partition}, which is before {start_name}, {start}"
            )


def _refuse_marker(limit: RangeLimit, name: str, marker: int, problem: str) -> None:
    if isinstance(limit, AtOffsets):
        for partition, offset in limit.offsets.offsets.items():
            if offset == marker:
                raise OptionError(name, f"{problem} (for {partition})")
        for topic, edge in limit.edges.items():
            if edge == marker:
                raise OptionError(name, f"{problem} (for {topic})")


def _read_timestamp(text: str, name: str) -> AtTimestamp:
    if not _LONG.fullmatch(text) or not 0 <= int(text) <= _MAX_TIMESTAMP_MS:
        raise OptionError(name, f"is {text[:40]!r}; it must be milliseconds since 1970")
    return AtTimestamp(timestamp_ms=int(text))
