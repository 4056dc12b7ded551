"""Mutants: each lacks one protection of the product's code, and the simulation must detect it.

A mutant is planted by pytest's monkeypatch only: the product has no switch for it. Each names the runs that
must detect it; they pass without the mutant.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any, Final

import pytest

from ottla.logstore import partition_log
from ottla.logstore.log_dir import LogDir
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.producer_state import BatchMetadata, ProducerEntry, ProducerState
from ottla.logstore.record_batch import BatchHeader
from ottla.logstore.words.config_def import LONG_MAX
from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.schema import schema_of
from ottla.metadata_raft import (
    cluster_control,
    controller,
    isr_control,
    partition_change,
    partition_control,
    raft_core,
)
from ottla.metadata_raft.commands import AlteredPartition
from ottla.metadata_raft.controller import Controller
from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.image import MetadataImage, PartitionImage
from ottla.metadata_raft.partition_change import Reassignment
from ottla.metadata_raft.raft_node import RaftEngine
from ottla.metadata_raft.record_codec import MetadataBatch
from ottla.metadata_raft.records import PartitionChangeRecord
from ottla.node.coordinators import marker_messages
from ottla.node.coordinators.commit_order import CommitOrder
from ottla.node.coordinators.coordinator_log import CoordinatorLog
from ottla.node.coordinators.marker_writer import MarkerWriter
from ottla.node.replica.follower_fetcher import FollowerFetcher
from ottla.node.replica.follower_state import FollowedPartition
from ottla.node.replica.isr import InSyncReplicas
from ottla.node.replica.partition import NO_EPOCH, Partition
from ottla.node.services import Services
from ottla.node.wire.messages.fetch import FetchPartition
from tests.simulation import acl_scenarios, marker_scenarios, scenarios
from tests.simulation.raft import fuzz, schedules
from tests.simulation.raft import mutants as raft_mutants
from tests.simulation.scenarios import Scenario
from tests.simulation.simulation import Options, Simulation, run_seed
from tests.simulation.virtual_disk import VirtualFile
from tests.simulation.virtual_loop import PROCESS

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]

MAX_SEEDS: Final = 30  # one of which must detect a mutant
MAX_STORMS: Final = 60

# Whole clusters lose power, so only the metadata are guaranteed.
METADATA: Final = Options(
    replicas=1,
    may_lose=True,
    kinds=("power", "power_at_disk_step", "kill", "isolate", "cut_one_way", "slow_link", "reset", "pause"),
)
KILLS: Final = Options(replicas=1, kinds=("kill", "kill_at_disk_step", "isolate", "reset", "cut_one_way"))
REPLICAS: Final = Options(
    kinds=("kill", "kill_at_disk_step", "isolate", "split", "cut_one_way", "pause", "slow_link", "stop"),
)
TURNS: Final = Options(kinds=("kill_leaders_in_turn",), seconds=12.0)
GROWN: Final = Options(kinds=("kill_leader_of_grown_isr", "kill"), seconds=10.0)
FAILOVERS: Final = Options(kinds=("kill", "kill_leaders_in_turn", "isolate", "stop", "pause"), seconds=10.0)
CUTS: Final = Options(kinds=("isolate", "split", "cut_one_way"))
POWER: Final = Options(kinds=("power", "power_at_disk_step", "kill"))
GROUPS: Final = REPLICAS
MOVES: Final = Options(kinds=("kill", "kill_all", "kill_leaders_in_turn", "pause", "slow_disk"), seconds=10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A missing protection; `run` is called with each of `seeds` until it fails."""

    plant: Plant
    run: Callable[[int], object]
    seeds: Sequence[int]

    @property
    def name(self) -> str:
        return self.plant.__name__


MUTANTS: list[Mutant] = []

_duplicate_of = ProducerState.duplicate_of


