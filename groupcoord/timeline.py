"""The last rebalances of a group with their causes, to find out why it rebalanced.

A rebalance begins when a stable or empty group has to assign again and ends when it is stable, or empty,
again. What happens in between (another member joins, one does not come back in time) belongs to it, even if
the group went through several generations on the way. For a consumer group these are epochs, and its members
work on. Soft state: a new coordinator begins with an empty timeline (D19).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

# An entry takes some 500 bytes, and the cause of trouble is usually among the last few.
MAX_REBALANCES = 16
# A thousand members that start together join in one rebalance; the first events explain it.
MAX_EVENTS = 8
MAX_CHARS = 255  # of a client id and of a reason


class Cause(Enum):
    """The cause for which a group has to assign again; the value is the name that people are shown."""

    MEMBER_JOINED = "MemberJoined"
    MEMBER_LEFT = "MemberLeft"
    MEMBER_REMOVED = "MemberRemoved"  # by an administrator, who gave its instance id
    SESSION_EXPIRED = "SessionExpired"
    REVOCATION_TIMED_OUT = "RevocationTimedOut"  # it did not give its partitions up in time (KIP-848)
    REBALANCE_TIMED_OUT = "RebalanceTimedOut"  # it did not join again in time
    SYNC_TIMED_OUT = "SyncTimedOut"  # it did not ask for its assignment in time
    SUBSCRIPTION_CHANGED = "SubscriptionChanged"
    # Other protocols or metadata, but no other topics, as after the first half of a cooperative rebalance.
    METADATA_CHANGED = "MetadataChanged"
    LEADER_REJOINED = "LeaderRejoined"  # its topics have other partitions, or it gave some up
    STATIC_REPLACED = "StaticReplaced"
    TOPICS_CHANGED = "TopicsChanged"  # created, deleted or grown; the reason names them (KIP-848)
    REGEX_CHANGED = "RegexChanged"  # the expressions in the reason match other topics than before (KIP-848)
    GROUP_TOO_LARGE = "GroupTooLarge"
    ASSIGNMENT_TOO_LARGE = "AssignmentTooLarge"
    UPGRADED = "Upgraded"  # a member of the consumer protocol made it a consumer group
    DOWNGRADED = "Downgraded"  # the last member of the consumer protocol left: a classic group again


class Event(NamedTuple):
    """One event of a rebalance, with the member that caused it.

    `reason` is the client's own (KIP-800), or names what changed if no client caused it.
    """

    cause: Cause
    at_ms: int
    member_id: str = ""
    client_id: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """A rebalance, from its first event until the group was stable or empty again, or until now."""

    events: Sequence[Event]  # the first one began it
    events_left_out: int = 0
    began_ms: int
    ended_ms: int | None = None
    generation_before: int
    generation_after: int | None = None
    members: int | None = None  # of the group at the end


class Timeline:
    """The last rebalances of one group."""

    def __init__(self) -> None:
        self._ended: deque[Rebalance] = deque(maxlen=MAX_REBALANCES)
        self._running: Rebalance | None = None

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def note(self, event: Event, generation_id: int) -> None:
        """Add an event that begins a rebalance, or happens during one."""
        event = event._replace(client_id=event.client_id[:MAX_CHARS], reason=event.reason[:MAX_CHARS])
        running = self._running
        if running is None:
            self._running = Rebalance(events=(event,), began_ms=event.at_ms, generation_before=generation_id)
        elif len(running.events) < MAX_EVENTS:
            self._running = replace(running, events=(*running.events, event))
        else:
            self._running = replace(running, events_left_out=running.events_left_out + 1)

    def end(self, now_ms: int, generation_id: int, members: int) -> None:
        """End the rebalance: the group is stable or empty again."""
        if self._running is not None:
            self._ended.append(
                replace(self._running, ended_ms=now_ms, generation_after=generation_id, members=members)
            )
            self._running = None

    def last(self) -> tuple[Rebalance, ...]:
        """Return the rebalances, oldest first; a running one is the last."""
        return (*self._ended, self._running) if self._running is not None else tuple(self._ended)
