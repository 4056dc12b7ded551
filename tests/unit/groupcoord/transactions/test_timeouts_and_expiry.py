"""Transactions that are open for too long are aborted; ids that are no longer used are removed."""

from dataclasses import replace

import pytest

from ottla.groupcoord.transactions.transaction import CLIENT_V2, ProducerPair
from ottla.groupcoord.transactions.transaction_commands import AbortTimedOut, SweepTimeouts
from ottla.groupcoord.transactions.transaction_config import NO_TIMEOUT_MS, SWEEP_SLICE_IDS, TransactionConfig
from ottla.groupcoord.transactions.transaction_effects import Append
from ottla.groupcoord.transactions.transaction_state import TransactionState
from ottla.logstore.words.errors import ErrorCode as E
from tests.unit.groupcoord.transactions.states import AT_REST, IN_LOG, PRODUCER_ID, S, at
from tests.unit.groupcoord.transactions.transaction_world import (
    FIRST_PRODUCER_ID,
    ID,
    P0,
    P1,
    START_MS,
    TransactionWorld,
)

PAIR = ProducerPair(PRODUCER_ID, 5)
DAY_MS = 24 * 60 * 60_000
HOUR_MS = 60 * 60_000
# Sweeps for time-outs once an hour, because the clock advances by days.
LONG_INTERVAL = TransactionConfig(
    ottla_transaction_hold_ms=0, transaction_abort_timed_out_transaction_cleanup_interval_ms=HOUR_MS
)


# ---- time-outs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", IN_LOG)
def test_only_open_transactions_time_out(state: TransactionState) -> None:
    world = TransactionWorld()
    before = world.put(at(state, timeout_ms=1))

    world.advance(10 * 60_000)

    if state is S.ONGOING:
        assert world.state is S.PREPARE_ABORT
    else:
        assert world.current() is before


def test_a_transaction_times_out_after_its_timeout_and_within_a_sweep_interval() -> None:
    world = TransactionWorld()
    world.put(at(S.ONGOING, timeout_ms=30_000))

    world.advance(30_000)  # a sweep at this very moment
    assert world.state is S.ONGOING
    world.advance(9_999)
    assert world.state is S.ONGOING
    world.advance(1)
    assert world.state is S.PREPARE_ABORT


def test_a_two_phase_transaction_never_times_out() -> None:
    world = TransactionWorld(LONG_INTERVAL)
    world.put(at(S.ONGOING, timeout_ms=NO_TIMEOUT_MS))

    world.advance(30 * DAY_MS)

    assert world.state is S.ONGOING


@pytest.mark.parametrize(
    ("level", "epoch", "marker_epoch", "version", "after"),
    [
        (0, 5, 6, 0, (PRODUCER_ID, 6)),
        (1, 5, 6, 0, (PRODUCER_ID, 6)),
        (2, 5, 6, 2, (PRODUCER_ID, 6)),
        (2, 32_766, 32_767, 2, (FIRST_PRODUCER_ID, 0)),
        (0, 32_766, 32_767, 0, (PRODUCER_ID, 32_767)),
    ],
)
def test_the_epoch_of_a_timed_out_transaction_moves_once(
    level: int, epoch: int, marker_epoch: int, version: int, after: tuple[int, int]
) -> None:
    world = TransactionWorld(level=level)
    world.put(at(S.ONGOING, epoch))
    world.advance(80_000)

    (job,) = world.jobs
    assert (job.marker_epoch, job.transaction_version, job.committed) == (marker_epoch, version, False)
    world.write_markers()

    assert world.current().pair == after
    assert world.end((PRODUCER_ID, epoch)) in (E.PRODUCER_FENCED, E.INVALID_PRODUCER_ID_MAPPING)
    assert world.end((PRODUCER_ID, epoch), version=CLIENT_V2) in (E.PRODUCER_FENCED, world.current().pair)


def test_the_client_ends_the_transaction_before_the_coordinator() -> None:
    world = TransactionWorld()
    world.put(at(S.ONGOING))
    late = AbortTimedOut(transactional_id=ID, producer=PAIR)
    world.now_ms += 60_001

    assert world.end(PAIR, version=CLIENT_V2) == (PRODUCER_ID, 6)
    assert world.handle(late) == []
    world.write_markers()
    assert world.handle(late) == []

    # A younger transaction of the same epoch, and one whose time is not over.
    world.put(at(S.ONGOING, 6))
    assert world.handle(late) == []
    world.put(replace(at(S.ONGOING), start_ms=START_MS + 1_000))
    assert world.handle(late) == []
    assert world.state is S.ONGOING


