"""Mutants of transactions: of the coordinator, leaders, markers and groups.

Like those of `mutants`, they run in whole clusters, where producers' answers and readers' records are
checked.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

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
from tests.simulation import txn_scenarios
from tests.simulation.mutants import Mutant, Patch, Plant, add_mutant, played
from tests.simulation.scenarios import Scenario
from tests.simulation.simulation import Options, run_seed

KINDS: Final = ("kill", "isolate", "cut_one_way", "reset", "slow_link", "pause", "kill_leaders_in_turn")
TXN: Final = Options(seconds=5.0, transactions=4, kinds=KINDS)
COPIES: Final = Options(seconds=12.0, transactions=2, copiers=2, kinds=("kill", "reset"))
TWO_PHASE: Final = Options(seconds=4.0, transactions=1, two_phase=3, kinds=("kill", "reset"))
FAILOVERS: Final = Options(seconds=6.0, transactions=4, kinds=("kill_coordinator_at_markers",))

TXN_MUTANTS: list[Mutant] = []


def mutant(options: Options, *first: int) -> Callable[[Plant], Plant]:
    """Add a mutant that random faults must detect; the seeds `first` have detected it."""
    return add_mutant(TXN_MUTANTS, partial(run_seed, options=options), *first)


def scenario_mutant(scenario: Scenario) -> Callable[[Plant], Plant]:
    """Add a mutant that a scenario must detect."""
    return add_mutant(TXN_MUTANTS, played(scenario, Options(settings=txn_scenarios.SETTINGS)))


# Adds a mutant that a test with one log, one coordinator and delayed requests must detect.
verification_mutant = add_mutant(
    TXN_MUTANTS, test_verification.test_a_transaction_ended_by_the_coordinator_is_not_open, 0, 2, seeds=0
)


# ---- readers and logs --------------------------------------------------------------------------------------


@mutant(TXN)
def the_last_stable_offset_is_the_high_watermark(patch: Patch) -> None:
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
def aborted_transactions_are_not_indexed(patch: Patch) -> None:
    patch.setattr(TransactionIndex, "append", lambda *_: None)


@mutant(TXN)
def an_aborted_transaction_is_indexed_from_its_end_on(patch: Patch) -> None:
    append = TransactionIndex.append
    patch.setattr(
        TransactionIndex,
        "append",
        lambda index, row: append(index, row._replace(first_offset=row.last_offset)),
    )


@mutant(FAILOVERS, 8)
def a_repeated_marker_is_written_again(patch: Patch) -> None:
    check_marker = ProducerState.check_marker

    def always(*args: Any, **kwargs: Any) -> bool:
        check_marker(*args, **kwargs)
        return True

    patch.setattr(ProducerState, "check_marker", always)


@verification_mutant
def a_leader_accepts_unverified_transactions(patch: Patch) -> None:
    patch.setattr(Verifications, "_check_verified", lambda *_: None)


@verification_mutant
def a_marker_does_not_reset_the_verification(patch: Patch) -> None:
    patch.setattr(Verifications, "marker_appended", lambda *_: None)


@verification_mutant
def an_open_transaction_admits_every_epoch(patch: Patch) -> None:
    def has_ongoing(producers: ProducerState, producer_id: int, _: int) -> bool:
        entry = producers.entries.get(producer_id)
        return entry is not None and entry.current_txn_first_offset != NO_OFFSET

    patch.setattr(ProducerState, "has_ongoing_transaction", has_ongoing)


@mutant(TXN, 3)
def a_late_duplicate_sets_the_lowest_sequence(patch: Patch) -> None:
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
def a_retried_end_ends_the_next_transaction(patch: Patch) -> None:
    end = end_transaction._end_moving_the_epoch

    def with_client_pair(shard: Any, t: Transaction, command: Any, now_ms: int) -> Any:
        return end(shard, t, replace(command, producer=t.client_pair), now_ms)

    patch.setattr(end_transaction, "_end_moving_the_epoch", with_client_pair)


@mutant(TXN)
def the_end_of_a_transaction_does_not_move_the_epoch(patch: Patch) -> None:
    prepared = transaction.prepared
    patch.setattr(
        end_transaction,
        "prepared",
        lambda *args, **kwargs: prepared(*args, **{**kwargs, "client_version": 0}),
    )


@mutant(TXN)
def a_timed_out_producer_is_not_fenced(patch: Patch) -> None:
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
def a_new_producer_does_not_abort_the_open_transaction(patch: Patch) -> None:
    def return_same_pair(shard: Any, t: Transaction, command: Any, now_ms: int, **_: Any) -> list[Any]:
        return [Reply(command.token, InitProducerResult(t.client_pair, None))]

    patch.setattr(init_producer, "_take_over", return_same_pair)


@mutant(TXN, 1)
def a_transaction_keeps_the_first_start_time(patch: Patch) -> None:
    with_partitions = transaction.with_partitions

    def older(t: Transaction, *args: Any, **kwargs: Any) -> Transaction:
        return replace(with_partitions(t, *args, **kwargs), start_ms=max(0, t.start_ms))

    patch.setattr(add_partitions, "with_partitions", older)


@mutant(FAILOVERS, 34, 148)
def a_transaction_is_complete_with_its_first_marker(patch: Patch) -> None:
    written = marker_progress.markers_written

    def all_of_them(shard: Any, command: Any, now_ms: int) -> Any:
        left = shard.markers_left.get(command.transactional_id, set())
        return written(shard, replace(command, partitions=frozenset(left)), now_ms)

    patch.setattr(transaction_coordinator, "markers_written", all_of_them)
    # Reading each log when it is first led takes turns of the loop, so that few seeds would hit the moment.
    patch.setattr(LogScrub, "leads", lambda *_: None)


@mutant(FAILOVERS)
def a_new_coordinator_sends_no_markers(patch: Patch) -> None:
    patch.setattr(transaction_coordinator, "resume_markers", lambda *_: [])


@scenario_mutant(txn_scenarios.a_coordinator_dies_with_a_decision_that_no_replica_has)
def markers_are_sent_before_the_decision_is_replicated(patch: Patch) -> None:
    when_committed = CoordinatorLog.when_committed

    def at_once(log: CoordinatorLog[Any], callback: Callable[[KafkaError | None], None]) -> None:
        if log._partition.topic_partition.topic == TRANSACTIONS_TOPIC:
            callback(None)
        else:
            when_committed(log, callback)

    patch.setattr(CoordinatorLog, "when_committed", at_once)


@scenario_mutant(txn_scenarios.a_coordinator_dies_with_a_decision_that_no_replica_has)
def a_coordinator_answers_before_its_record_is_replicated(patch: Patch) -> None:
    answer_when_committed = CoordinatorLog.answer_when_committed

    def at_once(log: CoordinatorLog[Any], token: Any, answer: Any) -> None:
        if log._partition.topic_partition.topic == TRANSACTIONS_TOPIC:
            log._answer(token, answer)
        else:
            answer_when_committed(log, token, answer)

    patch.setattr(CoordinatorLog, "answer_when_committed", at_once)


# ---- two phases --------------------------------------------------------------------------------------------


@mutant(TWO_PHASE, 2)
def the_previous_producer_may_end_a_prepared_transaction(patch: Patch) -> None:
    end = end_transaction._end_moving_the_epoch

    def with_client_pair(shard: Any, t: Transaction, command: Any, now_ms: int) -> Any:
        if t.is_kept and command.producer == t.pair:
            command = replace(command, producer=t.client_pair)
        return end(shard, t, command, now_ms)

    patch.setattr(end_transaction, "_end_moving_the_epoch", with_client_pair)


@mutant(TWO_PHASE)
def a_prepared_transaction_times_out(patch: Patch) -> None:
    patch.setattr(init_producer, "NO_TIMEOUT_MS", 500)


@mutant(TWO_PHASE)
def keep_prepared_is_ignored(patch: Patch) -> None:
    begin = transaction_coordinator.init_producer

    def without_keeping(shard: Any, command: Any, now_ms: int, **more: Any) -> Any:
        return begin(shard, replace(command, keep_prepared=False), now_ms, **more)

    patch.setattr(transaction_coordinator, "init_producer", without_keeping)


# ---- markers -----------------------------------------------------------------------------------------------


@scenario_mutant(txn_scenarios.a_leader_dies_with_a_marker_that_no_replica_has)
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
def offsets_of_aborted_transactions_are_committed(patch: Patch) -> None:
    end = PendingOffsets.end
    patch.setattr(
        PendingOffsets, "end", lambda pending, producer_id, **_: end(pending, producer_id, committed=True)
    )


@mutant(COPIES)
def offsets_of_committed_transactions_are_dropped(patch: Patch) -> None:
    end = PendingOffsets.end
    patch.setattr(
        PendingOffsets, "end", lambda pending, producer_id, **_: end(pending, producer_id, committed=False)
    )


@mutant(COPIES, 3)
def require_stable_is_ignored(patch: Patch) -> None:
    patch.setattr(PendingOffsets, "has", lambda *_: False)
    patch.setattr(PendingOffsets, "keys_of", lambda *_: ())
