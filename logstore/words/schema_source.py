"""Python source under construction: the lines of one function, and the objects bound to its global names.

`schema_decode` and `schema_encode` generate one flat function for each (class, version), because an
interpreter of field descriptions costs several times as much per request. Both the text and the bound objects
come from declarations in our own modules; see `build`.
"""

import functools
import struct
from collections.abc import Callable
from typing import Any

from ottla.logstore.words.schema import Kind

# Arrays of fixed-size elements up to this length use a cached packer. Longer ones are rare, and a cache of
# packers for any length that a peer sends would leak memory.
READY_LENGTHS = 16
STRING_MAX_BYTES = 2**15 - 1  # the length of a string is an int16, and stays below it where it is a varint
UUID_BYTES = 16


class Source:
    """The text of one function, indented by four spaces a level, and its global names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, object] = {}
        self._variables = 0

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def variable(self) -> str:
        """Return a local name that is not used in the function yet."""
        self._variables += 1
        return f"v{self._variables}"

    def bind(self, name: str, value: object) -> str:
        """Return a global name for `value`: `name`, with a number if another value has that name."""
        unique, number = name, 1
        while self.names.setdefault(unique, value) is not value:
            number += 1
            unique = f"{name}_{number}"
        return unique

    def bind_packer(self, method: str, codes: str) -> str:
        """Return a global name for `pack` or `unpack_from` of a big-endian struct of these codes."""
        spelled = codes.replace("16s", "u").replace("?", "t")
        return self.bind(f"{method}_{spelled}", packer(method, codes))

    def bind_array_packers(self, method: str, code: str) -> str:
        """Return a global name for the tuple of such methods for 0 to READY_LENGTHS elements of one code."""
        return self.bind(f"{method}_{code}s", array_packers(method, code))

    def build(self, function: str, title: str) -> Callable[..., Any]:
        """Compile the lines and return the function of that name, with its text as the attribute `source`.

        This is the only place that executes text. No input reaches it: the text consists of constants in
        these modules, of numbers, and of field and class names of our own declarations, which are identifiers
        because their class bodies compiled. Bytes from peers are only ever arguments of the finished
        function.
        """
        text = "\n".join(self.lines) + "\n"
        namespace = dict(self.names)
        exec(compile(text, f"<{title}>", "exec"), namespace)
        built: Callable[..., Any] = namespace[function]  # type: ignore[assignment]
        built.source = text  # type: ignore[attr-defined]
        return built


@functools.cache
def packer(method: str, codes: str) -> Callable[..., Any]:
    """Return `pack` or `unpack_from` of a big-endian struct."""
    bound: Callable[..., Any] = getattr(struct.Struct(f">{codes}"), method)
    return bound


@functools.cache
def array_packers(method: str, code: str) -> tuple[Callable[..., Any], ...]:
    return tuple(packer(method, f"{length}{code}") for length in range(READY_LENGTHS + 1))


def is_fixed(kind: Kind) -> bool:
    """Return True if all values of this kind take the same number of bytes."""
    return kind not in (Kind.STRING, Kind.BYTES, Kind.RECORDS, Kind.STRUCT)


def is_number(kind: Kind) -> bool:
    """Return True if an array of this kind is read and written with one call."""
    return is_fixed(kind) and kind not in (Kind.BOOLEAN, Kind.UUID)


def fixed_bytes(codes: str) -> int:
    return struct.calcsize(f">{codes}")
