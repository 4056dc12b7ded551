"""The commands that a shard of the share coordinator carries out.

A command with a `token` comes from a leader or the group coordinator: every token is answered exactly once.
"""

from dataclasses import dataclass
from typing import TypeAlias

from ottla.groupcoord.request_token import Token
from ottla.groupcoord.share_state.share_state_words import ReadStateSummary, StateRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class AskState:
    """A request that may lead to records."""

    token: Token
    request: StateRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class AskSummary:
    """A request that leads to no records, whatever the state is."""

    token: Token
    request: ReadStateSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneRecords:
    """Timer: cut off the records that later ones have made redundant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotColdPartitions:
    """Timer: which share-partitions have an old snapshot? `is_begun`: in the middle of a round."""

    is_begun: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetTopics:
    """These topics are gone, and what is known of their share-partitions goes with them."""

    topic_ids: frozenset[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetMore:
    """Timer: states of topics that are gone are left."""


ClientCommand: TypeAlias = AskState | AskSummary
TimerCommand: TypeAlias = PruneRecords | SnapshotColdPartitions | ForgetMore
# What leads to no records, and is carried out while the log takes none.
ReadOnlyCommand: TypeAlias = AskSummary | PruneRecords
Command: TypeAlias = ClientCommand | TimerCommand | ForgetTopics


def command_of(token: Token, request: StateRequest) -> ClientCommand:
    """Return the command that asks a request."""
    if isinstance(request, ReadStateSummary):
        return AskSummary(token=token, request=request)
    return AskState(token=token, request=request)
