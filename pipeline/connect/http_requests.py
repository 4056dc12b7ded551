"""Builds requests from records, and decides from an answer whether its records were taken or refused."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NoReturn

from ottla.pipeline.connect.http_options import BodyFormat

# Another attempt may cure these: trouble of the server, and requests that come too soon or too often.
RETRIED: Final = frozenset({408, 425, 429, *range(500, 600)})
# These are wrong for every record: the URL, the method, or the credentials.
ENDPOINT_ERRORS: Final = frozenset({401, 403, 404, 405, 407})
_CONTENT_TYPES: Final = {
    BodyFormat.JSON: "application/json",
    BodyFormat.STRING: "text/plain; charset=utf-8",
    BodyFormat.BYTES: "application/octet-stream",
}


class HttpOutcome(Enum):
    """The meaning of an answer after all attempts."""

    TAKEN = "taken"
    REFUSED = "refused"  # the record, for good
    STOP = "stop"  # no record is to blame, so none is given up


def outcome_of_status(status: int) -> HttpOutcome:
    """Judge an answer by the class of its status; a redirect (3xx) means a wrong URL."""
    if 200 <= status < 300:
        return HttpOutcome.TAKEN
    if 400 <= status < 500 and status not in RETRIED and status not in ENDPOINT_ERRORS:
        return HttpOutcome.REFUSED
    return HttpOutcome.STOP


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOrigin:
    """The topic, partition and offset of a record; without a topic, `offset` is its row in the task."""

    topic: str | None
    partition: int | None
    offset: int

    def __str__(self) -> str:
        return f"row {self.offset}" if self.topic is None else f"{self.topic}-{self.partition}@{self.offset}"


def idempotency_key(query_id: str, batch: int, task: int, first: RecordOrigin, last: RecordOrigin) -> str:
    """Return a key that is equal for the same records when a batch is sent again."""
    group = f"task-{task}" if first.topic is None else f"{first.topic}-{first.partition}"
    return f"{query_id}/{batch}/{group}/{first.offset}-{last.offset}"


def content_type(body_format: BodyFormat, is_array: bool) -> str:
    return _CONTENT_TYPES[BodyFormat.JSON if is_array else body_format]


def to_element(value: bytes | None, body_format: BodyFormat) -> bytes:
    """Return a value as a body, or in JSON as an element of an array; ValueError with the problem."""
    if body_format is BodyFormat.BYTES:
        return _not_null(value)
    if body_format is BodyFormat.JSON:
        # JSON's form of a tombstone is null.
        text = b"null" if value is None else value
        try:
            json.loads(text.decode(), parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the value is not JSON: {str(error)[:100]}") from None
        return text
    _not_null(value).decode()  # raises a ValueError
    return _not_null(value)


def to_array(elements: Sequence[bytes], body_format: BodyFormat) -> bytes:
    """Return a JSON array of the elements, in order."""
    if body_format is BodyFormat.STRING:
        return json.dumps([element.decode() for element in elements], ensure_ascii=False).encode()
    return b"[" + b",".join(elements) + b"]"


def _not_null(value: bytes | None) -> bytes:
    if value is None:
        raise ValueError("the value is null")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
