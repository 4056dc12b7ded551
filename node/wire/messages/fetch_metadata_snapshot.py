"""FetchMetadataSnapshot (key 30003, ours): a piece of the snapshot that FetchMetadata named."""

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message


@message(api_key=30_003, versions=(0, 0), flexible_since=0)
class FetchMetadataSnapshotRequest:
    snapshot_offset: int = schema.int64()
    snapshot_epoch: int = schema.int32()
    position: int = schema.int64()
    max_bytes: int = schema.int32()


@message(api_key=30_003, versions=(0, 0), flexible_since=0)
class FetchMetadataSnapshotResponse:
    error_code: int = schema.int16()
    snapshot_bytes: int = schema.int64(default=-1)  # of the whole snapshot
    content: bytes = schema.secret()
