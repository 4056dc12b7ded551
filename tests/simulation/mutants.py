"""Protections taken out of the shipped code one at a time, to see that the simulation misses each of them.

A mutant is planted with pytest's monkeypatch and nowhere else: there is no switch in shipped code. Each names
the runs in which it is looked for; the same runs pass without it.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

from metadata_raft import controller, raft_core
from metadata_raft.delta import MetadataChanges
from metadata_raft.image import MetadataImage
from metadata_raft.raft_node import RaftEngine
from metadata_raft.record_codec import MetadataBatch
from tests.simulation.raft import mutants as raft_mutants
from tests.simulation.simulation import Options
from tests.simulation.virtual_disk import VirtualFile
from tests.simulation.virtual_loop import PROCESS

Patch = pytest.MonkeyPatch

# Whole clusters lose power: what is promised then is the metadata alone.
METADATA: Final = Options(
    replicas=1,
    may_lose=True,
    kinds=("power", "power_at_disk_step", "kill", "isolate", "cut_one_way", "slow_link", "reset", "pause"),
)
KILLS: Final = Options(replicas=1, kinds=("kill", "kill_at_disk_step", "isolate", "reset", "cut_one_way"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One protection less; `seeds` are tried in their order until one fails."""

    plant: Callable[[Patch], None]
    options: Options = METADATA
    seeds: Sequence[int] = range(40)

    @property
    def name(self) -> str:
        return self.plant.__name__


MUTANTS: list[Mutant] = []


def mutant(
    options: Options, seeds: Sequence[int] = range(40)
) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Enter a mutant into the list."""

    def enter(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        MUTANTS.append(Mutant(plant=plant, options=options, seeds=seeds))
        return plant

    return enter


# ---- the quorum --------------------------------------------------------------------------------------------


@mutant(METADATA)
def the_journal_is_never_synced(patch: Patch) -> None:
    sync = VirtualFile.sync

    def skip(file: VirtualFile) -> None:
        if "__cluster_metadata" not in file._path:
            sync(file)

    patch.setattr(VirtualFile, "sync", skip)


@mutant(METADATA)
def acknowledgements_leave_before_the_sync(patch: Patch) -> None:
    patch.setattr(raft_core, "RaftMember", raft_mutants.acks_before_it_syncs)


@mutant(METADATA)
def term_and_vote_are_on_no_disk(patch: Patch) -> None:
    patch.setattr(raft_core, "RaftMember", raft_mutants.forgets_its_vote)


@mutant(METADATA)
def a_voter_votes_for_everybody_who_asks(patch: Patch) -> None:
    receive = RaftEngine.receive

    def forget(engine: RaftEngine, node_id: int, message: dict[str, Any]) -> None:
        if message["type"] == "request_vote":
            engine._SyncObj__votedForNodeId = None
        receive(engine, node_id, message)

    patch.setattr(RaftEngine, "receive", forget)


@mutant(METADATA)
def entries_of_old_terms_are_committed_by_count(patch: Patch) -> None:
    tick = RaftEngine.tick

    def count(engine: RaftEngine) -> None:
        if engine.is_leading:
            own = engine._log[-1].raft_index
            matches = sorted([own, *engine._SyncObj__raftMatchIndex.values()])
            engine.commit_index = max(engine.commit_index, matches[(len(matches) - 1) // 2])
        tick(engine)

    patch.setattr(RaftEngine, "tick", count)


@mutant(METADATA)
def the_commit_moves_over_what_was_not_compared(patch: Patch) -> None:
    patch.setattr(raft_core, "RaftMember", raft_mutants.commits_what_it_was_not_shown)


@mutant(METADATA)
def a_follower_cuts_off_what_agrees(patch: Patch) -> None:
    patch.setattr(raft_core, "RaftMember", raft_mutants.cuts_off_what_agrees)


@mutant(METADATA)
def acknowledgements_of_an_earlier_reign_count(patch: Patch) -> None:
    patch.setattr(raft_core, "RaftMember", raft_mutants.counts_old_acks)


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


@mutant(KILLS)
def commands_that_are_sent_again_are_carried_out_again(patch: Patch) -> None:
    patch.setattr(controller, "known_reply", lambda image, request: None)
