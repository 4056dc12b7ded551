"""One connection: requests in flight, versions, and nodes that die, are silent or send garbage."""

import socket
import struct
from collections.abc import Callable, Iterator

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.embedded import Cluster
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.node.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.pipeline.client import connection as connection_module
from ottla.pipeline.client.client_settings import ClientSettings
from ottla.pipeline.client.connection import BrokerConnection
from ottla.pipeline.client.connections import BrokerConnections, Purpose
from ottla.pipeline.words import OptionError
from tests.pipeline.topics import settings_for
from tests.ports import free_port

SETTINGS = ClientSettings(bootstrap_servers=(("127.0.0.1", 1),), request_timeout_ms=60_000)
METADATA = 1  # the version that the pairs below agree on
Pair = tuple[BrokerConnection, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Make a connection, and the node's end of it."""
    ours, theirs = socket.socketpair()
    with theirs:
        connection = BrokerConnection(ours, "node", SETTINGS)
        connection.versions = {ApiKey.METADATA: (0, METADATA)}
        yield connection, theirs
        connection.close()


def answer(correlation_id: int, controller_id: int = 0) -> bytes:
    response = MetadataResponse(brokers=[], controller_id=controller_id, topics=[])
    return b"".join(codec.encode_response(ApiKey.METADATA, METADATA, correlation_id, response))


def test_answers_belong_to_requests_in_their_order(pair: Pair) -> None:
    connection, node = pair
    sent = [connection.send(MetadataRequest(topics=[])) for _ in range(3)]

    for controller_id, pending in enumerate(sent):
        node.sendall(answer(pending.correlation_id, controller_id))

    assert [connection.receive(pending).controller_id for pending in sent] == [0, 1, 2]
    assert connection.in_flight == 0


def test_an_answer_that_arrives_byte_by_byte_is_received(pair: Pair) -> None:
    connection, node = pair
    pending = connection.send(MetadataRequest(topics=[]))

    for byte in answer(pending.correlation_id, 7):
        node.sendall(bytes([byte]))

    assert connection.receive(pending).controller_id == 7


def test_an_answer_larger_than_the_first_buffer_is_received(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "INITIAL_BUFFER_BYTES", 8)
    connection, node = pair
    pending = connection.send(MetadataRequest(topics=[]))

    node.sendall(answer(pending.correlation_id, 7))

    assert connection.receive(pending).controller_id == 7


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (struct.pack(">i", -1), "it announces -1 bytes"),
        (struct.pack(">i", 3), "it announces 3 bytes"),
        (struct.pack(">i", 2**31 - 1), "it announces 2147483647 bytes"),
        (answer(99), "a response to request 99 came instead of 1"),
        (struct.pack(">ii", 4, 1), "malformed"),
        (struct.pack(">iii", 8, 1, 2**31 - 1), "malformed"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "answers HTTP, not the Kafka protocol"),
    ],
)
def test_a_peer_with_another_protocol_is_not_retried(pair: Pair, sent: bytes, problem: str) -> None:
    connection, node = pair
    pending = connection.send(MetadataRequest(topics=[]))
    node.sendall(sent)

    with pytest.raises(KafkaError, match=problem) as rejected:
        connection.receive(pending)

    assert not rejected.value.code.retriable
    assert not connection.is_open()


@pytest.mark.parametrize("sent", [b"", b"\0\0", answer(1)[:-1]])
def test_a_connection_that_ends_has_no_answer(pair: Pair, sent: bytes) -> None:
    connection, node = pair
    first, second = (connection.send(MetadataRequest(topics=[])) for _ in range(2))
    node.sendall(sent)
    node.close()

    for pending in (first, second):
        with pytest.raises(KafkaError) as lost:
            connection.receive(pending)
        assert lost.value.code is ErrorCode.NETWORK_EXCEPTION
    with pytest.raises(KafkaError, match="was closed"):
        connection.send(MetadataRequest(topics=[]))


def test_a_silent_node_times_out() -> None:
    ours, theirs = socket.socketpair()
    settings = ClientSettings(bootstrap_servers=SETTINGS.bootstrap_servers, request_timeout_ms=1)
    connection = BrokerConnection(ours, "node", settings)
    connection.versions = {ApiKey.METADATA: (0, METADATA)}

    with theirs, pytest.raises(KafkaError, match="no answer to Metadata in 1 ms") as silent:
        connection.request(MetadataRequest(topics=[]))

    assert silent.value.code is ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("ends", [lambda node: node.close(), lambda node: node.sendall(b"unasked")])
