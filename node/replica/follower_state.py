"""The partitions of a follower: their next fetches, and the steps that their leader's answers demand.

Pure: it decides, and `follower_fetcher` carries out. As in Apache Kafka's fetcher, a log that diverged from
the leader's is cut until both agree (KIP-101, KIP-279, KIP-595); a position outside the leader's range is
resolved by asking for that range; a partition that cannot be served is retried after a pause; a fenced one
waits for the metadata.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from heapq import heappop, heappush
from typing import Final, NamedTuple

from ottla.logstore.leader_epoch_cache import EpochEndOffset
from ottla.logstore.words.errors import ErrorCode
from ottla.node.replica.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, MAX_EPOCH, NO_SESSION
from ottla.node.replica.partition import Partition
from ottla.node.wire.messages.fetch import (
    LEADER_SENT_DAMAGE,
    OWN_LOG_IS_DAMAGED,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

Key = tuple[bytes, int]  # topic id and partition, as in requests

FIRST_BACKOFF_MS: Final = 20  # of a partition; usually its new leader has not learnt yet that it leads
_MAX_DOUBLINGS: Final = 12


class Phase(Enum):
    """The state of a followed partition."""

    FETCHING = "fetching"
    LISTING_OFFSETS = "asking for the leader's offsets"
    DELAYED = "delayed"
    FAILED = "failed"  # until the metadata assign another leader or epoch


# All legal moves; a new leader or epoch creates a new `FollowedPartition`.
MOVES: Final = {
    Phase.FETCHING: frozenset({Phase.LISTING_OFFSETS, Phase.DELAYED, Phase.FAILED}),
    Phase.LISTING_OFFSETS: frozenset({Phase.FETCHING, Phase.DELAYED, Phase.FAILED}),
    Phase.DELAYED: frozenset({Phase.FETCHING, Phase.FAILED}),
    Phase.FAILED: frozenset(),
}


class Step(Enum):
    """The step that an answer for one partition demands."""

    APPEND = "append"
    TRUNCATE = "truncate"
    ASK_OFFSETS = "ask for the leader's offsets"
    RETRY = "retry"
    FAIL = "fail"


def step_for(data: PartitionData) -> Step:
    """Return the step that the answer to the latest request demands."""
    code = data.error_code
    if code == ErrorCode.NONE:
        # The offsets beside a divergence belong to a log from which ours still differs.
        return Step.TRUNCATE if data.diverging_epoch.epoch >= 0 else Step.APPEND
    if code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return Step.ASK_OFFSETS
    if code == ErrorCode.FENCED_LEADER_EPOCH:
        return Step.FAIL  # the leader knows a newer epoch, which the metadata will bring
    return Step.RETRY


def truncation_offset(
    leader: EpochEndOffset, own: EpochEndOffset, *, log_end_offset: int, high_watermark: int
) -> int:
    """Return the offset to which to cut a log that diverged from the leader's.

    `leader` is the leader's largest epoch at or below our last one, and its end offset there; `own` is the
    same for that epoch in our log. If our log does not have the epoch, it is cut to the end of the one
    before, and the next fetch asks again with that (KIP-279). If the leader has no such epoch, only committed
    records stay.
    """
    if leader.end_offset < 0:
        return min(high_watermark, log_end_offset)
    if own.leader_epoch < 0:
        return min(leader.end_offset, log_end_offset)
    if own.leader_epoch != leader.leader_epoch:
        return min(own.end_offset, log_end_offset)
    return min(own.end_offset, leader.end_offset, log_end_offset)


class Range(NamedTuple):
    """The start and end of a leader's log."""

    start_offset: int
    end_offset: int


class Reset(NamedTuple):
    """The offset at which a log outside its leader's range continues, and True if it starts empty there."""

    offset: int
    starts_empty: bool


def reset_for(leader: Range, own_end_offset: int) -> Reset:
    """Return the reset of a log that ends at `own_end_offset`.

    A log that ends beyond the leader's is cut to the leader's end, one that ends before the leader's starts
    is emptied, and one that ends within the range is kept.
    """
    if leader.end_offset < own_end_offset:
        return Reset(leader.end_offset, starts_empty=False)
    if leader.start_offset > own_end_offset:
        return Reset(leader.start_offset, starts_empty=True)
    return Reset(own_end_offset, starts_empty=False)


