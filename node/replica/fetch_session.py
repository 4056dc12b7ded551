"""Incremental fetch sessions (KIP-227): a client names its partitions once and then only what changed.

A session is created by a full fetch (epoch 0), goes on with epoch 1, 2, ... and is ended by a fetch with
epoch -1 or by one that starts anew. The cache has a fixed number of slots: a session gives way when it was
not used for `min.incremental.fetch.session.eviction.ms`, or when it has had its slot for that long and a
larger one (or a follower's) wants it. A client without a slot just goes on with full fetches.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from logstore.errors import ErrorCode, KafkaError
from node.wire.messages.fetch import FetchPartition, ForgottenTopic, PartitionData

NO_SESSION = 0
INITIAL_EPOCH = 0  # of a fetch that wants a session
FINAL_EPOCH = -1  # of a fetch that wants none, or ends one
MAX_EPOCH = 2**31 - 1

# A topic as the client named it: by name up to version 12, by id from 13 on.
TopicKey = str | bytes
PartitionKey = tuple[TopicKey, int]


class FetchItem(NamedTuple):
    """One partition of a fetch: how the client names the topic, and what it asks."""

    topic: TopicKey
    wanted: FetchPartition

    @property
    def key(self) -> PartitionKey:
        return self.topic, self.wanted.partition


class CachedPartition:
    """What a session remembers of a partition: the client's last wish and what it was told last.

    `topic_name` is what the topic was called when it was last found, None if it never was: who names a topic
    by its id hears what became of the name once the id is gone.
    """

    __slots__ = ("high_watermark", "item", "log_start_offset", "topic_name")

    def __init__(self, item: FetchItem) -> None:
        self.item = item
        self.topic_name: str | None = None
        self.high_watermark = -1
        self.log_start_offset = -1

    def must_tell(self, data: PartitionData, size_bytes: int) -> bool:
        """Whether the client has to hear of the partition; remembers what it is told."""
        is_failed = data.error_code != 0 or data.diverging_epoch.epoch >= 0
        tell = (
            is_failed
            or size_bytes > 0
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.log_start_offset
        )
        # After an error the client must hear when things are well again, whatever the offsets are then.
        self.high_watermark = -1 if is_failed else data.high_watermark
        self.log_start_offset = data.log_start_offset
        return tell


@dataclass(slots=True, eq=False)
class FetchSession:
    """The partitions of one client, in the order in which they are to be read next."""

    session_id: int
    uses_topic_ids: bool
    is_privileged: bool  # a follower's
    created_ms: int
    last_used_ms: int
    epoch: int = 1
    partitions: dict[PartitionKey, CachedPartition] = field(default_factory=dict)

    def update(self, items: Iterable[FetchItem], forgotten: Sequence[ForgottenTopic]) -> None:
        """Take the client's changes over. A partition that is both changed and forgotten is forgotten."""
        partitions = self.partitions
        for item in items:
            cached = partitions.get(item.key)
            if cached is None:
                partitions[item.key] = CachedPartition(item)
            else:
                cached.item = item
        for topic in forgotten:
            name = topic.topic_id if self.uses_topic_ids else topic.topic
            for index in topic.partitions:
                partitions.pop((name, index), None)

    def move_to_end(self, key: PartitionKey) -> None:
        """A partition that gave records is read last next time, so that none starves behind `max_bytes`."""
        self.partitions[key] = self.partitions.pop(key)


class FetchSessionCache:
    """All sessions of a node."""

    def __init__(self, *, max_slots: int, eviction_ms: int, random_id: Callable[[], int]) -> None:
        """`random_id` gives ids of 1 to 2^31 - 1; a client cannot guess those of others."""
        self._max_slots = max_slots
        self._eviction_ms = eviction_ms
        self._random_id = random_id
        self._sessions: dict[int, FetchSession] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def remove(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def resume(self, session_id: int, epoch: int, *, uses_topic_ids: bool) -> FetchSession:
        """The session that an incremental fetch goes on with.

        FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR otherwise.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return session

    def advance(self, session: FetchSession, now_ms: int) -> None:
        """The fetch is accepted: the next one has the next epoch. A session without partitions ends."""
        if not session.partitions:
            self.remove(session.session_id)
            return
        session.last_used_ms = now_ms
        session.epoch = 1 if session.epoch == MAX_EPOCH else session.epoch + 1

    def create(
        self, items: Sequence[FetchItem], *, uses_topic_ids: bool, is_privileged: bool, now_ms: int
    ) -> FetchSession | None:
        """A new session over these partitions, None if no slot is to be had."""
        if len(self._sessions) >= self._max_slots and not self._evict(len(items), is_privileged, now_ms):
            return None
        session_id = self._random_id()
        while session_id in self._sessions:
            session_id = self._random_id()
        session = FetchSession(session_id, uses_topic_ids, is_privileged, now_ms, now_ms)
        session.update(items, ())
        self._sessions[session_id] = session
        return session

    def _evict(self, size: int, is_privileged: bool, now_ms: int) -> bool:
        """Free a slot for a session of `size` partitions if one of the others is worth less."""
        if not self._sessions:
            return False
        stalest = min(self._sessions.values(), key=lambda session: session.last_used_ms)
        if now_ms - stalest.last_used_ms > self._eviction_ms:
            victim = stalest
        else:
            evictable = [
                session
                for session in self._sessions.values()
                if now_ms - session.created_ms > self._eviction_ms
                or (is_privileged and not session.is_privileged)
            ]
            if not evictable:
                return False
            victim = min(evictable, key=_worth)
            if (is_privileged, size) < (victim.is_privileged, len(victim.partitions)):
                return False
        self.remove(victim.session_id)
        self.evictions += 1
        return True


def _worth(session: FetchSession) -> tuple[bool, int, int]:
    return session.is_privileged, len(session.partitions), session.session_id
