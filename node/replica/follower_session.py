"""The leader's side of a follower's incremental fetch session (KIP-227).

A fetch over thousands of partitions costs only as much as those that changed. A partition is *dirty* while
there is news for the follower: records, an error, another high watermark. A partition whose log the follower
has in full is *watched*: the next append makes it dirty and wakes the waiting fetch. Only dirty partitions
are read. New offsets alone do not wake at once: they are sent with the next records, or a moment later.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.replica.fetch_session import (
    MAX_EPOCH,
    NO_SESSION,
    PARTITION_BYTES,
    SESSION_BYTES,
    FetchItem,
    PartitionKey,
)
from ottla.node.replica.isr import InSyncReplicas
from ottla.node.replica.partition import Partition
from ottla.node.wire.messages.fetch import ForgottenTopic

# A follower may set num.replica.fetchers above one; its sessions from before a lost connection are useless.
MAX_SESSIONS_OF_A_FOLLOWER: Final = 16


class SessionPartition:
    """One partition of a session: the follower's request for it, and the offsets that it was last sent."""

    __slots__ = (
        "is_watching",
        "item",
        "known_to",
        "partition",
        "sent_high_watermark",
        "sent_log_start_offset",
        "session",
    )

    def __init__(self, session: "FollowerSession", item: FetchItem) -> None:
        self.session = session
        self.item = item
        self.partition: Partition | None = None  # as it was last found
        self.known_to: InSyncReplicas | None = None  # the ISR state that knows the follower's position
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.is_watching = False

    def log_grew(self) -> None:
        self.is_watching = False
        session, partition = self.session, self.partition
        if partition is not None and partition.leader_epoch == self.item.wanted.current_leader_epoch:
            partition.follower_was_caught_up(session.replica_id, session.last_fetch_ms)
        session.mark(self, is_urgent=True)

    def offsets_moved(self) -> None:
        self.session.mark(self, is_urgent=False)

    def watch(self) -> None:
        """Watch the log: the follower has all of it."""
        if not self.is_watching and self.partition is not None:
            self.is_watching = True
            self.partition.watchers.append(self)

    def leave(self) -> None:
        """Stop watching the log."""
        if self.is_watching and self.partition is not None:
            self.partition.watchers.remove(self)
        self.is_watching = False


class FollowerSession:
    """The partitions that one connection of a follower fetches."""

    __slots__ = (
        "broker_epoch",
        "dirty",
        "epoch",
        "last_fetch_ms",
        "on_change",
        "partitions",
        "replica_id",
        "session_id",
        "uses_topic_ids",
    )

    def __init__(self, session_id: int, replica_id: int, *, uses_topic_ids: bool) -> None:
        self.session_id = session_id
        self.replica_id = replica_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self.broker_epoch = -1
        self.last_fetch_ms = 0
        self.partitions: dict[PartitionKey, SessionPartition] = {}
        self.dirty: dict[SessionPartition, None] = {}  # in the order in which they are read next
        # Set by the waiting fetch. It is called at each `mark`, with True if the news is urgent.
        self.on_change: Callable[[bool], None] | None = None

    def mark(self, followed: SessionPartition, *, is_urgent: bool) -> None:
        """Note that there is news of this partition for the follower."""
        self.dirty[followed] = None
        if self.on_change is not None:
            self.on_change(is_urgent)

    def update(
        self, items: Iterable[FetchItem], forgotten: Sequence[ForgottenTopic]
    ) -> list[SessionPartition]:
        """Apply the follower's changes; return the partitions whose position it reports."""
        changed = []
        for item in items:
            followed = self.partitions.get(item.key)
            if followed is None:
                followed = self.partitions[item.key] = SessionPartition(self, item)
            else:
                if item.wanted.fetch_offset == followed.item.wanted.fetch_offset:
                    # It may have dropped the last response, since another leader epoch had begun there.
                    followed.sent_high_watermark = followed.sent_log_start_offset = -1
                followed.item = item
            self.dirty[followed] = None
            changed.append(followed)
        for topic in forgotten:
            name = topic.topic_id if self.uses_topic_ids else topic.topic
            for index in topic.partitions:
                gone = self.partitions.pop((name, index), None)
                if gone is not None:
                    self.dirty.pop(gone, None)
                    gone.leave()
        return changed

    def note_sent(
        self, followed: SessionPartition, *, high_watermark: int, log_start_offset: int, has_more: bool
    ) -> None:
        """Note what the response under way contains; `has_more` if there may be more to send afterwards."""
        followed.sent_high_watermark = high_watermark
        followed.sent_log_start_offset = log_start_offset
        del self.dirty[followed]
        if has_more:
            self.dirty[followed] = None  # behind the others

    def close(self) -> None:
        """End the session: the follower continues without it."""
        for followed in self.partitions.values():
            followed.leave()
        self.partitions.clear()
        self.dirty.clear()


class FollowerSessions:
    """All sessions of all followers of this node."""

    def __init__(self, random_id: Callable[[], int]) -> None:
        """`random_id` returns ids of 1 to 2^31 - 1."""
        self._random_id = random_id
        self._sessions: dict[int, FollowerSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def used_bytes(self) -> int:
        """Return the bytes of these sessions. None is rejected: followers name existing partitions."""
        return sum(
            SESSION_BYTES + PARTITION_BYTES * len(session.partitions) for session in self._sessions.values()
        )

    def find(self, session_id: int, replica_id: int) -> FollowerSession | None:
        """Return the session with this id if it is this follower's."""
        session = self._sessions.get(session_id)
        return session if session is not None and session.replica_id == replica_id else None

    def resume(
        self, session_id: int, epoch: int, *, replica_id: int, uses_topic_ids: bool
    ) -> FollowerSession:
        """Return the session that an incremental fetch continues; its next fetch has the next epoch.

        FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR if it cannot.
        """
        session = self.find(session_id, replica_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if epoch == MAX_EPOCH else epoch + 1
        return session

    def create(self, replica_id: int, *, uses_topic_ids: bool) -> FollowerSession:
        """Return a new session; the oldest one of a follower with too many is removed."""
        own = [one for one in self._sessions.values() if one.replica_id == replica_id]
        if len(own) >= MAX_SESSIONS_OF_A_FOLLOWER:
            self.remove(own[0].session_id)
        session_id = self._random_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._random_id()
        session = FollowerSession(session_id, replica_id, uses_topic_ids=uses_topic_ids)
        self._sessions[session_id] = session
        return session

    def remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()
