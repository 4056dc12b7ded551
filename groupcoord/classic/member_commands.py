"""The commands of members of a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ottla.groupcoord.heartbeat_phase import HeartbeatPhase
from ottla.groupcoord.request_token import Token


class Protocol(NamedTuple):
    """A protocol that a member offers (for consumers: an assignor), with its metadata for the leader."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroup:
    token: Token
    group_id: str
    member_id: str  # empty for a member that has none yet
    group_instance_id: str | None = None  # KIP-345: a static member
    client_id: str = ""
    client_host: str = ""
    protocol_type: str
    protocols: Sequence[Protocol]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    reason: str | None = None
    member_id_required: bool = True  # KIP-394: since version 4 a new member first gets only its id
    can_skip_assignment: bool = (
        True  # KIP-814: since version 9 a returning leader may be asked to assign nothing
    )
    # Returns True if the member may see a topic, as in a heartbeat of the consumer protocol.
    may_describe: Callable[[str], bool] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroup:
    token: Token
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None  # None: not to be checked
    protocol_name: str | None = None
    assignments: Sequence[tuple[str, bytes]] = ()  # member id, assignment; from the leader only


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    token: Token
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    hold_ms: int = 0  # for how long it may wait for news
    phase: HeartbeatPhase = HeartbeatPhase.ARRIVED


class MemberIdentity(NamedTuple):
    """A member that is to leave, by its member id, or by instance id alone.

    The latter is an administrator's way to remove a static member.
    """

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroup:
    token: Token
    group_id: str
    members: Sequence[MemberIdentity]


MemberCommand: TypeAlias = JoinGroup | SyncGroup | Heartbeat | LeaveGroup
