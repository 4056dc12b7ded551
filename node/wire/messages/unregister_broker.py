"""UnregisterBroker (key 64): remove a broker that is gone for good."""

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message


@message(api_key=64, versions=(0, 0), flexible_since=0)
class UnregisterBrokerRequest:
    broker_id: int = schema.int32()


@message(api_key=64, versions=(0, 0), flexible_since=0)
class UnregisterBrokerResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)
