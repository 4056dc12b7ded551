"""Generates the function that encodes one version of one message.

The function appends to a bytearray and returns the buffers of the message in order: that bytearray alone, or
several of them with record batches in between, which are not copied. A value that its field cannot hold
(None, a number out of range, a text that is too long) is a bug of the caller: it raises ValueError with the
path of the field.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any

from ottla.logstore.words.schema import Field, Kind, Schema, schema_of
from ottla.logstore.words.schema_source import (
    READY_LENGTHS,
    STRING_MAX_BYTES,
    UUID_BYTES,
    Source,
    is_fixed,
    is_number,
)


def build_encoder(cls: type, version: int) -> Callable[..., Any]:
    """Return the function `encode(object, writer) -> [buffer, ...]` for one version of a message class."""
    schema = schema_of(cls)
    writer = _EncoderWriter(schema, version)
    writer.write_struct(2, schema, "o")
    source = writer.source
    if not source.lines:  # a message without a field, such as ListGroups version 0
        source.line(2, "pass")
    source.names.update(
        uvarint=uvarint,
        string_length=string_length,
        tagged_section=tagged_section,
        checked_uuid=checked_uuid,
        encoding_error=encoding_error,
        schema=schema,
        sequences=(list, tuple),
        pack=struct.pack,
        faults=(TypeError, AttributeError, ValueError, struct.error),
    )
    source.lines[:0] = ["def encode(o, w):", "    chunks = []", "    try:"]
    source.line(1, "except faults as fault:")
    source.line(2, f"raise encoding_error(schema, {version}, o, fault) from fault")
    source.line(1, "chunks.append(w)")
    source.line(1, "return chunks")
    return source.build("encode", f"encode {schema.name} v{version}")


# ---- called by the generated functions ------------------------------------------------------------


def uvarint(value: int) -> bytes:
    """Return the bytes of an unsigned varint."""
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def string_length(length: int) -> bytes:
    """Return the bytes of a compact string's length, plus one, for a length that takes more than one byte."""
    if length > STRING_MAX_BYTES:
        raise ValueError(f"a string of {length} bytes is longer than {STRING_MAX_BYTES}")
    return uvarint(length + 1)


def checked_uuid(value: bytes) -> bytes:
    """Return a UUID after checking its size, as the struct module silently truncates or pads another size."""
    if len(value) != UUID_BYTES:
        raise ValueError(f"a UUID has {UUID_BYTES} bytes, not {len(value)}")
    return value


def tagged_section(tags: Sequence[tuple[int, bytearray]]) -> bytearray:
    section = bytearray(uvarint(len(tags)))
    for tag, body in tags:
        section += uvarint(tag) + uvarint(len(body)) + body
    return section


def encoding_error(schema: Schema, version: int, value: object, fault: Exception) -> ValueError:
    """Return an error that names the field that cannot hold its value."""
    place = find_invalid_field(schema, version, value, schema.name) or str(fault)
    return ValueError(f"cannot encode {schema.name} version {version}: {place}")


def find_invalid_field(schema: Schema, version: int, value: object, path: str) -> str | None:
    """Return a description of the first field in `value` that cannot be encoded, or None."""
    for field in schema.plain_fields(version) + schema.tagged_fields(version):
        field_path = f"{path}.{field.name}"
        if not hasattr(value, field.name):
            return f"{path} must be a {schema.name}, not {value!r}"
        held = getattr(value, field.name)
        if held is None and field.is_nullable(version):
            continue
        if not field.is_array:
            held = [held]
        elif not isinstance(held, list | tuple):
            return f"{field_path} must be a list, not {held!r}"
        for index, one in enumerate(held):
            found = _find_invalid_value(
                field, version, one, f"{field_path}[{index}]" if field.is_array else field_path
            )
            if found is not None:
                return found
    return None


