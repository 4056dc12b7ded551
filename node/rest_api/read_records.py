"""Read records of a topic: a page of them, or a live tail as server-sent events.

A page ends when it has `count` records or `max_bytes`, at the end that the log had when the request came, or
after `timeout_ms`. Its `cursor` is the start of the next page. Its `begin` is its own start: a search back
from the end sends it as `before` to get the page before. `begins` has details of each start: its time, and
the reason if a search for the newest records fell short. A tail goes on until its reader disconnects, and
includes partitions that are added meanwhile. The id of each event is a cursor too: a browser that lost the
connection sends it back, and misses nothing.
"""

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import orjson

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.ask_leaders import Answers
from ottla.node.client.cluster_client import Client
from ottla.node.client.deadline import Deadline
from ottla.node.client.newest_records import MAX_COUNTED, Shortfall, Span
from ottla.node.rest_api.json_schema import Schema
from ottla.node.rest_api.loop_turns import Worker
from ottla.node.rest_api.offset_spec import (
    CURSOR_PATTERN,
    EARLIEST,
    LATEST,
    MAX_INT64,
    MAX_PARTITIONS,
    OFFSET_PATTERN,
    TIMESTAMP_PATTERN,
    OffsetSpec,
    Positions,
    cursor_text,
    parse_cursor,
    parse_offset_spec,
    positions,
    spans,
)
from ottla.node.rest_api.record_filter import MAX_FILTER_LENGTH, Filter, parse_filter
from ottla.node.rest_api.record_json import AUTO, FORMATS, shown_record
from ottla.node.rest_api.record_reader import Found, RecordReader, in_short_rounds
from ottla.node.rest_api.resource import Data, DataPieces, collection, collection_schema, url
from ottla.node.rest_api.rest_error import PARTITION_NOT_FOUND, RestError, bad_request, rest_error_of
from ottla.node.rest_api.route import (
    INTEGER,
    NAME,
    STRING,
    TIMEOUT_MS,
    Answer,
    QueryParameter,
    Response,
    RestContext,
    RestRequest,
    Route,
)

TAG: Final = "Records (v3)"
DEFAULT_COUNT: Final = 100
MAX_COUNT: Final = 10_000
DEFAULT_MAX_BYTES: Final = 4 * 1024 * 1024
MAX_BYTES: Final = 32 * 1024 * 1024
DEFAULT_TIMEOUT_MS: Final = 5_000
MAX_TIMEOUT_MS: Final = 30_000
EVENT_STREAM: Final = "text/event-stream"
HEARTBEAT_S: Final = 10.0  # also the delay until a disconnected reader is noticed
RECONNECT_MS: Final = 2_000  # the wait of a browser before it reconnects
NEW_PARTITIONS_S: Final = 10.0  # the delay until a tail sees new partitions of its topic
UNAVAILABLE_S: Final = 3.0  # the time without a leader after which a tail reports a partition
PIECE_BYTES: Final = 256 * 1024  # of events, written at a time


class ReadRequest(NamedTuple):
    """The records that a request asks for, and how each is shown."""

    topic: str
    partitions: list[TopicPartition]
    is_whole: bool  # True: all partitions of the topic, not a selection
    begin: OffsetSpec
    is_wanted: Filter | None
    read_committed: bool
    shown: Callable[[Found], Data]


async def read_records(context: RestContext, request: RestRequest) -> Answer:
    is_tail = EVENT_STREAM in request.headers.get("Accept", "")
    wanted = await _read_request(context.client, request, is_tail=is_tail)
    if not is_tail:
        here = url(request.base_url, *_segments(context, request))
        return Answer(body=await read_page(context, request, wanted, here))
    context.records.tails.check(context.share)
    known = (await _spans(context.client, wanted)).found
    begun = await positions(
        context.client, known, wanted.begin, read_committed=wanted.read_committed, keeps_gaps=True
    )
    return Answer(stream=_tail(context, wanted, begun), failure=_failure, content_type=EVENT_STREAM)


