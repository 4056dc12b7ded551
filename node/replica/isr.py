"""A leader's knowledge of its followers, and the high watermark and ISR that follow from it.

As in Apache Kafka, a follower is in sync if it has the whole log of the leader, or had it at some time in the
last `replica.lag.time.max.ms`. The controller commits every change of the ISR. Until then, a follower that is
to join counts already, and one that is to leave still counts (the *maximal* ISR, KIP-497): so the high
watermark is right whatever the controller decides. Pure: time and metadata are arguments.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode

UNKNOWN_OFFSET: Final = -1
UNKNOWN_BROKER_EPOCH: Final = -1
# A follower outside the ISR does not hold the high watermark back before it has caught up.
NEVER_MS: Final = -(2**62)

# (broker id, broker epoch of its fetch) -> True if the controller would accept it into an ISR.
Eligible = Callable[[int, int], bool]

# After these errors nothing was changed: the proposal was rejected, and its state is still the present one.
_NOT_APPLIED: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
# After these errors the metadata have changed, or will: the next change ends the proposal.
_OVERTAKEN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


class Follower:
    """The state of one follower, as its fetches report it."""

    __slots__ = (
        "broker_epoch",
        "is_damaged",
        "last_caught_up_ms",
        "last_fetch_leader_end_offset",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, *, last_caught_up_ms: int) -> None:
        self.log_start_offset = UNKNOWN_OFFSET
        self.log_end_offset = UNKNOWN_OFFSET
        self.last_fetch_leader_end_offset = UNKNOWN_OFFSET
        self.last_fetch_ms = 0
        self.last_caught_up_ms = last_caught_up_ms
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        self.is_damaged = False  # it has reported damaged batches in its log

    def fetched(
        self,
        *,
        offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        broker_epoch: int,
        now_ms: int,
        is_damaged: bool = False,
    ) -> None:
        """Record a fetch at `offset`: the follower has all records below it.

        The follower is caught up now if that is the leader's log end. If it is the log end at the time of its
        previous fetch, it was caught up then: behind a busy leader, a follower never reaches the present end.
        """
        if offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self.last_fetch_leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_start_offset = log_start_offset
        self.log_end_offset = offset
        self.last_fetch_leader_end_offset = max(leader_end_offset, self.last_fetch_leader_end_offset)
        self.last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch
        self.is_damaged = is_damaged

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= max_lag_ms


class IsrProposal(NamedTuple):
    """An ISR to request from the controller, as (broker id, broker epoch), and the epochs of its state."""

    isr: tuple[tuple[int, int], ...]
    leader_epoch: int
    partition_epoch: int
    damaged: tuple[int, ...] = ()  # members to remove because they lack acknowledged records

    @property
    def broker_ids(self) -> frozenset[int]:
        return frozenset(broker_id for broker_id, _ in self.isr)


class InSyncReplicas:
    """The followers of one partition during one leader epoch of this leader, and its ISR."""

    __slots__ = (
        "_leader_id",
        "_partition_epoch",
        "committed",
        "epoch_start_offset",
        "followers",
        "is_damaged",
        "leader_epoch",
        "maximal",
        "pending",
    )

    def __init__(
        self,
        *,
        leader_id: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: Sequence[int],
        in_sync_replicas: Sequence[int],
        leader_end_offset: int,
        now_ms: int,
    ) -> None:
        """Start a leader epoch without positions: those under another leader say nothing about this log."""
        self._leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.epoch_start_offset = leader_end_offset
        self.followers: dict[int, Follower] = {}
        self.committed: tuple[int, ...] = ()
        self.maximal: frozenset[int] = frozenset()
        self.pending: IsrProposal | None = None
        self.is_damaged = False  # the leader's own log has damaged batches
        self._partition_epoch = partition_epoch
        self._apply(partition_epoch, replicas, in_sync_replicas, now_ms)

    def update(
        self, *, partition_epoch: int, replicas: Sequence[int], in_sync_replicas: Sequence[int], now_ms: int
    ) -> None:
        """Apply new metadata of the same leader epoch, which end a pending proposal."""
        if partition_epoch >= self._partition_epoch:
            self._apply(partition_epoch, replicas, in_sync_replicas, now_ms)

    def _apply(
        self, partition_epoch: int, replicas: Sequence[int], in_sync_replicas: Sequence[int], now_ms: int
    ) -> None:
        self._partition_epoch = partition_epoch
        known = self.followers
        self.followers = {
            one: known.get(one) or Follower(last_caught_up_ms=now_ms if one in in_sync_replicas else NEVER_MS)
            for one in replicas
            if one != self._leader_id
        }
        self._commit(tuple(in_sync_replicas))

    def _commit(self, in_sync_replicas: tuple[int, ...]) -> None:
        self.committed = in_sync_replicas
        self.maximal = frozenset(in_sync_replicas)
        self.pending = None

    # ---- offsets from the followers' positions ----------------------------------------------------

    def safe_offset(self, leader_end_offset: int) -> int:
        """Return the offset below which the maximal ISR has all records; -1 if a member never fetched."""
        offset = leader_end_offset
        for replica_id in self.maximal:
            if replica_id != self._leader_id:
                follower = self.followers.get(replica_id)
                offset = min(offset, UNKNOWN_OFFSET if follower is None else follower.log_end_offset)
        return offset

    def high_watermark(
        self, leader_end_offset: int, *, now_ms: int, max_lag_ms: int, is_eligible: Eligible
    ) -> int:
        """Return the high watermark by the positions; the caller ignores it if it is below the present one.

        It also waits for a follower outside the ISR that was caught up lately and may join: on a busy
        partition such a follower might otherwise never reach the high watermark, and never join.
        """
        offset = leader_end_offset
        for replica_id, follower in self.followers.items():
            if follower.log_end_offset < offset and (
                replica_id in self.maximal
                or (
                    follower.is_caught_up(leader_end_offset, now_ms, max_lag_ms)
                    and is_eligible(replica_id, follower.broker_epoch)
                )
            ):
                offset = follower.log_end_offset
        return offset

    def low_watermark(self, leader_start_offset: int, is_alive: Callable[[int], bool]) -> int:
        """Return the offset below which no live replica has records; -1 while one has not fetched yet."""
        offset = leader_start_offset
        for replica_id, follower in self.followers.items():
            if follower.log_start_offset < offset and is_alive(replica_id):
                offset = follower.log_start_offset
        return offset

    # ---- changes of the ISR ----------------------------------------------------------------------

    def propose_expansion(
        self,
        replica_id: int,
        *,
        log_start_offset: int,
        high_watermark: int,
        own_broker_epoch: int,
        is_eligible: Eligible,
    ) -> IsrProposal | None:
        """Return the ISR to request with this follower, or None if it may not join yet.

        It must have all committed records, and the log up to the start of this leader epoch: below that,
        more may be committed than this leader knows. Since it may become leader, its log must not start
        before the leader's, nor have damaged batches.
        """
        follower = self.followers.get(replica_id)
        if self.pending is not None or replica_id in self.maximal or follower is None:
            return None
        if follower.log_end_offset < max(high_watermark, self.epoch_start_offset):
            return None
        if follower.log_start_offset < log_start_offset or follower.is_damaged:
            return None
        if not is_eligible(replica_id, follower.broker_epoch):
            return None
        proposal = self._proposal((*self.committed, replica_id), own_broker_epoch)
        self.maximal = proposal.broker_ids
        return proposal

    def propose_shrinking(
        self, leader_end_offset: int, *, now_ms: int, max_lag_ms: int, own_broker_epoch: int
    ) -> IsrProposal | None:
        """Return the ISR to request without the followers that lag or are damaged; None if there are none.

        They hold the high watermark back until the controller has agreed. A damaged leader keeps damaged
        followers: each may have records that another has lost.
        """
        if self.pending is not None:
            return None
        staying = tuple(
            one
            for one in self.committed
            if one == self._leader_id
            or (
                self._is_caught_up(one, leader_end_offset, now_ms, max_lag_ms)
                and (self.is_damaged or not self.followers[one].is_damaged)
            )
        )
        if len(staying) == len(self.committed):
            return None
        return self._proposal(staying, own_broker_epoch)

    def propose_leaving(
        self, leader_end_offset: int, *, now_ms: int, max_lag_ms: int, own_broker_epoch: int
    ) -> IsrProposal | None:
        """Return the ISR without this leader, whose log is damaged: the controller then elects another.

        None while no other member is both undamaged and caught up.
        """
        if self.pending is not None:
            return None
        staying = tuple(
            one
            for one in self.committed
            if one != self._leader_id
            and self._is_caught_up(one, leader_end_offset, now_ms, max_lag_ms)
            and not self.followers[one].is_damaged
        )
        return self._proposal(staying, own_broker_epoch) if staying else None

    @property
    def undamaged_count(self) -> int:
        """The number of members of the committed ISR that are not known to be damaged."""
        followers = self.followers
        damaged = sum(one in followers and followers[one].is_damaged for one in self.committed)
        return len(self.committed) - damaged - self.is_damaged

    def _is_caught_up(self, replica_id: int, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        follower = self.followers.get(replica_id)
        return follower is not None and follower.is_caught_up(leader_end_offset, now_ms, max_lag_ms)

    def _proposal(self, members: tuple[int, ...], own_broker_epoch: int) -> IsrProposal:
        isr = tuple(
            (one, own_broker_epoch if one == self._leader_id else self._broker_epoch_of(one))
            for one in members
        )
        damaged = tuple(one for one in self.committed if one not in members and self._is_damaged(one))
        self.pending = IsrProposal(isr, self.leader_epoch, self._partition_epoch, damaged)
        return self.pending

    def _is_damaged(self, replica_id: int) -> bool:
        if replica_id == self._leader_id:
            return self.is_damaged
        follower = self.followers.get(replica_id)
        return follower is not None and follower.is_damaged

    def _broker_epoch_of(self, replica_id: int) -> int:
        # Unknown for a follower that has not fetched yet. If it dies, the controller removes it by itself,
        # and rejects the proposal, which is based on the older state.
        follower = self.followers.get(replica_id)
        return UNKNOWN_BROKER_EPOCH if follower is None else follower.broker_epoch

    def resume(self, proposal: IsrProposal) -> bool:
        """Resume a proposal from before an interruption of leadership; return False if it is outdated."""
        is_ours = (proposal.leader_epoch, proposal.partition_epoch) == (
            self.leader_epoch,
            self._partition_epoch,
        )
        if is_ours:
            self.pending = proposal
            self.maximal |= proposal.broker_ids
        return is_ours

    def is_pending(self, proposal: IsrProposal) -> bool:
        return self.pending is proposal

    def settle(self, proposal: IsrProposal, error: ErrorCode) -> bool:
        """Apply the controller's answer to a proposal; return True if it has to be sent again.

        After NONE, the metadata of this node have the change already, and `update` has ended the proposal,
        unless nothing changed: then the proposed ISR is the committed one.
        """
        if self.pending is not proposal:
            return False
        if error is ErrorCode.NONE:
            self._commit(tuple(broker_id for broker_id, _ in proposal.isr))
            return False
        is_leaving = self._leader_id not in proposal.broker_ids
        if error in _NOT_APPLIED or (is_leaving and error is ErrorCode.INVALID_REQUEST):
            # A controller of an earlier version does not let a leader leave the ISR.
            self._commit(self.committed)
            return False
        return error not in _OVERTAKEN
