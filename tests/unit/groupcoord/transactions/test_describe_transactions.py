"""ListTransactions and DescribeTransactions, and regular expressions over ids."""

import pytest

from ottla.groupcoord.transactions.id_pattern import IdPattern
from ottla.groupcoord.transactions.transaction_commands import DescribeTransactions, ListTransactions
from ottla.groupcoord.transactions.transaction_results import (
    DescribedTransaction,
    DescribeTransactionsResult,
    ListTransactionsResult,
)
from ottla.logstore.words.errors import ErrorCode as E
from ottla.logstore.words.errors import KafkaError
from tests.unit.groupcoord.transactions.states import IN_LOG, PRODUCER_ID, S, at
from tests.unit.groupcoord.transactions.transaction_world import P0, P1, Q0, START_MS, TransactionWorld


@pytest.fixture
def world() -> TransactionWorld:
    """Return a world with an id in each state, named after it."""
    made = TransactionWorld()
    for state in IN_LOG:
        made.put(at(state, id=state.value, partitions=(P1, Q0, P0)))
    made.now_ms += 5_000
    return made


def listed(world: TransactionWorld, **filters: object) -> set[str]:
    token = world.token()
    world.handle(ListTransactions(token=token, **filters))  # type: ignore[arg-type]
    answer = world.answers[token]
    assert isinstance(answer, ListTransactionsResult)
    assert all(each.transactional_id == each.state for each in answer.transactions)
    assert all(each.producer_id == PRODUCER_ID for each in answer.transactions)
    return {each.transactional_id for each in answer.transactions}


ALL = {state.value for state in IN_LOG}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ALL),
        ({"states": frozenset({"Ongoing", "Empty"})}, {"Ongoing", "Empty"}),
        ({"states": frozenset({"Dead", "PrepareEpochFence"})}, set()),
        (
            {"states": frozenset({"Ongoing", "ongoing", "Finished"})},
            {"Ongoing"},
        ),  # the node answers for the others
        ({"producer_ids": frozenset({PRODUCER_ID, 3})}, ALL),
        ({"producer_ids": frozenset({3})}, set()),
        ({"longer_than_ms": -1}, ALL),
        ({"longer_than_ms": 4_999}, ALL),
        ({"longer_than_ms": 5_000}, {"Empty"}),  # which has no start, and so is older than all
    ],
)
def test_transactions_are_listed_by_state_producer_and_duration(
    world: TransactionWorld, filters: dict[str, object], expected: set[str]
) -> None:
    assert listed(world, **filters) == expected


def test_transactions_are_described_by_their_ids(world: TransactionWorld) -> None:
    token = world.token()
    world.handle(DescribeTransactions(token=token, transactional_ids=("Ongoing", "", "Empty", "none")))

    answer = world.answers[token]

    assert isinstance(answer, DescribeTransactionsResult)
    ongoing, unnamed, empty, unknown = answer.transactions
    assert ongoing == DescribedTransaction(
        transactional_id="Ongoing",
        state="Ongoing",
        timeout_ms=60_000,
        start_ms=START_MS,
        producer_id=PRODUCER_ID,
        producer_epoch=5,
        topics={"p": [0, 1], "q": [0]},
    )
    assert (empty.error, empty.start_ms, empty.topics) == (E.NONE, -1, {})
    assert unnamed.error is E.INVALID_REQUEST and unknown.error is E.TRANSACTIONAL_ID_NOT_FOUND


def test_answers_wait_until_the_states_that_they_show_are_committed() -> None:
    world = TransactionWorld()
    world.put(at(S.EMPTY))
    world.commits = False
    world.ask_add((PRODUCER_ID, 5), P0)
    describe, list_ = world.token(), world.token()

    world.handle(DescribeTransactions(token=describe, transactional_ids=("t",)))
    world.handle(ListTransactions(token=list_))
    assert {describe, list_} <= world.waiting()

    world.commit()
    assert not world.waiting()


@pytest.mark.parametrize(
    ("pattern", "transactional_id", "matches"),
    [
        ("Z.rich-[0-9]+", "Zürich-17", True),
        ("Z[^a-z]rich", "Zürich", True),
        ("Zü.*", "Zürich", True),
        ("Z\\wrich", "Zürich", False),
        (".*", "✓" * 3, True),
        ("...", "✓" * 3, True),
        ("", "", True),
    ],
)
def test_ids_may_be_any_text(pattern: str, transactional_id: str, matches: bool) -> None:
    assert IdPattern(pattern).matches(transactional_id) == matches


@pytest.mark.parametrize("pattern", ["(", "ü)", "a{2,1}", "x" * 2_000])
def test_malformed_expressions_are_rejected(pattern: str) -> None:
    with pytest.raises(KafkaError) as refused:
        IdPattern(pattern)

    assert refused.value.code is E.INVALID_REGULAR_EXPRESSION
    assert refused.value.detail.startswith(f"TransactionalIdPattern `{pattern}` is not a valid")
