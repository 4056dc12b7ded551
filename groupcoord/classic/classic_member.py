"""One member of a classic group."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ottla.groupcoord.classic.heartbeat_interval import HeartbeatInterval
from ottla.groupcoord.classic.member_commands import Protocol
from ottla.groupcoord.effects import StartTimer
from ottla.groupcoord.member_bytes import MEMBER_BYTES
from ottla.groupcoord.request_token import Token
from ottla.groupcoord.timer_commands import ExpireSession


@dataclass(slots=True, kw_only=True)
class ClassicMember:
    """A member as it joined.

    Soft state, which is not in the log and which a restart forgets: `protocols` except the chosen one, the
    tokens, `is_new`, the timer and the heartbeat interval.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Sequence[Protocol]
    assignment: bytes = b""
    join_token: Token | None = None  # its JoinGroup that waits for the others
    sync_token: Token | None = None  # its SyncGroup that waits for the leader's
    # The timer as it was last started; a heartbeat starts the same one again, thousands of times.
    session_timer: StartTimer[ExpireSession] | None = None
    heartbeat_interval: HeartbeatInterval | None = None  # of a member whose heartbeats may be held
    is_new: bool = False  # waits in its first join: it does not know its id yet and cannot heartbeat

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def size_bytes(self) -> int:
        """Return the bytes of its metadata and assignment."""
        return offered_bytes(self.protocols) + len(self.assignment)

    def metadata(self, protocol_name: str) -> bytes:
        """Return the member's metadata under that protocol; empty if it does not offer it."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        return b""

    def vote(self, candidates: Collection[str]) -> str:
        """Return the first of the member's protocols, in its order of preference, that all members offer."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)

    def offers(self, protocols: Sequence[Protocol]) -> bool:
        """Return True if these are exactly the protocols that it offers now, in names, order and bytes."""
        return tuple(self.protocols) == tuple(protocols)


def offered_bytes(protocols: Sequence[Protocol]) -> int:
    """Return the bytes of a member that offers these protocols: itself, their names and metadata."""
    return MEMBER_BYTES + sum(len(protocol.name) + len(protocol.metadata) for protocol in protocols)
