"""Makes credentials for users that do not exist, so that logins do not reveal which users do.

A SCRAM server sends the salt and the iterations of a user before the client has proven anything. Those of a
user that does not exist have a form that users of this cluster have: salts made by Kafka's tools are 130 bits
in base 36, salts made by ours 24 bytes, by librdkafka 64. The name determines the form, each with the
probability of its share of users, in such a way that a changed user moves few other names to another form.
A salt depends on the key and the name only, so it never changes, and nodes with the same key send the same
salts.
"""

import hashlib
import hmac
import math
import string
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, NamedTuple

from ottla.metadata_raft.image import ScramCredential, ScramKey
from ottla.metadata_raft.scram import MIN_ITERATIONS, SALT_BYTES, ScramMechanism, mechanism_of

KEY_BYTES: Final = 32
MAX_COUNTED: Final = 1_024  # credentials: enough to find the forms, in some milliseconds after a change
MAX_FORMS: Final = 8  # the most frequent ones; each costs a hash per login
_BASE_36: Final = (string.digits + string.ascii_lowercase).encode()
_BASE_62: Final = (string.digits + string.ascii_letters).encode()
_KAFKAS_NUMBER: Final = 1 << 130  # Java's BigInteger(130, random) in base 36
_KAFKAS_DIGITS: Final = range(20, 27)  # only one number in 36**6 has fewer than 20
# The alphabet of a salt is the first of these that has all its characters, or any bytes if none has.
_ALPHABETS: Final = (
    b"0123456789abcdef",
    b"0123456789ABCDEF",
    _BASE_36,
    _BASE_62,
    _BASE_62 + b"+/",
    _BASE_62 + b"-_",
    bytes(range(0x20, 0x7F)),
)
_ANY: Final = b""


class CredentialForm(NamedTuple):
    """The properties of a credential that a login reveals to any client.

    A length of 0 is a number in base 36. `padding` is the number of "=" after the characters of base64.
    """

    mechanism: ScramMechanism
    iterations: int
    alphabet: bytes
    length: int
    padding: int = 0


class FoundForms(NamedTuple):
    """The number of users with each form: by SCRAM mechanism, and by the mechanism that PLAIN logins use."""

    of_mechanism: Mapping[ScramMechanism, Mapping[CredentialForm, int]]
    of_passwords: Mapping[CredentialForm, int]


class FalseCredential(NamedTuple):
    """A credential that no password matches, and its mechanism."""

    mechanism: ScramMechanism
    credential: ScramCredential


def form_of(mechanism: ScramMechanism, credential: ScramCredential) -> CredentialForm:
    """Return the form of a credential."""
    salt, alphabet = credential.salt.rstrip(b"="), _ANY
    padding = len(credential.salt) - len(salt)
    if salt.isascii():
        alphabet = next((one for one in _ALPHABETS if not salt.translate(None, one)), _ANY)
    if alphabet == _ANY:
        return CredentialForm(mechanism, credential.iterations, _ANY, len(credential.salt))
    is_kafkas = alphabet == _BASE_36 and len(salt) in _KAFKAS_DIGITS and not padding
    return CredentialForm(mechanism, credential.iterations, alphabet, 0 if is_kafkas else len(salt), padding)


def find_forms(credentials: Mapping[ScramKey, ScramCredential]) -> FoundForms:
    """Count the forms of the first `MAX_COUNTED` credentials."""
    of_mechanism = {one: Counter[CredentialForm]() for one in ScramMechanism}
    of_passwords = Counter[CredentialForm]()
    for (user, number), credential in islice(credentials.items(), MAX_COUNTED):
        mechanism = mechanism_of(number)
        if mechanism is ScramMechanism.UNKNOWN:
            continue
        form = form_of(mechanism, credential)
        of_mechanism[mechanism][form] += 1
        strong = ScramMechanism.SCRAM_SHA_512
        if mechanism is strong or ScramKey(user, strong) not in credentials:
            of_passwords[form] += 1
    return FoundForms(
        {one: _most_frequent(found) for one, found in of_mechanism.items()}, _most_frequent(of_passwords)
    )


