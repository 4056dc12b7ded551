"""A follower's partitions: where each fetches on, and what an answer of its leader makes it do.

Pure: it decides, `follower_fetcher` carries out. As Apache Kafka's fetcher: whoever parted from the leader's
log cuts until they agree (KIP-101, KIP-279, KIP-595); whoever is out of the leader's range asks where that
lies; whoever cannot be served tries again after a pause; whoever is fenced waits for the metadata.
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

Key = tuple[bytes, int]  # topic id and partition, as they stand in requests

FIRST_BACKOFF_MS: Final = 20  # of a partition; mostly its new leader just has to hear that it is one
_MAX_DOUBLINGS: Final = 12


class Phase(Enum):
    """What a partition of a follower is about."""

    FETCHING = "fetching"
    ASKING = "asking where the leader's log lies"
    DELAYED = "delayed"
    FAILED = "failed"  # until the metadata give it another leader or epoch


# Every legal move; a new leader or epoch makes a new `FollowedPartition`.
MOVES: Final = {
    Phase.FETCHING: frozenset({Phase.ASKING, Phase.DELAYED, Phase.FAILED}),
    Phase.ASKING: frozenset({Phase.FETCHING, Phase.DELAYED, Phase.FAILED}),
    Phase.DELAYED: frozenset({Phase.FETCHING, Phase.FAILED}),
    Phase.FAILED: frozenset(),
}


class Step(Enum):
    """What an answer for one partition asks for."""

    APPEND = "append"
    TRUNCATE = "truncate"
    ASK_OFFSETS = "ask for the leader's offsets"
    RETRY = "retry"
    FAIL = "fail"


def step_for(data: PartitionData) -> Step:
    """What to do with an answer to what was asked last."""
    code = data.error_code
    if code == ErrorCode.NONE:
        # The offsets that come with a divergence hold for another log than ours still is.
        return Step.TRUNCATE if data.diverging_epoch.epoch >= 0 else Step.APPEND
    if code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return Step.ASK_OFFSETS
    if code == ErrorCode.FENCED_LEADER_EPOCH:
        return Step.FAIL  # the leader knows a newer epoch, of which the metadata will tell us
    return Step.RETRY


def truncation_offset(
    leader: EpochEndOffset, own: EpochEndOffset, *, log_end_offset: int, high_watermark: int
) -> int:
    """Where to cut a log that parted from the leader's.

    `leader` is the largest epoch of the leader's at or below our last one, and where it ended there; `own` is
    the same of our log for that epoch. If we do not know it, we cut to the end of the one before, and ask
    again with that (KIP-279).
    """
    if leader.end_offset < 0:
        return min(high_watermark, log_end_offset)
    if own.leader_epoch < 0:
        return min(leader.end_offset, log_end_offset)
    if own.leader_epoch != leader.leader_epoch:
        return min(own.end_offset, log_end_offset)
    return min(own.end_offset, leader.end_offset, log_end_offset)


class Range(NamedTuple):
    """Where a leader's log begins and ends."""

    start_offset: int
    end_offset: int


class Reset(NamedTuple):
    """Where an own log that is out of the leader's range goes on, and whether it begins anew there."""

    offset: int
    begins_anew: bool


def reset_for(leader: Range, own_end_offset: int) -> Reset:
    """A log beyond the leader's end is cut to it; one before its start is dropped; else the range was old."""
    if leader.end_offset < own_end_offset:
        return Reset(leader.end_offset, begins_anew=False)
    if leader.start_offset > own_end_offset:
        return Reset(leader.start_offset, begins_anew=True)
    return Reset(own_end_offset, begins_anew=False)


class FollowedPartition:
    """One partition under one leader epoch."""

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
        self.got_damage = False  # the last answer held no whole batches
        self.wanted: FetchPartition | None = None  # None: to be made from the log as it is then

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
        """What to ask for: the same object for as long as nothing has changed."""
        if self.wanted is None:
            log = self.partition.log
            self.wanted = FetchPartition(
                partition=self.partition.topic_partition.partition,
                current_leader_epoch=self.leader_epoch,
                fetch_offset=log.log_end_offset,
                last_fetched_epoch=log.latest_epoch,
                log_start_offset=self.partition.kept_log_start,
                partition_max_bytes=max_bytes,
                damage=self.partition.damaged * OWN_LOG_IS_DAMAGED + self.got_damage * LEADER_SENT_DAMAGE,
            )
        return self.wanted

    def backoff_ms(self, max_backoff_ms: int, chance: float) -> int:
        """The next pause after a failure; `chance` is between 0 and 1."""
        backoff_ms = min(max_backoff_ms, FIRST_BACKOFF_MS * 2 ** min(self.failures, _MAX_DOUBLINGS))
        self.failures += 1
        return max(1, int(backoff_ms * (0.5 + chance / 2)))


