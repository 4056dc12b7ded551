"""Which brokers live: the soft state of the controller, never written anywhere.

A session is what a leader of the quorum has heard of a broker by the monotonic clock. A new leader has heard
nothing, so it grants every broker a fresh session; only one whose connection to this node had broken already,
as that of a node that died and led the quorum itself, is given no more than a moment. What a broker *is*
(fenced, shutting down) stands in the image, not here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ottla.metadata_raft.image import MetadataImage

# How long a broker may take to come back after its connection broke. A process that was killed is fenced so
# long after; one that lives notices too, dials and heartbeats at once, which takes milliseconds.
RECONNECT_GRACE_MS: Final = 500
# The same where the connection broke before this reign began: brokers heartbeat as soon as they hear of it.
NEW_REIGN_GRACE_MS: Final = 500
NEVER: Final = 2**63 - 1


@dataclass(slots=True)
class Session:
    """One process of a broker, as the controller knows it. Changed by `BrokerSessions` alone."""

    broker_epoch: int
    last_contact_ms: int
    heard_since_ms: int = NEVER  # its first heartbeat of this reign, after a silence or a fall
    metadata_offset: int = -1  # what the broker said it has applied
    is_stuck: bool = False  # it said so twice, and there is more
    shutdown_offset: int = -1  # everybody must have applied so much before the broker may go; -1 for none
    reconnect_until_ms: int = NEVER
    leader_load: int = 0  # what it said of its load as a leader, in bytes a second


class BrokerSessions:
    """The sessions of one reign."""

    def __init__(self) -> None:
        self._sessions: dict[int, Session] = {}

    def grant_all(self, image: MetadataImage, now_ms: int, lost_at_ms: Mapping[int, int]) -> None:
        """A new reign begins: nobody is held to what was heard before, nobody believed to live.

        A connection proves nothing: a process that has just started has one before it registers. `lost_at_ms`
        has the brokers that have none to this node any more, and since when.
        """
        self._sessions = {
            broker_id: Session(broker.broker_epoch, now_ms) for broker_id, broker in image.brokers.items()
        }
        for broker_id in lost_at_ms.keys() & self._sessions.keys():
            over_ms = lost_at_ms[broker_id] + RECONNECT_GRACE_MS
            self._sessions[broker_id].reconnect_until_ms = max(over_ms, now_ms + NEW_REIGN_GRACE_MS)

    def of(self, image: MetadataImage, broker_id: int, now_ms: int) -> Session:
        """The session of a registered broker; a fresh one if nothing was heard of this process."""
        session = self._sessions.get(broker_id)
        broker_epoch = image.brokers[broker_id].broker_epoch
        if session is None or session.broker_epoch != broker_epoch:
            session = self._sessions[broker_id] = Session(broker_epoch, now_ms)
        return session

    def touch(
        self, image: MetadataImage, broker_id: int, metadata_offset: int, now_ms: int, timeout_ms: int
    ) -> Session:
        """A heartbeat came in."""
        session = self.of(image, broker_id, now_ms)
        if session.heard_since_ms == NEVER or not self.is_alive(image, broker_id, now_ms, timeout_ms):
            session.heard_since_ms = now_ms
        session.last_contact_ms = now_ms
        session.is_stuck = session.metadata_offset == metadata_offset < image.version
        session.metadata_offset = metadata_offset
        session.reconnect_until_ms = NEVER
        return session

    def connection_lost(self, image: MetadataImage, broker_id: int, now_ms: int, grace_ms: int) -> None:
        """The broker is given a moment to come back; a second break does not make it longer."""
        session = self.of(image, broker_id, now_ms)
        # Behind `now_ms` where there is no grace: until then a session lasts, that included.
        session.reconnect_until_ms = min(session.reconnect_until_ms, now_ms + grace_ms - (not grace_ms))

    def doubt_others(self, broker_id: int) -> None:
        """A broker falls: who was heard of before that may have fallen with it, and must be heard again."""
        for other_id, session in self._sessions.items():
            if other_id != broker_id:
                session.heard_since_ms = NEVER

    def is_alive(self, image: MetadataImage, broker_id: int, now_ms: int, timeout_ms: int) -> bool:
        """Whether a broker was heard of lately enough."""
        session = self.of(image, broker_id, now_ms)
        return now_ms <= session.last_contact_ms + timeout_ms and now_ms <= session.reconnect_until_ms

    def stale_broker(self, image: MetadataImage, now_ms: int, timeout_ms: int) -> int | None:
        """The broker that has been silent longest of those that are up and should not be; None if none is."""
        stale = [
            (self._sessions[broker_id].last_contact_ms, broker_id)
            for broker_id, broker in image.brokers.items()
            if not broker.fenced and not self.is_alive(image, broker_id, now_ms, timeout_ms)
        ]
        return min(stale)[1] if stale else None

    def silent(self, image: MetadataImage, now_ms: int, timeout_ms: int) -> frozenset[int]:
        """The brokers that count as up, and have not been heard of for too long."""
        return frozenset(
            broker_id
            for broker_id, broker in image.brokers.items()
            if not broker.fenced and not self.is_alive(image, broker_id, now_ms, timeout_ms)
        )

    def absent(self, image: MetadataImage, now_ms: int, timeout_ms: int) -> frozenset[int]:
        """The brokers that count as up, and were not heard of in this reign, since a fall, or lately."""
        return frozenset(
            broker_id
            for broker_id, broker in image.brokers.items()
            if not broker.fenced
            and (
                self.of(image, broker_id, now_ms).heard_since_ms == NEVER
                or not self.is_alive(image, broker_id, now_ms, timeout_ms)
            )
        )

    @property
    def loads(self) -> Mapping[int, int]:
        """Return the load of each broker as a leader, as its last heartbeat has it, in bytes a second."""
        return {broker_id: session.leader_load for broker_id, session in self._sessions.items()}

    def known(self) -> Mapping[int, Session]:
        """All of them by broker, to be looked at."""
        return MappingProxyType(self._sessions)

    def heard_of(self) -> Mapping[int, tuple[int, int]]:
        """What each broker said last: how far it has applied the metadata (-1: nothing yet), and when."""
        return {
            broker_id: (session.metadata_offset, session.last_contact_ms)
            for broker_id, session in sorted(self._sessions.items())
        }

    def lowest_active_offset(self, image: MetadataImage, now_ms: int) -> int:
        """What every active broker has applied of the metadata; endless if none is active."""
        return min(
            (
                self.of(image, broker_id, now_ms).metadata_offset
                for broker_id, broker in image.brokers.items()
                if broker.is_active
            ),
            default=NEVER,
        )
