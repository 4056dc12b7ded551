"""Share sessions: the partitions that a member of a share group reads from this node, named once (KIP-932).

A session belongs to a member of a group and to the connection over which it began, and ends with that
connection. Its epoch grows with each request; 0 begins a new session, -1 ends it. There are at most
`group.share.max.share.sessions` sessions, and their memory is limited.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1
# The measured memory of a session, and of one of its partitions with its part of a waiting request.
SESSION_BYTES: Final = 1_500
PARTITION_BYTES: Final = 1_200


class SessionKey(NamedTuple):
    group: str
    member: str


class TopicIdPartition(NamedTuple):
    """A partition as members of share groups name it."""

    topic_id: bytes
    partition: int


class CachedPartition:
    """A partition of a session.

    With `must_send` the next response must have it: it was added to a session that existed, or had an error.

    `topic` is the last known name of the topic, None if it was never known.
    """

    __slots__ = ("must_send", "topic")

    def __init__(self, topic: str | None, *, must_send: bool) -> None:
        self.topic = topic
        self.must_send = must_send


class ShareSession:
    """The session of one member."""

    __slots__ = ("begun_ms", "connection_number", "epoch", "key", "partitions")

    def __init__(self, key: SessionKey, connection_number: int, begun_ms: int) -> None:
        self.key = key
        self.connection_number = connection_number
        self.begun_ms = begun_ms
        self.epoch = 1
        self.partitions: dict[TopicIdPartition, CachedPartition] = {}

    def note_sent(self, partition: TopicIdPartition, *, is_failed: bool, has_records: bool) -> bool:
        """Note a result for a partition; return True if the response must have it."""
        cached = self.partitions.get(partition)
        if cached is None:
            return True
        must_send = has_records or cached.must_send or is_failed
        cached.must_send = is_failed
        if has_records:  # read last next time, so that no partition starves
            self.partitions[partition] = self.partitions.pop(partition)
        return must_send


def next_epoch(epoch: int) -> int:
    """Return the epoch of the request that follows one of this epoch."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == MAX_EPOCH else epoch + 1


class ShareSessions:
    """The sessions of a node."""

    def __init__(self, *, max_sessions: Callable[[], int], limit_bytes: int = 1 << 40) -> None:
        self._max_sessions = max_sessions
        self._limit_bytes = limit_bytes
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._of_connection: dict[int, dict[SessionKey, ShareSession]] = {}
        self._in_group: dict[str, int] = {}
        self.partition_count = 0
        self.evictions = 0  # sessions whose connection ended before them

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def used_bytes(self) -> int:
        """The bytes that the sessions use."""
        return len(self._sessions) * SESSION_BYTES + self.partition_count * PARTITION_BYTES

    def find(self, key: SessionKey) -> ShareSession | None:
        """Return the session of a member, None if it has none."""
        return self._sessions.get(key)

    def has_group(self, group: str) -> bool:
        """Return True if any member of the group has a session here."""
        return group in self._in_group

    def of_connection(self, number: int) -> list[ShareSession]:
        """Return the sessions that end with this connection."""
        return list(self._of_connection.get(number, {}).values())

    def create(
        self,
        key: SessionKey,
        partitions: Iterable[tuple[TopicIdPartition, str | None]],
        connection: int,
        now_ms: int = 0,
    ) -> ShareSession:
        """Begin a session of a member that has none.

        Raises KafkaError with SHARE_SESSION_LIMIT_REACHED if there is no room.
        """
        assert key not in self._sessions, key
        session = ShareSession(key, connection, now_ms)
        for topic_id_partition, topic in partitions:
            session.partitions[topic_id_partition] = CachedPartition(topic, must_send=False)
        needed = SESSION_BYTES + len(session.partitions) * PARTITION_BYTES
        if len(self._sessions) >= self._max_sessions() or self.used_bytes + needed > self._limit_bytes:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        self._sessions[key] = session
        self._of_connection.setdefault(connection, {})[key] = session
        self._in_group[key.group] = self._in_group.get(key.group, 0) + 1
        self.partition_count += len(session.partitions)
        return session

    def remove(self, key: SessionKey) -> ShareSession | None:
        """End a session and return it, or None if there was none."""
        session = self._sessions.pop(key, None)
        if session is None:
            return None
        self.partition_count -= len(session.partitions)
        of_connection = self._of_connection[session.connection_number]
        del of_connection[key]
        if not of_connection:
            del self._of_connection[session.connection_number]
        self._in_group[key.group] -= 1
        if not self._in_group[key.group]:
            del self._in_group[key.group]
        return session

    def clear(self) -> None:
        """End all sessions."""
        for key in list(self._sessions):
            self.remove(key)

    def check(self, key: SessionKey, epoch: int) -> ShareSession:
        """Return the session of a member whose request has this epoch; the final epoch fits any session.

        Raises KafkaError with SHARE_SESSION_NOT_FOUND or INVALID_SHARE_SESSION_EPOCH otherwise.
        """
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch not in (FINAL_EPOCH, session.epoch):
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        return session

    def advance(self, key: SessionKey, epoch: int) -> ShareSession:
        """Accept a request that does not change the partitions; raises KafkaError as `check` does.

        A request with the initial epoch is rejected, since `create` begins a session.
        """
        if epoch == INITIAL_EPOCH:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session = self.check(key, epoch)
        if epoch != FINAL_EPOCH:
            session.epoch = next_epoch(session.epoch)
        return session

    def update(
        self,
        key: SessionKey,
        epoch: int,
        added: Iterable[tuple[TopicIdPartition, str | None]],
        forgotten: Iterable[TopicIdPartition],
    ) -> ShareSession:
        """Accept a request that changes the partitions; one that is both added and forgotten is forgotten.

        Raises KafkaError as `check` does, and with SHARE_SESSION_LIMIT_REACHED if there is no memory for
        them. Nothing is changed then.
        """
        session = self.check(key, epoch)
        known = session.partitions
        new = {
            topic_id_partition: topic
            for topic_id_partition, topic in added
            if topic_id_partition not in known
        }
        if new and self.used_bytes + len(new) * PARTITION_BYTES > self._limit_bytes:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        before = len(known)
        for topic_id_partition, topic in new.items():
            known[topic_id_partition] = CachedPartition(topic, must_send=True)
        for topic_id_partition in forgotten:
            known.pop(topic_id_partition, None)
        self.partition_count += len(known) - before
        session.epoch = next_epoch(session.epoch)
        return session

    def check_invariants(self) -> None:
        """Assert that all counts agree with the sessions."""
        sessions = self._sessions.values()
        assert self.partition_count == sum(len(one.partitions) for one in sessions), self.partition_count
        assert sum(self._in_group.values()) == len(self._sessions), self._in_group
        of_connections = [one for some in self._of_connection.values() for one in some.values()]
        assert sorted(one.key for one in of_connections) == sorted(self._sessions), of_connections