def test_the_coordinator_aborts_the_transaction_before_the_client_ends_it() -> None:
    """The commit was on its way when the transaction timed out."""
    world = TransactionWorld()
    world.put(at(S.ONGOING))
    world.advance(80_000)

    assert world.end(PAIR, version=CLIENT_V2) is E.CONCURRENT_TRANSACTIONS
    world.write_markers()
    assert world.end(PAIR, version=CLIENT_V2) is E.PRODUCER_FENCED
    assert world.init(PAIR) == (PRODUCER_ID, 6)  # the same producer begins again (KIP-360)


def test_many_time_out_in_slices() -> None:
    world = TransactionWorld()
    world.put(*(at(S.ONGOING, id=f"t{each}") for each in range(SWEEP_SLICE_IDS + 3)))
    world.now_ms += 60_001

    first = world.handle(SweepTimeouts())
    assert sum(isinstance(effect, Append) for effect in first) == SWEEP_SLICE_IDS
    world.advance(0)

    assert not world.coordinator.shard.ongoing


def test_without_a_new_producer_id_the_transaction_stays_open() -> None:
    world = TransactionWorld()
    world.has_ids = False
    world.put(at(S.ONGOING, 32_766))
    world.advance(80_000)
    assert world.state is S.ONGOING and len(world.wanted_ids) == 2  # one a sweep

    world.give_ids()

    assert world.state is S.PREPARE_ABORT and world.current().pair_when_complete == (FIRST_PRODUCER_ID, 0)


# ---- expiry ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", IN_LOG)
def test_only_ids_at_rest_expire(state: TransactionState) -> None:
    world = TransactionWorld(LONG_INTERVAL)
    world.put(at(state, timeout_ms=NO_TIMEOUT_MS))

    world.advance(7 * DAY_MS - 1)
    assert ID in world.coordinator.shard.transactions
    world.advance(HOUR_MS)

    assert (ID in world.coordinator.shard.transactions) == (state not in AT_REST)
    assert (world.log[-1][1] is None) == (state in AT_REST)


def test_a_producer_that_comes_back_in_time_keeps_the_id() -> None:
    world = TransactionWorld(LONG_INTERVAL)
    world.put(at(S.EMPTY))
    world.advance(7 * DAY_MS - 1)
    assert world.init() == (PRODUCER_ID, 6)

    world.advance(6 * DAY_MS)

    assert world.current().pair == (PRODUCER_ID, 6)


def test_an_expired_id_starts_over() -> None:
    world = TransactionWorld(LONG_INTERVAL)
    world.put(at(S.COMPLETE_COMMIT))
    world.advance(7 * DAY_MS + HOUR_MS)

    assert world.add(PAIR, P0) is world.verify(PAIR, P0) is E.INVALID_PRODUCER_ID_MAPPING
    assert world.end(PAIR) is E.INVALID_PRODUCER_ID_MAPPING
    assert world.init(PAIR) == (FIRST_PRODUCER_ID, 0)
    assert world.add((FIRST_PRODUCER_ID, 0), P1) is E.NONE


def test_ids_expire_in_slices() -> None:
    world = TransactionWorld(LONG_INTERVAL)
    world.put(*(at(S.EMPTY, id=f"t{each}") for each in range(2 * SWEEP_SLICE_IDS + 1)))
    world.now_ms += 8 * DAY_MS

    world.advance(0)

    sizes = [len(records) for records in world.appends]
    assert sizes == [SWEEP_SLICE_IDS, SWEEP_SLICE_IDS, 1] and not world.coordinator.shard.transactions


def test_a_slice_fits_into_a_batch() -> None:
    world = TransactionWorld(TransactionConfig(max_batch_bytes=20_000))
    world.put(*(at(S.EMPTY, id=f"{each:04}" * 1_000) for each in range(20)))
    world.now_ms += 8 * DAY_MS

    world.advance(0)

    sizes = [sum(len(record.transactional_id) for record in records) for records in world.appends]
    assert sum(sizes) == 20 * 4_000 and max(sizes) < 20_000
