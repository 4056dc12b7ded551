"""Mutants of share groups: of leaders, sessions, coordinators, the group, dead letters, waits and resets.

Like those of `mutants`, they run in whole clusters, with a share group whose members and leaders are checked.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

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
from tests.simulation import share_stories
from tests.simulation.mutants import MAX_SEEDS, Mutant
from tests.simulation.nemesis import LETTER_KINDS
from tests.simulation.share_traits import BACKOFF, DELAYS, LETTERS, RESETS, TRAITS
from tests.simulation.simulation import Options, Simulation, run_seed
from tests.simulation.stories import Story

Patch = pytest.MonkeyPatch

KINDS: Final = ("kill", "reset", "kill_leaders_in_turn", "kill_share_coordinator", "kill_leader_at_write")
SHARE: Final = Options(seconds=3.0, workers=5, kinds=KINDS)
CUTS: Final = Options(seconds=2.0, workers=5, kinds=("reset",))
ABORTS: Final = Options(seconds=2.0, workers=5, transactions=2, kinds=("reset",))
WITH_LETTERS: Final = Options(seconds=3.0, workers=5, kinds=("kill_leader_at_letters",), traits=(LETTERS,))
WITH_BACKOFF: Final = Options(seconds=1.0, workers=5, kinds=("reset",), traits=(BACKOFF,))
WITH_DELAYS: Final = Options(seconds=1.0, workers=5, kinds=("reset",), traits=(DELAYS,))
WITH_ALL_TRAITS: Final = Options(seconds=3.0, workers=5, kinds=LETTER_KINDS, traits=TRAITS)
WITH_RESETS: Final = Options(seconds=3.0, workers=5, kinds=("reset",), traits=(RESETS,))

SHARE_MUTANTS: list[Mutant] = []


def mutant(options: Options, *first: int) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Add a mutant to the list; the seeds `first` have detected it and are tried first."""

    def enter(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        run = partial(run_seed, options=options)
        SHARE_MUTANTS.append(Mutant(plant=plant, run=run, seeds=(*first, *range(MAX_SEEDS))))
        return plant

    return enter


def story_mutant(story: Story) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Add a mutant that a scenario must detect."""

    def enter(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        SHARE_MUTANTS.append(Mutant(plant=plant, run=partial(_play, story), seeds=range(MAX_SEEDS)))
        return plant

    return enter


def _play(story: Story, seed: int) -> object:
    return Simulation(seed, share_stories.OPTIONS).play(story)


def _unchecked(patch: Patch, request: type[StateRequest], check: str) -> None:
    """Let the share coordinator leave out one of its checks."""
    checks = check_request.CHECKS[request]
    left = tuple(one for one in checks if one.__name__ != check)
    assert len(left) == len(checks) - 1
    patch.setitem(check_request.CHECKS, request, left)


# ---- leaders -----------------------------------------------------------------------------------------------


@mutant(SHARE)
def locks_end_when_they_begin(patch: Patch) -> None:
    acquire = share_partition.acquire

    def at_once(asked: acquire_records.Acquisition, max_records: int) -> Any:
        early_ms = asked.now_ms - asked.config.record_lock_duration_ms + 1
        return acquire(asked._replace(now_ms=early_ms), max_records)

    patch.setattr(share_partition, "acquire", at_once)


@mutant(SHARE)
def what_is_delivered_again_is_not_counted(patch: Patch) -> None:
    hold = acquire_records._hold
    patch.setattr(
        acquire_records, "_hold", lambda asked, first, last, count: hold(asked, first, last, count - 1)
    )


@mutant(SHARE, 1)
def there_is_no_limit_of_deliveries(patch: Patch) -> None:
    number = share_group_settings._number
    patch.setattr(
        share_group_settings,
        "_number",
        lambda node, own, name: 99 if name == "delivery.count.limit" else number(node, own, name),
    )


@mutant(SHARE, 3)
def anybody_may_acknowledge_what_somebody_holds(patch: Patch) -> None:
    check_held = acknowledge_records._check_held

    def is_held(moves: Any, member: str, first: int, last: int) -> None:
        records = moves.window.records
        begin, end = records.span(first, last)
        for index in range(begin, end):
            holder = records.holders[index] or member
            check_held(moves, holder, max(first, records.firsts[index]), min(last, records.lasts[index]))

    patch.setattr(acknowledge_records, "_check_held", is_held)


@mutant(SHARE)
def a_renewed_lock_ends_as_it_would_have(patch: Patch) -> None:
    patch.setattr(acknowledge_records, "_renew", lambda *_: None)


@mutant(SHARE, 6)
def a_lock_that_is_over_goes_on(patch: Patch) -> None:
    def forget(window: ShareWindow, _: object, now_ms: int) -> list[Any]:
        window.locks.take_due(now_ms)
        return []

    patch.setattr(share_partition, "expire", forget)


@mutant(SHARE)
def the_start_offset_moves_over_what_is_held(patch: Patch) -> None:
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


@story_mutant(share_stories.what_was_compacted_is_given_to_nobody)
def what_the_log_has_lost_stays_available(patch: Patch) -> None:
    patch.setattr(acquire_records, "_archive_vanished", lambda *_: None)


@mutant(ABORTS)
def aborted_records_are_delivered(patch: Patch) -> None:
    read = share_fetch.read_batches
    patch.setattr(
        share_fetch, "read_batches", lambda *args, **options: read(*args, **{**options, "aborted": ()})
    )


# ---- sessions ----------------------------------------------------------------------------------------------


@mutant(CUTS, 4)
def what_a_member_held_outlives_its_session(patch: Patch) -> None:
    patch.setattr(SharePartitionManager, "_give_back", lambda *_: None)


@mutant(WITH_RESETS, 5)
def a_state_that_was_read_once_is_believed_when_others_come(patch: Patch) -> None:
    async def believe(manager: SharePartitionManager, led: LedPartition) -> None:
        return

    patch.setattr(LedPartition, "is_left", lambda *_: False)
    patch.setattr(SharePartitionManager, "_check_state", believe)


@mutant(SHARE)
def any_epoch_of_a_session_is_good_enough(patch: Patch) -> None:
    check = ShareSessions.check

    def check_any(sessions: ShareSessions, key: Any, epoch: int) -> Any:
        found = sessions.find(key)
        return check(sessions, key, epoch if found is None else found.epoch)

    patch.setattr(ShareSessions, "check", check_any)


# ---- share coordinators ------------------------------------------------------------------------------------


@story_mutant(share_stories.a_word_that_comes_late_is_of_no_leader)
def a_leader_of_before_may_write(patch: Patch) -> None:
    _unchecked(patch, WriteState, "_check_leader_epoch")


@story_mutant(share_stories.who_was_reset_writes_no_more)
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


@story_mutant(share_stories.a_coordinator_that_is_alone_promises_nothing)
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
def who_is_silent_stays_a_member(patch: Patch) -> None:
    start = share_group_heartbeat.start_share_session

    def for_ever(*args: Any) -> Any:
        timer = start(*args)
        return type(timer)(timer.key, 3_600_000, timer.command)

    patch.setattr(share_group_heartbeat, "start_share_session", for_ever)


# ---- dead letters ------------------------------------------------------------------------------------------


@mutant(WITH_LETTERS, 2)
def letters_are_sent_without_a_note(patch: Patch) -> None:
    begin = SharePartition.begin_letters

    def without_note(core: SharePartition, letters: DeadLetters) -> WriteState:
        return replace(begin(core, letters), dead_letters=None)

    patch.setattr(SharePartition, "begin_letters", without_note)


@mutant(WITH_LETTERS)
def what_was_delivered_too_often_gets_no_letter(patch: Patch) -> None:
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
def what_a_member_releases_comes_again_at_once(patch: Patch) -> None:
    complete = release_records.complete

    def at_once(window: ShareWindow, config: ShareConfig, *args: Any) -> bool:
        return complete(window, replace(config, retry_backoff_ms=0), *args)

    patch.setattr(share_partition, "complete", at_once)


@mutant(WITH_BACKOFF)
def the_wait_after_a_delivery_is_always_the_same(patch: Patch) -> None:
    patch.setattr(ShareConfig, "backoff_ms", lambda config, _: config.retry_backoff_ms)


@mutant(WITH_DELAYS)
def a_record_is_given_a_little_before_it_is_due(patch: Patch) -> None:
    free_due = share_partition.free_due
    patch.setattr(
        share_partition,
        "free_due",
        lambda window, wall_ms, max_states: free_due(window, wall_ms + 200, max_states),
    )


@mutant(WITH_DELAYS)
def what_lies_behind_a_delayed_record_waits_for_it(patch: Patch) -> None:
    for module in (share_partition, acquire_records):
        may_take = module.may_take_new
        patch.setattr(
            module,
            "may_take_new",
            lambda window, *args, may_take=may_take: not window.delayed and may_take(window, *args),
        )


# ---- resets ------------------------------------------------------------------------------------------------


@mutant(WITH_RESETS, 5)
def no_start_offset_is_set_back(patch: Patch) -> None:
    initialize = write_state._initialize

    def at_least_as_before(shard: Any, request: InitializeState, now_ms: int) -> Any:
        known = shard.states.get(request.key)
        before = -1 if known is None else known.current.start_offset
        start_offset = max(before, request.start_offset)
        return initialize(shard, replace(request, start_offset=start_offset), now_ms)

    patch.setattr(write_state, "_initialize", at_least_as_before)


@mutant(WITH_RESETS, 11)
def a_leader_writes_on_into_a_state_that_has_begun_anew(patch: Patch) -> None:
    _unchecked(patch, WriteState, "_check_incarnation")


@mutant(WITH_RESETS, 2)
def a_state_that_was_deleted_is_there_still(patch: Patch) -> None:
    decide = write_state._decide

    def keep(shard: Any, request: StateRequest, now_ms: int) -> Any:
        if isinstance(request, DeleteState):
            return None, StateResult(request.key)
        return decide(shard, request, now_ms)

    patch.setattr(write_state, "_decide", keep)