def test_a_connection_that_ended_while_idle_is_not_used_again(
    pair: Pair, ends: Callable[[socket.socket], None]
) -> None:
    connection, node = pair
    assert connection.is_open()

    ends(node)

    assert not connection.is_open()


@pytest.mark.parametrize(
    ("theirs", "most", "version"),
    [((0, 1), None, 1), ((0, 99), None, 13), ((0, 99), 9, 9), ((3, 99), 9, 9)],
)
def test_the_highest_common_version_is_used(
    pair: Pair, theirs: tuple[int, int], most: int | None, version: int
) -> None:
    connection, _ = pair
    connection.versions = {ApiKey.METADATA: theirs}

    assert connection.version_of(MetadataRequest, most=most) == version


@pytest.mark.parametrize(
    ("versions", "problem"),
    [
        ({}, "does not support Metadata"),
        ({3: (10, 12)}, "supports Metadata versions 10 to 12, but this client 0 to 9"),
    ],
)
def test_without_a_common_version_the_error_names_both(
    pair: Pair, versions: dict[int, tuple[int, int]], problem: str
) -> None:
    connection, _ = pair
    connection.versions = versions

    with pytest.raises(KafkaError, match=problem) as rejected:
        connection.send(MetadataRequest(topics=[]), most=9)

    assert rejected.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_versions_are_requested_again_in_version_0(pair: Pair) -> None:
    """KIP-511: a node that does not know the request's version answers in version 0."""
    connection, node = pair
    old = ApiVersionsResponse(api_keys=[ApiVersion(api_key=3, min_version=0, max_version=5)])
    unsupported = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[])
    for correlation_id, response in ((1, unsupported), (2, old)):
        node.sendall(b"".join(codec.encode_response(ApiKey.API_VERSIONS, 0, correlation_id, response)))

    connection._agree_on_versions()

    assert connection.versions == {3: (0, 5)}


# ---- several connections ------------------------------------------------------------------------


@pytest.mark.slow
def test_a_node_is_found_from_any_address(ottla_cluster: Cluster) -> None:
    connections = BrokerConnections(settings_for(f"127.0.0.1:{free_port()},{ottla_cluster.bootstrap}"))

    response = connections.to_any().request(MetadataRequest(topics=[]))
    connections.learn([(one.node_id, one.host, one.port) for one in response.brokers])

    node_id = response.brokers[-1].node_id
    assert connections.knows(node_id)
    control, data = (connections.to(node_id, purpose) for purpose in (Purpose.CONTROL, Purpose.FETCH))
    assert control is not data
    assert connections.to(node_id, Purpose.FETCH) is data
    connections.close()


@pytest.mark.slow
def test_a_child_process_has_connections_of_its_own(
    ottla_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = BrokerConnections(settings_for(ottla_cluster.bootstrap))
    of_parent = connections.to_any()
    pending = of_parent.send(MetadataRequest(topics=[]))

    monkeypatch.setattr("ottla.pipeline.client.connections.os.getpid", lambda: -1)

    assert connections.to_any() is not of_parent
    with pytest.raises(KafkaError):
        of_parent.receive(pending)
    connections.close()


def test_an_unreachable_node_is_reported_with_its_address() -> None:
    port = free_port()

    with pytest.raises(KafkaError, match=f"127.0.0.1:{port}: Connection refused"):
        BrokerConnections(settings_for(f"127.0.0.1:{port}")).to_any()


def test_a_name_that_cannot_be_resolved_is_an_error_of_the_option() -> None:
    with pytest.raises(
        OptionError, match=r"kafka\.bootstrap\.servers: none of these host names can be resolved"
    ):
        BrokerConnections(settings_for("nobody.invalid:9092")).to_any()


def test_a_node_that_left_is_not_connected_to() -> None:
    connections = BrokerConnections(SETTINGS)
    connections.learn([(1, "127.0.0.1", free_port())])
    connections.learn([])

    with pytest.raises(KafkaError, match="node 1 is not in the cluster at the moment"):
        connections.to(1, Purpose.CONTROL)
