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
from tests.simulation.mutants import Mutant, Patch, Plant, add_mutant

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


def group_mutant(*first: int) -> Callable[[Plant], Plant]:
    """Add a mutant that the model must detect; the seeds `first` have detected it."""
    return add_mutant(GROUP_MUTANTS, play, *first, seeds=MAX_SEEDS)


# ---- offsets -----------------------------------------------------------------------------------------------


@group_mutant(4)
def commits_of_any_generation_are_accepted(patch: Patch) -> None:
    patch.setattr(ClassicGroup, "check_generation", lambda *_: None)


@group_mutant(4)
def a_fenced_instance_may_commit(patch: Patch) -> None:
    validate = ClassicGroup.validate_member
    patch.setattr(
        ClassicGroup, "validate_member", lambda group, member_id, instance: validate(group, member_id, None)
    )


@group_mutant()
def offsets_are_shown_before_they_are_committed(patch: Patch) -> None:
    def at_once(token: int, result: Result, shows_state: bool = False) -> Reply:
        return Reply(token, result)

    patch.setattr(offset_fetch, "Reply", at_once)


@group_mutant(7)
def a_removed_offset_is_still_pending(patch: Patch) -> None:
    patch.setattr(PendingOffsets, "remove", lambda *_: None)


@group_mutant()
def the_last_marker_wins_over_later_commits(patch: Patch) -> None:
    patch.setattr(PendingOffsets, "_supersede", lambda *_: None)


@group_mutant()
def offsets_of_a_transaction_count_before_its_end(patch: Patch) -> None:
    replay = GroupShard._replay_commit
    patch.setattr(GroupShard, "_replay_commit", lambda shard, commit, producer: replay(shard, commit, None))


@group_mutant()
def offsets_of_a_topic_that_is_read_expire(patch: Patch) -> None:
    for group in (ClassicGroup, ConsumerGroup):
        patch.setattr(group, "is_subscribed_to", lambda *_: False)


# ---- classic groups ----------------------------------------------------------------------------------------


@group_mutant(40)
def assignments_are_sent_before_they_are_committed(patch: Patch) -> None:
    sync = coordinator.sync_group

    def at_once(
        shard: GroupShard, group: ClassicGroup | None, command: SyncGroup, now_ms: int
    ) -> list[Effect]:
        effects = sync(shard, group, command, now_ms)
        return sorted(effects, key=lambda effect: isinstance(effect, Append))

    patch.setattr(coordinator, "sync_group", at_once)


@group_mutant()
def a_generation_repeats_the_id_of_the_previous_one(patch: Patch) -> None:
    start = ClassicGroup.start_generation

    def with_same_id(group: ClassicGroup, now_ms: int) -> None:
        before = group.generation_id
        start(group, now_ms)
        group.generation_id = max(before, 1)

    patch.setattr(ClassicGroup, "start_generation", with_same_id)


# ---- consumer groups ---------------------------------------------------------------------------------------


@group_mutant()
def partitions_are_assigned_while_others_own_them(patch: Patch) -> None:
    patch.setattr(ConsumerGroup, "owner_epoch", lambda *_: NO_OWNER)


@group_mutant()
def members_advance_before_they_revoke(patch: Patch) -> None:
    patch.setattr(reconciliation, "owns_any", lambda *_: False)


@group_mutant()
def the_target_assignment_lacks_the_joining_member(patch: Patch) -> None:
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


@group_mutant(5)
def partitions_of_an_absent_static_member_are_free(patch: Patch) -> None:
    own = ConsumerGroup._own

    def unless_absent(group: ConsumerGroup, member: ConsumerMember) -> None:
        if member.member_epoch >= 0:
            own(group, member)

    patch.setattr(ConsumerGroup, "_own", unless_absent)


@group_mutant(3)
def an_old_member_epoch_may_commit_for_partitions_of_others(patch: Patch) -> None:
    patch.setattr(offset_commit, "check_partition", lambda *_: None)


@group_mutant()
def a_deleted_consumer_group_leaves_member_records(patch: Patch) -> None:
    """They stay in the log, and return with the next coordinator after a compaction."""
    patch.setattr(
        ConsumerGroup,
        "tombstones",
        lambda group, *_: [ConsumerGroupMetadataRecord(group.group_id, None)],
    )


@group_mutant(1)
def a_removed_member_does_not_bump_the_group_epoch(patch: Patch) -> None:
    record = consumer_membership.epoch_record
    patch.setattr(
        consumer_membership, "epoch_record", lambda group_id, epoch, value: record(group_id, epoch - 1, value)
    )


@group_mutant(2)
def changed_topics_do_not_bump_the_group_epoch(patch: Patch) -> None:
    bump = group_epoch.bump_group_epoch

    def same(*args: Any, bumps: bool) -> int:
        return bump(*args, bumps=False)

    patch.setattr(consumer_group_heartbeat, "bump_group_epoch", same)


@group_mutant()
def sessions_are_not_started_by_a_new_coordinator(patch: Patch) -> None:
    patch.setattr(coordinator, "start_consumer_group", lambda *_: [])
