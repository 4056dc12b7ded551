"""The notation in which every message and record of Kafka's wire format is declared.

One class holds all versions of a struct. A field function (`int32`, `string`, `array` ...) declares the type
of a field on the wire and the versions that have it; the decorators `struct` and `message` turn such a class
into a plain one whose objects are constructed by keyword, compared by value and immutable (mypy enforces
that, not the runtime). A field that was left out, or that a version does not have, reads as its default.

    @struct
    class FetchTopic:
        topic: str = schema.string(until=12)
        topic_id: bytes = schema.uuid(since=13)
        partitions: Sequence[FetchPartition] = schema.array(FetchPartition)

    @message(api_key=1, versions=(4, 18), flexible_since=12)
    class FetchRequest:
        topics: Sequence[FetchTopic] = schema.array(FetchTopic)
        cluster_id: str | None = schema.string(tag=0, since=12, nullable_since=12, default=None)

Versions are those of the message that contains the struct. A field with `tag` is in the tagged section
(KIP-482). Nothing here reads or writes bytes: `schema_compiler` does.
"""

import keyword
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import (
    Any,
    NamedTuple,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    dataclass_transform,
    overload,
)

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview
# Record batches: decoding gives one view into the frame; encoding takes one buffer or several, uncopied.
Records = Buffer | Sequence[Buffer]

LATEST = 2**15 - 1  # the largest int16, for "and all later versions"
ZERO_UUID = bytes(16)  # "no topic id", "no directory id"
SECRET = "(secret)"  # printed in place of a secret value
# The ends of the names of settings whose values are secrets, for any listener or mechanism.
SECRET_SETTINGS = (
    "password",
    "secret",
    "jaas.config",
    "keystore.key",
    "keystore.certificate.chain",
    "truststore.certificates",  # no secret, but of Kafka's type PASSWORD, too
    "add.scram",
)


class Kind(Enum):
    """The type of a field on the wire; the value of a fixed-size type is its code in the struct module."""

    BOOLEAN = "?"
    INT8 = "b"
    INT16 = "h"
    UINT16 = "H"
    INT32 = "i"
    UINT32 = "I"
    INT64 = "q"
    FLOAT64 = "d"
    UUID = "16s"
    STRING = "string"
    BYTES = "bytes"
    RECORDS = "records"
    STRUCT = "struct"


class Field(NamedTuple):
    """A field of a struct: its type, the versions that have it, and its default."""

    kind: Kind
    default: object
    since: int
    until: int = LATEST
    nullable_since: int | None = None
    nullable_until: int = LATEST
    tag: int | None = None
    tagged_since: int = 0
    of: type | None = None  # the class of a STRUCT
    is_array: bool = False
    name: str = ""  # set by the decorator
    is_secret: bool = False  # its value is never printed

    def is_in(self, version: int) -> bool:
        return self.since <= version <= self.until

    def is_tagged(self, version: int) -> bool:
        return self.tag is not None and version >= self.tagged_since

    def is_nullable(self, version: int) -> bool:
        return self.nullable_since is not None and self.nullable_since <= version <= self.nullable_until


class Schema(NamedTuple):
    """The declaration of a class: its fields in wire order and, for a message, its versions."""

    name: str
    fields: tuple[Field, ...]
    api_key: int | None = None
    min_version: int = 0
    max_version: int = LATEST
    flexible_since: int | None = None

    def is_flexible(self, version: int) -> bool:
        return self.flexible_since is not None and version >= self.flexible_since

    def plain_fields(self, version: int) -> list[Field]:
        """Return the fields outside the tagged section, in wire order."""
        return [field for field in self.fields if field.is_in(version) and not field.is_tagged(version)]

    def tagged_fields(self, version: int) -> list[Field]:
        """Return the fields of the tagged section, in the order of their tags."""
        tagged = [field for field in self.fields if field.is_in(version) and field.is_tagged(version)]
        return sorted(tagged, key=lambda field: cast(int, field.tag))


def schema_of(cls: type) -> Schema:
    """Return the declaration of a class that `struct` or `message` decorated; TypeError for any other."""
    schema = cls.__dict__.get("__schema__")
    if not isinstance(schema, Schema):
        raise TypeError(f"{cls.__name__} is neither a struct nor a message of the wire format")
    return schema


