"""The wait before the next password for a user is checked, after wrong ones.

For one user from one address some wrong passwords are free; each one after that doubles the wait. It does not
delay other addresses, so a stranger cannot lock a user out. Tries from many addresses together are bounded as
well: addresses from which a user has never logged in share a number of tries for that user, which is refilled
at a rate per second; they do not delay addresses from which the user has logged in. Pure: time is an
argument.
"""

import hashlib
from collections import OrderedDict
from typing import Final

FREE: Final = 5
FIRST_WAIT_S: Final = 1.0
MAX_WAIT_S: Final = 300.0
FORGOTTEN_AFTER_S: Final = 900.0
MAX_REMEMBERED: Final = 4_096  # pairs of user and address; the one that failed longest ago is dropped first
MAX_USER_CHARS: Final = 256  # of a user name that are remembered; names with equal beginnings count as one
UNKNOWN_ADDRESS_BURST: Final = 100  # tries for a user from all addresses from which it has not logged in
UNKNOWN_ADDRESS_PER_SECOND: Final = 1.0
# The counts for strangers are indexed by a keyed hash of the user's name. In a map by name, invented names
# would push out real ones; this way a flood of invented names has to use up every count, for which two
# threads of hashes are too slow.
UNKNOWN_ADDRESS_COUNTS: Final = 4_096
MAX_ADDRESSES_OF_USER: Final = 32  # from which it has logged in; the least recent is dropped first
MAX_USERS: Final = 4_096  # with known addresses


class _Failures:
    """The wrong passwords of one user from one address."""

    __slots__ = ("count", "last_s")

    def __init__(self, now_s: float) -> None:
        self.count = 0
        self.last_s = now_s


class LoginWaits:
    """The waits of all users and addresses; times are of one monotonic clock."""

    def __init__(self, key: bytes) -> None:
        """Start without waits; `key` is 16 to 64 random bytes."""
        self._key = key
        self._of: OrderedDict[tuple[str, str], _Failures] = OrderedDict()
        self._tries = [
            float(UNKNOWN_ADDRESS_BURST)
        ] * UNKNOWN_ADDRESS_COUNTS  # tries that strangers have left
        self._tried_s = [0.0] * UNKNOWN_ADDRESS_COUNTS
        self._addresses: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of pairs that are remembered."""
        return len(self._of)

    def wait_s(self, user: str, address: str, now_s: float) -> float:
        """Return the wait until the next password is checked, 0 for none."""
        return max(
            self._wait_of_pair_s(user, address, now_s), self._wait_of_unknown_address_s(user, address, now_s)
        )

    def waits_for_unknown_addresses(self, user: str, address: str, now_s: float) -> bool:
        """Return True if this address has to wait for the tries of all unknown addresses together."""
        return self._wait_of_unknown_address_s(user, address, now_s) > 0

    def _wait_of_pair_s(self, user: str, address: str, now_s: float) -> float:
        pair = user[:MAX_USER_CHARS], address
        found = self._of.get(pair)
        if found is None:
            return 0.0
        if now_s - found.last_s > FORGOTTEN_AFTER_S:
            del self._of[pair]
            return 0.0
        if found.count < FREE:
            return 0.0
        wait_s = min(FIRST_WAIT_S * 2.0 ** min(found.count - FREE, 30), MAX_WAIT_S)
        return max(0.0, found.last_s + wait_s - now_s)

    def _wait_of_unknown_address_s(self, user: str, address: str, now_s: float) -> float:
        if self._is_known(user, address):
            return 0.0
        return max(0.0, (1.0 - self._tries_left(self._index_of(user), now_s)) / UNKNOWN_ADDRESS_PER_SECOND)

    def begun(self, user: str, address: str, now_s: float) -> None:
        """Count a try before its password is checked, so that concurrent tries are limited like successive
        ones.
        """
        if not self._is_known(user, address):
            index = self._index_of(user)
            self._tries[index] = self._tries_left(index, now_s) - 1.0

    def release(self, user: str, address: str) -> None:
        """Give back a try whose password was not checked after all."""
        if not self._is_known(user, address):
            index = self._index_of(user)
            self._tries[index] = min(self._tries[index] + 1.0, UNKNOWN_ADDRESS_BURST)

    def failed(self, user: str, address: str, now_s: float) -> None:
        """Count a wrong password."""
        pair = user[:MAX_USER_CHARS], address
        found = self._of.setdefault(pair, _Failures(now_s))
        found.count += 1
        found.last_s = now_s
        self._of.move_to_end(pair)
        if len(self._of) > MAX_REMEMBERED:
            self._of.popitem(last=False)

    def succeeded(self, user: str, address: str) -> None:
        """Forget the wrong passwords for a user from an address that now gave the right one; the address is
        known.
        """
        name = user[:MAX_USER_CHARS]
        self._of.pop((name, address), None)
        self.release(user, address)
        known = self._addresses.setdefault(name, OrderedDict())
        known[address] = None
        known.move_to_end(address)
        self._addresses.move_to_end(name)
        if len(known) > MAX_ADDRESSES_OF_USER:
            known.popitem(last=False)
        if len(self._addresses) > MAX_USERS:
            self._addresses.popitem(last=False)

    def _is_known(self, user: str, address: str) -> bool:
        return address in self._addresses.get(user[:MAX_USER_CHARS], ())

    def _index_of(self, user: str) -> int:
        """Return the index of a user's count of strangers' tries."""
        name = user[:MAX_USER_CHARS].encode("utf-8", "surrogatepass")
        return (
            int.from_bytes(hashlib.blake2b(name, digest_size=4, key=self._key).digest())
            % UNKNOWN_ADDRESS_COUNTS
        )

    def _tries_left(self, index: int, now_s: float) -> float:
        gained = max(0.0, now_s - self._tried_s[index]) * UNKNOWN_ADDRESS_PER_SECOND
        self._tries[index] = min(self._tries[index] + gained, UNKNOWN_ADDRESS_BURST)
        self._tried_s[index] = now_s
        return self._tries[index]