class FetchBounds(NamedTuple):
    """What a follower asks for at most, at least, and for how long it lets the leader wait."""

    max_bytes: int  # replica.fetch.response.max.bytes
    min_bytes: int
    partition_max_bytes: int  # replica.fetch.max.bytes
    max_wait_ms: int


class FollowerFetches:
    """The fetches of one follower from one leader: its partitions, and the session over them (KIP-227).

    A request names what is new or has changed since the last one, so thousands of idle partitions cost
    nothing.
    """

    def __init__(self) -> None:
        self._partitions: dict[Key, FollowedPartition] = {}
        self._changed: dict[Key, None] = {}
        self._told: dict[Key, FetchPartition] = {}  # what the leader takes us to want
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
        """Follow it in its present leader epoch; False if that is done already."""
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

    def find(self, key: Key, answered: FetchPartition | None = None) -> FollowedPartition | None:
        """The partition if what the leader has answered is still what we want."""
        followed = self._partitions.get(key)
        if followed is None or followed.phase is not Phase.FETCHING:
            return None
        return followed if followed.wanted is not None and self._told.get(key) is followed.wanted else None

    def touch_key(self, key: Key) -> bool:
        """Tell the leader anew of a partition, with the next fetch; False if it is not fetched now."""
        followed = self._partitions.get(key)
        if followed is None:
            return False
        self.touch(followed)
        return followed.phase is Phase.FETCHING

    def holds(self, followed: FollowedPartition) -> bool:
        """Whether it is followed still, under the same leader epoch."""
        return self._partitions.get(followed.key) is followed

    def touch(self, followed: FollowedPartition) -> None:
        """Its log has changed: ask for what comes next."""
        followed.wanted = None
        self._changed[followed.key] = None

    def delay(self, followed: FollowedPartition, until_ms: int) -> None:
        """Leave it out until then."""
        followed.move(Phase.DELAYED)
        followed.retry_at_ms = until_ms
        self._delays += 1
        heappush(self._delayed, (until_ms, self._delays, followed))
        self._changed[followed.key] = None

    def set_phase(self, followed: FollowedPartition, phase: Phase) -> None:
        followed.move(phase)
        self.touch(followed)

    def next_retry_ms(self) -> int | None:
        """When the next delayed partition is due."""
        return self._delayed[0][0] if self._delayed else None

    def _release(self, now_ms: int) -> None:
        while self._delayed and self._delayed[0][0] <= now_ms:
            followed = heappop(self._delayed)[2]
            if self.holds(followed) and followed.phase is Phase.DELAYED and followed.retry_at_ms <= now_ms:
                self.set_phase(followed, Phase.FETCHING)

    # ---- the session -----------------------------------------------------------------------------

    def restart(self) -> None:
        """The connection or the session is lost: the next request tells everything."""
        self.session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._told.clear()

    def next_request(
        self,
        *,
        replica_id: int,
        broker_epoch: int,
        bounds: FetchBounds,
        now_ms: int,
        must_wait: Callable[[FollowedPartition], bool] = lambda _: False,
    ) -> FetchRequest | None:
        """The next fetch, None while there is nothing to fetch. `must_wait`: of those beyond their quota."""
        self._release(now_ms)
        if self._epoch == INITIAL_EPOCH:
            self._changed = dict.fromkeys(self._partitions)
        wanted: dict[bytes, list[FetchPartition]] = {}
        forgotten: dict[bytes, list[int]] = {}
        told = self._told
        changed, self._changed = self._changed, {}
        for key in changed:
            followed = self._partitions.get(key)
            if followed is not None and followed.phase is Phase.FETCHING and not must_wait(followed):
                want = followed.want(bounds.partition_max_bytes)
                if told.get(key) is not want:
                    told[key] = want
                    wanted.setdefault(key[0], []).append(want)
                continue
            if followed is not None and followed.phase is Phase.FETCHING:
                self._changed[key] = None  # looked at again with the next request
            if told.pop(key, None) is not None:
                forgotten.setdefault(key[0], []).append(key[1])
        if not told and not forgotten:
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
        """Take the session over; False if the leader does not go on with it, and the answer holds nothing."""
        if response.error_code:
            self.restart()
            return False
        if response.session_id == NO_SESSION:
            # No slot is to be had: each request tells everything.
            self._epoch = INITIAL_EPOCH
            return True
        self.session_id = response.session_id
        self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1
        return True

    def wake_request(self, *, replica_id: int, broker_epoch: int) -> FetchRequest | None:
        """What has the leader answer the fetch that waits there; None where there is no session."""
        if self.session_id == NO_SESSION:
            return None
        return FetchRequest(
            replica_state=ReplicaState(replica_id=replica_id, replica_epoch=broker_epoch),
            session_id=self.session_id,
            session_epoch=FINAL_EPOCH,
        )
