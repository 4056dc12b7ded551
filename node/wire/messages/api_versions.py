"""ApiVersions (key 18): the APIs and versions of a node, and the features of its cluster.

The response always has header version 0, so that a client that guessed too high can read it (KIP-511).
"""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@message(api_key=18, versions=(0, 5), flexible_since=3)
class ApiVersionsRequest:
    client_software_name: str = schema.string(since=3)
    client_software_version: str = schema.string(since=3)
    cluster_id: str | None = schema.string(since=5, nullable_since=5, default=None)
    node_id: int = schema.int32(since=5, default=-1)


@struct
class ApiVersion:
    api_key: int = schema.int16()
    min_version: int = schema.int16()
    max_version: int = schema.int16()


@struct
class SupportedFeatureKey:
    name: str = schema.string()
    min_version: int = schema.int16()
    max_version: int = schema.int16()


@struct
class FinalizedFeatureKey:
    name: str = schema.string()
    max_version_level: int = schema.int16()
    min_version_level: int = schema.int16()


@message(api_key=18, versions=(0, 5), flexible_since=3)
class ApiVersionsResponse:
    error_code: int = schema.int16()
    api_keys: Sequence[ApiVersion] = schema.array(ApiVersion)
    throttle_time_ms: int = schema.int32(since=1)
    supported_features: Sequence[SupportedFeatureKey] = schema.array(SupportedFeatureKey, tag=0, since=3)
    finalized_features_epoch: int = schema.int64(tag=1, since=3, default=-1)
    finalized_features: Sequence[FinalizedFeatureKey] = schema.array(FinalizedFeatureKey, tag=2, since=3)
    zk_migration_ready: bool = schema.boolean(tag=3, since=3)
