"""Makes batches of dead letters (KIP-1191) from the log: copies of records, with headers about each.

There is one letter for each record that is in the log. For records that the log has lost, or that cannot be
decompressed or parsed, there is one for each offset, without key, value and headers of the record.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ottla.logstore.record import Headers, append_record, build_batch, records_from
from ottla.logstore.record_batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, read_header
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.schema import Buffer
from ottla.node.share.dead_letters import DeadLetters
from ottla.node.share.share_words import ArchivedRecords, ArchiveReason
from ottla.node.wire.dead_letter_headers import DELIVERY_COUNT, GROUP, MESSAGE, OFFSET, PARTITION, TOPIC

# The letters of one batch: each is a record that is made in Python.
MAX_LETTERS: Final = 500

# Kafka's texts.
MESSAGES: Final = {
    ArchiveReason.REJECTED: "Offset rejected by client.",
    ArchiveReason.DELIVERY_LIMIT: "Offset delivery count exceeded the threshold.",
}


class Source(NamedTuple):
    """A record that was set aside, with the parts of it that are copied."""

    offset: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()

    @property
    def size_bytes(self) -> int:
        """An estimate of the bytes that are copied."""
        own = len(self.key or b"") + len(self.value or b"")
        return own + sum(len(name) + len(content or b"") for name, content in self.headers)


class ReadSources(NamedTuple):
    """Records of a piece of the log, and the offset up to which they are complete."""

    sources: list[Source]
    last_offset: int


class Origin(NamedTuple):
    """The group and the source partition of all letters of a batch."""

    group: str
    topic: str
    partition: int


def read_sources(
    content: Buffer, first: int, last: int, *, max_records: int, max_bytes: int, copies_records: bool
) -> ReadSources:
    """Return the records of these offsets, from whole batches and within the limits.

    Without `copies_records` they have no contents, and neither has a first record larger than `max_bytes`.
    If the first batch is cut, there are none, and last_offset is `first` - 1.
    """
    sources: list[Source] = []
    reached, size_bytes = first - 1, 0
    for header, batch in _batches(content):
        if header.base_offset > last:
            return ReadSources(sources, last)
        if not header.is_control:
            for source in _records(header, batch, max(first, reached + 1), last, copies_records):
                if source.size_bytes > max_bytes and not sources:
                    source = Source(source.offset)
                size_bytes += source.size_bytes
                if len(sources) == max_records or size_bytes > max_bytes:
                    return ReadSources(sources, source.offset - 1)
                sources.append(source)
        reached = max(reached, min(header.last_offset, last))
    return ReadSources(sources, reached)


def sources_without_contents(first: int, last: int, max_records: int) -> ReadSources:
    """Return a record without contents for each of these offsets, at most `max_records`."""
    last = min(last, first + max_records - 1)
    return ReadSources([Source(offset) for offset in range(first, last + 1)], last)


def _batches(content: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    view, position = memoryview(content), 0
    while position + HEADER_SIZE <= len(view):
        header = read_header(view, position)
        end = position + LOG_OVERHEAD + header.batch_length
        if header.batch_length < HEADER_SIZE - LOG_OVERHEAD or end > len(view):
            return  # the read's limit has cut this batch
        yield header, view[position:end]
        position = end


def _records(
    header: BatchHeader, batch: memoryview, first: int, last: int, copies_records: bool
) -> Iterator[Source]:
    following = max(first, header.base_offset)
    try:
        for record in records_from(batch, first):
            if record is None:
                continue
            if record.offset > last:
                return
            if record.offset < following:
                continue  # offsets that do not grow, from a producer whose batch was not checked
            following = record.offset + 1
            yield Source(record.offset, *(record[2:] if copies_records else ()))
    except KafkaError:
        # They cannot be decompressed or parsed, which may be the reason why consumers failed.
        for offset in range(following, min(header.last_offset, last) + 1):
            yield Source(offset)


def take_fitting(
    origin: Origin, ranges: Sequence[ArchivedRecords], sources: Sequence[Source], max_bytes: int
) -> tuple[list[Source], list[ArchivedRecords]]:
    """Return the first sources whose letters fit in a batch of `max_bytes`, and the ranges that they cover.

    `ranges` has the archived records of the sources. If the first letter does not fit alone, its source is
    returned without contents.
    """
    taken: list[Source] = []
    size_bytes = HEADER_SIZE
    for source, one in _with_ranges(ranges, sources):
        letter_bytes = _size_of(origin, one, source, len(taken))
        if size_bytes + letter_bytes > max_bytes:
            if taken:
                return taken, _before(ranges, source.offset)
            source = Source(source.offset)
            letter_bytes = _size_of(origin, one, source, 0)
        size_bytes += letter_bytes
        taken.append(source)
    return taken, list(ranges)


def letter_batch(
    origin: Origin, letters: DeadLetters, sources: Sequence[Source], timestamp_ms: int
) -> bytearray:
    """Return the batch of dead letters, with a producer id and epoch that no other batch has."""
    rows = [
        (source.key, source.value, timestamp_ms, _headers(origin, one, source))
        for source, one in _with_ranges(letters.records, sources)
    ]
    return build_batch(
        rows, producer_id=letters.producer_id, producer_epoch=letters.producer_epoch, base_sequence=0
    )


def _with_ranges(
    ranges: Sequence[ArchivedRecords], sources: Sequence[Source]
) -> Iterator[tuple[Source, ArchivedRecords]]:
    """Yield each of the sources, in order, with the range that has it."""
    following = iter(ranges)
    one = next(following)
    for source in sources:
        while source.offset > one.last_offset:
            one = next(following)
        yield source, one


def _before(ranges: Sequence[ArchivedRecords], offset: int) -> list[ArchivedRecords]:
    return [
        one._replace(last_offset=min(one.last_offset, offset - 1))
        for one in ranges
        if one.first_offset < offset
    ]


def _size_of(origin: Origin, one: ArchivedRecords, source: Source, offset_delta: int) -> int:
    target = bytearray()
    append_record(
        target,
        timestamp_delta=0,
        offset_delta=offset_delta,
        key=source.key,
        value=source.value,
        headers=_headers(origin, one, source),
    )
    return len(target)


def _headers(origin: Origin, one: ArchivedRecords, source: Source) -> Headers:
    """Return the record's headers, then those about it, since of two with one name the last counts."""
    texts = (
        (TOPIC, origin.topic),
        (PARTITION, str(origin.partition)),
        (OFFSET, str(source.offset)),
        (GROUP, origin.group),
        (DELIVERY_COUNT, str(one.delivery_count)),
        (MESSAGE, MESSAGES[one.reason]),
    )
    return (*source.headers, *((name, text.encode("utf-8", "surrogateescape")) for name, text in texts))
