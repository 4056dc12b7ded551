"""The guarantees of share groups, checked at the partitions' leaders after each turn of the loop.

A leader that has read the state of a share-partition begins a *term*. A `ShareWatch` checks what a leader
delivers and what the share coordinator answers. Besides, a record is held until its lock expires, its member
acknowledges it, its member's session ends, or the record is deleted; and a leader that reads the state knows
all that was written before. An older term may continue beside a newer one until its leader learns of that: it
serves its own members, but cannot write any more.

When the group's state is reset (its offsets are altered or deleted), the terms start again: what was done
before need not be known. A record that is set aside for its dead letter is finished for members like one
whose end is written.
"""

from copy import deepcopy
from typing import Final, NamedTuple

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.share.led_partition import LedPartition
from ottla.node.share.record_state import SET_ASIDE, TERMINAL, RecordState
from ottla.node.share.share_partition import SharePartition
from ottla.node.share.share_sessions import SessionKey, ShareSession, TopicIdPartition
from tests.share_watch import ShareWatch
from tests.simulation.share_history import ACCEPT, GAP, REJECT, RELEASE, RENEW, ShareHistory
from tests.simulation.share_traits import Traits
from tests.simulation.virtual_loop import Process, SimulationError
from tests.simulation.world import START_MS, VirtualNode, World

ACQUIRED: Final = int(RecordState.ACQUIRED)
ACKNOWLEDGED: Final = int(RecordState.ACKNOWLEDGED)
ARCHIVED: Final = int(RecordState.ARCHIVED)
AVAILABLE, WAITING = int(RecordState.AVAILABLE), int(RecordState.WAITING)
ARCHIVING, SPENT = int(RecordState.ARCHIVING), int(RecordState.SPENT)
ENDED: Final = frozenset(map(int, TERMINAL | SET_ASIDE))  # states that never lead to a delivery
CLOCK_MS: Final = 2  # the rounding difference of two clocks
# Five attempts with pauses of 1, 2, 4 and 8 seconds, each shortened by a fifth at most.
MIN_ATTEMPTS_MS: Final = 12_000


class Known(NamedTuple):
    """A record in flight, as its leader knows it."""

    state: int
    count: int
    holder: str | None
    time_ms: int
    transition: int

    @property
    def is_held(self) -> bool:
        return self.state == ACQUIRED


class Term:
    """The time of one leader of a share-partition since it read the state."""

    def __init__(self, node: VirtualNode, led: LedPartition, watch: ShareWatch) -> None:
        self.node = node
        self.led = led
        self.core: SharePartition = led.core
        self.partition: TopicPartition = led.partition.topic_partition
        self.watch = watch
        self.known: dict[int, Known] = {}
        self.first_start_offset = self.core.start_offset
        self.restored: set[int] = set()  # records that were finished when the state was read
        self.signature: object = None
        self.moves = 0  # number of state changes ever begun
        self.epoch: StateEpoch
        self.freed: dict[int, tuple[int, int]] = {}  # end of a failed delivery, and its count
        self.aside_ms: dict[int, int] = {}  # since when a record waits for its dead letter

    @property
    def name(self) -> str:
        return f"{self.node.process!r} in epoch {self.core.leader_epoch} of {self.partition}"

    def knows_finished(self, offset: int) -> bool:
        """Return True if the record is finished according to the state that this leader read."""
        return offset < self.first_start_offset or offset in self.restored


class StateEpoch:
    """The terms of a share-partition in one state epoch, and the records that are finished in it."""

    def __init__(self, watch: ShareWatch) -> None:
        self.watch = watch  # of the newest term
        self.terms: list[Term] = []
        self.done: set[int] = set()


