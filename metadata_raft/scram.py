"""SCRAM mechanisms (RFC 5802, RFC 7677), and the keys that verify a password."""

import hashlib
import hmac
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

# With fewer, passwords are too easy to guess; more take too long for each client that connects. Kafka's
# limits.
MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384
SALT_BYTES: Final = 24  # of salts that Ottla generates


class ScramMechanism(IntEnum):
    """The SASL mechanism of a credential, numbered as in requests and records (int8)."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def hash_name(self) -> str:
        """The name of its hash function in `hashlib`."""
        return f"sha{self.name.rpartition('_')[2]}"

    @property
    def key_bytes(self) -> int:
        """The length of its salted passwords and keys, in bytes."""
        return hashlib.new(self.hash_name).digest_size


# By the names that clients use, which are IANA's.
SCRAM_MECHANISMS: Final[Mapping[str, ScramMechanism]] = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}


class ScramKeys(NamedTuple):
    """The stored keys of a password. They verify a login, but do not suffice to log in."""

    stored_key: bytes
    server_key: bytes


def mechanism_of(number: int) -> ScramMechanism:
    """Return the mechanism of a number, or UNKNOWN if this release does not know the number."""
    try:
        return ScramMechanism(number)
    except ValueError:
        return ScramMechanism.UNKNOWN


def keys_of(mechanism: ScramMechanism, salted_password: bytes) -> ScramKeys:
    """Return the keys of a salted password, which is itself as secret as the password."""
    name = mechanism.hash_name
    client_key = hmac.digest(salted_password, b"Client Key", name)
    return ScramKeys(
        hashlib.new(name, client_key).digest(), hmac.digest(salted_password, b"Server Key", name)
    )
