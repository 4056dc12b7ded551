"""A record batch that grows record by record: `build_batch` with each record encoded at once.

A command sends millions of lines, so this is the one module of the command line written for speed: a record
takes a third of the time that it takes in `build_batch`, and the bytes are identical.
"""

from typing import Final

from ottla.logstore.compression import Compression, compress
from ottla.logstore.record import Headers, append_record, seal_batch
from ottla.logstore.record_batch import HEADER_SIZE, MAGIC, NO_LEADER_EPOCH, BatchHeader
from ottla.logstore.words.varint import append_varint

TABLE_SIZE: Final = 4096  # two bytes each: lengths and deltas of nearly all records


def _encoded(number: int) -> bytes:
    encoded = bytearray()
    append_varint(encoded, number)
    return bytes(encoded)


_VARINTS: Final = [_encoded(number) for number in range(TABLE_SIZE)]
_NULL: Final = _encoded(-1)
_NO_HEADERS: Final = b"\0"


class BatchBuilder:
    """One batch under construction; its base timestamp is that of the first record."""

    __slots__ = ("_base_timestamp", "_body", "_max_timestamp", "records_count")

    def __init__(self) -> None:
        self.records_count = 0
        self._body = bytearray()
        self._base_timestamp = self._max_timestamp = -1

    @property
    def size_bytes(self) -> int:
        """Return the size of header and records before compression."""
        return HEADER_SIZE + len(self._body)

    def append(self, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers) -> None:
        """Add a record; `timestamp` in ms since 1970."""
        if not self.records_count:
            self._base_timestamp = self._max_timestamp = timestamp
        elif timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        delta, number = timestamp - self._base_timestamp, self.records_count
        self.records_count = number + 1
        if headers:
            append_record(
                self._body, timestamp_delta=delta, offset_delta=number, key=key, value=value, headers=headers
            )
            return
        pieces = (
            b"\0",  # attributes
            _VARINTS[delta] if 0 <= delta < TABLE_SIZE else _encoded(delta),
            _VARINTS[number] if number < TABLE_SIZE else _encoded(number),
            _NULL if key is None else _VARINTS[size] if (size := len(key)) < TABLE_SIZE else _encoded(size),
            key or b"",
            _NULL
            if value is None
            else _VARINTS[size]
            if (size := len(value)) < TABLE_SIZE
            else _encoded(size),
            value or b"",
            _NO_HEADERS,
        )
        record = b"".join(pieces)
        size = len(record)
        self._body += _VARINTS[size] if size < TABLE_SIZE else _encoded(size)
        self._body += record

    def build(
        self, *, compression: Compression, producer_id: int, producer_epoch: int, base_sequence: int
    ) -> bytearray:
        """Return the batch as it is sent; it has at least one record."""
        assert self.records_count, "an empty batch is not sent"
        header = BatchHeader(
            base_offset=0,
            batch_length=0,
            partition_leader_epoch=NO_LEADER_EPOCH,
            magic=MAGIC,
            crc=0,
            attributes=int(compression),
            last_offset_delta=self.records_count - 1,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            records_count=self.records_count,
        )
        body = self._body if compression is Compression.NONE else compress(compression, self._body)
        return seal_batch(header, body)
