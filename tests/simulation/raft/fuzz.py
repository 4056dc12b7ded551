"""Storms of random faults against a quorum, with the invariants that must hold.

    python -m tests.simulation.raft.fuzz FIRST_SEED COUNT [VOTERS] [--members] [--backups] [--rollbacks]

prints the seeds that fail; a single seed can be repeated, with the same result.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, fields
from random import Random

from ottla.logstore.disk import MemoryDisk
from ottla.logstore.words.errors import KafkaError
from ottla.metadata_raft.raft_member import RaftMember
from ottla.metadata_raft.raft_replication import ReplicationLimits
from ottla.metadata_raft.record_codec import MetadataBatch
from ottla.metadata_raft.voters import VoterSet, record_of_voters
from tests.simulation.raft.world import Node, World

STORM_SECONDS = 15.0
RECOVERY_SECONDS = 90.0  # a snapshot of 110 kB takes 15 s in chunks of 300 bytes, and another may follow
DELAYS = (0.0, 0.0, 0.02, 0.1, 0.3, 1.0)
STEPS = (0.005, 0.02, 0.05)
# Small limits, so that entries take many messages, snapshots many chunks, and voters often need snapshots.
LIMITS = ReplicationLimits(
    message_bytes=400, message_entries=4, messages_at_once=3, entries_ahead=30, chunk_bytes=300
)
KEPT_ENTRIES = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one run."""

    acknowledged: int
    last_term: int
    crashes: int
    snapshots: int
    installed: int  # snapshots that a leader sent
    changes: int  # of the voters
    wiped: int  # disks
    restored: int  # disks that were restored to an earlier state


