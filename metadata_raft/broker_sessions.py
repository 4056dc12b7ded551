"""The sessions of brokers: soft state of the controller, which is never written.

A session is what a controller has heard from a broker, by the monotonic clock. A new controller has heard
nothing, so it gives every broker a new session. Only a broker whose connection to this node was lost before,
such as the previous controller's node that died, gets a short one. The state of a broker (fenced, shutting
down) is in the image, not here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ottla.metadata_raft.image import MetadataImage

# The time in which a broker may come back after its connection was lost; a killed process is fenced after it.
# A live broker notices the loss, too, and connects and heartbeats at once, which takes milliseconds.
RECONNECT_GRACE_MS: Final = 500
# The time in which a broker whose connection was lost before this controller took over may come back: brokers
# heartbeat as soon as they learn of the new controller.
NEW_CONTROLLER_GRACE_MS: Final = 500
NEVER: Final = 2**63 - 1


@dataclass(slots=True)
class Session:
    """The session of one broker epoch. Changed only by `BrokerSessions`."""

    broker_epoch: int
    last_contact_ms: int
    heard_since_ms: int = NEVER  # its first heartbeat here, or since it was silent or another broker failed
    metadata_offset: int = -1  # the offset that the broker has applied, by its last heartbeat
    is_stuck: bool = False  # two heartbeats had the same offset, although the log has more
    shutdown_offset: int = -1  # all brokers must have applied it before this one may shut down; -1: none
    reconnect_until_ms: int = NEVER
    leader_load: int = 0  # its load as a leader by its last heartbeat, in bytes per second

    def ends_at_ms(self, timeout_ms: int) -> int:
        """Return the last time at which it is valid if nothing more is heard from the broker."""
        return min(self.last_contact_ms + timeout_ms, self.reconnect_until_ms)


class BrokerSessions:
    """The sessions of one controller, until it resigns."""

    def __init__(self) -> None:
        self._sessions: dict[int, Session] = {}

    def grant_all(self, image: MetadataImage, now_ms: int, lost_at_ms: Mapping[int, int]) -> None:
        """Give every broker a new session, of which nothing has been heard yet, as a new controller.

        A connection proves nothing: a new process has one before it registers. `lost_at_ms` has the brokers
        that lost their connection to this node, with the time.
        """
        self._sessions = {
            broker_id: Session(broker.broker_epoch, now_ms) for broker_id, broker in image.brokers.items()
        }
        for broker_id in lost_at_ms.keys() & self._sessions.keys():
            over_ms = lost_at_ms[broker_id] + RECONNECT_GRACE_MS
            self._sessions[broker_id].reconnect_until_ms = max(over_ms, now_ms + NEW_CONTROLLER_GRACE_MS)

    def session_of(self, image: MetadataImage, broker_id: int, now_ms: int) -> Session:
        """Return the session of a registered broker; a new one if this broker epoch has none yet."""
        session = self._sessions.get(broker_id)
        broker_epoch = image.brokers[broker_id].broker_epoch
        if session is None or session.broker_epoch != broker_epoch:
            session = self._sessions[broker_id] = Session(broker_epoch, now_ms)
        return session

    def touch(
        self, image: MetadataImage, broker_id: int, metadata_offset: int, now_ms: int, timeout_ms: int
    ) -> Session:
        """Renew the session of a broker at a heartbeat, and return it."""
        session = self.session_of(image, broker_id, now_ms)
        if session.heard_since_ms == NEVER or not self.is_alive(image, broker_id, now_ms, timeout_ms):
            session.heard_since_ms = now_ms
        session.last_contact_ms = now_ms
        session.is_stuck = session.metadata_offset == metadata_offset < image.version
        session.metadata_offset = metadata_offset
        session.reconnect_until_ms = NEVER
        return session

    def connection_lost(self, image: MetadataImage, broker_id: int, now_ms: int, grace_ms: int) -> None:
        """Give a broker `grace_ms` to come back after its connection was lost; a second loss adds no time."""
        session = self.session_of(image, broker_id, now_ms)
        # Before `now_ms` if there is no grace: a session lasts up to and including this time.
        session.reconnect_until_ms = min(session.reconnect_until_ms, now_ms + grace_ms - (not grace_ms))

    def doubt_others(self, broker_id: int) -> None:
        """Require that all other brokers are heard of again: they may have failed together with this one."""
        for other_id, session in self._sessions.items():
            if other_id != broker_id:
                session.heard_since_ms = NEVER

    def is_alive(self, image: MetadataImage, broker_id: int, now_ms: int, timeout_ms: int) -> bool:
        """Return True if the session of a broker has not expired."""
        return now_ms <= self.session_of(image, broker_id, now_ms).ends_at_ms(timeout_ms)

    def stale_broker(self, image: MetadataImage, now_ms: int, timeout_ms: int) -> int | None:
        """Return the broker with the oldest expired session among those not fenced; None if there is none."""
        stale = [
            (self._sessions[broker_id].last_contact_ms, broker_id)
            for broker_id, broker in image.brokers.items()
            if not broker.fenced and not self.is_alive(image, broker_id, now_ms, timeout_ms)
        ]
        return min(stale)[1] if stale else None

    def next_expiry_ms(self, image: MetadataImage, timeout_ms: int) -> int:
        """Return when the next session of a broker that is not fenced expires; NEVER if there is none.

        Sessions that have expired already count too, so the time may be in the past.
        """
        return min(
            (
                session.ends_at_ms(timeout_ms) + 1
                for broker_id, broker in image.brokers.items()
                if not broker.fenced and (session := self._sessions.get(broker_id)) is not None
            ),
            default=NEVER,
        )

    def silent(self, image: MetadataImage, now_ms: int, timeout_ms: int) -> frozenset[int]:
        """Return the brokers that are not fenced although their session expired."""
        return frozenset(
            broker_id
            for broker_id, broker in image.brokers.items()
            if not broker.fenced and not self.is_alive(image, broker_id, now_ms, timeout_ms)
        )

    def absent(self, image: MetadataImage, now_ms: int, timeout_ms: int) -> frozenset[int]:
        """Return the brokers that are not fenced and must be heard of before they are elected.

        They sent no heartbeat to this controller, or none since another broker failed, or none within their
        session.
        """
        return frozenset(
            broker_id
            for broker_id, broker in image.brokers.items()
            if not broker.fenced
            and (
                self.session_of(image, broker_id, now_ms).heard_since_ms == NEVER
                or not self.is_alive(image, broker_id, now_ms, timeout_ms)
            )
        )

    @property
    def loads(self) -> Mapping[int, int]:
        """The load of each broker as a leader by its last heartbeat, in bytes per second."""
        return {broker_id: session.leader_load for broker_id, session in self._sessions.items()}

    def known(self) -> Mapping[int, Session]:
        """Return all sessions by broker, for reading."""
        return MappingProxyType(self._sessions)

    def heard_of(self) -> Mapping[int, tuple[int, int]]:
        """Return the metadata offset of each broker (-1: none yet), and the time of its last heartbeat."""
        return {
            broker_id: (session.metadata_offset, session.last_contact_ms)
            for broker_id, session in sorted(self._sessions.items())
        }

    def lowest_active_offset(self, image: MetadataImage, now_ms: int) -> int:
        """Return the offset that every active broker has applied; NEVER if none is active."""
        return min(
            (
                self.session_of(image, broker_id, now_ms).metadata_offset
                for broker_id, broker in image.brokers.items()
                if broker.is_active
            ),
            default=NEVER,
        )
