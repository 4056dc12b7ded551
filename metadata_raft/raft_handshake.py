"""How two voters prove to each other who they are, before any other word on a link is heard.

Challenge and response by HMAC-SHA-256 with the secret of the cluster, in both directions: each end makes a
nonce and signs both nonces with all that both ends said. A proof that was overheard is worth nothing on
another link, and one of a server is none of a client. The secret never travels. With TLS each end also checks
the other's certificate, and that it is made out for the node which the other claims to be.
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
MAX_HANDSHAKE_BYTES: Final = 8 * 1024  # of one frame before the proof; endpoints of 15 voters fit
# A link carries messages of voters; a question is answered with where the voters serve brokers, and ends.
LINK: Final = 1
QUESTION: Final = 2
LINK_PROTOCOL: Final = (
    "ottla-link/1"  # what the dialling end names in TLS (ALPN): a port may serve others, too
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
    """The first frame of each end: who it is, and where its broker serves other brokers."""

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
    """The second frame of a client. Where the listener takes logins it has a user; the server has proven
    itself by then.
    """

    proof: bytes = schema.bytes_()
    user: str = schema.string(tag=0, default="")
    password: bytes = schema.secret(tag=1)


@message(versions=(0, 0), flexible_since=0)
class LinkWelcome:
    """The second frame of a server: it lets the client in, or says why not."""

    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    endpoints: Sequence[NodeEndpoint] = schema.array(NodeEndpoint)  # of the voters' brokers


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLogin:
    """The user by which a node logs in at the listeners of controllers that take logins."""

    user: str
    password: str = field(repr=False)


class LinkIdentity(NamedTuple):
    """What this node says of itself."""

    cluster_id: bytes
    peer: Peer
    endpoint: Endpoint  # of its broker, for other brokers


def hello(own: LinkIdentity, nonce: bytes, *, purpose: int) -> bytes:
    """The first frame of a client."""
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
    """The first frame of the other end; KafkaError if it cannot be a peer of this node."""
    told = decode(LinkHello, 0, frame)
    if len(told.nonce) != NONCE_BYTES or told.node_id < 0 or told.purpose not in (LINK, QUESTION):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The first message on the connection is malformed.")
    # Who only asks may be new to the cluster, and does not know its id.
    is_new = told.purpose == QUESTION and ZERO_UUID in (told.cluster_id, own.cluster_id)
    if told.cluster_id != own.cluster_id and not is_new:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Node {told.node_id} belongs to cluster {uuid_to_text(told.cluster_id)}, "
            f"but this node to cluster {uuid_to_text(own.cluster_id)}.",
        )
    if told.node_id == own.peer.node_id:
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Node id {told.node_id} is this node's own: give each node a node.id of its own.",
        )
    return told


def answer(told: LinkHello, own: LinkIdentity, nonce: bytes, secret: bytes) -> bytes:
    """The first frame of a server."""
    reply = _hello(own, nonce, told.purpose)
    proof = _proof(secret, _SERVER, told, reply)
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
    """The second frame of a client, and who the server proved to be.

    CLUSTER_AUTHORIZATION_FAILED if it does not know the secret, INVALID_REQUEST if it is another node than
    the one that was meant (-1: any), and what `read_hello` says of it.
    """
    mine = decode(LinkHello, 0, sent)
    theirs = read_hello(answered, own)
    if not hmac.compare_digest(theirs.proof, _proof(secret, _SERVER, mine, theirs)):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Node {theirs.node_id} has a different cluster.secret than this node, or runs Ottla 0.1.0: "
            "give all nodes the same secret and version.",
        )
    if expected_id not in (-1, theirs.node_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Node {theirs.node_id} answered at the address of node {expected_id}.",
        )
    proof = LinkProof(proof=_proof(secret, _CLIENT, mine, theirs))
    if login is not None:
        proof = schema.replace(proof, user=login.user, password=login.password.encode())
    return encode(proof, 0), theirs


def check_proof(
    frame: bytes,
    told: LinkHello,
    answered: bytes,
    secret: bytes,
    users: Mapping[str, str] | None = None,
) -> None:
    """CLUSTER_AUTHORIZATION_FAILED unless the client knows the secret, and the password of one of the users.

    `users` are the passwords by name where the listener takes logins, else None.
    """
    expected = _proof(secret, _CLIENT, told, decode(LinkHello, 0, answered))
    proof = decode(LinkProof, 0, frame)
    if not hmac.compare_digest(proof.proof, expected):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Node {told.node_id} has a different cluster.secret than this node, or runs Ottla 0.1.0: "
            "give all nodes the same secret and version.",
        )

    if users is None:
        return
    password = users.get(proof.user)
    if password is None or not hmac.compare_digest(proof.password, password.encode()):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Node {told.node_id} did not log in, or with a wrong user or password: check that its settings "
            "of SASL for listeners of controllers fit those of this node.",
        )


def _proof(secret: bytes, label: bytes, client: LinkHello, server: LinkHello) -> bytes:
    said = [encode(schema.replace(one, proof=b""), 0) for one in (client, server)]
    return hmac.digest(secret, b"".join((label, *said)), "sha256")


def welcome(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """The second frame of a server that lets the client in."""
    return encode(LinkWelcome(endpoints=endpoints), 0)


def refusal(error: KafkaError) -> bytes:
    """The second frame of one that does not."""
    return encode(LinkWelcome(error_code=int(error.code), error_message=error.detail), 0)


def read_welcome(frame: bytes) -> Sequence[NodeEndpoint]:
    """The voters' endpoints; the server's refusal as KafkaError."""
    told = decode(LinkWelcome, 0, frame)
    if told.error_code:
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, told.error_message or "refused")
    return told.endpoints
