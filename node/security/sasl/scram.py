"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), as Kafka's ScramSaslServer speaks them.

    client  n,[a=AUTHZID],n=USER,r=NONCE                the gs2 header "n,[a=AUTHZID]," and the bare message
    server  r=NONCE+OURS,s=SALT,i=ITERATIONS
    client  c=BASE64(gs2 header),r=NONCE+OURS,p=PROOF   the last message without proof, and the proof
    server  v=SIGNATURE

For a user that does not exist the server sends a salt, too, which never changes, and the login fails at the
end, so the exchange does not reveal which users exist (`false_credentials`). Unlike Kafka, it compares
the gs2 header of the last message with that of the first.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final

from ottla.metadata_raft.image import ScramCredential
from ottla.metadata_raft.scram import ScramMechanism
from ottla.node.security.sasl.sasl_error import OTHER_AUTHORIZATION_ID, SaslError

_NAME: Final = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"  # "," and "=" are escaped
_VALUE: Final = rb"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE: Final = rb"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = rb"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{2}==|[a-zA-Z0-9/+]{3}=)?"
_EXTENSIONS: Final = rb"(?:,[A-Za-z]+=" + _VALUE + rb")*"
_FIRST: Final = re.compile(
    rb"(?P<gs2>n,(?:a=(?P<authzid>" + _NAME + rb"))?,)"
    rb"(?P<bare>(?:m=" + _VALUE + rb",)?n=(?P<user>" + _NAME + rb"),r=(?P<nonce>" + _PRINTABLE + rb")"
    rb"(?P<extensions>" + _EXTENSIONS + rb"))"
)
_FINAL: Final = re.compile(
    rb"(?P<without_proof>c=(?P<channel>"
    + _BASE64
    + rb"),r=(?P<nonce>"
    + _PRINTABLE
    + rb")"
    + _EXTENSIONS
    + rb")"
    rb",p=(?P<proof>" + _BASE64 + rb")"
)
# Kafka 3 accepted it.
_NONCE_TWICE: Final = (
    "the client sends its nonce twice, as librdkafka before 2.6.1 does, which Apache Kafka 4 rejects, too; "
    "use a newer one, or PLAIN over TLS"
)
_IS_TOKEN: Final = b",tokenauth=true"  # a login with a delegation token, which is not supported


class ScramExchange:
    """One authentication: two messages of the client, and an answer to each.

    `credential_of` returns the credential of a user, or None if it does not exist; `false_credential_of`
    returns one to send for such a user. `nonce` is the server's part, printable and without a comma.
    """

    is_slow = False  # five hashes of short texts
    expires_ms: int | None = None

    def __init__(
        self,
        mechanism: ScramMechanism,
        credential_of: Callable[[str], ScramCredential | None],
        false_credential_of: Callable[[str], ScramCredential],
        *,
        nonce: bytes,
    ) -> None:
        self.user = ""  # set by the first message, but proven only once `is_complete`
        self.is_complete = False
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._false_credential_of = false_credential_of
        self._our_nonce = nonce
        self._nonce = b""
        self._gs2 = b""
        self._until_final = b""  # the messages before the client's last, as covered by the proof
        self._credential: ScramCredential | None = None

    def respond(self, token: bytes) -> bytes:
        """Return the answer to the client's next message; SaslError if the authentication fails."""
        if self.is_complete:
            raise SaslError("the client sent a message after the login had ended")
        return self._final(token) if self._nonce else self._first(token)

    def _first(self, token: bytes) -> bytes:
        message = _FIRST.fullmatch(token)
        if message is None:
            raise SaslError("the first SCRAM message cannot be read")
        if _IS_TOKEN in message["extensions"]:
            raise SaslError("delegation tokens are not supported")
        user = _unescaped(message["user"])
        if message["authzid"] is not None and _unescaped(message["authzid"]) != user:
            raise SaslError(
                "the authorization id is not the user",
                message=OTHER_AUTHORIZATION_ID,
            )
        self.user, self._gs2 = user, message["gs2"]
        credential = self._credential = self._credential_of(user)
        shown = self._false_credential_of(user)  # also for existing users, so that both take the same time
        if credential is not None:
            shown = credential
        self._nonce = message["nonce"] + self._our_nonce
        answer = b"r=%b,s=%b,i=%d" % (self._nonce, base64.b64encode(shown.salt), shown.iterations)
        self._until_final = message["bare"] + b"," + answer
        return answer

    def _final(self, token: bytes) -> bytes:
        message = _FINAL.fullmatch(token)
        if message is None:
            raise SaslError("the last SCRAM message cannot be read")
        if not hmac.compare_digest(message["nonce"], self._nonce):
            if message["nonce"].endswith(self._nonce):
                raise SaslError(_NONCE_TWICE)
            raise SaslError("the nonce of the last SCRAM message is not that of this login")
        if message["channel"] != base64.b64encode(self._gs2):
            raise SaslError("the gs2 header of the last SCRAM message is not that of the first")
        name = self._mechanism.hash_name
        credential, proof = self._credential, base64.b64decode(message["proof"])
        stored_key = bytes(self._mechanism.key_bytes) if credential is None else credential.stored_key
        covered = self._until_final + b"," + message["without_proof"]
        signature = hmac.digest(stored_key, covered, name)
        if len(proof) != len(signature):
            raise SaslError("the SCRAM proof has a wrong length")
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        is_right = hmac.compare_digest(hashlib.new(name, client_key).digest(), stored_key)
        if credential is None or not is_right:
            raise SaslError("wrong user or password")
        self.is_complete = True
        return b"v=" + base64.b64encode(hmac.digest(credential.server_key, covered, name))


def _unescaped(name: bytes) -> str:
    return name.replace(b"=2C", b",").replace(b"=3D", b"=").decode()
