"""An open batch equals, byte for byte, the batch that `build_batch` makes of the same records."""

import pytest

from ottla.logstore.compression import Compression
from ottla.logstore.open_batch import OpenBatch
from ottla.logstore.record import NewRecord, build_batch

ALIKE = [b"%04d" % number for number in range(9_000)]


def rows(count: int, timestamp_ms: int) -> list[NewRecord]:
    return [(b"key-" + tail, b"value of " + tail, timestamp_ms, ()) for tail in ALIKE[:count]]


def append_alike(batch: OpenBatch, count: int, timestamp_ms: int) -> None:
    tails = ALIKE[:count]
    batch.append_alike(b"key-", tails, [b"value of " + tail for tail in tails], timestamp_ms)


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 200, 8_192, 8_193, 9_000])
def test_similar_records_are_appended_at_once(count: int) -> None:
    batch = OpenBatch()

    append_alike(batch, count, 1_000)

    assert batch.count == count
    assert batch.seal() == build_batch(rows(count, 1_000))


def test_records_are_appended_singly_and_together_with_any_timestamps() -> None:
    batch = OpenBatch()

    batch.append(b"first", None, 5_000, (("h", b"1"),))
    append_alike(batch, 60, 4_000)
    batch.append(None, b"x" * 300, 9_000)
    append_alike(batch, 10, 70_000)
    append_alike(batch, 3, 8_000)

    expected: list[NewRecord] = [
        (b"first", None, 5_000, (("h", b"1"),)),
        *rows(60, 4_000),
        (None, b"x" * 300, 9_000, ()),
        *rows(10, 70_000),
        *rows(3, 8_000),
    ]
    assert batch.seal() == build_batch(expected)


def test_long_keys_and_values_have_longer_length_varints() -> None:
    head, tails, values = b"k" * 500, [b"0", b"1"], [b"v" * 20_000, b"w" * 20_000]
    batch = OpenBatch()

    batch.append_alike(head, tails, values, 1)

    expected = [(head + tail, value, 1, ()) for tail, value in zip(tails, values, strict=True)]
    assert batch.seal() == build_batch(expected)


@pytest.mark.parametrize("compression", Compression)
def test_a_batch_is_sealed_for_its_producer_and_compressed(compression: Compression) -> None:
    batch = OpenBatch()
    append_alike(batch, 5, 7)

    sealed = batch.seal(compression=compression, producer_id=4, producer_epoch=2, is_transactional=True)

    assert sealed == build_batch(
        rows(5, 7), compression=compression, producer_id=4, producer_epoch=2, is_transactional=True
    )