def add_mutant(
    mutants: list[Mutant], run: Callable[[int], object], *first: int, seeds: int = MAX_SEEDS
) -> Callable[[Plant], Plant]:
    """Return a decorator that adds a mutant to the list; `first` are seeds that have detected it."""

    def add(plant: Plant) -> Plant:
        mutants.append(Mutant(plant=plant, run=run, seeds=(*first, *range(seeds))))
        return plant

    return add


def played(scenario: Scenario, options: Options) -> Callable[[int], object]:
    """Return a function that plays a scenario with a seed."""
    return lambda seed: Simulation(seed, options).play(scenario)


def mutant(options: Options, *first: int) -> Callable[[Plant], Plant]:
    """Add a mutant that random faults must detect."""
    return add_mutant(MUTANTS, partial(run_seed, options=options), *first)


def scenario_mutant(
    scenario: Scenario, options: Options = Options(), *first: int
) -> Callable[[Plant], Plant]:
    """Add a mutant that a scenario must detect."""
    return add_mutant(MUTANTS, played(scenario, options), *first)


def quorum_mutant(*first: int) -> Callable[[Plant], Plant]:
    """Add a mutant for storms of the quorum, which run a hundred times faster than whole nodes."""
    return add_mutant(MUTANTS, partial(fuzz.run, make_member=_make_member), *first, seeds=MAX_STORMS)


def schedule_mutant(schedule: Callable[..., None]) -> Callable[[Plant], Plant]:
    """Add a mutant that a schedule of the quorum must detect."""
    return add_mutant(MUTANTS, partial(schedule, make_member=_make_member))


def _make_member(*args: Any, **kwargs: Any) -> raft_core.RaftMember:
    return raft_core.RaftMember(*args, **kwargs)


# ---- quorum ------------------------------------------------------------------------------------------------


@mutant(METADATA, 4)
def the_journal_is_never_synced(patch: Patch) -> None:
    sync = VirtualFile.sync

    def skip(file: VirtualFile) -> None:
        if "__cluster_metadata" not in file._path:
            sync(file)

    patch.setattr(VirtualFile, "sync", skip)


@quorum_mutant(83)
def acknowledgements_leave_before_the_sync(patch: Patch) -> None:
    patch.setattr(raft_core, "RaftMember", raft_mutants.acks_before_it_syncs)


@quorum_mutant()
def a_voter_votes_for_every_candidate(patch: Patch) -> None:
    receive = RaftEngine.receive

    def forget_vote(engine: RaftEngine, node_id: int, message: dict[str, Any]) -> None:
        if message["type"] == "request_vote":
            engine._SyncObj__votedForNodeId = None
        receive(engine, node_id, message)

    patch.setattr(RaftEngine, "receive", forget_vote)


@quorum_mutant(20)
def the_commit_index_passes_unverified_entries(patch: Patch) -> None:
    patch.setattr(raft_core, "RaftMember", raft_mutants.commits_unverified_entries)


@quorum_mutant(15)
def a_follower_truncates_matching_entries(patch: Patch) -> None:
    patch.setattr(raft_core, "RaftMember", raft_mutants.truncates_matching_entries)


@schedule_mutant(schedules.figure_8)
def entries_of_old_terms_are_committed_by_count(patch: Patch) -> None:
    patch.setattr(raft_core, "RaftMember", raft_mutants.commits_old_terms_by_count)


@schedule_mutant(schedules.a_voter_is_asked_again_after_a_crash)
def term_and_vote_are_not_persisted(patch: Patch) -> None:
    patch.setattr(raft_core, "RaftMember", raft_mutants.forgets_its_vote)


@mutant(KILLS)
def one_node_applies_batches_twice(patch: Patch) -> None:
    apply_batch = raft_core.apply_batch

    def twice(image: MetadataImage, batch: MetadataBatch) -> tuple[MetadataImage, MetadataChanges]:
        process = PROCESS.get()
        if process is not None and process.name == "node-0" and batch.base_offset % 5 == 0:
            batch = batch._replace(records=(*batch.records, *batch.records))
            image, changes = apply_batch(image, batch)
            end = batch.base_offset + len(batch.records) // 2 - 1
            return dataclasses.replace(image, version=end), changes
        return apply_batch(image, batch)

    patch.setattr(raft_core, "apply_batch", twice)


