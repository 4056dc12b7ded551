"""Pairs of a prepared transaction that outlives its clients (KIP-939): before, in and after its end.

Apache Kafka has none of it yet; the numbers are those of the proposal.
"""

from dataclasses import replace

import pytest

from ottla.groupcoord.transactions.transaction import (
    CLIENT_V1,
    CLIENT_V2,
    NO_PRODUCER_ID,
    ProducerPair,
    Transaction,
    check_transaction,
    completed,
    fenced,
    kept,
    needs_new_id,
    prepared,
)
from ottla.groupcoord.transactions.transaction_state import TransactionState
from ottla.logstore.words.topic_partition import TopicPartition


def ongoing(epoch: int) -> Transaction:
    return Transaction(
        transactional_id="t",
        producer_id=7,
        previous_producer_id=7,
        producer_epoch=epoch,
        timeout_ms=2**31 - 1,
        state=TransactionState.ONGOING,
        partitions=frozenset({TopicPartition("t", 0)}),
        start_ms=1,
        last_update_ms=1,
        client_version=CLIENT_V2,
    )


@pytest.mark.parametrize(
    ("epoch", "times", "client"),
    [
        (3, 1, (7, 4)),
        (3, 3, (7, 6)),
        (32_764, 2, (7, 32_766)),
        (32_765, 1, (7, 32_766)),
        (32_765, 2, (100, 0)),  # KIP-939's testProducerIdRotationWithEpochExhaustion: three steps in all
        (32_765, 3, (100, 1)),
        (32_766, 1, (100, 0)),
    ],
)
def test_only_the_pair_of_the_client_moves(epoch: int, times: int, client: tuple[int, int]) -> None:
    t = ongoing(epoch)

    for _ in range(times):
        t = kept(t, next_id=100 if t.client_pair.is_exhausted else NO_PRODUCER_ID, now_ms=2)
        check_transaction(t)

    assert t.client_pair == client
    assert t.pair == ProducerPair(7, epoch) and t.state is TransactionState.ONGOING
    assert t.partitions == ongoing(epoch).partitions and t.start_ms == 1


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize(
    ("client", "next_id", "after"),
    [((7, 4), -1, (7, 5)), ((9, 32_765), -1, (9, 32_766)), ((9, 32_766), 100, (100, 0))],
)
def test_the_end_leaves_the_client_its_next_pair(
    committed: bool, client: tuple[int, int], next_id: int, after: tuple[int, int]
) -> None:
    t = replace(ongoing(3), next_producer_id=client[0], next_producer_epoch=client[1])

    assert needs_new_id(t, client_version=CLIENT_V2) == (next_id >= 0)
    decided = prepared(t, committed=committed, client_version=CLIENT_V2, next_id=next_id, now_ms=2)
    check_transaction(decided)
    done = completed(decided, now_ms=3)
    check_transaction(done)

    assert decided.pair == (7, 4)  # of the markers: one epoch above the batches
    assert decided.pair_when_complete == done.pair == after
    # These identify the retry of the end.
    assert done.last_producer_epoch == client[1] and done.previous_producer_id == client[0]
    assert (done.next_producer_id, done.next_producer_epoch) == (-1, -1)


def test_a_client_of_the_old_protocol_keeps_its_pair() -> None:
    t = kept(ongoing(3), next_id=NO_PRODUCER_ID, now_ms=2)

    decided = prepared(t, committed=True, client_version=CLIENT_V1, next_id=NO_PRODUCER_ID, now_ms=2)

    assert decided.pair == (7, 3) and completed(decided, now_ms=3).pair == (7, 4)


@pytest.mark.parametrize("level", [1, 2])
def test_the_coordinators_abort_fences_the_client_too(level: int) -> None:
    t = kept(ongoing(3), next_id=NO_PRODUCER_ID, now_ms=2)

    decided = fenced(t, level=level, next_id=NO_PRODUCER_ID, now_ms=2)
    check_transaction(decided)

    assert decided.pair == (7, 4) and completed(decided, now_ms=3).pair == (7, 5)
