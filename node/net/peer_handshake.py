"""How two nodes prove to each other who they are and that they know the secret of their cluster.

Challenge and response by HMAC-SHA-256, in both directions: each end makes a nonce, and proves that it has the
secret by signing both nonces with the names of both ends. A proof that was overheard is worth nothing on
another connection, one of the server is none of a client, and one for node 1 is none for node 2. The secret
itself never travels. What this does not do is protect what follows on the connection: who can change packets
on the way can take it over. For that there is TLS, by which each end also shows a certificate of its node.
"""

import hmac
import struct
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID, uuid_to_text
from ottla.node.wire.messages.peer_handshake import HELLO, PROVE, PeerHandshakeRequest, PeerHandshakeResponse

NONCE_BYTES: Final = 32
_NAMES: Final = struct.Struct(">i16s16s")
_SERVER: Final = b"ottla peer handshake 1: server"
_CLIENT: Final = b"ottla peer handshake 1: client"


class PeerIdentity(NamedTuple):
    """What a node says it is. A node that is new to the cluster has no cluster id yet, but zeros."""

    node_id: int
    cluster_id: bytes
    directory_id: bytes  # of its metadata


class Challenge(NamedTuple):
    """What a server remembers between the two steps of one connection."""

    peer: PeerIdentity
    server: PeerIdentity
    client_nonce: bytes
    server_nonce: bytes


def _proof(secret: bytes, label: bytes, challenge: Challenge) -> bytes:
    signed = b"".join(
        (
            label,
            challenge.client_nonce,
            challenge.server_nonce,
            _NAMES.pack(*challenge.peer),
            _NAMES.pack(*challenge.server),
        )
    )
    return hmac.digest(secret, signed, "sha256")


# ---- the server's side -------------------------------------------------------------------------------------


def answer_hello(
    request: PeerHandshakeRequest, *, secret: bytes, own: PeerIdentity, nonce: bytes
) -> tuple[PeerHandshakeResponse, Challenge]:
    """The answer to the first step, and what to remember.

    INCONSISTENT_CLUSTER_ID for a node of another cluster, INVALID_REQUEST for one that cannot be.
    """
    peer = PeerIdentity(request.node_id, request.cluster_id, request.directory_id)
    if len(request.nonce) != NONCE_BYTES or peer.node_id < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The first message of a peer is malformed.")
    if peer.node_id == own.node_id:
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Node id {own.node_id} is this node's own: give each node a node.id of its own.",
        )
    if peer.cluster_id not in (ZERO_UUID, own.cluster_id):
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Node {peer.node_id} belongs to cluster {uuid_to_text(peer.cluster_id)}, "
            f"but this node to cluster {uuid_to_text(own.cluster_id)}.",
        )
    challenge = Challenge(peer, own, request.nonce, nonce)
    response = PeerHandshakeResponse(
        node_id=own.node_id,
        cluster_id=own.cluster_id,
        directory_id=own.directory_id,
        nonce=nonce,
        proof=_proof(secret, _SERVER, challenge),
    )
    return response, challenge


def check_proof(request: PeerHandshakeRequest, challenge: Challenge, *, secret: bytes) -> PeerIdentity:
    """Who the client proved to be; CLUSTER_AUTHORIZATION_FAILED if it did not."""
    if not hmac.compare_digest(request.proof, _proof(secret, _CLIENT, challenge)):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Node {challenge.peer.node_id} has a different cluster.secret than this node, or runs Ottla "
            "0.1.0: give all nodes the same secret and version.",
        )
    return challenge.peer


# ---- the client's side -------------------------------------------------------------------------------------


def hello(own: PeerIdentity, nonce: bytes) -> PeerHandshakeRequest:
    """The first step."""
    return PeerHandshakeRequest(
        step=HELLO,
        node_id=own.node_id,
        cluster_id=own.cluster_id,
        directory_id=own.directory_id,
        nonce=nonce,
    )


def prove(
    response: PeerHandshakeResponse, *, secret: bytes, own: PeerIdentity, nonce: bytes, expected_node_id: int
) -> tuple[PeerHandshakeRequest, PeerIdentity]:
    """The second step, and who the server proved to be.

    CLUSTER_AUTHORIZATION_FAILED if it does not know the secret, INCONSISTENT_CLUSTER_ID if it is of another
    cluster, BROKER_ID_NOT_REGISTERED if it is another node than the one that was meant (-1: any).
    """
    if response.error_code:
        raise KafkaError(_code(response.error_code), response.error_message or "")
    server = PeerIdentity(response.node_id, response.cluster_id, response.directory_id)
    challenge = Challenge(own, server, nonce, response.nonce)
    is_proven = len(response.nonce) == NONCE_BYTES and hmac.compare_digest(
        response.proof, _proof(secret, _SERVER, challenge)
    )
    if not is_proven:
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Node {server.node_id} has a different cluster.secret than this node, or runs Ottla "
            "0.1.0: give all nodes the same secret and version.",
        )
    if own.cluster_id not in (ZERO_UUID, server.cluster_id):
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Node {server.node_id} belongs to cluster "
            f"{uuid_to_text(server.cluster_id)}, but this node to cluster "
            f"{uuid_to_text(own.cluster_id)}.",
        )
    if expected_node_id not in (-1, server.node_id):
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Node {server.node_id} answered at the address of node {expected_node_id}.",
        )
    return PeerHandshakeRequest(step=PROVE, proof=_proof(secret, _CLIENT, challenge)), server


def _code(value: int) -> ErrorCode:
    try:
        return ErrorCode(value)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


class PeerGate(NamedTuple):
    """What a node needs to prove itself and to judge others; `unique(n)`: n bytes that nobody can guess."""

    secret: bytes
    identity: Callable[[], PeerIdentity]
    unique: Callable[[int], bytes]
    hosts_of: Callable[[int], Collection[str]] = lambda node_id: ()  # at which the cluster knows a node

    def __repr__(self) -> str:
        """Return a text without the secret."""
        return "PeerGate([hidden])"
