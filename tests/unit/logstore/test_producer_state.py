"""The producer state of a log: idempotence and transactions (KIP-98, KIP-360)."""

import struct

import pytest

from ottla.logstore.producer_state import (
    CompletedTransaction,
    ProducerEntry,
    ProducerState,
    decode_snapshot,
    encode_snapshot,
)
from ottla.logstore.record import ControlType, EndTransactionMarker
from ottla.logstore.record_batch import MAX_SEQUENCE, TRANSACTIONAL_BIT, BatchHeader
from ottla.logstore.words.errors import ErrorCode, KafkaError

PRODUCER = 4001
START = 100  # not the beginning of the log, so that a producer may begin with any sequence


def header(
    sequence: int,
    *,
    count: int = 1,
    epoch: int = 0,
    offset: int = 0,
    producer_id: int = PRODUCER,
    bits: int = 0,
) -> BatchHeader:
    return BatchHeader(
        offset,
        100,
        0,
        2,
        0,
        bits,
        count - 1,
        1000,
        1000 + sequence % 1000,
        producer_id,
        epoch,
        sequence,
        count,
    )


def state_after(*batches: tuple[int, int, int]) -> ProducerState:
    """Return the state after batches (epoch, sequence, count), one after the other in the log."""
    state = ProducerState()
    state.map_end_offset = START
    for epoch, sequence, count in batches:
        batch = header(sequence, count=count, epoch=epoch, offset=state.map_end_offset)
        assert state.check_batch(batch, is_client=True) is None
        state.add_batch(batch, now_ms=0)
        state.map_end_offset = batch.next_offset
    state.check_invariants()
    return state


@pytest.mark.parametrize(
    ("before", "batch", "code"),
    [
        ([(0, 0, 3)], (0, 3, 1), None),
        ([(0, 0, 3)], (0, 4, 1), 45),  # gap
        ([(0, 0, 3)], (0, 0, 2), 45),  # neither a new batch nor a duplicate
        ([(0, 0, 3)], (1, 0, 1), None),
        ([(0, 0, 3)], (1, 3, 1), 45),  # a new epoch begins at 0
        ([(3, 0, 3)], (2, 3, 1), 47),
        ([], (5, 12345, 1), None),  # unknown producers begin anywhere
        ([(0, MAX_SEQUENCE - 2, 3)], (0, 0, 1), None),  # wrap-around
        ([(0, MAX_SEQUENCE - 2, 2)], (0, 0, 1), 45),
        ([(0, MAX_SEQUENCE, 3)], (0, 2, 1), None),  # the wrap within a batch
    ],
)
def test_the_sequence_and_the_epoch_of_a_batch_are_checked(
    before: list[tuple[int, int, int]], batch: tuple[int, int, int], code: int | None
) -> None:
    state = state_after(*before)
    epoch, sequence, count = batch

    if code is None:
        assert state.check_batch(header(sequence, count=count, epoch=epoch), is_client=True) is None
    else:
        with pytest.raises(KafkaError) as refused:
            state.check_batch(header(sequence, count=count, epoch=epoch), is_client=True)
        assert refused.value.code == code


def test_each_of_the_last_five_batches_is_recognised_as_a_duplicate() -> None:
    state = state_after(*[(0, 2 * number, 2) for number in range(7)])

    for number in range(2, 7):
        duplicate = state.check_batch(header(2 * number, count=2), is_client=True)
        assert duplicate is not None
        assert (duplicate.first_offset, duplicate.last_offset) == (START + 2 * number, START + 2 * number + 1)
    with pytest.raises(KafkaError) as refused:
        state.check_batch(header(2, count=2), is_client=True)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_duplicate_across_the_wrap_is_recognised() -> None:
    state = state_after((0, MAX_SEQUENCE - 1, 4))

    duplicate = state.check_batch(header(MAX_SEQUENCE - 1, count=4), is_client=True)

    assert duplicate is not None and duplicate.first_offset == START


def test_only_the_epoch_of_a_coordinators_batch_is_checked() -> None:
    state = state_after((2, 0, 1))

    assert state.check_batch(header(-1, epoch=2), is_client=False) is None
    with pytest.raises(KafkaError) as refused:
        state.check_batch(header(-1, epoch=1), is_client=False)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def transaction(state: ProducerState, producer_id: int, offset: int) -> None:
    state.add_batch(header(0, offset=offset, producer_id=producer_id, bits=TRANSACTIONAL_BIT), 0)
    state.map_end_offset = offset + 1


