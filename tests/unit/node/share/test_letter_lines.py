"""Dead letters over real connections to a leader, some of whose topics have too few replicas."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.net.peer_client import MAX_IN_FLIGHT, PeerClient
from ottla.node.share import letter_producer
from ottla.node.share.letter_lines import MAX_LINES, LetterLines
from ottla.node.share.letter_producer import LetterProducer
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.node.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.unit.node.replica.replica_world import NODE_ID, OTHER_ID, ReplicaWorld
from tests.unit.node.share.test_letter_producer import letters

TIMEOUT_S, ANSWER_S = 1.0, 0.8
HANGING = 12  # partitions of a topic, more than a connection may have requests in flight


class Leader:
    """Another node over loopback. It answers in order, and letters to some topics only after the timeout."""

    def __init__(self) -> None:
        self.hangs: set[bytes] = set()
        self.requests = 0
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        owed: asyncio.Queue[tuple[float, Any]] = asyncio.Queue()
        sending = asyncio.ensure_future(self._send(owed, writer))
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                owed.put_nowait(self._answer(frame))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            sending.cancel()
            writer.close()

    async def _send(self, owed: "asyncio.Queue[tuple[float, Any]]", writer: asyncio.StreamWriter) -> None:
        while True:
            due, answer = await owed.get()
            await asyncio.sleep(max(due - time.monotonic(), 0))
            writer.writelines(answer)

    def _answer(self, frame: bytes) -> tuple[float, Any]:
        header, position = codec.decode_request_header(frame)
        if header.api_key == ApiKey.API_VERSIONS:
            served = [
                ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4),
                ApiVersion(api_key=ApiKey.PRODUCE, min_version=3, max_version=13),
            ]
            versions = ApiVersionsResponse(api_keys=served)
            return 0.0, codec.encode_response(
                header.api_key, header.api_version, header.correlation_id, versions
            )
        request: ProduceRequest = codec.decode_request(header.api_key, header.api_version, frame, position)
        self.requests += 1
        [topic] = request.topic_data
        [partition] = topic.partition_data
        is_late = topic.topic_id in self.hangs
        code = ErrorCode.REQUEST_TIMED_OUT if is_late else ErrorCode.NONE
        message = "too few replicas" if is_late else None
        one = PartitionProduceResponse(index=partition.index, error_code=int(code), error_message=message)
        response = ProduceResponse(
            responses=[TopicProduceResponse(topic_id=topic.topic_id, partition_responses=[one])]
        )
        due = time.monotonic() + (request.timeout_ms / 1000 if is_late else 0.0)
        return due, codec.encode_response(header.api_key, header.api_version, header.correlation_id, response)


class World(ReplicaWorld):
    """A node with a connection to that leader for each purpose."""

    def __init__(self, leader: Leader) -> None:
        super().__init__()
        self.leader = leader
        self.port = 0
        self.timeout_s = TIMEOUT_S
        self.clients: dict[str, PeerClient] = {}
        self.dials = asyncio.Lock()
        self.produce = LetterProducer(
            node_id=NODE_ID,
            image=lambda: self.metadata.image,
            replicas=self.replica_manager,
            ask=self.ask,
            in_thread=asyncio.to_thread,
            clock=self.clock,
            timeout_ms=lambda: int(self.timeout_s * 1000),
            is_cut_off=lambda: False,
        )

    def topic(self, name: str, partitions: int = 1, *, hangs: bool = False) -> bytes:
        made = self.create_topic(name, leader=OTHER_ID, replicas=(OTHER_ID,), partitions=partitions)
        if hangs:
            self.leader.hangs.add(made.topic_id)
        return made.topic_id

    async def ask(
        self, node_id: int, purpose: str, request: Any, response_type: type[Any], timeout_s: float
    ) -> Any:
        async with asyncio.timeout(timeout_s):
            async with self.dials:
                client = self.clients.get(purpose)
                if client is None or not client.is_open:
                    client = await PeerClient.connect("127.0.0.1", self.port, client_id="test", timeout_s=5)
                    self.clients[purpose] = client
            return await client.request(request, response_type, timeout_s=timeout_s)

    async def send(self, topic_id: bytes, index: int = 0) -> KafkaError | None:
        try:
            await self.produce(topic_id, index, letters())
        except KafkaError as error:
            return error
        return None


def play(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World(Leader())
        server = await asyncio.start_server(world.leader.serve, "127.0.0.1", 0)
        world.port = server.sockets[0].getsockname()[1]
        try:
            async with asyncio.timeout(20):
                await scenario(world)
        finally:
            for client in world.clients.values():
                client.abort()
            server.close()

    asyncio.run(run())


@pytest.fixture(autouse=True)
def short_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letter_producer, "ANSWER_S", ANSWER_S)


def test_the_timeout_of_a_letter_starts_with_its_turn() -> None:
    async def scenario(world: World) -> None:
        hanging = world.topic("dlq.dead", HANGING, hangs=True)

        errors = await asyncio.gather(*(world.send(hanging, index) for index in range(HANGING)))

        assert {error.detail for error in errors if error is not None} == {"too few replicas"}
        assert (len(errors), world.leader.requests, world.leader.connections) == (HANGING, HANGING, 1)

    play(scenario)


def test_a_topic_that_hangs_does_not_hold_up_letters_to_another() -> None:
    async def scenario(world: World) -> None:
        world.timeout_s = 60.0
        hanging = world.topic("dlq.dead", HANGING, hangs=True)
        healthy = world.topic("dlq.alive")
        sending = [asyncio.ensure_future(world.send(hanging, index)) for index in range(HANGING)]
        while world.leader.requests < MAX_IN_FLIGHT:
            await asyncio.sleep(0.01)

        for _ in range(3):
            assert await world.send(healthy) is None

        assert not any(one.done() for one in sending)
        for one in sending:
            one.cancel()
        await asyncio.gather(*sending, return_exceptions=True)

    play(scenario)


def test_connections_to_a_leader_are_few_however_many_topics_have_letters() -> None:
    async def scenario() -> None:
        lines = LetterLines()
        used: set[str] = set()
        may_proceed = asyncio.Event()

        async def hold(topic: int) -> None:
            async with lines.take(1, "letters", b"%16d" % topic) as purpose:
                used.add(purpose)
                await may_proceed.wait()

        holding = [asyncio.ensure_future(hold(topic)) for topic in range(100)]
        await asyncio.sleep(0.01)
        assert (len(used), len(lines)) == (MAX_LINES, MAX_LINES)

        may_proceed.set()
        await asyncio.gather(*holding)
        assert len(lines) == 0

    asyncio.run(scenario())


def test_a_cancelled_caller_leaves_its_turn() -> None:
    async def scenario() -> None:
        lines = LetterLines()

        async def hold() -> None:
            async with lines.take(1, "letters", bytes(16)):
                await asyncio.sleep(60)

        holding = [asyncio.ensure_future(hold()) for _ in range(MAX_IN_FLIGHT + 1)]
        await asyncio.sleep(0.01)
        for one in reversed(holding):
            one.cancel()
        await asyncio.gather(*holding, return_exceptions=True)

        assert len(lines) == 0

    asyncio.run(scenario())
