"""The Raft engine: pysyncobj's SyncObj, with every part replaced that could lose data.

The library provides the roles, the elections, the commit rule, the loop that applies entries and the queue of
commands. Its parts are replaced by shadowing private names in a subclass; nothing in it is patched. This is
the only file that knows those names. They were audited in one version only, so another version does not
start. The replacements are in `raft_replication` (leader), `raft_follower` and `raft_election`; `raft_member`
combines them.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, Final, Protocol

from ottla.metadata_raft.module_absent import module_absent
from ottla.metadata_raft.quorum_state import NOBODY, QuorumState
from ottla.metadata_raft.raft_journal import JournalEntry, RaftJournal

# The library's encryption is not used, and its dependency would take 8 MB in each node.
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

# Without a leader, a short timeout deposes none, and PreVote is rejected by voters that know a leader.
BRIEF_ELECTION_SECONDS: Final = (0.05, 0.25)
# All voters notice a leader's death within some milliseconds; a vote takes a write to disk and a round trip.
FIRST_ELECTION_SECONDS: Final = (0.01, 0.03)
NEXT_ELECTION_SECONDS: Final = 0.06
# A follower without a leader asks for votes after a random time, so that two rarely do so at once.
MIN_ELECTION_SECONDS: Final = 1.0
MAX_ELECTION_SECONDS: Final = 2.0
# Four may be lost before a follower asks for votes. A leader that dies is noticed by the end of its
# connections.
HEARTBEAT_SECONDS: Final = 0.25
# A leader without answers from a majority for this time resigns: before another one may be elected.
LEADER_FALLBACK_SECONDS: Final = 0.8
_FOLLOWER: Final = 0


class EngineParts(Protocol):
    """The functions that the engine calls."""

    def send_from_engine(self, node_id: int, message: dict[str, Any]) -> None: ...

    def leader_change_entry(self, raft_index: int, term: int) -> bytes: ...

    def replicate(self) -> None: ...

    def apply(self, entry: JournalEntry) -> None: ...

    def begin_leading(self) -> None: ...

    def handle_leading(self) -> None: ...


class _EngineTransport(Transport):  # type: ignore[misc]
    """A transport that passes the engine's messages to the guard, which calls `receive` for admitted ones."""

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
    """The journal, with the interface that the engine expects."""

    def __init__(self, journal: RaftJournal, parts: EngineParts) -> None:
        self._journal = journal
        self._parts = parts

    def __len__(self) -> int:
        return len(self._journal)

    def __getitem__(self, position: int) -> JournalEntry:
        return self._journal[position]

    def add(self, command: bytes, raft_index: int, term: int) -> None:
        # The only command that the engine itself creates is the first one of a term.
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
        """Do nothing: the commit index is known again as soon as there is a leader."""

    def onOneSecondTimer(self) -> None:
        return

    def _destroy(self) -> None:
        return


class _NoPoller:
    """A replacement of the library's poller, which waits for sockets."""

    def poll(self, _timeout_seconds: float) -> None:
        return


