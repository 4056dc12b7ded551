"""Two-phase commit as KIP-939 proposes it: a prepared transaction outlives its client.

The next client ends it. Apache Kafka 4.3.1 has only transactions without a time-out.
"""

import pytest

from ottla.groupcoord.transactions.transaction import CLIENT_V1, CLIENT_V2, ProducerPair
from ottla.groupcoord.transactions.transaction_commands import DescribeTransactions
from ottla.groupcoord.transactions.transaction_config import TransactionConfig
from ottla.groupcoord.transactions.transaction_results import DescribeTransactionsResult, InitProducerResult
from ottla.logstore.words.errors import ErrorCode as E
from tests.unit.groupcoord.transactions.states import OTHER_ID, PRODUCER_ID, S, at
from tests.unit.groupcoord.transactions.transaction_world import (
    FIRST_PRODUCER_ID,
    ID,
    P0,
    P1,
    TransactionWorld,
)

CONFIG = TransactionConfig(transaction_two_phase_commit_enable=True, ottla_transaction_hold_ms=0)
FIRST = (PRODUCER_ID, 5)


def prepared(epoch: int = 5, level: int = 2) -> TransactionWorld:
    world = TransactionWorld(CONFIG, level=level)
    world.put(at(S.ONGOING, epoch, timeout_ms=2**31 - 1))
    return world


def keep(world: TransactionWorld, expected: tuple[int, int] | None = None) -> object:
    token = world.ask_init(expected, keep_prepared=True, enable_2pc=True)
    answer = world.answers[token]
    return answer if isinstance(answer, InitProducerResult) else world.seen(token)


@pytest.mark.parametrize("version", [CLIENT_V1, CLIENT_V2])
@pytest.mark.parametrize("committed", [True, False])
def test_the_next_client_ends_a_prepared_transaction(committed: bool, version: int) -> None:
    world = prepared()

    assert keep(world) == InitProducerResult(ProducerPair(PRODUCER_ID, 6), ProducerPair(*FIRST))
    assert world.state is S.ONGOING and world.current().partitions == {P0}
    world.advance(60 * 60_000)
    world.crash()  # the pairs are in the log

    assert world.end(FIRST, version=version, committed=committed) is E.PRODUCER_FENCED
    after = (PRODUCER_ID, 7) if version == CLIENT_V2 else (PRODUCER_ID, 6)
    assert world.end((PRODUCER_ID, 6), version=version, committed=committed) == after
    (job,) = world.jobs
    assert job.producer_id == PRODUCER_ID and job.committed == committed
    assert job.marker_epoch == (6 if version == CLIENT_V2 else 5)  # of the batches, not of the client
    world.write_markers()
    assert world.current().pair == after
    assert world.add(after, P1, client_version=version) is E.NONE


def test_clients_may_fail_one_after_the_other() -> None:
    world = prepared(32_764)
    seen = []
    for _ in range(4):
        world.crash()
        answer = keep(world)
        assert isinstance(answer, InitProducerResult) and answer.ongoing == (PRODUCER_ID, 32_764)
        seen.append(answer.producer)

    new = FIRST_PRODUCER_ID
    assert seen == [(PRODUCER_ID, 32_765), (PRODUCER_ID, 32_766), (new, 0), (new, 1)]
    for pair in (*seen[:3], (OTHER_ID, 1)):
        assert world.end(pair, version=CLIENT_V2) in (E.PRODUCER_FENCED, E.INVALID_PRODUCER_ID_MAPPING)
    assert world.end(seen[3], version=CLIENT_V2) == (new, 2)
    assert world.jobs[0][1:3] == (PRODUCER_ID, 32_765)


def test_the_retry_of_the_end_is_recognized_after_a_rotation() -> None:
    world = prepared(32_765)
    assert keep(world) == InitProducerResult(
        ProducerPair(PRODUCER_ID, 32_766), ProducerPair(PRODUCER_ID, 32_765)
    )
    new = ProducerPair(FIRST_PRODUCER_ID, 0)

    assert world.end((PRODUCER_ID, 32_766), version=CLIENT_V2) == new
    assert world.end((PRODUCER_ID, 32_766), version=CLIENT_V2) is E.CONCURRENT_TRANSACTIONS
    world.crash()
    world.write_markers()

    assert world.end((PRODUCER_ID, 32_766), version=CLIENT_V2) == new
    assert world.end((PRODUCER_ID, 32_766), version=CLIENT_V2, committed=False) is E.INVALID_TXN_STATE