async def _read_request(client: Client, request: RestRequest, *, is_tail: bool) -> ReadRequest:
    topic, partition = request.path["topic_name"], request.path.get("partition_id")
    form = request.query.get("format", AUTO)
    return await read_request_of(
        client,
        request,
        topic,
        partition,
        default=LATEST if is_tail else EARLIEST,
        resume_at=request.headers.get("Last-Event-ID") if is_tail else None,
        shown=lambda found: shown_record(topic, found.partition.partition, found.record, form),
    )


async def read_request_of(
    client: Client,
    request: RestRequest,
    topic: str,
    partition: int | None,
    *,
    default: OffsetSpec = EARLIEST,
    resume_at: str | None = None,
    shown: Callable[[Found], Data],
) -> ReadRequest:
    """Return the records of a topic, or of one of its partitions, that the parameters of `PAGE_QUERY` ask
    for.

    `resume_at` is a cursor that overrides their start. RestError 400 or 404.
    """
    query = request.query
    begin = parse_offset_spec(query.get("offset"), query.get("timestamp"), default)
    is_whole = partition is None and begin.cursor is None
    if resume_at:
        begin = OffsetSpec(cursor=parse_cursor(resume_at))
    return ReadRequest(
        topic,
        await _partitions(client, topic, partition, begin, is_whole=is_whole),
        is_whole,
        begin,
        parse_filter(query["filter"]) if query.get("filter") else None,
        query.get("isolation_level") == "read_committed",
        shown,
    )


async def _partitions(
    client: Client, topic: str, partition: int | None, begin: OffsetSpec, *, is_whole: bool
) -> list[TopicPartition]:
    leaders = (await client.topic_as_it_is(topic)).leaders
    wanted = set(leaders if begin.cursor is None else begin.cursor)
    if is_whole:  # including partitions that are newer than the cursor
        wanted |= leaders.keys()
    if partition is not None:
        if begin.cursor is not None and wanted != {partition}:
            raise bad_request("The cursor belongs to other partitions.")
        wanted = {partition}
    if not wanted <= leaders.keys():
        raise RestError(404, PARTITION_NOT_FOUND, "Partition not found.")
    _check_number(topic, len(wanted))
    return [TopicPartition(topic, number) for number in sorted(wanted)]


def _check_number(topic: str, partitions: int) -> None:
    if partitions > MAX_PARTITIONS:
        raise bad_request(
            f"{topic} has {partitions} partitions, and a page can cover {MAX_PARTITIONS}: read "
            f"one partition, or up to {MAX_PARTITIONS} with a cursor."
        )


async def _spans(client: Client, wanted: ReadRequest) -> Answers[Span]:
    return await spans(client, wanted.partitions, isolation_level=int(wanted.read_committed))


def _cursor(reader: RecordReader) -> str:
    return cursor_text({one.partition: place for one, place in reader.places.items()})


# ---- a page --------------------------------------------------------------------------------------


async def read_page(context: RestContext, request: RestRequest, wanted: ReadRequest, here: str) -> Data:
    """Return a page of the records as `KafkaRecordList`; `here` is the link to the list."""
    query = request.query
    known = await _spans(context.client, wanted)
    begun = await positions(context.client, known.found, wanted.begin, read_committed=wanted.read_committed)
    places = begun.offsets
    if not places:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"no leader of {wanted.topic} answered in time")
    reader = RecordReader(in_short_rounds(context.client, read_committed=wanted.read_committed), places)
    before = parse_cursor(query["before"]) if "before" in query else {}
    ends = {one: min(known.found[one].end, before.get(one.partition, MAX_INT64)) for one in places}
    is_start = not known.problems and all(at <= known.found[one].first for one, at in places.items())
    data = DataPieces(request.answer_part)
    begin_times: dict[TopicPartition, int] = {}
    await _read_page(
        reader,
        wanted,
        context.records.turns.worker(),
        ends,
        data,
        begin_times,
        count=query.get("count", DEFAULT_COUNT),
        max_bytes=query.get("max_bytes", DEFAULT_MAX_BYTES),
        deadline=context.deadline,
        should_end=context.should_end,
    )
    unread = _unread(wanted, places, reader, ends, known.problems)
    # The cursor keeps the start of partitions that could not be read, so that the next page has them.
    cursor = cursor_text(
        {**_places(wanted, unread), **{one.partition: at for one, at in reader.places.items()}}
    )
    is_end = not unread and all(reader.places[one] >= end for one, end in ends.items())
    given = {name: value for name, value in query.items() if name not in ("offset", "timestamp")}
    next_link = None if is_end else f"{here}?{urlencode({**given, 'offset': cursor})}"
    page = collection("KafkaRecordList", here, data.whole(), next_link=next_link)
    return {
        **page,
        "begin": cursor_text({one.partition: at for one, at in places.items()}),
        "is_start": is_start,
        "begins": [
            {
                "partition_id": one.partition,
                "offset": at,
                "is_start": at <= known.found[one].first,
                "timestamp_ms": begin_times.get(one),
                "fell_short": None if (why := begun.shortfalls.get(one)) is None else why.value,
            }
            for one, at in places.items()
        ],
        "fell_short": bool(begun.shortfalls),
        "cursor": cursor,
        "is_end": is_end,
        "unavailable": unavailable_as_json(unread),
    }


