"""Effects by which a share group asks the share coordinators; the node carries them out (`share_persister`).

It is carried out once the appends before it are committed. The results come back as a command.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ottla.groupcoord.admin_commands import DeleteGroups
from ottla.groupcoord.share.share_commands import (
    AlterShareGroupOffsets,
    DeleteShareGroupOffsets,
    ShareStateDeleted,
    ShareStateInitialized,
)
from ottla.groupcoord.share_state.share_state_words import DeleteState, InitializeState, StateResult


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeShareState:
    """Have the state of share-partitions of a group begun. `job` names it within the shard."""

    group_id: str
    job: int
    requests: Sequence[InitializeState]
    asked_by: AlterShareGroupOffsets | None = None

    def done(self, results: Sequence[StateResult]) -> ShareStateInitialized:
        """Return the command that brings the results back."""
        return ShareStateInitialized(
            group_id=self.group_id, job=self.job, results=results, asked_by=self.asked_by
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareState:
    """Have the state of share-partitions deleted."""

    job: int
    requests: Sequence[DeleteState]
    asked_by: DeleteShareGroupOffsets | DeleteGroups | None = None

    def done(self, results: Sequence[StateResult]) -> ShareStateDeleted:
        """Return the command that brings the results back."""
        return ShareStateDeleted(job=self.job, results=results, asked_by=self.asked_by)


AskPersister: TypeAlias = InitializeShareState | DeleteShareState