def test_a_kept_transaction_can_only_be_ended() -> None:
    world = prepared()
    keep(world)

    assert world.add((PRODUCER_ID, 6), P1) is E.INVALID_TXN_STATE
    assert world.add(FIRST, P1) is E.PRODUCER_FENCED
    assert world.add((OTHER_ID, 6), P1) is E.INVALID_PRODUCER_ID_MAPPING
    assert world.verify(FIRST, P0) is E.NONE  # the batches that were on their way
    assert world.verify((PRODUCER_ID, 6), P0) is E.PRODUCER_FENCED


def test_a_kept_transaction_is_shown_with_the_pair_of_its_batches() -> None:
    world = prepared()
    keep(world)

    token = world.token()
    world.handle(DescribeTransactions(token=token, transactional_ids=(ID,)))

    answer = world.answers[token]
    assert isinstance(answer, DescribeTransactionsResult)
    assert (answer.transactions[0].producer_id, answer.transactions[0].producer_epoch) == FIRST


def test_without_a_transaction_there_is_nothing_to_keep() -> None:
    world = TransactionWorld(CONFIG)
    assert keep(world) == InitProducerResult(ProducerPair(FIRST_PRODUCER_ID, 0), None)
    world.put(at(S.COMPLETE_COMMIT))

    assert keep(world) == InitProducerResult(ProducerPair(PRODUCER_ID, 6), None)
    world.put(at(S.PREPARE_COMMIT))
    assert keep(world) is E.CONCURRENT_TRANSACTIONS


def test_a_late_client_keeps_nothing() -> None:
    world = prepared()
    keep(world)

    assert keep(world, FIRST) is E.PRODUCER_FENCED
    assert keep(world, (PRODUCER_ID, 6)) == InitProducerResult(
        ProducerPair(PRODUCER_ID, 7), ProducerPair(*FIRST)
    )


def test_a_request_of_the_first_client_is_no_retry_of_the_one_that_ended_it() -> None:
    """The second client uses the old protocol, so the end leaves its pair one above the first client's."""
    world = TransactionWorld(CONFIG)
    world.put(at(S.EMPTY, 4))
    assert world.init((PRODUCER_ID, 4), enable_2pc=True) == FIRST  # the previous epoch is known, for a retry
    assert world.add(FIRST, P0, client_version=CLIENT_V2) is E.NONE
    keep(world)
    assert world.end((PRODUCER_ID, 6), version=CLIENT_V1) == (PRODUCER_ID, 6)
    world.write_markers()

    assert world.end(FIRST, version=CLIENT_V2) is E.PRODUCER_FENCED
    assert world.init((PRODUCER_ID, 4)) is world.init(FIRST) is E.PRODUCER_FENCED


@pytest.mark.parametrize(("level", "after"), [(1, (PRODUCER_ID, 7)), (2, (PRODUCER_ID, 7))])
def test_a_client_that_does_not_keep_the_transaction_aborts_it(level: int, after: tuple[int, int]) -> None:
    world = prepared(level=level)
    keep(world)

    assert world.init() is E.CONCURRENT_TRANSACTIONS
    assert world.end((PRODUCER_ID, 6), version=CLIENT_V2) is E.CONCURRENT_TRANSACTIONS
    world.write_markers()

    assert world.state is S.COMPLETE_ABORT and world.current().pair == after
    assert world.add((PRODUCER_ID, 6), P1) is E.PRODUCER_FENCED
    assert world.init() == (PRODUCER_ID, 8)


def test_level_0_cannot_keep_a_transaction() -> None:
    world = prepared(level=0)

    assert keep(world) is E.UNSUPPORTED_VERSION and world.state is S.ONGOING


def test_keeping_waits_for_a_new_producer_id() -> None:
    world = prepared(32_766)
    world.has_ids = False
    token = world.ask_init(keep_prepared=True)
    assert world.waiting() == {token} and not world.current().is_kept

    world.give_ids()

    assert world.seen(token) == (FIRST_PRODUCER_ID, 0) and world.current().is_kept
