"""State machines as JSON for people: each public attribute by its name, truncated if it is long.

Any object of the cores may be given: they hold data and other objects. The size of a description is bounded,
since it is made between two turns of the node's loop.
"""

from collections.abc import Iterator, Mapping, Set
from enum import Enum
from typing import Any, Final

from ottla.logstore.words.schema import SECRET
from ottla.node.wire.describe import MAX_BYTES, Json

MAX_VALUES: Final = 2_000  # of one state machine: 2 ms at most
MAX_DEPTH: Final = 6  # for example shard, group, members, and the metadata of a member
MAX_TEXT: Final = 256
CUT: Final = "..."
# Secrets are not shown.
SECRET_NAMES: Final = frozenset({"auth_bytes", "hmac", "salt", "salted_password", "stored_key", "server_key"})
# The packages whose objects are opened; others are shown as their class name.
PACKAGES: Final = ("ottla.groupcoord", "ottla.logstore", "ottla.metadata_raft", "ottla.node.replica")


def in_words(machine: object) -> Json:
    """Return the current state of a state machine as JSON."""
    return _Words().of(machine, 0)


class _Words:
    """One description, and the number of values that it may still add."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def of(self, value: object, depth: int) -> Json:
        self._left -= 1
        if isinstance(value, Enum):
            return str(value.value)
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return value if len(value) <= MAX_TEXT else value[:MAX_TEXT] + CUT
        if isinstance(value, bytes | bytearray | memoryview):
            text = bytes(value[:MAX_BYTES]).hex()
            return text if len(value) <= MAX_BYTES else f"{text}{CUT} {len(value)} bytes"
        if self._left <= 0 or depth >= MAX_DEPTH:
            return CUT
        if isinstance(value, Mapping):
            return self._fields(((self._name(key), one) for key, one in value.items()), depth)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self._fields(zip(value._fields, value, strict=True), depth)
        if isinstance(value, list | tuple | Set):
            return self._list(value, depth)
        if type(value).__module__.startswith(PACKAGES):
            return self._fields(_attributes(value), depth)
        return type(value).__name__

    def _fields(self, fields: Iterator[tuple[str, object]], depth: int) -> Json:
        found: dict[str, Json] = {}
        for name, value in fields:
            if self._left <= 0:
                found[CUT] = CUT
                break
            found[name] = SECRET if name in SECRET_NAMES else self.of(value, depth + 1)
        return found

    def _list(self, values: "list[Any] | tuple[Any, ...] | Set[Any]", depth: int) -> Json:
        found: list[Json] = []
        for value in values:
            if self._left <= 0:
                found.append(CUT)
                break
            found.append(self.of(value, depth + 1))
        return found

    @staticmethod
    def _name(key: object) -> str:
        is_plain = isinstance(key, str | int)
        text = "-".join(map(str, key)) if isinstance(key, tuple) else str(key) if is_plain else repr(key)
        return text[:MAX_TEXT]


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    """Yield the public attributes of an object."""
    names: dict[str, None] = dict.fromkeys(getattr(value, "__dict__", ()))
    for kind in reversed(type(value).__mro__):
        slots = getattr(kind, "__slots__", ())
        names |= dict.fromkeys([slots] if isinstance(slots, str) else slots)
    for name in names:
        if not name.startswith("_") and not callable(one := getattr(value, name, None)):
            yield name, one
