"""Markers: from the decision to the last partition, in any order, repeated, after a coordinator change."""

import pytest

from ottla.groupcoord.transactions.transaction import CLIENT_V2
from ottla.groupcoord.transactions.transaction_commands import DescribeTransactions, MarkersWritten
from ottla.groupcoord.transactions.transaction_effects import MarkerJob
from ottla.groupcoord.transactions.transaction_results import DescribeTransactionsResult
from ottla.groupcoord.transactions.transaction_state import TransactionState
from ottla.logstore.words.errors import ErrorCode as E
from tests.unit.groupcoord.transactions.states import IN_LOG, OTHER_ID, PREPARED, PRODUCER_ID, S, at
from tests.unit.groupcoord.transactions.transaction_world import ID, P0, P1, Q0, TransactionWorld

ALL = (P0, P1, Q0)


def written(*partitions: object, producer_id: int = PRODUCER_ID, epoch: int = 5) -> MarkersWritten:
    return MarkersWritten(
        transactional_id=ID,
        producer_id=producer_id,
        marker_epoch=epoch,
        partitions=frozenset(partitions),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("order", [(P0, P1, Q0), (Q0, P1, P0), (P1, Q0, P0)])
def test_the_last_partition_completes_once(order: tuple[object, ...]) -> None:
    world = TransactionWorld()
    world.put(at(S.PREPARE_COMMIT, partitions=ALL))

    for partition in order[:-1]:
        world.handle(written(partition))
        world.handle(written(partition))
        assert world.state is S.PREPARE_COMMIT
    world.handle(written(order[-1]))
    assert world.state is S.COMPLETE_COMMIT
    records = len(world.log)
    for partition in order:
        assert world.handle(written(partition)) == []

    assert len(world.log) == records


def test_markers_of_other_transactions_are_ignored() -> None:
    world = TransactionWorld()
    assert world.handle(written(P0)) == []  # an unknown id
    world.put(at(S.PREPARE_ABORT))

    assert world.handle(written(P0, epoch=4)) == world.handle(written(P0, epoch=6)) == []
    assert world.handle(written(P0, producer_id=OTHER_ID)) == []
    assert world.handle(written(P1)) == []
    assert world.state is S.PREPARE_ABORT


@pytest.mark.parametrize("state", IN_LOG)
def test_another_coordinator_sends_all_markers_again(state: TransactionState) -> None:
    world = TransactionWorld()
    before = world.put(at(state, partitions=ALL))
    if state in PREPARED:
        world.handle(written(P0))

    world.crash()

    assert world.current() == before
    if state in PREPARED:
        job = MarkerJob(ID, PRODUCER_ID, 5, 1, state is S.PREPARE_COMMIT, CLIENT_V2, ALL)
        assert world.jobs == [job]
        world.write_markers()
        assert world.current().state is (S.COMPLETE_COMMIT if job.committed else S.COMPLETE_ABORT)
    else:
        assert not world.jobs


def test_an_abort_without_partitions_is_completed_by_the_next_coordinator() -> None:
    world = TransactionWorld()
    world.put(at(S.EMPTY))
    world.commits = False
    world.ask_end((PRODUCER_ID, 5), version=CLIENT_V2, committed=False)
    world.commit(1)  # PrepareAbort alone

    world.crash()

    assert world.state is S.COMPLETE_ABORT and world.current().pair == (PRODUCER_ID, 6)


def test_a_new_transaction_stands_behind_the_end_of_the_one_before() -> None:
    world = TransactionWorld()
    world.put(at(S.PREPARE_COMMIT))
    world.commits = False

    world.handle(written(P0))
    token = world.ask_add((PRODUCER_ID, 5), Q0)

    assert world.state is S.ONGOING and world.seen(token) is None
    world.commit()
    assert world.seen(token) is E.NONE


def test_a_decided_transaction_shows_the_partitions_without_markers() -> None:
    world = TransactionWorld()
    world.put(at(S.PREPARE_COMMIT, partitions=ALL))
    world.handle(written(P0, Q0))

    token = world.token()
    world.handle(DescribeTransactions(token=token, transactional_ids=(ID,)))

    answer = world.answers[token]
    assert isinstance(answer, DescribeTransactionsResult)
    assert answer.transactions[0].topics == {"p": [1]}
