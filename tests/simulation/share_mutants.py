"""Mutants of share groups: of leaders, sessions, coordinators, the group, dead letters, waits and resets.

Like those of `mutants`, they run in whole clusters, with a share group whose members and leaders are checked.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from ottla.groupcoord.share import share_group_heartbeat
from ottla.groupcoord.share_state import check_request, write_state
from ottla.groupcoord.share_state.share_state_records import SHARE_STATE_TOPIC
from ottla.groupcoord.share_state.share_state_words import (
    DeleteState,
    InitializeState,
    StateRequest,
    StateResult,
    WriteState,
)
from ottla.logstore.words.errors import KafkaError
from ottla.node.coordinators.coordinator_log import CoordinatorLog
from ottla.node.share import (
    acknowledge_records,
    acquire_records,
    release_records,
    share_fetch,
    share_group_settings,
    share_partition,
    share_partition_manager,
)
from ottla.node.share.dead_letters import DeadLetters
from ottla.node.share.in_flight_records import ACQUIRED, InFlightRecords
from ottla.node.share.led_partition import LedPartition
from ottla.node.share.record_state import TERMINAL
from ottla.node.share.share_partition import SharePartition
from ottla.node.share.share_partition_manager import SharePartitionManager
from ottla.node.share.share_sessions import ShareSessions
from ottla.node.share.share_window import ARCHIVED, ShareWindow
from ottla.node.share.share_words import ArchiveReason, ShareConfig
from tests.simulation import share_scenarios
from tests.simulation.mutants import Mutant, Patch, Plant, add_mutant, played
from tests.simulation.scenarios import Scenario
from tests.simulation.share_traits import BACKOFF, DELAYS, LETTERS, RESETS
from tests.simulation.simulation import Options, run_seed

KINDS: Final = ("kill", "reset", "kill_leaders_in_turn", "kill_share_coordinator", "kill_leader_at_write")
SHARE: Final = Options(seconds=3.0, workers=5, kinds=KINDS)
CUTS: Final = Options(seconds=2.0, workers=5, kinds=("reset",))
ABORTS: Final = Options(seconds=2.0, workers=5, transactions=2, kinds=("reset",))
WITH_LETTERS: Final = Options(seconds=3.0, workers=5, kinds=("kill_leader_at_letters",), traits=(LETTERS,))
WITH_BACKOFF: Final = Options(seconds=1.0, workers=5, kinds=("reset",), traits=(BACKOFF,))
WITH_DELAYS: Final = Options(seconds=1.0, workers=5, kinds=("reset",), traits=(DELAYS,))
WITH_RESETS: Final = Options(seconds=3.0, workers=5, kinds=("reset",), traits=(RESETS,))

SHARE_MUTANTS: list[Mutant] = []


def mutant(options: Options, *first: int) -> Callable[[Plant], Plant]:
    """Add a mutant that random faults must detect; the seeds `first` have detected it."""
    return add_mutant(SHARE_MUTANTS, partial(run_seed, options=options), *first)


def scenario_mutant(scenario: Scenario) -> Callable[[Plant], Plant]:
    """Add a mutant that a scenario must detect."""
    return add_mutant(SHARE_MUTANTS, played(scenario, share_scenarios.OPTIONS))


def _unchecked(patch: Patch, request: type[StateRequest], check: str) -> None:
    """Let the share coordinator leave out one of its checks."""
    checks = check_request.CHECKS[request]
    left = tuple(one for one in checks if one.__name__ != check)
    assert len(left) == len(checks) - 1
    patch.setitem(check_request.CHECKS, request, left)


# ---- leaders -----------------------------------------------------------------------------------------------


@mutant(SHARE)
def locks_expire_at_once(patch: Patch) -> None:
    acquire = share_partition.acquire

    def at_once(acquisition: acquire_records.Acquisition, max_records: int) -> Any:
        early_ms = acquisition.now_ms - acquisition.config.record_lock_duration_ms + 1
        return acquire(acquisition._replace(now_ms=early_ms), max_records)

    patch.setattr(share_partition, "acquire", at_once)


@mutant(SHARE)
def redeliveries_are_not_counted(patch: Patch) -> None:
    hold = acquire_records._hold
    patch.setattr(
        acquire_records,
        "_hold",
        lambda acquisition, first, last, count: hold(acquisition, first, last, count - 1),
    )


@mutant(SHARE, 1)
def deliveries_are_not_limited(patch: Patch) -> None:
    number = share_group_settings._number
    patch.setattr(
        share_group_settings,
        "_number",
        lambda node, own, name: 99 if name == "delivery.count.limit" else number(node, own, name),
    )


@mutant(SHARE, 3)
def any_member_may_acknowledge_a_held_record(patch: Patch) -> None:
    check_held = acknowledge_records._check_held

    def is_held(moves: Any, member: str, first: int, last: int) -> None:
        records = moves.window.records
        begin, end = records.span(first, last)
        for index in range(begin, end):
            holder = records.holders[index] or member
            check_held(moves, holder, max(first, records.firsts[index]), min(last, records.lasts[index]))

    patch.setattr(acknowledge_records, "_check_held", is_held)


@mutant(SHARE)
def renewals_are_ignored(patch: Patch) -> None:
    patch.setattr(acknowledge_records, "_renew", lambda *_: None)


@mutant(SHARE, 6)
def locks_never_expire(patch: Patch) -> None:
    def drop_due(window: ShareWindow, _: object, now_ms: int) -> list[Any]:
        window.locks.take_due(now_ms)
        return []

    patch.setattr(share_partition, "expire", drop_due)


@mutant(SHARE)
def the_start_offset_passes_held_records(patch: Patch) -> None:
    def leading(records: InFlightRecords) -> int:
        count = 0
        while count < len(records) and records.states[count] in {*TERMINAL, ACQUIRED}:
            if records.transitions[count]:
                break
            count += 1
        return count

    patch.setattr(InFlightRecords, "leading_terminal", leading)


@mutant(SHARE, 1)
def a_state_is_read_without_its_gaps(patch: Patch) -> None:
    restore = ShareWindow.restore

    def without_gap(window: ShareWindow, *args: Any) -> None:
        restore(window, *args)
        window.gap = None

    patch.setattr(ShareWindow, "restore", without_gap)


@mutant(SHARE)
def a_member_is_answered_before_it_is_written(patch: Patch) -> None:
    write = SharePartitionManager._write

    def at_once(manager: SharePartitionManager, *args: Any) -> Any:
        write(manager, *args)
        return share_partition_manager.ACCEPTED

    patch.setattr(SharePartitionManager, "_write", at_once)


@scenario_mutant(share_scenarios.compacted_records_are_not_delivered)
def deleted_records_stay_available(patch: Patch) -> None:
    patch.setattr(acquire_records, "_archive_vanished", lambda *_: None)


@mutant(ABORTS)
def aborted_records_are_delivered(patch: Patch) -> None:
    read = share_fetch.read_batches
    patch.setattr(
        share_fetch, "read_batches", lambda *args, **options: read(*args, **{**options, "aborted": ()})
    )


# ---- sessions ----------------------------------------------------------------------------------------------


@mutant(CUTS, 4)
def a_closed_session_does_not_release_its_records(patch: Patch) -> None:
    patch.setattr(SharePartitionManager, "_give_back", lambda *_: None)


@mutant(WITH_RESETS, 5)
def a_state_is_not_checked_again(patch: Patch) -> None:
    async def skip_check(manager: SharePartitionManager, led: LedPartition) -> None:
        return

    patch.setattr(LedPartition, "is_left", lambda *_: False)
    patch.setattr(SharePartitionManager, "_check_state", skip_check)


@mutant(SHARE)
def session_epochs_are_not_checked(patch: Patch) -> None:
    check = ShareSessions.check

    def check_any(sessions: ShareSessions, key: Any, epoch: int) -> Any:
        found = sessions.find(key)
        return check(sessions, key, epoch if found is None else found.epoch)

    patch.setattr(ShareSessions, "check", check_any)


# ---- share coordinators ------------------------------------------------------------------------------------


@scenario_mutant(share_scenarios.a_late_acknowledgement_is_not_written_to_a_newer_state)
def an_earlier_leader_may_write(patch: Patch) -> None:
    _unchecked(patch, WriteState, "_check_leader_epoch")


@scenario_mutant(share_scenarios.a_removed_member_acknowledges_nothing_after_a_reset)
def the_leader_of_another_state_may_write(patch: Patch) -> None:
    _unchecked(patch, WriteState, "_check_state_epoch")
    _unchecked(patch, WriteState, "_check_incarnation")


@mutant(SHARE, 1)
def a_snapshot_misses_a_batch(patch: Patch) -> None:
    combine = write_state.combine_batches

    def without_last(known: Any, written: Any, start_offset: int) -> Any:
        combined = combine(known, written, start_offset)
        return combined[:-1] if known else combined

    patch.setattr(write_state, "combine_batches", without_last)


@scenario_mutant(share_scenarios.an_isolated_coordinator_confirms_nothing)
def a_state_is_answered_before_it_is_replicated(patch: Patch) -> None:
    answer_when_committed = CoordinatorLog.answer_when_committed

    def at_once(log: CoordinatorLog[Any], token: Any, answer: Any) -> None:
        if log._partition.topic_partition.topic == SHARE_STATE_TOPIC and not isinstance(answer, KafkaError):
            log._answer(token, answer)
        else:
            answer_when_committed(log, token, answer)

    patch.setattr(CoordinatorLog, "answer_when_committed", at_once)


# ---- the group ---------------------------------------------------------------------------------------------


@mutant(SHARE)
def sessions_of_members_never_expire(patch: Patch) -> None:
    start = share_group_heartbeat.start_share_session

    def without_timeout(*args: Any) -> Any:
        timer = start(*args)
        return type(timer)(timer.key, 3_600_000, timer.command)

    patch.setattr(share_group_heartbeat, "start_share_session", without_timeout)


# ---- dead letters ------------------------------------------------------------------------------------------


@mutant(WITH_LETTERS, 2)
def letters_are_sent_without_a_note(patch: Patch) -> None:
    begin = SharePartition.begin_letters

    def without_note(core: SharePartition, letters: DeadLetters) -> WriteState:
        return replace(begin(core, letters), dead_letters=None)

    patch.setattr(SharePartition, "begin_letters", without_note)


@mutant(WITH_LETTERS)
def a_record_at_the_delivery_limit_gets_no_letter(patch: Patch) -> None:
    for module in (acknowledge_records, release_records):
        archived_as = module.archived_as
        patch.setattr(
            module,
            "archived_as",
            lambda reason, config, archived_as=archived_as: (
                ARCHIVED if reason is ArchiveReason.DELIVERY_LIMIT else archived_as(reason, config)
            ),
        )


# ---- waits -------------------------------------------------------------------------------------------------


@mutant(WITH_BACKOFF)
def released_records_have_no_backoff(patch: Patch) -> None:
    complete = release_records.complete

    def at_once(window: ShareWindow, config: ShareConfig, *args: Any) -> bool:
        return complete(window, replace(config, retry_backoff_ms=0), *args)

    patch.setattr(share_partition, "complete", at_once)


@mutant(WITH_BACKOFF)
def the_backoff_does_not_grow(patch: Patch) -> None:
    patch.setattr(ShareConfig, "backoff_ms", lambda config, _: config.retry_backoff_ms)


@mutant(WITH_DELAYS)
def a_delayed_record_is_delivered_early(patch: Patch) -> None:
    free_due = share_partition.free_due
    patch.setattr(
        share_partition,
        "free_due",
        lambda window, wall_ms, max_states: free_due(window, wall_ms + 200, max_states),
    )


@mutant(WITH_DELAYS)
def records_wait_behind_a_delayed_one(patch: Patch) -> None:
    for module in (share_partition, acquire_records):
        may_take = module.may_take_new
        patch.setattr(
            module,
            "may_take_new",
            lambda window, *args, may_take=may_take: not window.delayed and may_take(window, *args),
        )


# ---- resets ------------------------------------------------------------------------------------------------


@mutant(WITH_RESETS, 5)
def the_start_offset_cannot_be_set_back(patch: Patch) -> None:
    initialize = write_state._initialize

    def at_least_as_before(shard: Any, request: InitializeState, now_ms: int) -> Any:
        known = shard.states.get(request.key)
        before = -1 if known is None else known.current.start_offset
        start_offset = max(before, request.start_offset)
        return initialize(shard, replace(request, start_offset=start_offset), now_ms)

    patch.setattr(write_state, "_initialize", at_least_as_before)


@mutant(WITH_RESETS, 169, 218)
def a_leader_may_write_to_a_reset_state(patch: Patch) -> None:
    _unchecked(patch, WriteState, "_check_incarnation")


@mutant(WITH_RESETS, 2)
def deleted_states_remain(patch: Patch) -> None:
    decide = write_state._decide

    def keep(shard: Any, request: StateRequest, now_ms: int) -> Any:
        if isinstance(request, DeleteState):
            return None, StateResult(request.key)
        return decide(shard, request, now_ms)

    patch.setattr(write_state, "_decide", keep)
