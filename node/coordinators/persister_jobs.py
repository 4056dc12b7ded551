"""Runs the requests of share groups to the share coordinators, and brings the results back as commands.

A group records that a state is being initialized or deleted before it asks for that, so a job begins only
when the records before it are committed.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from ottla.groupcoord.effects import DeleteShareState, InitializeShareState, PersisterRequest
from ottla.groupcoord.share.share_commands import ShareStateDeleted, ShareStateInitialized
from ottla.groupcoord.share_state.share_state_words import (
    DeleteState,
    InitializeState,
    ReadStateSummary,
    StateResult,
    StateSummary,
)
from ottla.logstore.words.errors import ErrorCode
from ottla.node.handing_over import StartTask

# Share-partitions of one request: they fit in a batch of a share coordinator, and take some 10 ms there.
PARTITIONS_PER_QUESTION: Final = 1_000
_NO_COORDINATOR: Final = "This node has no share coordinator."


class StatePersister(Protocol):
    """Asks the share coordinators of the cluster. It never raises: the results have the errors."""

    async def initialize(self, requests: Sequence[InitializeState], /) -> list[StateResult]: ...

    async def delete(self, requests: Sequence[DeleteState], /) -> list[StateResult]: ...

    async def read_summary(self, requests: Sequence[ReadStateSummary], /) -> list[StateSummary]: ...


Deliver: TypeAlias = Callable[[ShareStateInitialized | ShareStateDeleted], None]


class PersisterJobs:
    """The jobs of all shards of a node, each a task of its own."""

    def __init__(self, persister: StatePersister | None, start_task: StartTask) -> None:
        self._persister = persister
        self._start_task = start_task

    def begin(self, job: PersisterRequest, deliver: Deliver) -> None:
        """Send the requests of a job, and call `deliver` with the command that has the results."""
        self._start_task(self._carry_out(job, deliver))

    async def _carry_out(self, job: PersisterRequest, deliver: Deliver) -> None:
        results: list[StateResult] = []
        for start in range(0, len(job.requests), PARTITIONS_PER_QUESTION):
            match job:
                case InitializeShareState():
                    results += await self._initialize(job.requests[start : start + PARTITIONS_PER_QUESTION])
                case DeleteShareState():
                    results += await self._delete(job.requests[start : start + PARTITIONS_PER_QUESTION])
        deliver(job.done(results))

    async def _initialize(self, requests: Sequence[InitializeState]) -> list[StateResult]:
        if self._persister is None:
            return [_unavailable(request) for request in requests]
        return await self._persister.initialize(requests)

    async def _delete(self, requests: Sequence[DeleteState]) -> list[StateResult]:
        if self._persister is None:
            return [_unavailable(request) for request in requests]
        return await self._persister.delete(requests)

    async def read_summary(self, requests: Sequence[ReadStateSummary]) -> list[StateSummary]:
        """Return the states of these share-partitions without their batches; the answers have the errors."""
        if self._persister is None:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return [StateSummary(request.key, error, _NO_COORDINATOR) for request in requests]
        found: list[StateSummary] = []
        for start in range(0, len(requests), PARTITIONS_PER_QUESTION):
            found += await self._persister.read_summary(requests[start : start + PARTITIONS_PER_QUESTION])
        return found


def _unavailable(request: InitializeState | DeleteState) -> StateResult:
    return StateResult(request.key, ErrorCode.COORDINATOR_NOT_AVAILABLE, _NO_COORDINATOR)
