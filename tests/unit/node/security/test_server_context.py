"""TLS contexts are made from the settings and stores of a listener; unusable ones are rejected by name."""

import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.security.principal_rules import PrincipalRules
from ottla.node.security.server_context import build_tls, principal_of
from ottla.node.settings.broker_settings import BROKER_CONFIG_DEF
from ottla.node.settings.listener_settings import Listener
from ottla.node.settings.security_settings import ListenerSecurity, listener_security
from ottla.node.tls.cipher_suites import OPENSSL_NAMES
from tests.unit.node.security.certificates_of_names import UTF8, certificate

PASSWORD = "a password"


class Stores:
    """Files with keys and certificates issued by one authority."""

    def __init__(self, home: Path) -> None:
        self.ca = trustme.CA()
        self.issued = self.ca.issue_cert("localhost", common_name="node")
        self.chain = b"".join(blob.bytes() for blob in self.issued.cert_chain_pems)
        self.key = self.issued.private_key_pem.bytes()
        self.home = home
        self.own = self.file("own.pem", self.key + self.chain)
        self.trusted = self.file("ca.pem", self.ca.cert_pem.bytes())

    def file(self, name: str, content: bytes) -> Path:
        path = self.home / name
        path.write_bytes(content)
        return path

    def encrypted(self) -> bytes:
        return load_pem_private_key(self.key, None).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(PASSWORD.encode())
        )

    def p12(self) -> Path:
        own, *others = x509.load_pem_x509_certificates(self.chain)
        key = load_pem_private_key(self.key, None)
        encryption = BestAvailableEncryption(PASSWORD.encode())
        store = pkcs12.serialize_key_and_certificates(b"k", key, own, others, encryption)  # type: ignore[arg-type]
        return self.file("own.p12", store)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    yield Stores(tmp_path_factory.mktemp("stores"))


def security(**texts: object) -> ListenerSecurity:
    values = BROKER_CONFIG_DEF.parse_all({name.replace("_", "."): str(one) for name, one in texts.items()})
    listener = Listener(name="SSL", host="", port=9093, security_protocol="SSL")
    return listener_security(listener, values, {})


def test_a_pem_file_may_have_key_and_chain_in_any_order(stores: Stores) -> None:
    reordered = stores.file("turned.pem", b"some words\n" + stores.chain + stores.key)

    built = [build_tls(security(ssl_keystore_location=one)) for one in (stores.own, reordered)]

    assert {one.certificate.subject.split(",")[0] for one in built} == {"CN=node"}
    assert all(len(one.certificate.alternative_names) == 1 for one in built)
    assert all(one.server.context.verify_mode is ssl.CERT_NONE for one in built)
    assert all(one.server.context.num_tickets == 0 for one in built)


def test_keys_in_settings_leave_no_open_file(stores: Stores) -> None:
    opened = len(list(Path("/proc/self/fd").iterdir()))

    built = build_tls(
        security(
            ssl_keystore_key=stores.encrypted().decode(),
            ssl_keystore_certificate_chain=stores.chain.decode(),
            ssl_key_password=PASSWORD,
            ssl_truststore_certificates=stores.ca.cert_pem.bytes().decode(),
            ssl_client_auth="required",
        )
    )

    assert built.server.context.verify_mode is ssl.CERT_REQUIRED
    assert len(list(Path("/proc/self/fd").iterdir())) == opened


@pytest.mark.parametrize(
    ("auth", "mode"),
    [("none", ssl.CERT_NONE), ("requested", ssl.CERT_OPTIONAL), ("required", ssl.CERT_REQUIRED)],
)
def test_clients_need_certificates_as_the_setting_says(
    stores: Stores, auth: str, mode: ssl.VerifyMode
) -> None:
    context = build_tls(
        security(
            ssl_keystore_location=stores.own, ssl_truststore_location=stores.trusted, ssl_client_auth=auth
        )
    ).server.context

    assert context.verify_mode is mode


