"""`ottla produce` and `ottla consume`. Each returns the exit code."""

import asyncio
import os
import re
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.logstore.compression import Compression
from ottla.logstore.record import Record
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli.answers import print_bytes
from ottla.node.cli.failure import EXIT_USAGE, CommandError
from ottla.node.cli.output_file import OutputFile
from ottla.node.cli.record_text import (
    Formatter,
    column_formatter,
    format_json,
    format_json_for_terminal,
    parse_json,
    parse_line,
    template_formatter,
)
from ottla.node.cli.written_report import WrittenReport
from ottla.node.client import topic_admin
from ottla.node.client.ask_leaders import ELECTION_S, Answers, error_of, for_lookup, may_pass
from ottla.node.client.cluster_client import Client
from ottla.node.client.consumer import Consumer
from ottla.node.client.deadline import Deadline
from ottla.node.client.group_member import GroupMember
from ottla.node.client.moments import parse_moment
from ottla.node.client.newest_records import MAX_COUNTED, Newest, Shortfall, Span, newest_offsets
from ottla.node.client.producer import Producer, ProducerRecord

READ_BYTES: Final = 256 * 1024  # of standard input per read
MAX_CHUNKS_AHEAD: Final = 8  # read while earlier records are being sent
LOOKUP_S: Final = 0.3  # for another look-up of start offsets, between two fetches from other partitions
MAX_LINE_BYTES: Final = 64 * 1024 * 1024  # a line without a line break would fill the memory
COMMIT_S: Final = 5.0  # Kafka's auto.commit.interval.ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceOptions:
    """The options of `ottla produce`."""

    topic: str
    key_separator: str | None
    is_json: bool
    headers: tuple[tuple[str, str], ...]
    partition: int | None
    timestamp: int | None
    empty_as_null: bool
    acks: int
    compression: str
    idempotent: bool
    may_create: bool
    is_quiet: bool
    as_json: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeOptions:
    """The options of `ottla consume`."""

    topics: tuple[str, ...]
    group: str | None
    partitions: tuple[int, ...]
    begin: str
    count: int | None
    until_end: bool
    read_committed: bool


# ---- produce -------------------------------------------------------------------------------------


