"""The headers of the batches in a slice are read no further than needed, and only of whole batches."""

from pathlib import Path

import pytest

from ottla.logstore.disk import FileSlice, MemoryDisk
from ottla.logstore.record import build_batch
from ottla.logstore.record_batch import patch_offset_and_epoch
from ottla.logstore.transaction_index import AbortedTransaction
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.share.read_batches import CHUNK_BYTES, ReadBatches, read_batches

ALL = 2**62


def batch(base_offset: int, count: int = 10, size: int = 5, **fields: object) -> bytearray:
    made = build_batch([(b"k", bytes(size), 1, ())] * count, **fields)  # type: ignore[arg-type]
    patch_offset_and_epoch(made, base_offset, len(made) - 12, 0)
    return made


def slice_of(*batches: bytes | bytearray, size: int | None = None) -> FileSlice:
    disk = MemoryDisk()
    disk.make_directory(Path("/d"))
    file = disk.open(Path("/d/log"), create=True)
    content = b"head" + b"".join(batches)
    file.write_at(0, [content])
    return FileSlice(file, 4, len(content) - 4 if size is None else size)


def read(piece: FileSlice, aborted: list[AbortedTransaction] | None = None) -> ReadBatches:
    found = read_batches(piece, FileSlice.read_cached, last_offset=ALL, aborted=aborted)
    assert found is not None
    return found


def test_every_batch_is_found_with_its_position() -> None:
    batches = [batch(0), batch(10), batch(25, 5)]

    found = read(slice_of(*batches))

    assert (found.base_offsets, found.last_offsets) == ([0, 10, 25], [9, 19, 29])
    assert found.size_bytes == sum(map(len, batches))
    assert found.span(12, 12) == (len(batches[0]), len(batches[0]) + len(batches[1]))
    assert found.span(0, 29) == (0, found.size_bytes)


def test_a_batch_cut_by_the_limit_is_left_out() -> None:
    first, second = batch(0), batch(10)

    found = read(slice_of(first, second, size=len(first) + len(second) - 1))

    assert (found.base_offsets, found.size_bytes) == ([0], len(first))


def test_no_more_is_read_than_needed() -> None:
    large = [batch(base, 1, size=3 * CHUNK_BYTES) for base in range(5)]
    pieces: list[FileSlice] = []

    def counted(piece: FileSlice) -> bytes | bytearray | None:
        pieces.append(piece)
        return piece.read_cached()

    found = read_batches(slice_of(*large), counted, last_offset=2, aborted=())

    assert found is not None and found.last_offsets == [0, 1, 2]
    assert [piece.size for piece in pieces] == [CHUNK_BYTES] * 3


def test_more_batches_are_read_while_they_are_small() -> None:
    small = [batch(base, 1) for base in range(50)]
    size = len(small[0])

    found = read_batches(
        slice_of(*small),
        FileSlice.read_cached,
        last_offset=2,
        aborted=(),
        further_offset=40,
        further_bytes=10 * size,
    )
    further = read_batches(
        slice_of(*small),
        FileSlice.read_cached,
        last_offset=2,
        aborted=(),
        further_offset=7,
        further_bytes=10 * size,
    )

    assert found is not None and found.last_offsets[-1] == 9
    assert further is not None and further.last_offsets[-1] == 7


def test_none_is_returned_if_bytes_are_not_in_memory() -> None:
    assert read_batches(slice_of(batch(0)), lambda _: None, last_offset=ALL, aborted=()) is None


def test_batches_of_aborted_transactions_are_found_up_to_their_marker() -> None:
    def of(producer_id: int, base: int, *, is_control: bool = False) -> bytearray:
        return batch(
            base, 1, producer_id=producer_id, producer_epoch=0, is_transactional=True, is_control=is_control
        )

    of_one = AbortedTransaction(producer_id=1, first_offset=0, last_offset=4, last_stable_offset=0)
    piece = slice_of(
        *(of(1, 0), of(2, 1), batch(2, 1), of(1, 3)),
        *(of(1, 4, is_control=True), of(1, 5), of(2, 6, is_control=True)),
    )

    found = read(piece, aborted=[of_one])

    assert found.aborted == [(0, 0), (3, 3)]


def test_invalid_batches_are_rejected_and_not_read_for_ever() -> None:
    broken = batch(0)
    broken[8:12] = (0).to_bytes(4, "big")

    with pytest.raises(KafkaError) as refused:
        read(slice_of(broken))

    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_log_that_was_truncated_meanwhile_ends_at_its_new_end() -> None:
    piece = slice_of(batch(0))

    longer = FileSlice(piece.file, piece.position, piece.size + 500)

    found = read_batches(longer, FileSlice.read, last_offset=ALL, aborted=())

    assert found is not None and found.base_offsets == [0]
