"""The notation in which every message and record of Kafka's wire format is declared.

One class holds all versions of a struct. A field function (`int32`, `string`, `array` ...) says how a field
looks on the wire and in which versions it is there; the decorators `struct` and `message` turn such a class
into a plain one that is constructed by keyword, compared by value and never changed once built (mypy holds
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

Versions are those of the message that the struct stands in. A field with `tag` lives in the tagged section
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

LATEST = 2**15 - 1  # versions are int16: "and all that follow"
ZERO_UUID = bytes(16)  # "no topic id", "no directory id"
SECRET = "(secret)"  # in place of what is shown nowhere
# The ends of the names of settings whose values are secrets, of whatever listener or mechanism.
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
    """The type of a field on the wire; the value of a fixed-size one is its code in the struct module."""

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
    """One field of a struct: its type, the versions it is there in, and its default."""

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
    name: str = ""  # given by the decorator
    is_secret: bool = False  # its value is shown nowhere

    def is_in(self, version: int) -> bool:
        return self.since <= version <= self.until

    def is_tagged(self, version: int) -> bool:
        return self.tag is not None and version >= self.tagged_since

    def is_nullable(self, version: int) -> bool:
        return self.nullable_since is not None and self.nullable_since <= version <= self.nullable_until


class Schema(NamedTuple):
    """What is declared about a class: its fields in wire order and, for a message, its versions."""

    name: str
    fields: tuple[Field, ...]
    api_key: int | None = None
    min_version: int = 0
    max_version: int = LATEST
    flexible_since: int | None = None

    def is_flexible(self, version: int) -> bool:
        return self.flexible_since is not None and version >= self.flexible_since

    def plain_fields(self, version: int) -> list[Field]:
        """The fields outside the tagged section, in wire order."""
        return [field for field in self.fields if field.is_in(version) and not field.is_tagged(version)]

    def tagged_fields(self, version: int) -> list[Field]:
        """The fields of the tagged section, in the order of their tags."""
        tagged = [field for field in self.fields if field.is_in(version) and field.is_tagged(version)]
        return sorted(tagged, key=lambda field: cast(int, field.tag))


def schema_of(cls: type) -> Schema:
    """The declaration of a class that `struct` or `message` decorated; TypeError for any other."""
    schema = cls.__dict__.get("__schema__")
    if not isinstance(schema, Schema):
        raise TypeError(f"{cls.__name__} is neither a struct nor a message of the wire format")
    return schema


# ---- classes -------------------------------------------------------------------------------------


@dataclass_transform(kw_only_default=True, frozen_default=True)
def struct(cls: type[T]) -> type[T]:
    """Make a class body of field functions a struct that messages can hold."""
    return _declare(cls, Schema(cls.__name__, _fields_of(cls)))


@dataclass_transform(kw_only_default=True, frozen_default=True)
def message(
    *, versions: tuple[int, int], api_key: int | None = None, flexible_since: int | None = None
) -> Callable[[type[T]], type[T]]:
    """Make a class body of field functions a message (or record) with the versions `(first, last)`.

    `flexible_since` is the first version with compact lengths and tagged sections (KIP-482), None if never.
    """

    def decorate(cls: type[T]) -> type[T]:
        schema = Schema(cls.__name__, _fields_of(cls), api_key, versions[0], versions[1], flexible_since)
        return _declare(cls, schema)

    return decorate


def replace(original: T, **changes: object) -> T:
    """A copy of a struct or message with some fields changed."""
    return type(original)(**{**vars(original), **changes})


def _fields_of(cls: type) -> tuple[Field, ...]:
    fields = tuple(value._replace(name=name) for name, value in vars(cls).items() if isinstance(value, Field))
    for field in fields:
        # The compiler writes these names into source, so they must be plain names; a class body sees to it.
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


# `Any` below: these become methods of every declared class, whose attributes only its own annotations know.
def _init(self: Any, **fields: object) -> None:
    if not self.__names__.issuperset(fields):
        unknown = sorted(fields.keys() - self.__names__)
        raise TypeError(f"{type(self).__name__} has no field {', '.join(unknown)}")
    self.__dict__ = fields  # a dict that the call made, and nobody else has


def _repr(self: Any) -> str:
    words = (
        f"{name}={SECRET if is_secret(self, name) else repr(value)}" for name, value in vars(self).items()
    )
    return f"{type(self).__name__}({', '.join(words)})"


def is_secret(owner: Any, name: str) -> bool:
    """Return whether the value of a field is shown nowhere: it is a secret, or that of a secret setting."""
    if name in owner.__secrets__:
        return True
    if name != "value" or "name" not in owner.__names__:
        return False
    setting = owner.name
    return isinstance(setting, str) and setting.lower().endswith(SECRET_SETTINGS)


def _eq(self: Any, other: Any) -> bool:
    if type(self) is not type(other):
        return False
    for name in self.__names__:  # no generator: encoders compare with defaults
        one, another = getattr(self, name), getattr(other, name)
        if one is not another and not _equal(one, another):
            return False
    return True


def _equal(one: object, other: object) -> bool:
    """Equality in which a list equals a tuple: decoding makes either, as is faster."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    return one == other