@mutant(KILLS, 34)
def repeated_commands_are_executed_again(patch: Patch) -> None:
    patch.setattr(controller, "known_reply", lambda image, request: None)


# ---- replication -------------------------------------------------------------------------------------------


@mutant(REPLICAS, 12, 6)
def the_high_watermark_does_not_wait_for_the_isr(patch: Patch) -> None:
    patch.setattr(InSyncReplicas, "high_watermark", lambda isr, leader_end_offset, **_: leader_end_offset)


@mutant(REPLICAS, 9)
def the_high_watermark_follows_the_fastest_replica(patch: Patch) -> None:
    def fastest(isr: InSyncReplicas, leader_end_offset: int, **_: Any) -> int:
        return max((one.log_end_offset for one in isr.followers.values()), default=leader_end_offset)

    patch.setattr(InSyncReplicas, "high_watermark", fastest)


@mutant(CUTS, 25)
def a_shrinking_isr_counts_before_it_is_committed(patch: Patch) -> None:
    propose = InSyncReplicas.propose_shrinking

    def propose_and_count(isr: InSyncReplicas, *args: Any, **kwargs: Any) -> Any:
        proposal = propose(isr, *args, **kwargs)
        if proposal is not None:
            isr.maximal = proposal.broker_ids
        return proposal

    patch.setattr(InSyncReplicas, "propose_shrinking", propose_and_count)


@mutant(GROWN, 64, 56, 30)
def a_follower_joins_the_isr_before_it_has_caught_up(patch: Patch) -> None:
    propose = InSyncReplicas.propose_expansion

    def propose_early(isr: InSyncReplicas, replica_id: int, **kwargs: Any) -> Any:
        isr.epoch_start_offset = -1
        return propose(isr, replica_id, **{**kwargs, "high_watermark": -1})

    patch.setattr(InSyncReplicas, "propose_expansion", propose_early)


@mutant(REPLICAS, 9, 6)
def a_follower_does_not_find_where_its_log_diverges(patch: Patch) -> None:
    want = FollowedPartition.want

    def want_without_epoch(followed: FollowedPartition, max_bytes: int) -> FetchPartition:
        wanted = want(followed, max_bytes)
        wanted.last_fetched_epoch = -1
        return wanted

    patch.setattr(FollowedPartition, "want", want_without_epoch)


@mutant(TURNS, 2)
def a_follower_truncates_to_its_high_watermark(patch: Patch) -> None:
    """Before KIP-101, committed records that were not yet known to be committed were lost at an election."""
    add = FollowerFetcher.add

    def cut_and_add(fetcher: FollowerFetcher, partition: Partition) -> None:
        partition.truncate_to(partition.log.high_watermark, now_ms=0)
        add(fetcher, partition)

    patch.setattr(FollowerFetcher, "add", cut_and_add)


@scenario_mutant(scenarios.a_follower_learns_late_of_two_elections)
def fetches_of_any_leader_epoch_are_served(patch: Patch) -> None:
    patch.setattr(Partition, "check_epoch", lambda *_: None)


@scenario_mutant(scenarios.a_leader_dies_when_it_has_deleted_records)
def records_are_deleted_when_the_leader_has_deleted_them(patch: Patch) -> None:
    patch.setattr(InSyncReplicas, "low_watermark", lambda _, leader_start_offset, __: leader_start_offset)


@mutant(MOVES, 4)
def deleted_records_return_when_a_follower_is_killed(patch: Patch) -> None:
    patch.setattr(Partition, "durable_log_start", property(lambda partition: partition.log.log_start_offset))


@mutant(REPLICAS, 6)
def produce_is_answered_before_it_is_replicated(patch: Patch) -> None:
    patch.setattr(Partition, "acknowledgement_of", lambda *_: ErrorCode.NONE)


