"""CreateDelegationToken (key 38): a token that stands for its owner (KIP-48)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class CreatableRenewers:
    principal_type: str = schema.string()
    principal_name: str = schema.string()


@message(api_key=38, versions=(1, 3), flexible_since=2)
class CreateDelegationTokenRequest:
    owner_principal_type: str | None = schema.string(since=3, nullable_since=3)
    owner_principal_name: str | None = schema.string(since=3, nullable_since=3)
    renewers: Sequence[CreatableRenewers] = schema.array(CreatableRenewers)
    max_lifetime_ms: int = schema.int64()


@message(api_key=38, versions=(1, 3), flexible_since=2)
class CreateDelegationTokenResponse:
    error_code: int = schema.int16()
    principal_type: str = schema.string()
    principal_name: str = schema.string()
    token_requester_principal_type: str = schema.string(since=3)
    token_requester_principal_name: str = schema.string(since=3)
    issue_timestamp_ms: int = schema.int64()
    expiry_timestamp_ms: int = schema.int64()
    max_timestamp_ms: int = schema.int64()
    token_id: str = schema.string()
    hmac: bytes = schema.secret()
    throttle_time_ms: int = schema.int32()
