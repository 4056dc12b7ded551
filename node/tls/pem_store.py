"""Keys and certificates as PEM in memory, and their loading into a context of `ssl`.

`ssl` reads a key from a file only. A key from a setting is passed in an anonymous file (`memfd_create`); a
key from a file, too, so that key and chain were read at the same moment. A password is always passed, even an
empty one: without it OpenSSL would ask on the terminal, and the node would hang.
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

MAX_STORE_BYTES: Final = 1 << 20  # all authorities of a system take a quarter of this
_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----\s*[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")
_BLOCK: Final = re.compile(rb"(-----BEGIN [^-]+-----)([A-Za-z0-9+/=\s]+)(-----END [^-]+-----)")
_LINE_CHARS: Final = 64
_KEY: Final = re.compile(rb"-----BEGIN ((?:[A-Z]+ )*PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A private key with its certificate chain."""

    source: str  # its source, for messages
    chain: bytes  # PEM, the own certificate first
    key: bytes = field(repr=False)  # PEM
    key_password: str | None = field(repr=False)

    @property
    def certificate(self) -> bytes:
        """The node's certificate, without its chain (DER)."""
        return ssl.PEM_cert_to_DER_cert(certificates_in(self.chain, self.source)[0].decode("ascii"))

    def load_into(self, context: ssl.SSLContext) -> None:
        """Load the key and its chain into a context; INVALID_CONFIG if OpenSSL rejects them."""
        with _nameless_file(self.chain) as chain, _nameless_file(self.key) as key:
            try:
                context.load_cert_chain(chain, key, password=self.key_password or "")
            except (OSError, ValueError) as error:  # ssl.SSLError is an OSError.
                raise unusable(self.source, self._reason(error)) from None

    def _reason(self, error: Exception) -> str:
        if b"ENCRYPTED" in self.key:
            if self.key_password is None:
                return "its private key is encrypted; set ssl.key.password"
            if "mismatch" not in str(error).lower():
                return "its private key cannot be decrypted; check ssl.key.password"
        return reason_of(error)


def certificates_in(pem: bytes, source: str) -> list[bytes]:
    """Return the certificates of a PEM in order; INVALID_CONFIG if there are none."""
    found = _CERTIFICATE.findall(pem)
    if not found:
        raise unusable(source, "it has no certificate (-----BEGIN CERTIFICATE-----)")
    return [_in_lines(one) for one in found]


def key_pair(*, chain: bytes, key: bytes, key_password: str | None, source: str) -> KeyPair:
    """Return the key pair of two PEMs, which may be equal.

    INVALID_CONFIG unless there is exactly one private key and at least one certificate. OpenSSL reads them
    only in `load_into`.
    """
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
    """Return a block of PEM split into lines; as in Java, a setting may have blanks for line breaks."""
    match = _BLOCK.fullmatch(block)
    if match is None or b"\n" in block:
        return block
    content = b"".join(match[2].split())
    lines = [content[at : at + _LINE_CHARS] for at in range(0, len(content), _LINE_CHARS)]
    return b"\n".join((match[1], *lines, match[3]))


def load_authorities(context: ssl.SSLContext, pem: bytes, source: str) -> None:
    """Make a context trust the certificates of a PEM; INVALID_CONFIG if one is not readable."""
    try:
        context.load_verify_locations(
            cadata=b"\n".join(certificates_in(pem, source)).decode("ascii", "replace")
        )
    except (OSError, ValueError) as error:
        raise unusable(source, reason_of(error)) from None


def unusable(source: str, reason: str) -> KafkaError:
    """Return the error for an unusable key or unusable certificates."""
    return KafkaError(ErrorCode.INVALID_CONFIG, f"{source} cannot be used: {reason}.")


def reason_of(error: Exception) -> str:
    """Return OpenSSL's reason for an error, without numbers and source locations."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    if isinstance(error, OSError) and error.strerror:
        return re.sub(r"\s*\(_ssl\.c:\d+\)", "", error.strerror)
    return str(error)


@contextmanager
def _nameless_file(content: bytes) -> Iterator[str]:
    """Yield the path of an anonymous file with this content."""
    try:
        descriptor = os.memfd_create("ottla-key", os.MFD_CLOEXEC)
    except (AttributeError, OSError):  # systems other than Linux
        with tempfile.NamedTemporaryFile(prefix="ottla-key-") as file:  # readable only by its owner
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