def _most_frequent(found: Counter[CredentialForm]) -> Mapping[CredentialForm, int]:
    ordered = sorted(found.items(), key=lambda one: (-one[1], one[0]))
    return dict(ordered[:MAX_FORMS])


class FalseCredentials:
    """Makes credentials of users that do not exist, with the cluster's secret `key`. Thread-safe."""

    def __init__(
        self, credentials: Callable[[], Mapping[ScramKey, ScramCredential]], *, key: bytes = b""
    ) -> None:
        """`credentials` returns those of the existing users, as a new mapping after each change."""
        self.key = key
        self._credentials = credentials
        self._counted: tuple[Mapping[ScramKey, ScramCredential], FoundForms] | None = None

    def use_key(self, key: bytes) -> None:
        """Derive salts from this key from now on. No client may log in before it is set."""
        self.key = key

    def of(self, user: str, mechanism: ScramMechanism) -> ScramCredential:
        """Return the credential to send in a SCRAM login of a user that does not exist."""
        found = self._forms().of_mechanism[mechanism]
        named = _short(user)
        return self._made(named, self._chosen(named, mechanism.name, found, mechanism))

    def of_password(self, user: str) -> FalseCredential:
        """Return the credential to check a password of a user that does not exist, in the usual time."""
        named = _short(user)
        form = self._chosen(named, "password", self._forms().of_passwords, ScramMechanism.SCRAM_SHA_512)
        return FalseCredential(form.mechanism, self._made(named, form))

    def _forms(self) -> FoundForms:
        credentials, counted = self._credentials(), self._counted
        if counted is None or counted[0] is not credentials:
            counted = self._counted = (credentials, find_forms(credentials))
        return counted[1]

    def _chosen(
        self, user: bytes, purpose: str, found: Mapping[CredentialForm, int], mechanism: ScramMechanism
    ) -> CredentialForm:
        """Choose a form for a name by rendezvous hashing, weighted by the number of users with each form."""
        if not found:
            return CredentialForm(mechanism, MIN_ITERATIONS, _ANY, SALT_BYTES)

        def score(form: CredentialForm) -> float:
            number = int.from_bytes(self._digest(f"form:{purpose}:{tuple(form)}", user)[:8])
            return math.log((number + 1) / (1 << 64)) / found[form]

        return max(found, key=score)

    def _made(self, user: bytes, form: CredentialForm) -> ScramCredential:
        nothing = bytes(form.mechanism.key_bytes)
        return ScramCredential(self._salt(user, form), nothing, nothing, form.iterations)

    def _salt(self, user: bytes, form: CredentialForm) -> bytes:
        length = form.length
        wanted = KEY_BYTES + (length if form.alphabet == _ANY else 2 * length)
        stream = bytearray()
        while len(stream) < wanted:
            stream += self._digest(f"salt:{form.mechanism.name}:{len(stream)}", user)
        if form.alphabet == _ANY:
            return bytes(stream[:length])
        number = int.from_bytes(stream)
        if not length:
            return _in_base_36(number % _KAFKAS_NUMBER)
        salt = bytearray()
        for _ in range(length):
            number, digit = divmod(number, len(form.alphabet))
            salt.append(form.alphabet[digit])
        return bytes(salt) + b"=" * form.padding

    def _digest(self, purpose: str, user: bytes) -> bytes:
        return hmac.digest(self.key, purpose.encode() + b":" + user, "sha256")


def _short(user: str) -> bytes:
    """Return a short digest of a name, which may have 64 KiB and is hashed many times."""
    return hashlib.sha256(user.encode("utf-8", "surrogatepass")).digest()


def _in_base_36(number: int) -> bytes:
    digits = bytearray()
    while number:
        number, digit = divmod(number, 36)
        digits.append(_BASE_36[digit])
    return bytes(digits)
