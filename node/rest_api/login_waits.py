"""How long somebody has to wait who has tried wrong passwords for one user from one address.

Some are free; after that each wrong one makes the wait twice as long. Nobody at another address has to wait
for it, so a stranger cannot lock a user out. Pure: time is an argument.
"""

from collections import OrderedDict
from typing import Final

FREE: Final = 5
FIRST_WAIT_S: Final = 1.0
MAX_WAIT_S: Final = 300.0
FORGOTTEN_AFTER_S: Final = 900.0
MAX_REMEMBERED: Final = 4_096  # pairs of user and address; the one that failed longest ago goes first
MAX_USER_CHARS: Final = 256  # of a name that is remembered; longer ones count as one


class _Failures:
    """The wrong passwords of one user from one address."""

    __slots__ = ("count", "last_s")

    def __init__(self, now_s: float) -> None:
        self.count = 0
        self.last_s = now_s


class LoginWaits:
    """The waits of all users and addresses; times are those of one monotonic clock."""

    def __init__(self) -> None:
        self._of: OrderedDict[tuple[str, str], _Failures] = OrderedDict()

    def __len__(self) -> int:
        """Return how many pairs are remembered."""
        return len(self._of)

    def wait_s(self, user: str, address: str, now_s: float) -> float:
        """Return how long to wait before the next password is looked at; 0 for not at all."""
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
        """Forget the wrong passwords of somebody who has found the right one."""
        self._of.pop((user[:MAX_USER_CHARS], address), None)