class Storm:
    """The storm of one seed."""

    def __init__(
        self,
        seed: int,
        *,
        voters: int = 3,
        members: bool = False,
        backups: bool = False,
        rollbacks: bool = False,
        seconds: float = STORM_SECONDS,
        make_member: Callable[..., RaftMember] = RaftMember,
    ) -> None:
        self.seconds = seconds
        self.world = World(
            voters,
            seed,
            make_member=make_member,
            spares=2 if members else 0,
            limits=LIMITS,
            kept_entries=KEPT_ENTRIES,
        )
        self.world.network.strays = 0.03 if seed % 2 else 0.0
        self.chance = Random(seed + 1)
        self.members = members
        self.backups = backups
        self.rollbacks = rollbacks
        self.without_promises: set[int] = set()  # nodes that were restored and lack their promises since
        self.down: dict[int, float] = {}
        self.count = 0
        self.crashes = self.snapshots = self.changes = self.wiped = self.restored = 0
        self.copies: dict[tuple[int, bytes], MemoryDisk] = {}  # by node and directory

    def run(self) -> Outcome:
        """Run the storm, then a calm, then the checks; AssertionError names a broken invariant."""
        world = self.world
        world.leader()
        end = world.now + self.seconds
        while world.now < end:
            world.step(self.chance.choice(STEPS))
            self._inject_fault(self.chance.random())
            self._note_crashed()
            self._restart_due()
        self._recover()
        self._check()
        last_term = max(node.member.engine.term for node in world.nodes.values())
        return Outcome(
            len(world.history.acknowledged),
            last_term,
            self.crashes,
            self.snapshots,
            sum(node.installed for node in world.nodes.values()),
            self.changes,
            self.wiped,
            self.restored,
        )

    # ---- faults ----------------------------------------------------------------------------------------

    def _inject_fault(self, dice: float) -> None:
        world, chance, network = self.world, self.chance, self.world.network
        pair = chance.sample(sorted(world.nodes), 2)
        if dice < 0.30:
            self._propose()
        elif dice < 0.33:
            network.cut(*pair)
            if chance.random() < 0.7:
                network.cut(*reversed(pair))
        elif dice < 0.40:
            network.heal(*pair)
            network.heal(*reversed(pair))
        elif dice < 0.43:
            network.delay[pair[0], pair[1]] = chance.choice(DELAYS)
        elif dice < 0.45:
            self._snapshot()
        elif dice < 0.46:
            self._crash()
        elif dice < 0.465:
            network.rejoin(pair[0])
        elif dice < 0.485 and self.members:
            self._change_voters()
        elif dice < 0.492 and self.members:
            self._lose_disk()
        elif dice < 0.51 and (self.backups or self.rollbacks):
            node = chance.choice(self._up() or [world.nodes[1]])
            self.copies[node.node_id, node.directory_id] = node.copy_disk()
        elif dice < 0.53 and self.backups:
            self._restore_files()
        elif dice < 0.60 and self.rollbacks:
            self._roll_volume_back()

    def _propose(self) -> None:
        for node in self.world.leaders:
            for _ in range(self.chance.randint(1, 6)):
                self.count += 1
                node.propose(f"n{self.count:06d}", size=self.chance.choice((1, 40, 400)))

    def _up(self) -> list[Node]:
        return [node for node in self.world.nodes.values() if node.is_up]

    def _snapshot(self) -> None:
        node = self.chance.choice(self._up() or [self.world.nodes[1]])
        if node.is_up:
            self.snapshots += 1
            if self.chance.random() < 0.2:
                node.crash_chance = 0.3
            self.world.guarded(node, lambda: self.world.make_snapshot(node))

    def _crash(self) -> None:
        """Crash a node, at once or at one of the next operations of its disk."""
        up = self._up()
        if len(up) <= (1 if self.chance.random() < 0.3 else len(self.world.nodes) // 2):
            return
        node = self.chance.choice(up)
        if self.chance.random() < 0.7:
            node.crash_chance = self.chance.choice((0.02, 0.3))
        else:
            self.world.crash(node)

    def _note_crashed(self) -> None:
        for node in self.world.nodes.values():
            if not node.is_up and node.node_id not in self.down:
                self.crashes += 1
                wait = 0.0 if self.chance.random() < 0.5 else self.chance.random() * 3
                self.down[node.node_id] = self.world.now + wait

    def _restart_due(self) -> None:
        for node_id, at in sorted(self.down.items()):
            if self.world.now >= at and self.world.start(self.world.nodes[node_id]):
                del self.down[node_id]

    def _lose_disk(self) -> None:
        """Wipe the disk of one voter, unless another wiped disk is still in the set of voters."""
        world = self.world
        if len(world.leaders) != 1 or not world.leaders[0].leading_term:
            return
        voters = world.leaders[0].member.voters
        has_recovered = all(world.nodes[one.node_id].directory_id == one.directory_id for one in voters)
        is_committed = world.leaders[0].member.has_committed_all and not self._nodes_without_promises()
        node = self.chance.choice(self._up())
        if has_recovered and is_committed and len(voters) > 2 and node is not world.leaders[0]:
            world.crash(node)
            node.wipe()
            # The settings of a node with a new disk name all voters: one that knows only itself would start
            # another quorum.
            node.configured = VoterSet.of(one._replace(directory_id=bytes(16)) for one in voters)
            self.wiped += 1

    def _nodes_without_promises(self) -> set[int]:
        self.without_promises = {
            one for one in self.without_promises if not self.world.nodes[one].has_recovered
        }
        return self.without_promises

    def _restore_files(self) -> None:
        """Restore an earlier copy of one node's files at any time; some copies more than once.

        At most a minority of the voters may have lost something at the same time.
        """
        world, chance = self.world, self.chance
        node = chance.choice(list(world.nodes.values()))
        copy = self.copies.get((node.node_id, node.directory_id))
        voters = [one.member.voters for one in world.nodes.values() if hasattr(one, "member")]
        is_any_wiped = any(
            world.nodes[one.node_id].directory_id != one.directory_id for set_ in voters for one in set_
        )
        limit = min((len(set_) - 1) // 2 for set_ in voters)
        if copy is None or is_any_wiped or len(self._nodes_without_promises() | {node.node_id}) > limit:
            return
        if chance.random() < 0.5:
            del self.copies[node.node_id, node.directory_id]
        self.restored += node.journal.last.raft_index > 0
        if node.is_up:
            world.crash(node)
        node.restore(copy)
        self.without_promises.add(node.node_id)

    def _roll_volume_back(self) -> None:
        """Roll one voter's volume back, and let the leader that remembers its acknowledgements reach it.

        One voter at a time, and only while it cannot have promised anything to another leader. Once it has
        been reminded, the storm continues.
        """
        world = self.world
        terms = {node.member.engine.term for node in world.nodes.values()}
        if len(world.leaders) != 1 or len(self._up()) != len(world.nodes) or len(terms) != 1:
            return
        leader = world.leaders[0]
        node = self.chance.choice(self._up())
        copy = self.copies.pop((node.node_id, node.directory_id), None)
        has_recovered = all(one.journal.lost_promise is None for one in world.nodes.values())
        if node is leader or copy is None or not leader.leading_term or not has_recovered:
            return
        if not leader.member.has_committed_all or not leader.member.has_caught_up(node.node_id):
            return  # The leader does not remember what the voter acknowledged in earlier terms.
        for one in world.nodes.values():
            one.crash_chance = 0.0
        acknowledged = leader.member.engine.match_of(node.node_id)
        world.crash(node)
        node.restore(copy, is_rollback=True)
        assert world.start(node)
        world.network.delay.clear()
        for node_id in (leader.node_id, node.node_id):
            world.network.rejoin(node_id)
        is_behind = node.journal.last.raft_index < acknowledged
        if is_behind:
            self.restored += 1
            term = leader.leading_term
            world.run(
                1.0,
                until=lambda: (
                    node.journal.lost_promise is not None
                    or node.journal.last.raft_index >= acknowledged
                    or leader.leading_term != term
                ),
            )

    def _repair(self) -> None:
        """Remove voters whose disk is lost, as an operator does in the end."""
        for leader in self.world.leaders:
            member, nodes = leader.member, self.world.nodes
            lost = [one for one in member.voters if nodes[one.node_id].directory_id != one.directory_id]
            if not leader.leading_term or not member.has_committed_all or not lost:
                continue
            voters = member.voters.without(lost[0].node_id)
            records = [record_of_voters(voters)]
            end_offset = member.journal.last.end_offset
            member.propose(MetadataBatch(end_offset, leader.leading_term, 1_000, records))

    def _change_voters(self) -> None:
        """Add or remove one voter, or begin to replicate to a node that may be added."""
        for leader in self.world.leaders:
            member = leader.member
            others = [node for node in self.world.nodes.values() if node.node_id != leader.node_id]
            node = self.chance.choice(others)
            if not leader.leading_term:
                continue
            lost = [
                one for one in member.voters if self.world.nodes[one.node_id].directory_id != one.directory_id
            ]
            if lost and node.node_id != lost[0].node_id and node.node_id in member.voters:
                continue  # Removing a live voter while another one is lost would leave too few.
            if node.node_id in member.voters and len(member.voters) > 2:
                voters = member.voters.without(node.node_id)
            elif node.node_id in member.voters or not node.is_up:
                continue
            elif not member.has_caught_up(node.node_id):
                member.add_learner(node.voter)
                continue
            else:
                voters = member.voters.with_voter(node.voter)
            batch = MetadataBatch(
                member.journal.last.end_offset, leader.leading_term, 1_000, [record_of_voters(voters)]
            )
            try:
                member.propose(batch)
            except KafkaError:
                continue
            self.changes += 1

    # ---- the end ---------------------------------------------------------------------------------------

    def _recover(self) -> None:
        world = self.world
        for node in world.nodes.values():
            node.crash_chance = 0.0
        for node in world.nodes.values():
            if not node.is_up:
                assert world.start(node)
        world.network.delay.clear()
        for node_id in world.nodes:
            world.network.rejoin(node_id)
        world.run(RECOVERY_SECONDS, until=lambda: self._repair() or self._has_converged())  # type: ignore[func-returns-value]

    def _has_converged(self) -> bool:
        leaders = self.world.leaders
        if len(leaders) != 1 or not leaders[0].leading_term:
            return False
        voters = leaders[0].member.voters
        members = [self.world.nodes[voter.node_id] for voter in voters]
        has_recovered = all(self.world.nodes[one.node_id].directory_id == one.directory_id for one in voters)
        has_votes = all(node.has_recovered for node in members)
        return has_recovered and has_votes and len({node.image.version for node in members}) == 1

    def _check(self) -> None:
        world = self.world
        assert self._has_converged(), [
            (node.node_id, node.member.engine.term, node.image.version) for node in world.nodes.values()
        ]
        leader = world.leaders[0]
        for voter in leader.member.voters:
            node = world.nodes[voter.node_id]
            lost = world.history.acknowledged - world.settings(node)
            assert not lost, f"acknowledged and lost on {node.node_id}: {sorted(lost)[:5]}"
            assert node.image.configs == leader.image.configs


def run(
    seed: int,
    *,
    voters: int = 3,
    members: bool = False,
    backups: bool = False,
    rollbacks: bool = False,
    seconds: float = STORM_SECONDS,
    make_member: Callable[..., RaftMember] = RaftMember,
) -> Outcome:
    """Run the storm of one seed."""
    storm = Storm(
        seed,
        voters=voters,
        members=members,
        backups=backups,
        rollbacks=rollbacks,
        seconds=seconds,
        make_member=make_member,
    )
    return storm.run()


def main() -> int:
    """Run many seeds and print those that fail."""
    parser = argparse.ArgumentParser(description="Random faults against the metadata quorum, by seed.")
    parser.add_argument("first_seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("voters", type=int, nargs="?", default=3)
    parser.add_argument("--members", action="store_true", help="voters are added and removed, too")
    parser.add_argument("--backups", action="store_true", help="directories go back to earlier copies")
    parser.add_argument("--rollbacks", action="store_true", help="volumes go back to earlier snapshots")
    arguments = parser.parse_args()
    failed, outcomes, start = [], [], time.monotonic()
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.count):
        try:
            outcomes.append(
                run(
                    seed,
                    voters=arguments.voters,
                    members=arguments.members,
                    backups=arguments.backups,
                    rollbacks=arguments.rollbacks,
                )
            )
        except Exception:
            failed.append(seed)
            print(f"seed {seed}:")
            traceback.print_exc(limit=-3, file=sys.stdout)
    sums = {field.name: sum(getattr(one, field.name) for one in outcomes) for field in fields(Outcome)}
    print(f"{arguments.count} seeds, {arguments.voters} voters, {time.monotonic() - start:.0f} s: {sums}")
    print(f"failed: {failed or 'none'}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
