"""ActFor (key 30005, ours): the REST API of a node hands its caller over to a broker.

HELLO has a nonce, and its answer the server's proof; ACT names the caller, with the client's proof over all
of it. Later requests on the connection are judged by the caller's rights. See `node/net/act_for`.
"""

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message

HELLO = 0
ACT = 1


@message(api_key=30_005, versions=(0, 0), flexible_since=0)
class ActForRequest:
    step: int = schema.int8()
    node_id: int = schema.int32(default=-1)
    cluster_id: bytes = schema.uuid()
    nonce: bytes = schema.bytes_()  # of HELLO
    principal: str = schema.string()  # of ACT, as are the fields from here on
    host: str = schema.string()
    is_local: bool = schema.boolean()
    proof: bytes = schema.bytes_()


@message(api_key=30_005, versions=(0, 0), flexible_since=0)
class ActForResponse:
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    node_id: int = schema.int32(default=-1)
    nonce: bytes = schema.bytes_()
    proof: bytes = schema.bytes_()
