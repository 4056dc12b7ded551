"""RenewDelegationToken (key 39): let a token expire later."""

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message


@message(api_key=39, versions=(1, 2), flexible_since=2)
class RenewDelegationTokenRequest:
    hmac: bytes = schema.secret()
    renew_period_ms: int = schema.int64()


@message(api_key=39, versions=(1, 2), flexible_since=2)
class RenewDelegationTokenResponse:
    error_code: int = schema.int16()
    expiry_timestamp_ms: int = schema.int64()
    throttle_time_ms: int = schema.int32()
