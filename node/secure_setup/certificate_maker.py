"""A program that makes an authority (a CA) and certificates signed by it, as a JSON request asks for them.

It runs in a short-lived process of its own, since `cryptography` would occupy 10 MB of a node for good. Keys
pass through pipes, not through arguments or files that others could read. It imports none of our modules. The
request on standard input:

    {"authority": {"key": PEM, "certificate": PEM} or null, "authority_name": TEXT, "days": N,
     "authority_days": N, "wanted": [{"name": TEXT, "hosts": [TEXT, ...], "is_server": true}, ...]}

The answer on standard output: {"authority": {"key": PEM, "certificate": PEM}, "issued": [PEM of key and
certificate, ...]}. If the authority cannot be used, it prints a sentence to standard error and exits with 1.
"""

import ipaddress
import json
import sys
from datetime import UTC, datetime, timedelta

try:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    sys.exit("the package cryptography is missing: run `pip install cryptography`")

EARLIER = timedelta(minutes=10)  # certificates are valid from this long ago, since other clocks may be behind
MAX_COMMON_NAME = 64  # by X.520


def main() -> int:
    """Read the request, issue the certificates and write the answer; return the exit code."""
    request = json.load(sys.stdin.buffer)
    now = datetime.now(UTC).replace(microsecond=0)
    try:
        if request["authority"] is None:
            authority_key, authority = _authority(request["authority_name"], now, request["authority_days"])
        else:
            authority_key = _loaded_key(request["authority"]["key"])
            authority = x509.load_pem_x509_certificate(request["authority"]["certificate"].encode())
            if authority_key.public_key() != authority.public_key():
                raise ValueError(
                    "the key of the authority (ca.key) does not belong to its certificate (ca.pem)"
                )
    except (ValueError, TypeError) as error:
        print(error, file=sys.stderr)
        return 1
    until = min(now + timedelta(days=request["days"]), authority.not_valid_after_utc)
    if until <= now:
        print("the certificate of the authority (ca.pem) has expired", file=sys.stderr)
        return 1
    issued = [_issued(one, authority_key, authority, now, until) for one in request["wanted"]]
    answer = {
        "authority": {
            "key": _key_pem(authority_key),
            "certificate": authority.public_bytes(Encoding.PEM).decode(),
        },
        "issued": issued,
    }
    json.dump(answer, sys.stdout)
    return 0


def _loaded_key(pem: str) -> "ec.EllipticCurvePrivateKey":
    key = load_pem_private_key(pem.encode(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key of the authority (ca.key) is not an elliptic-curve key")
    return key


def _authority(name: str, now: datetime, days: int) -> "tuple[ec.EllipticCurvePrivateKey, x509.Certificate]":
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:MAX_COMMON_NAME])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, SHA256())
    )
    return key, certificate


def _issued(
    wanted: "dict[str, object]",
    authority_key: "ec.EllipticCurvePrivateKey",
    authority: "x509.Certificate",
    now: datetime,
    until: datetime,
) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name, hosts = str(wanted["name"]), wanted["hosts"]
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
    )
    if wanted["is_server"]:
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
    if isinstance(hosts, list) and hosts:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_general_name(str(host)) for host in hosts]), critical=False
        )
    certificate = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False).sign(
        authority_key, SHA256()
    )
    return _key_pem(key) + certificate.public_bytes(Encoding.PEM).decode()


def _general_name(host: str) -> "x509.GeneralName":
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs_certificates: bool) -> "x509.KeyUsage":
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: "ec.EllipticCurvePrivateKey") -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


if __name__ == "__main__":
    sys.exit(main())
