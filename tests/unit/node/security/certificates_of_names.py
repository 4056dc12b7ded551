"""Makes unsigned certificates with arbitrary names, in which all other fields are placeholders."""

from collections.abc import Sequence

UTF8, PRINTABLE = 0x0C, 0x13
Name = Sequence[Sequence[tuple[str, int, bytes]]]  # sets of attributes: object identifier, tag, content


def der(tag: int, content: bytes) -> bytes:
    """Return a value in DER."""
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(digits)]) + digits + content


def oid(dotted: str) -> bytes:
    """Return an object identifier in DER."""
    first, second, *others = map(int, dotted.split("."))
    encoded = b""
    for number in (first * 40 + second, *others):
        digits = [number & 0x7F]
        while number := number >> 7:
            digits.append(number & 0x7F | 0x80)
        encoded += bytes(reversed(digits))
    return der(0x06, encoded)


def name_der(name: Name) -> bytes:
    """Return a name in DER, with its attributes in the given order."""
    sets = [
        der(0x31, b"".join(der(0x30, oid(kind) + der(tag, content)) for kind, tag, content in attributes))
        for attributes in name
    ]
    return der(0x30, b"".join(sets))


def certificate(
    name: Name, *, subject: bytes | None = None, alternative_names: Sequence[bytes] | None = None
) -> bytes:
    """Return a certificate for a name; `subject` is the content of a name in DER, used instead if given."""
    algorithm = der(0x30, oid("1.2.840.10045.4.3.2"))
    parts = [
        der(0xA0, der(0x02, b"\x02")),
        der(0x02, b"\x01"),
        algorithm,
        name_der([[("2.5.4.3", UTF8, b"issuer")]]),
        der(0x30, der(0x17, b"260101000000Z") + der(0x17, b"360101000000Z")),
        name_der(name) if subject is None else der(0x30, subject),
        der(0x30, der(0x30, oid("1.2.840.10045.2.1")) + der(0x03, b"\0")),
    ]
    if alternative_names is not None:
        usage = der(0x30, oid("2.5.29.15") + der(0x01, b"\xff") + der(0x04, b"\x03\x02\x05\xa0"))
        names = der(0x30, oid("2.5.29.17") + der(0x04, der(0x30, b"".join(alternative_names))))
        parts.append(der(0xA3, der(0x30, usage + names)))
    return der(0x30, der(0x30, b"".join(parts)) + algorithm + der(0x03, b"\0"))
