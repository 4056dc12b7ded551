"""Batches of dead letters: their records, their headers and their size."""

from typing import Any

import pytest

from ottla.logstore.compression import Compression
from ottla.logstore.record import Record, build_batch, iterate_records
from ottla.logstore.record_batch import read_header
from ottla.node.share.dead_letters import DeadLetters
from ottla.node.share.letter_batch import (
    Origin,
    Source,
    letter_batch,
    read_sources,
    sources_without_contents,
    take_fitting,
)
from ottla.node.share.share_words import ArchivedRecords, ArchiveReason

ORIGIN = Origin("workers", "orders", 3)
LIMITS: dict[str, Any] = {"max_records": 500, "max_bytes": 1 << 20, "copies_records": True}


def rejected(first: int, last: int, count: int = 1) -> ArchivedRecords:
    return ArchivedRecords(first, last, count, ArchiveReason.REJECTED)


def piece(*offsets: int, compression: Compression = Compression.NONE, value: bytes = b"value") -> bytes:
    """Return a batch with records of these offsets."""
    records = [Record(offset, 5, b"key", value, (("h", b"x"),)) for offset in offsets]
    return bytes(build_batch(records, compression=compression))


def offsets_of(sources: list[Source]) -> list[int]:
    return [source.offset for source in sources]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_records_are_read_with_all_their_contents(compression: Compression) -> None:
    content = piece(10, 11, 13, compression=compression) + piece(15, 16)

    found = read_sources(content, 11, 15, **LIMITS)

    assert offsets_of(found.sources) == [11, 13, 15]  # records removed by compaction get no letter
    assert found.sources[0][1:] == (b"key", b"value", (("h", b"x"),))
    assert found.last_offset == 15


def test_batches_after_the_last_record_are_not_needed() -> None:
    assert read_sources(piece(10) + piece(20), 10, 15, **LIMITS) == (
        [Source(10, b"key", b"value", (("h", b"x"),))],
        15,
    )


def test_a_batch_cut_by_the_read_is_left_for_the_next_read() -> None:
    content = piece(10, 11) + piece(12, 13)[:-1]

    found = read_sources(content, 10, 13, **LIMITS)

    assert (offsets_of(found.sources), found.last_offset) == ([10, 11], 11)


def test_markers_of_transactions_have_no_letters() -> None:
    control = bytes(
        build_batch(
            [Record(11, 5, b"\0\0\0\1", b"\0\0\0\0\0\0")], is_control=True, producer_id=1, producer_epoch=0
        )
    )

    found = read_sources(piece(10) + control + piece(12), 10, 12, **LIMITS)

    assert (offsets_of(found.sources), found.last_offset) == ([10, 12], 12)


def test_records_that_cannot_be_opened_have_letters_without_contents() -> None:
    whole = piece(10, 11, 12, compression=Compression.GZIP)
    broken = whole[:70] + b"\xff" * (len(whole) - 70)

    found = read_sources(broken, 10, 12, **LIMITS)

    assert found.sources == [Source(10), Source(11), Source(12)]


@pytest.mark.parametrize(
    ("offsets", "found"), [((10, 10, 10, 13), [10, 13]), ((10, 12, 11, 12, 13), [10, 12, 13])]
)
@pytest.mark.parametrize("most", [1, 2, 3, 500])
def test_offsets_that_do_not_grow_are_read_once(
    offsets: tuple[int, ...], found: list[int], most: int
) -> None:
    read = read_sources(piece(*offsets), 10, 13, **{**LIMITS, "max_records": most})

    assert offsets_of(read.sources) == found[:most]
    assert read.last_offset == (found[most] - 1 if most < len(found) else 13)
    records = [rejected(10, read.last_offset)]
    assert take_fitting(ORIGIN, records, read.sources, 1 << 20) == (read.sources, records)


def test_a_read_has_limits() -> None:
    content = piece(10, 11, 12, value=b"v" * 100)

    assert offsets_of(read_sources(content, 10, 12, **{**LIMITS, "max_records": 2}).sources) == [10, 11]
    assert read_sources(content, 10, 12, **{**LIMITS, "max_records": 2}).last_offset == 11
    found = read_sources(content, 10, 12, **{**LIMITS, "max_bytes": 250})
    assert (offsets_of(found.sources), found.last_offset) == ([10, 11], 11)
    alone = read_sources(content, 10, 12, **{**LIMITS, "max_bytes": 50})
    assert alone.sources[0] == Source(10)  # the record would never fit
    assert sources_without_contents(5, 2**60, 3) == ([Source(5), Source(6), Source(7)], 7)


def test_a_letter_has_the_origin_of_its_record_and_the_reason() -> None:
    records = (rejected(10, 11, 2), ArchivedRecords(14, 20, 5, ArchiveReason.DELIVERY_LIMIT))
    letters = DeadLetters(producer_id=7, producer_epoch=3, topic_id=bytes(16), partition=0, records=records)
    sources = [Source(11, b"k", None, (("h", b"x"), ("__dlq.errors.offset", b"old"))), Source(17)]

    batch = letter_batch(ORIGIN, letters, sources, 99)

    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 0)
    first, second = iterate_records(batch)
    assert (first.key, first.value, first.timestamp) == (b"k", None, 99)
    assert first.headers == (
        ("h", b"x"),
        ("__dlq.errors.offset", b"old"),
        ("__dlq.errors.topic", b"orders"),
        ("__dlq.errors.partition", b"3"),
        ("__dlq.errors.offset", b"11"),
        ("__dlq.errors.group", b"workers"),
        ("__dlq.errors.delivery.count", b"2"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    )
    assert (second.key, second.value) == (None, None)
    headers = dict(second.headers)
    assert (headers["__dlq.errors.offset"], headers["__dlq.errors.delivery.count"]) == (b"17", b"5")
    assert headers["__dlq.errors.message"] == b"Offset delivery count exceeded the threshold."


def test_a_batch_is_no_larger_than_the_topic_allows() -> None:
    records = [rejected(0, 4), rejected(8, 8)]
    sources = [Source(offset, None, b"v" * 300) for offset in (0, 2, 4, 8)]
    for max_bytes in range(700, 2_500, 50):
        taken, fitted = take_fitting(ORIGIN, records, sources, max_bytes)

        letters = DeadLetters(
            producer_id=7, producer_epoch=3, topic_id=bytes(16), partition=0, records=tuple(fitted)
        )
        assert len(letter_batch(ORIGIN, letters, taken, 99)) <= max_bytes
        expected = {1: [rejected(0, 1)], 2: [rejected(0, 3)], 3: [rejected(0, 4), rejected(8, 7)], 4: records}
        assert [one for one in expected[len(taken)] if one.first_offset <= one.last_offset] == fitted
    assert len(take_fitting(ORIGIN, records, sources, 1 << 20)[0]) == 4


def test_a_letter_that_does_not_fit_has_no_contents() -> None:
    taken, fitted = take_fitting(ORIGIN, [rejected(0, 1)], [Source(0, None, b"v" * 900), Source(1)], 800)

    assert taken[0] == Source(0)
    assert fitted == [rejected(0, 1)]
    # Then the topic rejects it with an error.
    assert take_fitting(ORIGIN, [rejected(0, 1)], [Source(0), Source(1)], 10)[0] == [Source(0)]
