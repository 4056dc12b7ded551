"""The request of the consumer protocol (KIP-848), and what timers and the node bring to consumer groups."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ottla.groupcoord.assignment import Assignment, TopicPartitions
from ottla.groupcoord.heartbeat_phase import HeartbeatPhase
from ottla.groupcoord.request_token import Token
from ottla.groupcoord.topics_view import TopicsView


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeat:
    """Joins (epoch 0), stays, or leaves (-1; -2 for a static member that will be back).

    None says of a field that it is as it was at the last request.
    """

    token: Token
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1  # -1: as it was
    subscribed_topic_names: Sequence[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Sequence[TopicPartitions] | None = None
    client_id: str = ""
    client_host: str = ""
    member_id_required: bool = True  # since version 1 members bring an id of their own
    hold_ms: int = 0  # for how long it may be held until there is something to tell
    # The client can cope with an answer that comes after its next heartbeat is due.
    tolerates_late_answers: bool = False
    # Tells whether the member may see a topic; asked in a thread that matches expressions. None: it sees all.
    may_describe: Callable[[str], bool] | None = None
    phase: HeartbeatPhase = HeartbeatPhase.ARRIVED


# ---- from timers -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireConsumerSession:
    """A member of a consumer group was silent for its session timeout."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireRevocation:
    """A member had its rebalance timeout to give up partitions, in this epoch."""

    group_id: str
    member_id: str
    member_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeTarget:
    """The assignment interval is over: time for the target that was put off."""

    group_id: str


# ---- from the node -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsChanged:
    """The cluster has other topics now; `changed` names those made, grown, placed anew or deleted."""

    topics: TopicsView
    has_new_topics: bool
    changed: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexesResolved:
    """The names that expressions of a group match in that version of the metadata.

    Some may be left for the next time. Those in `given_up` took more than an expression may. `union_hash` is
    the hash of all names together, which takes a millisecond a thousand.
    """

    group_id: str
    topics: Mapping[str, frozenset[str]]
    union: frozenset[str] = frozenset()
    union_hash: int = 0
    version: int
    began_ms: int
    given_up: frozenset[str] = frozenset()
    cpu_ms: int = 0  # that all of it took


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetComputed:
    """Who shall own what in that epoch of a large group, by member ids; and whose each instance was then."""

    group_id: str
    epoch: int
    targets: Mapping[str, Assignment]
    instances: Mapping[str, str]
