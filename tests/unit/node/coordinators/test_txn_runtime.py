"""The transaction coordinator of a node: its decisions are replicated, then shown, and survive a restart."""

import asyncio
from typing import Any

import pytest

from ottla.groupcoord.transactions.transaction_commands import DescribeTransactions, ListTransactions
from ottla.groupcoord.transactions.transaction_config import TransactionConfig
from ottla.groupcoord.transactions.transaction_effects import CloseWithoutResponse
from ottla.groupcoord.transactions.transaction_results import (
    AddPartitionsResult,
    EndTransactionResult,
    InitProducerResult,
    VerifyPartitionsResult,
)
from ottla.logstore.disk import FileSlice
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.coordinators import coordinator_runtime, coordinator_shard
from ottla.node.coordinators.txn_runtime import Make
from ottla.node.net.answers import Delayed
from tests.unit.node.coordinators.group_node import too_few_replicas
from tests.unit.node.coordinators.txn_node import T0, T1, TxnNode, add, end, init, play, verify

FOLLOWED = (1, 2)


def replicate(node: TxnNode, transactional_id: str = "x") -> None:
    """Let the follower of the id's partition fetch everything that the leader has."""
    partition = node.partition_of(transactional_id)
    partition.follower_fetched(2, partition.log.log_end_offset)


async def answer_once_replicated(node: TxnNode, transactional_id: str, make: Make) -> Any:
    answer = node.submit(transactional_id, make)
    while isinstance(answer, asyncio.Future) and not answer.done():
        await asyncio.sleep(0)
        replicate(node, transactional_id)
    return await answer if isinstance(answer, asyncio.Future) else answer


async def begun(node: TxnNode, transactional_id: str = "x") -> Any:
    await node.txns.coordinator_of(transactional_id)
    return (await answer_once_replicated(node, transactional_id, init(transactional_id))).producer


def code_of(answer: Any) -> ErrorCode:
    assert isinstance(answer, KafkaError), answer
    return answer.code


# ---- one transaction -----------------------------------------------------------------------------------


