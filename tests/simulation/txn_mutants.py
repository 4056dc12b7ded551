"""Mutants of transactions: of the coordinator, leaders, markers and groups.

Like those of `mutants`, they run in whole clusters, where producers' answers and readers' records are
checked.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from ottla.groupcoord.offsets.pending_offsets import PendingOffsets
from ottla.groupcoord.transactions import (
    add_partitions,
    coordinator_abort,
    end_transaction,
    init_producer,
    marker_progress,
    transaction,
    transaction_coordinator,
)
from ottla.groupcoord.transactions.transaction import CLIENT_V1, NO_PRODUCER_ID, Transaction
from ottla.groupcoord.transactions.transaction_effects import Reply
from ottla.groupcoord.transactions.transaction_records import TRANSACTIONS_TOPIC
from ottla.groupcoord.transactions.transaction_results import InitProducerResult
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.producer_state import NO_OFFSET, ProducerState
from ottla.logstore.transaction_index import TransactionIndex
from ottla.logstore.verification import Verifications
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.coordinators.coordinator_log import CoordinatorLog
from ottla.node.coordinators.marker_writer import MarkerWriter
from ottla.node.log_care.log_scrub import LogScrub
from tests.property import test_verification
from tests.simulation import txn_stories
from tests.simulation.mutants import MAX_SEEDS, Mutant
from tests.simulation.simulation import Options, Simulation, run_seed
from tests.simulation.stories import Story

Patch = pytest.MonkeyPatch

KINDS: Final = ("kill", "isolate", "cut_one_way", "reset", "slow_link", "pause", "kill_leaders_in_turn")
TXN: Final = Options(seconds=5.0, transactions=4, kinds=KINDS)
COPIES: Final = Options(seconds=12.0, transactions=2, copiers=2, kinds=("kill", "reset"))
TWO_PHASE: Final = Options(seconds=4.0, transactions=1, two_phase=3, kinds=("kill", "reset"))
FAILOVERS: Final = Options(seconds=6.0, transactions=4, kinds=("kill_coordinator_at_markers",))

TXN_MUTANTS: list[Mutant] = []


def mutant(options: Options, *first: int) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Add a mutant to the list; the seeds `first` have detected it and are tried first."""

    def enter(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        run = partial(run_seed, options=options)
        TXN_MUTANTS.append(Mutant(plant=plant, run=run, seeds=(*first, *range(MAX_SEEDS))))
        return plant

    return enter


def story_mutant(story: Story) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Add a mutant that a scenario must detect."""

    def enter(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        TXN_MUTANTS.append(Mutant(plant=plant, run=partial(_play, story), seeds=range(MAX_SEEDS)))
        return plant

    return enter


def _play(story: Story, seed: int) -> object:
    return Simulation(seed, Options(settings=txn_stories.SETTINGS)).play(story)


def walk_mutant(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
    """Add a mutant that a test with one log, one coordinator and delayed requests must detect."""
    run = test_verification.test_a_transaction_ended_by_the_coordinator_is_not_open
    TXN_MUTANTS.append(Mutant(plant=plant, run=run, seeds=(0, 2)))
    return plant


# ---- readers and logs --------------------------------------------------------------------------------------


@mutant(TXN)
def readers_of_committed_records_see_all_that_is_replicated(patch: Patch) -> None:
    patch.setattr(PartitionLog, "last_stable_offset", property(lambda log: log.high_watermark))


@mutant(TXN)
def the_last_stable_offset_is_one_too_high(patch: Patch) -> None:
    stable = PartitionLog.last_stable_offset.fget  # type: ignore[attr-defined]
    patch.setattr(
        PartitionLog,
        "last_stable_offset",
        property(lambda log: min(stable(log) + 1, log.high_watermark)),
    )


@mutant(TXN)
def aborted_transactions_are_not_noted(patch: Patch) -> None:
    patch.setattr(TransactionIndex, "append", lambda *_: None)


@mutant(TXN)
def an_aborted_transaction_is_noted_from_its_end_on(patch: Patch) -> None:
    append = TransactionIndex.append
    patch.setattr(
        TransactionIndex,
        "append",
        lambda index, row: append(index, row._replace(first_offset=row.last_offset)),
    )


@mutant(FAILOVERS, 8)
def a_marker_is_written_as_often_as_it_comes(patch: Patch) -> None:
    check_marker = ProducerState.check_marker

    def always(*args: Any, **kwargs: Any) -> bool:
        check_marker(*args, **kwargs)
        return True

    patch.setattr(ProducerState, "check_marker", always)


@walk_mutant
def a_leader_takes_what_no_coordinator_knows(patch: Patch) -> None:
    patch.setattr(Verifications, "_check_on_file", lambda *_: None)


@walk_mutant
def the_end_of_a_transaction_leaves_what_was_asked_for_it(patch: Patch) -> None:
    patch.setattr(Verifications, "marker_appended", lambda *_: None)


@walk_mutant
def an_open_transaction_admits_every_epoch(patch: Patch) -> None:
    def has_ongoing(producers: ProducerState, producer_id: int, _: int) -> bool:
        entry = producers.entries.get(producer_id)
        return entry is not None and entry.current_txn_first_offset != NO_OFFSET

    patch.setattr(ProducerState, "has_ongoing_transaction", has_ongoing)


@mutant(TXN, 3)
def a_late_copy_is_the_lowest_that_asks(patch: Patch) -> None:
    """Apache Kafka 4.3.1 has this rule."""
    check_first = Verifications.check_first

    def check(verifications: Verifications, header: Any, guard: Any, **kwargs: Any) -> Any:
        found = check_first(verifications, header, guard, **kwargs)
        if found is None and guard is not None and header.base_sequence > guard.lowest_sequence:
            raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        return found

    patch.setattr(Verifications, "check_first", check)


# ---- coordinator -------------------------------------------------------------------------------------------


@mutant(TXN, 2)
def a_stale_producer_may_end_a_transaction(patch: Patch) -> None:
    patch.setattr(end_transaction, "check_pair", lambda *_: None)


@mutant(TXN, 4)
def the_retry_of_an_end_is_one_of_the_next_transaction(patch: Patch) -> None:
    end = end_transaction._end_moving_the_epoch

    def believe(shard: Any, t: Transaction, command: Any, now_ms: int) -> Any:
        return end(shard, t, replace(command, producer=t.client_pair), now_ms)

    patch.setattr(end_transaction, "_end_moving_the_epoch", believe)


@mutant(TXN)
def the_end_of_a_transaction_does_not_move_the_epoch(patch: Patch) -> None:
    prepared = transaction.prepared
    patch.setattr(
        end_transaction,
        "prepared",
        lambda *args, **kwargs: prepared(*args, **{**kwargs, "client_version": 0}),
    )


@mutant(TXN)
def who_is_too_slow_keeps_its_epoch(patch: Patch) -> None:
    def without_fence(t: Transaction, *, now_ms: int, **_: Any) -> Transaction:
        return transaction.prepared(
            t, committed=False, client_version=CLIENT_V1, next_id=NO_PRODUCER_ID, now_ms=now_ms
        )

    patch.setattr(coordinator_abort, "fenced", without_fence)


@mutant(TXN, 18)
def late_ends_of_the_old_protocol_decide(patch: Patch) -> None:
    """The subject of KAFKA-17754."""
    end = transaction_coordinator.end_transaction
    patch.setattr(
        transaction_coordinator,
        "end_transaction",
        lambda shard, command, now_ms: end(shard, replace(command, connection_number=2**60), now_ms),
    )


@mutant(TXN)
def a_successor_does_not_end_what_is_open(patch: Patch) -> None:
    def give_the_same(shard: Any, t: Transaction, command: Any, now_ms: int, **_: Any) -> list[Any]:
        return [Reply(command.token, InitProducerResult(t.client_pair, None))]

    patch.setattr(init_producer, "_take_over", give_the_same)


@mutant(TXN, 1)
def a_transaction_is_as_old_as_its_id(patch: Patch) -> None:
    with_partitions = transaction.with_partitions

    def older(t: Transaction, *args: Any, **kwargs: Any) -> Transaction:
        return replace(with_partitions(t, *args, **kwargs), start_ms=max(0, t.start_ms))

    patch.setattr(add_partitions, "with_partitions", older)


@mutant(FAILOVERS, 163, 89)
def a_transaction_is_complete_with_its_first_marker(patch: Patch) -> None:
    written = marker_progress.markers_written

    def all_of_them(shard: Any, command: Any, now_ms: int) -> Any:
        left = shard.markers_left.get(command.transactional_id, set())
        return written(shard, replace(command, partitions=frozenset(left)), now_ms)

    patch.setattr(transaction_coordinator, "markers_written", all_of_them)
    # Reading each log when it is first led takes turns of the loop, so that few seeds would hit the moment.
    patch.setattr(LogScrub, "leads", lambda *_: None)


@mutant(FAILOVERS)
def a_new_coordinator_owes_no_markers(patch: Patch) -> None:
    patch.setattr(transaction_coordinator, "resume_markers", lambda *_: [])


@story_mutant(txn_stories.a_coordinator_dies_with_a_decision_that_nobody_else_has)
def markers_leave_before_the_decision_is_replicated(patch: Patch) -> None:
    when_committed = CoordinatorLog.when_committed

    def at_once(log: CoordinatorLog[Any], tell: Callable[[KafkaError | None], None]) -> None:
        if log._partition.topic_partition.topic == TRANSACTIONS_TOPIC:
            tell(None)
        else:
            when_committed(log, tell)

    patch.setattr(CoordinatorLog, "when_committed", at_once)


@story_mutant(txn_stories.a_coordinator_dies_with_a_decision_that_nobody_else_has)
def a_coordinator_answers_before_its_word_is_replicated(patch: Patch) -> None:
    answer_when_committed = CoordinatorLog.answer_when_committed

    def at_once(log: CoordinatorLog[Any], token: Any, answer: Any) -> None:
        if log._partition.topic_partition.topic == TRANSACTIONS_TOPIC:
            log._answer(token, answer)
        else:
            answer_when_committed(log, token, answer)

    patch.setattr(CoordinatorLog, "answer_when_committed", at_once)


# ---- two phases --------------------------------------------------------------------------------------------


@mutant(TWO_PHASE, 2)
def who_has_prepared_may_still_end_it(patch: Patch) -> None:
    end = end_transaction._end_moving_the_epoch

    def believe(shard: Any, t: Transaction, command: Any, now_ms: int) -> Any:
        if t.is_kept and command.producer == t.pair:
            command = replace(command, producer=t.client_pair)
        return end(shard, t, command, now_ms)

    patch.setattr(end_transaction, "_end_moving_the_epoch", believe)


@mutant(TWO_PHASE)
def what_was_prepared_has_a_time(patch: Patch) -> None:
    patch.setattr(init_producer, "NO_TIMEOUT_MS", 500)


@mutant(TWO_PHASE)
def who_keeps_what_was_prepared_takes_it_over(patch: Patch) -> None:
    begin = transaction_coordinator.init_producer

    def forget(shard: Any, command: Any, now_ms: int, **more: Any) -> Any:
        return begin(shard, replace(command, keep_prepared=False), now_ms, **more)

    patch.setattr(transaction_coordinator, "init_producer", forget)


# ---- markers -----------------------------------------------------------------------------------------------


@story_mutant(txn_stories.a_leader_dies_with_a_marker_that_nobody_else_has)
def a_marker_counts_before_it_is_replicated(patch: Patch) -> None:
    write = MarkerWriter.write

    def at_once(writer: MarkerWriter, markers: Any, wait_ms: int) -> Any:
        codes = yield from write(writer, markers, wait_ms)
        if isinstance(codes, list):
            return codes
        return [[ErrorCode.NONE for _ in marker.partitions] for marker in markers]

    patch.setattr(MarkerWriter, "write", at_once)


# ---- groups ------------------------------------------------------------------------------------------------


@mutant(COPIES, 3)
def offsets_count_when_their_transaction_is_aborted(patch: Patch) -> None:
    end = PendingOffsets.end
    patch.setattr(
        PendingOffsets, "end", lambda pending, producer_id, **_: end(pending, producer_id, committed=True)
    )


@mutant(COPIES)
def offsets_of_a_transaction_are_forgotten(patch: Patch) -> None:
    end = PendingOffsets.end
    patch.setattr(
        PendingOffsets, "end", lambda pending, producer_id, **_: end(pending, producer_id, committed=False)
    )


@mutant(COPIES, 3)
def nobody_waits_for_offsets_of_open_transactions(patch: Patch) -> None:
    patch.setattr(PendingOffsets, "has", lambda *_: False)
    patch.setattr(PendingOffsets, "keys_of", lambda *_: ())
