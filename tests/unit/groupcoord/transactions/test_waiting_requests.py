"""Requests that come while markers are under way wait for them, for a moment."""

import pytest

from ottla.groupcoord.transactions.transaction import CLIENT_V1
from ottla.groupcoord.transactions.transaction_config import MAX_WAITING_OF_ID, TransactionConfig
from ottla.logstore.words.errors import ErrorCode as E
from tests.unit.groupcoord.transactions.states import PRODUCER_ID, S, at
from tests.unit.groupcoord.transactions.transaction_world import P0, P1, TransactionWorld

PAIR = (PRODUCER_ID, 5)


def decided(**config: int) -> TransactionWorld:
    world = TransactionWorld(TransactionConfig(**config))  # type: ignore[arg-type]
    world.put(at(S.ONGOING, version=CLIENT_V1))
    assert world.end(PAIR) == PAIR
    return world


def test_the_next_transaction_begins_when_the_last_marker_is_written() -> None:
    world = decided()

    token = world.ask_add(PAIR, P1)
    assert world.waiting() == {token} and world.state is S.PREPARE_COMMIT

    world.write_markers()
    assert world.seen(token) is E.NONE and world.state is S.ONGOING and world.current().partitions == {P1}
    assert world.coordinator.shard.waiting_count == 0


def test_requests_are_decided_in_their_order() -> None:
    """A successor takes over while the predecessor's next request waits: the earlier one comes first."""
    world = decided()
    add, init, late = world.ask_add(PAIR, P1), world.ask_init(), world.ask_add(PAIR, P0)

    world.write_markers()

    assert world.seen(add) is E.NONE  # it began
    assert world.seen(init) is E.CONCURRENT_TRANSACTIONS  # and was aborted; no request waits twice
    assert world.seen(late) is E.CONCURRENT_TRANSACTIONS
    assert world.state is S.PREPARE_ABORT and not world.waiting()


def test_a_successor_waits_for_the_abort_that_it_caused() -> None:
    world = TransactionWorld()
    world.config = TransactionConfig()
    world.coordinator.shard.config = world.config
    world.put(at(S.ONGOING))

    token = world.ask_init()
    assert world.waiting() == {token} and world.state is S.PREPARE_ABORT
    world.write_markers()

    assert world.seen(token) == (PRODUCER_ID, 7) and world.state is S.EMPTY


def test_a_request_that_waits_for_too_long_is_rejected() -> None:
    world = decided(ottla_transaction_hold_ms=40)
    first = world.ask_add(PAIR, P1)
    world.advance(39)
    second = world.ask_init()
    assert world.waiting() == {first, second}

    world.advance(1)

    assert world.seen(first) is world.seen(second) is E.CONCURRENT_TRANSACTIONS
    world.write_markers()
    assert world.add(PAIR, P1) is E.NONE


@pytest.mark.parametrize("hold_ms", [0, 100])
def test_brokers_and_clients_that_may_not_wait_are_rejected_at_once(hold_ms: int) -> None:
    world = decided(ottla_transaction_hold_ms=hold_ms)

    assert world.add(PAIR, P1, may_wait=False) is E.CONCURRENT_TRANSACTIONS
    assert world.end(PAIR) is E.CONCURRENT_TRANSACTIONS
    assert world.verify(PAIR, P0) is E.CONCURRENT_TRANSACTIONS
    if not hold_ms:
        assert world.add(PAIR, P1) is world.init() is E.CONCURRENT_TRANSACTIONS
    assert not world.waiting()


def test_the_number_of_waiting_requests_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    world = decided()
    tokens = [world.ask_add(PAIR, P1) for _ in range(MAX_WAITING_OF_ID)]

    assert world.add(PAIR, P1) is E.CONCURRENT_TRANSACTIONS
    world.write_markers()
    assert {world.seen(token) for token in tokens} == {E.NONE}

    monkeypatch.setattr("ottla.groupcoord.transactions.waiting_requests.MAX_WAITING", 1)
    world.put(at(S.PREPARE_ABORT))
    world.put(at(S.PREPARE_ABORT, id="another"))
    token = world.ask_add(PAIR, P1)
    assert world.add(PAIR, P1, transactional_id="another") is E.CONCURRENT_TRANSACTIONS
    assert world.waiting() == {token}


def test_a_coordinator_that_stops_answers_waiting_requests() -> None:
    world = decided()
    add, init = world.ask_add(PAIR, P1), world.ask_init()

    world.crash()

    assert world.seen(add) is world.seen(init) is E.NOT_COORDINATOR
    world.write_markers()
    assert world.state is S.COMPLETE_COMMIT