def test_a_transaction_from_its_first_partition_to_its_last_marker() -> None:
    async def scenario(node: TxnNode) -> None:
        pair = await node.begin()
        assert pair == (1_001, 0) and node.created == 1

        assert isinstance(await node.ask("x", add(pair)), AddPartitionsResult)
        assert await node.ask("x", end(pair)) == EndTransactionResult(pair)
        (_, job), *others = node.jobs
        assert (job.producer_id, job.marker_epoch, job.committed, job.partitions) == (*pair, True, (T0, T1))
        assert not others

        node.marked(T1)
        await asyncio.sleep(0)
        assert node.states() == ["Empty", "Ongoing", "PrepareCommit"]
        node.marked(T0)
        await node.until(lambda: node.states() == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"])

    play(scenario)


def test_the_end_of_a_transaction_is_one_batch_with_the_start_of_the_next() -> None:
    async def scenario(node: TxnNode) -> None:
        pair = await node.begin()
        for _ in range(3):
            await node.ask("x", add(pair))
            await node.ask("x", end(pair))
            node.marked()

        assert node.batches() == [1, 1, 1, 2, 1, 2, 1]

    play(scenario)


def test_markers_are_sent_when_the_decision_is_replicated_and_not_before() -> None:
    async def scenario(node: TxnNode) -> None:
        pair = await begun(node)
        await answer_once_replicated(node, "x", add(pair))

        ending = node.submit("x", end(pair))
        await node.until(lambda: node.states()[-1] == "PrepareCommit")
        await asyncio.sleep(0.01)
        assert not node.jobs and not ending.done()

        replicate(node)
        assert await ending == EndTransactionResult(pair)
        await node.until(lambda: len(node.jobs) == 1)

    play(scenario, TxnNode(replicas=FOLLOWED))


def test_a_decision_that_is_replicated_late_sends_its_markers_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.node.coordinators.coordinator_log.LOOK_AGAIN_S", 0.001)

    async def scenario(node: TxnNode) -> None:
        pair = await begun(node)
        await answer_once_replicated(node, "x", add(pair))

        assert code_of(await node.ask("x", end(pair))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert not node.jobs

        replicate(node)
        await node.until(lambda: len(node.jobs) == 1)

    play(scenario, TxnNode(replicas=FOLLOWED, commit_timeout_ms=1_000))


def test_a_partition_is_confirmed_only_after_its_addition_is_replicated() -> None:
    async def scenario(node: TxnNode) -> None:
        pair = await begun(node)
        adding = node.submit("x", add(pair, T0))
        asking = node.submit("x", verify(pair, T0))
        described = node.submit(
            "x", lambda token: DescribeTransactions(token=token, transactional_ids=("x",))
        )
        again = node.submit("x", add(pair, T0))
        waiting = [adding, asking, described, again]
        await asyncio.sleep(0.01)
        assert not any(each.done() for each in waiting)

        replicate(node)

        _, verified, transactions, _ = await asyncio.gather(*waiting)
        assert isinstance(verified, VerifyPartitionsResult) and verified.errors == {T0: ErrorCode.NONE}
        assert transactions.transactions[0].state == "Ongoing"

    play(scenario, TxnNode(replicas=FOLLOWED, commit_timeout_ms=60_000))


def test_commands_of_one_turn_are_one_batch() -> None:
    async def scenario(node: TxnNode) -> None:
        ids = [f"x{each}" for each in range(300)]
        ids = [each for each in ids if node.txns.partition_for(each) == node.txns.partition_for("x")][:50]
        pairs = {each: await node.begin(each) for each in ids}
        adding = [node.submit(each, add(pairs[each], transactional_id=each)) for each in ids]
        await asyncio.gather(*adding)
        before = len(node.batches())

        await asyncio.gather(*(node.submit(each, end(pairs[each], transactional_id=each)) for each in ids))

        assert node.batches()[before:] == [50] and len(node.jobs) == 50

    play(scenario)


# ---- the coordinator moves -------------------------------------------------------------------------------


def test_a_new_coordinator_continues_a_decided_transaction() -> None:
    async def before(node: TxnNode) -> None:
        pair = await node.begin()
        await node.ask("x", add(pair))
        await node.ask("x", end(pair, committed=False))
        node.marked(T0)

    async def after(node: TxnNode) -> None:
        node.host(leader_epoch=1)
        node.txns.refresh()
        await node.loaded()

        ((_, job),) = node.jobs
        assert job.partitions == (T0, T1) and not job.committed and job.coordinator_epoch == 1
        node.marked()
        answer = await node.ask("x", init())
        assert answer.producer == (1_001, 1)

    play(after, TxnNode(play(before).disk))


def test_markers_of_a_loaded_decision_wait_for_the_replicas() -> None:
    """The decision was written in an earlier leader epoch and may still be lost."""

    async def before(node: TxnNode) -> None:
        pair = await begun(node)
        await answer_once_replicated(node, "x", add(pair))
        node.submit("x", end(pair))
        await asyncio.sleep(0)

    async def after(node: TxnNode) -> None:
        node.host(leader_epoch=1)
        node.txns.refresh()
        await node.loaded()
        await asyncio.sleep(0.01)
        assert not node.jobs

        replicate(node)
        await node.until(lambda: len(node.jobs) == 1)

    play(after, TxnNode(play(before, TxnNode(replicas=FOLLOWED)).disk, replicas=FOLLOWED))


def test_requests_to_the_last_coordinator_fail_and_decide_nothing() -> None:
    async def scenario(node: TxnNode) -> None:
        pair = await begun(node)
        await answer_once_replicated(node, "x", add(pair))
        appended = node.submit("x", end(pair))
        await asyncio.sleep(0)  # ends the turn, which appends
        fresh = node.submit("x", add(pair, transactional_id="x"))  # waits for the markers

        node.host(leader_epoch=1, leader=2)
        node.txns.refresh()

        assert code_of(await appended) is ErrorCode.NOT_COORDINATOR
        assert code_of(await fresh) is ErrorCode.NOT_COORDINATOR
        assert code_of(await node.ask("x", init())) is ErrorCode.NOT_COORDINATOR
        assert not node.jobs and node.txns.partition_for("x") in node.dropped

    play(scenario, TxnNode(replicas=FOLLOWED, commit_timeout_ms=60_000))


@pytest.mark.parametrize("has_moved", [True, False])
def test_only_the_current_coordinator_answers_that_there_is_nothing_to_commit(has_moved: bool) -> None:
    """The next coordinator may be the only one that knows the transaction."""

    async def scenario(node: TxnNode) -> None:
        answer = node.submit("x", end(await begun(node), client_version=2))
        await asyncio.sleep(0.01)
        assert not answer.done()

        if has_moved:
            node.host(leader_epoch=1, leader=2)
            node.txns.refresh()
        else:
            replicate(node)

        expected = ErrorCode.NOT_COORDINATOR if has_moved else ErrorCode.INVALID_TXN_STATE
        assert code_of(await answer) is expected

    play(scenario, TxnNode(replicas=FOLLOWED, commit_timeout_ms=60_000))


def test_requests_fail_while_a_shard_loads() -> None:
    async def before(node: TxnNode) -> None:
        await node.begin()

    async def after(node: TxnNode) -> None:
        node.host(leader_epoch=1)
        node.txns.refresh()
        assert code_of(await node.ask("x", init())) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        listed = node.txns.ask_all_shards(
            lambda token: ListTransactions(token=token), lambda answers: answers
        )
        assert any(isinstance(each, KafkaError) for each in listed)

        node.host(leader_epoch=2, leader=2)
        node.txns.refresh()  # ends the load
        node.host(leader_epoch=3)
        node.txns.refresh()
        await node.loaded()
        assert isinstance(await node.ask("x", init()), InitProducerResult)

    play(after, TxnNode(play(before).disk))


def test_a_log_that_cannot_be_read_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def before(node: TxnNode) -> None:
        await node.begin()

    async def after(node: TxnNode) -> None:
        failures = iter([OSError("the disk does not answer")])
        read = FileSlice.read

        def fail_once(piece: FileSlice) -> Any:
            for error in failures:
                raise error
            return read(piece)

        monkeypatch.setattr(FileSlice, "read", fail_once)
        monkeypatch.setattr(coordinator_runtime, "RELOAD_DELAY_MS", 1)
        node.host(leader_epoch=1)
        node.txns.refresh()
        await node.loaded()
        assert (await node.ask("x", init())).producer == (1_001, 1)
        assert not list(failures), "the disk has failed"

    play(after, TxnNode(play(before).disk))


def test_a_shard_is_loaded_again_when_a_leader_knows_a_newer_coordinator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coordinator_runtime, "RELOAD_DELAY_MS", 1)

    async def scenario(node: TxnNode) -> None:
        pair = await node.begin()
        await node.ask("x", add(pair))
        await node.ask("x", end(pair))
        index = node.txns.partition_for("x")

        node.txns.fail_shard(index, 7)  # of an earlier coordinator
        assert not node.dropped
        node.txns.fail_shard(index, 0)

        assert node.dropped == [index]
        await node.until(lambda: len(node.jobs) == 2)  # all markers once more

    play(scenario)


def test_a_closed_shard_gets_no_commands_until_it_is_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next shard would not know its decisions, and requests that wait for it would get no answer."""
    monkeypatch.setattr(coordinator_runtime, "RELOAD_DELAY_MS", 3_600_000)

    async def scenario(node: TxnNode) -> None:
        pair = await node.begin()
        await node.ask("x", add(pair))

        node.txns.fail_shard(node.txns.partition_for("x"), 0)

        for make in (init(), add(pair), end(pair)):
            assert code_of(await node.ask("x", make)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    play(scenario)


# ---- failures ----------------------------------------------------------------------------------------------


def test_while_too_few_replicas_are_in_sync_nothing_is_decided_or_loaded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coordinator_shard, "WRITE_AGAIN_MS", 5)

    async def scenario(node: TxnNode) -> None:
        pair, other = await node.begin(), await node.begin("other")
        await node.ask("x", add(pair, T0))
        await node.ask("other", add(other, transactional_id="other"))
        await node.ask("other", end(other, transactional_id="other"))
        shards = dict(node.txns.shards)

        with too_few_replicas():
            for make in (init(), add(pair, T1), end(pair)):
                assert code_of(await node.ask("x", make)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            verified = await node.ask("x", verify(pair, T0, T1))
            assert verified.errors == {T0: ErrorCode.NONE, T1: ErrorCode.TRANSACTION_ABORTABLE}
            node.marked(T0)
            node.marked(T1)
            await asyncio.sleep(0.02)
            assert node.states("other")[-1] == "PrepareCommit"

        await node.until(lambda: node.states("other")[-1] == "CompleteCommit")
        assert node.txns.shards == shards
        assert isinstance(await node.ask("x", end(pair)), EndTransactionResult)

    play(scenario)


def test_a_failed_append_undoes_its_decision() -> None:
    async def scenario(node: TxnNode) -> None:
        pair = await node.begin()
        await node.ask("x", add(pair))
        partition = node.partition_of("x")
        plain = partition.log.config
        partition.log.update_config(plain.__class__(cleanup_policy=("compact",), max_message_bytes=10))

        assert code_of(await node.ask("x", end(pair))) is ErrorCode.UNKNOWN_SERVER_ERROR
        partition.log.update_config(plain)
        await node.loaded()

        assert not node.jobs
        assert isinstance(await node.ask("x", end(pair, committed=False)), EndTransactionResult)
        assert [job.committed for _, job in node.jobs] == [False]

    play(scenario)


def test_there_are_no_producer_ids_while_the_controller_is_unreachable() -> None:
    async def scenario(node: TxnNode) -> None:
        await node.txns.coordinator_of("x")
        node.id_error = KafkaError(ErrorCode.NOT_CONTROLLER, "there is no controller")
        assert code_of(await node.ask("x", init())) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        node.id_error = None
        assert (await node.ask("x", init())).producer.producer_epoch == 0

    play(scenario)


def test_a_shard_that_closes_answers_requests_that_wait_for_a_producer_id() -> None:
    async def scenario(node: TxnNode) -> None:
        await node.txns.coordinator_of("x")
        node.ids_ready = asyncio.Event()
        waiting = node.submit("x", init())
        await asyncio.sleep(0.001)

        node.host(leader_epoch=1, leader=2)
        node.txns.refresh()

        assert code_of(await waiting) is ErrorCode.NOT_COORDINATOR
        node.ids_ready.set()
        await asyncio.sleep(0.001)

    play(scenario)


def test_a_copy_of_a_request_over_an_old_connection_is_not_answered() -> None:
    async def scenario(node: TxnNode) -> None:
        pair = await node.begin()
        for number in (1, 2):
            await node.ask("x", add(pair))
            await node.ask("x", end(pair, connection_number=number))
            node.marked()
        await node.ask("x", add(pair))

        assert isinstance(await node.ask("x", end(pair, connection_number=1)), CloseWithoutResponse)

        assert node.states()[-1] == "Ongoing"

    play(scenario)


def test_a_transaction_that_has_timed_out_is_aborted() -> None:
    config = TransactionConfig(transaction_abort_timed_out_transaction_cleanup_interval_ms=5)

    async def scenario(node: TxnNode) -> None:
        pair = await node.begin()
        await node.ask("x", add(pair))
        node.clock.advance(60_001)
        await node.until(lambda: bool(node.jobs))
        assert not node.jobs[0][1].committed and node.jobs[0][1].marker_epoch == pair.producer_epoch + 1

    play(scenario, TxnNode(config=config))


def test_values_are_written_in_the_version_of_the_cluster() -> None:
    def version_of_last(node: TxnNode) -> int:
        last = node.records()[-1]
        assert last.value is not None
        return int.from_bytes(last.value[:2])

    async def scenario(node: TxnNode) -> None:
        pair = await node.begin()
        assert version_of_last(node) == 0

        node.level = 1
        node.host(leader_epoch=0)
        node.txns.refresh()
        await node.ask("x", add(pair))

        assert version_of_last(node) == 1

    play(scenario, TxnNode(level=0))


def test_closing_answers_all_requests() -> None:
    async def scenario(node: TxnNode) -> None:
        pair = await begun(node)
        await answer_once_replicated(node, "x", add(pair))
        waiting = [node.submit("x", end(pair)), node.submit("x", init())]
        node.txns.close()
        assert [code_of(await each) for each in waiting] == [ErrorCode.NOT_COORDINATOR] * 2

    play(scenario, TxnNode(replicas=FOLLOWED, commit_timeout_ms=60_000))


def test_all_shards_are_listed_in_turns_when_they_have_very_many_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.node.coordinators.txn_runtime.MAX_IDS_PER_TURN", 5)

    async def scenario(node: TxnNode) -> None:
        for each in range(10):
            await node.begin(f"x{each}")

        answer = node.txns.ask_all_shards(
            lambda token: ListTransactions(token=token),
            lambda answers: sorted(one.transactional_id for each in answers for one in each.transactions),
        )
        answer = await answer
        if isinstance(answer, Delayed):
            answer = answer.answer(await answer.future)
        assert answer.make() == [f"x{each}" for each in range(10)]

    play(scenario)
