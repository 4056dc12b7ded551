"""ottla.node.net.peer_client with TLS and a login, against a fake node on loopback."""

import asyncio
import hashlib
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trustme

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.image import ScramCredential
from ottla.metadata_raft.scram import ScramMechanism, keys_of
from ottla.node.client.cluster_client import Client
from ottla.node.net.peer_client import MAX_IN_FLIGHT, PeerClient
from ottla.node.secure_client.client_security import ClientSecurity, SaslLogin, read_client_security
from ottla.node.security.sasl.sasl_error import SaslError
from ottla.node.security.sasl.scram import ScramExchange
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.node.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.node.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.node.wire.messages.sasl_handshake import SaslHandshakeResponse

T = TypeVar("T")
MAX_FRAME_BYTES = 1 << 20
MECHANISM = ScramMechanism.SCRAM_SHA_256
SERVED = [
    ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4),
    ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=9),
    ApiVersion(api_key=ApiKey.SASL_HANDSHAKE, min_version=0, max_version=1),
    ApiVersion(api_key=ApiKey.SASL_AUTHENTICATE, min_version=0, max_version=2),
]
LOGIN = SaslLogin(mechanism="SCRAM-SHA-256", user="anna", password="right")


class LoginNode:
    """Serves metadata to clients that have logged in, and ends other connections at the first request."""

    def __init__(self, *, lifetime_ms: int = 0) -> None:
        self.lifetime_ms = lifetime_ms
        self.seen: list[ApiKey] = []
        self.held = asyncio.Event()  # answers to Metadata wait for it
        self.held.set()

    def exchange(self) -> ScramExchange:
        salted = hashlib.pbkdf2_hmac("sha256", b"right", b"salt", 4096)
        keys = keys_of(MECHANISM, salted)
        kept = ScramCredential(
            salt=b"salt", stored_key=keys.stored_key, server_key=keys.server_key, iterations=4096
        )
        return ScramExchange(MECHANISM, lambda user: kept, lambda user: kept, nonce=b"theirs")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        exchange: ScramExchange | None = None
        try:
            while True:
                length = int.from_bytes(await reader.readexactly(4), "big")
                if length > MAX_FRAME_BYTES:
                    return  # as a node does that receives a TLS handshake in plaintext
                frame = await reader.readexactly(length)
                key, version = ApiKey(int.from_bytes(frame[:2], "big")), int.from_bytes(frame[2:4], "big")
                self.seen.append(key)
                answer: object
                if key is ApiKey.API_VERSIONS:
                    answer = ApiVersionsResponse(api_keys=SERVED)
                elif key is ApiKey.SASL_HANDSHAKE:
                    exchange = self.exchange()
                    answer = SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256"])
                elif key is ApiKey.SASL_AUTHENTICATE:
                    assert exchange is not None
                    answer = self.step(exchange, frame)
                elif exchange is None or not exchange.is_complete:
                    return
                else:
                    await self.held.wait()
                    answer = MetadataResponse(controller_id=7)
                correlation_id = int.from_bytes(frame[4:8], "big")
                writer.writelines(codec.encode_response(key, version, correlation_id, answer))
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()

    def step(self, exchange: ScramExchange, frame: bytes) -> SaslAuthenticateResponse:
        header, position = codec.decode_request_header(frame)
        request = codec.decode_request(header.api_key, header.api_version, frame, position)
        assert isinstance(request, SaslAuthenticateRequest)
        try:
            token = exchange.respond(bytes(request.auth_bytes))
        except SaslError:
            return SaslAuthenticateResponse(error_code=58, error_message="Wrong.")
        lifetime_ms = self.lifetime_ms if exchange.is_complete else 0
        return SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime_ms)


def with_node(
    scenario: Callable[[LoginNode, int], Awaitable[T]],
    *,
    tls: ssl.SSLContext | None = None,
    lifetime_ms: int = 0,
) -> T:
    async def run() -> T:
        node = LoginNode(lifetime_ms=lifetime_ms)
        async with await asyncio.start_server(node.serve, "127.0.0.1", 0, ssl=tls) as server:
            return await scenario(node, server.sockets[0].getsockname()[1])

    return asyncio.run(run())


async def connect(port: int, security: ClientSecurity, host: str = "127.0.0.1") -> PeerClient:
    return await PeerClient.connect(host, port, client_id="test", timeout_s=10, security=security)


def refused(security: ClientSecurity, *, tls: ssl.SSLContext | None = None) -> KafkaError:
    async def scenario(node: LoginNode, port: int) -> KafkaError:
        with pytest.raises(KafkaError) as error:
            client = await connect(port, security)
            await client.request(MetadataRequest(), MetadataResponse)
        return error.value

    return with_node(scenario, tls=tls)


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


