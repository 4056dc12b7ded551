"""Generates the function that decodes one version of one message.

The function takes any buffer and a position and returns the object and the position after it. The buffer is
not trusted: a count is compared with the bytes that are left before anything is allocated, lengths with the
end, and any fault becomes one `KafkaError(INVALID_REQUEST)`. Bytes behind the message are left to the caller;
unknown tags are skipped (KIP-482).

A decoder may limit the length of texts and bytes, by field. It rejects a longer one as soon as it has read
the length. A decoder that cuts them instead is for a message that is rejected anyway, and decoded for the
names that the response must contain.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer, Field, Kind, Schema, schema_of
from ottla.logstore.words.schema_source import (
    READY_LENGTHS,
    STRING_MAX_BYTES,
    Source,
    fixed_bytes,
    is_fixed,
    is_number,
)

# The elements of all arrays of one message together, and its tagged fields; four numbers of an array count as
# one. An element may be two bytes on the wire and 200 in memory, so the size of a frame does not bound the
# memory: this limit stands for some 100 MB beside the texts, and in a Metadata message for about half a
# million partitions.
MAX_ELEMENTS = 2**19
VARINT_MAX_BYTES = 5
ONE_BYTE_LENGTH = 126  # the longest text whose length, plus one, is a varint of one byte


class TooManyElements(KafkaError):
    """A message has more elements than its decoder allows; the caller may try again with a higher limit."""


class FieldLimit(NamedTuple):
    """The largest number of bytes (UTF-8 for a text) of a field, and the error code for a longer one."""

    max_bytes: int
    code: ErrorCode


class FieldTooLong(KafkaError):
    """A field is longer than its limit; the code is the limit's."""


# The limits by the path of a field: the names of the structs that contain it, then its own, joined by dots.
Limits = Mapping[str, FieldLimit]
NO_LIMITS: Limits = {}


def build_decoder(
    cls: type, version: int, limits: Limits = NO_LIMITS, *, cuts: bool = False
) -> Callable[..., Any]:
    """Return the function `decode(buffer, position=0, left=MAX_ELEMENTS) -> (object, position)`.

    It decodes one version of a message class, with at most `left` elements. A field that is longer than its
    limit raises FieldTooLong, or is cut if `cuts` is set.
    """
    schema = schema_of(cls)
    writer = _DecoderWriter(schema, version, limits, cuts=cuts)
    writer.write_struct(2, cls, schema, "o")
    source = writer.source
    source.names.update(
        new=object.__new__,
        malformed=malformed,
        read_uvarint=read_uvarint,
        read_string_length=read_string_length,
        too_many=too_many,
        too_long=too_long,
        unpack_from=struct.unpack_from,
        faults=(IndexError, ValueError, struct.error),
    )
    head = [
        f"def decode(b, p=0, left={MAX_ELEMENTS}):",
        "    end = len(b)",
        "    view = memoryview(b)" if writer.has_records else "",
        "    try:",
    ]
    source.lines[:0] = filter(None, head)
    source.line(1, "except faults as fault:")
    source.line(2, f"raise malformed('{schema.name}', {version}, fault) from None")
    # A slice beyond the end is silently shorter. Each pushes the position past the end, so one check at the
    # end finds them all.
    source.line(1, "if p > end:")
    source.line(2, f"raise malformed('{schema.name}', {version}, None)")
    source.line(1, "return o, p")
    return source.build("decode", f"decode {schema.name} v{version}")


# ---- called by the generated functions ------------------------------------------------------------


def read_uvarint(b: Buffer, p: int) -> tuple[int, int]:
    """Return an unsigned varint of at most five bytes and the position after it."""
    value = shift = 0
    for _ in range(VARINT_MAX_BYTES):
        byte = b[p]
        p += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, p
        shift += 7
    raise ValueError(f"a varint takes more than {VARINT_MAX_BYTES} bytes")


def read_string_length(b: Buffer, p: int) -> tuple[int, int]:
    """Return the length of a compact string, plus one, and the position after it."""
    value, p = read_uvarint(b, p)
    if value > STRING_MAX_BYTES + 1:
        raise ValueError(f"a string of {value - 1} bytes is longer than {STRING_MAX_BYTES}")
    return value, p


def too_many(name: str, count: int, is_there: bool) -> Exception:
    """Return the error for more elements than are allowed (`is_there`), or than the bytes left can hold."""
    if is_there:
        return TooManyElements(ErrorCode.INVALID_REQUEST, f"{name} has {count} elements, too many in total")
    return ValueError(f"{name} has {count} elements, which do not fit in the rest of the message")


def too_long(name: str, length: int, limit: FieldLimit) -> FieldTooLong:
    """Return the error for a field that is longer than its limit."""
    return FieldTooLong(limit.code, f"{name} has {length} bytes; at most {limit.max_bytes} are allowed")


