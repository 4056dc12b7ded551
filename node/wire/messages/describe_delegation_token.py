"""DescribeDelegationToken (key 41): the tokens of some owners."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class DescribeDelegationTokenOwner:
    principal_type: str = schema.string()
    principal_name: str = schema.string()


@message(api_key=41, versions=(1, 3), flexible_since=2)
class DescribeDelegationTokenRequest:
    owners: Sequence[DescribeDelegationTokenOwner] | None = schema.array(
        DescribeDelegationTokenOwner, nullable_since=0
    )


@struct
class DescribedDelegationTokenRenewer:
    principal_type: str = schema.string()
    principal_name: str = schema.string()


@struct
class DescribedDelegationToken:
    principal_type: str = schema.string()
    principal_name: str = schema.string()
    token_requester_principal_type: str = schema.string(since=3)
    token_requester_principal_name: str = schema.string(since=3)
    issue_timestamp: int = schema.int64()
    expiry_timestamp: int = schema.int64()
    max_timestamp: int = schema.int64()
    token_id: str = schema.string()
    hmac: bytes = schema.secret()
    renewers: Sequence[DescribedDelegationTokenRenewer] = schema.array(DescribedDelegationTokenRenewer)


@message(api_key=41, versions=(1, 3), flexible_since=2)
class DescribeDelegationTokenResponse:
    error_code: int = schema.int16()
    tokens: Sequence[DescribedDelegationToken] = schema.array(DescribedDelegationToken)
    throttle_time_ms: int = schema.int32()
