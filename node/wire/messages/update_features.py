"""UpdateFeatures (key 57): finalize feature levels of the cluster (KIP-584)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class FeatureUpdateKey:
    feature: str = schema.string()
    max_version_level: int = schema.int16()
    allow_downgrade: bool = schema.boolean(until=0)
    upgrade_type: int = schema.int8(since=1, default=1)


@message(api_key=57, versions=(0, 2), flexible_since=0)
class UpdateFeaturesRequest:
    timeout_ms: int = schema.int32(default=60000)
    feature_updates: Sequence[FeatureUpdateKey] = schema.array(FeatureUpdateKey)
    validate_only: bool = schema.boolean(since=1)


@struct
class UpdatableFeatureResult:
    feature: str = schema.string()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)


@message(api_key=57, versions=(0, 2), flexible_since=0)
class UpdateFeaturesResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)
    results: Sequence[UpdatableFeatureResult] = schema.array(UpdatableFeatureResult, until=1)