def _find_invalid_value(field: Field, version: int, value: object, field_path: str) -> str | None:
    if field.kind is Kind.STRUCT:
        assert field.of is not None
        return find_invalid_field(schema_of(field.of), version, value, field_path)
    try:
        if field.kind is Kind.STRING:
            assert isinstance(value, str)
            string_length(len(value.encode()))
        elif field.kind is Kind.UUID:
            assert isinstance(value, bytes)
            checked_uuid(value)
        elif is_fixed(field.kind):
            struct.pack(f">{field.kind.value}", value)
        elif field.kind is Kind.BYTES:
            assert isinstance(value, bytes | bytearray | memoryview)
        else:
            for buffer in value if isinstance(value, list | tuple) else [value]:
                assert isinstance(buffer, bytes | bytearray | memoryview)
    except (AssertionError, TypeError, ValueError, struct.error) as fault:
        return f"{field_path} is of kind {field.kind.name.lower()} and cannot hold {value!r:.100} ({fault})"
    return None


# ---- the writer ---------------------------------------------------------------------------------


class _EncoderWriter:
    """The writer of one function.

    Its local variables are `o`, the object; `w`, the bytearray; `chunks`, the finished buffers; and `n`, a
    length.
    """

    def __init__(self, schema: Schema, version: int) -> None:
        self.source = Source()
        self.version = version
        self.flexible = schema.is_flexible(version)

    def write_struct(self, depth: int, schema: Schema, owner: str) -> None:
        source = self.source
        tagged = schema.tagged_fields(self.version)
        run: list[Field] = []  # adjacent fields of fixed size, which are packed with one call
        for field in schema.plain_fields(self.version):
            if is_fixed(field.kind) and not field.is_array:
                run.append(field)
                continue
            self._write_run(depth, run, owner, "")
            self._write_field(depth, field, f"{owner}.{field.name}")
        if not self.flexible or tagged:
            self._write_run(depth, run, owner, "")
        elif run:
            self._write_run(depth, run, owner, "x")  # the pad byte is the empty tagged section
        else:
            source.line(depth, "w.append(0)")
        if self.flexible and tagged:
            self._write_tags(depth, tagged, owner)

    def _write_run(self, depth: int, run: list[Field], owner: str, padding: str) -> None:
        if not run:
            return
        pack = self.source.bind_packer("pack", "".join(field.kind.value for field in run) + padding)
        values = ", ".join(self._fixed_value(field.kind, f"{owner}.{field.name}") for field in run)
        self.source.line(depth, f"w += {pack}({values})")
        run.clear()

    def _fixed_value(self, kind: Kind, value: str) -> str:
        return f"checked_uuid({value})" if kind is Kind.UUID else value

    def _write_field(self, depth: int, field: Field, value: str) -> None:
        source = self.source
        held = source.variable()
        source.line(depth, f"{held} = {value}")
        nullable = field.is_nullable(self.version)
        if nullable:
            source.line(depth, f"if {held} is None:")
            source.line(depth + 1, self._null(field))
            source.line(depth, "else:")
            depth += 1
        if field.is_array:
            self._write_array(depth, field, held)
            return
        if field.kind is Kind.STRUCT and nullable:
            source.line(depth, "w.append(1)")
        self._write_one(depth, field, held)

    def _null(self, field: Field) -> str:
        if field.kind is Kind.STRUCT and not field.is_array:
            return f"w.append({0 if field.is_tagged(self.version) else 255})"
        if self.flexible:
            return "w.append(0)"
        length = b"\xff\xff" if field.kind is Kind.STRING and not field.is_array else b"\xff\xff\xff\xff"
        return f"w += {length!r}"

    def _write_array(self, depth: int, field: Field, held: str) -> None:
        source = self.source
        self._write_length(depth, f"len({held})")
        if is_number(field.kind):
            code = field.kind.value
            ready = source.bind_array_packers("pack", code)
            source.line(depth, f"if len({held}) <= {READY_LENGTHS}:")
            source.line(depth + 1, f"w += {ready}[len({held})](*{held})")
            source.line(depth, "else:")
            source.line(depth + 1, f"w += pack(f'>{{len({held})}}{code}', *{held})")
        else:
            element = source.variable()
            source.line(depth, f"for {element} in {held}:")
            self._write_one(depth + 1, field, element)

    def _write_one(self, depth: int, field: Field, held: str) -> None:
        """Generate code that encodes a value, or an element of an array, that is not None."""
        source = self.source
        if field.kind is Kind.STRUCT:
            assert field.of is not None
            self.write_struct(depth, schema_of(field.of), held)
        elif is_fixed(field.kind):
            pack = source.bind_packer("pack", field.kind.value)
            source.line(depth, f"w += {pack}({self._fixed_value(field.kind, held)})")
        elif field.kind is Kind.STRING:
            encoded = source.variable()
            source.line(depth, f"{encoded} = {held}.encode()")
            self._write_string_length(depth, f"len({encoded})")
            source.line(depth, f"w += {encoded}")
        elif field.kind is Kind.BYTES:
            self._write_length(depth, f"len({held})")
            source.line(depth, f"w += {held}")
        else:
            self._write_records(depth, held)

    def _write_records(self, depth: int, held: str) -> None:
        """Generate code that finishes the buffer, adds the records uncopied and begins a new buffer."""
        source = self.source
        several = source.variable()
        source.line(depth, f"{several} = type({held}) in sequences")
        self._write_length(depth, f"(sum(map(len, {held})) if {several} else len({held}))")
        source.line(depth, f"if {held}:")
        source.line(depth + 1, "chunks.append(w)")
        source.line(depth + 1, f"if {several}:")
        source.line(depth + 2, f"chunks += {held}")
        source.line(depth + 1, "else:")
        source.line(depth + 2, f"chunks.append({held})")
        source.line(depth + 1, "w = bytearray()")

    def _write_length(self, depth: int, length: str) -> None:
        """Generate code that encodes the length of bytes, records or an array, and leaves it in `n`."""
        source = self.source
        if self.flexible:
            source.line(depth, f"n = {length} + 1")
            source.line(depth, "if n < 128:")
            source.line(depth + 1, "w.append(n)")
            source.line(depth, "else:")
            source.line(depth + 1, "w += uvarint(n)")
        else:
            source.line(depth, f"n = {length}")
            source.line(depth, f"w += {source.bind_packer('pack', 'i')}(n)")

    def _write_string_length(self, depth: int, length: str) -> None:
        source = self.source
        if self.flexible:
            source.line(depth, f"n = {length}")
            source.line(depth, "if n < 127:")
            source.line(depth + 1, "w.append(n + 1)")
            source.line(depth, "else:")
            source.line(depth + 1, "w += string_length(n)")
        else:
            source.line(depth, f"w += {source.bind_packer('pack', 'h')}({length})")

    def _write_tags(self, depth: int, tagged: list[Field], owner: str) -> None:
        """Generate code that encodes the tagged fields that differ from their defaults (KIP-482)."""
        source = self.source
        conditions = [self._differs(field, f"{owner}.{field.name}") for field in tagged]
        tags, outer = source.variable(), source.variable()
        source.line(depth, f"if {' or '.join(conditions)}:")
        source.line(depth + 1, f"{tags} = []")
        source.line(depth + 1, f"{outer} = w")
        for field, condition in zip(tagged, conditions, strict=True):
            source.line(depth + 1, f"if {condition}:")
            source.line(depth + 2, "w = bytearray()")
            self._write_field(depth + 2, field, f"{owner}.{field.name}")
            source.line(depth + 2, f"{tags}.append(({field.tag}, w))")
        source.line(depth + 1, f"w = {outer}")
        source.line(depth + 1, f"w += tagged_section({tags})")
        source.line(depth, "else:")
        source.line(depth + 1, "w.append(0)")

    def _differs(self, field: Field, value: str) -> str:
        if field.default is None:
            return f"{value} is not None"
        if field.is_array:
            return f"({value} is None or {value})" if field.is_nullable(self.version) else value
        default = self.source.bind(f"default_{field.name}", field.default)
        if field.kind is Kind.STRUCT:  # usually it is the default object, and comparing structs is slow
            return f"({value} is not {default} and {value} != {default})"
        return f"{value} != {default}"
