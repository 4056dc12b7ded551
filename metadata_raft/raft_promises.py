"""Handles a voter whose disk was restored to an earlier state: when it may not vote, and when it may again.

A promise of a voter is a vote or an acknowledgement. A restored disk may lack entries that the voter had
acknowledged, and committed entries depend on them. This is detected in two ways. The voter itself sees at its
start that its directory is a copy: then it does not know its promises since the copy was made, so its votes
and acknowledgements say so (`copy_id`), and count only if all voters agree. Or the leader remembers the last
entry that each voter acknowledged in its term, and reminds a voter whose log ends before it.

In both cases the leader sends the voter, as soon as that is safe, the end of its own log: the voter cannot
have acknowledged anything after it. The voter records that end, and from then on compares candidates with it
as if its log ended there. It does not stand for election itself until its log reaches that end. So it behaves
like a voter that acknowledged the entries and then was silent, which Raft allows at any time, and all commits
stay valid.
"""

import logging
from collections.abc import Callable

from ottla.metadata_raft.quorum_state import LostPromise
from ottla.metadata_raft.raft_journal import RaftJournal
from ottla.metadata_raft.raft_messages import PromiseForgotten, PromiseReminder, RaftMessage
from ottla.metadata_raft.raft_node import RaftEngine
from ottla.metadata_raft.voters import Voter

log = logging.getLogger(__name__)


class Promises:
    """The promises of this voter; `post(node_id, message)` queues a message to send after the next sync."""

    def __init__(
        self,
        own: Voter,
        engine: RaftEngine,
        journal: RaftJournal,
        *,
        copy_id: int,
        post: Callable[[int, RaftMessage], None],
    ) -> None:
        self._own = own
        self._engine = engine
        self._journal = journal
        self._post = post
        self._reported_term = 0  # the term in which the leader was notified that this disk was restored
        self._copy_id = copy_id  # different at each start, never 0
        if journal.is_copied:
            log.warning(
                "The data directory of this voter is a copy: it was moved, or "
                "restored from a backup, and may lack changes that the voter had "
                "acknowledged. It cannot vote until it has received the metadata "
                "from a leader that most of the other voters follow, or until all "
                "voters are running. This happens by itself. Only if too many other "
                "voters are lost for good, and this voter never ran elsewhere after "
                "the copy was made, stop it and run `ottla quorum trust-copy` with "
                "its data directory."
            )

    @property
    def copy_id(self) -> int:
        """The id of this start while the directory is a copy; 0 if the voter knows its promises."""
        return self._copy_id if self._journal.is_copied else 0

    @property
    def is_kept(self) -> bool:
        """True if the log has everything that this voter is known to have acknowledged."""
        lost = self._journal.lost_promise
        return lost is None or self._own_end >= lost[:2]

    @property
    def end(self) -> tuple[int, int]:
        """The (term, index) that a candidate's log must reach to get this voter's vote."""
        lost = self._journal.lost_promise
        return self._own_end if lost is None else max(self._own_end, lost[:2])

    @property
    def _own_end(self) -> tuple[int, int]:
        last = self._journal.last
        return last.term, last.raft_index

    def handle_reminder(self, node_id: int, reminder: PromiseReminder) -> None:
        """Compare the leader's reminder with the log, and record the end of lost entries."""
        engine, journal = self._engine, self._journal
        is_asked = reminder.directory_id == self._own.directory_id and not engine.is_leading
        if not is_asked or reminder.term != engine.term or node_id != engine.leader_id:
            return
        if reminder.of_copy_id != self.copy_id:
            return  # It is late, or it covers one promise, while this voter knows none of its promises.
        if journal.is_copied:
            journal.own_directory()
            log.info(
                "Node %d leads the metadata quorum and knows what this voter may "
                "have acknowledged: the voter can vote again once its metadata log "
                "reaches offset %d.",
                node_id,
                reminder.end_offset,
            )
        elif self._is_known(reminder):
            return  # The reminder is late: the entry has arrived meanwhile.
        elif journal.lost_promise is None:
            log.warning(
                "The disk of this voter was restored to an earlier state: its "
                "metadata log ends at offset %d, but it had acknowledged more to "
                "node %d. It cannot vote until it has everything up to offset %d.",
                journal.last.end_offset,
                node_id,
                reminder.end_offset,
            )
        # A vote in this term may be lost, too, so no other candidate may get one.
        engine.vote_for_leader(node_id)
        lost = LostPromise(reminder.term, reminder.end_index, reminder.end_offset)
        journal.lose_promise(max(lost, journal.lost_promise or lost))
        self._report_forgotten(node_id)

    def _is_known(self, reminder: PromiseReminder) -> bool:
        known_term = self._journal.term_at(reminder.raft_index)
        is_in_snapshot = reminder.raft_index <= self._journal.first.raft_index
        is_entry = known_term == reminder.entry_term or (known_term is not None and reminder.entry_term < 0)
        return is_in_snapshot or is_entry

    def _report_forgotten(self, node_id: int) -> None:
        self._reported_term = self._engine.term
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

    def own_directory(self) -> None:
        """Note on a leader with a copied directory that it has everything it promised, as others proved."""
        self._journal.own_directory()
        log.warning("This voter can vote again: its copied directory has everything that any voter has.")

    def look(self) -> None:
        """After a sync, allow votes again if the log has everything; else send the report to a new leader."""
        journal, engine = self._journal, self._engine
        if journal.lost_promise is None or journal.is_copied:
            return
        if self.is_kept and not journal.is_dirty:
            log.warning(
                "This voter can vote again: its metadata log has everything that it "
                "had acknowledged, up to offset %d.",
                journal.last.end_offset,
            )
            journal.lose_promise(None)
        elif engine.leader_id not in (-1, engine.node_id) and self._reported_term != engine.term:
            self._report_forgotten(engine.leader_id)