class FollowedPartition:
    """A partition followed under one leader epoch."""

    __slots__ = (
        "failures",
        "got_damage",
        "is_in_sync",
        "leader_epoch",
        "partition",
        "phase",
        "retry_at_ms",
        "wanted",
    )

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.phase = Phase.FETCHING
        self.failures = 0
        self.retry_at_ms = 0
        self.is_in_sync = False
        self.got_damage = False  # the last answer contained no whole batch
        self.wanted: FetchPartition | None = None  # None: to be made from the log at the next fetch

    @property
    def key(self) -> Key:
        return self.partition.topic_id, self.partition.topic_partition.partition

    def move(self, phase: Phase) -> None:
        if phase is not self.phase:
            assert phase in MOVES[self.phase], (
                f"a partition that is {self.phase.value} cannot be {phase.value}"
            )
            self.phase = phase

    def want(self, max_bytes: int) -> FetchPartition:
        """Return the request for this partition: the same object as long as nothing has changed."""
        if self.wanted is None:
            log = self.partition.log
            self.wanted = FetchPartition(
                partition=self.partition.topic_partition.partition,
                current_leader_epoch=self.leader_epoch,
                fetch_offset=log.log_end_offset,
                last_fetched_epoch=log.latest_epoch,
                log_start_offset=self.partition.durable_log_start,
                partition_max_bytes=max_bytes,
                damage=self.partition.damaged * OWN_LOG_IS_DAMAGED + self.got_damage * LEADER_SENT_DAMAGE,
            )
        return self.wanted

    def backoff_ms(self, max_backoff_ms: int, chance: float) -> int:
        """Return the next pause after a failure; `chance` is between 0 and 1."""
        backoff_ms = min(max_backoff_ms, FIRST_BACKOFF_MS * 2 ** min(self.failures, _MAX_DOUBLINGS))
        self.failures += 1
        return max(1, int(backoff_ms * (0.5 + chance / 2)))


class FetchBounds(NamedTuple):
    """The largest and smallest size of a response that a follower asks for, and its longest wait."""

    max_bytes: int  # replica.fetch.response.max.bytes
    min_bytes: int
    partition_max_bytes: int  # replica.fetch.max.bytes
    max_wait_ms: int


