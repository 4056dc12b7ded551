"""Incremental fetch sessions (KIP-227): a client names its partitions once, and then only changes.

A session is created by a full fetch (epoch 0), continues with epochs 1, 2, ... and is ended by a fetch with
epoch -1 or by another full fetch. The cache has a fixed number of slots, and a limit of the memory for all
partitions. A session is evicted when its client is gone, when it was not used for
`min.incremental.fetch.session.eviction.ms`, or, if slots are short, when it has had its slot for that time
and a larger session (or a follower's) needs one. A client without a session continues with full fetches.

No session takes more than a quarter of the memory, and sessions of many partitions leave a quarter to the
others. A session with many partitions that do not exist ends with its response: it would save nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.wire.messages.fetch import FetchPartition, ForgottenTopic, PartitionData

NO_SESSION = 0
INITIAL_EPOCH = 0  # of a fetch that requests a session
FINAL_EPOCH = -1  # of a fetch that requests none, or ends one
MAX_EPOCH = 2**31 - 1
# Measured, of one partition with the client's request for it; and of a session itself.
PARTITION_BYTES = 600
SESSION_BYTES = 1_000
# Up to this size a session may take the last quarter of the memory. A session is not kept if more of its
# partitions than this do not exist.
FEW_PARTITIONS = 1_000
DEFAULT_LIMIT_BYTES = 1 << 30

# A topic as the client named it: by name up to version 12, by id from 13 on.
TopicKey = str | bytes
PartitionKey = tuple[TopicKey, int]


class FetchItem(NamedTuple):
    """One partition of a fetch: the topic as the client names it, and the request for it."""

    topic: TopicKey
    wanted: FetchPartition

    @property
    def key(self) -> PartitionKey:
        return self.topic, self.wanted.partition


class CachedPartition:
    """A partition of a session: the client's latest request, and the offsets that the client was last sent.

    `topic_name` is the topic's name when it was last found, None if it never was: a client that names a topic
    by its id gets an error that depends on the state of that name once the id is gone.
    """

    __slots__ = ("high_watermark", "item", "log_start_offset", "topic_name")

    def __init__(self, item: FetchItem) -> None:
        self.item = item
        self.topic_name: str | None = None
        self.high_watermark = -1
        self.log_start_offset = -1

    def must_send(self, data: PartitionData, size_bytes: int) -> bool:
        """Return True if the response has to contain the partition; remember what is sent."""
        is_changed = self.is_changed(data, size_bytes)
        # After an error the client must be sent the recovery, whatever the offsets are then.
        self.high_watermark = -1 if _is_failed(data) else data.high_watermark
        self.log_start_offset = data.log_start_offset
        return is_changed

    def is_changed(self, data: PartitionData, size_bytes: int) -> bool:
        """Return True if the client has not been sent this state yet."""
        return (
            size_bytes > 0
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.log_start_offset
            or _is_failed(data)
        )


def _is_failed(data: PartitionData) -> bool:
    return data.error_code != 0 or data.diverging_epoch.epoch >= 0


@dataclass(slots=True, eq=False)
class FetchSession:
    """The partitions of one client, in the order in which they are read next."""

    session_id: int
    uses_topic_ids: bool
    is_privileged: bool  # a follower's
    created_ms: int
    last_used_ms: int
    connection_number: int = 0  # of the last connection that used it
    epoch: int = 1
    partitions: dict[PartitionKey, CachedPartition] = field(default_factory=dict)

    def update(self, items: Iterable[FetchItem], forgotten: Sequence[ForgottenTopic]) -> None:
        """Apply the client's changes. A partition that is both changed and forgotten is forgotten."""
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
        """Read a partition with records last the next time, so that none starves behind `max_bytes`."""
        self.partitions[key] = self.partitions.pop(key)


