"""Names of certificates, as Java writes them; `tests/compat/java/test_distinguished_names.py` asks Java."""

import ssl
from datetime import UTC, datetime

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256, HashAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from ottla.node.security.distinguished_name import (
    alternative_names,
    host_names,
    subject_name,
    validity,
    weakness,
)
from tests.unit.node.security.certificates_of_names import PRINTABLE, UTF8, certificate, der, oid

CN, O, OU, EMAIL = "2.5.4.3", "2.5.4.10", "2.5.4.11", "1.2.840.113549.1.9.1"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ([], ""),
        ([[(O, UTF8, b"Org")], [(OU, UTF8, b"Unit")], [(CN, UTF8, b"duke")]], "CN=duke,OU=Unit,O=Org"),
        ([[(CN, UTF8, b"a"), (OU, UTF8, b"b")], [(O, UTF8, b"c")]], "O=c,CN=a+OU=b"),
        ([[(CN, PRINTABLE, b"  a ")]], r"CN=\ \ a\ "),
        ([[(CN, UTF8, b"  ")]], r"CN=\ \ "),
        ([[(CN, UTF8, b',=+<>#;"\\')]], r"CN=\,\=\+\<\>\#\;\"\\"),
        ([[(CN, UTF8, b"a\0b")]], r"CN=a\00b"),
        ([[(CN, UTF8, "Jürgen 蜜".encode())]], "CN=Jürgen 蜜"),
        ([[(CN, 0x04, b"octets")]], "CN=#04066f6374657473"),
        ([[(EMAIL, 0x16, b"a@b")]], "1.2.840.113549.1.9.1=#1603614062"),
        ([[("2.999.3", UTF8, b"x")]], "2.999.3=#0c0178"),
        ([[(CN, UTF8, b"")]], "CN="),
    ],
)
def test_a_name_is_written_as_in_rfc_2253(name: list[list[tuple[str, int, bytes]]], text: str) -> None:
    assert subject_name(certificate(name)) == text


def test_alternative_names_are_found_among_the_extensions() -> None:
    names = [der(0x82, b"node-1"), der(0x87, bytes(4))]

    found = alternative_names(certificate([], alternative_names=names))

    assert found == frozenset(names)
    assert alternative_names(certificate([])) == frozenset()


def test_a_truncated_certificate_is_rejected() -> None:
    whole = certificate([[(CN, UTF8, b"duke")]], alternative_names=[der(0x82, b"host")])
    for end in range(len(whole)):
        with pytest.raises(ValueError):
            subject_name(whole[:end])


def test_a_changed_byte_causes_a_value_error_at_most() -> None:
    whole = bytearray(certificate([[(CN, UTF8, b"duke")]], alternative_names=[der(0x82, b"host")]))
    for position in range(len(whole)):
        for value in (0, 0x7F, 0x80, 0x84, 0xFF):
            changed = bytes(whole[:position]) + bytes([value]) + bytes(whole[position + 1 :])
            for read in (subject_name, alternative_names):
                try:
                    read(changed)
                except ValueError:
                    pass


def test_the_length_of_an_object_identifier_is_limited() -> None:
    long = der(0x30, der(0x06, b"\x81" * 300 + b"\x01") + der(UTF8, b"x"))

    with pytest.raises(ValueError, match="object identifier"):
        subject_name(certificate([], subject=der(0x31, long)))
    assert oid("2.5.4.3") == bytes.fromhex("0603550403")


def test_host_names_are_dns_names_addresses_and_the_common_name() -> None:
    names = [der(0x82, b"node-1"), der(0x87, bytes([10, 0, 0, 1])), der(0x87, bytes(15) + b"\1")]
    names.append(der(0x86, b"spiffe://one"))

    found = host_names(certificate([[(O, UTF8, b"Org")], [(CN, UTF8, b"one")]], alternative_names=names))

    assert found == {"node-1", "10.0.0.1", "::1", "one"}


def test_the_validity_is_read_in_both_notations_of_time() -> None:
    whole = certificate([[(CN, UTF8, b"duke")]])
    damaged = whole.replace(b"360101000000Z", b"36010100000xZ")

    assert validity(whole) == (datetime(2026, 1, 1, tzinfo=UTC), datetime(2036, 1, 1, tzinfo=UTC))
    with pytest.raises(ValueError, match="time data"):
        validity(damaged)
    assert validity(ca_certificate(datetime(2051, 2, 3, 4, 5, 6)))[1] == datetime(
        2051, 2, 3, 4, 5, 6, tzinfo=UTC
    )


def ca_certificate(until: datetime) -> bytes:
    issued = trustme.CA().issue_cert("host", not_after=until)
    return ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())


# ---- weak keys ---------------------------------------------------------------------------------------------

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def signed(key: Key, hashed: HashAlgorithm) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "node-0")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2027, 1, 1, tzinfo=UTC))
    )
    return made.sign(key, hashed).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("key", "hashed", "words"),
    [
        (rsa.generate_private_key(65_537, 1_024), SHA256(), "its RSA key has 1024 bits"),
        (rsa.generate_private_key(65_537, 2_048), SHA256(), ""),
        (ec.generate_private_key(ec.SECP224R1()), SHA256(), "its key is on the curve P-224"),
        (ec.generate_private_key(ec.SECP256R1()), SHA256(), ""),
        (ec.generate_private_key(ec.SECP384R1()), SHA256(), ""),
    ],
)
def test_weak_keys_and_signatures_are_found(key: Key, hashed: HashAlgorithm, words: str) -> None:
    found = weakness(signed(key, hashed))

    assert found.startswith(words) and bool(found) == bool(words)


def test_a_signature_with_sha_1_is_weak() -> None:
    whole = signed(rsa.generate_private_key(65_537, 2_048), SHA256())
    with_sha_1 = whole.replace(bytes.fromhex("2a864886f70d01010b"), bytes.fromhex("2a864886f70d010105"))

    assert weakness(with_sha_1) == "it is signed with SHA-1"


def test_the_weakness_of_a_truncated_certificate_is_a_value_error() -> None:
    whole = signed(ec.generate_private_key(ec.SECP256R1()), SHA256())
    for end in range(len(whole)):
        with pytest.raises(ValueError):
            weakness(whole[:end])
