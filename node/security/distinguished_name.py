"""Reads certificates: the subject exactly as Java writes it, host names, validity and weaknesses.

Apache Kafka uses `X500Principal.getName()` (RFC 2253) as the name of a client that presents a certificate, so
the ACLs and `super.users` of existing clusters contain that text. Python's `ssl` omits the tags of attribute
values and unknown attributes, so this module parses the DER itself. OpenSSL has accepted the certificate
before; every length is checked nevertheless.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Final, NamedTuple

MAX_NAME_BYTES: Final = 64 * 1024  # of a subject; OpenSSL accepts 100 KiB for a whole certificate chain
# Registered object identifiers have about 10 bytes. Converting a very long part to decimal is expensive.
MAX_OID_BYTES: Final = 256

_SEQUENCE, _SET, _OID, _OCTETS, _BOOLEAN = 0x30, 0x31, 0x06, 0x04, 0x01
_VERSION, _EXTENSIONS = 0xA0, 0xA3
_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18
_DNS_NAME, _IP_ADDRESS = 0x82, 0x87
_INTEGER: Final = 0x02
MIN_RSA_BITS: Final = 2_048
MAX_MODULUS_BYTES: Final = 8 * 1024
_RSA: Final = bytes.fromhex("2a864886f70d010101")
_OLD_SIGNATURES: Final = {
    bytes.fromhex("2a864886f70d010104"): "MD5",
    bytes.fromhex("2a864886f70d010105"): "SHA-1",
    bytes.fromhex("2a8648ce3d0401"): "SHA-1",
}
_SMALL_CURVES: Final = {
    bytes.fromhex("2a8648ce3d030101"): "P-192",
    bytes.fromhex("2b81040021"): "P-224",
    bytes.fromhex("2b81040008"): "secp160r1",
}
_SUBJECT_ALT_NAME: Final = bytes.fromhex("551d11")
# RFC 2253 has short names for these attributes; the value of any other is written as its DER in hex.
_SHORT_NAMES: Final = {
    bytes.fromhex("550403"): "CN",
    bytes.fromhex("550406"): "C",
    bytes.fromhex("550407"): "L",
    bytes.fromhex("550408"): "ST",
    bytes.fromhex("550409"): "STREET",
    bytes.fromhex("55040a"): "O",
    bytes.fromhex("55040b"): "OU",
    bytes.fromhex("0992268993f22c640119"): "DC",
    bytes.fromhex("0992268993f22c640101"): "UID",
}
# PrintableString, T61String, IA5String, GeneralString, BMPString, UTF8String: Java decodes all as UTF-8.
_TEXTS: Final = frozenset({0x13, 0x14, 0x16, 0x1B, 0x1E, 0x0C})
_ESCAPED: Final = {ord(one): f"\\{one}" for one in ',=+<>#;"\\'} | {0: "\\00"}
_BLANKS: Final = " \r"


class _Element(NamedTuple):
    """A value in DER: its tag, its content, and its encoding with tag and length."""

    tag: int
    content: memoryview
    whole: memoryview


def subject_name(certificate: bytes) -> str:
    """Return the subject of a certificate (DER) as Java writes it; ValueError if it cannot be read."""
    subject = _subject(_parts(certificate))
    if len(subject) > MAX_NAME_BYTES:
        raise ValueError(f"the subject of the certificate is longer than {MAX_NAME_BYTES} bytes")
    names = ["+".join(map(_attribute, _elements(one.content))) for one in _elements(subject)]
    return ",".join(reversed(names))


def alternative_names(certificate: bytes) -> frozenset[bytes]:
    """Return the subject alternative names of a certificate (DER), each as its DER.

    ValueError if the certificate cannot be read.
    """
    extensions = next((one.content for one in _parts(certificate) if one.tag == _EXTENSIONS), None)
    if extensions is None:
        return frozenset()
    for extension in _elements(_only(extensions, _SEQUENCE)):
        parts = [one for one in _elements(extension.content) if one.tag != _BOOLEAN]
        if len(parts) == 2 and parts[0].content == _SUBJECT_ALT_NAME and parts[1].tag == _OCTETS:
            names = _elements(_only(parts[1].content, _SEQUENCE))
            return frozenset(bytes(one.whole) for one in names)
    return frozenset()


def host_names(
    certificate: bytes, *, of_common_name: Callable[[str], str] = lambda name: name
) -> frozenset[str]:
    """Return the host names and addresses in a certificate (DER), CN included.

    ValueError if it cannot be read. `of_common_name` maps a common name to the name of a host or a node.
    """
    names: set[str] = set()
    for name in alternative_names(certificate):
        (one,) = _elements(memoryview(name))
        if one.tag == _DNS_NAME:
            names.add(bytes(one.content).decode("ascii", "replace"))
        elif one.tag == _IP_ADDRESS and len(one.content) in (4, 16):
            names.add(str(ip_address(bytes(one.content))))
    for attributes in _elements(_subject(_parts(certificate))):
        for attribute in _elements(attributes.content):
            oid, value = _pair(attribute)
            if _SHORT_NAMES.get(bytes(oid)) == "CN" and value.tag in _TEXTS:
                names.add(of_common_name(bytes(value.content).decode("utf-8", "replace")))
    return frozenset(names)


def validity(certificate: bytes) -> tuple[datetime, datetime]:
    """Return the first and the last moment at which a certificate (DER) is valid.

    ValueError if it cannot be read.
    """
    parts = _parts(certificate)
    position = 4 if parts and parts[0].tag == _VERSION else 3
    if len(parts) <= position or parts[position].tag != _SEQUENCE:
        raise ValueError("the certificate has no validity period")
    since, until = map(_moment, _elements(parts[position].content))
    return since, until


def weakness(certificate: bytes) -> str:
    """Return the weakness of a certificate (DER), in words, or "" for none known.

    Weak are signatures with MD5 or SHA-1, RSA keys below `MIN_RSA_BITS`, and small curves. ValueError if the
    certificate cannot be read.
    """
    whole = list(_elements(_only(memoryview(certificate), _SEQUENCE)))
    if len(whole) < 2 or whole[1].tag != _SEQUENCE:
        raise ValueError("the certificate is damaged")
    hashed = _OLD_SIGNATURES.get(bytes(_only(whole[1].content, _OID)))
    if hashed is not None:
        return f"it is signed with {hashed}"
    parts = _parts(certificate)
    position = 6 if parts and parts[0].tag == _VERSION else 5
    if len(parts) <= position or parts[position].tag != _SEQUENCE:
        raise ValueError("the certificate has no key")
    found = list(_elements(parts[position].content))
    if len(found) != 2 or not found[1].content:
        raise ValueError("the key of the certificate is damaged")
    algorithm, key = found
    if bytes(_only(algorithm.content, _OID)) == _RSA:
        modulus = _only(_only(key.content[1:], _SEQUENCE), _INTEGER)
        bits = int.from_bytes(modulus[:MAX_MODULUS_BYTES], "big").bit_length()
        if bits < MIN_RSA_BITS:
            return f"its RSA key has {bits} bits, and should have at least {MIN_RSA_BITS}"
    elif (curve := _SMALL_CURVES.get(bytes([*_elements(algorithm.content)][-1].content))) is not None:
        return f"its key is on the curve {curve}, and should be on P-256 or a larger one"
    return ""


def _moment(element: _Element) -> datetime:
    text = bytes(element.content).decode("ascii", "replace")
    if element.tag == _UTC_TIME and len(text) == 13:  # UTCTime has two digits for the years from 1950 to 2049
        text = ("20" if text[:2] < "50" else "19") + text
    elif element.tag != _GENERALIZED_TIME:
        raise ValueError("the certificate has an unreadable time")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _parts(certificate: bytes) -> list[_Element]:
    """Return the elements of the signed part of a certificate (TBSCertificate)."""
    signed = next(_elements(_only(memoryview(certificate), _SEQUENCE)), None)
    if signed is None or signed.tag != _SEQUENCE:
        raise ValueError("the certificate is damaged")
    return list(_elements(signed.content))


def _subject(parts: list[_Element]) -> memoryview:
    """Return the subject, which follows version, serial number, algorithm, issuer and validity."""
    position = 5 if parts and parts[0].tag == _VERSION else 4
    if len(parts) <= position or parts[position].tag != _SEQUENCE:
        raise ValueError("the certificate has no subject")
    return parts[position].content


def _attribute(attribute: _Element) -> str:
    oid, value = _pair(attribute)
    short_name = _SHORT_NAMES.get(bytes(oid))
    if short_name is None:
        return f"{_dotted(oid)}=#{value.whole.hex()}"
    if value.tag not in _TEXTS:
        return f"{short_name}=#{value.whole.hex()}"
    return f"{short_name}={_escaped(bytes(value.content).decode('utf-8', 'replace'))}"


def _pair(attribute: _Element) -> tuple[memoryview, _Element]:
    parts = list(_elements(attribute.content))
    if len(parts) != 2 or parts[0].tag != _OID:
        raise ValueError("an attribute of the subject is damaged")
    return parts[0].content, parts[1]


def _escaped(text: str) -> str:
    escaped = text.translate(_ESCAPED)
    inner = escaped.strip(_BLANKS)
    if len(inner) == len(escaped):
        return escaped
    before = len(escaped) - len(escaped.lstrip(_BLANKS))
    leading, trailing = escaped[:before], escaped[before + len(inner) :]
    return "".join(f"\\{one}" for one in leading) + inner + "".join(f"\\{one}" for one in trailing)


def _dotted(oid: memoryview) -> str:
    """Return an object identifier in dotted notation."""
    if not oid or len(oid) > MAX_OID_BYTES or oid[-1] & 0x80:
        raise ValueError("an object identifier of the subject is damaged")
    numbers: list[int] = []
    number = 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _only(content: memoryview, tag: int) -> memoryview:
    """Return the content of the first element; ValueError if its tag is not this one."""
    found = next(_elements(content), None)
    if found is None or found.tag != tag:
        raise ValueError("the certificate is damaged")
    return found.content


def _elements(content: memoryview) -> Iterator[_Element]:
    """Yield the consecutive elements of some DER; ValueError if one is cut short or malformed."""
    position, end = 0, len(content)
    while position < end:
        start = position
        if end - position < 2:
            raise ValueError("the certificate is truncated")
        tag, size = content[position], content[position + 1]
        position += 2
        if tag & 0x1F == 0x1F:
            raise ValueError("the certificate has an unknown tag")
        if size >= 0x80:
            digits = size & 0x7F
            if not 1 <= digits <= 4 or end - position < digits:
                raise ValueError("the certificate has an invalid length")
            size = int.from_bytes(content[position : position + digits], "big")
            position += digits
        if size > end - position:
            raise ValueError("the certificate is truncated")
        position += size
        yield _Element(tag, content[position - size : position], content[start:position])
