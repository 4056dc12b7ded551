"""ottla.node.net.peer_client against a fake node on loopback that answers as the test says."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.net.peer_client import MAX_IN_FLIGHT, PeerClient
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.node.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.node.wire.messages.metadata import MetadataRequest, MetadataResponse

T = TypeVar("T")
SERVED = [
    ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4),
    ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=9),
]


class FakeNode:
    """Answers ApiVersions, and other requests with the result of `answer`; records each API and version."""

    def __init__(self, *, max_api_versions: int = 4) -> None:
        self.max_api_versions = max_api_versions
        self.seen: list[tuple[int, int]] = []  # API and version of every request
        self.answer: Callable[[int, int, int], bytes] = self._metadata

    @staticmethod
    def _metadata(api_key: int, version: int, correlation_id: int) -> bytes:
        return b"".join(
            codec.encode_response(api_key, version, correlation_id, MetadataResponse(controller_id=7))
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                length = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(length)
                api_key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
                correlation_id = int.from_bytes(frame[4:8], "big")
                self.seen.append((api_key, version))
                if api_key != ApiKey.API_VERSIONS:
                    writer.write(self.answer(api_key, version, correlation_id))
                elif version > self.max_api_versions:
                    refusal = ApiVersionsResponse(
                        error_code=ErrorCode.UNSUPPORTED_VERSION,
                        api_keys=[
                            ApiVersion(
                                api_key=ApiKey.API_VERSIONS, min_version=0, max_version=self.max_api_versions
                            )
                        ],
                    )
                    writer.writelines(codec.encode_response(api_key, 0, correlation_id, refusal))
                else:
                    versions = ApiVersionsResponse(api_keys=SERVED)
                    writer.writelines(codec.encode_response(api_key, version, correlation_id, versions))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def with_node(node: FakeNode, scenario: Callable[[PeerClient], Awaitable[T]]) -> T:
    async def run() -> T:
        server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            client = await PeerClient.connect("127.0.0.1", port, client_id="test", timeout_s=5)
            try:
                return await scenario(client)
            finally:
                await client.close()

    return asyncio.run(run())


def test_a_request_has_the_highest_version_that_both_ends_know() -> None:
    node = FakeNode()

    response = with_node(node, lambda client: client.request(MetadataRequest(topics=[]), MetadataResponse))

    assert response.controller_id == 7
    assert node.seen == [(ApiKey.API_VERSIONS, 4), (ApiKey.METADATA, 9)]


def test_a_caller_may_ask_for_an_older_version() -> None:
    node = FakeNode()

    with_node(
        node,
        lambda client: client.request(MetadataRequest(topics=[]), MetadataResponse, max_version=5),
    )

    assert node.seen[-1] == (ApiKey.METADATA, 5)


def test_an_old_node_is_asked_again_in_its_own_version() -> None:
    """KIP-511: the error is sent in version 0 and contains the highest version."""
    node = FakeNode(max_api_versions=2)

    with_node(node, lambda client: client.request(MetadataRequest(topics=[]), MetadataResponse))

    assert [version for api, version in node.seen if api == ApiKey.API_VERSIONS] == [4, 2]


def test_an_api_that_is_not_served_is_unsupported() -> None:
    with pytest.raises(KafkaError, match="does not support Heartbeat") as raised:
        with_node(FakeNode(), lambda client: client.request(HeartbeatRequest(), HeartbeatResponse))

    assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_pipelined_requests_get_their_own_answers() -> None:
    node = FakeNode()
    node.answer = lambda api, version, number: b"".join(
        codec.encode_response(api, version, number, MetadataResponse(controller_id=number))
    )

    async def scenario(client: PeerClient) -> list[int]:
        async with asyncio.TaskGroup() as tasks:
            requests = [
                tasks.create_task(client.request(MetadataRequest(topics=[]), MetadataResponse))
                for _ in range(20)
            ]
        return [task.result().controller_id for task in requests]

    assert with_node(node, scenario) == list(range(1, 21))


def test_silence_is_a_timeout_and_ends_the_connection() -> None:
    node = FakeNode()
    node.answer = lambda api, version, number: b""

    async def scenario(client: PeerClient) -> None:
        with pytest.raises(KafkaError) as raised:
            await client.request(MetadataRequest(topics=[]), MetadataResponse, timeout_s=0.02)
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
        await asyncio.sleep(0)
        assert not client.is_open

    with_node(node, scenario)


@pytest.mark.parametrize("before", [1, MAX_IN_FLIGHT], ids=["under way", "waiting for its turn"])
def test_the_shortest_time_of_all_ends_the_connection(before: int) -> None:
    node = FakeNode()
    node.answer = lambda api, version, number: b""

    async def scenario(client: PeerClient) -> None:
        waiting = [ask(client, 60) for _ in range(before)]
        await asyncio.sleep(0)
        outcomes = await asyncio.gather(*waiting, ask(client, 0.02), return_exceptions=True)
        assert {str(one) for one in outcomes} == {str(outcomes[-1])}
        assert "did not answer Metadata within 0.02 s" in str(outcomes[-1])

    with_node(node, scenario)


def test_a_deadline_whose_request_was_answered_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    node = FakeNode()

    async def scenario(client: PeerClient) -> None:
        await ask(client, 30)
        node.answer = lambda api, version, number: b""
        later = ask(client, 60)
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        now_s = loop.time
        monkeypatch.setattr(loop, "time", lambda: now_s() + 31)
        for _ in range(3):
            await asyncio.sleep(0)
        assert client.is_open and not later.done()
        later.cancel()

    with_node(node, scenario)


def test_a_connection_whose_request_was_cancelled_is_closed_at_once() -> None:
    node = FakeNode()

    async def scenario(client: PeerClient) -> None:
        cancelled = ask(client, 60)
        await asyncio.sleep(0)
        seen = []
        cancelled.cancel()
        asyncio.get_running_loop().call_soon(lambda: seen.append(client.is_open))  # as the task ends
        await asyncio.gather(cancelled, return_exceptions=True)

        assert seen == [False]

    with_node(node, scenario)


def ask(client: PeerClient, timeout_s: float) -> "asyncio.Task[MetadataResponse]":
    request = client.request(MetadataRequest(topics=[]), MetadataResponse, timeout_s=timeout_s)
    return asyncio.ensure_future(request)


@pytest.mark.parametrize(
    "answer",
    [
        b"\x00\x00\x00\x04\x00\x00\x00\x63",  # of another request
        b"\xff\xff\xff\xff",  # a negative length
        b"\x7f\xff\xff\xff",  # a length beyond all limits
        b"\x00\x00\x00\x02\x00\x00",  # too short for a header
        b"\x00\x00\x00\x09\x00\x00\x00\x01\x00\xff\xff\xff\xff",  # an invalid body
    ],
)
def test_bytes_that_are_no_answer_end_the_connection(answer: bytes) -> None:
    node = FakeNode()
    node.answer = lambda api, version, number: answer

    async def scenario(client: PeerClient) -> ErrorCode:
        with pytest.raises(KafkaError) as raised:
            await client.request(MetadataRequest(topics=[]), MetadataResponse, timeout_s=5)
        return raised.value.code

    assert with_node(node, scenario) is ErrorCode.INVALID_REQUEST


def test_a_refused_connection_says_so() -> None:
    async def run() -> None:
        await PeerClient.connect("127.0.0.1", 1, client_id="test", timeout_s=5)

    with pytest.raises(KafkaError, match="connection refused") as raised:
        asyncio.run(run())

    assert raised.value.code is ErrorCode.NETWORK_EXCEPTION


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP, not the Kafka protocol: is this the REST port?"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "requires TLS, not the Kafka protocol in plain"),
        (b"\x7f\xff\xff\xffgarbage", "does not speak the Kafka protocol"),
        (b"", "closed the connection before it reported its API versions"),
    ],
)
def test_a_server_that_is_no_node_is_named_by_its_protocol(answer: bytes, words: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        writer.close()

    async def run() -> str:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(KafkaError) as refused:
                await PeerClient.connect("127.0.0.1", port, client_id="test", timeout_s=20)
            assert refused.value.detail.startswith(f"127.0.0.1:{port} ")
            return refused.value.detail

    assert words in asyncio.run(run())
