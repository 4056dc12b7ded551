"""A quorum on a virtual clock, network and disk; each run of a seed is the same.

Links are like TCP: messages of one direction arrive in order, with any delay, and are all lost when the link
is cut. A cut may affect one direction. A crash may happen at any operation of the disk, may tear that write,
and loses everything that was not synced.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from ottla.logstore.disk import MemoryDisk
from ottla.logstore.words.errors import KafkaError
from ottla.metadata_raft import raft_node
from ottla.metadata_raft.delta import replay_batch
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.quorum_raft import load_voter
from ottla.metadata_raft.raft_entry import open_entry
from ottla.metadata_raft.raft_guard import Peer
from ottla.metadata_raft.raft_journal import KEPT_ENTRIES, JournalEntry, RaftJournal
from ottla.metadata_raft.raft_member import RaftMember
from ottla.metadata_raft.raft_replication import ReplicationLimits
from ottla.metadata_raft.raft_snapshots import SnapshotStore, StoredSnapshot
from ottla.metadata_raft.record_codec import MetadataBatch
from ottla.metadata_raft.records import ConfigRecord, ConfigResourceType, NoOpRecord
from ottla.metadata_raft.voters import Voter, VoterSet

ROOT = Path("/data")
DIRECTORY = ROOT / "__cluster_metadata-0"
EMPTY = MetadataImage(cluster_id=b"a-cluster-of-16-")
TICK = 0.02


class Crash(Exception):
    """A node loses its power."""


class Node:
    """One node: its disk survives a crash, everything else is created again by `start`."""

    def __init__(self, world: "World", node_id: int, *, disk_number: int = 0) -> None:
        self.world = world
        self.node_id = node_id
        self.disk_number = disk_number
        self.disk = MemoryDisk()
        self.disk.make_directory(DIRECTORY)
        self.crash_chance = 0.0
        self.disk.watch = self._watch
        self.member: RaftMember
        self.image = EMPTY
        self.is_up = False
        self.is_awake = False  # something has arrived since the last cycle
        self.leading_term = 0
        self.installed = 0
        self.work: list[tuple[float, Callable[[], Any], Callable[[Any], None]]] = []
        self.configured: VoterSet | None = None  # the voters in its settings, if they differ from others'

    @property
    def directory_id(self) -> bytes:
        return f"{self.node_id:08d}{self.disk_number:08d}".encode()

    @property
    def voter(self) -> Voter:
        return Voter(self.node_id, self.directory_id, f"node-{self.node_id}", 9093)

    def _watch(self, _operation: str, _path: Path) -> None:
        if self.crash_chance and self.world.chance.random() < self.crash_chance:
            raise Crash

    def start(self) -> None:
        """Load the disk and create the voter."""
        world = self.world
        self.journal = RaftJournal(
            DIRECTORY,
            self.disk,
            kept_entries=self.world.kept_entries,
            configured=self.configured or world.configured,
        )
        self.store = SnapshotStore(DIRECTORY, self.disk, pause_seconds=0)
        self.image, _ = load_voter(self.store, self.journal, EMPTY)
        self.leading_term = 0
        self.work.clear()
        self.member = world.make_member(self)
        self.is_up = self.is_awake = True

    def wipe(self) -> None:
        """Replace the disk by an empty one."""
        self.disk_number += 1
        self.disk = MemoryDisk()
        self.disk.make_directory(DIRECTORY)
        self.disk.watch = self._watch

    def copy_disk(self) -> MemoryDisk:
        """Return a backup of the disk."""
        return self.disk.copy()

    def restore(self, copy: MemoryDisk, *, is_rollback: bool = False) -> None:
        """Replace the disk of a stopped node by copies of the files of a backup.

        With `is_rollback`, replace it by the whole volume of that time, which cannot be detected.
        """
        self.world.devices += 1
        self.disk = copy.copy(copy.device if is_rollback else self.world.devices)
        self.disk.watch = self._watch

    @property
    def has_recovered(self) -> bool:
        """Return True if the node runs, and its voter knows its promises and has what it acknowledged."""
        return self.is_up and not self.journal.is_copied and self.journal.lost_promise is None

    # ---- calls of the member ---------------------------------------------------------------------------

    def handle_entries(self, entries: Sequence[JournalEntry]) -> None:
        for entry in entries:
            self.world.history.note_applied(self, entry)
            self.image, _ = replay_batch(self.image, open_entry(entry.batch))
            assert self.image.version + 1 == entry.end_offset, "offsets and entries diverge"

    def handle_installed(self, snapshot: StoredSnapshot) -> None:
        assert snapshot.image.version >= self.image.version, "a snapshot goes back"
        self.installed += 1
        self.image = snapshot.image

    def handle_leadership(self, term: int) -> None:
        self.leading_term = term
        self.world.history.note_leader(self.node_id, term)

    def handle_resignation(self) -> None:
        self.leading_term = 0
        self.world.history.note_unknown(self)

    def handle_voters(self, voters: VoterSet) -> None:
        return

    # ---- links and work --------------------------------------------------------------------------------

    def send(self, node_id: int, frame: bytes) -> None:
        self.world.network.send(self.node_id, node_id, frame)

    def has_room(self, node_id: int) -> bool:
        return self.world.network.is_open(self.node_id, node_id)

    def run_elsewhere(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.work.append((self.world.now + self.world.chance.random() * self.world.work_seconds, job, done))

    def propose(self, name: str, size: int = 1) -> int | None:
        """Append one setting; return its offset, or None if this node does not lead."""
        journal = self.member.journal
        if not self.leading_term:
            return None
        record = ConfigRecord(
            resource_type=ConfigResourceType.GROUP, resource_name="g", name=name, value="v" * size
        )
        batch = MetadataBatch(journal.last.end_offset, self.leading_term, 1_000, [record])
        try:
            self.member.propose(batch)
        except KafkaError:
            return None
        self.world.history.note_proposed(self, journal.last, name)
        return batch.base_offset

    def propose_nothing(self) -> None:
        """Append an entry that changes nothing, as a controller does if its voter wants one."""
        last = self.member.journal.last
        batch = MetadataBatch(last.end_offset, self.leading_term, 1_000, [NoOpRecord()])
        self.member.propose(batch)


class History:
    """The leaders, the acknowledged and the applied entries; AssertionError names the first contradiction."""

    def __init__(self) -> None:
        self.applied: dict[int, tuple[int, bytes]] = {}  # index -> (term, records of the entry)
        self.leaders: dict[int, int] = {}
        self.pending: dict[tuple[int, int], tuple[int, str]] = {}  # (node, index) -> (term, name)
        self.acknowledged: set[str] = set()

    def note_leader(self, node_id: int, term: int) -> None:
        other = self.leaders.setdefault(term, node_id)
        assert other == node_id, f"{other} and {node_id} lead in term {term}"

    def note_proposed(self, node: Node, entry: JournalEntry, name: str) -> None:
        self.pending[node.node_id, entry.raft_index] = entry.term, name

    def note_unknown(self, node: Node) -> None:
        for key in [key for key in self.pending if key[0] == node.node_id]:
            del self.pending[key]

    def note_applied(self, node: Node, entry: JournalEntry) -> None:
        content = entry.term, entry.batch[61:]
        other = self.applied.setdefault(entry.raft_index, content)
        assert other == content, f"state-machine-safety: two entries are applied at {entry.raft_index}"
        proposed = self.pending.pop((node.node_id, entry.raft_index), None)
        if proposed is not None and proposed[0] == entry.term and node.leading_term == entry.term:
            self.acknowledged.add(proposed[1])


class Network:
    """Directed links; `cut` and `heal` change one direction."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.closed: set[tuple[int, int]] = set()
        self.delay: dict[tuple[int, int], float] = defaultdict(float)
        self.last_at: dict[tuple[int, int], float] = defaultdict(float)
        self.queue: list[tuple[float, int, int, int, Peer, bytes]] = []
        self.held: set[tuple[int, int]] = set()  # links that hold their messages until released
        self.strays = 0.0  # the fraction of messages that arrive a second time, out of order
        self._count = 0

    def is_open(self, source: int, target: int) -> bool:
        nodes = self.world.nodes
        return (source, target) not in self.closed and nodes[source].is_up and nodes[target].is_up

    def send(self, source: int, target: int, frame: bytes) -> None:
        if target not in self.world.nodes or not self.is_open(source, target):
            return
        link = source, target
        jitter = self.delay[link] * (0.5 + self.world.chance.random())
        at = self.last_at[link] = max(self.last_at[link], self.world.now + jitter)
        self._count += 1
        peer = Peer(source, self.world.nodes[source].directory_id)
        heapq.heappush(self.queue, (at, self._count, source, target, peer, frame))
        if self.strays and self.world.chance.random() < self.strays:
            # Two connections carry a pair's messages: one may deliver a message again, or late, that the
            # other has delivered.
            self._count += 1
            late = self.world.now + self.world.chance.random()
            heapq.heappush(self.queue, (late, self._count, source, target, peer, frame))

    def cut(self, source: int, target: int) -> None:
        """Break one direction, and lose the messages in transit."""
        self.closed.add((source, target))
        self.queue = [one for one in self.queue if (one[2], one[3]) != (source, target)]
        heapq.heapify(self.queue)
        self.world.report_links(source, target)

    def heal(self, source: int, target: int) -> None:
        self.closed.discard((source, target))
        self.world.report_links(source, target)

    def isolate(self, node_id: int) -> None:
        for other in self.world.nodes:
            if other != node_id:
                self.cut(node_id, other)
                self.cut(other, node_id)

    def rejoin(self, node_id: int) -> None:
        for other in self.world.nodes:
            if other != node_id:
                self.heal(node_id, other)
                self.heal(other, node_id)

    def due(self) -> list[tuple[Peer, int, bytes]]:
        """Return the messages that arrive now, in order."""
        arrived, kept = [], []
        while self.queue and self.queue[0][0] <= self.world.now:
            one = heapq.heappop(self.queue)
            (kept if (one[2], one[3]) in self.held else arrived).append(one)
        for one in kept:
            heapq.heappush(self.queue, one)
        return [(peer, target, frame) for _, _, _, target, peer, frame in arrived]


