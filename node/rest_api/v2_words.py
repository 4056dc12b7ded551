"""Parts of Confluent's REST API v2: media types, partitions, and the formats of records.

Records are JSON or bytes in base64; formats that need a schema registry are rejected, as by Confluent's proxy
without a registry.
"""

import base64
from collections.abc import Mapping
from typing import Final

import orjson

from ottla.logstore.record import Record
from ottla.node.client.exact_json import COMPARED_PARTS, check_parts
from ottla.node.rest_api import record_json
from ottla.node.rest_api.json_schema import Json, Schema
from ottla.node.rest_api.operation_words import listed, record
from ottla.node.rest_api.resource import Data
from ottla.node.rest_api.rest_error import RestError
from ottla.node.rest_api.route import INT32, INT64, STRING
from ottla.node.rest_api.v2_errors import JSON_CONVERSION

V2: Final = "application/vnd.kafka.v2+json"
MEDIA_TYPES: Final[Mapping[str, str]] = {
    "binary": "application/vnd.kafka.binary.v2+json",
    "json": "application/vnd.kafka.json.v2+json",
}
# Media types of formats that need a schema registry.
SCHEMA_MEDIA_TYPES: Final[Mapping[str, str]] = {
    name: f"application/vnd.kafka.{name}.v2+json" for name in ("avro", "jsonschema", "protobuf")
}
# The names of the formats as types of v3.
TYPES: Final[Mapping[str, str]] = {"binary": record_json.BINARY, "json": record_json.JSON}
BODIES: Final = (
    V2,
    "application/json",
    *MEDIA_TYPES.values(),
    *SCHEMA_MEDIA_TYPES.values(),
)  # for requests and answers without records
TAG: Final = "Records and consumers (v2)"

PLACE: Final = record({"topic": STRING, "partition": INT32}, title="V2Partition")
OFFSET: Final = record(
    {
        "topic": STRING,
        "partition": INT32,
        "offset": {**INT64, "maximum": 2**63 - 2},  # the next offset is committed
        "metadata": {"type": ["string", "null"]},
    },
    title="V2Offset",
    optional=["metadata"],
)
MAX_PLACES: Final = 1_000  # partitions in one request
PLACES: Final = record({"partitions": {**listed(PLACE), "maxItems": MAX_PLACES}}, title="V2Partitions")
OFFSETS: Final = record({"offsets": {**listed(OFFSET), "maxItems": MAX_PLACES}}, title="V2Offsets")
TIMESTAMP: Final = record(
    {
        "topic": STRING,
        "partition": INT32,
        "timestamp": {"type": "string", "format": "date-time"},
        "metadata": {"type": ["string", "null"]},
    },
    title="V2Timestamp",
    optional=["metadata"],
)
POSITIONS: Final = record(
    {
        "offsets": {"type": ["array", "null"], "items": OFFSET, "maxItems": MAX_PLACES},
        "timestamps": {"type": ["array", "null"], "items": TIMESTAMP, "maxItems": MAX_PLACES},
    },
    title="V2Positions",
    optional=["offsets", "timestamps"],
)
ANY_VALUE: Final[Schema] = {"description": "base64, or any JSON value"}
CONSUMED: Final = record(
    {"topic": STRING, "key": ANY_VALUE, "value": ANY_VALUE, "partition": INT32, "offset": INT64},
    title="V2Record",
)


def format_of(media_type: str) -> str | None:
    """Return the format of records of a media type, or None if it leaves that open."""
    given = media_type.partition(";")[0].strip().lower()
    known = (*MEDIA_TYPES.items(), *SCHEMA_MEDIA_TYPES.items())
    return next((name for name, one in known if one == given), None)


def record_as_json(topic: str, partition: int, one: Record, form: str) -> Data:
    """Return a record in the format of v2; RestError 422 if its bytes do not fit."""
    return {
        "topic": topic,
        "key": _content(one.key, form),
        "value": _content(one.value, form),
        "partition": partition,
        "offset": one.offset,
    }


def _content(content: bytes | None, form: str) -> Json:
    if content is None:
        return None
    if form == "binary":
        return base64.b64encode(content).decode()
    try:
        check_parts(content, COMPARED_PARTS)
        orjson.loads(content)
    except ValueError as error:
        raise RestError(422, JSON_CONVERSION, f"Conversion of JSON to Object failed: {error}.") from None
    return orjson.Fragment(content)