class RaftEngine(SyncObj):  # type: ignore[misc]
    """The roles of one voter. Other modules use only the attributes below `# ---- for the other parts`."""

    def __init__(
        self, node_id: int, journal: RaftJournal, parts: EngineParts, *, applied_index: int, chance: Random
    ) -> None:
        self._log = _EngineLog(journal, parts)
        self._parts = parts
        self._chance = chance
        self._transport = _EngineTransport(parts)
        self._nodes: dict[int, Node] = {}
        self.election_deadline = 0.0  # when this voter stands for election, unless it hears from a leader
        self.may_stand = False  # in this tick: the deadline has passed, and nothing else forbids an election
        self.sends = 0  # the number of replications, each of which sends the current commit index
        self.node_id = node_id
        super().__init__(Node(node_id), [], _engine_conf(), transport=self._transport)
        # There are no descriptors to poll, and the library's poller would make a system call in every tick.
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
        # The library reads the clock slightly later than `raft_election`. A deadline that passes in between
        # must not let it stand for election without a PreVote.
        return -math.inf if self.may_stand else math.inf

    @_SyncObj__raftElectionDeadline.setter
    def _SyncObj__raftElectionDeadline(self, at: float) -> None:
        self.election_deadline = at

    def _SyncObj__generateRaftTimeout(self) -> float:
        return self._chance.uniform(MIN_ELECTION_SECONDS, MAX_ELECTION_SECONDS)

    def _SyncObj__doApplyCommand(self, _batch: bytes) -> None:
        # Without pickle. An exception here is fatal to the process; the entry is never retried or skipped.
        entry = self._log[self.applied_index + 1 - self._log[0].raft_index]
        self._parts.apply(entry)

    def _SyncObj__sendAppendEntries(self) -> None:
        self.sends += 1
        self._SyncObj__newAppendEntriesTime = self.now() + HEARTBEAT_SECONDS
        self._parts.replicate()

    def _SyncObj__onBecomeLeader(self) -> None:
        self._parts.begin_leading()
        SyncObj._SyncObj__onBecomeLeader(self)
        self._parts.handle_leading()

    def _SyncObj__tryLogCompaction(self) -> None:
        """Do nothing: snapshots are made elsewhere."""

    # ---- for the other parts ---------------------------------------------------------------------------

    def _node(self, node_id: int) -> Node:
        """Return the library's object for a voter, cached because its construction is slow."""
        node = self._nodes.get(node_id)
        if node is None:
            node = self._nodes[node_id] = Node(node_id)
        return node

    @staticmethod
    def now() -> float:
        """Return the time in seconds, by the clock of the engine's timeouts."""
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
        """The time of the next election, heartbeat or resignation; a tick before it has nothing to do."""
        if not self.is_leading:
            return self.election_deadline
        heartbeat_at: float = self._SyncObj__newAppendEntriesTime
        others = self._SyncObj__otherNodes
        if not others:
            return heartbeat_at
        # Together with this node, the peers that were heard since this time are a majority of the voters.
        heard = sorted((self._SyncObj__lastResponseTime[node] for node in others), reverse=True)
        majority_heard_at: float = heard[(len(others) + 1) // 2 - 1]
        return min(heartbeat_at, majority_heard_at + LEADER_FALLBACK_SECONDS)

    @property
    def leader_id(self) -> int:
        """The leader's node id, -1 if it is unknown."""
        leader = self._getLeader()
        return -1 if leader is None else leader.id

    @leader_id.setter
    def leader_id(self, node_id: int) -> None:
        if self.leader_id != node_id:
            self._SyncObj__onLeaderChanged()
        self._SyncObj__raftLeader = self._node(node_id)

    def forget_leader(self) -> None:
        """Forget the leader until one is heard again; the term and the vote stay."""
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
        """Restart the election timeout."""
        self.election_deadline = self.now() + self._SyncObj__generateRaftTimeout()

    def wait_briefly(self, place: int | None = None) -> None:
        """Set a short election timeout, as there is no leader to wait for.

        If it is known which voters stand for election now, each waits according to its `place` among them.
        """
        bounds_s = BRIEF_ELECTION_SECONDS if place is None else FIRST_ELECTION_SECONDS
        wait_s = self._chance.uniform(*bounds_s) + (place or 0) * NEXT_ELECTION_SECONDS
        self.election_deadline = self.now() + wait_s

    def stand_for_election(self) -> None:
        """Begin a term in the next tick."""
        self.election_deadline = 0

    @property
    def is_handed_leadership(self) -> bool:
        """True if the leader handed leadership to this voter."""
        return bool(self._SyncObj__transferInProgress)

    @is_handed_leadership.setter
    def is_handed_leadership(self, is_handed: bool) -> None:
        self._SyncObj__transferInProgress = is_handed

    def adopt_term(self, term: int) -> None:
        """Become a follower in a higher term, in which this voter has not voted."""
        assert term > self.term
        self._SyncObj__setCurrentTerm(term, None)
        self._SyncObj__raftLeader = None
        self._SyncObj__setState(_FOLLOWER)

    def vote_for_leader(self, node_id: int) -> None:
        """Give the vote of this term to the node that leads it."""
        self._SyncObj__setCurrentTerm(self.term, node_id)

    def follow(self) -> None:
        """Become a follower in this term."""
        self._SyncObj__setState(_FOLLOWER)

    def match_of(self, node_id: int) -> int:
        """Return the last entry that a peer is known to have on disk."""
        index: int = self._SyncObj__raftMatchIndex.get(self._node(node_id), 0)
        return index

    def set_match(self, node_id: int, raft_index: int) -> None:
        self._SyncObj__raftMatchIndex[self._node(node_id)] = raft_index

    def next_of(self, node_id: int) -> int:
        """Return the next entry to send to a peer."""
        index: int = self._SyncObj__raftNextIndex.get(self._node(node_id), 1)
        return index

    def set_next(self, node_id: int, raft_index: int) -> None:
        self._SyncObj__raftNextIndex[self._node(node_id)] = raft_index

    def note_response(self, node_id: int) -> None:
        """Record that a peer answered this leader now."""
        self._SyncObj__lastResponseTime[self._node(node_id)] = self.now()

    def last_response(self, node_id: int) -> float | None:
        """Return the time of a peer's last answer, or of the beginning of this term as a leader."""
        at: float | None = self._SyncObj__lastResponseTime.get(self._node(node_id))
        return at

    def send_soon(self) -> None:
        """Replicate in the next tick instead of with the next heartbeat."""
        self._SyncObj__newAppendEntriesTime = 0

    def set_peers(self, voters: Iterable[int], learners: Iterable[int]) -> None:
        """Set the other voters, whose acknowledgements count, and the learners, which get entries too."""
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
        """Forget the progress of a peer, as if it had never answered."""
        self._SyncObj__raftNextIndex.pop(self._node(node_id), None)
        self._SyncObj__raftMatchIndex.pop(self._node(node_id), None)

    def queue(self, batch: bytes) -> None:
        """Append an entry as the leader; it is in the log when this returns."""
        last_index = self._log[-1].raft_index
        self._applyCommand(batch, None)
        self._checkCommandsToApply()
        assert self._log[-1].raft_index == last_index + 1

    def receive(self, node_id: int, message: dict[str, Any]) -> None:
        """Handle one of the engine's own messages, which the guard has admitted."""
        self._transport.receive(node_id, message)

    def set_connected(self, node_id: int, is_up: bool) -> None:
        """Note that a link to a peer was opened or closed."""
        self._transport.set_connected(node_id, is_up)

    def hand_over(self) -> None:
        """Ask the voter with most of the log to lead, if it has all of it."""
        self.transferLeadership()

    def tick(self) -> None:
        """Do everything that is due: elect, commit, apply, replicate."""
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
    """Set the clock of all engines of this process, for simulations, before the first one is created."""
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
