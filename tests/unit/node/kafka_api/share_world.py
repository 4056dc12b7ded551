"""A broker reduced to replicas and share-partitions, with a share coordinator that a test can delay."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from ottla.groupcoord.share_state.share_state_words import (
    ReadState,
    SharePartitionKey,
    StateRead,
    StateResult,
    WriteState,
)
from ottla.logstore.words.errors import ErrorCode
from ottla.node.kafka_api import share_acknowledge, share_fetch
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.share.initial_offset import InitialOffsets
from ottla.node.share.share_group_settings import ShareGroupConfigs
from ottla.node.share.share_partition_manager import SharePartitionManager
from ottla.node.wire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from ottla.node.wire.messages.share_fetch import PartitionData, ShareFetchRequest, ShareFetchResponse
from tests.compat.wire_client import build
from tests.unit.node.handler_results import settled
from tests.unit.node.replica.replica_world import CONNECTION, ReplicaWorld

GROUP = "workers"
TOPIC_ID = b"t".ljust(16, b".")


class Persister:
    """A share coordinator without any state, which records the writes."""

    def __init__(self) -> None:
        self.error = ErrorCode.NONE
        self.start_offset = -1
        self.state_epoch = 0
        self.reads: list[ReadState] = []
        self.written: list[WriteState] = []
        self.may_proceed = asyncio.Event()
        self.may_proceed.set()

    async def read(self, requests: Sequence[ReadState]) -> list[StateRead]:
        self.reads += requests
        await asyncio.sleep(0)
        await self.may_proceed.wait()
        return [
            StateRead(
                one.key, self.error, "no state", start_offset=self.start_offset, state_epoch=self.state_epoch
            )
            for one in requests
        ]

    async def write(self, requests: Sequence[WriteState]) -> list[StateResult]:
        self.written += requests
        await asyncio.sleep(0)
        await self.may_proceed.wait()
        return [StateResult(one.key, self.error, "no write") for one in requests]


class ShareWorld(ReplicaWorld):
    """The services of a broker that the handlers of share groups use."""

    def __init__(self, tasks: asyncio.TaskGroup, **parts: Any) -> None:
        super().__init__()
        self.serves_share_groups = True
        self.persister = Persister()
        self.own: dict[str, str] = {"share.auto.offset.reset": "earliest"}
        self.closed_connections: set[int] = set()
        self.wall_ahead_ms = 0  # greater than 0 if the wall clock was set forward
        self.has_dead_letters = True
        settings = ShareGroupConfigs(
            lambda: self.config.values,
            lambda group: dict(self.own),
            has_dead_letters=lambda: self.has_dead_letters,
            counts=lambda group: self.shares.counters.dead_letters_of(group),
            now_ms=self.clock.now_ms,
        )
        self.shares = SharePartitionManager(
            replicas=self.replica_manager,
            persister=self.persister,
            settings=settings,
            initial_offset=InitialOffsets(settings=settings, clock=self.clock, time_pool=self.time_pool),
            now_ms=self.clock.now_ms,
            wall_ms=lambda: self.clock.now_ms() + self.wall_ahead_ms,
            in_thread=asyncio.to_thread,
            start_task=tasks.create_task,
            is_open=lambda number: number not in self.closed_connections,
            **{"max_sessions": lambda: 100, **parts},
        )

    def end(self) -> None:
        self.shares.close()
        self.persister.may_proceed.set()

    def context(
        self, version: int = 2, *, number: int = 1, access: Any = CONNECTION.access, **fields: Any
    ) -> RequestContext:
        connection = replace(CONNECTION, number=number, access=access)
        return RequestContext(78, version, 1, "test", connection, **fields)

    async def fetch(
        self,
        member: str = "m1",
        epoch: int = 0,
        *partitions: int,
        context: RequestContext | None = None,
        topic_id: bytes = TOPIC_ID,
        acknowledged: dict[int, list[tuple[int, int, list[int]]]] | None = None,
        **fields: Any,
    ) -> ShareFetchResponse:
        """Return the response to a share fetch, which by default requests all records and does not wait."""
        acknowledgements = acknowledged or {}
        wanted = [
            {
                "partition_index": index,
                "acknowledgement_batches": [
                    {"first_offset": first, "last_offset": last, "acknowledge_types": types}
                    for first, last, types in acknowledgements.get(index, ())
                ],
            }
            for index in dict.fromkeys((*partitions, *acknowledgements))
        ]
        request: ShareFetchRequest = build(
            ShareFetchRequest,
            {
                "group_id": GROUP,
                "member_id": member,
                "share_session_epoch": epoch,
                "max_wait_ms": 0,
                "min_bytes": 1,
                "max_bytes": 1 << 20,
                "max_records": 500,
                "batch_size": 500,
                "topics": [{"topic_id": topic_id, "partitions": wanted}] if wanted else [],
                **fields,
            },
        )
        result = share_fetch.handle(self, context or self.context(), request)  # type: ignore[arg-type]
        answer = await settled(result)
        assert isinstance(answer, ShareFetchResponse)
        return answer

    async def ready(self, member: str = "m1", *partitions: int) -> None:
        """Begin a session, and have the state of its partitions read."""
        await self.fetch(member, 0, *(partitions or (0,)), max_records=0)
        await self.fetch(member, 1)
        await self.run_pending()

    async def acknowledge(
        self,
        member: str,
        epoch: int,
        batches: Sequence[tuple[int, int, list[int]]],
        *,
        partition: int = 0,
        version: int = 2,
        topic_id: bytes = TOPIC_ID,
        **fields: Any,
    ) -> ShareAcknowledgeResponse:
        """Return the response to acknowledgements for one partition."""
        request: ShareAcknowledgeRequest = build(
            ShareAcknowledgeRequest,
            {
                "group_id": GROUP,
                "member_id": member,
                "share_session_epoch": epoch,
                "topics": [
                    {
                        "topic_id": topic_id,
                        "partitions": [
                            {
                                "partition_index": partition,
                                "acknowledgement_batches": [
                                    {"first_offset": first, "last_offset": last, "acknowledge_types": types}
                                    for first, last, types in batches
                                ],
                            }
                        ],
                    }
                ],
                **fields,
            },
        )
        answer = await settled(share_acknowledge.handle(self, self.context(version), request))  # type: ignore[arg-type]
        assert isinstance(answer, ShareAcknowledgeResponse)
        return answer

    async def run_pending(self) -> None:
        """Give all tasks that wait for nothing but the loop enough turns."""
        for _ in range(20):
            await asyncio.sleep(0)

    def key(self, partition: int = 0) -> SharePartitionKey:
        return SharePartitionKey(GROUP, TOPIC_ID, partition)


def acquired(data: PartitionData) -> list[tuple[int, int, int]]:
    """Return first offset, last offset and delivery count of the acquired records."""
    return [(one.first_offset, one.last_offset, one.delivery_count) for one in data.acquired_records]


def play(scenario: Callable[[ShareWorld], Coroutine[Any, Any, None]], **parts: Any) -> None:
    """Play a scenario on a broker."""

    async def run() -> None:
        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            world = ShareWorld(tasks, **parts)
            try:
                await scenario(world)
            finally:
                world.end()

    asyncio.run(run())
