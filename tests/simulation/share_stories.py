"""Share groups in the order of a story: a group is given another start, and a node loses its disk."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from ottla.node.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from ottla.node.wire.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from ottla.node.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.simulation import admin_requests, share_workload
from tests.simulation.idempotent_producer import add_producer
from tests.simulation.share_history import ACCEPT, RENEW
from tests.simulation.sim_client import SimClient, check
from tests.simulation.simulation import Simulation
from tests.simulation.stories import FIRST, the_end
from tests.simulation.virtual_loop import SimulationError
from tests.simulation.workload import Workload

GROUP: Final = "reset"
LIMIT_S: Final = 20.0
SETTINGS: Final = share_workload.SETTINGS | {"group.share.delivery.count.limit": "10"}


async def who_was_reset_writes_no_more(simulation: Simulation) -> None:
    """A member that the group has forgotten holds records on, while the group is given another start.

    What it says of them then is of another state, and is not written into the new one.
    """
    workload = simulation.workload
    add_producer(workload, "p", [FIRST], pause_s=0.05)
    configs = {"share.auto.offset.reset": "earliest"}
    client = simulation.admin_client
    await simulation.world.spawn(simulation.admin, admin_requests.set_group_configs(client, GROUP, configs))
    forgotten, next_one = _Member(workload, "forgotten"), _Member(workload, "next")
    await forgotten.do(forgotten.join())
    held = await forgotten.do(forgotten.until_given())

    await forgotten.do(forgotten.hold_until(held, lambda: _reset(client)))
    await next_one.do(next_one.join())
    code = await forgotten.do(forgotten.say(held, ACCEPT))
    if not code:
        raise SimulationError("a word on records of before was taken, when the group had another start")
    await next_one.do(next_one.until_accepted(held))
    await the_end(simulation)


async def a_node_loses_its_disk(simulation: Simulation) -> None:
    """With the states of share-partitions and with records; others have both."""
    add_producer(simulation.workload, "p", simulation.partitions, pause_s=0.1)
    await simulation.add_workers()
    await asyncio.sleep(4)
    lost = simulation.world.nodes[3]
    lost.kill()
    lost.storage.lose_everything()
    await asyncio.sleep(2)
    lost.start()
    await asyncio.sleep(2)

    await simulation.wait_until_whole()
    simulation.workload.is_calm = True
    await simulation.finish(limit_s=LIMIT_S)
    await simulation.world.spawn(simulation.admin, simulation.judge())


class _Member:
    """A member that does what the story says, and tries again whatever it is told."""

    def __init__(self, workload: Workload, name: str) -> None:
        self._workload = workload
        self._name = name
        self._client, self._chance, self._process = workload.client(name)
        self._topic_id = b""
        self._session_epoch = 0

    async def do(self, work: Any) -> Any:
        """Carry something out on this member's host."""
        return await self._workload.world.spawn(self._process, work)

    async def join(self) -> None:
        deadline_s = self._workload.world.loop.now_s + LIMIT_S
        epoch = 0
        while True:
            try:
                found = await self._client.refresh([FIRST.topic])
                self._topic_id = bytes(found.topics[0].topic_id)
                request = ShareGroupHeartbeatRequest(
                    group_id=GROUP,
                    member_id=self._name,
                    member_epoch=epoch,
                    subscribed_topic_names=[FIRST.topic],
                )
                coordinator = await self._client.coordinator_of(GROUP)
                answer = await self._client.ask(coordinator, request, ShareGroupHeartbeatResponse)
                check(answer.error_code, answer.error_message)
                epoch = answer.member_epoch
                if answer.assignment is not None and answer.assignment.topic_partitions:
                    return
            except KafkaError as error:
                self._workload.judge(error)
                self._client.forget_coordinator(GROUP)
            self._check_time(deadline_s, "is assigned nothing")
            await asyncio.sleep(0.2)

    async def fetch(self) -> list[tuple[int, int]]:
        """What it is given of the first partition."""
        request = ShareFetchRequest(
            group_id=GROUP,
            member_id=self._name,
            share_session_epoch=self._session_epoch,
            max_wait_ms=200,
            min_bytes=1,
            max_records=500,
            batch_size=500,
            topics=[FetchTopic(topic_id=self._topic_id, partitions=[FetchPartition(partition_index=0)])],
        )
        try:
            answer = await self._client.ask(await self._client.leader(FIRST), request, ShareFetchResponse)
            check(answer.error_code, answer.error_message)
        except KafkaError as error:
            self._workload.judge(error)
            self._session_epoch = 0
            self._client.forget_leader(FIRST)
            return []
        self._session_epoch += 1
        return [
            (each.first_offset, each.last_offset)
            for topic in answer.responses
            for one in topic.partitions
            for each in one.acquired_records
        ]

    async def say(self, held: list[tuple[int, int]], kind: int) -> int:
        """One word on all that it holds; the error, 0 if there is none."""
        request = ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self._name,
            share_session_epoch=self._session_epoch,
            is_renew_ack=kind == RENEW,
            topics=[
                AcknowledgeTopic(
                    topic_id=self._topic_id,
                    partitions=[
                        AcknowledgePartition(
                            partition_index=FIRST.partition,
                            acknowledgement_batches=[
                                AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=[kind]
                                )
                                for first, last in held
                            ],
                        )
                    ],
                )
            ],
        )
        answer = await self._client.ask(await self._client.leader(FIRST), request, ShareAcknowledgeResponse)
        check(answer.error_code, answer.error_message)
        self._session_epoch += 1
        return answer.responses[0].partitions[0].error_code

    async def until_given(self) -> list[tuple[int, int]]:
        deadline_s = self._workload.world.loop.now_s + LIMIT_S
        while not (held := await self.fetch()):
            self._check_time(deadline_s, "is given nothing")
        return held

    async def hold_until(self, held: list[tuple[int, int]], done: Callable[[], Any]) -> None:
        """Renew the locks until something has happened."""
        deadline_s = self._workload.world.loop.now_s + LIMIT_S
        while not await done():
            self._check_time(deadline_s, "waits in vain")
            code = await self.say(held, RENEW)
            if code:
                raise SimulationError(f"{self._name} renews its locks in time, and is told {ErrorCode(code)}")
            await asyncio.sleep(0.3)

    async def until_accepted(self, wanted: list[tuple[int, int]]) -> None:
        """It accepts whatever it is given, until these were among it, and taken."""
        left = {offset for first, last in wanted for offset in range(first, last + 1)}
        deadline_s = self._workload.world.loop.now_s + LIMIT_S
        while left:
            self._check_time(deadline_s, f"is not given {sorted(left)[:9]}")
            given = await self.fetch()
            if given and not await self.say(given, ACCEPT):
                left -= {offset for first, last in given for offset in range(first, last + 1)}

    def _check_time(self, deadline_s: float, what: str) -> None:
        if self._workload.world.loop.now_s > deadline_s:
            raise SimulationError(f"{self._name} {what}")


async def _reset(client: SimClient) -> bool:
    """Whether the group could be given the start of the partition: it has no members any more."""
    part = AlterShareGroupOffsetsRequestPartition(partition_index=FIRST.partition, start_offset=0)
    topic = AlterShareGroupOffsetsRequestTopic(topic_name=FIRST.topic, partitions=[part])
    request = AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[topic])
    coordinator = await client.coordinator_of(GROUP)
    answer = await client.ask(coordinator, request, AlterShareGroupOffsetsResponse)
    if answer.error_code == ErrorCode.NON_EMPTY_GROUP:
        return False
    check(answer.error_code, answer.error_message)
    check(answer.responses[0].partitions[0].error_code)
    return True


STORIES: Final = (who_was_reset_writes_no_more,)
