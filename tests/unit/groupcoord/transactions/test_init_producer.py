"""InitProducerId: the pair that each producer gets in each state, by the rules of Kafka 4.3.1."""

import pytest

from ottla.groupcoord.transactions.transaction import ProducerPair
from ottla.groupcoord.transactions.transaction_config import MAX_IDS_PER_SHARD, TransactionConfig
from ottla.groupcoord.transactions.transaction_effects import MarkerJob
from ottla.groupcoord.transactions.transaction_state import TransactionState
from ottla.logstore.words.errors import ErrorCode as E
from tests.unit.groupcoord.transactions.states import (
    AT_REST,
    OTHER_ID,
    PREPARED,
    PREVIOUS_ID,
    PRODUCER_ID,
    S,
    at,
)
from tests.unit.groupcoord.transactions.transaction_world import (
    FIRST_PRODUCER_ID,
    ID,
    P0,
    Q0,
    START_MS,
    TransactionWorld,
)

TWO_PHASE = TransactionConfig(transaction_two_phase_commit_enable=True, ottla_transaction_hold_ms=0)
NEW = (FIRST_PRODUCER_ID, 0)
# The client's expectation, beside a state of epoch e whose previous epoch was l.
EXPECTATIONS = ("nothing", "current", "last", "older", "newer", "other id", "previous id, exhausted")


def expectation(name: str, epoch: int, last: int) -> tuple[int, int] | None:
    return {
        "nothing": None,
        "current": (PRODUCER_ID, epoch),
        "last": (PRODUCER_ID, last),
        "older": (PRODUCER_ID, last - 1),
        "newer": (PRODUCER_ID, epoch + 1),
        "other id": (OTHER_ID, epoch),
        "previous id, exhausted": (PREVIOUS_ID, max(epoch, 32_766)),  # also the epoch of the present id
    }[name]


def at_rest(name: str, epoch: int, last: int) -> tuple[object, int]:
    """Return the answer, and the last epoch after it."""
    if name == "nothing":
        return (NEW if epoch >= 32_766 else (PRODUCER_ID, epoch + 1)), -1
    if name == "current":
        return (NEW if epoch >= 32_766 else (PRODUCER_ID, epoch + 1)), epoch
    if name == "last" and epoch < 32_767:
        return (PRODUCER_ID, epoch), last  # at 32766 Kafka says UNKNOWN_SERVER_ERROR
    return E.PRODUCER_FENCED, last


@pytest.mark.parametrize("name", EXPECTATIONS)
@pytest.mark.parametrize("epoch", [2, 32_765, 32_766, 32_767])
@pytest.mark.parametrize("state", sorted(AT_REST, key=lambda state: state.value))
def test_a_producer_gets_its_pair_from_a_state_at_rest(
    state: TransactionState, epoch: int, name: str
) -> None:
    last = epoch - 1
    world = TransactionWorld()
    before = world.put(at(state, epoch, last=last))
    answer, last_after = at_rest(name, epoch, last)

    seen = world.init(expectation(name, epoch, last), timeout_ms=1_234)

    assert seen == answer
    after = world.current()
    if seen is E.PRODUCER_FENCED:
        assert after is before
        return
    assert after.state is S.EMPTY and after.pair == answer and after.last_producer_epoch == last_after
    assert after.previous_producer_id == PRODUCER_ID
    assert (after.start_ms, after.timeout_ms, after.partitions) == (-1, 1_234, frozenset())


@pytest.mark.parametrize("name", EXPECTATIONS)
@pytest.mark.parametrize("epoch", [2, 32_766])
@pytest.mark.parametrize("state", sorted(PREPARED, key=lambda state: state.value))
def test_every_producer_is_rejected_while_markers_are_under_way(
    state: TransactionState, epoch: int, name: str
) -> None:
    world = TransactionWorld()
    before = world.put(at(state, epoch, last=1))

    assert world.init(expectation(name, epoch, 1)) is E.CONCURRENT_TRANSACTIONS
    assert world.current() is before


@pytest.mark.parametrize("name", EXPECTATIONS)
@pytest.mark.parametrize("epoch", [2, 32_765, 32_766])
def test_a_producer_that_may_take_over_aborts_the_open_transaction(epoch: int, name: str) -> None:
    """A producer that may take over aborts it; a late one changes nothing, unlike in Kafka."""
    world = TransactionWorld()
    before = world.put(at(S.ONGOING, epoch, last=1))

    seen = world.init(expectation(name, epoch, 1))

    if name in ("nothing", "current"):
        assert seen is E.CONCURRENT_TRANSACTIONS and world.state is S.PREPARE_ABORT
    else:
        assert seen is E.PRODUCER_FENCED and world.current() is before and not world.jobs