async def _read_page(
    reader: RecordReader,
    wanted: ReadRequest,
    turn: Worker,
    ends: dict[TopicPartition, int],
    data: DataPieces,
    begin_times: dict[TopicPartition, int],
    *,
    count: int,
    max_bytes: int,
    deadline: Deadline,
    should_end: Callable[[], bool],
) -> None:
    """Fill `data` with records, advancing the reader, and `begin_times` with the time of each partition's
    first record, wanted or not; RestError 429 if there is no room for even one record.
    """
    size_bytes = 0
    while any(reader.places[one] < end for one, end in ends.items()):
        try:
            found_now = await reader.round(ends, deadline)
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            return  # deleted during the read; the cursor shows it
        for found in found_now:
            await turn.pause()
            if turn.is_new and (deadline.is_over or should_end()):
                # The next page begins with this record.
                reader.places[found.partition] = found.record.offset
                return
            if found.partition not in begin_times:
                begin_times[found.partition] = found.record.timestamp
            if wanted.is_wanted is not None and not wanted.is_wanted(found.record):
                continue
            try:
                data.add([wanted.shown(found)])
            except RestError:
                if not data.count:
                    raise
                reader.places[found.partition] = found.record.offset  # the next page begins with this record
                return
            size_bytes += len(found.record.key or b"") + len(found.record.value or b"")
            if data.count >= count or size_bytes >= max_bytes:
                return
        if deadline.is_over or should_end():
            return


def _unread(
    wanted: ReadRequest,
    places: Mapping[TopicPartition, int],
    reader: RecordReader,
    ends: Mapping[TopicPartition, int],
    problems: Mapping[TopicPartition, KafkaError],
) -> dict[TopicPartition, KafkaError]:
    """Return the partitions that could not be read as far as the page should go, each with its error."""
    silent = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "its leader did not answer in time")
    later = {one: error for one, error in reader.problems.items() if reader.places[one] < ends[one]}
    never = {one: silent for one in wanted.partitions if one not in places}
    return dict(sorted({**never, **problems, **later}.items()))


def _places(wanted: ReadRequest, unread: Mapping[TopicPartition, KafkaError]) -> dict[int, int]:
    """Return the starts of partitions without an answer, as far as the request alone determines them."""
    begin = wanted.begin
    if begin.cursor is not None:
        return {one.partition: begin.cursor.get(one.partition, 0) for one in unread}
    offset = 0 if begin == EARLIEST else begin.offset
    return {} if offset is None else {one.partition: offset for one in unread}


def _unread_by_tail(wanted: ReadRequest, reader: RecordReader) -> dict[TopicPartition, KafkaError]:
    """Return the partitions that cannot be read now, including those that never answered since the tail
    began.
    """
    never = {
        one: KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{one} could not be asked since the tail began")
        for one in wanted.partitions
        if one not in reader.places
    }
    return dict(sorted({**never, **reader.problems}.items()))


