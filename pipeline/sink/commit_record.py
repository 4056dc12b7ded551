"""The record of a decided batch, with its participants: the metadata of an offset that group T commits.

A coordinator keeps 4,096 characters of metadata for a partition, so participants are written as differences
from the one before, in numbers of as many bytes as they need: three or four bytes each where producer ids lie
together. `record_parts` divides longer records.

    version  |  query id  run id  |  batch id  |  producer id  epoch of T-c    |  flags   | count participants
    1 byte   |  16        16      |  varint    |  varint       varint          |  1 byte  |  varint

A participant is four varints: the differences of incarnation, slot, producer id and epoch.
"""

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.pipeline.columns.producer_pair import ProducerPair
from ottla.pipeline.sink.record_parts import ROOM_CHARS
from ottla.pipeline.sink.slots import Participant, Slot
from ottla.pipeline.words import OptionError

VERSION: Final = 1
MAX_PARTICIPANTS: Final = 100_000  # of a record that is read; far more than fit
_TWO_PHASE: Final = 1
_MAX_VARINT_BYTES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """The record of the last decision. `generation` is the pair of T-c that decided it.

    With `two_phase` no participant could time out.
    """

    query_id: UUID
    run_id: UUID
    batch_id: int
    generation: ProducerPair
    two_phase: bool
    participants: tuple[Participant, ...]


def encode_record(record: CommitRecord) -> str:
    """Return the metadata of the record's offset; OptionError if there are more participants than fit."""
    written = bytearray([VERSION])
    written += record.query_id.bytes + record.run_id.bytes
    for number in (record.batch_id, record.generation.producer_id, record.generation.epoch):
        written += _varint(number)
    written.append(_TWO_PHASE if record.two_phase else 0)
    written += _varint(len(record.participants))
    before = (0, 0, 0, 0)
    for participant in record.participants:
        numbers = (*participant.slot, *participant.pair)
        for number, last in zip(numbers, before, strict=True):
            written += _varint(number - last)
        before = numbers
    metadata = b64encode(written).decode()
    if len(metadata) > ROOM_CHARS:
        raise OptionError(
            "delivery.guarantee",
            "exactly_once supports batches of up to about 35,000 tasks with rows, "
            f"but this one has {len(record.participants)}: use coalesce, or a lower "
            "spark.sql.shuffle.partitions",
        )
    return metadata


def decode_record(metadata: str) -> CommitRecord:
    """Return the record; CORRUPT_MESSAGE if this sink cannot have written it."""
    try:
        content = b64decode(metadata, validate=True)
    except (NotBase64, ValueError):
        raise _corrupt("it is not base64") from None
    if content[:1] != bytes([VERSION]) or len(content) < 33:
        raise _corrupt("its version is not supported")
    query_id, run_id = UUID(bytes=content[1:17]), UUID(bytes=content[17:33])
    numbers = _Numbers(content, 33)
    batch_id, producer_id, epoch = numbers.next(), numbers.next(), numbers.next()
    flags, count = numbers.byte(), numbers.next()
    if batch_id < 0 or not 0 <= count <= MAX_PARTICIPANTS:
        raise _corrupt("a number is out of bounds")
    participants = tuple(_participants(numbers, count))
    if not numbers.at_end:
        raise _corrupt("it has bytes after its end")
    return CommitRecord(
        query_id=query_id,
        run_id=run_id,
        batch_id=batch_id,
        generation=ProducerPair(producer_id, epoch),
        two_phase=bool(flags & _TWO_PHASE),
        participants=participants,
    )


def _participants(numbers: "_Numbers", count: int) -> Iterator[Participant]:
    incarnation = slot = producer_id = epoch = 0
    for _ in range(count):
        incarnation += numbers.next()
        slot += numbers.next()
        producer_id += numbers.next()
        epoch += numbers.next()
        if min(incarnation, slot, producer_id, epoch) < 0 or epoch >= 2**15 or producer_id >= 2**63:
            raise _corrupt("a participant is out of bounds")
        yield Participant(Slot(incarnation, slot), ProducerPair(producer_id, epoch))


class _Numbers:
    """A reader of consecutive zig-zag varints."""

    def __init__(self, content: bytes, position: int) -> None:
        self._content = content
        self._position = position

    @property
    def at_end(self) -> bool:
        return self._position == len(self._content)

    def byte(self) -> int:
        if self._position >= len(self._content):
            raise _corrupt("it is cut off")
        self._position += 1
        return self._content[self._position - 1]

    def next(self) -> int:
        value = 0
        for index in range(_MAX_VARINT_BYTES):
            byte = self.byte()
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                return value >> 1 ^ -(value & 1)
        raise _corrupt("a number is too long")


def _varint(number: int) -> bytes:
    value = number << 1 if number >= 0 else (-number << 1) - 1
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _corrupt(problem: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the record of a batch cannot be read: {problem}")
