"""The whole table of moves: the states that may follow each state, and that no other move can happen."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.groupcoord.transactions.transaction import (
    NO_PRODUCER_ID,
    ProducerPair,
    Transaction,
    completed,
    emptied,
    fenced,
    prepared,
    with_partitions,
)
from ottla.groupcoord.transactions.transaction_state import AT_REST, MOVES, PREPARED, TransactionState
from ottla.logstore.words.topic_partition import TopicPartition

S = TransactionState
# As Kafka 4.3.1's TransactionState.VALID_PREVIOUS_STATES has it: to each state, from which states.
FROM = {
    S.EMPTY: {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    S.ONGOING: {S.ONGOING, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    S.PREPARE_COMMIT: {S.ONGOING},
    S.PREPARE_ABORT: {S.ONGOING, S.PREPARE_EPOCH_FENCE, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    S.COMPLETE_COMMIT: {S.PREPARE_COMMIT},
    S.COMPLETE_ABORT: {S.PREPARE_ABORT},
    S.DEAD: {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    S.PREPARE_EPOCH_FENCE: {S.ONGOING},
}
VERBS: dict[str, tuple[set[TransactionState], Callable[[Transaction], Transaction]]] = {
    "emptied": (
        FROM[S.EMPTY],
        lambda t: emptied(t, ProducerPair(7, 1), last_epoch=-1, timeout_ms=1, now_ms=2),
    ),
    "with_partitions": (
        FROM[S.ONGOING],
        lambda t: with_partitions(t, {TopicPartition("t", 1)}, client_version=0, now_ms=2),
    ),
    "committed": (
        FROM[S.PREPARE_COMMIT],
        lambda t: prepared(t, committed=True, client_version=0, next_id=NO_PRODUCER_ID, now_ms=2),
    ),
    "aborted": (
        FROM[S.PREPARE_ABORT],
        lambda t: prepared(t, committed=False, client_version=0, next_id=NO_PRODUCER_ID, now_ms=2),
    ),
    "fenced": (FROM[S.PREPARE_EPOCH_FENCE], lambda t: fenced(t, level=0, next_id=NO_PRODUCER_ID, now_ms=2)),
}


def in_state(state: TransactionState) -> Transaction:
    return Transaction(
        transactional_id="t",
        producer_id=7,
        previous_producer_id=7,
        producer_epoch=0,
        timeout_ms=1,
        state=state,
        last_update_ms=1,
    )


def test_moves_are_those_of_kafka() -> None:
    assert {to: {each for each in S if to in MOVES[each]} for to in S} == FROM


def test_the_moves_are_drawn_in_the_design() -> None:
    text = (Path(__file__).parents[4] / "groupcoord" / "DESIGN.md").read_text()
    rows = {
        state.value: {word.strip() for word in row.split(",")}
        for state in S
        for row in [text.split(f"| {state.value} | goes to: ")[1].split(" |")[0]]
    }

    assert rows == {state.value: {each.value for each in MOVES[state]} or {"nothing"} for state in S}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("state", S)
def test_only_moves_of_the_table_happen(verb: str, state: TransactionState) -> None:
    allowed, move = VERBS[verb]

    if state in allowed:
        assert move(in_state(state)).previous_producer_id == 7
    else:
        with pytest.raises(AssertionError):
            move(in_state(state))


def test_a_decision_is_completed_as_it_was_made() -> None:
    assert completed(in_state(S.PREPARE_COMMIT), now_ms=2).state is S.COMPLETE_COMMIT
    assert completed(in_state(S.PREPARE_ABORT), now_ms=2).state is S.COMPLETE_ABORT
    for state in set(S) - PREPARED:
        with pytest.raises(KeyError):
            completed(in_state(state), now_ms=2)


def test_states_at_rest_are_those_that_may_expire() -> None:
    assert {state for state in S if S.DEAD in MOVES[state]} == AT_REST