class FetchSessionCache:
    """All sessions of a node, except its followers'."""

    def __init__(
        self,
        *,
        max_slots: int,
        eviction_ms: int,
        random_id: Callable[[], int],
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
        is_open: Callable[[int], bool] = lambda number: True,
        others_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        """`random_id` returns ids of 1 to 2^31 - 1; a client cannot guess the ids of others.

        `is_open` returns True if the connection with a number is open; `others_bytes` the part of
        `limit_bytes` that sessions outside this cache take.
        """
        self._max_slots = max_slots
        self._eviction_ms = eviction_ms
        self._random_id = random_id
        self._limit_bytes = limit_bytes
        self._is_open = is_open
        self._others_bytes = others_bytes
        self._partition_count = 0
        self._sessions: dict[int, FetchSession] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def used_bytes(self) -> int:
        """Return the bytes that these sessions take."""
        return len(self._sessions) * SESSION_BYTES + self._partition_count * PARTITION_BYTES

    def remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partition_count -= len(session.partitions)

    def update(
        self,
        session: FetchSession,
        items: Sequence[FetchItem],
        forgotten: Sequence[ForgottenTopic],
        now_ms: int,
    ) -> None:
        """Apply a client's changes.

        FETCH_SESSION_ID_NOT_FOUND if there is no memory for the partitions that they add: the session ends,
        and the client continues with full fetches.
        """
        known = session.partitions
        more = sum(1 for item in items if item.key not in known) if items else 0
        # Partitions that the same change forgets still count here.
        if more and not self._make_room(len(known), more, session, now_ms):
            self.remove(session.session_id)
            raise KafkaError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                "there is no memory for more partitions in fetch sessions",
            )
        before = len(known)
        session.update(items, forgotten)
        self._partition_count += len(known) - before

    def resume(self, session_id: int, epoch: int, *, uses_topic_ids: bool) -> FetchSession:
        """Return the session that an incremental fetch continues.

        FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR if it cannot.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return session

    def advance(self, session: FetchSession, now_ms: int, connection_number: int = 0) -> None:
        """Advance the epoch after an accepted fetch. A session without partitions ends."""
        if not session.partitions:
            self.remove(session.session_id)
            return
        session.last_used_ms = now_ms
        session.connection_number = connection_number
        session.epoch = 1 if session.epoch == MAX_EPOCH else session.epoch + 1

    def create(
        self,
        items: Sequence[FetchItem],
        *,
        uses_topic_ids: bool,
        is_privileged: bool,
        now_ms: int,
        connection_number: int = 0,
    ) -> FetchSession | None:
        """Return a new session over these partitions, None if there is no slot or no memory for it."""
        size = len(items)
        if not self._make_room(0, size, None, now_ms):
            return None
        if len(self._sessions) >= self._max_slots and not self._evict(size, is_privileged, now_ms):
            return None
        session_id = self._random_id()
        while session_id in self._sessions:
            session_id = self._random_id()
        session = FetchSession(session_id, uses_topic_ids, is_privileged, now_ms, now_ms, connection_number)
        session.update(items, ())
        self._partition_count += len(session.partitions)
        self._sessions[session_id] = session
        return session

    def _make_room(self, has: int, more: int, growing: FetchSession | None, now_ms: int) -> bool:
        """Return True if a session may have `more` partitions; unused sessions are evicted for them."""
        size = has + more
        limit_bytes = self._limit_bytes
        if size * PARTITION_BYTES * 4 > limit_bytes:
            return False
        if size > FEW_PARTITIONS:
            limit_bytes = limit_bytes * 3 // 4
        limit_bytes -= SESSION_BYTES + more * PARTITION_BYTES + self._others_bytes()
        if self.used_bytes <= limit_bytes:
            return True
        for session in self._unused(now_ms):
            if session is not growing:
                self._drop(session)
                if self.used_bytes <= limit_bytes:
                    return True
        return False

    def _unused(self, now_ms: int) -> list[FetchSession]:
        """Return sessions of clients that are gone, then long unused ones; the least recently used first."""
        gone, stale = [], []
        for session in self._sessions.values():
            if not self._is_open(session.connection_number):
                gone.append(session)
            elif now_ms - session.last_used_ms > self._eviction_ms:
                stale.append(session)
        return sorted(gone, key=_last_used) + sorted(stale, key=_last_used)

    def _evict(self, size: int, is_privileged: bool, now_ms: int) -> bool:
        """Free a slot for a session of `size` partitions if another session is unused or worth less."""
        if not self._sessions:
            return False
        unused = self._unused(now_ms)
        if unused:
            victim = unused[0]
        else:
            evictable = [
                session
                for session in self._sessions.values()
                if now_ms - session.created_ms > self._eviction_ms
                or (is_privileged and not session.is_privileged)
            ]
            if not evictable:
                return False
            victim = min(evictable, key=_eviction_order)
            if (is_privileged, size) < (victim.is_privileged, len(victim.partitions)):
                return False
        self._drop(victim)
        return True

    def _drop(self, victim: FetchSession) -> None:
        self.remove(victim.session_id)
        self.evictions += 1


def _last_used(session: FetchSession) -> int:
    return session.last_used_ms


def _eviction_order(session: FetchSession) -> tuple[bool, int, int]:
    return session.is_privileged, len(session.partitions), session.session_id
