"""The handshake in which two nodes prove their identities and that they know the secret of their cluster.

Challenge and response by HMAC-SHA-256, in both directions: each end generates a nonce, and proves that it has
the secret by signing both nonces together with the identities of both ends. So an intercepted proof is
useless on another connection, a server's proof is no client's, and a proof for node 1 is none for node 2. The
secret itself is never sent. The handshake does not protect the traffic that follows: an attacker who can
change packets on the way can take the connection over. TLS does, and each end then also shows a certificate
of its node.
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
    """The identity that a node claims. A node that is new to the cluster has zeros as its cluster id."""

    node_id: int
    cluster_id: bytes
    directory_id: bytes  # of its metadata directory


class Challenge(NamedTuple):
    """The identities and nonces that both ends sign; a server keeps them between the two steps."""

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
    """Return the response to the first step, and the challenge to keep for the second.

    INCONSISTENT_CLUSTER_ID for a node of another cluster, DUPLICATE_BROKER_REGISTRATION for one with this
    node's id, INVALID_REQUEST for a message that no node sends.
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
    """Return the proven identity of the client; CLUSTER_AUTHORIZATION_FAILED if its proof is wrong."""
    if not hmac.compare_digest(request.proof, _proof(secret, _CLIENT, challenge)):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Node {challenge.peer.node_id} has a different cluster.secret than this node, or runs Ottla "
            "0.1.0: give all nodes the same secret and version.",
        )
    return challenge.peer


# ---- the client's side -------------------------------------------------------------------------------------


def hello(own: PeerIdentity, nonce: bytes) -> PeerHandshakeRequest:
    """Return the request of the first step."""
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
    """Return the request of the second step, and the proven identity of the server.

    The error of its response if there is one; CLUSTER_AUTHORIZATION_FAILED if it does not know the secret,
    INCONSISTENT_CLUSTER_ID if it belongs to another cluster, BROKER_ID_NOT_REGISTERED if it is not the
    expected node (-1: any).
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
    """The means to prove this node and to check others; `unique(n)` returns n unpredictable bytes."""

    secret: bytes
    identity: Callable[[], PeerIdentity]
    unique: Callable[[int], bytes]
    hosts_of: Callable[[int], Collection[str]] = lambda node_id: ()  # where the cluster knows a node

    def __repr__(self) -> str:
        """Return a text without the secret."""
        return "PeerGate([hidden])"
