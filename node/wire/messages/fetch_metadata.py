"""FetchMetadata (key 30002, ours): a node that is no voter asks a voter for newly committed metadata.

The response is sent at once if there is any, otherwise when there is, or empty after `max_wait_ms`. It names
the snapshot to fetch if the node needs records that the voter no longer has, or has records of a diverging
log.
"""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@message(api_key=30_002, versions=(0, 0), flexible_since=0)
class FetchMetadataRequest:
    fetch_offset: int = schema.int64()  # the first offset requested
    last_epoch: int = schema.int32()  # of the record before it
    max_bytes: int = schema.int32()
    max_wait_ms: int = schema.int32()


@struct
class VoterAddress:
    """The address at which a voter serves brokers."""

    node_id: int = schema.int32()
    host: str = schema.string()
    port: int = schema.uint16()
    security_protocol: int = schema.int16(tag=0)


@message(api_key=30_002, versions=(0, 0), flexible_since=0)
class FetchMetadataResponse:
    error_code: int = schema.int16()
    leader_id: int = schema.int32(default=-1)
    epoch: int = schema.int32(default=-1)
    end_offset: int = schema.int64(default=-1)  # after the last committed record
    snapshot_offset: int = schema.int64(default=-1)  # after the snapshot's last record; -1: none is needed
    snapshot_epoch: int = schema.int32(default=-1)
    snapshot_bytes: int = schema.int64(default=-1)
    voters: Sequence[VoterAddress] = schema.array(VoterAddress)
    batches: bytes = schema.secret()
