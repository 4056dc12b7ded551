"""A parser of concatenated JSON documents in a stream of bytes that may be split anywhere.

The documents are objects with nothing or whitespace between them, as Confluent's clients send records on one
connection. A complete document is returned at once, even if nothing follows it. Malformed JSON, or too long a
document, ends the stream: there is no way to find the start of the next one.
"""

import re
from collections.abc import Generator, Iterator
from typing import Any, Final

from ottla.node.client.exact_json import MAX_PARTS, load_json

# Between two documents. Within one it occurs only in a text, since a comma separates the items of an array.
_BOUNDARY: Final = re.compile(rb"\}[ \t\r\n]*\{")
_SPACE: Final = re.compile(rb"[ \t\r\n]*")
# The rest of a text up to its end quote, or to an escape whose second byte is in the next chunk.
_REST_OF_TEXT: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
# All up to a bracket, whole texts included, or up to the start of a text that ends in a later chunk. The last
# `*` is not possessive: Python 3.11.2 ends a possessive one in the middle of a text.
_UP_TO_BRACKET: Final = re.compile(rb'[^"{}\[\]]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}\[\]]*+)*', re.DOTALL)
_OPENING: Final = frozenset(b"{[")
_QUOTE: Final = ord('"')


class JsonStream:
    """Takes chunks and returns documents. Once `problem` is set, further input is ignored."""

    def __init__(self, max_document_bytes: int) -> None:
        self.problem: str | None = None
        self._max_document_bytes = max_document_bytes
        self._buffer = bytearray()
        # Of the document that has begun and not ended: how far it was scanned, and the state of the scan
        # there; `_opened` counts its arrays and objects.
        self._scanned = 0
        self._depth = 0
        self._opened = 0
        self._in_text = False

    @property
    def is_in_document(self) -> bool:
        """Return True if a document has begun and not ended."""
        return bool(self._buffer)

    @property
    def held_bytes(self) -> int:
        """Return the size so far of the document that has begun and not ended."""
        return len(self._buffer)

    def feed(self, chunk: bytes) -> Iterator[Any]:
        """Yield the documents that end in this chunk; take all of them before the next chunk."""
        if self.problem is not None:
            return
        self._buffer += chunk
        start = yield from self._take()
        del self._buffer[:start]
        self._scanned = max(0, self._scanned - start)
        if len(self._buffer) > self._max_document_bytes and self.problem is None:
            self._refuse_size()

    def end(self) -> None:
        """Note that the stream has ended; sets `problem` if a document is incomplete."""
        if self.problem is None and self._buffer:
            self.problem = "the body ends within a JSON document"

    def _take(self) -> Generator[Any, None, int]:
        """Yield all complete documents, and return the start of the first incomplete one."""
        start = 0
        while self.problem is None:
            if not self._depth:
                start = self._scanned = _end_of(_SPACE, self._buffer, start)
                if start == len(self._buffer):
                    break
                if self._buffer[start : start + 1] != b"{":
                    shown = bytes(self._buffer[start : start + 20]).decode("ascii", "replace")
                    self.problem = f"a record must be a JSON object, but here is {shown!r}"
                    break
                # The usual case, four times as fast as counting brackets.
                boundary = _BOUNDARY.search(self._buffer, start)
                if boundary is not None:
                    document = self._try_piece(start, boundary.start() + 1)
                    if document is not None:
                        yield document
                        start = boundary.start() + 1
                        continue
            end = self._find_end()
            if end is None:
                break
            document = self._load(start, end)
            if document is not None:
                yield document
            start = end
        return start

    def _try_piece(self, start: int, end: int) -> Any:
        """Return a likely document, or None; if these bytes parse, they are one, since no prefix of an object
        is an object.
        """
        if end - start > self._max_document_bytes:
            return None
        try:
            return load_json(self._buffer[start:end])
        except ValueError:
            return None

    def _load(self, start: int, end: int) -> Any:
        """Return the document; if it is refused, set `problem` and return None."""
        if end - start > self._max_document_bytes:
            self._refuse_size()
            return None
        try:
            return load_json(self._buffer[start:end])
        except ValueError as error:
            self._refuse(str(error))
            return None

    def _refuse(self, reason: str) -> None:
        self.problem = f"not JSON that can be stored as it is: {reason}"

    def _refuse_size(self) -> None:
        self.problem = f"Produce request size is larger than allowed threshold {self._max_document_bytes}"

    def _find_end(self) -> int | None:
        """Count brackets from where the last chunk ended; return the end of the document, or None if it goes
        on. A document of more arrays and objects than `MAX_PARTS` is refused at once: to count on would only
        cost time.
        """
        buffer, at = self._buffer, self._scanned
        while self._opened <= MAX_PARTS:
            at = _end_of((_REST_OF_TEXT if self._in_text else _UP_TO_BRACKET), buffer, at)
            self._scanned = at
            if at == len(buffer):
                return None
            byte = buffer[at]
            if byte == _QUOTE:
                self._in_text = not self._in_text
            elif self._in_text:
                return None  # within an escape
            elif byte in _OPENING:
                self._depth += 1
                self._opened += 1
            else:
                self._depth -= 1
                if not self._depth:
                    self._scanned, self._opened = at + 1, 0
                    return at + 1
            at += 1
        self._refuse(f"more than {MAX_PARTS:,} values")
        return None


def _end_of(pattern: re.Pattern[bytes], buffer: bytearray, start: int) -> int:
    found = pattern.match(buffer, start)
    assert found is not None, "the pattern matches nothing, too"
    return found.end()
