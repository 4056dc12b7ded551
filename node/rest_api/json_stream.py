"""A parser of concatenated JSON documents in a stream of bytes that may be split anywhere.

The documents are objects with nothing or whitespace between them, as Confluent's clients send records on one
connection. A complete document is returned at once, even if nothing follows it. Malformed JSON, or too long a
document, ends the stream: there is no way to find the start of the next one.
"""

import re
from typing import Any, Final

from ottla.node.client.exact_json import load_json

# Between two documents. Within one it occurs only in a text, since a comma separates the items of an array.
_BOUNDARY: Final = re.compile(rb"\}[ \t\r\n]*\{")
_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_OUTSIDE_TEXT: Final = re.compile(rb'["{}\[\]]')
_WITHIN_TEXT: Final = re.compile(rb'["\\]')


class JsonStream:
    """Takes chunks and returns documents. Once `problem` is set, further input is ignored."""

    def __init__(self, max_document_bytes: int) -> None:
        self.problem: str | None = None
        self._max_document_bytes = max_document_bytes
        self._buffer = bytearray()
        # Of the document that has begun and not ended: how far it was scanned, and the state of the scan
        # there.
        self._scanned = 0
        self._depth = 0
        self._in_text = False

    @property
    def is_in_document(self) -> bool:
        """Return True if a document has begun and not ended."""
        return bool(self._buffer)

    @property
    def held_bytes(self) -> int:
        """Return the size so far of the document that has begun and not ended."""
        return len(self._buffer)

    def feed(self, chunk: bytes) -> list[Any]:
        """Return the documents that end in this chunk."""
        documents: list[Any] = []
        if self.problem is None:
            self._buffer += chunk
            start = self._take(documents)
            del self._buffer[:start]
            self._scanned = max(0, self._scanned - start)
            if len(self._buffer) > self._max_document_bytes and self.problem is None:
                self._refuse_size()
        return documents

    def end(self) -> None:
        """Note that the stream has ended; sets `problem` if a document is incomplete."""
        if self.problem is None and self._buffer:
            self.problem = "the body ends within a JSON document"

    def _take(self, documents: list[Any]) -> int:
        """Add all complete documents, and return the start of the first incomplete one."""
        start = 0
        while self.problem is None:
            if not self._depth:
                start = self._scanned = _end_of_space(self._buffer, start)
                if start == len(self._buffer):
                    break
                if self._buffer[start : start + 1] != b"{":
                    shown = bytes(self._buffer[start : start + 20]).decode("ascii", "replace")
                    self.problem = f"a record must be a JSON object, but here is {shown!r}"
                    break
                # The usual case, four times as fast as counting brackets.
                boundary = _BOUNDARY.search(self._buffer, start)
                if boundary is not None and self._try_piece(documents, start, boundary.start() + 1):
                    start = boundary.start() + 1
                    continue
            end = self._find_end()
            if end is None:
                break
            self._add(documents, start, end)
            start = end
        return start

    def _try_piece(self, documents: list[Any], start: int, end: int) -> bool:
        """Add a likely document; if these bytes parse, they are one, since no prefix of an object is an
        object.
        """
        if end - start > self._max_document_bytes:
            return False
        try:
            documents.append(load_json(self._buffer[start:end]))
        except ValueError:
            return False
        return True

    def _add(self, documents: list[Any], start: int, end: int) -> None:
        if end - start > self._max_document_bytes:
            self._refuse_size()
            return
        try:
            documents.append(load_json(self._buffer[start:end]))
        except ValueError as error:
            self.problem = f"not JSON that can be stored as it is: {error}"

    def _refuse_size(self) -> None:
        self.problem = f"Produce request size is larger than allowed threshold {self._max_document_bytes}"

    def _find_end(self) -> int | None:
        """Count brackets from where the last chunk ended; return the end of the document, or None if it goes
        on.
        """
        buffer, at = self._buffer, self._scanned
        while True:
            found = (_WITHIN_TEXT if self._in_text else _OUTSIDE_TEXT).search(buffer, at)
            if found is None:
                self._scanned = max(at, len(buffer))
                return None
            at = found.end()
            match found.group():
                case b"\\":
                    at += 1  # the escaped character may be in the next chunk
                case b'"':
                    self._in_text = not self._in_text
                case b"{" | b"[":
                    self._depth += 1
                case _:
                    self._depth -= 1
                    if not self._depth:
                        self._scanned = at
                        return at


def _end_of_space(buffer: bytearray, start: int) -> int:
    space = _SPACE.match(buffer, start)
    assert space is not None, "it matches nothing too"
    return space.end()
