"""Only nodes may act for callers of a REST API; with TLS the secret alone does not prove a node."""

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, cast

import pytest

from ottla.logstore.words.errors import ErrorCode
from ottla.node.authorization.access import Access
from ottla.node.kafka_api.dispatch import Dispatcher
from ottla.node.net.act_for import ActingNode, ActingSecrets, Caller, act, hello
from ottla.node.net.connection_info import ConnectionInfo
from ottla.node.net.peer_handshake import PeerGate, PeerIdentity
from ottla.node.wire import codec
from ottla.node.wire.messages.act_for import ActForResponse
from ottla.node.wire.peer_api import PeerApi

CLUSTER, SECRET = bytes(range(16)), b"the secret of all nodes"
ANN = Caller("User:ann", "10.0.0.7", False)


class Connection:
    """A connection to the listener for nodes whose client showed a certificate with these names."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = frozenset(names)
        self.peer_challenge: Any = None
        self.callers: list[Caller] = []
        self.info = ConnectionInfo(
            number=1,
            connection_id="1",
            listener_name="INNER",
            security_protocol="SSL",
            client_host="10.0.0.9",
            client_port=1,
            local_host="10.0.0.1",
            local_port=2,
            access=Access("User:x", "10.0.0.9"),
        )

    def certificate_names(self) -> frozenset[str]:
        return self.names

    def act_for(self, caller: Caller) -> None:
        self.callers.append(caller)


def secrets_of(node_id: int) -> ActingSecrets:
    return ActingSecrets(os.urandom(32), SECRET, lambda: ActingNode(node_id, CLUSTER), os.urandom)


@dataclass
class Inner:
    """The security of the listener for nodes."""

    has_logins: bool
    checks_names: bool = True
    needs_node_id: bool = False


class Node:
    """The state and the settings of a node that the dispatcher reads."""

    inter_broker_listener_name = "INNER"

    def __init__(self, inner: Inner) -> None:
        self.listener_security = {"INNER": inner}
        self.config = self


def dispatcher(acting: ActingSecrets, *, has_logins: bool = False) -> Dispatcher:
    identity = PeerIdentity(0, CLUSTER, bytes(16))
    gate = PeerGate(SECRET, lambda: identity, os.urandom, lambda node_id: ["three.example.org"])
    made = Dispatcher(cast(Any, Node(Inner(has_logins))), peer_gate=gate, acting=acting)
    made.serve_clients()
    return made


def ask(served: Dispatcher, connection: Connection, request: Any) -> ActForResponse:
    frame = b"".join(codec.encode_request(int(PeerApi.ACT_FOR), 0, 1, "rest", request))[4:]
    answer = served.serve(cast(Any, connection), memoryview(frame))
    body = memoryview(b"".join(map(bytes, cast(Any, answer))))[4:]
    response = codec.decode_response(int(PeerApi.ACT_FOR), 0, body)[1]
    assert isinstance(response, ActForResponse)
    return response


@pytest.mark.parametrize(
    ("names", "has_logins", "code"),
    [
        (["node-3"], False, 0),
        (["three.example.org"], False, 0),
        ([], True, 0),  # where nodes log in, they need not show a certificate
        (["anna"], False, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (["node-2"], False, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (["anna"], True, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ([], False, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_a_client_with_the_secret_needs_the_certificate_of_a_node_to_act_for_callers(
    names: list[str], has_logins: bool, code: int
) -> None:
    served, connection = dispatcher(secrets_of(0), has_logins=has_logins), Connection(names)
    client, nonce = secrets_of(3), os.urandom(32)

    answer = ask(served, connection, hello(client, nonce))

    assert answer.error_code == code
    if not code:
        assert ask(served, connection, act(answer, ANN, nonce, client)).error_code == 0
    assert connection.callers == ([] if code else [ANN])


def test_a_node_proves_itself_to_itself_whatever_its_certificate_names() -> None:
    own, connection, nonce = secrets_of(0), Connection(["kafka.example.org"]), os.urandom(32)
    served = dispatcher(own)

    answer = ask(served, connection, hello(own, nonce))

    assert ask(served, connection, act(answer, ANN, nonce, own)).error_code == 0
    assert connection.callers == [ANN]
