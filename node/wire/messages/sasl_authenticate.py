"""SaslAuthenticate (key 36): one step of a SASL exchange (KIP-152)."""

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message


@message(api_key=36, versions=(0, 2), flexible_since=2)
class SaslAuthenticateRequest:
    auth_bytes: bytes = schema.secret()


@message(api_key=36, versions=(0, 2), flexible_since=2)
class SaslAuthenticateResponse:
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)
    auth_bytes: bytes = schema.secret()
    session_lifetime_ms: int = schema.int64(since=1)
