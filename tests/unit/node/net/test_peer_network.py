"""Peers prove themselves over real sockets; others are not served the cluster's private APIs."""

import asyncio
import logging
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID
from ottla.metadata_raft.image import SASL_PLAINTEXT, SASL_SSL
from ottla.node.net import peer_network
from ottla.node.net.client_lines import MAX_OF_ADDRESS
from ottla.node.net.connection_info import NO_PEER
from ottla.node.net.peer_client import PeerClient
from ottla.node.net.peer_handshake import PeerGate
from ottla.node.net.peer_network import EndedConnection
from ottla.node.wire.messages.fetch_metadata import FetchMetadataRequest, FetchMetadataResponse
from ottla.node.wire.messages.peer_handshake import PROVE, PeerHandshakeRequest, PeerHandshakeResponse
from ottla.node.wire.peer_api import PeerApi
from tests.unit.node.net.peer_node import PeerNode, gate, network, serving


def refusal(**fields: Any) -> KafkaError:
    """Return the error with which node 1 is refused when it dials node 0 with a gate of these fields."""

    async def scene() -> KafkaError:
        async with serving(PeerNode(0)) as node:
            peers = network(1, node, own_gate=gate(1, **fields))
            with pytest.raises(KafkaError) as refused:
                await peers.client(0)
            assert all(one.info.peer_id == NO_PEER for one in node.listener.connections)
            return refused.value

    return asyncio.run(scene())


def test_peers_prove_themselves_once_and_keep_the_connection() -> None:
    async def scene() -> None:
        async with serving(PeerNode(0)) as node:
            peers = network(1, node)

            client = await peers.client(0)
            again, other = await peers.client(0), await peers.client(0, "fetch")

            assert again is client and other is not client
            assert client.versions[PeerApi.SUBMIT_COMMAND] == (0, 1)
            assert [one.info.peer_id for one in node.listener.connections] == [1, 1]
            peers.close()

    asyncio.run(scene())


def test_requests_to_an_earlier_process_end_when_another_one_registers() -> None:
    """If the earlier process's host lost its power, its connections are not closed."""

    async def scene() -> None:
        async with serving(PeerNode(0)) as node:
            peers = network(1, node)
            peers.note_registration(0, 5)
            client = await peers.client(0)

            peers.note_registration(0, 5)
            assert client.is_open
            peers.note_registration(0, 9)
            again = await peers.client(0)

            assert again is not client and again.is_open and not client.is_open
            peers.close()

    asyncio.run(scene())


def test_the_end_of_a_peers_last_connection_is_reported() -> None:
    async def scene() -> None:
        async with serving(PeerNode(0)) as node:
            peers = network(1, node)
            first, second = await peers.client(0), await peers.client(0, "fetch")

            first.abort()
            await asyncio.sleep(0.02)
            assert node.lost == []
            second.abort()
            async with asyncio.timeout(60):
                while not node.lost:
                    await asyncio.sleep(0.001)

            assert node.lost == [1]

    asyncio.run(scene())


def test_a_lost_connection_is_replaced() -> None:
    async def scene() -> None:
        async with serving(PeerNode(0)) as node:
            peers = network(1, node)
            client = await peers.client(0)
            client.abort()
            await asyncio.sleep(0)

            again = await peers.client(0)

            assert again is not client and again.is_open
            peers.close()

    asyncio.run(scene())


def test_a_wrong_secret_is_refused() -> None:
    assert refusal(secret=b"another secret...").code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_node_that_is_refused_is_a_failed_login() -> None:
    async def scene() -> None:
        async with serving(PeerNode(0)) as node:
            with pytest.raises(KafkaError):
                await network(1, node, own_gate=gate(1, cluster_id=b"another cluster.")).client(0)
            assert node.audit.counts()["failed_login"] == 1

            (await network(1, node).client(0)).abort()
            assert node.audit.counts()["failed_login"] == 1

    asyncio.run(scene())


def test_a_flood_of_rejected_hellos_is_logged_in_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        async with serving(PeerNode(0)) as node:
            for _ in range(200):
                with pytest.raises(KafkaError):
                    await network(1, node, own_gate=gate(1, cluster_id=b"another cluster.")).client(0)

    with caplog.at_level(logging.WARNING):
        asyncio.run(scene())
    rejected = [line for line in caplog.messages if line.startswith("The handshake of a peer at 127.0.0.1")]
    assert len(rejected) == MAX_OF_ADDRESS


def test_a_node_of_another_cluster_is_refused() -> None:
    assert refusal(cluster_id=b"another cluster.").code is ErrorCode.INCONSISTENT_CLUSTER_ID


def test_a_node_that_is_new_learns_of_which_cluster_its_peer_is() -> None:
    async def scene() -> None:
        async with serving(PeerNode(0)) as node:
            peers = network(1, node, own_gate=gate(1, cluster_id=ZERO_UUID))

            client, peer = await peers.dial(node.endpoint)

            assert peer == gate(0).identity()
            client.abort()

    asyncio.run(scene())


def test_an_impostor_that_answers_for_another_node_is_left() -> None:
    async def scene() -> None:
        async with serving(PeerNode(2)) as node:
            peers = network(1, node)

            with pytest.raises(KafkaError) as refused:
                await peers.dial(node.endpoint, expected_node_id=0)

            assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED

    asyncio.run(scene())