def malformed(name: str, version: int | None, fault: Exception | None) -> KafkaError:
    """Return the error for bytes that are not an encoding of the message."""
    if isinstance(fault, UnicodeDecodeError):
        reason = "text that is not UTF-8"
    elif fault is None or isinstance(fault, IndexError | struct.error):
        reason = "it ends too early"
    else:
        reason = str(fault)
    named = name if version is None else f"{name} version {version}"
    return KafkaError(ErrorCode.INVALID_REQUEST, f"malformed {named}: {reason}")


# ---- the writer ---------------------------------------------------------------------------------


def min_bytes(field: Field, version: int, flexible: bool) -> int:
    """Return the smallest number of bytes that an element of a field can take."""
    if field.kind is Kind.STRUCT:
        assert field.of is not None
        inner = schema_of(field.of).plain_fields(version)
        return flexible + sum(_min_field_bytes(one, version, flexible) for one in inner)
    if is_fixed(field.kind):
        return fixed_bytes(field.kind.value)
    return 1 if flexible else 2 if field.kind is Kind.STRING else 4


def _min_field_bytes(field: Field, version: int, flexible: bool) -> int:
    if field.is_array:
        return 1 if flexible else 4
    if field.kind is Kind.STRUCT and field.is_nullable(version):
        return 1
    return min_bytes(field, version, flexible)


