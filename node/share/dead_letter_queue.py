"""Writes the dead letters of share-partitions (KIP-1191), one batch of each at a time.

Each letter is written exactly once, whichever node fails. Records wait in the state ARCHIVING. A note about
the next batch is written to their state. The batch is produced with a producer id and epoch that no other
batch has. Then one write archives the records and removes the note. A leader that reads a note sends its
batch again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from ottla.groupcoord.share_state.share_state_words import StateResult, WriteState
from ottla.logstore.partition_log import FetchIsolation
from ottla.logstore.producer_state import MAX_PRODUCER_EPOCH
from ottla.logstore.record_batch import NO_TIMESTAMP
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.clock import Clock
from ottla.node.counters.share_counters import ShareCounters
from ottla.node.handing_over import InThread
from ottla.node.share.dead_letter_topic import Destination
from ottla.node.share.dead_letters import MAX_RANGES, DeadLetters
from ottla.node.share.led_partition import LedPartition
from ottla.node.share.letter_batch import (
    MAX_LETTERS,
    Origin,
    ReadSources,
    Source,
    letter_batch,
    read_sources,
    sources_without_contents,
    take_fitting,
)
from ottla.node.share.letter_order import (
    DESTINATION_ERRORS,
    FIRST_PAUSE_S,
    JITTER,
    REFUSED,
    LetterOrder,
    Sent,
)
from ottla.node.share.share_group_settings import DeadLetterSettings
from ottla.node.share.share_words import FENCED, UNEXPECTED_ERRORS, ArchivedRecords

# As in Kafka: five attempts at a batch.
MAX_ATTEMPTS: Final = 5
MAX_PAUSE_S: Final = 30.0
# Bytes read from the log at once; a larger batch is read whole.
READ_BYTES: Final = 1024 * 1024
# Batches in memory at once, for all share-partitions, each with the records that were read for it.
MAX_IN_MEMORY: Final = 16
_NO_LIMIT: Final = 1 << 40
# Errors that mean that the log has the batch of this note already: no other batch has its epoch, and a later
# epoch is only used after this batch was written or given up.
_ALREADY_IN_LOG: Final = frozenset(
    {
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)

# Errors that mean that a node cannot be reached.
_UNREACHED: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,  # no controller gives a producer id
    }
)

_LOST: Final = KafkaError(
    ErrorCode.OFFSET_OUT_OF_RANGE,
    f"the log has lost more offsets of these records than the {MAX_LETTERS} letters that a batch has",
)

log = logging.getLogger(__name__)

T = TypeVar("T")


class Persister(Protocol):
    """Writes states of share-partitions; the results have the errors."""

    async def write(self, requests: Sequence[WriteState]) -> list[StateResult]: ...


class Produce(Protocol):
    """Produces a batch to all replicas in sync, idempotently; raises KafkaError if that fails."""

    def __call__(self, topic_id: bytes, partition: int, batch: bytearray, /) -> Awaitable[None]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterWorld:
    """The functions of the cluster that are needed to write dead letters."""

    # The destination for a group's source partition; None if the topic must be created.
    destination: Callable[[str, DeadLetterSettings, int], Destination | None]
    max_message_bytes: Callable[[bytes], int | None]  # of a topic; None if it was deleted
    create_topic: Callable[[str], Awaitable[None]]
    next_producer_id: Callable[[], Awaitable[int]]
    produce: Produce
    clock: Clock
    in_thread: InThread
    sleep: Callable[[float], Awaitable[None]]
    chance: Callable[[], float]  # from 0 to 1


class _Prepared(NamedTuple):
    """A batch to note, with its records; `letters` is None if the log has none of the records."""

    letters: DeadLetters | None
    records: Sequence[ArchivedRecords]


class DeadLetterQueue:
    """Writes the dead letters of a node. For the event loop only."""

    def __init__(
        self,
        *,
        world: DeadLetterWorld,
        persister: Persister,
        settings: Callable[[str], DeadLetterSettings | None],
        counters: ShareCounters,
        changed: Callable[[LedPartition], None],
        fenced: Callable[[LedPartition], None],
    ) -> None:
        """`changed` is called when records were archived, `fenced` when another leader has the state."""
        self._world = world
        self._persister = persister
        self._settings = settings
        self._counters = counters
        self._changed = changed
        self._fenced = fenced
        self._room = asyncio.Semaphore(MAX_IN_MEMORY)
        self._order = LetterOrder(sleep=world.sleep, chance=world.chance)

    async def write_all(self, led: LedPartition) -> None:
        """Write dead letters until there are none, or this node no longer leads the share-partition."""
        while not led.is_gone and led.core.is_active and await self._write_next(led):
            pass

    async def _write_next(self, led: LedPartition) -> bool:
        """Write one batch; return True if there may be another."""
        core = led.core
        if core.letters is not None:
            return await self._send(led, core.letters)
        records = core.find_set_aside(MAX_RANGES)
        if not records:
            return False
        settings = self._settings(core.key.group)
        if settings is None:  # the group no longer has a topic for dead letters
            led.note_letters(ErrorCode.NONE, _now_s())
            return await self._archive(led, records)
        prepared = await self._prepare(led, settings, records)
        if led.is_gone:
            return False
        if prepared is None:
            return await self._archive(led, records)
        if prepared.letters is None:
            return await self._archive(led, prepared.records)
        return await self._persist(led, core.begin_letters(prepared.letters))

    async def _archive(self, led: LedPartition, records: Sequence[ArchivedRecords]) -> bool:
        write = led.core.archive_without_letters(records)
        self._changed(led)
        return await self._persist(led, write)

    # ---- a new batch -------------------------------------------------------------------------------------

    async def _prepare(
        self, led: LedPartition, settings: DeadLetterSettings, records: Sequence[ArchivedRecords]
    ) -> _Prepared | None:
        """Prepare a batch: find its destination and read its records.

        Return None if that is given up, or if this node no longer leads the share-partition.
        """
        group, partition = led.core.key.group, led.core.key.partition
        # A group that rejects many records must not wait 15 s for each batch while its topic is missing.
        attempts = 1 if led.missing_letter_topic.was_logged(self._world.clock.now_ms()) else MAX_ATTEMPTS
        for attempt in range(attempts):
            if led.is_gone:
                return None
            try:
                destination = self._world.destination(group, settings, partition)
                if destination is None:
                    await self._create(settings.topic)
                    destination = self._world.destination(group, settings, partition)
                if destination is not None:
                    return await self._prepare_for(led, settings, destination, records)
                error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            except KafkaError as failure:
                error = failure
            led.note_letters(error.code, _now_s())
            if error.code in REFUSED or attempt == attempts - 1:
                break
            await self._pause(led, attempt)
        if not led.is_gone:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                led.missing_letter_topic.note(self._world.clock.now_ms())
            self._give_up(led, records, settings.topic, error)
        return None

    async def _create(self, topic: str) -> None:
        try:
            with _as_not_controller():
                await self._world.create_topic(topic)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    async def _prepare_for(
        self,
        led: LedPartition,
        settings: DeadLetterSettings,
        destination: Destination,
        records: Sequence[ArchivedRecords],
    ) -> _Prepared:
        max_bytes = destination.max_message_bytes
        async with self._room:
            sources, read = await self._read(led, records, max_bytes, copies_records=settings.copies_records)
            if not sources:
                return _Prepared(None, read)
            with _as_invalid_record():
                _, fitted = take_fitting(_origin(led), read, sources, max_bytes)
            del sources
        if led.letter_producer is None or led.letter_producer[1] >= MAX_PRODUCER_EPOCH:
            with _as_not_controller():
                led.letter_producer = await self._world.next_producer_id(), -1
        producer_id, epoch = led.letter_producer
        led.letter_producer = producer_id, epoch + 1
        letters = DeadLetters(
            producer_id=producer_id,
            producer_epoch=epoch + 1,
            topic_id=destination.topic_id,
            partition=destination.partition,
            records=tuple(fitted),
        )
        return _Prepared(letters, fitted)

    # ---- the records in the log --------------------------------------------------------------------------

    async def _read(
        self,
        led: LedPartition,
        records: Sequence[ArchivedRecords],
        max_bytes: int,
        *,
        copies_records: bool,
    ) -> tuple[list[Source], list[ArchivedRecords]]:
        """Read as many of the first records as one batch may have; return them and their ranges."""
        sources: list[Source] = []
        read: list[ArchivedRecords] = []
        size_bytes = 0
        max_bytes = max(max_bytes, 1)  # a topic may take no bytes at all; then its leader rejects the batch
        for one in records:
            offset = one.first_offset
            while offset <= one.last_offset and len(sources) < MAX_LETTERS and size_bytes < max_bytes:
                room, room_bytes = MAX_LETTERS - len(sources), max_bytes - size_bytes
                found = await self._read_piece(led, offset, one.last_offset, room, room_bytes, copies_records)
                if found.last_offset < offset and not found.sources:
                    if sources:
                        break  # the next record goes into the next batch
                    found = sources_without_contents(offset, offset, 1)
                sources += found.sources
                size_bytes += sum(source.size_bytes for source in found.sources)
                offset = found.last_offset + 1
            if offset > one.first_offset:
                read.append(one._replace(last_offset=offset - 1))
            if offset <= one.last_offset:
                break
        return sources, read

    async def _read_piece(
        self, led: LedPartition, first: int, last: int, room: int, room_bytes: int, copies_records: bool
    ) -> ReadSources:
        partition_log = led.partition.log
        try:
            if first < partition_log.log_start_offset:
                return sources_without_contents(first, min(last, partition_log.log_start_offset - 1), room)
            # Up to the log end: a new leader may not know yet that its followers have the delivered records.
            cold = partition_log.cold_read(first, FetchIsolation.LOG_END)
            if cold is not None:
                await self._world.in_thread(cold.run)
            found = partition_log.read(
                first, READ_BYTES, isolation=FetchIsolation.LOG_END, minimum_one_batch=True
            )
            if not found.slice.size:
                return sources_without_contents(first, last, room)
            piece = found.slice

            def read() -> ReadSources:
                content = piece.read()
                with _as_invalid_record():
                    return read_sources(
                        content,
                        first,
                        last,
                        max_records=room,
                        max_bytes=room_bytes,
                        copies_records=copies_records,
                    )

            return await self._world.in_thread(read)
        except (OSError, KafkaError) as error:
            log.warning(
                "Records %d to %d of %s cannot be read, so their dead letters have no key and value: %s",
                *(first, last, led.partition.topic_partition, error),
            )
            return sources_without_contents(first, last, room)

    # ---- a batch whose note is written -------------------------------------------------------------------

    async def _send(self, led: LedPartition, letters: DeadLetters) -> bool:
        """Produce a noted batch, which its log may have already, and archive its records then.

        The records are archived after the last failed attempt, too. Return True if there may be more.
        """
        counts = self._counters.dead_letters_of(led.core.key.group)
        settings = self._settings(led.core.key.group)
        copies_records = settings is not None and settings.copies_records
        has_time = True
        failed_attempts = 0
        while True:
            count, without, error = await self._order.attempt_in_turn(
                letters.topic_id,
                letters.partition,
                partial(self._attempt, led, letters, copies_records=copies_records, has_time=has_time),
            )
            if led.is_gone:
                return False
            if error is not None and self._world.max_message_bytes(letters.topic_id) is None:
                # Letters that were written were deleted with their topic.
                led.core.forget_letters()
                return True
            led.note_letters(ErrorCode.NONE if error is None else error.code, _now_s())
            if error is None:
                counts.records += count
                if without:
                    self._give_up(led, without, "", _LOST)
                break
            if error.code is ErrorCode.INVALID_TIMESTAMP and has_time:
                has_time = False  # the clock of the leader there differs from ours
                continue
            if error.code in REFUSED and copies_records:
                copies_records = False  # the topic may take the letters without the records' contents
                continue
            failed_attempts += 1
            if error.code in REFUSED or failed_attempts == MAX_ATTEMPTS:
                break
            if error.code not in DESTINATION_ERRORS:
                # The pause is here, so that other share-partitions go on meanwhile.
                await self._pause(led, failed_attempts - 1)
        if error is not None:
            self._give_up(led, letters.records, "", error)
        write = led.core.end_letters()
        self._changed(led)
        return await self._persist(led, write)

    async def _attempt(
        self, led: LedPartition, letters: DeadLetters, *, copies_records: bool, has_time: bool
    ) -> Sent:
        """Make one attempt to produce a batch."""
        if led.is_gone:  # since it began to wait for its turn
            return Sent()
        max_bytes = self._world.max_message_bytes(letters.topic_id)
        if max_bytes is None:
            return Sent(error=KafkaError(ErrorCode.UNKNOWN_TOPIC_ID))
        try:
            async with self._room:
                with _as_invalid_record():
                    count, batch, without = await self._build(
                        led, letters, max_bytes, copies_records, has_time
                    )
        except KafkaError as error:
            return Sent(error=error)
        if not count:
            return Sent(0, without)
        self._counters.dead_letters_of(led.core.key.group).produces += 1
        try:
            await self._world.produce(letters.topic_id, letters.partition, batch)
        except KafkaError as error:
            return Sent(count, without, None if error.code in _ALREADY_IN_LOG else error)
        return Sent(count, without)

    async def _build(
        self, led: LedPartition, letters: DeadLetters, max_bytes: int, copies_records: bool, has_time: bool
    ) -> tuple[int, bytearray, list[ArchivedRecords]]:
        """Build the batch of a note; return the number of letters, the batch, and records without letters."""
        origin = _origin(led)
        sources, read = await self._read(led, letters.records, max_bytes, copies_records=copies_records)
        taken, fitted = take_fitting(origin, read, sources, max_bytes) if sources else (sources, read)
        if tuple(fitted) != letters.records:
            # Since the note was written, the settings have lowered the limit of a batch, or the log has lost
            # records: each lost offset has a letter, and in a compacted log they may be millions.
            taken, read = await self._read(led, letters.records, _NO_LIMIT, copies_records=False)
        rest = _behind(letters.records, read)
        if not taken:
            return 0, bytearray(), rest
        timestamp_ms = self._world.clock.now_ms() if has_time else NO_TIMESTAMP
        return len(taken), letter_batch(origin, letters, taken, timestamp_ms), rest

    def _give_up(
        self, led: LedPartition, records: Sequence[ArchivedRecords], topic: str, error: KafkaError
    ) -> None:
        self._counters.dead_letters_of(led.core.key.group).failed_produces += 1
        led.letters_lost = led.letter_failure is not ErrorCode.NONE
        led.lost_letters.log(
            log,
            self._world.clock.now_ms(),
            "Records of %s from offset %d to %d, in %d ranges, are archived without dead letters of the "
            "share group %r%s: %s: %s",
            led.partition.topic_partition,
            *(records[0].first_offset, records[-1].last_offset, len(records), led.core.key.group[:100]),
            f" in {topic[:100]!r}" if topic else "",
            *(error.code.name, error.detail[:500]),
        )

    # ---- the state ---------------------------------------------------------------------------------------

    async def _persist(self, led: LedPartition, write: WriteState) -> bool:
        """Repeat a write until it succeeds or is fenced; return True if this node goes on.

        No other note may be written meanwhile: the coordinator may have this one although the write failed.
        """
        attempt, failure, failed_s = 0, led.letter_failure, led.letter_failed_s
        while not led.is_gone:
            result = (await self._persister.write([led.core.as_of_now(write)]))[0]
            if result.error is ErrorCode.NONE:
                led.letter_failure, led.letter_failed_s = failure, failed_s
                return not led.is_gone
            if result.error in FENCED or result.error is ErrorCode.INVALID_REQUEST:  # it was deleted
                self._fenced(led)
                return False
            log.warning(
                "The share group state of %s could not be written, and is tried again: %s",
                led.core.key.coordinator_key[-150:],
                result.error.name,
            )
            # Not the error itself, which would look like one of the topic for dead letters.
            led.note_letters(ErrorCode.COORDINATOR_NOT_AVAILABLE, _now_s())
            await self._pause(led, attempt)
            attempt += 1
        return False

    async def _pause(self, led: LedPartition, attempt: int) -> None:
        if not led.is_gone:
            pause_s = min(FIRST_PAUSE_S * 2 ** min(attempt, 10), MAX_PAUSE_S)
            await self._world.sleep(pause_s * (1 + JITTER * (2 * self._world.chance() - 1)))


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _behind(records: Sequence[ArchivedRecords], read: Sequence[ArchivedRecords]) -> list[ArchivedRecords]:
    """Return the records that remain after the first ones were read."""
    following = read[-1].last_offset + 1 if read else 0
    return [
        one._replace(first_offset=max(one.first_offset, following))
        for one in records
        if one.last_offset >= following
    ]


@contextmanager
def _as_invalid_record() -> Iterator[None]:
    """Turn an unforeseen exception into a KafkaError: a record must not end the node, again and again."""
    try:
        yield
    except UNEXPECTED_ERRORS as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{type(error).__name__}: {error}") from error


@contextmanager
def _as_not_controller() -> Iterator[None]:
    """Turn an unreachable controller into NOT_CONTROLLER, since the topic for dead letters may be fine."""
    try:
        yield
    except KafkaError as error:
        if error.code not in _UNREACHED:
            raise
        raise KafkaError(ErrorCode.NOT_CONTROLLER, f"the controller does not answer: {error}") from error


def _origin(led: LedPartition) -> Origin:
    name = led.partition.topic_partition
    return Origin(led.core.key.group, name.topic, name.partition)
