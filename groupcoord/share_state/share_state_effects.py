"""The effects of the share coordinator: those of every coordinator, and the pruning of its log."""

from dataclasses import dataclass
from typing import TypeAlias

from ottla.groupcoord.coordinator_effects import Append, Refuse, Reply, StartTimer, TimerKey
from ottla.groupcoord.share_state.share_state_commands import TimerCommand
from ottla.groupcoord.share_state.share_state_records import ShareStateRecord
from ottla.groupcoord.share_state.share_state_words import StateAnswer

__all__ = ["Append", "Effect", "PruneLog", "Refuse", "Reply", "StartTimer", "TimerKey"]


@dataclass(frozen=True, slots=True)
class PruneLog:
    """The new start of the log, to be set once all earlier appends are committed."""

    offset: int


Effect: TypeAlias = (
    Append[ShareStateRecord] | Reply[StateAnswer] | Refuse | StartTimer[TimerCommand] | PruneLog
)
