"""Mutants of the group coordinator, which the model of tests/property must detect.

They run without nodes and networks, unlike those of `mutants`: hypothesis plays the rules of the model
against the core.
"""

from collections.abc import Callable
from typing import Any, Final

from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from ottla.groupcoord import coordinator
from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.classic.member_commands import SyncGroup
from ottla.groupcoord.consumer import (
    consumer_group_heartbeat,
    consumer_membership,
    group_epoch,
    reconciliation,
    regular_expressions,
)
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_member import ConsumerMember
from ottla.groupcoord.consumer.consumer_records import ConsumerGroupMetadataRecord
from ottla.groupcoord.consumer.reconciliation import NO_OWNER
from ottla.groupcoord.effects import Append, Effect, Reply, Result
from ottla.groupcoord.offsets import offset_commit, offset_fetch
from ottla.groupcoord.offsets.pending_offsets import PendingOffsets
from ottla.groupcoord.shard import GroupShard
from tests.property.test_group_model import Model
from tests.simulation.mutants import Mutant, Patch

EXAMPLES_PER_SEED: Final = 25
MAX_SEEDS: Final = 40
GROUP_MUTANTS: list[Mutant] = []


def play(number: int) -> None:
    """Run some random histories of a coordinator; fail if one deviates from the model."""
    machine = seed(number)(type("SeededModel", (Model,), {}))
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES_PER_SEED,
            stateful_step_count=40,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            report_multiple_bugs=False,
        ),
    )


def group_mutant(*first: int) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Add a mutant to the list; the seeds `first` have detected it and are tried first."""

    def enter(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        GROUP_MUTANTS.append(Mutant(plant=plant, run=play, seeds=(*first, *range(MAX_SEEDS))))
        return plant

    return enter


# ---- offsets -----------------------------------------------------------------------------------------------


@group_mutant(4)
def commits_of_any_generation_are_taken(patch: Patch) -> None:
    patch.setattr(ClassicGroup, "check_generation", lambda *_: None)


@group_mutant(4)
def a_fenced_instance_commits_on(patch: Patch) -> None:
    validate = ClassicGroup.validate_member
    patch.setattr(
        ClassicGroup, "validate_member", lambda group, member_id, instance: validate(group, member_id, None)
    )


@group_mutant()
def offsets_are_shown_before_they_are_committed(patch: Patch) -> None:
    def hasty(token: int, result: Result, shows_state: bool = False) -> Reply:
        return Reply(token, result)

    patch.setattr(offset_fetch, "Reply", hasty)


@group_mutant(7)
def a_removed_offset_is_still_pending(patch: Patch) -> None:
    patch.setattr(PendingOffsets, "remove", lambda *_: None)


@group_mutant()
def the_last_marker_wins_whatever_was_written_when(patch: Patch) -> None:
    patch.setattr(PendingOffsets, "_beat", lambda *_: None)


@group_mutant()
def offsets_of_a_transaction_count_before_its_end(patch: Patch) -> None:
    replay = GroupShard._replay_commit
    patch.setattr(GroupShard, "_replay_commit", lambda shard, commit, producer: replay(shard, commit, None))


@group_mutant()
def offsets_of_a_topic_that_is_read_expire(patch: Patch) -> None:
    for group in (ClassicGroup, ConsumerGroup):
        patch.setattr(group, "is_subscribed_to", lambda *_: False)


# ---- classic groups ----------------------------------------------------------------------------------------


@group_mutant(11)
def assignments_are_given_out_before_they_are_committed(patch: Patch) -> None:
    sync = coordinator.sync_group

    def hasty(shard: GroupShard, group: ClassicGroup | None, command: SyncGroup, now_ms: int) -> list[Effect]:
        effects = sync(shard, group, command, now_ms)
        return sorted(effects, key=lambda effect: isinstance(effect, Append))

    patch.setattr(coordinator, "sync_group", hasty)


@group_mutant()
def a_generation_has_the_number_of_the_one_before(patch: Patch) -> None:
    start = ClassicGroup.start_generation

    def again(group: ClassicGroup, now_ms: int) -> None:
        before = group.generation_id
        start(group, now_ms)
        group.generation_id = max(before, 1)

    patch.setattr(ClassicGroup, "start_generation", again)


# ---- consumer groups ---------------------------------------------------------------------------------------


@group_mutant()
def partitions_are_given_while_others_own_them(patch: Patch) -> None:
    patch.setattr(ConsumerGroup, "owner_epoch", lambda *_: NO_OWNER)


@group_mutant()
def members_go_on_before_they_gave_up_what_they_should(patch: Patch) -> None:
    patch.setattr(reconciliation, "owns_any", lambda *_: False)


@group_mutant()
def a_target_is_made_without_who_joins(patch: Patch) -> None:
    compute = group_epoch.compute_target

    def without(*args: Any, **kwargs: Any) -> Any:
        return compute(*args, **{**kwargs, "changed": None})

    patch.setattr(group_epoch, "compute_target", without)


@group_mutant(1)
def an_expression_outlives_its_last_subscriber(patch: Patch) -> None:
    change = regular_expressions.change_regex

    def keep(*args: Any) -> Any:
        return change(*args)._replace(dropped=[])

    patch.setattr(consumer_group_heartbeat, "change_regex", keep)


@group_mutant(12)
def what_a_member_owns_is_free_when_it_is_away(patch: Patch) -> None:
    own = ConsumerGroup._own

    def unless_away(group: ConsumerGroup, member: ConsumerMember) -> None:
        if member.member_epoch >= 0:
            own(group, member)

    patch.setattr(ConsumerGroup, "_own", unless_away)


@group_mutant(3)
def an_old_epoch_commits_for_what_others_own_by_now(patch: Patch) -> None:
    patch.setattr(offset_commit, "check_partition", lambda *_: None)


@group_mutant()
def a_consumer_group_that_goes_leaves_its_members_behind(patch: Patch) -> None:
    """They stay in the log, and return with the next coordinator after a compaction."""
    patch.setattr(
        ConsumerGroup,
        "tombstones",
        lambda group, *_: [ConsumerGroupMetadataRecord(group.group_id, None)],
    )


@group_mutant(2)
def who_is_out_leaves_the_epoch_as_it_is(patch: Patch) -> None:
    record = consumer_membership.epoch_record
    patch.setattr(
        consumer_membership, "epoch_record", lambda group_id, epoch, value: record(group_id, epoch - 1, value)
    )


@group_mutant(2)
def other_topics_are_no_new_epoch(patch: Patch) -> None:
    bump = group_epoch.bump_group_epoch

    def same(*args: Any, bumps: bool) -> int:
        return bump(*args, bumps=False)

    patch.setattr(consumer_group_heartbeat, "bump_group_epoch", same)


@group_mutant()
def sessions_are_not_started_by_a_new_coordinator(patch: Patch) -> None:
    patch.setattr(coordinator, "timers_of_loaded", lambda *_: [])
