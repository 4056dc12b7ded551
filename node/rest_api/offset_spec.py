"""The offsets at which reading starts and ends, and their forms in a request.

An `offset` is `earliest`, `latest`, `42`, `-10` (the newest ten records of each partition), or a cursor from
an earlier answer: `0:42,1:17` is an offset in each of some partitions, and only those are read. A `timestamp`
is a date and time or milliseconds since 1970.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import topic_admin
from ottla.node.client.ask_leaders import Answers, error_of, for_lookup, may_pass
from ottla.node.client.cluster_client import Client
from ottla.node.client.newest_records import Shortfall, Span, newest_offsets
from ottla.node.rest_api.record_json import MAX_PARTITION, parse_timestamp
from ottla.node.rest_api.rest_error import bad_request

MAX_PARTITIONS: Final = 100  # read at a time: each event of a live tail has the offset in all of them
MAX_INT64: Final = 2**63 - 1
_CURSOR: Final = r"[0-9]{1,10}:[0-9]{1,18}(,[0-9]{1,10}:[0-9]{1,18})*"
CURSOR_PATTERN: Final = rf"^{_CURSOR}$"
OFFSET_PATTERN: Final = rf"^(earliest|latest|-?[0-9]{{1,18}}|{_CURSOR})$"
TIMESTAMP_PATTERN: Final = r"^([0-9]{1,18}|[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ].{5,30})$"

Cursor = Mapping[int, int]  # partition -> the offset of the next record


class OffsetSpec(NamedTuple):
    """A start of reading, in one of these forms; if all are None, the start of the log."""

    offset: int | None = None
    before_end: int | None = None
    timestamp: int | None = None  # or EARLIEST or LATEST
    cursor: Cursor | None = None


class Positions(NamedTuple):
    """The offset from which each partition is read, and the reason if a search for its newest records fell
    short.
    """

    offsets: dict[TopicPartition, int]
    shortfalls: dict[TopicPartition, Shortfall]


EARLIEST: Final = OffsetSpec(timestamp=topic_admin.EARLIEST)
LATEST: Final = OffsetSpec(timestamp=topic_admin.LATEST)


def parse_offset_spec(offset: str | None, timestamp: str | None, default: OffsetSpec) -> OffsetSpec:
    """Return the start that the query parameters give; RestError 400."""
    if offset is not None and timestamp is not None:
        raise bad_request("offset and timestamp cannot be combined.")
    if timestamp is not None:
        milliseconds = int(timestamp) if timestamp.isdecimal() else parse_timestamp(timestamp)
        return OffsetSpec(timestamp=milliseconds)
    if offset is None:
        return default
    if offset in ("earliest", "latest"):
        return EARLIEST if offset == "earliest" else LATEST
    if ":" in offset:
        return OffsetSpec(cursor=parse_cursor(offset))
    number = int(offset)
    return OffsetSpec(before_end=-number) if offset.startswith("-") else OffsetSpec(offset=number)


def parse_cursor(text: str) -> Cursor:
    """Parse the output of `cursor_text`; RestError 400."""
    if not re.fullmatch(CURSOR_PATTERN, text):
        raise bad_request("A cursor must have the form 0:42,1:17.")
    pairs = [
        (int(number), int(offset)) for number, _, offset in (one.partition(":") for one in text.split(","))
    ]
    cursor = dict(pairs)
    if len(cursor) != len(pairs) or max(cursor) > MAX_PARTITION:
        raise bad_request("A cursor must name each partition only once.")
    return dict(sorted(cursor.items()))


def cursor_text(cursor: Cursor) -> str:
    return ",".join(f"{number}:{offset}" for number, offset in cursor.items())


async def spans(
    client: Client, partitions: Sequence[TopicPartition], *, isolation_level: int
) -> Answers[Span]:
    """Return the spans of offsets visible with this isolation level, and the errors of the other partitions.

    KafkaError if no partition can be asked, or for an error that does not come from the state of the cluster.
    """
    lookup = for_lookup(client)
    first = await topic_admin.find_offsets(lookup, dict.fromkeys(partitions, topic_admin.EARLIEST))
    last = await topic_admin.find_offsets(
        lookup, dict.fromkeys(first.found, topic_admin.LATEST), isolation_level=isolation_level
    )
    problems = {**first.problems, **last.problems}
    final = {one: error for one, error in problems.items() if not may_pass(error)}
    if problems and (final or not last.found):
        raise error_of(final or problems)
    known = {
        one: Span(first.found[one].offset, max(first.found[one].offset, found.offset))
        for one, found in sorted(last.found.items())
    }
    return Answers(known, problems)


async def positions(
    client: Client,
    known: Mapping[TopicPartition, Span],
    begin: OffsetSpec,
    *,
    read_committed: bool,
    keeps_gaps: bool = False,
) -> Positions:
    """Return the offset in each partition, moved into the span of its log.

    If the start is a time, partitions whose leaders do not answer are left out. With `keeps_gaps`, a cursor
    before the start of the log is kept, so that its reader can be notified.
    """
    if begin.before_end is not None:
        # Half of the time is for reading the records.
        searcher = client.until(client.deadline.share(2))
        newest = await newest_offsets(searcher, known, begin.before_end, read_committed=read_committed)
        return Positions(
            {one: each.offset for one, each in newest.items()},
            {one: each.shortfall for one, each in newest.items() if each.shortfall is not None},
        )
    by_time: Mapping[TopicPartition, topic_admin.OffsetAndTimestamp] = {}
    if begin.timestamp is not None and begin.timestamp >= 0:
        offsets = dict.fromkeys(known, begin.timestamp)
        by_time = (await topic_admin.find_offsets(for_lookup(client), offsets)).found
    is_by_time = begin.timestamp is not None and begin.timestamp >= 0
    found: dict[TopicPartition, int] = {}
    for one, span in known.items():
        if is_by_time and one not in by_time:
            continue
        if begin.cursor is not None:
            wanted = begin.cursor.get(one.partition, span.first)
        elif begin.offset is not None:
            wanted = begin.offset
        elif one in by_time:
            wanted = by_time[one].offset if by_time[one].offset >= 0 else span.end
        else:
            wanted = span.end if begin.timestamp == topic_admin.LATEST else span.first
        if not keeps_gaps or begin.cursor is None:
            wanted = max(wanted, span.first)
        found[one] = min(wanted, span.end)
    return Positions(found, {})
