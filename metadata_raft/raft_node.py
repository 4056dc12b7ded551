"""pysyncobj's SyncObj with every part replaced that loses data, and its names in one place.

The library brings the roles, the elections, the rule when an entry is committed, the loop that applies and
the queue of commands. It is taken apart along its private names, which a subclass may shadow: nothing in it
is patched. This is the only file that knows those names, and they were audited in one version alone, so
another version does not start. What replaces the rest stands in `raft_replication` (leader), `raft_follower`
and `raft_election`; `raft_member` puts them together.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, Final, Protocol

from ottla.metadata_raft.module_absent import module_absent
from ottla.metadata_raft.quorum_state import NOBODY, QuorumState
from ottla.metadata_raft.raft_journal import JournalEntry, RaftJournal

# The library's encryption is not used, and what it needs for it would take 8 MB of each node.
with module_absent("cryptography"):
    import pysyncobj.syncobj
    from pysyncobj import SyncObj, SyncObjConf
    from pysyncobj.node import Node
    from pysyncobj.transport import Transport
    from pysyncobj.version import VERSION

AUDITED_VERSION: Final = "0.3.17"
if VERSION != AUDITED_VERSION:
    raise ImportError(
        f"pysyncobj {AUDITED_VERSION} is needed, but {VERSION} is "
        f"installed: run `pip install pysyncobj=={AUDITED_VERSION}`."
    )

# Without a leader there is nobody to depose, and PreVote keeps those out of it who know of one.
BRIEF_ELECTION_SECONDS: Final = (0.05, 0.25)
# All lose a leader that dies within some milliseconds; a vote takes a write to disk and a round trip.
FIRST_ELECTION_SECONDS: Final = (0.01, 0.03)
NEXT_ELECTION_SECONDS: Final = 0.06
# A follower that hears nothing asks for votes after this long, by chance, so that rarely two do at once.
MIN_ELECTION_SECONDS: Final = 1.0
MAX_ELECTION_SECONDS: Final = 2.0
# Four may be lost before a follower asks for votes. The end of its connections tells of a leader that dies.
HEARTBEAT_SECONDS: Final = 0.25
# A leader that no majority answers for so long leads nobody: below the time in which another may be elected.
LEADER_FALLBACK_SECONDS: Final = 0.8
_FOLLOWER: Final = 0


class EngineParts(Protocol):
    """What the engine asks of the parts around it."""

    def send_from_engine(self, node_id: int, message: dict[str, Any]) -> None: ...

    def leader_change_entry(self, raft_index: int, term: int) -> bytes: ...

    def replicate(self) -> None: ...

    def apply(self, entry: JournalEntry) -> None: ...

    def begin_reign(self) -> None: ...

    def handle_reign(self) -> None: ...


class _EngineTransport(Transport):  # type: ignore[misc]
    """Hands the engine's own messages to the guard; the guard calls `receive` with those it lets in."""

    def __init__(self, parts: EngineParts) -> None:
        super().__init__(None, None, [])
        self._parts = parts

    def send(self, node: Any, message: dict[str, Any]) -> bool:
        self._parts.send_from_engine(node.id, message)
        return True

    def receive(self, node_id: int, message: dict[str, Any]) -> None:
        self._onMessageReceived(Node(node_id), message)

    def set_connected(self, node_id: int, is_up: bool) -> None:
        (self._onNodeConnected if is_up else self._onNodeDisconnected)(Node(node_id))


class _EngineLog:
    """The journal as the engine asks for it."""

    def __init__(self, journal: RaftJournal, parts: EngineParts) -> None:
        self._journal = journal
        self._parts = parts

    def __len__(self) -> int:
        return len(self._journal)

    def __getitem__(self, position: int) -> JournalEntry:
        return self._journal[position]

    def add(self, command: bytes, raft_index: int, term: int) -> None:
        # The only command that the engine makes up itself is the one with which a reign begins.
        batch = self._parts.leader_change_entry(raft_index, term) if len(command) == 1 else command
        self._journal.append(batch, raft_index, term)

    def setCurrentTerm(self, term: int, voted_id: int | None) -> None:
        self._journal.set_state(QuorumState(term, NOBODY if voted_id is None else voted_id))

    def getCurrentTerm(self) -> int:
        return self._journal.state.term

    def getVotedForNodeId(self) -> int | None:
        return None if self._journal.state.voted_id == NOBODY else self._journal.state.voted_id

    def getRaftCommitIndex(self) -> int:
        return self._journal.first.raft_index

    def setRaftCommitIndex(self, raft_index: int) -> None:
        """Known again as soon as there is a leader."""

    def onOneSecondTimer(self) -> None:
        return

    def _destroy(self) -> None:
        return