@mutant(REPLICAS)
def a_new_leader_has_no_producer_state(patch: Patch) -> None:
    assign = Partition.assign

    def assign_and_forget(partition: Partition, assignment: Any) -> bool:
        is_new = assign(partition, assignment)
        if is_new and partition.is_leader:
            partition.log._producers.clear(partition.log.log_end_offset)
        return is_new

    patch.setattr(Partition, "assign", assign_and_forget)


@mutant(REPLICAS)
def sequences_are_not_checked(patch: Patch) -> None:
    patch.setattr(ProducerState, "check_batch", lambda *_, **__: None)


@mutant(REPLICAS, 2)
def only_the_last_batch_of_a_producer_is_known(patch: Patch) -> None:
    """With five in flight, the first of them may be sent again."""

    def is_last(state: ProducerState, entry: ProducerEntry, header: BatchHeader) -> BatchMetadata | None:
        found = _duplicate_of(state, entry, header)
        return found if entry.batches and found == entry.batches[-1] else None

    patch.setattr(ProducerState, "duplicate_of", is_last)


@mutant(FAILOVERS, 34)
def producer_state_ends_at_the_snapshot_after_a_restart(patch: Patch) -> None:
    patch.setattr(partition_log, "complete_window", lambda *_: False)


# ---- controller --------------------------------------------------------------------------------------------


@mutant(FAILOVERS, 34)
def every_election_may_be_unclean(patch: Patch) -> None:
    patch.setattr(partition_control, "allows_unclean_election", lambda *_: True)


@mutant(POWER, 2)
def a_gap_after_a_power_failure_counts_as_compaction(patch: Patch) -> None:
    patch.setattr(LogDir, "compacted_to", lambda *_: LONG_MAX)


@mutant(POWER)
def a_new_process_keeps_its_place_in_the_isr(patch: Patch) -> None:
    """A power failure may have destroyed what the old process had (KIP-966)."""
    after_fence = partition_control.leaders_after_fence

    def stays(*args: Any, must_leave: bool = False, **options: bool) -> Iterable[PartitionChangeRecord]:
        return () if must_leave else after_fence(*args, **options)

    patch.setattr(cluster_control, "leaders_after_fence", stays)
    patch.setattr(isr_control, "_is_eligible", lambda *_: True)


FIVE: Final = Options(nodes=5)
FIVE_WITH_MIN_ISR_1: Final = Options(nodes=5, in_sync=1)


@scenario_mutant(scenarios.a_replica_without_acknowledged_records_does_not_lead, FIVE_WITH_MIN_ISR_1)
def a_replica_outside_the_isr_stays_eligible(patch: Patch) -> None:
    """The replica stays eligible even if enough others acknowledge records that it lacks (KIP-966)."""
    patch.setattr(partition_change, "min_in_sync_replicas", lambda *_: 9)


@scenario_mutant(scenarios.an_eligible_replica_loses_its_power, FIVE)
def a_replica_is_eligible_although_its_disk_lost_records(patch: Patch) -> None:
    change = partition_change.change_partition

    def without_lost(*args: Any, **options: Any) -> PartitionChangeRecord | None:
        return change(*args, **{**options, "lost": frozenset()})

    patch.setattr(partition_control, "change_partition", without_lost)


@scenario_mutant(scenarios.an_old_alter_partition_is_sent_again)
def an_old_partition_epoch_may_change_the_isr(patch: Patch) -> None:
    _without_epochs(patch, lambda partition: {"partition_epoch": partition.partition_epoch})


@scenario_mutant(scenarios.an_old_alter_partition_is_sent_again)
def an_old_leader_epoch_may_change_the_isr(patch: Patch) -> None:
    """The partition epoch is not checked either: each leader epoch has others, so its check would suffice."""
    _without_epochs(
        patch,
        lambda partition: {
            "partition_epoch": partition.partition_epoch,
            "leader_epoch": partition.leader_epoch,
        },
    )


