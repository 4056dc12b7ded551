"""A voter whose disk went back to an earlier copy, and how it gets its vote back.

Such a disk has lost entries that the voter had acknowledged, and counted votes rest on them. The leader
remembers the last entry that each voter acknowledged in its reign. It reminds a voter whose log does not
reach that far; the voter looks at its own log, writes down what it may have acknowledged at most (the end of
the leader's log), and from then on judges every candidate as if its log still ended there. It stands for no
election itself until its log reaches that end again. So it is like a voter that acknowledged and then was
silent, which Raft allows at any time; the acknowledgements that were counted stay true.
"""

import logging
from collections.abc import Callable

from metadata_raft.quorum_state import LostPromise
from metadata_raft.raft_journal import RaftJournal
from metadata_raft.raft_messages import PromiseForgotten, PromiseReminder, RaftMessage
from metadata_raft.raft_node import RaftEngine
from metadata_raft.voters import Voter

log = logging.getLogger(__name__)


class Promises:
    """`own` is this voter; `post(node_id, message)` queues a message that leaves after the next sync."""

    def __init__(
        self,
        own: Voter,
        engine: RaftEngine,
        journal: RaftJournal,
        *,
        post: Callable[[int, RaftMessage], None],
    ) -> None:
        self._own = own
        self._engine = engine
        self._journal = journal
        self._post = post
        self._told_term = 0  # in which the leader knows that this disk went back

    @property
    def is_kept(self) -> bool:
        """Return whether the log has everything that this voter may have acknowledged."""
        lost = self._journal.lost_promise
        return lost is None or self._own_end >= lost[:2]

    @property
    def end(self) -> tuple[int, int]:
        """(term, index) that a candidate's log must reach to get this voter's vote."""
        lost = self._journal.lost_promise
        return self._own_end if lost is None else max(self._own_end, lost[:2])

    @property
    def _own_end(self) -> tuple[int, int]:
        last = self._journal.last
        return last.term, last.raft_index

    def handle_reminder(self, node_id: int, reminder: PromiseReminder) -> None:
        """Compare what the leader remembers with the log; write down what is lost."""
        engine, journal = self._engine, self._journal
        is_asked = reminder.directory_id == self._own.directory_id and not engine.is_leading
        if not is_asked or reminder.term != engine.term or node_id != engine.leader_id:
            return
        known_term = journal.term_at(reminder.raft_index)
        is_in_snapshot = reminder.raft_index <= journal.first.raft_index
        is_known = known_term == reminder.entry_term or (known_term is not None and reminder.entry_term < 0)
        if is_in_snapshot or is_known:
            return  # The reminder is late: the entry has come meanwhile.
        if journal.lost_promise is None:
            log.warning(
                "The disk of this voter went back to an earlier copy: its metadata log ends at offset %d, and"
                " it had acknowledged more to node %d. It has no vote until it has all up to offset %d.",
                journal.last.end_offset,
                node_id,
                reminder.end_offset,
            )
        # A vote of this term may be lost, too: nobody else may get it.
        engine.vote_for_leader(node_id)
        lost = LostPromise(reminder.term, reminder.end_index, reminder.end_offset)
        journal.lose_promise(max(lost, journal.lost_promise or lost))
        self._confess(node_id)

    def _confess(self, node_id: int) -> None:
        self._told_term = self._engine.term
        lost, last = self._journal.lost_promise, self._journal.last
        assert lost is not None
        self._post(
            node_id,
            PromiseForgotten(
                term=self._engine.term,
                directory_id=self._own.directory_id,
                next_index=last.raft_index + 1,
                promised_term=lost.term,
                promised_index=lost.raft_index,
            ),
        )

    def look(self) -> None:
        """After a sync: give the vote back if the log on disk has everything, else tell a new leader."""
        journal, engine = self._journal, self._engine
        if journal.lost_promise is None:
            return
        if self.is_kept and not journal.is_dirty:
            log.warning(
                "This voter has its vote back: its metadata log has all that it had acknowledged, up to"
                " offset %d.",
                journal.last.end_offset,
            )
            journal.lose_promise(None)
        elif engine.leader_id not in (-1, engine.node_id) and self._told_term != engine.term:
            self._confess(engine.leader_id)
