"""Envelope (key 58): a broker forwards a client's request to the controller (KIP-590)."""

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message


@message(api_key=58, versions=(0, 0), flexible_since=0)
class EnvelopeRequest:
    request_data: bytes = schema.bytes_()
    request_principal: bytes | None = schema.bytes_(nullable_since=0)
    client_host_address: bytes = schema.bytes_()


@message(api_key=58, versions=(0, 0), flexible_since=0)
class EnvelopeResponse:
    response_data: bytes | None = schema.bytes_(nullable_since=0, default=None)
    error_code: int = schema.int16()
