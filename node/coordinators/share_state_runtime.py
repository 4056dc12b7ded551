"""The share coordinator of this node: one shard for each partition of `__share_group_state` that it leads.

Request handlers call it on behalf of other nodes, the persister on behalf of this one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeAlias, TypeVar

from ottla.groupcoord.request_token import Token
from ottla.groupcoord.shard_bytes import NodeBytes
from ottla.groupcoord.share_state.share_coordinator import ShareCoordinator
from ottla.groupcoord.share_state.share_state_commands import Command, ForgetTopics, command_of
from ottla.groupcoord.share_state.share_state_config import ShareCoordinatorConfig
from ottla.groupcoord.share_state.share_state_records import SHARE_STATE_TOPIC
from ottla.groupcoord.share_state.share_state_shard import ShareStateShard
from ottla.groupcoord.share_state.share_state_words import (
    DeleteState,
    InitializeState,
    ReadState,
    ReadStateSummary,
    StateAnswer,
    StateRequest,
    WriteState,
    refused,
)
from ottla.logstore.compression import Compression
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.image import MetadataImage
from ottla.node.clock import Clock, monotonic_s
from ottla.node.coordinators.coordinator_runtime import MAX_COMMANDS_PER_TURN, CoordinatorRuntime
from ottla.node.coordinators.coordinator_shard import ShardParts
from ottla.node.coordinators.share_state_shard import share_state_parts
from ottla.node.counters.share_counters import ShareCoordinatorCounters
from ottla.node.handing_over import StartTask
from ottla.node.net.answers import Result
from ottla.node.replica.partition import Partition
from ottla.node.replica.replica_manager import ReplicaManager
from ottla.node.work.turns import listed

R = TypeVar("R")
# The coordinator's answer, or the error if no coordinator handled the request.
Outcome: TypeAlias = StateAnswer | KafkaError
_DONE_BY: Final[dict[type[StateRequest], str]] = {
    InitializeState: "initialize share group state",
    ReadState: "read share group state",
    ReadStateSummary: "read share group state summary",
    WriteState: "write share group state",
    DeleteState: "delete share group state",
}


class ShareStateRuntime:
    """Routes requests to shards, and answers to their callers. For the event loop only."""

    def __init__(
        self,
        *,
        config: ShareCoordinatorConfig,
        replicas: ReplicaManager,
        image: Callable[[], MetadataImage],
        create_topic: Callable[[], Awaitable[None]],
        clock: Clock,
        num_partitions: int,
        commit_timeout_ms: int,
        compression: Compression = Compression.NONE,
        states: NodeBytes | None = None,
    ) -> None:
        """`states` counts the bytes of all states on this node."""
        self._config = config
        self._image = image
        self._states = states if states is not None else NodeBytes()
        self._runtime = CoordinatorRuntime[ShareCoordinator, Command, StateAnswer](
            topic=SHARE_STATE_TOPIC,
            num_partitions=num_partitions,
            replicas=replicas,
            image=image,
            create_topic=create_topic,
            clock=clock,
            commit_timeout_ms=commit_timeout_ms,
            compression=compression,
            parts=self._shard_parts,
        )
        self.shards = self._runtime.by_index
        self.counters = ShareCoordinatorCounters()
        self.load_times = self._runtime.load_times
        self.count_shards = self._runtime.count_shards

    # ---- start, end, and changes of the metadata -------------------------------------------------------

    def start(self, start_task: StartTask) -> None:
        """Begin to serve. `start_task` starts the tasks that load shards."""
        self._runtime.start(start_task)

    def close(self) -> None:
        """Answer all waiting requests with NOT_COORDINATOR, and stop."""
        self._runtime.close()

    def refresh(self) -> None:
        """Open and close shards to match the partitions of `__share_group_state` that this node leads now."""
        self._runtime.refresh()

    def forget_topics(self, topic_ids: Iterable[bytes]) -> None:
        """Drop the states of deleted topics."""
        self._runtime.send_all(ForgetTopics(topic_ids=frozenset(topic_ids)))

    # ---- the place of a share-partition --------------------------------------------------------------

    def partition_for(self, coordinator_key: str) -> int:
        """Return the partition of `__share_group_state` that holds the state."""
        return self._runtime.partition_for(coordinator_key)

    async def coordinator_of(self, coordinator_key: str) -> int:
        """Return the node that leads the state's partition, -1 for none; create the topic on first use."""
        return await self._runtime.coordinator_of(coordinator_key)

    def known_coordinator_of(self, coordinator_key: str) -> int:
        """Return the id of the node that leads the state's partition, -1 if none is known."""
        return self._runtime.known_coordinator_of(coordinator_key)

    # ---- requests ------------------------------------------------------------------------------------

    def ask_each(
        self, requests: Sequence[StateRequest], build: Callable[[Sequence[StateAnswer]], R]
    ) -> Result[R]:
        """Carry out several requests, each in the shard of its share-partition, and build a response.

        `build` gets the answers in the order of the requests. Very many requests take turns with the loop.
        """

        began_s = monotonic_s()

        def build_of_outcomes(outcomes: Sequence[Outcome]) -> Result[R]:
            answers = [answer_of(*each) for each in zip(requests, outcomes, strict=True)]
            if requests and isinstance(requests[0], WriteState):
                self._count_writes(answers, began_s)
            return build(answers)

        if len(requests) <= MAX_COMMANDS_PER_TURN:
            return self._runtime.submit_each(list(map(_keyed_command, requests)), build_of_outcomes)

        async def ask_in_turns() -> Result[R]:
            commands = await listed(map(_keyed_command, requests), is_large=True)
            return await self._runtime.submit_in_turns(commands, build_of_outcomes, MAX_COMMANDS_PER_TURN)

        return ask_in_turns()

    def submit(self, request: StateRequest) -> "Outcome | asyncio.Future[Outcome]":
        """Carry out a request in the shard of its share-partition; return its outcome, or a future of it."""
        index = self.partition_for(request.key.coordinator_key)
        began_s = monotonic_s()
        outcome = self._runtime.submit(index, partial(_command, request))
        if isinstance(request, WriteState):
            if isinstance(outcome, asyncio.Future):
                outcome.add_done_callback(partial(self._written, request, began_s))
            else:
                self._count_writes([answer_of(request, outcome)], began_s)
        return outcome

    def _written(self, request: StateRequest, began_s: float, done: "asyncio.Future[Outcome]") -> None:
        if not done.cancelled() and done.exception() is None:
            self._count_writes([answer_of(request, done.result())], began_s)

    def _count_writes(self, answers: Sequence[StateAnswer], began_s: float) -> None:
        """Count a request to write states, and its time until now."""
        self.counters.write_times.observe(monotonic_s() - began_s)
        self.counters.writes += sum(one.error is ErrorCode.NONE for one in answers)

    # ---- shards --------------------------------------------------------------------------------------

    @property
    def cores(self) -> list[ShareCoordinator]:
        """The cores of the shards that are loaded."""
        return self._runtime.cores

    def _shard_parts(self, _: int, __: Partition) -> ShardParts[ShareCoordinator, Command, StateAnswer]:
        return share_state_parts(
            new_shard=self._new_shard,
            states=self._states,
            max_batch_bytes=self._config.max_batch_bytes,
        )

    def _new_shard(self) -> ShareStateShard:
        return ShareStateShard(self._config, partitions_of=self._partitions_of)

    def _partitions_of(self, topic_id: bytes) -> int:
        topic = self._image().topics.by_id.get(topic_id)
        return 0 if topic is None else len(topic.partitions)


def answer_of(request: StateRequest, outcome: Outcome) -> StateAnswer:
    """Return the answer to a request; if no coordinator handled it, one that has the error."""
    if isinstance(outcome, KafkaError):
        message = f"Unable to {_DONE_BY[type(request)]}: {outcome.detail}"
        return refused(request, outcome.code, message)
    return outcome


def _keyed_command(request: StateRequest) -> tuple[str, Callable[[Token], Command]]:
    """Return the key of the shard for a request, and the function that makes its command."""
    return request.key.coordinator_key, partial(_command, request)


def _command(request: StateRequest, token: Token) -> Command:
    return command_of(token, request)