def unavailable_as_json(problems: Mapping[TopicPartition, KafkaError]) -> list[Data]:
    """Return partitions that could not be read, each with its error, as JSON."""
    return [
        {
            "partition_id": one.partition,
            "error_code": (rest_error := rest_error_of(error)).error_code,
            "message": rest_error.message,
        }
        for one, error in problems.items()
    ]


def _segments(context: RestContext, request: RestRequest) -> list[str | int]:
    place: list[str | int] = ["clusters", context.cluster_id, "topics", request.path["topic_name"]]
    if "partition_id" in request.path:
        place += ["partitions", request.path["partition_id"]]
    return [*place, "records"]


# ---- a live tail ---------------------------------------------------------------------------------


async def _tail(context: RestContext, wanted: ReadRequest, begun: Positions) -> AsyncGenerator[bytes, None]:
    try:
        with context.records.tails.slot_now(context.share):
            async with context.own_client() as client:
                client.opening = context.client.opening
                reader = RecordReader(
                    in_short_rounds(client, read_committed=wanted.read_committed), begun.offsets
                )
                # The first event has no data: a reader that is cut off before the first record resumes here.
                yield f"retry: {RECONNECT_MS}\nid: {_cursor(reader)}\n\n".encode()
                if begun.shortfalls:
                    short = [
                        {"partition_id": one.partition, "offset": begun.offsets[one], "fell_short": why.value}
                        for one, why in begun.shortfalls.items()
                    ]
                    yield _event("fell_short", _cursor(reader), short)
                async with aclosing(_events(context, client, wanted, reader)) as events:
                    async for piece in events:
                        yield piece
    except RestError as error:
        yield _failure(error)
    except KafkaError as error:
        yield _failure(rest_error_of(error))


async def _events(
    context: RestContext, client: Client, wanted: ReadRequest, reader: RecordReader
) -> AsyncGenerator[bytes, None]:
    written_s = looked_s = time.monotonic()
    failing_s, unread = written_s, list[Data]()
    turn = context.records.turns.worker()
    while not context.stopping.is_set():
        if (
            wanted.is_whole or not {*wanted.partitions} <= {*reader.places}
        ) and time.monotonic() - looked_s >= NEW_PARTITIONS_S:
            await _take_in_new_partitions(client.renewed(), wanted, reader)
            looked_s = time.monotonic()
        try:
            found_now = await reader.round()
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            yield await _gap(client.renewed(), wanted, reader)
            continue
        piece = bytearray()
        unread_now = unavailable_as_json(_unread_by_tail(wanted, reader))
        # An election takes less time than this; a longer outage is reported, once.
        if not unread_now:
            unread, failing_s = [], time.monotonic()
        elif unread_now != unread and time.monotonic() - failing_s > UNAVAILABLE_S:
            unread = unread_now
            piece += _event("unavailable", _cursor(reader), unread)
        for found in found_now:
            await turn.pause()
            if wanted.is_wanted is None or wanted.is_wanted(found.record):
                piece += _event("record", _cursor(reader), wanted.shown(found))
                if len(piece) >= PIECE_BYTES:
                    yield bytes(piece)
                    piece.clear()
        if not piece and time.monotonic() - written_s >= HEARTBEAT_S:
            # With an id, so that a resumed tail does not filter the same records again.
            piece += f": heartbeat\nid: {_cursor(reader)}\n\n".encode()
        if piece:
            yield bytes(piece)
            written_s = time.monotonic()


async def _take_in_new_partitions(client: Client, wanted: ReadRequest, reader: RecordReader) -> None:
    """Add new partitions, from their first record on, since the tail of a whole topic has read none of it.

    Partitions that did not answer when the tail began start where the request says.
    """
    leaders = (await client.topic_as_it_is(wanted.topic)).leaders
    # A partition without a leader is added next time.
    led = [TopicPartition(wanted.topic, number) for number, leader in leaders.items() if leader >= 0]
    new = [one for one in led if one not in reader.places and (wanted.is_whole or one in wanted.partitions)]
    if new:
        _check_number(wanted.topic, len(reader.places) + len(new))
        known = await spans(client, new, isolation_level=int(wanted.read_committed))
        late = {one: span for one, span in known.found.items() if one in wanted.partitions}
        reader.places |= {one: span.first for one, span in known.found.items() if one not in late}
        begun = await positions(
            client, late, wanted.begin, read_committed=wanted.read_committed, keeps_gaps=True
        )
        reader.places |= begun.offsets