def _without_epochs(patch: Patch, known: Callable[[PartitionImage], dict[str, int]]) -> None:
    problem = isr_control._problem

    def with_current_epochs(
        image: MetadataImage, partition: PartitionImage, wanted: AlteredPartition, broker_id: int
    ) -> ErrorCode | None:
        fields = {field.name: getattr(wanted, field.name) for field in schema_of(AlteredPartition).fields}
        return problem(image, partition, AlteredPartition(**(fields | known(partition))), broker_id)

    patch.setattr(isr_control, "_problem", with_current_epochs)


@mutant(MOVES, 4)
def a_reassignment_completes_before_its_new_replicas_have_caught_up(patch: Patch) -> None:
    patch.setattr(partition_change, "complete_reassignment", complete_at_once)


def complete_at_once(isr: Sequence[int], target: Reassignment) -> tuple[tuple[int, ...], Reassignment]:
    """Return a reassignment as completed, even if no new replica is in sync."""
    replicas = tuple(one for one in target.replicas if one not in target.removing)
    remaining = tuple(one for one in isr if one not in target.removing)
    return (remaining, Reassignment(replicas)) if remaining else (tuple(isr), target)


@scenario_mutant(scenarios.the_leader_loses_its_power_when_the_others_die)
def every_broker_counts_as_cleanly_stopped(patch: Patch) -> None:
    patch.setattr(cluster_control, "_remembers", lambda *_: True)


@scenario_mutant(scenarios.the_last_replica_in_sync_loses_its_power)
def the_last_replica_in_sync_does_not_flush(patch: Patch) -> None:
    patch.setattr(Partition, "_should_flush", lambda _: False)


@scenario_mutant(scenarios.the_power_of_all_fails, Options(nodes=1, settings=scenarios.DURABLE))
def a_leader_acknowledges_before_the_flush(patch: Patch) -> None:
    patch.setattr(PartitionLog, "flush_due_from", property(lambda _: None, lambda _, __: None))


@scenario_mutant(scenarios.the_power_of_all_fails, Options(settings=scenarios.DURABLE))
def a_follower_acknowledges_before_the_flush(patch: Patch) -> None:
    patch.setattr(FollowerFetcher, "_until_safe", lambda _: asyncio.sleep(0))


@mutant(GROUPS, 9)
def offsets_are_committed_before_they_are_replicated(patch: Patch) -> None:
    patch.setattr(
        CoordinatorLog, "answer_when_committed", lambda log, token, answer: log._answer(token, answer)
    )


@scenario_mutant(marker_scenarios.a_copy_reaches_the_leader_that_had_the_marker)
def late_marker_requests_are_not_detected(patch: Patch) -> None:
    patch.setattr(MarkerWriter, "is_late", lambda *_: False)


@scenario_mutant(marker_scenarios.a_copy_reaches_a_leader_that_leads_again)
def marker_requests_have_no_leader_epoch(patch: Patch) -> None:
    patch.setattr(marker_messages, "_epochs", lambda _: repeat(NO_EPOCH))


@scenario_mutant(marker_scenarios.a_copy_of_offsets_arrives_late)
def offsets_of_a_transaction_may_come_in_any_order(patch: Patch) -> None:
    patch.setattr(CommitOrder, "is_late", lambda *_: False)


@scenario_mutant(
    acl_scenarios.denials_hold_under_faults, Options(nodes=4, settings=acl_scenarios.SETTINGS, seconds=6.0)
)
def clients_are_authorized_by_the_broker_only(patch: Patch) -> None:
    """The broker may not have the newest ACLs yet."""
    patch.setattr(Controller, "check_client", lambda *_: None)


@scenario_mutant(
    acl_scenarios.no_client_is_served_by_old_acls_for_long,
    Options(kinds=acl_scenarios.CUTS, settings=acl_scenarios.SETTINGS),
    4,
    3,
)
def brokers_that_are_cut_off_continue_to_serve(patch: Patch) -> None:
    """They use the ACLs that they had."""
    patch.setattr(Services, "is_cut_off", property(lambda _: False))