class _NoPoller:
    """In place of the library's, which waits for sockets."""

    def poll(self, _timeout_seconds: float) -> None:
        return


class RaftEngine(SyncObj):  # type: ignore[misc]
    """One voter's roles. Every attribute that others may use stands behind `# ---- for the other parts`."""

    def __init__(
        self, node_id: int, journal: RaftJournal, parts: EngineParts, *, applied_index: int, chance: Random
    ) -> None:
        self._log = _EngineLog(journal, parts)
        self._parts = parts
        self._chance = chance
        self._transport = _EngineTransport(parts)
        self._nodes: dict[int, Node] = {}
        self.election_deadline = 0.0  # when this voter stands for election unless it hears from a leader
        self.may_stand = False  # in this tick: the deadline has passed, and nothing else forbids it
        self.sends = 0  # how often it was replicated; whatever was committed before was told with it
        self.node_id = node_id
        super().__init__(Node(node_id), [], _engine_conf(), transport=self._transport)
        # It has no descriptors to look at, and would ask the system about none in every tick.
        self._poller = _NoPoller()
        self.applied_index = self.commit_index = applied_index

    # ---- seams: the library's names, shadowed ----------------------------------------------------------

    @property
    def _SyncObj__raftLog(self) -> _EngineLog:
        return self._log

    @_SyncObj__raftLog.setter
    def _SyncObj__raftLog(self, _memory_journal: object) -> None:
        return

    @property
    def _SyncObj__raftElectionDeadline(self) -> float:
        # The library looks at the clock a moment after the election did. A deadline that passes in between
        # must not let it stand without having asked anybody.
        return -math.inf if self.may_stand else math.inf

    @_SyncObj__raftElectionDeadline.setter
    def _SyncObj__raftElectionDeadline(self, at: float) -> None:
        self.election_deadline = at

    def _SyncObj__generateRaftTimeout(self) -> float:
        return self._chance.uniform(MIN_ELECTION_SECONDS, MAX_ELECTION_SECONDS)

    def _SyncObj__doApplyCommand(self, _batch: bytes) -> None:
        # Without pickle. What raises here is fatal to the process, never retried, never skipped.
        entry = self._log[self.applied_index + 1 - self._log[0].raft_index]
        self._parts.apply(entry)

    def _SyncObj__sendAppendEntries(self) -> None:
        self.sends += 1
        self._SyncObj__newAppendEntriesTime = self.now() + HEARTBEAT_SECONDS
        self._parts.replicate()

    def _SyncObj__onBecomeLeader(self) -> None:
        self._parts.begin_reign()
        SyncObj._SyncObj__onBecomeLeader(self)
        self._parts.handle_reign()

    def _SyncObj__tryLogCompaction(self) -> None:
        """Snapshots are made elsewhere."""

    # ---- for the other parts ---------------------------------------------------------------------------

    def _node(self, node_id: int) -> Node:
        """The library's name of a voter; it makes them slowly."""
        node = self._nodes.get(node_id)
        if node is None:
            node = self._nodes[node_id] = Node(node_id)
        return node

    @staticmethod
    def now() -> float:
        """Seconds of the clock by which the engine measures its timeouts."""
        now: float = pysyncobj.syncobj.monotonicTime()
        return now

    @property
    def term(self) -> int:
        term: int = self.raftCurrentTerm
        return term

    @property
    def is_leading(self) -> bool:
        return bool(self._isLeader())

    @property
    def due_at(self) -> float:
        """When time alone lets a tick do something: an election, a heartbeat, or to give up the lead."""
        if not self.is_leading:
            return self.election_deadline
        heartbeat_at: float = self._SyncObj__newAppendEntriesTime
        others = self._SyncObj__otherNodes
        if not others:
            return heartbeat_at
        # With this node, those that were heard since then are a majority of the voters.
        heard = sorted((self._SyncObj__lastResponseTime[node] for node in others), reverse=True)
        majority_heard_at: float = heard[(len(others) + 1) // 2 - 1]
        return min(heartbeat_at, majority_heard_at + LEADER_FALLBACK_SECONDS)

    @property
    def leader_id(self) -> int:
        """-1 if nobody is known to lead."""
        leader = self._getLeader()
        return -1 if leader is None else leader.id

    @leader_id.setter
    def leader_id(self, node_id: int) -> None:
        if self.leader_id != node_id:
            self._SyncObj__onLeaderChanged()
        self._SyncObj__raftLeader = self._node(node_id)

    def forget_leader(self) -> None:
        """Know nobody who leads, until one is heard again; the term and the vote stay."""
        assert not self.is_leading
        self._SyncObj__raftLeader = None

    @property
    def commit_index(self) -> int:
        index: int = self.raftCommitIndex
        return index

    @commit_index.setter
    def commit_index(self, raft_index: int) -> None:
        self._SyncObj__raftCommitIndex = raft_index

    @property
    def applied_index(self) -> int:
        index: int = self.raftLastApplied
        return index

    @applied_index.setter
    def applied_index(self, raft_index: int) -> None:
        self._SyncObj__raftLastApplied = raft_index

    def postpone_election(self) -> None:
        """Wait for a whole timeout again."""
        self.election_deadline = self.now() + self._SyncObj__generateRaftTimeout()

    def wait_briefly(self, place: int | None = None) -> None:
        """Wait no longer than peers need to answer, when there is no leader that a wait could spare.

        Where it is known who else asks for votes now, each waits by its `place` among them.
        """
        bounds_s = BRIEF_ELECTION_SECONDS if place is None else FIRST_ELECTION_SECONDS
        wait_s = self._chance.uniform(*bounds_s) + (place or 0) * NEXT_ELECTION_SECONDS
        self.election_deadline = self.now() + wait_s

    def stand_for_election(self) -> None:
        """Begin a term with the next tick."""
        self.election_deadline = 0

    @property
    def is_handed_leadership(self) -> bool:
        """Whether the leader asked this voter to follow it at once."""
        return bool(self._SyncObj__transferInProgress)

    @is_handed_leadership.setter
    def is_handed_leadership(self, is_handed: bool) -> None:
        self._SyncObj__transferInProgress = is_handed

    def adopt_term(self, term: int) -> None:
        """Step down into a higher term, in which this voter has not voted."""
        assert term > self.term
        self._SyncObj__setCurrentTerm(term, None)
        self._SyncObj__raftLeader = None
        self._SyncObj__setState(_FOLLOWER)

    def vote_for_leader(self, node_id: int) -> None:
        """Give the vote of this term to the node that leads it."""
        self._SyncObj__setCurrentTerm(self.term, node_id)

    def follow(self) -> None:
        """Be a follower of whoever leads this term."""
        self._SyncObj__setState(_FOLLOWER)

    def match_of(self, node_id: int) -> int:
        """The entry up to which a peer is known to have this leader's log, on disk."""
        index: int = self._SyncObj__raftMatchIndex.get(self._node(node_id), 0)
        return index

    def set_match(self, node_id: int, raft_index: int) -> None:
        self._SyncObj__raftMatchIndex[self._node(node_id)] = raft_index

    def next_of(self, node_id: int) -> int:
        """The entry that a peer is sent next."""
        index: int = self._SyncObj__raftNextIndex.get(self._node(node_id), 1)
        return index

    def set_next(self, node_id: int, raft_index: int) -> None:
        self._SyncObj__raftNextIndex[self._node(node_id)] = raft_index

    def note_response(self, node_id: int) -> None:
        """A peer answered this leader."""
        self._SyncObj__lastResponseTime[self._node(node_id)] = self.now()

    def last_response(self, node_id: int) -> float | None:
        """When it did last, or this reign began."""
        at: float | None = self._SyncObj__lastResponseTime.get(self._node(node_id))
        return at

    def send_soon(self) -> None:
        """Replicate with the next tick instead of the next heartbeat."""
        self._SyncObj__newAppendEntriesTime = 0

    def set_peers(self, voters: Iterable[int], learners: Iterable[int]) -> None:
        """Who is counted, besides this node; learners are sent entries too."""
        others = {self._node(node_id) for node_id in voters}
        known = others | {self._node(node_id) for node_id in learners}
        progress = (
            self._SyncObj__raftNextIndex,
            self._SyncObj__raftMatchIndex,
            self._SyncObj__lastResponseTime,
        )
        for table in progress:
            for gone in [node for node in table if node not in known]:
                del table[gone]
        for node in known:
            self._SyncObj__raftNextIndex.setdefault(node, self._log[-1].raft_index + 1)
            self._SyncObj__raftMatchIndex.setdefault(node, 0)
            self._SyncObj__lastResponseTime.setdefault(node, self.now())
        self._SyncObj__otherNodes = others

    def forget_progress(self, node_id: int) -> None:
        """A peer begins anew, as if nothing had ever been heard of it."""
        self._SyncObj__raftNextIndex.pop(self._node(node_id), None)
        self._SyncObj__raftMatchIndex.pop(self._node(node_id), None)

    def queue(self, batch: bytes) -> None:
        """Let the leader append an entry; it is in the log when this returns."""
        last_index = self._log[-1].raft_index
        self._applyCommand(batch, None)
        self._checkCommandsToApply()
        assert self._log[-1].raft_index == last_index + 1

    def receive(self, node_id: int, message: dict[str, Any]) -> None:
        """A message of the engine's own, which the guard has judged."""
        self._transport.receive(node_id, message)

    def set_connected(self, node_id: int, is_up: bool) -> None:
        """A link to a peer came or went."""
        self._transport.set_connected(node_id, is_up)

    def hand_over(self) -> None:
        """Ask the voter that has most of the log to lead, if one has all of it."""
        self.transferLeadership()

    def tick(self) -> None:
        """Elect, commit, apply, replicate: whatever is due."""
        self.doTick(0.0)


def _engine_conf() -> SyncObjConf:
    return SyncObjConf(
        autoTick=False,
        appendEntriesUseBatch=True,
        appendEntriesPeriod=HEARTBEAT_SECONDS,
        raftMinTimeout=MIN_ELECTION_SECONDS,
        raftMaxTimeout=MAX_ELECTION_SECONDS,
        leaderFallbackTimeout=LEADER_FALLBACK_SECONDS,
        commandsWaitLeader=False,
        dynamicMembershipChange=False,
        useFork=False,
        logCompactionSplit=False,
        journalFile=None,
        fullDumpFile=None,
        password=None,
        serializer=None,
    )


def use_clock(now: Callable[[], float]) -> None:
    """Let all engines of this process measure time by `now`: for simulations, before the first is made."""
    pysyncobj.syncobj.monotonicTime = now


SEAMS: Final[Sequence[str]] = (
    "_SyncObj__raftLog",
    "_SyncObj__generateRaftTimeout",
    "_SyncObj__doApplyCommand",
    "_SyncObj__sendAppendEntries",
    "_SyncObj__onBecomeLeader",
    "_SyncObj__tryLogCompaction",
    "_SyncObj__newAppendEntriesTime",
    "_SyncObj__onLeaderChanged",
    "_SyncObj__raftLeader",
    "_SyncObj__raftCommitIndex",
    "_SyncObj__raftLastApplied",
    "_SyncObj__raftElectionDeadline",
    "_SyncObj__transferInProgress",
    "_SyncObj__setCurrentTerm",
    "_SyncObj__setState",
    "_SyncObj__raftMatchIndex",
    "_SyncObj__raftNextIndex",
    "_SyncObj__lastResponseTime",
    "_SyncObj__otherNodes",
)