def test_a_server_that_does_not_know_the_secret_gets_no_proof() -> None:
    async def scene() -> None:
        async with serving(PeerNode(0, own_gate=gate(0, secret=b"a guess of the thief"))) as node:
            with pytest.raises(KafkaError) as refused:
                await network(1, node).client(0)

            assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    asyncio.run(scene())


async def connected(node: PeerNode) -> PeerClient:
    client = await PeerClient.connect(
        node.endpoint.host, node.endpoint.port, client_id="unknown", timeout_s=5
    )
    client.learn_versions({int(api): (0, 0) for api in PeerApi})
    return client


@pytest.mark.parametrize("listener", ["PLAINTEXT", "OTHER"])
def test_private_apis_are_not_served_to_unknown_clients_or_on_other_listeners(listener: str) -> None:
    async def scene() -> None:
        async with serving(PeerNode(0, listener=listener)) as node:
            request: Any = FetchMetadataRequest()
            if listener == "OTHER":
                request = PeerHandshakeRequest(node_id=1, nonce=bytes(32))
            client = await connected(node)

            with pytest.raises(KafkaError) as refused:
                await client.request(request, FetchMetadataResponse)

            assert refused.value.code is ErrorCode.NETWORK_EXCEPTION

    asyncio.run(scene())


def test_an_intercepted_proof_is_useless() -> None:
    async def scene() -> None:
        async with serving(PeerNode(0)) as node:
            sent: list[Any] = []
            honest = network(1, node, own_gate=PeerGate(*gate(1)))
            client = await honest.client(0)
            original, loop = PeerClient.request, asyncio.get_running_loop()

            async def capture(self: PeerClient, message: Any, *rest: Any, **more: Any) -> Any:
                if asyncio.get_running_loop() is loop:  # not for nodes of other tests, in this process
                    sent.append(message)
                return await original(self, message, *rest, **more)

            client.abort()
            await asyncio.sleep(0)
            PeerClient.request = capture  # type: ignore[method-assign]
            try:
                await honest.client(0)
            finally:
                PeerClient.request = original  # type: ignore[method-assign]
            attacker = await connected(node)
            await attacker.request(sent[0], PeerHandshakeResponse)

            answer = await attacker.request(sent[1], PeerHandshakeResponse)

            assert sent[1].step == PROVE and answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            with pytest.raises(KafkaError):  # a second guess for the same challenge
                await attacker.request(sent[1], PeerHandshakeResponse)
            honest.close()

    asyncio.run(scene())


def test_requests_during_a_failing_dial_share_its_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        node = PeerNode(0)
        await node.listener.bind("127.0.0.1", 0)
        node.listener.stop_accepting()
        peers = network(1, node)
        dials = 0
        original, loop = PeerClient.connect, asyncio.get_running_loop()

        async def count(*args: Any, **more: Any) -> PeerClient:
            nonlocal dials
            dials += asyncio.get_running_loop() is loop
            return await original(*args, **more)

        monkeypatch.setattr(PeerClient, "connect", count)
        outcomes = await asyncio.gather(*(peers.client(0) for _ in range(20)), return_exceptions=True)

        assert dials == 1
        assert all(isinstance(one, KafkaError) for one in outcomes)

    monkeypatch.setattr(peer_network, "FIRST_BACKOFF_S", 0.001)
    asyncio.run(scene())


def test_the_end_of_a_connection_is_reported_with_its_node_and_purpose() -> None:
    async def scene() -> None:
        async with serving(PeerNode(0)) as node:
            lost: list[EndedConnection] = []
            peers = network(1, node, on_lost=lost.append)
            await peers.client(0, "heartbeat")
            await peers.client(0, "isr")

            for connection in list(node.listener.connections):
                connection.abort("the test wants it")
            async with asyncio.timeout(60):
                while len(lost) < 2:
                    await asyncio.sleep(0.001)

            assert sorted(lost) == [(0, "heartbeat"), (0, "isr")]
            peers.close()

    asyncio.run(scene())


def test_a_refused_port_shows_that_a_process_is_gone() -> None:
    async def scene() -> None:
        node = PeerNode(0)
        async with serving(node):
            peers = network(1, node)
            assert not await peers.is_refused(0)

        assert await peers.is_refused(0)
        assert not await peers.is_refused(9), "its address is unknown"

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("node_id", "words"),
    [
        (-1, "The metadata quorum has no leader at the moment."),
        (7, "The cluster metadata has no address for node 7."),
    ],
)
def test_a_missing_leader_and_a_missing_address_have_their_own_errors(node_id: int, words: str) -> None:
    async def scene() -> KafkaError:
        async with serving(PeerNode(0)) as node:
            with pytest.raises(KafkaError) as refused:
                await network(1, node).client(node_id)
            return refused.value

    refused = asyncio.run(scene())
    assert (refused.code, refused.detail) == (ErrorCode.NETWORK_EXCEPTION, words)


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        (SASL_PLAINTEXT, "Nodes log in at 127.0.0.1:.*, but this node has no user for that"),
        (SASL_SSL, "Nodes reach 127.0.0.1:.* by TLS, but this node has no listener with TLS"),
    ],
)
def test_the_error_names_what_this_node_lacks_to_reach_another(protocol: int, words: str) -> None:
    async def scene() -> None:
        async with serving(PeerNode(0)) as node:
            peers = network(1, node)
            with pytest.raises(KafkaError, match=words):
                await peers.dial(node.endpoint._replace(security_protocol=protocol))
            assert not node.listener.connections, "no node was dialled"

    asyncio.run(scene())
