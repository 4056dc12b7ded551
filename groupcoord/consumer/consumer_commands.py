"""The heartbeat of the consumer protocol (KIP-848), and the commands of timers and of the node."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ottla.groupcoord.assignment import Assignment, TopicPartitions
from ottla.groupcoord.heartbeat_phase import HeartbeatPhase
from ottla.groupcoord.request_token import Token
from ottla.groupcoord.topics_view import TopicsView


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeat:
    """A heartbeat that joins (epoch 0), stays, or leaves (-1; -2 for a static member that will be back).

    A field that is None is as it was in the last request.
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
    hold_ms: int = 0  # for how long it may be held without news
    # The client can cope with an answer that comes after its next heartbeat is due.
    tolerates_late_answers: bool = False
    # Returns True if the member may see a topic; called in a thread that matches expressions. None: it sees
    # all.
    may_describe: Callable[[str], bool] | None = None
    phase: HeartbeatPhase = HeartbeatPhase.ARRIVED


# ---- from timers -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireConsumerSession:
    """The end of the session of a silent member of a consumer group."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireRevocation:
    """The end of a member's rebalance timeout, in which it had to give up partitions of this epoch."""

    group_id: str
    member_id: str
    member_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeTarget:
    """The time for a target that no heartbeat made: the assignment interval is over, or it is large."""

    group_id: str


# ---- from the node -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsChanged:
    """A change of the cluster's topics; `changed` names those created, grown, reassigned or deleted."""

    topics: TopicsView
    has_new_topics: bool
    changed: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexesResolved:
    """The topics that the expressions of a group match in a version of the metadata.

    Some expressions may be left for the next time. Those in `given_up` took more than an expression may.
    `union_hash` is the hash of all names together, which takes a millisecond for a thousand names.
    """

    group_id: str
    topics: Mapping[str, frozenset[str]]
    union: frozenset[str] = frozenset()
    union_hash: int = 0
    version: int
    began_ms: int
    given_up: frozenset[str] = frozenset()
    cpu_ms: int = 0  # of all of it


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetComputed:
    """The target of a large group for an epoch, by member ids, and the members of instances at that time."""

    group_id: str
    epoch: int
    targets: Mapping[str, Assignment]
    instances: Mapping[str, str]
