"""Parses `server.properties`: the parts of Java's properties format that people write by hand."""

import re
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError

MAX_PROPERTIES_BYTES: Final = 1 << 20  # 400 settings of 2 KiB; a larger file is something else
_SEPARATOR = re.compile(r"(?:\\.|[^\s=:\\])*")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(content: bytes, name: str = "The properties file") -> dict[str, str]:
    """Return the values by name; the last of equal names wins. INVALID_CONFIG if it is not text.

    Errors call the file `name`.
    """
    if len(content) > MAX_PROPERTIES_BYTES:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} is larger than 1 MiB.")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} is not UTF-8 text.") from None
    values: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _SEPARATOR.match(line)
        key = match[0] if match else ""
        value = line[len(key) :].lstrip(" \t\f")
        if value[:1] in ("=", ":"):
            value = value[1:].lstrip(" \t\f")
        values[_unescape(key)] = _unescape(value)
    return values


def _logical_lines(text: str) -> list[str]:
    """Return the lines without comments; a line that ends in a backslash is joined with the next."""
    lines: list[str] = []
    continued = ""
    for raw in text.splitlines():
        line = raw.lstrip(" \t\f")
        if not continued and (not line or line[0] in "#!"):
            continue
        line = continued + line
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            continued = line[:-1]
            continue
        lines.append(line)
        continued = ""
    return [*lines, continued] if continued else lines


def _unescape(text: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        escaped = match[1]
        if len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        return _LETTERS.get(escaped, escaped)

    return _ESCAPE.sub(replaced, text)
