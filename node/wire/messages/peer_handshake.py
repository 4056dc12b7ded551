"""PeerHandshake (key 30000, ours): two nodes prove to each other that they belong to one cluster.

HELLO has identities and nonces, and its answer the server's proof; PROVE has the client's proof, and its
answer the versions of the private APIs. See `node/net/peer_handshake`.
"""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct

HELLO = 0
PROVE = 1


@message(api_key=30_000, versions=(0, 0), flexible_since=0)
class PeerHandshakeRequest:
    step: int = schema.int8()
    node_id: int = schema.int32(default=-1)
    cluster_id: bytes = schema.uuid()
    directory_id: bytes = schema.uuid()
    nonce: bytes = schema.bytes_()  # of HELLO
    proof: bytes = schema.bytes_()  # of PROVE


@struct
class PeerApiVersion:
    api_key: int = schema.int16()
    min_version: int = schema.int16()
    max_version: int = schema.int16()


@message(api_key=30_000, versions=(0, 0), flexible_since=0)
class PeerHandshakeResponse:
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    node_id: int = schema.int32(default=-1)
    cluster_id: bytes = schema.uuid()
    directory_id: bytes = schema.uuid()
    nonce: bytes = schema.bytes_()
    proof: bytes = schema.bytes_()
    api_versions: Sequence[PeerApiVersion] = schema.array(PeerApiVersion)
