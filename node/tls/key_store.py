"""Reads keystores and truststores into PEM. Every function may block, so the loop calls none."""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from ottla.node.tls import pem_store
from ottla.node.tls.pem_store import MAX_STORE_BYTES, KeyPair, key_pair, unusable
from ottla.node.tls.store_settings import PKCS12, StoreSettings

READER_SECONDS: Final = 60.0  # takes 0.3 s on an idle host
_READER: Final = Path(__file__).with_name("pkcs12_reader.py")


class Stamp(NamedTuple):
    """The state of a file, by which a later change is noticed; links are followed."""

    device: int
    inode: int
    modified_ns: int
    changed_ns: int  # of the content or the attributes, such as owner and permissions
    size: int


class Authorities(NamedTuple):
    """The certificates that a server or a client trusts."""

    source: str  # for messages
    pem: bytes


def read_key_pair(store: StoreSettings, owner: str = "") -> KeyPair:
    """Read a private key and its chain; INVALID_CONFIG, with the file, if that fails.

    `owner` is their owner in messages, such as "of the listener SSL".
    """
    if store.key is not None and store.certificates is not None:
        return key_pair(
            chain=store.certificates.encode(),
            key=store.key.encode(),
            key_password=store.key_password,
            source=f"ssl.keystore.key {owner}".rstrip(),
        )
    source = f"ssl.keystore.location {store.location} {owner}".rstrip()
    pem = _read(store, source)
    # PEM converted from PKCS12 is not encrypted.
    password = None if store.type == PKCS12 else store.key_password
    return key_pair(chain=pem, key=pem, key_password=password, source=source)


def read_authorities(store: StoreSettings, owner: str = "") -> Authorities:
    """Read the certificates of a truststore; INVALID_CONFIG, with the file, if that fails."""
    if store.certificates is not None:
        return Authorities(f"ssl.truststore.certificates {owner}".rstrip(), store.certificates.encode())
    source = f"ssl.truststore.location {store.location} {owner}".rstrip()
    return Authorities(source, _read(store, source))


def stamps_of(stores: Iterable[StoreSettings | None]) -> tuple[Stamp | None, ...]:
    """Return a stamp for each file of the stores, None for a missing file.

    Stores that are given by settings have no file, and are left out.
    """
    return tuple(
        _stamp(store.location) for store in stores if store is not None and store.location is not None
    )


def _stamp(path: str) -> Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return Stamp(found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)


def _read(store: StoreSettings, source: str) -> bytes:
    """Return the content of a store file as PEM."""
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
        message = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise unusable(source, message.rstrip(".") or "the reader of PKCS12 failed")
    return done.stdout
