"""The envelope of Confluent's resources: `kind`, `metadata` with a link and a resource name, and links.

A schema with a `title` appears once in the OpenAPI document, under that name.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import orjson

from ottla.node.rest_api.answer_room import AnswerPart
from ottla.node.rest_api.json_schema import Schema

_PLAIN: Final = re.compile(r"[A-Za-z0-9._~-]*")

Data = dict[str, Any]  # one resource as JSON

RELATED: Final[Schema] = {
    "title": "Relationship",
    "type": "object",
    "properties": {"related": {"type": "string", "format": "uri"}},
    "required": ["related"],
}
_METADATA: Final[Schema] = {
    "title": "ResourceMetadata",
    "type": "object",
    "properties": {
        "self": {"type": "string", "format": "uri"},
        "resource_name": {"type": ["string", "null"]},
    },
    "required": ["self"],
}
_COLLECTION_METADATA: Final[Schema] = {
    "title": "ResourceCollectionMetadata",
    "type": "object",
    "properties": {
        "self": {"type": "string", "format": "uri"},
        "next": {"type": ["string", "null"], "format": "uri"},
    },
    "required": ["self"],
}


def url(base_url: str, *segments: str | int) -> str:
    """Return a link into v3; each argument becomes one segment, whatever it contains."""
    return f"{base_url}/v3/{'/'.join([quoted(one) for one in segments])}"


def related(link: str) -> Data:
    return {"related": link}


def resource_name(**names: str | int) -> str:
    """Return a name such as `crn:///kafka=ID/topic=NAME`; underscores here become hyphens in it."""
    return "crn:///" + "/".join([f"{key.replace('_', '-')}={quoted(one)}" for key, one in names.items()])


def quoted(segment: str | int) -> str:
    """Return a text quoted as one segment of a link or a name."""
    text = str(segment)
    # Names of topics need no quoting, and a list has thousands.
    return text if _PLAIN.fullmatch(text) else quote(text, safe="-._~")


def resource(kind: str, link: str, name: str, **fields: Any) -> Data:
    """Return one resource: its kind, its link and name, and its fields."""
    return {"kind": kind, "metadata": {"self": link, "resource_name": name}, **fields}


def collection(
    kind: str, link: str, data: Sequence[Data] | orjson.Fragment, *, next_link: str | None = None
) -> Data:
    """Return a list of resources of a kind; `next_link` leads to the next page if there is one."""
    return {"kind": kind, "metadata": {"self": link, "next": next_link}, "data": data}


class DataPieces:
    """Resources of a long list, encoded part by part: text needs a tenth of the memory of objects."""

    def __init__(self, part: AnswerPart) -> None:
        """Start an empty list, whose memory is counted in `part`."""
        self.count = 0  # number of resources
        self._part = part
        self._pieces: list[bytes] = []
        self._size_bytes = 0

    def add(self, data: Sequence[Data]) -> None:
        """Add resources; RestError 429 if there is no room for them, and then the list is unchanged."""
        if data:
            piece = orjson.dumps(data)[1:-1]
            # Twice: the list exists a second time when it is joined.
            self._part.hold(2 * (self._size_bytes + len(piece)))
            self._size_bytes += len(piece)
            self.count += len(data)
            self._pieces.append(piece)

    def whole(self) -> orjson.Fragment:
        """Return the list for an answer, and clear it here."""
        whole = b"[" + b",".join(self._pieces) + b"]"
        self._pieces.clear()
        return orjson.Fragment(whole)


def resource_schema(
    title: str, kind: str, fields: Mapping[str, Schema], optional: Sequence[str] = ()
) -> Schema:
    """Return the schema of `resource(...)`."""
    return {
        "title": title,
        "type": "object",
        "properties": {"kind": {"type": "string", "examples": [kind]}, "metadata": _METADATA, **fields},
        "required": ["kind", "metadata", *(name for name in fields if name not in optional)],
    }


def collection_schema(title: str, kind: str, items: Schema) -> Schema:
    """Return the schema of `collection(...)`."""
    return {
        "title": title,
        "type": "object",
        "properties": {
            "kind": {"type": "string", "examples": [kind]},
            "metadata": _COLLECTION_METADATA,
            "data": {"type": "array", "items": items},
        },
        "required": ["kind", "metadata", "data"],
    }
