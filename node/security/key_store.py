"""Keystores and truststores of a listener, read into PEM. It blocks, so it is never done on the loop."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from ottla.node.security import pem_store
from ottla.node.security.pem_store import MAX_STORE_BYTES, KeyPair, key_pair, unusable
from ottla.node.settings.security_settings import PKCS12, ListenerSecurity, StoreSettings

READER_SECONDS: Final = 60.0  # it takes 0.3 s, and hosts may be busy
_READER: Final = Path(__file__).with_name("pkcs12_reader.py")


class Stamp(NamedTuple):
    """Identifies the content of a file that was read: of the file itself, not of a link to it."""

    device: int
    inode: int
    modified_ns: int
    size: int


class Authorities(NamedTuple):
    """The certificates that a listener trusts."""

    source: str  # for messages
    pem: bytes


def read_key_pair(security: ListenerSecurity) -> KeyPair:
    """Read the private key and chain of a listener; INVALID_CONFIG, with the file, if that fails."""
    store = security.keystore
    if store.key is not None and store.certificates is not None:
        return key_pair(
            chain=store.certificates.encode(),
            key=store.key.encode(),
            key_password=store.key_password,
            source=f"ssl.keystore.key of the listener {security.listener}",
        )
    source = f"ssl.keystore.location {store.location} of the listener {security.listener}"
    pem = _read(store, source)
    # The output of the reader of PKCS12 is not encrypted.
    password = None if store.type == PKCS12 else store.key_password
    return key_pair(chain=pem, key=pem, key_password=password, source=source)


def read_authorities(security: ListenerSecurity) -> Authorities | None:
    """Read the certificates that a listener trusts, None if it trusts nobody's; INVALID_CONFIG as above."""
    store = security.truststore
    if store is None:
        return None
    if store.certificates is not None:
        source = f"ssl.truststore.certificates of the listener {security.listener}"
        return Authorities(source, store.certificates.encode())
    source = f"ssl.truststore.location {store.location} of the listener {security.listener}"
    return Authorities(source, _read(store, source))


def stamps_of(security: ListenerSecurity) -> tuple[Stamp | None, ...]:
    """Return a stamp for each file that holds a store of the listener, None for one that is not there."""
    stores = (security.keystore, security.truststore)
    return tuple(
        _stamp(store.location) for store in stores if store is not None and store.location is not None
    )


def _stamp(path: str) -> Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return Stamp(found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)


def _read(store: StoreSettings, source: str) -> bytes:
    """Return what a store file holds, as PEM."""
    assert store.location is not None, "the settings were checked"
    try:
        with Path(store.location).open("rb") as file:
            content = file.read(MAX_STORE_BYTES + 1)
    except OSError as error:
        raise unusable(source, pem_store.reason_of(error)) from None
    if len(content) > MAX_STORE_BYTES:
        raise unusable(source, f"it is larger than {MAX_STORE_BYTES} bytes")
    if content.startswith(bytes.fromhex("feedfeed")):
        converted = Path(store.location).with_suffix(".p12")
        raise unusable(
            source,
            "it is a JKS store, which only Java reads; convert it by: keytool -importkeystore -srckeystore "
            f"{store.location} -destkeystore {converted} -deststoretype PKCS12, and set the type PKCS12",
        )
    return _from_pkcs12(content, store.password or "", source) if store.type == PKCS12 else content


def _from_pkcs12(content: bytes, password: str, source: str) -> bytes:
    secret = password.encode()
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(_READER)],
            input=b"%d\n" % len(secret) + secret + content,
            capture_output=True,
            timeout=READER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise unusable(source, f"the reader of PKCS12 failed: {error}") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise unusable(source, said.rstrip(".") or "the reader of PKCS12 failed")
    return done.stdout
