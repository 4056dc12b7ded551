"""One record batch split in two, for a log that refuses it as too large, as Java's producer does."""

from ottla.logstore.compression import Compression, compress
from ottla.logstore.record import Record, append_record, iterate_records, seal_batch
from ottla.logstore.record_batch import NO_PRODUCER_ID, BatchHeader, increment_sequence, read_header
from ottla.logstore.words.schema import Buffer


def split_in_halves(data: Buffer, level: int | None = None) -> tuple[bytearray, bytearray]:
    """Return two batches that together have the records of `data`, which holds at least two.

    Each record keeps its sequence number, so that the batches that follow need no change.
    """
    header = read_header(data)
    records = list(iterate_records(data))
    middle = len(records) // 2
    assert middle, "a batch of one record has no halves"
    return _part(header, records[:middle], 0, level), _part(header, records[middle:], middle, level)


def _part(header: BatchHeader, records: list[Record], first: int, level: int | None) -> bytearray:
    """Return the batch of `records`, which `first` other records precede in the whole batch."""
    base_timestamp = records[0].timestamp
    content = bytearray()
    for index, record in enumerate(records):
        append_record(
            content,
            timestamp_delta=record.timestamp - base_timestamp,
            offset_delta=index,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )
    compression = header.compression
    sequence = header.base_sequence
    if header.producer_id != NO_PRODUCER_ID:
        sequence = increment_sequence(sequence, first)
    part = header._replace(
        base_offset=0,
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in records),
        base_sequence=sequence,
        records_count=len(records),
    )
    if compression is Compression.NONE:
        return seal_batch(part, content)
    return seal_batch(part, compress(compression, content, level))
