"""A cache of correct passwords, so that a client's requests do not cost thousands of hashes each.

An entry holds a keyed hash of the password, with a key that this process has made, and the credential that it
was checked against: once the credential changes, the entry no longer counts.
"""

import hmac
from collections import OrderedDict
from typing import Final, NamedTuple

from ottla.metadata_raft.image import ScramCredential

MAX_USERS: Final = 1_024  # the one not seen for longest is dropped first


class _Known(NamedTuple):
    """A password that was correct."""

    credential: ScramCredential
    keyed: bytes


class KnownPasswords:
    """The last correct password of each user; `key` is 32 random bytes."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._of: OrderedDict[str, _Known] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of users with a known password."""
        return len(self._of)

    def is_right(self, user: str, password: str, credential: ScramCredential) -> bool:
        """Return True if the password is known to match this credential."""
        known = self._of.get(user)
        if known is None:
            return False
        if known.credential != credential:
            del self._of[user]
            return False
        if not hmac.compare_digest(known.keyed, self._keyed(user, password)):
            return False
        self._of.move_to_end(user)
        return True

    def add(self, user: str, password: str, credential: ScramCredential) -> None:
        """Remember a correct password."""
        self._of[user] = _Known(credential, self._keyed(user, password))
        self._of.move_to_end(user)
        if len(self._of) > MAX_USERS:
            self._of.popitem(last=False)

    def _keyed(self, user: str, password: str) -> bytes:
        return hmac.digest(self._key, f"{user}\0{password}".encode("utf-8", "surrogatepass"), "sha256")
