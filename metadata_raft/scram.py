"""SCRAM mechanisms (RFC 5802, RFC 7677), and the keys by which a password is checked."""

import hashlib
import hmac
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

# Fewer are too easy to try through, more take too long for each client that connects. Kafka's numbers.
MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384
SALT_BYTES: Final = 24  # of salts that are made here


class ScramMechanism(IntEnum):
    """The SASL mechanism that a credential is for, as requests and records number it (int8)."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def hash_name(self) -> str:
        """The hash function under its name in `hashlib`."""
        return f"sha{self.name.rpartition('_')[2]}"

    @property
    def key_bytes(self) -> int:
        """The length of its salted passwords and keys."""
        return hashlib.new(self.hash_name).digest_size


# By the names under which clients ask for them (IANA's).
SCRAM_MECHANISMS: Final[Mapping[str, ScramMechanism]] = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}


class ScramKeys(NamedTuple):
    """The keys that are kept of a password. They check a login, and nobody can log in with them."""

    stored_key: bytes
    server_key: bytes


def mechanism_of(number: int) -> ScramMechanism:
    """Return the mechanism of a number, UNKNOWN for one that this release does not know."""
    try:
        return ScramMechanism(number)
    except ValueError:
        return ScramMechanism.UNKNOWN


def keys_of(mechanism: ScramMechanism, salted_password: bytes) -> ScramKeys:
    """Return the keys of a salted password, which itself is as good as the password."""
    name = mechanism.hash_name
    client_key = hmac.digest(salted_password, b"Client Key", name)
    return ScramKeys(
        hashlib.new(name, client_key).digest(), hmac.digest(salted_password, b"Server Key", name)
    )