@pytest.mark.parametrize(
    ("level", "epoch", "marker_epoch", "version", "after", "last", "next_pair"),
    [
        # Below level 2 the coordinator bumps for the abort, and the successor's pair is one more.
        (0, 5, 6, 0, (PRODUCER_ID, 6), -1, (PRODUCER_ID, 7)),
        (1, 5, 6, 0, (PRODUCER_ID, 6), -1, (PRODUCER_ID, 7)),
        (2, 5, 6, 2, (PRODUCER_ID, 6), 5, (PRODUCER_ID, 7)),
        (0, 32_766, 32_767, 0, (PRODUCER_ID, 32_767), -1, NEW),
        # Level 2 takes the next id with the abort already.
        (2, 32_766, 32_767, 2, NEW, 32_766, (FIRST_PRODUCER_ID, 1)),
        (2, 32_767, 32_767, 2, NEW, 32_767, (FIRST_PRODUCER_ID, 1)),
        (0, 32_767, 32_767, 0, (PRODUCER_ID, 32_767), -1, NEW),
    ],
)
def test_the_successor_fences_and_aborts(
    level: int,
    epoch: int,
    marker_epoch: int,
    version: int,
    after: tuple[int, int],
    last: int,
    next_pair: tuple[int, int],
) -> None:
    world = TransactionWorld(level=level)
    world.put(at(S.ONGOING, epoch, last=3, partitions=(Q0, P0)))

    assert world.init() is E.CONCURRENT_TRANSACTIONS
    assert world.jobs == [MarkerJob(ID, PRODUCER_ID, marker_epoch, 0, False, version, (P0, Q0))]
    world.write_markers()

    done = world.current()
    assert (done.state, done.pair, done.last_producer_epoch) == (S.COMPLETE_ABORT, after, last)
    assert world.init() == next_pair
    assert world.add((PRODUCER_ID, epoch), P0) in (E.PRODUCER_FENCED, E.INVALID_PRODUCER_ID_MAPPING)


def test_a_new_id_begins_at_epoch_0() -> None:
    world = TransactionWorld()

    assert world.init() == NEW
    t = world.current()
    # The first record names its own producer as the previous one, as Kafka's does.
    assert (t.state, t.previous_producer_id, t.timeout_ms, t.last_update_ms) == (
        S.EMPTY,
        FIRST_PRODUCER_ID,
        60_000,
        START_MS,
    )
    assert world.init((77, 7), transactional_id="another") == (FIRST_PRODUCER_ID + 1, 0)


def test_a_retry_after_rotation_is_recognized_until_the_coordinator_changes() -> None:
    world = TransactionWorld()
    world.put(at(S.EMPTY, 32_766))

    assert world.init((PRODUCER_ID, 32_766)) == NEW
    assert world.init((PRODUCER_ID, 32_766)) == NEW
    assert world.init((PRODUCER_ID, 32_765)) is E.PRODUCER_FENCED  # its epochs have not run out

    world.crash()
    assert world.init((PRODUCER_ID, 32_766)) is E.PRODUCER_FENCED  # KAFKA-20357


@pytest.mark.parametrize(
    ("timeout_ms", "enable_2pc", "seen"),
    [
        (0, False, E.INVALID_TRANSACTION_TIMEOUT),
        (-1, False, E.INVALID_TRANSACTION_TIMEOUT),
        (1, False, NEW),
        (900_000, False, NEW),
        (900_001, False, E.INVALID_TRANSACTION_TIMEOUT),
        (-1, True, NEW),
        (900_001, True, NEW),
    ],
)
def test_a_timeout_beyond_the_limits_is_rejected_without_two_phase_commit(
    timeout_ms: int, enable_2pc: bool, seen: object
) -> None:
    world = TransactionWorld(TWO_PHASE)

    assert world.init(timeout_ms=timeout_ms, enable_2pc=enable_2pc) == seen
    if enable_2pc:
        assert world.current().is_two_phase


def test_a_request_is_checked_in_kafkas_order() -> None:
    everything_wrong = {"timeout_ms": 0, "enable_2pc": True, "keep_prepared": True}
    world = TransactionWorld(level=0)

    assert world.init(transactional_id="", **everything_wrong) is E.INVALID_REQUEST
    assert world.init(**everything_wrong) is E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert world.init(timeout_ms=0, keep_prepared=True) is E.UNSUPPORTED_VERSION
    assert world.init((1, 1), timeout_ms=0) is E.INVALID_TRANSACTION_TIMEOUT
    assert not world.log


def test_the_number_of_ids_in_a_shard_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_IDS_PER_SHARD == 1_000_000
    monkeypatch.setattr("ottla.groupcoord.transactions.init_producer.MAX_IDS_PER_SHARD", 1)
    world = TransactionWorld()

    assert world.init() == NEW
    assert world.init(transactional_id="another") is E.COORDINATOR_NOT_AVAILABLE
    assert world.init() == (FIRST_PRODUCER_ID, 1)


def test_new_ids_without_memory_for_them_are_rejected() -> None:
    world = TransactionWorld()
    assert world.init() == NEW
    world.coordinator.shard.has_room = lambda: False

    assert world.init(transactional_id="another") is E.COORDINATOR_NOT_AVAILABLE
    assert world.init() == (FIRST_PRODUCER_ID, 1)


def test_without_a_new_producer_id_nothing_is_decided() -> None:
    world = TransactionWorld()
    world.put(at(S.EMPTY, 32_766))
    world.has_ids = False

    token = world.ask_init()
    assert world.seen(token) is None and len(world.wanted_ids) == 1
    # Another producer is faster; the new id is then for the later request, and still fits.
    assert world.put(at(S.EMPTY, 3)).producer_epoch == 3

    world.give_ids()
    assert world.seen(token) == ProducerPair(PRODUCER_ID, 4)


def test_a_transaction_of_no_partitions_is_aborted_at_once() -> None:
    world = TransactionWorld()
    world.put(at(S.ONGOING, partitions=()))

    assert world.init() is E.CONCURRENT_TRANSACTIONS
    assert world.state is S.COMPLETE_ABORT and not world.jobs
    assert world.init() == (PRODUCER_ID, 7)


def test_an_id_that_is_too_long_is_rejected() -> None:
    world = TransactionWorld()

    assert world.init(transactional_id="x" * 1_025) is E.INVALID_REQUEST
    assert world.init(transactional_id="x" * 1_024) == NEW
