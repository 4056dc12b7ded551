"""Limits the passwords that are tried from one address: of IPv6, from the 64 bits of network of one host.

Each address may fail `BURST` times at once, and `PER_SECOND` times a second after that. Beyond that its
failures are answered later and later; and when so many would wait that one takes `MAX_DELAY_S`, its logins
are not looked at any more until it has calmed down. Logins that succeed never wait.
"""

import logging
import threading
from collections import OrderedDict
from typing import Final

from ottla.node.net.connection_info import network_of

BURST: Final = 100
PER_SECOND: Final = 10
MAX_DELAY_S: Final = 10.0
MAX_ADDRESSES: Final = 4_096  # that are remembered; the oldest is forgotten first
LOG_PAUSE_S: Final = 60.0

log = logging.getLogger(__name__)


class _Failures:
    """The failures of one address."""

    __slots__ = ("count", "logged_s", "tokens", "updated_s")

    def __init__(self, now_s: float) -> None:
        self.tokens = float(BURST)
        self.updated_s = now_s
        self.logged_s = -LOG_PAUSE_S
        self.count = 0


class FailedLogins:
    """The failures of all addresses, for any thread; times are those of one monotonic clock."""

    __slots__ = ("_lock", "_of")

    def __init__(self) -> None:
        self._lock = threading.Lock()  # listeners and the REST API count together, each in a thread
        self._of: OrderedDict[str, _Failures] = OrderedDict()

    def __len__(self) -> int:
        """Return how many addresses are remembered."""
        return len(self._of)

    def is_refused(self, address: str, now_s: float) -> bool:
        """Return whether logins from an address are not looked at for now."""
        with self._lock:
            found = self._of.get(network_of(address))
            return found is not None and self._tokens(found, now_s) <= -PER_SECOND * MAX_DELAY_S

    def note(self, address: str, now_s: float) -> float:
        """Count a failure; return how long its answer is to wait, in seconds."""
        with self._lock:
            return self._note(network_of(address), now_s)

    def _note(self, address: str, now_s: float) -> float:
        found = self._of.get(address)
        if found is None:
            found = self._of[address] = _Failures(now_s)
            if len(self._of) > MAX_ADDRESSES:
                self._of.popitem(last=False)
        self._of.move_to_end(address)
        found.tokens = self._tokens(found, now_s) - 1
        found.count += 1
        if found.tokens >= 0:
            return 0.0
        if now_s - found.logged_s >= LOG_PAUSE_S:
            log.warning(
                "%d logins from %s have failed: the answers to failures are delayed, and more than %d a "
                "second are refused unseen.",
                found.count,
                address,
                PER_SECOND,
            )
            found.logged_s, found.count = now_s, 0
        return min(-found.tokens / PER_SECOND, MAX_DELAY_S)

    def _tokens(self, found: _Failures, now_s: float) -> float:
        found.tokens = min(BURST, found.tokens + (now_s - found.updated_s) * PER_SECOND)
        found.updated_s = now_s
        return found.tokens