async def _gap(client: Client, wanted: ReadRequest, reader: RecordReader) -> bytes:
    """Return an event with the offsets that were deleted before they were read."""
    answers = await spans(client, [*reader.places], isolation_level=int(wanted.read_committed))
    known = answers.found
    skipped = reader.skip_to({one: span.first for one, span in known.items()})
    if not skipped:  # beyond the end of the log: the cursor belongs to an earlier topic of this name
        reader.places |= {
            one: min(place, known[one].end) for one, place in reader.places.items() if one in known
        }
    data = [
        {"partition_id": one.partition, "from_offset": begin, "to_offset": to}
        for one, (begin, to) in skipped.items()
    ]
    return _event("gap", _cursor(reader), data)


def _event(kind: str, cursor: str, data: Any) -> bytes:
    # A line each: line ends between the tokens of a record's own JSON have been replaced.
    return b"event: %b\nid: %b\ndata: %b\n\n" % (kind.encode(), cursor.encode(), orjson.dumps(data))


def _failure(error: RestError) -> bytes:
    body = orjson.dumps({"error_code": error.error_code, "message": error.message})
    return b"event: error\ndata: %b\n\n" % body


# ---- the table -----------------------------------------------------------------------------------

_CONTENT: Final = {
    "title": "RecordContent",
    "type": ["object", "null"],
    "properties": {
        "type": {"type": "string", "enum": [*FORMATS[1:]]},
        "size": {"type": "integer", "minimum": 0},
        "data": {"description": "base64, text, or JSON, as `type` says"},
    },
    "required": ["type", "size", "data"],
}
RECORD_FIELDS: Final[Mapping[str, Schema]] = {
    "topic_name": STRING,
    "partition_id": INTEGER,
    "offset": INTEGER,
    "timestamp": {"type": ["string", "null"], "format": "date-time"},
    "timestamp_ms": INTEGER,
    "headers": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "name": STRING,
                "value": {"type": ["string", "null"], "contentEncoding": "base64"},
            },
            "required": ["name", "value"],
        },
    },
    "key": _CONTENT,
    "value": _CONTENT,
}
_RECORD: Final = {
    "title": "RecordData",
    "type": "object",
    "properties": RECORD_FIELDS,
    "required": [*RECORD_FIELDS],
}
_PAGE: Final = collection_schema("RecordDataList", "KafkaRecordList", _RECORD)
PAGE_PLACES: Final[Mapping[str, Schema]] = {
    "begin": STRING,
    "is_start": {"type": "boolean"},
    "begins": {
        "type": "array",
        "items": {
            "title": "RecordPageBegin",
            "type": "object",
            "properties": {
                "partition_id": INTEGER,
                "offset": INTEGER,
                "is_start": {"type": "boolean"},
                "timestamp_ms": {
                    "type": ["integer", "null"],
                    "description": (
                        "Time of the first record that was read, whether it matched the filter or not."
                    ),
                },
                "fell_short": {
                    "type": ["string", "null"],
                    "enum": [*(one.value for one in Shortfall), None],
                    "description": "Why there may be fewer than the newest N records from "
                    "here on, though the log has more: the search ran out of "
                    "time, offsets were counted because N is above "
                    f"{MAX_COUNTED}, or the partition could not be read.",
                },
            },
            "required": ["partition_id", "offset", "is_start", "timestamp_ms", "fell_short"],
        },
    },
    "fell_short": {
        "type": "boolean",
        "description": (
            "Whether a search for the newest N records may have found fewer; `begins` shows where it starts."
        ),
    },
    "cursor": STRING,
    "is_end": {"type": "boolean"},
    "unavailable": {
        "type": "array",
        "items": {
            "title": "UnavailablePartition",
            "type": "object",
            "properties": {"partition_id": INTEGER, "error_code": INTEGER, "message": STRING},
            "required": ["partition_id", "error_code", "message"],
        },
    },
}
_RECORDS: Final = {
    **_PAGE,
    "properties": {
        **_PAGE["properties"],
        **PAGE_PLACES,
    },
    "required": [*_PAGE["required"], *PAGE_PLACES],
}
PAGE_QUERY: Final = (
    QueryParameter(
        name="offset",
        schema={"type": "string", "pattern": OFFSET_PATTERN},
        description="Where to start: earliest, latest, an offset, -N for the newest N records of "
        "each partition (`fell_short` shows where there may be fewer), or the cursor "
        "of an answer.",
    ),
    QueryParameter(
        name="before",
        schema={"type": "string", "pattern": CURSOR_PATTERN},
        description="A cursor at which the page ends. With the `begin` of a page, this reads the "
        "records before that page.",
    ),
    QueryParameter(
        name="timestamp",
        schema={"type": "string", "pattern": TIMESTAMP_PATTERN},
        description="Start at this time instead: RFC 3339, or ms since 1970.",
    ),
    QueryParameter(
        name="count",
        schema={"type": "integer", "minimum": 1, "maximum": MAX_COUNT, "default": DEFAULT_COUNT},
        description="Return at most this many records.",
    ),
    QueryParameter(
        name="filter",
        schema={"type": "string", "maxLength": MAX_FILTER_LENGTH},
        description="Return only records with this text in key or value, or with this JSON field: "
        "$.user.id=42, $key.id=7.",
    ),
    QueryParameter(
        name="format",
        schema={"type": "string", "enum": list(FORMATS), "default": AUTO},
        description="How to show keys and values; data that cannot be shown that way is shown as its "
        "`type` says.",
    ),
    QueryParameter(
        name="isolation_level",
        schema={
            "type": "string",
            "enum": ["read_uncommitted", "read_committed"],
            "default": "read_uncommitted",
        },
        description="Whether to include records of open and aborted transactions.",
    ),
    QueryParameter(
        name="max_bytes",
        schema={"type": "integer", "minimum": 1, "maximum": MAX_BYTES, "default": DEFAULT_MAX_BYTES},
        description="End the page with the record that reaches this many bytes of keys and values.",
    ),
    QueryParameter(
        name=TIMEOUT_MS,
        schema={"type": "integer", "minimum": 0, "maximum": MAX_TIMEOUT_MS, "default": DEFAULT_TIMEOUT_MS},
        description="End the page after this time, for example when few records match a filter; "
        "`unavailable` names the partitions that could not be read.",
    ),
)
_DESCRIPTION: Final = (
    "With `Accept: text/event-stream` the answer is a live tail that starts at the end of the "
    "log, with these events: `record`, with an id to resume from (Last-Event-ID); `gap` where "
    "records were deleted before they were read; `unavailable` with partitions that cannot be "
    "read now; `fell_short` where a search for the newest N records may have found fewer; "
    "`error` if the tail ends early."
)


def _route(path: str, operation_id: str, summary: str) -> Route:
    return Route(
        method="GET",
        path=f"/v3/clusters/{{cluster_id}}/topics/{{topic_name}}{path}/records",
        handler=read_records,
        operation_id=operation_id,
        summary=summary,
        description=_DESCRIPTION,
        tag=TAG,
        path_parameters={"topic_name": NAME},
        query=PAGE_QUERY,
        time_limit_s=DEFAULT_TIMEOUT_MS / 1000,
        reads_records=True,
        responses={200: Response(description="A page of records.", schema=_RECORDS)},
    )


ROUTES: Final = (
    _route(
        "",
        "readTopicRecords",
        "Read records of all partitions of a topic; those that are fetched together are ordered by time.",
    ),
    _route("/partitions/{partition_id}", "readPartitionRecords", "Read records of a partition."),
)