class ShareInvariants:
    """The checks of one share group on all nodes of a world."""

    def __init__(
        self,
        world: World,
        history: ShareHistory,
        *,
        lock_ms: int,
        delivery_limit: int,
        traits: Traits = Traits(),
    ) -> None:
        self._world = world
        self._traits = traits
        self._history = history
        self._lock_ms = lock_ms
        self._delivery_limit = delivery_limit
        self._nodes = {node.host.name: node for node in world.nodes}
        # By state epoch and incarnation of the state: after a deletion any epoch may follow.
        self._state_epochs: dict[tuple[TopicPartition, int, int], StateEpoch] = {}
        self._incarnations: dict[TopicPartition, int] = {}
        self._resetting: set[TopicPartition] = set()  # whose state may be reset now
        self._in_doubt: set[TopicPartition] = set()  # whose state may be reset at any time
        self._wall_clocks: dict[Process, tuple[int, int]] = {}  # offset and latest reading of each wall clock
        self._failed_letters: dict[Process, int] = {}
        self._terms: dict[Process, dict[SharePartition, Term]] = {}
        self._sessions: dict[Process, dict[str, tuple[ShareSession, list[TopicIdPartition]]]] = {}
        self.terms = 0
        self._renewed_to_ms: dict[tuple[str, TopicPartition, int], int] = {}
        before = world.loop.after_turn

        def after_turn(touched: set[Process]) -> None:
            before(touched)
            for process in touched if len(touched) == 1 else sorted(touched, key=lambda one: one.name):
                self._after_turn_of(process)

        world.loop.after_turn = after_turn

    def is_done(self, partition: TopicPartition, offset: int) -> bool:
        """Return True if a leader may answer that a record is never delivered again."""
        for (name, _, _), epoch in self._state_epochs.items():
            if name == partition and (
                offset in epoch.done or any(offset < term.core.start_offset for term in epoch.terms)
            ):
                return True
        return False

    def note_renewal(self, member: str, partition: TopicPartition, offset: int, sent_s: float) -> None:
        """Note an answered renewal: the new lock began when the request was sent, or later."""
        self._renewed_to_ms[member, partition, offset] = int(sent_s * 1000) + self._lock_ms

    # ---- resets

    def reset_requested(self, partition: TopicPartition) -> None:
        """Note a reset under way: a leader that reads the state may find either one."""
        self._resetting.add(partition)

    def reset_rejected(self, partition: TopicPartition) -> None:
        self._resetting.discard(partition)

    def reset_in_doubt(self, partition: TopicPartition) -> None:
        """Note a reset without an answer, which may take effect at any later time."""
        self._in_doubt.add(partition)

    def reset_answered(self, partition: TopicPartition) -> None:
        self._resetting.discard(partition)
        self._incarnations[partition] = self._incarnations.get(partition, 0) + 1

    def _state_epoch_of(self, partition: TopicPartition, state_epoch: int, watch: ShareWatch) -> StateEpoch:
        """Return the known terms of a state, none if the state may have been reset."""
        may_be_reset = partition in self._resetting or partition in self._in_doubt
        incarnation = -1 - len(self._state_epochs) if may_be_reset else self._incarnations.get(partition, 0)
        return self._state_epochs.setdefault((partition, state_epoch, incarnation), StateEpoch(watch))

    def start_offset_at(self, node: VirtualNode, partition: TopicPartition) -> int:
        """Return the start offset in the memory of this node, -1 if it does not lead the partition."""
        if node.broker is None or not node.broker.view.has_services:
            return -1
        for led in node.broker.services.shares.share_partitions.values():
            is_partition = (
                led.partition.topic_partition == partition and led.core.key.group == self._history.group
            )
            if is_partition and led.core.is_active and led.partition.is_leader:
                return led.core.start_offset
        return -1

    # ---- nodes

    def _after_turn_of(self, process: Process) -> None:
        node = self._nodes.get(process.name)
        if node is None or node.process is not process or process.is_dead or node.broker is None:
            return
        if node.broker.quorum_services is None or not node.broker.view.has_services:
            return
        self._read_clock(node, process)
        shares, terms = node.broker.services.shares, self._terms.setdefault(process, {})
        led_now = shares.share_partitions
        if not led_now and not terms:
            return
        try:
            for led in led_now.values():
                if led.core.is_active and led.core.key.group == self._history.group:
                    term = terms.get(led.core)
                    if term is None:
                        term = terms[led.core] = self._begin(node, led)
                    self._check_term(term, process)
            for core, term in list(terms.items()):
                if led_now.get(core.key) is not term.led:
                    self._check_term(term, process)
                    if not any(one.transition for one in term.known.values()):
                        del terms[core]
            self._check_sessions(node, process)
            if self._traits.has_letters:
                self._failed_letters[process] = self._letters_failed_at(node)
        except SimulationError:
            raise
        except AssertionError as error:
            raise SimulationError(f"{process!r} {error}") from error

    def _read_clock(self, node: VirtualNode, process: Process) -> None:
        """Note the latest wall-clock time that a process can have seen."""
        loop_ms = START_MS + int(self._world.loop.now_s * 1000)
        ahead_ms, latest_ms = self._wall_clocks.get(process, (node.clock.offset_ms, 0))
        latest_ms = max(latest_ms, loop_ms + max(ahead_ms, node.clock.offset_ms))
        self._wall_clocks[process] = node.clock.offset_ms, latest_ms

    def _letters_failed_at(self, node: VirtualNode) -> int:
        """Return how many records a node has archived whose dead letters it could not write."""
        assert node.broker is not None
        return node.broker.services.shares.counters.dead_letters_of(self._history.group).failed_produces

    def _begin(self, node: VirtualNode, led: LedPartition) -> Term:
        self.terms += 1
        core, partition = led.core, led.partition.topic_partition
        watch = ShareWatch(lock_duration_ms=self._lock_ms, delivery_count_limit=self._delivery_limit)
        epoch = self._state_epoch_of(partition, core.state_epoch, watch)
        newest = epoch.terms[-1] if epoch.terms else None
        term = Term(node, led, watch)
        term.epoch = epoch
        self._world.trace("term", f"{term.name} from {core.start_offset}")
        for offset, one in _known(core).items():
            if one.state in ENDED:
                term.restored.add(offset)
                term.known[offset] = one
                term.aside_ms[offset] = int(self._world.loop.now_s * 1000)
        if newest is not None and core.leader_epoch < newest.core.leader_epoch:
            epoch.terms.insert(0, term)  # it read the state before the newest leader did
            return term
        forgotten = [offset for offset in sorted(epoch.done) if not term.knows_finished(offset)]
        if forgotten:
            raise SimulationError(f"{term.name} does not know that {forgotten[:9]} are finished")
        if newest is not None:
            newest.watch = deepcopy(epoch.watch)
        term.watch = epoch.watch
        term.watch.leader_changed(core.start_offset)
        epoch.terms.append(term)
        return term

    # ---- sessions

    def _check_sessions(self, node: VirtualNode, process: Process) -> None:
        """Check that a member without a session, whose connection was closed, holds no records."""
        assert node.broker is not None
        shares, before = node.broker.services.shares, self._sessions.get(process, {})
        now: dict[str, tuple[ShareSession, list[TopicIdPartition]]] = {}
        for term in self._terms[process].values():
            for one in term.known.values():
                if one.holder is None or one.holder in now:
                    continue
                session = shares.sessions.find(SessionKey(self._history.group, one.holder))
                if session is not None:
                    now[one.holder] = session, list(session.partitions)
        for member, (session, places) in before.items():
            is_over = shares.sessions.find(session.key) is None
            if not is_over or shares._is_open(session.connection_number) or node.is_stopping:
                continue
            for term in self._terms[process].values():
                if (
                    term.led.is_gone
                    or term.led.topic_id_partition not in places
                    or term.moves != term.core._number
                ):
                    continue  # another change is under way, perhaps of these records
                held = [at for at, one in term.known.items() if one.is_held and one.holder == member]
                if held:
                    raise SimulationError(f"{term.name}: {member} has no session, and holds {held[:9]}")
        self._sessions[process] = now
        for term in self._terms[process].values():
            term.moves = term.core._number

    def _has_lost_session(self, process: Process, node: VirtualNode, member: str) -> bool:
        assert node.broker is not None
        session = node.broker.services.shares.sessions.find(SessionKey(self._history.group, member))
        before = self._sessions.get(process, {}).get(member)
        return session is None or before is None or before[0] is not session

    # ---- leaders

    def _check_term(self, term: Term, process: Process) -> None:
        core = term.core
        records = core._window.records
        signature = (
            core.start_offset,
            bytes(records.states),
            records.lasts.tobytes(),
            records.counts.tobytes(),
            records.times_ms.tobytes(),
            records.transitions.tobytes(),
        )
        if signature == term.signature:
            return
        term.signature = signature
        before, now = term.known, _known(core)
        term.known = now
        for offset in sorted(before.keys() | now.keys()):
            old, new = before.get(offset), now.get(offset)
            if old != new:
                self._moved(term, process, offset, old, new)
        term.watch.start_offset(core.start_offset)

    def _moved(self, term: Term, process: Process, offset: int, old: Known | None, new: Known | None) -> None:
        now_ms = int(self._world.loop.now_s * 1000)
        if old is not None and new is not None and was_taken_back(old, new, now_ms):
            # Between the two moves of this turn its member held it again.
            held = old._replace(state=ACQUIRED, transition=0)
            self._moved(term, process, offset, old, held)
            self._moved(term, process, offset, held, new)
            return
        is_same = old is not None and new is not None and (old.holder, old.count) == (new.holder, new.count)
        if old is not None and old.is_held:
            if not is_same or new is None or not new.is_held:
                self._hold_ended(term, process, offset, old, new, now_ms)
            elif new.time_ms != old.time_ms:
                self._renewed(term, offset, new, now_ms)
        if old is not None and old.transition and (new is None or new.transition != old.transition):
            self._answered(term, offset, old, new)
        was_aside = old is not None and old.state in SET_ASIDE
        if was_aside and (new is None or new.state == ARCHIVED):
            self._letter_ended(term, process, offset, now_ms)
        if new is not None and new.state in SET_ASIDE and not was_aside:
            term.aside_ms[offset] = now_ms
        if new is not None and new.is_held and not is_same:
            self._acquired(term, offset, old, new, now_ms)

    def _letter_ended(self, term: Term, process: Process, offset: int, now_ms: int) -> None:
        """Check a record that was set aside and is archived: with a dead letter, or after many attempts."""
        since_ms = term.aside_ms.pop(offset)
        if self._letters_failed_at(term.node) == self._failed_letters.get(process, 0):
            self._history.note_letter(term.partition, offset)
            self._done(term, offset)
            return
        if now_ms - since_ms < MIN_ATTEMPTS_MS:
            raise SimulationError(
                f"{term.name}: {offset} is archived without a dead letter after {now_ms - since_ms} ms"
            )
        self._history.note_letter_failed(term.partition, offset)

    def _renewed(self, term: Term, offset: int, new: Known, now_ms: int) -> None:
        assert new.holder is not None
        if RENEW not in self._history.types_sent_by(new.holder, term.partition, offset):
            raise SimulationError(f"{term.name}: the lock of {offset} is renewed without a request")
        term.watch.renewed(new.holder, offset, offset, now_ms)

    def _acquired(self, term: Term, offset: int, old: Known | None, new: Known, now_ms: int) -> None:
        assert new.holder is not None
        before = 0 if old is None else old.count
        if new.count <= before:
            raise SimulationError(
                f"{term.name}: {offset} is delivered to {new.holder} with count {new.count}, after {before}"
            )
        freed_ms, failed_count = term.freed.pop(offset, (0, 0))
        wait_ms = self._traits.wait_ms(failed_count) if failed_count else 0
        if now_ms + CLOCK_MS < freed_ms + wait_ms:
            raise SimulationError(
                f"{term.name}: {offset} is delivered {now_ms - freed_ms} ms after delivery {failed_count},"
                f" before its back-off of {wait_ms} ms is over"
            )
        log_start_offset = term.led.partition.log.log_start_offset
        if offset < log_start_offset:
            raise SimulationError(
                f"{term.name}: {offset} is delivered, although the log starts at {log_start_offset}"
            )
        try:
            term.watch.acquired(new.holder, offset, offset, new.count, now_ms)
        except AssertionError as error:
            raise SimulationError(f"{term.name}: {error}") from error
        is_last = new.count >= self._delivery_limit
        process = term.node.process
        wall_ms = self._wall_clocks[process][1] if process in self._wall_clocks else 0
        self._history.note_delivery(
            new.holder, term.partition, offset, new.count, is_last=is_last, wall_ms=wall_ms
        )

    def _hold_ended(
        self, term: Term, process: Process, offset: int, old: Known, new: Known | None, now_ms: int
    ) -> None:
        """Check that there is a reason for the end of a hold."""
        member = old.holder
        assert member is not None
        hold = term.watch.hold_of(offset)
        assert hold is not None and hold.member == member, (offset, hold, old)
        is_gone = offset < term.led.partition.log.log_start_offset
        until_ms = max(hold.until_ms, self._renewed_to_ms.get((member, term.partition, offset), 0))
        is_over = until_ms <= now_ms or is_gone
        sent_types = self._history.types_sent_by(member, term.partition, offset)
        is_released = RELEASE in sent_types or self._has_lost_session(process, term.node, member)
        is_last = old.count >= self._delivery_limit
        state = ARCHIVED if new is None else new.state
        if state in (AVAILABLE, WAITING) or (new is not None and new.is_held):
            term.freed[offset] = now_ms, old.count
        if state == ACKNOWLEDGED:
            has_reason = ACCEPT in sent_types
        elif state == ARCHIVING:
            has_reason = REJECT in sent_types
        elif state == SPENT:
            has_reason = is_released and is_last
        elif new is None:
            has_reason = bool(sent_types & {ACCEPT, REJECT, GAP}) or (is_released and is_last)
        elif state == ARCHIVED:
            has_reason = bool(sent_types & {REJECT, GAP}) or (is_released and is_last)
            if self._traits.has_letters and not is_gone and GAP not in sent_types:
                raise SimulationError(f"{term.name}: {offset} is archived without a dead letter: {old}")
        else:
            has_reason = is_released
        if not has_reason and not is_over:
            raise SimulationError(
                f"{term.name}: {offset} is {old} until {until_ms}, and at {now_ms} it is {new};"
                f" {member} sent {sorted(sent_types)}"
            )
        if has_reason and not (is_over and is_last) and (new is None or not new.transition):
            # Requested and written within one turn, as on a node that is its own coordinator.
            if new is None or new.state in ENDED:
                self._done(term, offset, is_accepted=state == ACKNOWLEDGED)
            elif not is_over:
                term.watch.released(offset, offset, old.count)

    def _answered(self, term: Term, offset: int, old: Known, new: Known | None) -> None:
        """Note the coordinator's answer to a change, which is now written or withdrawn."""
        if new is not None and new.is_held and new.count == old.count:
            return
        if old.state not in ENDED:
            if new is not None:
                term.watch.released(offset, offset, old.count)
            return
        if new is not None and new.state not in ENDED:
            raise SimulationError(f"{term.name}: {offset} was {old}, and is {new}")
        if new is None or not new.transition:
            self._done(term, offset, is_accepted=old.state == ACKNOWLEDGED)

    def _done(self, term: Term, offset: int, *, is_accepted: bool = False) -> None:
        """Note that the coordinator has written a record as finished."""
        if is_accepted:
            self._history.note_accepted(term.partition, offset)
        epoch = term.epoch
        epoch.done.add(offset)
        term.watch.done(offset, offset)
        later = epoch.terms[epoch.terms.index(term) + 1 :]
        for one in later:
            is_newer = one.core.leader_epoch >= term.core.leader_epoch
            if is_newer and not one.knows_finished(offset):
                raise SimulationError(
                    f"{term.name} wrote {offset} as finished, which {one.name} does not know"
                )
        if later:
            epoch.watch.done(offset, offset)


def was_taken_back(old: Known, new: Known, now_ms: int) -> bool:
    """Return True if in one turn the coordinator rejected a move, and the hold then ended in another way."""
    if not old.transition or new.is_held or new.count != old.count:
        return False
    if new.transition:
        return new.transition != old.transition and new.holder == old.holder
    # A record whose end is written has no transition either, but keeps its state.
    is_freed = new.state in (AVAILABLE, WAITING, SPENT) and new.state != old.state
    return is_freed and old.state in ENDED and old.time_ms <= now_ms


def _known(core: SharePartition) -> dict[int, Known]:
    records = core._window.records
    known: dict[int, Known] = {}
    for index, first in enumerate(records.firsts):
        one = Known(
            records.states[index],
            records.counts[index],
            records.holders[index],
            records.times_ms[index],
            records.transitions[index],
        )
        known.update(dict.fromkeys(range(first, records.lasts[index] + 1), one))
    return known
