"""The proof by which the REST API of a node acts at a broker for its caller.

Challenge and response by HMAC-SHA-256, as between peers, with one difference: the client's proof also names
the caller, and the connection becomes the caller's. The connection gets the caller's rights and none of a
node's, so a request that a caller makes through the REST API can do no more than the caller may. A node
proves itself to other nodes by the secret of the cluster, and to itself by a secret that its process has
generated.
"""

import hmac
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.wire.messages.act_for import ACT, HELLO, ActForRequest, ActForResponse

NONCE_BYTES: Final = 32
MAX_PRINCIPAL_CHARS: Final = 2_000  # as in an entry of an ACL
MAX_HOST_CHARS: Final = 255
_NODES: Final = struct.Struct(">16sii")
_LENGTHS: Final = struct.Struct(">II?")
_SERVER: Final = b"ottla act for 1: server"
_CLIENT: Final = b"ottla act for 1: client"


class Caller(NamedTuple):
    """The client of a REST API: its principal, address, and whether it runs on that node's machine."""

    principal: str
    host: str
    is_local: bool


class ActingNode(NamedTuple):
    """A node of a cluster, by the fields that both ends sign."""

    node_id: int
    cluster_id: bytes


class ActingChallenge(NamedTuple):
    """The state that both ends of a connection keep between the two steps."""

    client: ActingNode
    server_id: int
    client_nonce: bytes
    server_nonce: bytes


class ActingSecrets(NamedTuple):
    """The secrets by which a node proves itself; `unique(n)` returns n unpredictable bytes."""

    own: bytes  # of this process, for connections to itself
    of_cluster: bytes | None  # None: there are no other nodes
    identity: Callable[[], ActingNode]
    unique: Callable[[int], bytes]

    def __repr__(self) -> str:
        """Return a text without the secrets."""
        return "ActingSecrets([hidden])"

    def secret(self, node_id: int) -> bytes:
        """Return the secret shared with a node; CLUSTER_AUTHORIZATION_FAILED if there is none."""
        if node_id == self.identity().node_id:
            return self.own
        if self.of_cluster is None:
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "This node has no cluster.secret.")
        return self.of_cluster


def _signed(secret: bytes, label: bytes, challenge: ActingChallenge, caller: Caller | None = None) -> bytes:
    parts = [label, challenge.client_nonce, challenge.server_nonce]
    client = challenge.client
    parts.append(_NODES.pack(client.cluster_id, client.node_id, challenge.server_id))
    if caller is not None:
        principal, host = caller.principal.encode(), caller.host.encode()
        parts += [_LENGTHS.pack(len(principal), len(host), caller.is_local), principal, host]
    return hmac.digest(secret, b"".join(parts), "sha256")


# ---- the server's side -------------------------------------------------------------------------------------


def answer_hello(request: ActForRequest, secrets: ActingSecrets) -> tuple[ActForResponse, ActingChallenge]:
    """Return the response to the first step, and the challenge to keep for the second.

    INVALID_REQUEST for a message that no node sends; INCONSISTENT_CLUSTER_ID for a node of another cluster;
    CLUSTER_AUTHORIZATION_FAILED for another node if this one has no secret of the cluster.
    """
    own = secrets.identity()
    if request.step != HELLO or len(request.nonce) != NONCE_BYTES or request.node_id < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The first message of a REST API is malformed.")
    if request.cluster_id != own.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID, f"Node {request.node_id} belongs to another cluster."
        )
    client = ActingNode(request.node_id, request.cluster_id)
    challenge = ActingChallenge(client, own.node_id, request.nonce, secrets.unique(NONCE_BYTES))
    response = ActForResponse(
        node_id=own.node_id,
        nonce=challenge.server_nonce,
        proof=_signed(secrets.secret(request.node_id), _SERVER, challenge),
    )
    return response, challenge


def check_caller(request: ActForRequest, challenge: ActingChallenge, secrets: ActingSecrets) -> Caller:
    """Return the caller that a proven node acts for.

    CLUSTER_AUTHORIZATION_FAILED if the node is not proven, INVALID_REQUEST for a caller without a name or a
    host, or with one that is too long.
    """
    caller = Caller(request.principal, request.host, request.is_local)
    expected = _signed(secrets.secret(challenge.client.node_id), _CLIENT, challenge, caller)
    if request.step != ACT or not hmac.compare_digest(request.proof, expected):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Node {challenge.client.node_id} has a different cluster.secret than this node, or runs Ottla "
            "0.1.0: give all nodes the same secret and version.",
        )
    if not 0 < len(caller.principal) <= MAX_PRINCIPAL_CHARS or not 0 < len(caller.host) <= MAX_HOST_CHARS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "The caller of a REST API has no name or host, or one that is too long.",
        )
    return caller


# ---- the client's side -------------------------------------------------------------------------------------


def hello(secrets: ActingSecrets, nonce: bytes) -> ActForRequest:
    """Return the request of the first step."""
    own = secrets.identity()
    return ActForRequest(step=HELLO, node_id=own.node_id, cluster_id=own.cluster_id, nonce=nonce)


def act(response: ActForResponse, caller: Caller, nonce: bytes, secrets: ActingSecrets) -> ActForRequest:
    """Return the request of the second step.

    Raise the error of the response if there is one; CLUSTER_AUTHORIZATION_FAILED if the server's proof is
    wrong.
    """
    if response.error_code:
        raise refusal(response)
    own = secrets.identity()
    challenge = ActingChallenge(own, response.node_id, nonce, response.nonce)
    secret = secrets.secret(response.node_id)
    is_proven = len(response.nonce) == NONCE_BYTES and hmac.compare_digest(
        response.proof, _signed(secret, _SERVER, challenge)
    )
    if not is_proven:
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Node {response.node_id} has a different cluster.secret than this node, or runs Ottla "
            "0.1.0: give all nodes the same secret and version.",
        )
    return ActForRequest(
        step=ACT,
        principal=caller.principal,
        host=caller.host,
        is_local=caller.is_local,
        proof=_signed(secret, _CLIENT, challenge, caller),
    )


def refusal(response: ActForResponse) -> KafkaError:
    """Return the error that a response carries."""
    try:
        code = ErrorCode(response.error_code)
    except ValueError:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    return KafkaError(code, response.error_message or "")