class World:
    """A quorum of `size` voters; with `make_member` a test can remove a protection."""

    def __init__(
        self,
        size: int,
        seed: int = 1,
        *,
        make_member: Callable[..., RaftMember] = RaftMember,
        spares: int = 0,
        limits: ReplicationLimits = ReplicationLimits(),
        kept_entries: int = KEPT_ENTRIES,
    ) -> None:
        self.limits = limits
        self.kept_entries = kept_entries
        self.chance = Random(seed)
        self.now = 1000.0
        raft_node.use_clock(lambda: self.now)
        self.work_seconds = 0.1
        self.devices = 1  # the number of devices that held a disk
        self._make_member = make_member
        self.history = History()
        self.network = Network(self)
        self.nodes = {node_id: Node(self, node_id) for node_id in range(1, size + spares + 1)}
        self.configured = VoterSet.of(
            Voter(node_id, bytes(16), f"node-{node_id}", 9093) for node_id in range(1, size + 1)
        )
        for node in self.nodes.values():
            self.start(node)

    def make_member(self, node: Node) -> RaftMember:
        return self._make_member(
            node.voter,
            node.journal,
            node.store,
            node,
            configured=node.configured or self.configured,
            links=node,
            work=node.run_elsewhere,
            chance=Random(self.chance.random()),
            now_ms=lambda: int(self.now * 1000),
            empty=EMPTY,
            limits=self.limits,
        )

    # ---- starts and crashes ----------------------------------------------------------------------------

    def start(self, node: Node) -> bool:
        try:
            node.start()
        except Crash:
            self.crash(node)
            return False
        self.report_all_links()
        return True

    def crash(self, node: Node) -> None:
        """Cut the power of a node; messages that it had sent may still arrive."""
        node.is_up = False
        node.crash_chance = 0.0
        self.history.note_unknown(node)
        node.disk.lose_power(keep_bytes=lambda _path, unsynced: self.chance.randint(0, unsynced))
        network = self.network
        network.queue = [
            one for one in network.queue if one[3] != node.node_id and self.chance.random() < 0.9
        ]
        heapq.heapify(network.queue)
        self.report_all_links()

    def report_links(self, source: int, target: int) -> None:
        self._report_link(source, target)
        self._report_link(target, source)

    def _report_link(self, source: int, target: int) -> None:
        node, other = self.nodes[source], self.nodes[target]
        if node.is_up and hasattr(node, "member"):
            is_up = self.network.is_open(source, target)
            node.member.link_is_up(Peer(target, other.directory_id), is_up=is_up)
            node.is_awake = True

    def report_all_links(self) -> None:
        for source in self.nodes:
            for target in self.nodes:
                if source != target:
                    self._report_link(source, target)

    # ---- time ------------------------------------------------------------------------------------------

    def step(self, seconds: float = TICK) -> None:
        """Advance the time: deliver messages, finish work, and run the cycles that are due."""
        self.now += seconds
        self.deliver()
        for node in list(self.nodes.values()):
            self.guarded(node, partial(self._run_node, node))

    def deliver(self) -> None:
        for peer, target, frame in self.network.due():
            node = self.nodes[target]
            if node.is_up:
                self.guarded(node, partial(self._receive, node, peer, frame))

    @staticmethod
    def _receive(node: Node, peer: Peer, frame: bytes) -> None:
        """Deliver a message; a rejection is an error, as no voter sends invalid messages."""
        try:
            node.is_awake = True
            node.member.guard.receive(peer, frame)
        except KafkaError as error:
            raise AssertionError(f"{node.node_id} rejects a message of {peer.node_id}: {error}") from error

    def _run_node(self, node: Node) -> None:
        due = [one for one in node.work if one[0] <= self.now]
        node.work = [one for one in node.work if one[0] > self.now]
        for _, job, done in due:
            result: Any
            try:
                result = job()
            except (KafkaError, OSError) as error:
                result = error
            done(result)
            node.is_awake = True
        if node.is_awake or node.member.due_at <= node.member.engine.now():
            node.is_awake = False
            for _ in range(20):
                if not node.member.cycle():
                    break
        if node.member.wants_entry:
            node.propose_nothing()

    def guarded(self, node: Node, action: Callable[[], Any]) -> None:
        if not node.is_up:
            return
        try:
            action()
        except Crash:
            self.crash(node)

    def run(self, seconds: float, *, until: Callable[[], Any] | None = None) -> bool:
        """Let time pass; return True as soon as `until` is true."""
        end = self.now + seconds
        while self.now < end:
            self.step()
            if until is not None and until():
                return True
        return False

    # ---- questions -------------------------------------------------------------------------------------

    @property
    def leaders(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.is_up and node.member.engine.is_leading]

    def leader(self, seconds: float = 30) -> Node:
        """Return the only leader, once it may append."""
        assert self.run(seconds, until=lambda: len(self.leaders) == 1 and self.leaders[0].leading_term)
        return self.leaders[0]

    def leader_among(self, nodes: Collection[Node], seconds: float = 10) -> Node:
        """Return the leader among these nodes, once it may append; others may still count as leaders."""
        assert self.run(seconds, until=lambda: any(node.leading_term for node in nodes))
        return next(node for node in nodes if node.leading_term)

    def others(self, *nodes: Node) -> list[Node]:
        """Return all nodes but these."""
        return [node for node in self.nodes.values() if node not in nodes]

    def make_snapshot(self, node: Node) -> None:
        member = node.member
        applied = member.engine.applied_index
        if not member.is_working and applied > member.store.start.raft_index:
            member.make_snapshot(node.image, applied)

    def settings(self, node: Node) -> set[str]:
        return set(node.image.configs.group("g"))

    def has_settled(self) -> bool:
        """Return True if all running nodes have applied the same entries."""
        return len({node.image.version for node in self.nodes.values() if node.is_up}) == 1
