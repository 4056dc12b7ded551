"""Passwords that were right, so that each request of a client does not cost thousands of hashes again.

Of a password a keyed hash is kept, under a key that this process has made, and beside it the credential that
it was right for: once that has changed, the password counts as never seen.
"""

import hmac
from collections import OrderedDict
from typing import Final, NamedTuple

from ottla.metadata_raft.image import ScramCredential

MAX_USERS: Final = 1_024  # the one that was longest unseen is forgotten first


class _Known(NamedTuple):
    """A password that was right."""

    credential: ScramCredential
    keyed: bytes


class KnownPasswords:
    """The last right password of each user; `key` is 32 bytes that nobody can guess."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._of: OrderedDict[str, _Known] = OrderedDict()

    def __len__(self) -> int:
        """Return of how many users a password is known."""
        return len(self._of)

    def is_right(self, user: str, password: str, credential: ScramCredential) -> bool:
        """Return whether the password is known to be right for this credential; False if it is not known."""
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
        """Remember a password that was right."""
        self._of[user] = _Known(credential, self._keyed(user, password))
        self._of.move_to_end(user)
        if len(self._of) > MAX_USERS:
            self._of.popitem(last=False)

    def _keyed(self, user: str, password: str) -> bytes:
        return hmac.digest(self._key, f"{user}\0{password}".encode("utf-8", "surrogatepass"), "sha256")
