"""A record that is longer than the metadata of one offset, divided among the offsets of several partitions.

They are offsets of one transaction, so either all of them are committed or none. Each part begins with the
number of parts and with a digest of the whole, so that parts of two records are never mixed up:

    4:sh2kYwD8Hy0PmLcx:AQAAAA...
"""

import hashlib
import re
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError

MAX_PART_CHARS: Final = 4_096  # the default of offset.metadata.max.bytes, which counts characters
MAX_PARTS: Final = 50  # partitions of __consumer_offsets, by default
_PART: Final = re.compile(r"([1-9][0-9]?):([A-Za-z0-9_-]{16}):(.*)", re.DOTALL)
_HEAD_CHARS: Final = len("50:") + 16 + len(":")
ROOM_CHARS: Final = MAX_PARTS * (MAX_PART_CHARS - _HEAD_CHARS)  # of a record


def split(record: str) -> list[str]:
    """Return the parts of a record: only itself, if it is no longer than a part."""
    if len(record) <= MAX_PART_CHARS:
        return [record]
    room = MAX_PART_CHARS - _HEAD_CHARS
    chunks = [record[at : at + room] for at in range(0, len(record), room)]
    assert len(chunks) <= MAX_PARTS, "it was refused before"
    head = f"{len(chunks)}:{_digest(record)}:"
    return [head + chunk for chunk in chunks]


def count_parts(first: str) -> int:
    """Return the number of parts of the record that begins with this text."""
    found = _PART.fullmatch(first)
    return 1 if found is None else int(found[1])


def join(parts: Sequence[str]) -> str:
    """Return the record; CORRUPT_MESSAGE if these are not the parts of one."""
    if len(parts) == 1 and count_parts(parts[0]) == 1:
        return parts[0]
    found = [_PART.fullmatch(one) for one in parts]
    heads = {None if one is None else (int(one[1]), one[2]) for one in found}
    record = "".join(one[3] for one in found if one is not None)
    if heads != {(len(parts), _digest(record))}:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            "the record of a batch cannot be read: its parts are from different records",
        )
    return record


def _digest(record: str) -> str:
    return urlsafe_b64encode(hashlib.sha256(record.encode()).digest())[:16].decode()
