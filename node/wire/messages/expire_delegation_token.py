"""ExpireDelegationToken (key 40): let a token expire earlier."""

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message


@message(api_key=40, versions=(1, 2), flexible_since=2)
class ExpireDelegationTokenRequest:
    hmac: bytes = schema.secret()
    expiry_time_period_ms: int = schema.int64()


@message(api_key=40, versions=(1, 2), flexible_since=2)
class ExpireDelegationTokenResponse:
    error_code: int = schema.int16()
    expiry_timestamp_ms: int = schema.int64()
    throttle_time_ms: int = schema.int32()