class _DecoderWriter:
    """The writer of one function.

    Its local variables are `b`, the buffer; `p`, the position; `end`; `left`, the elements that are still
    allowed; and `o`, the object.
    """

    def __init__(self, schema: Schema, version: int, limits: Limits, *, cuts: bool) -> None:
        self._limits = limits
        self._cuts = cuts
        self._path: list[str] = []  # the names of the nested fields that are being generated
        self.source = Source()
        self.version = version
        self.flexible = schema.is_flexible(version)
        self.has_records = False

    def write_struct(self, depth: int, cls: type, schema: Schema, out: str) -> None:
        source = self.source
        source.line(depth, f"{out} = new({source.bind(cls.__name__, cls)})")
        run: list[Field] = []  # adjacent fields of fixed size, which are unpacked with one call
        for field in schema.plain_fields(self.version):
            if is_fixed(field.kind) and not field.is_array:
                run.append(field)
                continue
            self._write_run(depth, run, out)
            self._path.append(field.name)
            self._write_field(depth, field, f"{out}.{field.name}")
            self._path.pop()
        self._write_run(depth, run, out)
        if self.flexible:
            self._write_tags(depth, schema, out)

    def _write_run(self, depth: int, run: list[Field], out: str) -> None:
        if not run:
            return
        codes = "".join(field.kind.value for field in run)
        targets = "".join(f"{out}.{field.name}, " for field in run)
        unpack = self.source.bind_packer("unpack_from", codes)
        self.source.line(depth, f"{targets}= {unpack}(b, p)")
        self.source.line(depth, f"p += {fixed_bytes(codes)}")
        run.clear()

    def _write_field(self, depth: int, field: Field, out: str) -> None:
        if field.is_array:
            self._write_array(depth, field, out)
        elif field.kind is Kind.STRUCT and field.is_nullable(self.version):
            self.source.line(depth, "p += 1")
            # Null is a negative int8; in a tagged section it is the unsigned number 0.
            is_none = "b[p - 1] == 0" if field.is_tagged(self.version) else "b[p - 1] > 127"
            self.source.line(depth, f"if {is_none}:")
            self.source.line(depth + 1, f"{out} = None")
            self.source.line(depth, "else:")
            self._write_one(depth + 1, field, out)
        else:
            self._write_one(depth, field, out)

    def _write_one(self, depth: int, field: Field, out: str) -> None:
        source = self.source
        if field.kind is Kind.STRUCT:
            assert field.of is not None
            inner = out if out.isidentifier() else source.variable()
            self.write_struct(depth, field.of, schema_of(field.of), inner)
            if inner != out:
                source.line(depth, f"{out} = {inner}")
        elif is_fixed(field.kind):
            code = field.kind.value
            source.line(depth, f"{out}, = {source.bind_packer('unpack_from', code)}(b, p)")
            source.line(depth, f"p += {fixed_bytes(code)}")
        else:
            self._write_sized(depth, field, out)

    def _write_sized(self, depth: int, field: Field, out: str) -> None:
        source = self.source
        limit = self._limits.get(".".join(self._path))
        length = self._write_length(depth, field.kind, None if self._cuts else limit)
        depth = self._write_null(depth, field, length, out)
        stop = source.variable()
        source.line(depth, f"{stop} = p + {length}{' - 1' if self.flexible else ''}")
        if field.kind is Kind.STRING and limit is not None and self._cuts:
            source.line(depth, f"{out} = str(b[p:min({stop}, p + {limit.max_bytes})], 'utf-8', 'replace')")
        elif field.kind is Kind.STRING:
            source.line(depth, f"{out} = str(b[p:{stop}], 'utf-8')")
        elif field.kind is Kind.BYTES:
            source.line(depth, f"{out} = bytes(b[p:{stop}])")
        else:
            self.has_records = True
            source.line(depth, f"{out} = view[p:{stop}]")
        source.line(depth, f"p = {stop}")

    def _write_array(self, depth: int, field: Field, out: str) -> None:
        source = self.source
        count = self._write_length(depth, None)
        depth = self._write_null(depth, field, count, out)
        if self.flexible:
            source.line(depth, f"{count} -= 1")
        least = min_bytes(field, self.version, self.flexible)
        assert least > 0, f"{field.name} has elements of no size in version {self.version}"
        source.line(depth, f"left -= {count} >> 2" if is_number(field.kind) else f"left -= {count}")
        room = "end - p" if least == 1 else f"(end - p) // {least}"
        source.line(depth, f"if {count} > {room} or left < 0:")
        source.line(depth + 1, f"raise too_many('{field.name}', {count}, {count} <= {room})")
        if is_number(field.kind):
            code = field.kind.value
            ready = source.bind_array_packers("unpack_from", code)
            source.line(depth, f"if {count} <= {READY_LENGTHS}:")
            source.line(depth + 1, f"{out} = {ready}[{count}](b, p)")
            source.line(depth, "else:")
            source.line(depth + 1, f"{out} = unpack_from(f'>{{{count}}}{code}', b, p)")
            source.line(depth, f"p += {count} * {fixed_bytes(code)}")
        else:
            elements, element = source.variable(), source.variable()
            source.line(depth, f"{out} = {elements} = []")
            source.line(depth, f"for _ in range({count}):")
            # The array may be null in some versions; its elements never are.
            self._write_field(depth + 1, field._replace(is_array=False, nullable_since=None), element)
            source.line(depth + 1, f"{elements}.append({element})")

    def _write_length(self, depth: int, kind: Kind | None, limit: FieldLimit | None = None) -> str:
        """Generate code that reads the length of a string, of bytes or (None) of an array.

        Return the new variable that holds it, as it is on the wire.
        """
        source = self.source
        length = source.variable()
        if self.flexible:
            read = "read_string_length" if kind is Kind.STRING else "read_uvarint"
            source.line(depth, f"{length} = b[p]")
            source.line(depth, "p += 1")
            source.line(depth, f"if {length} > 127:")
            source.line(depth + 1, f"{length}, p = {read}(b, p - 1)")
            # Nearly every length is one byte. If the limit is larger than such a length can be, the check
            # goes into the branch for longer ones, and costs nothing.
            depth += limit is not None and limit.max_bytes >= ONE_BYTE_LENGTH
        else:
            code = "h" if kind is Kind.STRING else "i"
            source.line(depth, f"{length}, = {source.bind_packer('unpack_from', code)}(b, p)")
            source.line(depth, f"p += {fixed_bytes(code)}")
        if limit is not None and not (kind is Kind.STRING and limit.max_bytes >= STRING_MAX_BYTES):
            name, one_more = ".".join(self._path), int(self.flexible)
            bound = source.bind("limit", limit)
            source.line(depth, f"if {length} > {limit.max_bytes + one_more}:")
            source.line(depth + 1, f"raise too_long('{name}', {length} - {one_more}, {bound})")
        return length

    def _write_null(self, depth: int, field: Field, length: str, out: str) -> int:
        """Generate the test for null; return the depth of the code that reads a value."""
        self.source.line(depth, f"if not {length}:" if self.flexible else f"if {length} < 0:")
        if field.is_nullable(self.version):
            self.source.line(depth + 1, f"{out} = None")
            self.source.line(depth, "else:")
            return depth + 1
        self.source.line(depth + 1, f"raise ValueError('{field.name} must not be null')")
        return depth

    def _write_tags(self, depth: int, schema: Schema, out: str) -> None:
        source = self.source
        count, tag, size, stop = (source.variable() for _ in range(4))
        source.line(depth, "if b[p]:")
        source.line(depth + 1, f"{count}, p = read_uvarint(b, p)")
        source.line(depth + 1, f"left -= {count}")
        source.line(depth + 1, f"if {count} > (end - p) // 2 or left < 0:")  # a tag takes two bytes at least
        source.line(depth + 2, f"raise too_many('the tagged section', {count}, {count} <= (end - p) // 2)")
        source.line(depth + 1, f"for _ in range({count}):")
        source.line(depth + 2, f"{tag}, p = read_uvarint(b, p)")
        source.line(depth + 2, f"{size}, p = read_uvarint(b, p)")
        source.line(depth + 2, f"{stop} = p + {size}")
        word = "if"
        for field in schema.tagged_fields(self.version):
            source.line(depth + 2, f"{word} {tag} == {field.tag}:")
            self._path.append(field.name)
            self._write_field(depth + 3, field, f"{out}.{field.name}")
            self._path.pop()
            source.line(depth + 3, f"if p != {stop}:")
            source.line(depth + 4, f"raise ValueError('{field.name} does not have the size of its tag')")
            word = "elif"
        # An unknown tag is skipped. Beyond the end it leads to the check after the last field.
        if word == "if":
            source.line(depth + 2, f"p = {stop}")
        else:
            source.line(depth + 2, "else:")
            source.line(depth + 3, f"p = {stop}")
        source.line(depth, "else:")
        source.line(depth + 1, "p += 1")
