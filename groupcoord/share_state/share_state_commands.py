"""The commands of a shard of the share coordinator.

A command with a `token` comes from a leader or the group coordinator: every token is answered exactly once.
"""

from dataclasses import dataclass
from typing import TypeAlias

from ottla.groupcoord.request_token import Token
from ottla.groupcoord.share_state.share_state_words import ReadStateSummary, StateRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCommand:
    """A request that may lead to records."""

    token: Token
    request: StateRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSummaryCommand:
    """A request that leads to no records, whatever the state is."""

    token: Token
    request: ReadStateSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneRecords:
    """Timer: delete the records at the start of the log that later ones have made redundant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotColdPartitions:
    """Timer: make new snapshots of share-partitions whose snapshots are old. `is_begun`: within a round."""

    is_begun: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetTopics:
    """The removal of the states of these topics, which are gone."""

    topic_ids: frozenset[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetMore:
    """Timer: remove the states of deleted topics that earlier slices have left."""


ClientCommand: TypeAlias = StateCommand | StateSummaryCommand
TimerCommand: TypeAlias = PruneRecords | SnapshotColdPartitions | ForgetMore
# Commands that lead to no records; they are carried out even while the log takes none.
ReadOnlyCommand: TypeAlias = StateSummaryCommand | PruneRecords
Command: TypeAlias = ClientCommand | TimerCommand | ForgetTopics


def command_of(token: Token, request: StateRequest) -> ClientCommand:
    """Return the command for a request."""
    if isinstance(request, ReadStateSummary):
        return StateSummaryCommand(token=token, request=request)
    return StateCommand(token=token, request=request)
