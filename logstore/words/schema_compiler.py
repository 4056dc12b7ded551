"""Compiles declarations into one flat encoder and one flat decoder for each version of each message.

Both are compiled at first use and kept; later uses cost a dict look-up. `decode` of a hostile buffer raises
KafkaError(INVALID_REQUEST), `encode` of a value that does not fit its field raises ValueError, and a version
that the message does not have raises KafkaError(UNSUPPORTED_VERSION) in both.
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
    """A function that decodes the message at a position and returns it with the position after it.

    Records are views of the buffer. `TooManyElements` if the arrays have more than `max_elements` in all.
    """

    def __call__(
        self, buffer: Buffer, position: int = 0, max_elements: int = MAX_ELEMENTS, /
    ) -> tuple[T_co, int]: ...


class Encoder(Protocol[T_contra]):
    """A function that encodes a message behind `writer` and returns its buffers.

    The first buffer is `writer`; records follow uncopied.
    """

    def __call__(self, value: T_contra, writer: bytearray, /) -> list[Buffer]: ...


_decoders: dict[tuple[type, int], Decoder[object]] = {}
_encoders: dict[tuple[type, int], Encoder[object]] = {}


def decoder(cls: type[T], version: int) -> Decoder[T]:
    """Return the function that decodes this version of a message."""
    known = _decoders.get((cls, version))
    if known is None:
        check_version(cls, version)
        known = _decoders[cls, version] = build_decoder(cls, version)
    return known  # type: ignore[return-value]


def encoder(cls: type[T], version: int) -> Encoder[T]:
    """Return the function that encodes this version of a message."""
    known = _encoders.get((cls, version))
    if known is None:
        check_version(cls, version)
        known = _encoders[cls, version] = build_encoder(cls, version)
    return known


def check_version(cls: type, version: int) -> None:
    """Raise KafkaError(UNSUPPORTED_VERSION) unless the message has this version."""
    schema = schema_of(cls)
    if not schema.min_version <= version <= schema.max_version:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"{schema.name} has the versions {schema.min_version} to {schema.max_version}, not {version}",
        )


def decode(cls: type[T], version: int, buffer: Buffer) -> T:
    """Return the message at the start of a buffer; ignore the bytes behind it."""
    value, _ = decoder(cls, version)(buffer, 0)
    return value


def encode(value: object, version: int) -> bytes:
    """Return the encoded message as one buffer."""
    return b"".join(encoder(type(value), version)(value, bytearray()))


def decode_versioned(cls: type[T], buffer: Buffer) -> T:
    """Decode a record that begins with its version (int16), as the values of `__consumer_offsets` do."""
    if len(buffer) < 2:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"malformed {cls.__name__}: it is too short for a version"
        )
    (version,) = struct.unpack_from(">h", buffer)
    value, _ = decoder(cls, version)(buffer, 2)
    return value


def encode_versioned(value: object, version: int) -> bytes:
    """Return the version (int16), followed by the encoded record."""
    return b"".join(encoder(type(value), version)(value, bytearray(struct.pack(">h", version))))