def server_context(ca: trustme.CA, *names: str, asks: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(*names).configure_cert(context)
    if asks:
        ca.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def trusting(ca: trustme.CA, **more: str) -> ClientSecurity:
    given = {name.replace("_", "."): value for name, value in more.items()}
    pem = ca.cert_pem.bytes().decode()
    return read_client_security({"security.protocol": "SSL", "ssl.truststore.certificates": pem} | given)[0]


def test_a_login_comes_before_the_first_request() -> None:
    async def scenario(node: LoginNode, port: int) -> list[ApiKey]:
        client = await connect(port, ClientSecurity(login=LOGIN))
        assert (await client.request(MetadataRequest(), MetadataResponse)).controller_id == 7
        await client.close()
        return node.seen

    login = [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.SASL_AUTHENTICATE]
    assert with_node(scenario) == [ApiKey.API_VERSIONS, *login, ApiKey.METADATA]


def test_a_wrong_password_is_reported_with_user_and_node() -> None:
    wrong = SaslLogin(mechanism="SCRAM-SHA-256", user="anna", password="wrong")

    error = refused(ClientSecurity(login=wrong))

    assert error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "refused the login of the user anna with SCRAM-SHA-256: Wrong" in error.detail


def test_a_client_without_a_login_gets_an_error_that_one_may_be_needed() -> None:
    error = refused(ClientSecurity())

    assert error.code is ErrorCode.ILLEGAL_SASL_STATE and "security.protocol" in error.detail


def test_a_cluster_that_needs_a_login_is_asked_twice_and_not_for_all_of_the_time() -> None:
    async def scenario(node: LoginNode, port: int) -> int:
        async def dial(host: str, port: int, *, client_id: str, timeout_s: float) -> PeerClient:
            return await PeerClient.connect(
                host, port, client_id=client_id, timeout_s=timeout_s, security=ClientSecurity()
            )

        async with Client([("127.0.0.1", port)], timeout_s=600, connect=dial) as client:
            with pytest.raises(KafkaError, match="at the first request"):
                await client.retry(lambda: client.refresh([]))
        return node.seen.count(ApiKey.METADATA)

    assert with_node(scenario) == 2


def test_a_login_is_renewed_after_what_is_under_way_and_before_what_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(node: LoginNode, port: int) -> list[ApiKey]:
        client = await connect(port, ClientSecurity(login=LOGIN))
        node.held.clear()
        under_way = [
            asyncio.ensure_future(client.request(MetadataRequest(), MetadataResponse))
            for _ in range(MAX_IN_FLIGHT)
        ]
        while node.seen.count(ApiKey.METADATA) < 1:
            await asyncio.sleep(0)
        client.renew_login_at = 0.0
        node.seen.clear()
        later = [asyncio.ensure_future(client.request(MetadataRequest(), MetadataResponse)) for _ in range(3)]
        await asyncio.sleep(0)
        node.held.set()
        answers = [await one for one in (*under_way, *later)]
        assert {one.controller_id for one in answers} == {7}
        await client.close()
        return node.seen

    seen = with_node(scenario, lifetime_ms=3_600_000)

    begin = seen.index(ApiKey.SASL_HANDSHAKE)
    assert set(seen[:begin]) <= {ApiKey.METADATA}
    assert seen[begin + 1 : begin + 3] == [ApiKey.SASL_AUTHENTICATE] * 2
    assert seen[begin + 3 :] == [ApiKey.METADATA] * 3


def test_the_lifetime_of_a_login_decides_when_it_is_renewed() -> None:
    async def scenario(node: LoginNode, port: int) -> tuple[float, float]:
        client = await connect(port, ClientSecurity(login=LOGIN))
        found = client.renew_login_at, asyncio.get_running_loop().time()
        await client.close()
        return found

    renew_at, now = with_node(scenario, lifetime_ms=1_000_000)

    assert 700 < renew_at - now < 850
    assert with_node(scenario)[0] == float("inf")


def test_tls_checks_the_authority_and_the_name(ca: trustme.CA) -> None:
    async def scenario(node: LoginNode, port: int) -> int:
        security = ClientSecurity(tls=trusting(ca).tls, login=LOGIN)
        client = await connect(port, security)
        response = await client.request(MetadataRequest(), MetadataResponse)
        await client.close()
        return response.controller_id

    assert with_node(scenario, tls=server_context(ca, "127.0.0.1")) == 7

    untrusted = refused(trusting(trustme.CA()), tls=server_context(ca, "127.0.0.1"))
    other_name = refused(trusting(ca), tls=server_context(ca, "node-1"))
    assert {untrusted.code, other_name.code} == {ErrorCode.INVALID_CONFIG}
    assert "is not trusted" in untrusted.detail and "set ssl.truststore.location" in untrusted.detail
    assert "not valid for '127.0.0.1'" in other_name.detail and "advertised.listeners" in other_name.detail


def test_a_name_is_not_checked_where_the_algorithm_is_empty(ca: trustme.CA) -> None:
    unchecked = trusting(ca, ssl_endpoint_identification_algorithm="")

    async def scenario(node: LoginNode, port: int) -> int:
        client = await connect(port, ClientSecurity(tls=unchecked.tls, login=LOGIN))
        await client.close()
        return 1

    assert with_node(scenario, tls=server_context(ca, "node-1")) == 1
    assert "not trusted" in refused(unchecked, tls=server_context(trustme.CA(), "node-1")).detail


def test_a_listener_without_tls_and_a_missing_certificate_are_named_in_the_error(ca: trustme.CA) -> None:
    plain = refused(trusting(ca))
    assert plain.code is ErrorCode.NETWORK_EXCEPTION and "may not be a listener with TLS" in plain.detail

    missing = refused(trusting(ca), tls=server_context(ca, "127.0.0.1", asks=True))
    assert "it may ask for a certificate of this client" in missing.detail


def test_the_alert_of_a_node_that_requires_a_certificate_is_reported(ca: trustme.CA) -> None:
    """Servers of `asyncio` send no alert, so this one is a thread."""
    context = server_context(ca, "127.0.0.1", asks=True)

    def serve(listening: socket.socket) -> None:
        stream, _ = listening.accept()
        with context.wrap_socket(stream, server_side=True, do_handshake_on_connect=False) as ended:
            with pytest.raises(ssl.SSLError):
                ended.do_handshake()
            while socket.socket.recv(ended, 4096):  # otherwise the end would be a reset, without the alert
                pass

    async def scenario(port: int) -> KafkaError:
        with pytest.raises(KafkaError) as error:
            await connect(port, trusting(ca))
        return error.value

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        error = asyncio.run(scenario(listening.getsockname()[1]))
        thread.join()

    assert error.code is ErrorCode.INVALID_CONFIG and "set ssl.keystore.location" in error.detail


def test_a_certificate_of_the_client_is_shown(ca: trustme.CA, tmp_path: Path) -> None:
    own = tmp_path / "own.pem"
    ca.issue_cert("anna").private_key_and_cert_chain_pem.write_to_path(str(own))

    async def scenario(node: LoginNode, port: int) -> int:
        tls = trusting(ca, ssl_keystore_location=str(own)).tls
        client = await connect(port, ClientSecurity(tls=tls, login=LOGIN))
        await client.close()
        return 1

    assert with_node(scenario, tls=server_context(ca, "127.0.0.1", asks=True)) == 1
    nowhere = trusting(ca, ssl_keystore_location=str(tmp_path / "none.pem"))
    assert "none.pem cannot be used: No such file" in refused(nowhere).detail


def test_a_plaintext_client_of_a_listener_with_tls_gets_an_error_that_says_so(ca: trustme.CA) -> None:
    assert "TLS" in refused(ClientSecurity(), tls=server_context(ca, "127.0.0.1")).detail


def test_nodes_that_dial_each_other_report_only_lost_connections() -> None:
    async def scenario(node: LoginNode, port: int) -> ErrorCode:
        client = await PeerClient.connect("127.0.0.1", port, client_id="test", timeout_s=10)
        with pytest.raises(KafkaError) as error:
            await client.request(MetadataRequest(), MetadataResponse)
        return error.value.code

    assert with_node(scenario) is ErrorCode.NETWORK_EXCEPTION


def test_no_password_is_sent_to_a_server_whose_certificate_is_not_a_nodes(ca: trustme.CA) -> None:
    """The certificate may be signed by the same authority, as are those of all programs of a company."""
    checked: list[frozenset[str]] = []

    def refuse(names: frozenset[str]) -> None:
        checked.append(names)
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no node")

    async def scenario(node: LoginNode, port: int) -> list[ApiKey]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        ca.configure_trust(context)
        context.check_hostname = False
        with pytest.raises(KafkaError, match="no node"):
            await PeerClient.connect(
                "127.0.0.1",
                port,
                client_id="node",
                timeout_s=10,
                tls=context,
                login=LOGIN,
                check_names=refuse,
            )
        await asyncio.sleep(0.02)
        return node.seen

    assert with_node(scenario, tls=server_context(ca, "mallory")) == [] and "mallory" in checked[0]
