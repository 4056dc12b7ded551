"""The client's side of SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), as Kafka's clients speak it.

    client  n,,n=USER,r=NONCE
    server  r=NONCE+THEIRS,s=SALT,i=ITERATIONS
    client  c=biws,r=NONCE+THEIRS,p=PROOF
    server  v=SIGNATURE

The server's signature proves that it knows the password, too; without it the login ends. A false server could
test a list of passwords against the proof, so few iterations are rejected, as in Kafka. So are very many,
which would only keep this client busy.
"""

import base64
import hashlib
import hmac
import re
from typing import Final

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 1_000_000  # half a second; Kafka's servers allow at most 16,384
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_GS2: Final = b"n,,"
_BASE64: Final = rb"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{2}==|[a-zA-Z0-9/+]{3}=)?"
_EXTENSIONS: Final = rb"(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+)*"
_FIRST: Final = re.compile(
    rb"(?:m=[^,]*,)?r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>"
    + _BASE64
    + rb"),i=(?P<iterations>[0-9]{1,10})"
    + _EXTENSIONS
)
_FINAL: Final = re.compile(
    rb"(?:e=(?P<error>[\x01-\x2b\x2d-\x7f]+)|v=(?P<signature>" + _BASE64 + rb"))" + _EXTENSIONS
)


class ServerRefusedError(Exception):
    """The client ends a login: the server's message is malformed or lacks a proof, or reports an error."""


class ScramClient:
    """One login: call `first`, then `respond` for each message of the server."""

    def __init__(self, mechanism: str, user: str, password: str, *, nonce: bytes) -> None:
        """Prepare a login. `nonce` must be new for each login, printable and without a comma."""
        self.is_complete = False
        self._hash = _HASHES[mechanism]
        self._user, self._password, self._nonce = user, password, nonce
        escaped = user.replace("=", "=3D").replace(",", "=2C").encode()
        self._bare = b"n=%b,r=%b" % (escaped, nonce)
        self._expected = b""  # the signature that proves the server

    def first(self) -> bytes:
        """Return the first message."""
        return _GS2 + self._bare

    def respond(self, token: bytes) -> bytes | None:
        """Return the next message, None after the last; ServerRefusedError if the server cannot be trusted.

        The first call derives keys from the password, which takes milliseconds.
        """
        if self._expected:
            self._check_signature(token)
            return None
        message = _FIRST.fullmatch(token)
        if message is None:
            raise ServerRefusedError("its first SCRAM message cannot be read")
        nonce, iterations = message["nonce"], int(message["iterations"])
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ServerRefusedError("its nonce does not begin with the client's nonce")
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise ServerRefusedError(
                f"it asks for {iterations} iterations; {MIN_ITERATIONS} to {MAX_ITERATIONS} are allowed"
            )
        return self._final(nonce, base64.b64decode(message["salt"]), iterations, token)

    def _final(self, nonce: bytes, salt: bytes, iterations: int, server_first: bytes) -> bytes:
        salted = hashlib.pbkdf2_hmac(self._hash, self._password.encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        stored_key = hashlib.new(self._hash, client_key).digest()
        without_proof = b"c=%b,r=%b" % (base64.b64encode(_GS2), nonce)
        covered = b",".join((self._bare, server_first, without_proof))
        signature = hmac.digest(stored_key, covered, self._hash)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._expected = hmac.digest(hmac.digest(salted, b"Server Key", self._hash), covered, self._hash)
        return without_proof + b",p=" + base64.b64encode(proof)

    def _check_signature(self, token: bytes) -> None:
        message = _FINAL.fullmatch(token)
        if message is None:
            raise ServerRefusedError("its last SCRAM message cannot be read")
        if message["error"] is not None:
            raise ServerRefusedError(f"it says {message['error'].decode('ascii', 'replace')}")
        if not hmac.compare_digest(base64.b64decode(message["signature"]), self._expected):
            raise ServerRefusedError(
                f"it cannot prove that it knows the password of {self._user}: it may not be the cluster "
                "that it claims to be"
            )
        self.is_complete = True
