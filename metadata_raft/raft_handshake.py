"""The handshake by which two voters authenticate each other before any other message on a link.

Each end answers a challenge by HMAC-SHA-256 with the secret of the cluster: it creates a nonce, and signs
both nonces with everything that both ends sent. So a recorded proof is useless on another link, and a
server's proof cannot be used by a client. The secret itself is never sent. With TLS, each end also checks the
other's certificate, and that it was issued for the node which the other claims to be.
"""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.logstore.words import schema
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import message, struct
from ottla.logstore.words.schema_compiler import decode, encode
from ottla.logstore.words.topic_partition import ZERO_UUID, uuid_to_text
from ottla.metadata_raft.image import Endpoint
from ottla.metadata_raft.raft_guard import Peer

NONCE_BYTES: Final = 32
MAX_HANDSHAKE_BYTES: Final = 8 * 1024  # of each frame of the handshake; endpoints of 15 voters fit
# A link carries messages of voters; a question is answered with the addresses of the voters' brokers, and
# closed.
LINK: Final = 1
QUESTION: Final = 2
LINK_PROTOCOL: Final = (
    "ottla-link/1"  # the client's protocol in TLS (ALPN), as a port may serve other protocols, too
)
_SERVER: Final = b"ottla raft link 1: server"
_CLIENT: Final = b"ottla raft link 1: client"


@struct
class NodeEndpoint:
    node_id: int = schema.int32()
    host: str = schema.string()
    port: int = schema.uint16()
    security_protocol: int = schema.int16()


@message(versions=(0, 0), flexible_since=0)
class LinkHello:
    """The first frame of each end: its identity, and the address of its broker for other brokers."""

    purpose: int = schema.int8()
    cluster_id: bytes = schema.uuid()
    node_id: int = schema.int32()
    directory_id: bytes = schema.uuid()
    nonce: bytes = schema.bytes_()
    host: str = schema.string()
    port: int = schema.uint16()
    security_protocol: int = schema.int16()
    proof: bytes = schema.bytes_()  # of a server


@message(versions=(0, 0), flexible_since=0)
class LinkProof:
    """The second frame of a client, after the server's proof; with a user if a login is required."""

    proof: bytes = schema.bytes_()
    user: str = schema.string(tag=0, default="")
    password: bytes = schema.secret(tag=1)


@message(versions=(0, 0), flexible_since=0)
class LinkWelcome:
    """The second frame of a server: it accepts the client, or has the error."""

    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    endpoints: Sequence[NodeEndpoint] = schema.array(NodeEndpoint)  # of the voters' brokers


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLogin:
    """The user as which a node logs in at listeners of controllers that require a login."""

    user: str
    password: str = field(repr=False)


class LinkIdentity(NamedTuple):
    """The identity of this node."""

    cluster_id: bytes
    peer: Peer
    endpoint: Endpoint  # of its broker, for other brokers


def hello(own: LinkIdentity, nonce: bytes, *, purpose: int) -> bytes:
    """Return the first frame of a client."""
    return encode(_hello(own, nonce, purpose), 0)


def _hello(own: LinkIdentity, nonce: bytes, purpose: int) -> LinkHello:
    return LinkHello(
        purpose=purpose,
        cluster_id=own.cluster_id,
        node_id=own.peer.node_id,
        directory_id=own.peer.directory_id,
        nonce=nonce,
        host=own.endpoint.host,
        port=own.endpoint.port,
        security_protocol=own.endpoint.security_protocol,
    )


def read_hello(frame: bytes, own: LinkIdentity) -> LinkHello:
    """Decode the first frame of the other end; KafkaError if it cannot be a peer of this node."""
    peer_hello = decode(LinkHello, 0, frame)
    if (
        len(peer_hello.nonce) != NONCE_BYTES
        or peer_hello.node_id < 0
        or peer_hello.purpose not in (LINK, QUESTION)
    ):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The first message on the connection is malformed.")
    # A client with a question may be new to the cluster, and does not know its id.
    is_new = peer_hello.purpose == QUESTION and ZERO_UUID in (peer_hello.cluster_id, own.cluster_id)
    if peer_hello.cluster_id != own.cluster_id and not is_new:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Node {peer_hello.node_id} belongs to cluster {uuid_to_text(peer_hello.cluster_id)}, "
            f"but this node to cluster {uuid_to_text(own.cluster_id)}.",
        )
    if peer_hello.node_id == own.peer.node_id:
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Node id {peer_hello.node_id} is this node's own: give each node a node.id of its own.",
        )
    return peer_hello


