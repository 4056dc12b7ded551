"""Python source under construction: the lines of one function, and the objects that its free names stand for.

`schema_decode` and `schema_encode` write one flat function for each (class, version), because walking field
descriptions for every request costs several times as much. Both the text and the bound objects come from
declarations in our own modules; see `build`.
"""

import functools
import struct
from collections.abc import Callable
from typing import Any

from ottla.logstore.words.schema import Kind

# Arrays of fixed-size elements up to this length use a ready-made packer. Longer ones are rare, and a
# packer kept for every length that a peer may think of would be a leak.
READY_LENGTHS = 16
STRING_MAX_BYTES = 2**15 - 1  # the length of a string is an int16, and stays below it where it is a varint
UUID_BYTES = 16


class Source:
    """The text of one function, four spaces a level, and its global names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, object] = {}
        self._variables = 0

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def variable(self) -> str:
        """A local name that nothing else in the function has."""
        self._variables += 1
        return f"v{self._variables}"

    def bind(self, name: str, value: object) -> str:
        """A global name for `value`: the wished one, or with a number where another value has it already."""
        unique, number = name, 1
        while self.names.setdefault(unique, value) is not value:
            number += 1
            unique = f"{name}_{number}"
        return unique

    def bind_packer(self, method: str, codes: str) -> str:
        """A global name for `pack` or `unpack_from` of a big-endian struct of these codes."""
        spelled = codes.replace("16s", "u").replace("?", "t")
        return self.bind(f"{method}_{spelled}", packer(method, codes))

    def bind_array_packers(self, method: str, code: str) -> str:
        """A global name for the tuple of such methods for 0 to READY_LENGTHS elements of one code."""
        return self.bind(f"{method}_{code}s", array_packers(method, code))

    def build(self, function: str, title: str) -> Callable[..., Any]:
        """Compile the lines and return the function of that name, its text kept as `.source`.

        This is the only place that executes text. No input reaches it: the text is made of constants here,
        of field and class names of our own declarations (identifiers, or the class bodies would not have
        compiled) and of numbers; what peers send is only ever an argument of the finished function.
        """
        text = "\n".join(self.lines) + "\n"
        namespace = dict(self.names)
        exec(compile(text, f"<{title}>", "exec"), namespace)
        built: Callable[..., Any] = namespace[function]  # type: ignore[assignment]
        built.source = text  # type: ignore[attr-defined]
        return built


@functools.cache
def packer(method: str, codes: str) -> Callable[..., Any]:
    """`pack` or `unpack_from` of a big-endian struct."""
    bound: Callable[..., Any] = getattr(struct.Struct(f">{codes}"), method)
    return bound


@functools.cache
def array_packers(method: str, code: str) -> tuple[Callable[..., Any], ...]:
    return tuple(packer(method, f"{length}{code}") for length in range(READY_LENGTHS + 1))


def is_fixed(kind: Kind) -> bool:
    """Whether all values of this kind take the same number of bytes."""
    return kind not in (Kind.STRING, Kind.BYTES, Kind.RECORDS, Kind.STRUCT)


def is_number(kind: Kind) -> bool:
    """Whether an array of this kind is read and written with one call."""
    return is_fixed(kind) and kind not in (Kind.BOOLEAN, Kind.UUID)


def fixed_bytes(codes: str) -> int:
    return struct.calcsize(f">{codes}")
