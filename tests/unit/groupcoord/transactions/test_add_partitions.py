"""AddPartitionsToTxn: the errors, in their order; and the answers to leaders that verify."""

import pytest

from ottla.groupcoord.transactions.transaction import CLIENT_V1, CLIENT_V2
from ottla.groupcoord.transactions.transaction_config import TransactionConfig
from ottla.groupcoord.transactions.transaction_state import TransactionState
from ottla.logstore.words.errors import ErrorCode as E
from ottla.logstore.words.topic_partition import TopicPartition
from tests.unit.groupcoord.transactions.states import AT_REST, IN_LOG, OTHER_ID, PREPARED, PRODUCER_ID, S, at
from tests.unit.groupcoord.transactions.transaction_world import P0, P1, Q0, START_MS, TransactionWorld

PAIR = (PRODUCER_ID, 5)


@pytest.mark.parametrize("state", IN_LOG)
@pytest.mark.parametrize(
    ("pair", "error"),
    [
        (PAIR, E.NONE),
        ((PRODUCER_ID, 4), E.PRODUCER_FENCED),
        ((PRODUCER_ID, 6), E.PRODUCER_FENCED),
        ((OTHER_ID, 5), E.INVALID_PRODUCER_ID_MAPPING),
        ((OTHER_ID, 4), E.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_an_addition_is_checked_by_the_state_and_then_by_the_pair(
    state: TransactionState, pair: tuple[int, int], error: E
) -> None:
    """While markers are under way every producer gets CONCURRENT_TRANSACTIONS, before its pair is checked."""
    world = TransactionWorld()
    before = world.put(at(state))

    seen = world.add(pair, P1)

    if state in PREPARED:
        assert seen is E.CONCURRENT_TRANSACTIONS and world.current() is before
    elif error is not E.NONE:
        assert seen is error and world.current() is before
    else:
        assert seen is E.NONE and world.state is S.ONGOING
        assert world.current().partitions == before.partitions | {P1}


@pytest.mark.parametrize("state", [*sorted(AT_REST, key=lambda state: state.value), S.ONGOING])
def test_the_first_partition_begins_the_transaction(state: TransactionState) -> None:
    world = TransactionWorld()
    world.put(at(state))
    world.now_ms += 1_000

    assert world.add(PAIR, P1) is E.NONE

    began_ms = START_MS if state is S.ONGOING else START_MS + 1_000
    assert (world.current().start_ms, world.current().last_update_ms) == (began_ms, START_MS + 1_000)


@pytest.mark.parametrize("version", [CLIENT_V1, CLIENT_V2])
def test_partitions_that_are_in_the_transaction_already_write_nothing(version: int) -> None:
    world = TransactionWorld()
    world.put(at(S.EMPTY))
    assert world.add(PAIR, P0, Q0, client_version=version) is E.NONE
    records = len(world.log)

    assert world.add(PAIR, Q0, client_version=CLIENT_V2 - version) is E.NONE
    assert len(world.log) == records and world.current().client_version == version
    assert world.add(PAIR, Q0, P1, client_version=version) is E.NONE
    assert len(world.log) == records + 1


@pytest.mark.parametrize("ask", ["add", "verify", "end"])
def test_ids_that_do_not_exist_are_rejected(ask: str) -> None:
    world = TransactionWorld()
    fields = {"id": ""} if ask == "verify" else {"transactional_id": ""}

    assert getattr(world, ask)(PAIR, *([P0] if ask != "end" else [])) is E.INVALID_PRODUCER_ID_MAPPING
    token = getattr(world, f"ask_{ask}")(PAIR, *([P0] if ask != "end" else []), **fields)
    assert world.seen(token) is E.INVALID_REQUEST


@pytest.mark.parametrize("state", IN_LOG)
@pytest.mark.parametrize(
    ("pair", "error"),
    [
        (PAIR, E.NONE),
        ((PRODUCER_ID, 4), E.PRODUCER_FENCED),
        ((OTHER_ID, 5), E.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_a_verification_is_checked_by_the_pair_and_then_by_the_state(
    state: TransactionState, pair: tuple[int, int], error: E
) -> None:
    """Unlike an addition, a verification checks the pair first, and never appends."""
    world = TransactionWorld()
    world.put(at(state))
    records = len(world.log)

    in_it, beside_it = world.verify(pair, P0), world.verify(pair, P1)

    if error is not E.NONE:
        assert in_it is beside_it is error
    elif state in PREPARED:
        assert in_it is beside_it is E.CONCURRENT_TRANSACTIONS
    elif state is S.ONGOING:
        assert (in_it, beside_it) == (E.NONE, E.TRANSACTION_ABORTABLE)
    else:
        assert in_it is beside_it is E.TRANSACTION_ABORTABLE
    assert len(world.log) == records


def test_verification_waits_until_the_partition_is_safe_in_the_log() -> None:
    """A leader that appended before would have an open transaction of which no coordinator knows."""
    world = TransactionWorld()
    world.put(at(S.EMPTY))
    world.commits = False
    added = world.ask_add(PAIR, P0)
    again = world.ask_add(PAIR, P0)
    verified = world.ask_verify(PAIR, P0)

    assert world.waiting() == {added, again, verified}
    world.commit()
    assert not world.waiting() and world.seen(verified) is E.NONE


def test_a_lost_addition_was_never_confirmed() -> None:
    world = TransactionWorld()
    world.put(at(S.EMPTY))
    world.commits = False
    world.ask_add(PAIR, P0)
    token = world.ask_verify(PAIR, P0)

    world.crash()

    assert world.seen(token) is None and world.state is S.EMPTY


def test_a_record_that_no_batch_takes_is_rejected_before_it_is_decided() -> None:
    world = TransactionWorld(TransactionConfig(max_batch_bytes=50_000))
    world.put(at(S.EMPTY))
    many = [TopicPartition("a-topic-with-a-long-name" * 5, each) for each in range(1_000)]

    assert world.add(PAIR, *many[:200]) is E.NONE
    assert world.add(PAIR, *many) is E.UNKNOWN_SERVER_ERROR
    assert len(world.current().partitions) == 200