class FollowerFetches:
    """The fetches of one follower from one leader: its partitions, and their session (KIP-227).

    A request names only partitions that are new or have changed since the last one, so thousands of idle
    partitions cost nothing.
    """

    def __init__(self) -> None:
        self._partitions: dict[Key, FollowedPartition] = {}
        self._changed: dict[Key, None] = {}
        self._requested: dict[Key, FetchPartition] = {}  # the requests that the leader knows
        self._delayed: list[tuple[int, int, FollowedPartition]] = []  # a heap by time
        self._delays = 0
        self.session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[FollowedPartition]:
        return iter(self._partitions.values())

    # ---- partitions ------------------------------------------------------------------------------

    def add(self, partition: Partition) -> bool:
        """Follow a partition in its present leader epoch; False if that is done already."""
        followed = FollowedPartition(partition)
        known = self._partitions.get(followed.key)
        is_known = known is not None and known.partition is partition
        if known is not None and is_known and known.leader_epoch == followed.leader_epoch:
            return False
        self._partitions[followed.key] = followed
        self._changed[followed.key] = None
        return True

    def remove(self, key: Key) -> None:
        if self._partitions.pop(key, None) is not None:
            self._changed[key] = None

    def find(self, key: Key) -> FollowedPartition | None:
        """Return the partition if the leader's answer is to its present request; else None."""
        followed = self._partitions.get(key)
        if followed is None or followed.phase is not Phase.FETCHING or followed.wanted is None:
            return None
        return followed if self._requested.get(key) is followed.wanted else None

    def touch_key(self, key: Key) -> bool:
        """Name a partition in the next fetch again; False if it is not fetched at present."""
        followed = self._partitions.get(key)
        if followed is None:
            return False
        self.touch(followed)
        return followed.phase is Phase.FETCHING

    def holds(self, followed: FollowedPartition) -> bool:
        """Return True if the partition is still followed, under the same leader epoch."""
        return self._partitions.get(followed.key) is followed

    def touch(self, followed: FollowedPartition) -> None:
        """Request what comes next, since the log has changed."""
        followed.wanted = None
        self._changed[followed.key] = None

    def delay(self, followed: FollowedPartition, until_ms: int) -> None:
        """Leave a partition out until this time."""
        followed.move(Phase.DELAYED)
        followed.retry_at_ms = until_ms
        self._delays += 1
        heappush(self._delayed, (until_ms, self._delays, followed))
        self._changed[followed.key] = None

    def set_phase(self, followed: FollowedPartition, phase: Phase) -> None:
        followed.move(phase)
        self.touch(followed)

    def next_retry_ms(self) -> int | None:
        """Return the time at which the next delayed partition is due."""
        return self._delayed[0][0] if self._delayed else None

    def _release(self, now_ms: int) -> None:
        while self._delayed and self._delayed[0][0] <= now_ms:
            followed = heappop(self._delayed)[2]
            if self.holds(followed) and followed.phase is Phase.DELAYED and followed.retry_at_ms <= now_ms:
                self.set_phase(followed, Phase.FETCHING)

    # ---- the session -----------------------------------------------------------------------------

    def restart(self) -> None:
        """Name everything in the next request, since the connection or the session is lost."""
        self.session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._requested.clear()

    def next_request(
        self,
        *,
        replica_id: int,
        broker_epoch: int,
        bounds: FetchBounds,
        now_ms: int,
        must_wait: Callable[[FollowedPartition], bool] = lambda _: False,
    ) -> FetchRequest | None:
        """Return the next fetch, None if there is nothing to fetch. `must_wait` is True beyond a quota."""
        self._release(now_ms)
        if self._epoch == INITIAL_EPOCH:
            self._changed = dict.fromkeys(self._partitions)
        wanted: dict[bytes, list[FetchPartition]] = {}
        forgotten: dict[bytes, list[int]] = {}
        requested = self._requested
        changed, self._changed = self._changed, {}
        for key in changed:
            followed = self._partitions.get(key)
            if followed is not None and followed.phase is Phase.FETCHING and not must_wait(followed):
                want = followed.want(bounds.partition_max_bytes)
                if requested.get(key) is not want:
                    requested[key] = want
                    wanted.setdefault(key[0], []).append(want)
                continue
            if followed is not None and followed.phase is Phase.FETCHING:
                self._changed[key] = None  # checked again with the next request
            if requested.pop(key, None) is not None:
                forgotten.setdefault(key[0], []).append(key[1])
        if not requested and not forgotten:
            return None
        return FetchRequest(
            replica_state=ReplicaState(replica_id=replica_id, replica_epoch=broker_epoch),
            max_wait_ms=bounds.max_wait_ms,
            min_bytes=bounds.min_bytes,
            max_bytes=bounds.max_bytes,
            session_id=self.session_id,
            session_epoch=self._epoch,
            topics=[FetchTopic(topic_id=topic, partitions=those) for topic, those in wanted.items()],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic, partitions=those) for topic, those in forgotten.items()
            ],
        )

    def answered(self, response: FetchResponse) -> bool:
        """Continue the session; False if the leader ended it, and the response contains nothing."""
        if response.error_code:
            self.restart()
            return False
        if response.session_id == NO_SESSION:
            # The leader has no slot for a session: each request names everything.
            self._epoch = INITIAL_EPOCH
            return True
        self.session_id = response.session_id
        self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1
        return True

    def wake_request(self, *, replica_id: int, broker_epoch: int) -> FetchRequest | None:
        """Return a request that has the leader answer the waiting fetch; None without a session."""
        if self.session_id == NO_SESSION:
            return None
        return FetchRequest(
            replica_state=ReplicaState(replica_id=replica_id, replica_epoch=broker_epoch),
            session_id=self.session_id,
            session_epoch=FINAL_EPOCH,
        )
