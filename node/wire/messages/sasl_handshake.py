"""SaslHandshake (key 17): choose the SASL mechanism (KIP-43)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message


@message(api_key=17, versions=(0, 1))
class SaslHandshakeRequest:
    mechanism: str = schema.string()


@message(api_key=17, versions=(0, 1))
class SaslHandshakeResponse:
    error_code: int = schema.int16()
    mechanisms: Sequence[str] = schema.array(schema.string)