def end(
    state: ProducerState,
    producer_id: int,
    offset: int,
    control_type: ControlType,
    *,
    epoch: int = 0,
    coordinator_epoch: int = 0,
) -> CompletedTransaction | None:
    return state.add_marker(
        EndTransactionMarker(control_type, coordinator_epoch),
        producer_id=producer_id,
        producer_epoch=epoch,
        offset=offset,
        timestamp=0,
        now_ms=0,
    )


def test_transactions_hold_back_the_last_stable_offset_until_their_marker_is_replicated() -> None:
    state = ProducerState()
    transaction(state, 1, 10)
    transaction(state, 2, 11)
    assert state.first_unstable_offset == 10

    ended = end(state, 1, 12, ControlType.ABORT)

    assert ended is not None and (ended.first_offset, ended.last_offset, ended.is_aborted) == (10, 12, True)
    assert state.last_stable_offset_after(ended) == 11
    state.complete(ended)
    assert state.first_unstable_offset == 10
    state.on_high_watermark(12)
    assert state.first_unstable_offset == 10
    state.on_high_watermark(13)
    assert state.first_unstable_offset == 11
    assert not state.has_ongoing_transaction(1, 0) and state.has_ongoing_transaction(2, 0)


def test_a_marker_without_data_ends_no_transaction_but_fences() -> None:
    state = ProducerState()

    assert end(state, 1, 0, ControlType.COMMIT, epoch=3, coordinator_epoch=5) is None

    with pytest.raises(KafkaError) as refused:
        state.check_batch(header(0, producer_id=1, epoch=2), is_client=True)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(KafkaError) as fenced:
        state.check_marker(
            EndTransactionMarker(ControlType.COMMIT, 4),
            producer_id=1,
            producer_epoch=3,
            transaction_version=0,
        )
    assert fenced.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_batch_outside_an_open_transaction_is_rejected() -> None:
    state = ProducerState()
    transaction(state, 1, 0)

    with pytest.raises(KafkaError) as refused:
        state.check_batch(header(1, producer_id=1), is_client=True)

    assert refused.value.code is ErrorCode.INVALID_TXN_STATE


def test_producers_expire_by_our_clock_unless_a_transaction_is_open() -> None:
    state = ProducerState()
    state.add_batch(header(0, producer_id=1), now_ms=1000)
    state.add_batch(header(0, producer_id=2), now_ms=1500)
    state.add_batch(header(0, producer_id=3, offset=2, bits=TRANSACTIONAL_BIT), now_ms=0)

    assert sum(state.remove_expired(now_ms=2000, expiration_ms=1000)) == 1

    assert sorted(state.entries) == [2, 3]


def test_a_snapshot_has_kafkas_format() -> None:
    state = state_after((7, 0, 3))

    content = encode_snapshot(state.entries.values())

    assert struct.unpack(">h", content[:2]) == (1,)
    assert struct.unpack(">iqhiqiqiq", content[6:]) == (1, PRODUCER, 7, 2, START + 2, 2, 1000, -1, -1)


def test_a_snapshot_is_read_as_it_was_written() -> None:
    state = ProducerState()
    transaction(state, 1, 10)
    state.add_batch(header(5, count=2, offset=11, producer_id=2), 0)

    loaded = ProducerState()
    loaded.load(decode_snapshot(encode_snapshot(state.entries.values()), now_ms=99), 13)

    loaded.check_invariants()
    assert loaded.first_unstable_offset == 10
    assert loaded.entries[2] == ProducerEntry(2, 0, -1, 1005, -1, 99, state.entries[2].batches, True)


def test_a_changed_byte_anywhere_in_a_snapshot_is_found() -> None:
    content = encode_snapshot(state_after((0, 0, 1)).entries.values())

    for position in range(len(content)):
        broken = bytearray(content)
        broken[position] ^= 0x10
        with pytest.raises(KafkaError):
            decode_snapshot(bytes(broken), 0)
        with pytest.raises(KafkaError):
            decode_snapshot(content[:position], 0)


def test_very_many_transactions_may_end_before_they_are_replicated() -> None:
    """The lowest one holds back the last stable offset, in whatever order they ended."""
    state = ProducerState()
    state.map_end_offset = 40
    for producer_id in range(10):
        transaction(state, producer_id, producer_id)
    for number, producer_id in enumerate([3, 0, 7, 1, 2, 9, 8, 4, 5, 6]):
        ended = end(state, producer_id, 10 + number, ControlType.COMMIT)
        assert ended is not None
        state.complete(ended)

    held_back = []
    for high_watermark in range(10, 22):
        state.on_high_watermark(high_watermark)
        state.check_invariants()
        held_back.append(state.first_unstable_offset)

    assert held_back == [0, 0, 1, 1, 2, 4, 4, 4, 5, 6, None, None]
