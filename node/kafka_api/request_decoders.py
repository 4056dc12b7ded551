"""The decoders of requests, with the limits from the description of each API."""

from functools import cache
from typing import Any, Final

from ottla.logstore.words.schema_compiler import Decoder
from ottla.logstore.words.schema_decode import build_decoder
from ottla.node.kafka_api.served_apis import describe
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.peer_api import PeerApi
from ottla.node.wire.request_limits import VALUE

# Requests that find, show and remove groups and transactional ids may name some that are older, and longer,
# than the limit. Their names are hashed and compared, some 20 ns a byte, so the request as a whole must be
# small.
OLD_IDS_MAX_BYTES: Final = 65_536


@cache
def limited_decoder(api: ApiKey | PeerApi, version: int) -> Decoder[Any]:
    """Return the decoder of a version of an API; it raises FieldTooLong for a field beyond its limit."""
    return build_decoder(codec.request_class(api), version, describe(api).limits.fields)


@cache
def cutting_decoder(api: ApiKey | PeerApi, version: int, max_bytes: int) -> Decoder[Any]:
    """Return a decoder that cuts each limited text at `max_bytes`, for responses that reject the request."""
    fields = describe(api).limits.fields
    cut = {path: limit._replace(max_bytes=max_bytes) for path, limit in fields.items()}
    return build_decoder(codec.request_class(api), version, cut, cuts=True)


@cache
def old_ids_decoder(api: ApiKey, version: int) -> Decoder[Any]:
    """Return the decoder of requests whose `old_ids` may be as long as the protocol allows."""
    fields = {**describe(api).limits.fields, **dict.fromkeys(describe(api).old_ids, VALUE)}
    return build_decoder(codec.request_class(api), version, fields)