class _StandardInput:
    """The chunks of standard input, read ahead by a daemon thread.

    A thread of the loop's own pool would keep the process running until the next key press.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
        self._room = threading.Semaphore(MAX_CHUNKS_AHEAD)
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    def _read(self) -> None:
        while True:
            self._room.acquire()
            chunk: bytes | OSError
            try:
                chunk = os.read(sys.stdin.fileno(), READ_BYTES)
            except OSError as error:
                chunk = error
            try:
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
            except RuntimeError:  # the loop is closed: the command is over
                return
            if not chunk or isinstance(chunk, OSError):
                return

    async def next(self) -> bytes:
        """Return some bytes; none at the end. OSError if standard input cannot be read."""
        chunk = await self._chunks.get()
        self._room.release()
        if isinstance(chunk, OSError):
            raise chunk
        return chunk

    @property
    def has_more(self) -> bool:
        return not self._chunks.empty()


async def produce(client: Client, options: ProduceOptions) -> int:
    async with client:
        producer = Producer(
            client,
            options.topic,
            acks=options.acks,
            compression=Compression[options.compression.upper()],
            idempotent=options.idempotent,
        )
        try:
            await producer.start(may_create=options.may_create)
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise CommandError(unknown_topic(options.topic)) from None
            raise
        report = WrittenReport(producer, options.topic, is_quiet=options.is_quiet, as_json=options.as_json)
        try:
            await _produce_lines(producer, options, report)
        except KafkaError:
            _report_part(producer.acknowledged)
            raise
        finally:
            report.end()
    return 0


def unknown_topic(name: str) -> str:
    """Return the message about a topic that was to be written to and does not exist."""
    return (
        f"Topic '{name}' does not exist. `ottla topic list` shows all topics; `ottla topic create {name}` or "
        "--create-topic creates it."
    )


async def _produce_lines(producer: Producer, options: ProduceOptions, report: WrittenReport) -> None:
    """Send all of standard input; at an invalid line stop, after the lines before it are sent."""
    try:
        await _read_and_send(producer, options, report)
    except CommandError as error:
        await producer.flush()
        produced = f"{producer.acknowledged} records before it were produced"
        raise CommandError(f"{error} {produced}; continue with that line.", error.exit_code) from None


async def _read_and_send(producer: Producer, options: ProduceOptions, report: WrittenReport) -> None:
    standard_input = _StandardInput()
    rest: list[bytes] = []
    rest_bytes = number = 0
    is_end = False
    while not is_end:
        try:
            chunk = await standard_input.next()
        except OSError as error:
            raise CommandError(
                f"Line {number + 1} of standard input cannot be read: {error.strerror}."
            ) from None
        is_end = not chunk
        pieces = chunk.split(b"\n")
        rest.append(pieces[0])
        rest_bytes += len(pieces[0])
        if rest_bytes > MAX_LINE_BYTES:
            raise CommandError(f"Line {number + 1} is longer than {MAX_LINE_BYTES} bytes.")
        if len(pieces) == 1 and not (is_end and rest_bytes):
            continue
        lines = [b"".join(rest), *pieces[1:-1]]
        rest = pieces[-1:] if len(pieces) > 1 else []
        rest_bytes = sum(map(len, rest))
        for line in lines:
            number += 1
            _add(producer, options, line, number)
        if is_end or producer.is_full or not standard_input.has_more:
            await producer.flush()
            report.show_progress()
    await producer.flush()


def _add(producer: Producer, options: ProduceOptions, line: bytes, number: int) -> None:
    line = line.removesuffix(b"\r")
    if options.is_json and not line.strip():
        return
    try:
        if options.is_json:
            record = parse_json(line)
        else:
            separator = options.key_separator.encode() if options.key_separator else None
            record = parse_line(line, key_separator=separator, empty_as_null=options.empty_as_null)
        producer.add(_completed(record, options))
    except ValueError as error:
        raise CommandError(f"Line {number} cannot be sent: {str(error).rstrip('.')}.") from None


def _completed(record: ProducerRecord, options: ProduceOptions) -> ProducerRecord:
    """Return the record with the headers, partition and timestamp of the options."""
    if not options.headers and options.partition is None and options.timestamp is None:
        return record
    return record._replace(
        headers=(*record.headers, *((name, value.encode()) for name, value in options.headers)),
        partition=options.partition if record.partition is None else record.partition,
        timestamp=options.timestamp if record.timestamp is None else record.timestamp,
    )


def _report_part(acknowledged: int) -> None:
    if acknowledged:
        print(f"ottla: {acknowledged} records were acknowledged before this error.", file=sys.stderr)


# ---- consume -------------------------------------------------------------------------------------


class RecordOutput:
    """Writes records to standard output or a file, and keeps the next offset of each partition."""

    def __init__(self, formatter: Formatter, limit: int | None, file: OutputFile | None = None) -> None:
        self._file = file
        self.left = limit
        self.next_offsets: dict[TopicPartition, int] = {}
        self._formatter = formatter
        self._pieces: list[tuple[TopicPartition, int, bytes]] = []  # not written yet

    @property
    def is_full(self) -> bool:
        return self.left is not None and self.left <= 0

    def count(self, records: int) -> None:
        """Subtract records from the limit."""
        if self.left is not None:
            self.left -= records

    def print(
        self, partition: TopicPartition, records: Sequence[Record], *, deliveries: int | None = None
    ) -> None:
        if self.left is not None:
            records = records[: self.left]
            self.count(len(records))
        if records:
            piece = b"".join(self._formatter(partition, record, deliveries) for record in records)
            self._pieces.append((partition, records[-1].offset + 1, piece))

    def flush(self) -> None:
        """Write the printed records; BrokenPipeError as soon as the reader is gone."""
        for partition, next_offset, piece in self._pieces:
            if self._file is not None:
                self._file.write(piece)
            else:
                print_bytes(piece)
            self.next_offsets[partition] = next_offset
        self._pieces.clear()

    def sync(self) -> None:
        """Flush a file to disk, before the offsets of its records are committed."""
        if self._file is not None:
            self._file.sync()


async def consume(
    client: Client, options: ConsumeOptions, formatter: Formatter, file: OutputFile | None
) -> int:
    try:
        begin = parse_offset_spec(options.begin)
        output = RecordOutput(formatter, options.count, file)
    except ValueError as error:
        raise CommandError(f"{str(error).rstrip('.')}.", EXIT_USAGE) from None
    async with client:
        # A member of a group waits for leaders without a limit, as Kafka's consumers do.
        gives_up = options.group is None or options.until_end
        consumer = Consumer(client, read_committed=options.read_committed, gives_up=gives_up)
        if options.group is None:
            await _consume_alone(client, consumer, output, begin, options)
        else:
            await _consume_in_group(client, consumer, output, begin, options)
    return 0


async def _consume_alone(
    client: Client, consumer: Consumer, output: RecordOutput, begin: "OffsetSpec", options: ConsumeOptions
) -> None:
    partitions: list[TopicPartition] = []
    for name in options.topics:
        topic = await client.topic_as_it_is(name)
        missing = [number for number in options.partitions if number not in topic.leaders]
        if missing:
            raise CommandError(
                f"Topic {name} has no partition {missing[0]}; its last one is {max(topic.leaders)}."
            )
        numbers = options.partitions or sorted(topic.leaders)
        partitions += [TopicPartition(name, number) for number in numbers]
    starts = await find_start_offsets(
        for_lookup(client),
        partitions,
        begin,
        read_committed=options.read_committed,
        searcher=client.renewed(),
    )
    if not starts.found:  # there is nothing else to read, so use the whole timeout
        starts = await find_start_offsets(client, partitions, begin, read_committed=options.read_committed)
        if not starts.found:
            raise error_of(starts.problems)
    consumer.positions, waiting = dict(starts.found), dict(starts.problems)
    ends = await _ends(client, list(starts.found), options)
    while not output.is_full and not _reached(consumer.positions, ends):
        for partition, records in await consumer.fetch():
            output.print(partition, _before(records, ends.get(partition)))
        output.flush()
        if waiting and not ends:
            if client.deadline.is_over:
                break
            again = await find_start_offsets(
                client.until(client.deadline.within(LOOKUP_S)),
                list(waiting),
                begin,
                read_committed=options.read_committed,
            )
            consumer.positions |= again.found
            waiting = dict(again.problems)
    if waiting and not output.is_full:  # records of the others were printed
        raise error_of(waiting)


async def _consume_in_group(
    client: Client, consumer: Consumer, output: RecordOutput, begin: "OffsetSpec", options: ConsumeOptions
) -> None:
    assert options.group is not None
    for name in options.topics:
        await client.topic_as_it_is(name)
    member = GroupMember(client, options.group, options.topics)
    ends: dict[TopicPartition, int] = {}
    waiting: dict[TopicPartition, KafkaError] = {}  # partitions whose start offset is unknown yet
    unread = _Unread()
    committed_s = time.monotonic()
    try:
        while not output.is_full:
            if member.must_rejoin:
                partitions = await member.join()
                resumed = await resume(
                    client, member, partitions, begin, read_committed=options.read_committed
                )
                if resumed is None:
                    continue
                consumer.positions, waiting = dict(resumed.found), dict(resumed.problems)
                ends = await _ends(client, partitions, options)
                output.next_offsets.clear()
            if options.until_end and (not consumer.positions or _reached(consumer.positions, ends)):
                if waiting:  # records of the others were printed
                    raise error_of(waiting)
                return
            if waiting:
                again = await find_start_offsets(
                    client.until(Deadline.after(LOOKUP_S)),
                    list(waiting),
                    begin,
                    read_committed=options.read_committed,
                )
                consumer.positions |= again.found
                waiting = _retriable(again.problems)
            unread.report({**waiting, **consumer.failing_for(ELECTION_S)})
            if consumer.positions:
                for partition, records in await consumer.fetch():
                    output.print(partition, _before(records, ends.get(partition)))
                output.flush()
            else:
                await asyncio.sleep(0.5)  # more members than partitions: wait for a rebalance
            await member.heartbeat()
            # Before a rebalance too, so that the next member continues at this offset.
            if member.must_rejoin or time.monotonic() - committed_s > COMMIT_S:
                await _commit(member, output)
                committed_s = time.monotonic()
    finally:
        await _commit_and_leave(member, output)


async def _commit(member: GroupMember, output: RecordOutput) -> None:
    offsets = dict(output.next_offsets)
    output.sync()
    output.next_offsets.clear()
    await member.commit(offsets)


async def _commit_and_leave(member: GroupMember, output: RecordOutput) -> None:
    """Commit the printed records and leave; also after Ctrl-C, but not if the cluster is gone."""
    try:
        await _commit(member, output)
        await member.leave()
    except KafkaError:
        if sys.exception() is None:
            raise


class _Unread:
    """Prints on stderr the partitions that cannot be read now, each once for each such time."""

    def __init__(self) -> None:
        self._reported: set[TopicPartition] = set()

    def report(self, problems: Mapping[TopicPartition, KafkaError]) -> None:
        for partition, error in sorted(problems.items()):
            if partition not in self._reported:
                reason = (error.detail or error.code.name).rstrip(".")
                words = f"{partition} cannot be read now: {reason}. Reading continues as soon as possible."
                print(f"warning: {words}", file=sys.stderr, flush=True)
        for partition in sorted(self._reported - problems.keys()):
            print(f"{partition} can be read again", file=sys.stderr, flush=True)
        self._reported = set(problems)


def _retriable(problems: Mapping[TopicPartition, KafkaError]) -> dict[TopicPartition, KafkaError]:
    """Return these errors if all of them can be retried; KafkaError if one cannot."""
    if not all(may_pass(error) for error in problems.values()):
        raise error_of(problems)
    return dict(problems)


async def resume(
    client: Client,
    member: GroupMember,
    partitions: Sequence[TopicPartition],
    begin: "OffsetSpec",
    *,
    read_committed: bool,
) -> Answers[int] | None:
    """Return the committed offsets; for partitions without one that of --from, or why it is unknown.

    None if the group wants to rebalance before the newest records are found: the search may take longer than
    the group waits for a heartbeat.
    """
    committed = await member.committed(partitions) if partitions else {}
    known = {partition: one.offset for partition, one in committed.items() if one.offset >= 0}
    fresh = [partition for partition in partitions if partition not in known]
    if not fresh:
        return Answers(known, {})

    async def is_member() -> bool:
        await member.heartbeat()
        return not member.must_rejoin

    starts = await find_start_offsets(
        for_lookup(client.renewed()),
        fresh,
        begin,
        read_committed=read_committed,
        searcher=client.renewed(),
        goes_on=is_member,
    )
    return None if member.must_rejoin else Answers({**known, **starts.found}, _retriable(starts.problems))


async def _ends(
    client: Client, partitions: Sequence[TopicPartition], options: ConsumeOptions
) -> dict[TopicPartition, int]:
    """Return the log ends at which --until-end stops; none without the option."""
    if not options.until_end or not partitions:
        return {}
    # A partition whose end is unknown is read only until the others have reached theirs.
    answers = await topic_admin.find_offsets(
        for_lookup(client.renewed()),
        dict.fromkeys(partitions, topic_admin.LATEST),
        isolation_level=int(options.read_committed),
    )
    if not answers.found:
        raise error_of(answers.problems)
    return {partition: one.offset for partition, one in answers.found.items()}


def _reached(positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> bool:
    return bool(ends) and all(positions.get(partition, end) >= end for partition, end in ends.items())


def _before(records: list[Record], end: int | None) -> list[Record]:
    return records if end is None else [record for record in records if record.offset < end]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintOptions:
    """The options that select how records are printed."""

    shown: frozenset[str]
    separator: str
    template: str | None
    is_json: bool
    is_raw: bool
    file: Path | None
    appends: bool


@contextmanager
def open_output(options: PrintOptions) -> Iterator[OutputFile | None]:
    """Open the file that records are written to; CommandError if it cannot be created or exists already."""
    if options.file is None:
        yield None
        return
    try:
        file = OutputFile(options.file, appends=options.appends)
    except FileExistsError:
        raise CommandError(
            f"{options.file} exists already; add --append to write at its end.", EXIT_USAGE
        ) from None
    except OSError as error:
        raise CommandError(f"{options.file} cannot be written: {error.strerror}.") from None
    try:
        yield file
    finally:
        file.close()


def formatter_of(options: PrintOptions) -> Formatter:
    """Return the formatter for these options; CommandError for a template with an unknown letter."""
    for_terminal = not options.is_raw and options.file is None and sys.stdout.isatty()
    if options.is_json:
        return format_json_for_terminal if for_terminal else format_json
    if options.template is not None:
        try:
            return template_formatter(options.template, for_terminal=for_terminal)
        except ValueError as error:
            raise CommandError(f"{str(error).rstrip('.')}.", EXIT_USAGE) from None
    separator = options.separator.replace("\\t", "\t").replace("\\n", "\n")
    return column_formatter(options.shown, separator, for_terminal=for_terminal)


# ---- start offsets -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSpec:
    """A start of reading: an offset, a number of records before the end, or a time (LATEST is one)."""

    offset: int | None = None
    before_end: int | None = None
    timestamp: int | None = None


def parse_offset_spec(text: str) -> OffsetSpec:
    """Parse `beginning`, `end`, `42`, `-10`, `@1700000000000`, `@2026-01-31T12:00:00Z`; else ValueError."""
    if text in ("beginning", "start", "earliest"):
        return OffsetSpec(timestamp=topic_admin.EARLIEST)
    if text in ("end", "latest"):
        return OffsetSpec(timestamp=topic_admin.LATEST)
    if re.fullmatch(r"[0-9]{1,18}", text):
        return OffsetSpec(offset=int(text))
    if re.fullmatch(r"-[0-9]{1,18}", text):
        return OffsetSpec(before_end=-int(text))
    if re.fullmatch(r"@[0-9]{1,18}", text):
        return OffsetSpec(timestamp=int(text[1:]))
    if text.startswith("@"):
        # Negative times are special values of ListOffsets: -1 would be the end.
        return OffsetSpec(timestamp=max(0, parse_moment(text[1:])))
    raise ValueError(f"--from {text!r} is not beginning, end, an offset, -N, @MILLISECONDS or @DATE")


async def _always() -> bool:
    return True


async def find_start_offsets(
    client: Client,
    partitions: Sequence[TopicPartition],
    begin: OffsetSpec,
    *,
    read_committed: bool,
    searcher: Client | None = None,
    goes_on: Callable[[], Awaitable[bool]] = _always,
) -> Answers[int]:
    """Return the offset at which reading starts in each partition, and the errors of the other partitions.

    For a time after the last record it is the end of the log. OFFSET_OUT_OF_RANGE if a partition does not
    have the given offset. A search for the newest records has the time of `searcher`, and goes on while
    `goes_on` returns True.
    """
    if begin.timestamp is not None:
        answers = await topic_admin.find_offsets(client, dict.fromkeys(partitions, begin.timestamp))
        found = {one: each.offset for one, each in answers.found.items() if each.offset >= 0}
        late = [one for one in answers.found if one not in found]
        ends = await topic_admin.find_offsets(client, dict.fromkeys(late, topic_admin.LATEST))
        found |= {one: each.offset for one, each in ends.found.items()}
        return Answers(found, {**answers.problems, **ends.problems})
    first = await topic_admin.find_offsets(client, dict.fromkeys(partitions, topic_admin.EARLIEST))
    last = await topic_admin.find_offsets(
        client, dict.fromkeys(first.found, topic_admin.LATEST), isolation_level=int(read_committed)
    )
    problems = {**first.problems, **last.problems}
    spans = {one: Span(first.found[one].offset, end.offset) for one, end in last.found.items()}
    if begin.before_end is not None:
        newest = await newest_offsets(
            searcher or client, spans, begin.before_end, read_committed=read_committed, goes_on=goes_on
        )
        for partition, one in newest.items():
            if one.shortfall is not None and await goes_on():
                _warn_of_shortfall(partition, begin.before_end, one)
        return Answers({partition: one.offset for partition, one in newest.items()}, problems)
    assert begin.offset is not None
    for partition, span in spans.items():
        if not span.first <= begin.offset <= span.end:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{partition} has offsets {span.first} to {span.end}, but --from is {begin.offset}",
            )
    return Answers(dict.fromkeys(spans, begin.offset), problems)


_SHORTFALLS: Final = {
    Shortfall.DEADLINE: "the search for them ran out of time (--timeout)",
    Shortfall.COUNTED: f"more than {MAX_COUNTED} of them are counted by offset, not one by one",
    Shortfall.UNAVAILABLE: "the partition could not be read",
}


def _warn_of_shortfall(partition: TopicPartition, wanted: int, found: Newest) -> None:
    assert found.shortfall is not None
    print(
        f"ottla: {partition} is read from offset {found.offset}, where fewer than {wanted} records may "
        f"be left: {_SHORTFALLS[found.shortfall]}.",
        file=sys.stderr,
    )
