"""Requests of share groups to the share coordinators; the node carries them out (`share_persister`).

It does so once the appends before them are committed. The results come back as a command (D54).
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
    """A request to begin the state of share-partitions of a group. `job` names it within the shard."""

    group_id: str
    job: int
    requests: Sequence[InitializeState]
    waiting_request: AlterShareGroupOffsets | None = None

    def done(self, results: Sequence[StateResult]) -> ShareStateInitialized:
        """Return the command that brings the results back."""
        return ShareStateInitialized(
            group_id=self.group_id, job=self.job, results=results, waiting_request=self.waiting_request
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareState:
    """A request to delete the state of share-partitions."""

    job: int
    requests: Sequence[DeleteState]
    waiting_request: DeleteShareGroupOffsets | DeleteGroups | None = None

    def done(self, results: Sequence[StateResult]) -> ShareStateDeleted:
        """Return the command that brings the results back."""
        return ShareStateDeleted(job=self.job, results=results, waiting_request=self.waiting_request)


PersisterRequest: TypeAlias = InitializeShareState | DeleteShareState