# ---- classes -------------------------------------------------------------------------------------


@dataclass_transform(kw_only_default=True, frozen_default=True)
def struct(cls: type[T]) -> type[T]:
    """Turn a class of field functions into a struct that messages can contain."""
    return _declare(cls, Schema(cls.__name__, _fields_of(cls)))


@dataclass_transform(kw_only_default=True, frozen_default=True)
def message(
    *, versions: tuple[int, int], api_key: int | None = None, flexible_since: int | None = None
) -> Callable[[type[T]], type[T]]:
    """Turn a class of field functions into a message (or record) with the versions `(first, last)`.

    `flexible_since` is the first version with compact lengths and tagged sections (KIP-482), or None.
    """

    def decorate(cls: type[T]) -> type[T]:
        schema = Schema(cls.__name__, _fields_of(cls), api_key, versions[0], versions[1], flexible_since)
        return _declare(cls, schema)

    return decorate


def replace(original: T, **changes: object) -> T:
    """Return a copy of a struct or message with some fields changed."""
    return type(original)(**{**vars(original), **changes})


def _fields_of(cls: type) -> tuple[Field, ...]:
    fields = tuple(value._replace(name=name) for name, value in vars(cls).items() if isinstance(value, Field))
    for field in fields:
        # The compiler writes these names into source. A class body admits identifiers only; this asserts it.
        assert field.name.isidentifier() and not keyword.iskeyword(field.name), field.name
    return fields


def _declare(cls: type[T], schema: Schema) -> type[T]:
    for field in schema.fields:
        setattr(cls, field.name, field.default)
    members: dict[str, object] = {
        "__schema__": schema,
        "__names__": frozenset(field.name for field in schema.fields),
        "__secrets__": frozenset(field.name for field in schema.fields if field.is_secret),
        "__init__": _init,
        "__repr__": _repr,
        "__eq__": _eq,
        "__hash__": None,
    }
    for name, value in members.items():
        setattr(cls, name, value)
    return cls


# `Any` below: these become methods of every declared class, and each class has other attributes.
def _init(self: Any, **fields: object) -> None:
    if not self.__names__.issuperset(fields):
        unknown = sorted(fields.keys() - self.__names__)
        raise TypeError(f"{type(self).__name__} has no field {', '.join(unknown)}")
    self.__dict__ = fields  # the call made this dict, so no other object shares it


def _repr(self: Any) -> str:
    words = (
        f"{name}={SECRET if is_secret(self, name) else repr(value)}" for name, value in vars(self).items()
    )
    return f"{type(self).__name__}({', '.join(words)})"


def is_secret(owner: Any, name: str) -> bool:
    """Return True if a field's value must not be printed: it is secret, or that of a secret setting."""
    if name in owner.__secrets__:
        return True
    if name != "value" or "name" not in owner.__names__:
        return False
    setting = owner.name
    return isinstance(setting, str) and setting.lower().endswith(SECRET_SETTINGS)


def _eq(self: Any, other: Any) -> bool:
    if type(self) is not type(other):
        return False
    for name in self.__names__:  # a loop is faster than a generator, and encoders compare with defaults
        one, another = getattr(self, name), getattr(other, name)
        if one is not another and not _equal(one, another):
            return False
    return True