# ---- fields --------------------------------------------------------------------------------------
# Each function is typed as the value that the attribute will hold, so that mypy checks annotation and
# default. None of them stands in `field_specifiers` of the decorators: mypy then takes each for a default
# value, and every field may be left out.


class Versions(TypedDict, total=False):
    """Where a field is: versions `since` to `until`; with `tag`, tagged from `tagged_since` (or `since`)."""

    since: int
    until: int
    tag: int
    tagged_since: int


class NullableVersions(Versions):
    """The same for a field that may be None in the versions `nullable_since` to `nullable_until`."""

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
    """A UUID as its 16 bytes."""
    return cast(bytes, _field(Kind.UUID, default, versions))


@overload
def string(*, default: str = "", **versions: Unpack[Versions]) -> str: ...
@overload
def string(*, default: str | None = "", **versions: Unpack[NullableVersions]) -> str | None: ...
def string(*, default: str | None = "", **versions: int) -> Any:
    """UTF-8 text of at most 32,767 bytes."""
    return _field(Kind.STRING, default, versions)


@overload
def bytes_(*, default: bytes = b"", **versions: Unpack[Versions]) -> bytes: ...
@overload
def bytes_(*, default: bytes | None = b"", **versions: Unpack[NullableVersions]) -> bytes | None: ...
def bytes_(*, default: bytes | None = b"", **versions: int) -> Any:
    """Bytes that mean nothing to the wire; decoding copies them out of the frame."""
    return _field(Kind.BYTES, default, versions)


def secret(**versions: Unpack[Versions]) -> bytes:
    """Bytes that are shown nowhere: they prove who somebody is, or hold what does."""
    return cast(bytes, _field(Kind.BYTES, b"", versions, is_secret=True))


@overload
def records(*, default: bytes = b"", **versions: Unpack[Versions]) -> Buffer: ...
@overload
def records(*, default: bytes | None = b"", **versions: Unpack[NullableVersions]) -> Buffer | None: ...
def records(*, default: bytes | None = b"", **versions: int) -> Any:
    """Record batches: a memoryview of the frame when decoded, `Records` when encoded."""
    return _field(Kind.RECORDS, default, versions)


@overload
def struct_(of: type[T], **versions: Unpack[Versions]) -> T: ...
@overload
def struct_(of: type[T], *, default: None = ..., **versions: Unpack[NullableVersions]) -> T | None: ...
def struct_(of: type[T], *, default: object = ..., **versions: int) -> Any:
    """One struct; the default is a struct with all its defaults, or None where that is stated."""
    return _field(Kind.STRUCT, of() if default is ... else default, versions, of=of)


@overload
def array(of: Callable[..., T], **versions: Unpack[Versions]) -> Sequence[T]: ...
@overload
def array(
    of: Callable[..., T], *, default: Sequence[T] | None = (), **versions: Unpack[NullableVersions]
) -> Sequence[T] | None: ...
def array(of: Callable[..., Any], *, default: object = (), **versions: int) -> Any:
    """Any number of a struct class or of what a field function stands for: `array(Voter)`, `array(int32)`."""
    if isinstance(of, type):
        return _field(Kind.STRUCT, default, versions, of=of, is_array=True)
    return _field(of().kind, default, versions, is_array=True)