def answer(peer_hello: LinkHello, own: LinkIdentity, nonce: bytes, secret: bytes) -> bytes:
    """Return the first frame of a server."""
    reply = _hello(own, nonce, peer_hello.purpose)
    proof = _proof(secret, _SERVER, peer_hello, reply)
    return encode(schema.replace(reply, proof=proof), 0)


def prove(
    sent: bytes,
    answered: bytes,
    own: LinkIdentity,
    secret: bytes,
    *,
    expected_id: int,
    login: LinkLogin | None = None,
) -> tuple[bytes, LinkHello]:
    """Return the second frame of a client, and the first one of the authenticated server.

    CLUSTER_AUTHORIZATION_FAILED if the server does not know the secret, INVALID_REQUEST if its id is not
    `expected_id` (-1: any), and the errors of `read_hello`.
    """
    own_hello = decode(LinkHello, 0, sent)
    peer_hello = read_hello(answered, own)
    if not hmac.compare_digest(peer_hello.proof, _proof(secret, _SERVER, own_hello, peer_hello)):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Node {peer_hello.node_id} has a different cluster.secret than this node, or runs Ottla 0.1.0: "
            "give all nodes the same secret and version.",
        )
    if expected_id not in (-1, peer_hello.node_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Node {peer_hello.node_id} answered at the address of node {expected_id}.",
        )
    proof = LinkProof(proof=_proof(secret, _CLIENT, own_hello, peer_hello))
    if login is not None:
        proof = schema.replace(proof, user=login.user, password=login.password.encode())
    return encode(proof, 0), peer_hello


def check_proof(
    frame: bytes,
    peer_hello: LinkHello,
    answered: bytes,
    secret: bytes,
    users: Mapping[str, str] | None = None,
) -> None:
    """Raise CLUSTER_AUTHORIZATION_FAILED unless the client knows the secret, and logged in if required.

    `users` are the passwords by user name if the listener requires a login, else None.
    """
    expected = _proof(secret, _CLIENT, peer_hello, decode(LinkHello, 0, answered))
    proof = decode(LinkProof, 0, frame)
    if not hmac.compare_digest(proof.proof, expected):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Node {peer_hello.node_id} has a different cluster.secret than this node, or runs Ottla 0.1.0: "
            "give all nodes the same secret and version.",
        )

    if users is None:
        return
    password = users.get(proof.user)
    if password is None or not hmac.compare_digest(proof.password, password.encode()):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Node {peer_hello.node_id} did not log in, or used a wrong user or password: check that its "
            "SASL settings for controller listeners match those of this node.",
        )


def _proof(secret: bytes, label: bytes, client: LinkHello, server: LinkHello) -> bytes:
    said = [encode(schema.replace(one, proof=b""), 0) for one in (client, server)]
    return hmac.digest(secret, b"".join((label, *said)), "sha256")


def welcome(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """Return the second frame of a server that accepts the client."""
    return encode(LinkWelcome(endpoints=endpoints), 0)


def refusal(error: KafkaError) -> bytes:
    """Return the second frame of a server that rejects the client."""
    return encode(LinkWelcome(error_code=int(error.code), error_message=error.detail), 0)


def read_welcome(frame: bytes) -> Sequence[NodeEndpoint]:
    """Return the voters' endpoints from a server's second frame; KafkaError if it rejects the client."""
    welcome = decode(LinkWelcome, 0, frame)
    if welcome.error_code:
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, welcome.error_message or "refused")
    return welcome.endpoints