def _equal(one: object, other: object) -> bool:
    """Compare two values; a list equals a tuple, as decoding makes whichever is faster."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    return one == other


# ---- fields --------------------------------------------------------------------------------------
# Each function is typed as the value that the attribute will hold, so that mypy checks annotation and
# default. None of them is listed in `field_specifiers` of the decorators: so mypy takes each for a default
# value, and every field may be left out.


class Versions(TypedDict, total=False):
    """The versions of a field: `since` to `until`; with `tag`, tagged from `tagged_since` (or `since`) on."""

    since: int
    until: int
    tag: int
    tagged_since: int


class NullableVersions(Versions):
    """The versions of a field that may be None in those from `nullable_since` to `nullable_until`."""

    nullable_since: Required[int]
    nullable_until: NotRequired[int]


def _field(kind: Kind, default: object, versions: Mapping[str, object], **more: Any) -> Any:
    since = versions.get("since", 0)
    keywords: dict[str, Any] = {"since": since, "tagged_since": since, **versions, **more}
    return Field(kind, default, **keywords)


def boolean(*, default: bool = False, **versions: Unpack[Versions]) -> bool:
    return cast(bool, _field(Kind.BOOLEAN, default, versions))


def int8(*, default: int = 0, **versions: Unpack[Versions]) -> int:
    return cast(int, _field(Kind.INT8, default, versions))


def int16(*, default: int = 0, **versions: Unpack[Versions]) -> int:
    return cast(int, _field(Kind.INT16, default, versions))


def uint16(*, default: int = 0, **versions: Unpack[Versions]) -> int:
    return cast(int, _field(Kind.UINT16, default, versions))


def int32(*, default: int = 0, **versions: Unpack[Versions]) -> int:
    return cast(int, _field(Kind.INT32, default, versions))


def uint32(*, default: int = 0, **versions: Unpack[Versions]) -> int:
    return cast(int, _field(Kind.UINT32, default, versions))


def int64(*, default: int = 0, **versions: Unpack[Versions]) -> int:
    return cast(int, _field(Kind.INT64, default, versions))


def float64(*, default: float = 0.0, **versions: Unpack[Versions]) -> float:
    return cast(float, _field(Kind.FLOAT64, default, versions))


def uuid(*, default: bytes = ZERO_UUID, **versions: Unpack[Versions]) -> bytes:
    """Declare a UUID, held as its 16 bytes."""
    return cast(bytes, _field(Kind.UUID, default, versions))


@overload
def string(*, default: str = "", **versions: Unpack[Versions]) -> str: ...
@overload
def string(*, default: str | None = "", **versions: Unpack[NullableVersions]) -> str | None: ...
def string(*, default: str | None = "", **versions: int) -> Any:
    """Declare a UTF-8 text of at most 32,767 bytes."""
    return _field(Kind.STRING, default, versions)


@overload
def bytes_(*, default: bytes = b"", **versions: Unpack[Versions]) -> bytes: ...
@overload
def bytes_(*, default: bytes | None = b"", **versions: Unpack[NullableVersions]) -> bytes | None: ...
def bytes_(*, default: bytes | None = b"", **versions: int) -> Any:
    """Declare opaque bytes; decoding copies them out of the frame."""
    return _field(Kind.BYTES, default, versions)


def secret(**versions: Unpack[Versions]) -> bytes:
    """Declare bytes that are never printed: a credential, or bytes that contain one."""
    return cast(bytes, _field(Kind.BYTES, b"", versions, is_secret=True))


@overload
def records(*, default: bytes = b"", **versions: Unpack[Versions]) -> Buffer: ...
@overload
def records(*, default: bytes | None = b"", **versions: Unpack[NullableVersions]) -> Buffer | None: ...
def records(*, default: bytes | None = b"", **versions: int) -> Any:
    """Declare record batches: a memoryview of the frame when decoded, `Records` when encoded."""
    return _field(Kind.RECORDS, default, versions)


@overload
def struct_(of: type[T], **versions: Unpack[Versions]) -> T: ...
@overload
def struct_(of: type[T], *, default: None = ..., **versions: Unpack[NullableVersions]) -> T | None: ...
def struct_(of: type[T], *, default: object = ..., **versions: int) -> Any:
    """Declare a struct; its default is a struct of defaults, or None if `default=None` is given."""
    return _field(Kind.STRUCT, of() if default is ... else default, versions, of=of)


@overload
def array(of: Callable[..., T], **versions: Unpack[Versions]) -> Sequence[T]: ...
@overload
def array(
    of: Callable[..., T], *, default: Sequence[T] | None = (), **versions: Unpack[NullableVersions]
) -> Sequence[T] | None: ...
def array(of: Callable[..., Any], *, default: object = (), **versions: int) -> Any:
    """Declare an array of a struct class or of a field function's type: `array(Voter)`, `array(int32)`."""
    if isinstance(of, type):
        return _field(Kind.STRUCT, default, versions, of=of, is_array=True)
    return _field(of().kind, default, versions, is_array=True)
