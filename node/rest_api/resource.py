"""Confluent's words around data: `kind`, `metadata` with a link and a resource name, and links.

A schema with a `title` stands once in the OpenAPI document, under that name.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import orjson

from ottla.node.rest_api.answer_room import AnswerPart
from ottla.node.rest_api.json_schema import Schema

_PLAIN: Final = re.compile(r"[A-Za-z0-9._~-]*")

Data = dict[str, Any]  # one resource, as its JSON

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
    """A link into v3; each segment is one, whatever stands in it."""
    return f"{base_url}/v3/{'/'.join([quoted(one) for one in segments])}"


def related(link: str) -> Data:
    return {"related": link}


def resource_name(**names: str | int) -> str:
    """As `crn:///kafka=ID/topic=NAME`; Confluent's words have hyphens where these names have underscores."""
    return "crn:///" + "/".join([f"{key.replace('_', '-')}={quoted(one)}" for key, one in names.items()])


def quoted(segment: str | int) -> str:
    """As it stands in a link or a name: one segment."""
    text = str(segment)
    # Names of topics always are plain, and a list has thousands.
    return text if _PLAIN.fullmatch(text) else quote(text, safe="-._~")


def resource(kind: str, link: str, name: str, **fields: Any) -> Data:
    """One thing: who it is, where it is found, and its fields."""
    return {"kind": kind, "metadata": {"self": link, "resource_name": name}, **fields}


def collection(
    kind: str, link: str, data: Sequence[Data] | orjson.Fragment, *, next_link: str | None = None
) -> Data:
    """All of a kind, on one page unless `next_link` leads to more."""
    return {"kind": kind, "metadata": {"self": link, "next": next_link}, "data": data}


class DataPieces:
    """Resources of a long list, written out a part at a time: texts need a tenth of the memory of objects."""

    def __init__(self, part: AnswerPart) -> None:
        """What the list takes is counted in `part`."""
        self.count = 0  # resources
        self._part = part
        self._pieces: list[bytes] = []
        self._size_bytes = 0

    def add(self, data: Sequence[Data]) -> None:
        """RestError 429 if there is no room for them; the list is as it was then."""
        if data:
            piece = orjson.dumps(data)[1:-1]
            # Once more when it is put together.
            self._part.hold(2 * (self._size_bytes + len(piece)))
            self._size_bytes += len(piece)
            self.count += len(data)
            self._pieces.append(piece)

    def whole(self) -> orjson.Fragment:
        """The list, to stand in an answer; nothing is left here."""
        whole = b"[" + b",".join(self._pieces) + b"]"
        self._pieces.clear()
        return orjson.Fragment(whole)


def resource_schema(
    title: str, kind: str, fields: Mapping[str, Schema], optional: Sequence[str] = ()
) -> Schema:
    """The schema of `resource(...)`."""
    return {
        "title": title,
        "type": "object",
        "properties": {"kind": {"type": "string", "examples": [kind]}, "metadata": _METADATA, **fields},
        "required": ["kind", "metadata", *(name for name in fields if name not in optional)],
    }


def collection_schema(title: str, kind: str, of: Schema) -> Schema:
    """The schema of `collection(...)`."""
    return {
        "title": title,
        "type": "object",
        "properties": {
            "kind": {"type": "string", "examples": [kind]},
            "metadata": _COLLECTION_METADATA,
            "data": {"type": "array", "items": of},
        },
        "required": ["kind", "metadata", "data"],
    }
