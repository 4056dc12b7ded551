"""Keys and certificates as PEM in memory, and how they come into a context of `ssl`.

`ssl` reads a key from a file only. Those of a setting are handed over in a file that has no name and lies in
no file system (`memfd_create`); those of a file, too, so that key and chain are of one moment. A password is
always given, even an empty one: without one OpenSSL would ask for it on the terminal, and a node would hang
there.
"""

import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError

MAX_STORE_BYTES: Final = 1 << 20  # all authorities of a system take a quarter of that
_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----\s*[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")
_BLOCK: Final = re.compile(rb"(-----BEGIN [^-]+-----)([A-Za-z0-9+/=\s]+)(-----END [^-]+-----)")
_LINE_CHARS: Final = 64
_KEY: Final = re.compile(rb"-----BEGIN ((?:[A-Z]+ )*PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A private key with its certificate chain."""

    source: str  # for messages: where it comes from
    chain: bytes  # PEM, the own certificate first
    key: bytes = field(repr=False)  # PEM
    key_password: str | None = field(repr=False)

    @property
    def certificate(self) -> bytes:
        """The certificate itself (DER)."""
        return ssl.PEM_cert_to_DER_cert(certificates_in(self.chain, self.source)[0].decode("ascii"))

    def load_into(self, context: ssl.SSLContext) -> None:
        """Give a context this key; INVALID_CONFIG if OpenSSL does not take it."""
        with _nameless_file(self.chain) as chain, _nameless_file(self.key) as key:
            try:
                context.load_cert_chain(chain, key, password=self.key_password or "")
            except (OSError, ValueError) as error:  # Python's errors of TLS are such, too.
                raise unusable(self.source, self._reason(error)) from None

    def _reason(self, error: Exception) -> str:
        if b"ENCRYPTED" in self.key:
            if self.key_password is None:
                return "its private key is encrypted; set ssl.key.password"
            if "mismatch" not in str(error).lower():
                return "its private key cannot be decrypted; check ssl.key.password"
        return reason_of(error)


def certificates_in(pem: bytes, source: str) -> list[bytes]:
    """Return the certificates of a PEM, in their order; INVALID_CONFIG if there is none."""
    found = _CERTIFICATE.findall(pem)
    if not found:
        raise unusable(source, "it has no certificate (-----BEGIN CERTIFICATE-----)")
    return [_in_lines(one) for one in found]


def key_pair(*, chain: bytes, key: bytes, key_password: str | None, source: str) -> KeyPair:
    """Return the key pair of two PEMs, which may be the same; INVALID_CONFIG for what is none."""
    keys = [match[0] for match in _KEY.finditer(key)]
    if len(keys) != 1:
        raise unusable(source, f"it must have one private key, but it has {len(keys)}")
    certificates = certificates_in(chain, source)
    return KeyPair(
        source=source,
        chain=b"\n".join(certificates) + b"\n",
        key=_in_lines(keys[0]) + b"\n",
        key_password=key_password,
    )


def _in_lines(block: bytes) -> bytes:
    """Return a block of PEM in lines: Java takes one with blanks in their place, as a setting may have it."""
    match = _BLOCK.fullmatch(block)
    if match is None or b"\n" in block:
        return block
    content = b"".join(match[2].split())
    lines = [content[at : at + _LINE_CHARS] for at in range(0, len(content), _LINE_CHARS)]
    return b"\n".join((match[1], *lines, match[3]))


def load_authorities(context: ssl.SSLContext, pem: bytes, source: str) -> None:
    """Let a context trust the certificates of a PEM; INVALID_CONFIG if one cannot be read."""
    try:
        context.load_verify_locations(
            cadata=b"\n".join(certificates_in(pem, source)).decode("ascii", "replace")
        )
    except (OSError, ValueError) as error:
        raise unusable(source, reason_of(error)) from None


def unusable(source: str, reason: str) -> KafkaError:
    """Return the error for a key or certificates that cannot be used."""
    return KafkaError(ErrorCode.INVALID_CONFIG, f"{source} cannot be used: {reason}.")


def reason_of(error: Exception) -> str:
    """Return what OpenSSL says of an error, without its numbers and places in its sources."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    if isinstance(error, OSError) and error.strerror:
        return re.sub(r"\s*\(_ssl\.c:\d+\)", "", error.strerror)
    return str(error)


@contextmanager
def _nameless_file(content: bytes) -> Iterator[str]:
    """Give the path of a file with this content that nobody else finds, until the end of the block."""
    try:
        descriptor = os.memfd_create("ottla-key", os.MFD_CLOEXEC)
    except (AttributeError, OSError):  # of other systems than Linux
        with tempfile.NamedTemporaryFile(prefix="ottla-key-") as file:  # only its owner may read it
            file.write(content)
            file.flush()
            yield file.name
        return
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
