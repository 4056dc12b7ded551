"""`ottla.add.scram`: the first SCRAM users of a new cluster, in the notation of `kafka-storage format`.

    SCRAM-SHA-512=[name=anna,password=secret];SCRAM-SHA-256=[name="bert",saltedpassword="...",salt="..."]

Without a first user no client could log in to add users. If a password is given without a salt, the salt is
derived from the id of the cluster and a secret key: from the id alone, a client could compute the salts and
learn which users exist.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.records import UserScramCredentialRecord
from ottla.metadata_raft.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SALT_BYTES,
    SCRAM_MECHANISMS,
    ScramMechanism,
    keys_of,
)

ADD_SCRAM: Final = "ottla.add.scram"
MAX_FIRST_USERS: Final = 100  # each takes some 5 ms when the cluster is founded
_VALUE: Final = r'(?:"[^"]*"|[^",;\[\]]*)'
_USER: Final = re.compile(
    rf"\s*([A-Za-z0-9-]+)\s*=\s*\[((?:\s*[a-z]+\s*=\s*{_VALUE}\s*,?)*)\]\s*(?:[;,]|$)", re.ASCII
)
_OPTION: Final = re.compile(rf"\s*([a-z]+)\s*=\s*({_VALUE})\s*(?:,|$)", re.ASCII)
_OPTIONS: Final = ("name", "password", "salt", "saltedpassword", "iterations")


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstUser:
    """A user of a new cluster, with a password or a salted password."""

    name: str
    mechanism: ScramMechanism
    iterations: int
    password: str | None = field(repr=False)
    salted_password: bytes | None = field(repr=False)
    salt: bytes = b""

    def record(self, cluster_id: bytes, key: bytes) -> UserScramCredentialRecord:
        """Return the user's metadata record; a missing salt is derived from the key."""
        salt, salted, hash_name = self.salt, self.salted_password, self.mechanism.hash_name
        if not salt:
            named = b"first user:" + cluster_id + self.mechanism.name.encode() + self.name.encode()
            salt = hmac.digest(key, named, "sha256")[:SALT_BYTES]
        if salted is None:
            password = (self.password or "").encode()
            salted = hashlib.pbkdf2_hmac(hash_name, password, salt, self.iterations)
        keys = keys_of(self.mechanism, salted)
        return UserScramCredentialRecord(
            name=self.name,
            mechanism=self.mechanism,
            salt=salt,
            stored_key=keys.stored_key,
            server_key=keys.server_key,
            iterations=self.iterations,
        )


def first_records(
    users: Sequence[FirstUser], key: bytes, cluster_id: bytes
) -> list[UserScramCredentialRecord]:
    """Return the metadata records of the first users of a new cluster."""
    return [user.record(cluster_id, key) for user in users]


def parse_first_users(text: str | None) -> tuple[FirstUser, ...]:
    """Parse the setting; INVALID_CONFIG, whose message has no passwords, if it is not valid."""
    rest, users = (text or "").strip(), []
    while rest:
        match = _USER.match(rest)
        if match is None:
            raise _invalid("it must look like SCRAM-SHA-512=[name=NAME,password=PASSWORD].")
        rest = rest[match.end() :].strip()
        users.append(_user(match[1].upper(), match[2]))
    if len({(one.name, one.mechanism) for one in users}) != len(users):
        raise _invalid("it names a user twice.")
    if len(users) > MAX_FIRST_USERS:
        raise _invalid(f"it names more than {MAX_FIRST_USERS} users.")
    return tuple(users)


def _user(mechanism_name: str, text: str) -> FirstUser:
    mechanism = SCRAM_MECHANISMS.get(mechanism_name)
    if mechanism is None:
        raise _invalid(f"{mechanism_name[:40]} is not one of {', '.join(SCRAM_MECHANISMS)}.")
    options = {match[1]: match[2].strip().strip('"') for match in _OPTION.finditer(text)}
    unknown = next((one for one in options if one not in _OPTIONS), None)
    if unknown is not None:
        raise _invalid(f"a user has no {unknown[:40]}, only {', '.join(_OPTIONS)}.")
    name = options.get("name", "")
    if not name:
        raise _invalid("a user has no name.")
    iterations = options.get("iterations", str(MIN_ITERATIONS))
    if not iterations.isdecimal() or not MIN_ITERATIONS <= int(iterations[:9]) <= MAX_ITERATIONS:
        raise _invalid(f"the iterations of {name[:80]} must be {MIN_ITERATIONS} to {MAX_ITERATIONS}.")
    password, salted_text = options.get("password"), options.get("saltedpassword")
    if not password and not salted_text:
        raise _invalid(f"{name[:80]} needs a password or a saltedpassword.")
    if password and salted_text:
        raise _invalid(f"{name[:80]} has both a password and a saltedpassword.")
    if salted_text and not options.get("salt"):
        raise _invalid(f"{name[:80]} has a saltedpassword, so it also needs the salt.")
    salted = _bytes(name, "saltedpassword", salted_text) if salted_text else None
    if salted is not None and len(salted) != mechanism.key_bytes:
        raise _invalid(
            f"the saltedpassword of {name[:80]} must have {mechanism.key_bytes} bytes for {mechanism_name}."
        )
    return FirstUser(
        name=name,
        mechanism=mechanism,
        iterations=int(iterations),
        password=password,
        salted_password=salted,
        salt=_bytes(name, "salt", options.get("salt", "")),
    )


def _bytes(name: str, option: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise _invalid(f"the {option} of {name[:80]} is not base64.") from None


def _invalid(problem: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid configuration {ADD_SCRAM}: {problem}")