def test_versions_and_suites_are_those_of_the_settings(stores: Stores) -> None:
    def context(**texts: str) -> ssl.SSLContext:
        return build_tls(security(ssl_keystore_location=stores.own, **texts)).server.context

    newest = context(ssl_enabled_protocols="TLSv1.3")
    older = context(ssl_cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384")

    assert newest.minimum_version is ssl.TLSVersion.TLSv1_3
    assert older.maximum_version is ssl.TLSVersion.TLSv1_2
    of_tls_1_2 = [one["name"] for one in older.get_ciphers() if one["protocol"] == "TLSv1.2"]
    assert of_tls_1_2 == ["ECDHE-ECDSA-AES256-GCM-SHA384"]


@pytest.mark.parametrize(
    ("suites", "message"),
    [
        ("TLS_NO_SUCH", "TLS_NO_SUCH is not supported"),
        ("TLS_AES_256_GCM_SHA384", "add TLS_CHACHA20_POLY1305_SHA256, TLS_AES_128_GCM_SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "no shared cipher"),  # the key is an elliptic-curve key
    ],
)
def test_unusable_suites_are_rejected(stores: Stores, suites: str, message: str) -> None:
    with pytest.raises(KafkaError) as refused:
        build_tls(security(ssl_keystore_location=stores.own, ssl_cipher_suites=suites))

    assert refused.value.code is ErrorCode.INVALID_CONFIG and message in refused.value.detail


def test_openssl_knows_each_suite_by_the_name_in_our_table() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for name in OPENSSL_NAMES.values():
        context.set_ciphers(f"{name}:@SECLEVEL=0")  # raises for an unknown name


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "one private key, but it has 0"),
        (b"{key}", "no certificate"),
        (b"{chain}", "one private key, but it has 0"),
        (b"{key}{key}{chain}", "one private key, but it has 2"),
        (b"{encrypted}{chain}", "set ssl.key.password"),
        (b"{key}{other}", "key values mismatch"),
        (bytes.fromhex("feedfeed00000002"), "keytool -importkeystore"),
        (b"{key}{chain}" + b" " * (1 << 20), "larger than"),
    ],
)
def test_an_unusable_store_is_rejected_with_its_path(stores: Stores, content: bytes, message: str) -> None:
    other = b"".join(blob.bytes() for blob in stores.ca.issue_cert("other").cert_chain_pems)
    for name, pem in {
        b"{key}": stores.key,
        b"{chain}": stores.chain,
        b"{encrypted}": stores.encrypted(),
        b"{other}": other,
    }.items():
        content = content.replace(name, pem)
    path = stores.file("bad.pem", content)

    with pytest.raises(KafkaError) as refused:
        build_tls(security(ssl_keystore_location=path))

    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert f"ssl.keystore.location {path} of the listener SSL" in refused.value.detail
    assert message in refused.value.detail


def test_a_wrong_password_and_a_missing_file_are_reported(stores: Stores) -> None:
    path = stores.file("encrypted.pem", stores.encrypted() + stores.chain)

    with pytest.raises(KafkaError, match=r"cannot be decrypted; check ssl[.]key[.]password"):
        build_tls(security(ssl_keystore_location=path, ssl_key_password="wrong"))
    with pytest.raises(KafkaError, match=r"nowhere[.]pem of the listener SSL cannot be used: No such file"):
        build_tls(security(ssl_keystore_location=stores.home / "nowhere.pem"))


@pytest.mark.slow
def test_pkcs12_is_read_by_another_process(stores: Stores) -> None:
    path = stores.p12()
    settings = {"ssl_keystore_type": "PKCS12", "ssl_keystore_location": path}

    built = build_tls(security(**settings, ssl_keystore_password=PASSWORD))

    assert built.certificate.subject.startswith("CN=node")
    with pytest.raises(KafkaError, match=r"own[.]p12 of the listener SSL cannot be used: Invalid password"):
        build_tls(security(**settings, ssl_keystore_password="wrong"))


@pytest.mark.slow
def test_no_terminal_is_asked_for_a_password(stores: Stores) -> None:
    """Run in a session without a terminal, where a password prompt of OpenSSL gives another error."""
    path = stores.file("asking.pem", stores.encrypted() + stores.chain)
    program = f"""
from tests.unit.node.security.test_server_context import security
from ottla.node.security.server_context import build_tls
build_tls(security(ssl_keystore_location={str(path)!r}))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[4],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert "set ssl.key.password" in done.stderr
    assert "Enter PEM pass phrase" not in done.stdout + done.stderr


def test_the_rules_map_the_name_to_a_principal() -> None:
    rules = PrincipalRules("RULE:^CN=(.*?),.*$/$1/U")
    shown = certificate([[("2.5.4.10", UTF8, b"Org")], [("2.5.4.3", UTF8, b"duke")]])

    assert principal_of(shown, rules) == "User:DUKE"
    assert principal_of(shown, PrincipalRules("DEFAULT")) == "User:CN=duke,O=Org"
    assert principal_of(None, rules) == "User:ANONYMOUS"
    with pytest.raises(PermissionError, match="no rule"):
        principal_of(certificate([[("2.5.4.3", UTF8, b"duke")]]), rules)
    with pytest.raises(PermissionError):
        principal_of(b"nonsense", rules)
