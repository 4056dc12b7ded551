"""Turns declarations into functions: one flat encoder and one flat decoder for each version of each message.

They are compiled when first asked for and kept; asking again costs a dict look-up. `decode` of a hostile
buffer raises KafkaError(INVALID_REQUEST), `encode` of a value that does not fit its field raises
ValueError, and a version that the message does not have is KafkaError(UNSUPPORTED_VERSION) in both.
"""

import struct
from typing import Protocol, TypeVar

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer, schema_of
from ottla.logstore.words.schema_decode import MAX_ELEMENTS, build_decoder
from ottla.logstore.words.schema_encode import build_encoder

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)


class Decoder(Protocol[T_co]):
    """Reads the message at a position, returns it and the position behind it; records are views of the
    buffer. `TooManyElements` if its arrays have more than `max_elements` in all.
    """

    def __call__(
        self, buffer: Buffer, position: int = 0, max_elements: int = MAX_ELEMENTS, /
    ) -> tuple[T_co, int]: ...


class Encoder(Protocol[T_contra]):
    """Appends to `writer`; returns the buffers of the message: `writer` first, records uncopied."""

    def __call__(self, value: T_contra, writer: bytearray, /) -> list[Buffer]: ...


_decoders: dict[tuple[type, int], Decoder[object]] = {}
_encoders: dict[tuple[type, int], Encoder[object]] = {}


def decoder(cls: type[T], version: int) -> Decoder[T]:
    """The function that reads this version of a message."""
    known = _decoders.get((cls, version))
    if known is None:
        check_version(cls, version)
        known = _decoders[cls, version] = build_decoder(cls, version)
    return known  # type: ignore[return-value]


def encoder(cls: type[T], version: int) -> Encoder[T]:
    """The function that writes this version of a message."""
    known = _encoders.get((cls, version))
    if known is None:
        check_version(cls, version)
        known = _encoders[cls, version] = build_encoder(cls, version)
    return known


def check_version(cls: type, version: int) -> None:
    """KafkaError(UNSUPPORTED_VERSION) unless the message has this version."""
    schema = schema_of(cls)
    if not schema.min_version <= version <= schema.max_version:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"{schema.name} has the versions {schema.min_version} to {schema.max_version}, not {version}",
        )


def decode(cls: type[T], version: int, buffer: Buffer) -> T:
    """The message in a buffer; bytes behind it are ignored."""
    value, _ = decoder(cls, version)(buffer, 0)
    return value


def encode(value: object, version: int) -> bytes:
    """The message in one piece."""
    return b"".join(encoder(type(value), version)(value, bytearray()))


def decode_versioned(cls: type[T], buffer: Buffer) -> T:
    """A record that begins with its version (int16), as the values of `__consumer_offsets` do."""
    if len(buffer) < 2:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"malformed {cls.__name__}: no version in so few bytes")
    (version,) = struct.unpack_from(">h", buffer)
    value, _ = decoder(cls, version)(buffer, 2)
    return value


def encode_versioned(value: object, version: int) -> bytes:
    """The version (int16) and the record behind it."""
    return b"".join(encoder(type(value), version)(value, bytearray(struct.pack(">h", version))))
