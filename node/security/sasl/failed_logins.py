"""Limits the passwords that can be tried from one address, or from one /64 network of IPv6.

Each address has a token bucket of failures: a burst, and a number per second after that. Beyond it, the
answers to failures are delayed more and more. Once a delay would reach `MAX_DELAY_S`, all logins from the
address are rejected without a check until its failures slow down. Successful logins are never delayed.
Addresses that many clients share can be exempt.
"""

import ipaddress
import logging
import threading
from collections import OrderedDict
from typing import Final, NamedTuple

from ottla.node.net.connection_info import network_of
from ottla.node.settings.failed_login_settings import (
    DEFAULT_BURST,
    DEFAULT_RATE,
    FAILED_LOGINS_BURST,
    FAILED_LOGINS_EXEMPT,
    FAILED_LOGINS_RATE,
)
from ottla.node.settings.rest_settings import Network

MAX_DELAY_S: Final = 10.0
MAX_ADDRESSES: Final = 4_096  # remembered at once; the one that failed longest ago is dropped first
LOG_PAUSE_S: Final = 60.0

log = logging.getLogger(__name__)


class FailureAllowance(NamedTuple):
    """The failures of an address that are answered without delay, and networks exempt from the limit."""

    burst: int = DEFAULT_BURST
    per_second: int = DEFAULT_RATE
    exempt: tuple[Network, ...] = ()

    def is_exempt(self, network: str) -> bool:
        """Return True if the failures of an address, or of an IPv6 network, are not counted."""
        if not self.exempt:
            return False
        try:
            address = ipaddress.ip_network(network).network_address
        except ValueError:
            return False
        return any(address in one for one in self.exempt)


class _Failures:
    """The failures of one address."""

    __slots__ = ("count", "logged_s", "tokens", "updated_s")

    def __init__(self, now_s: float, burst: int) -> None:
        self.tokens = float(burst)
        self.updated_s = now_s
        self.logged_s = -LOG_PAUSE_S
        self.count = 0


class FailedLogins:
    """The failures of all addresses. Thread-safe; all times must be of one monotonic clock."""

    __slots__ = ("_allowance", "_lock", "_of")

    def __init__(self, allowance: FailureAllowance | None = None) -> None:
        self._allowance = FailureAllowance() if allowance is None else allowance
        self._lock = threading.Lock()  # listeners and the REST API share the counts, each from its own thread
        self._of: OrderedDict[str, _Failures] = OrderedDict()

    def limit(self, allowance: FailureAllowance) -> None:
        """Change the allowance; if the burst grows, known addresses get the difference at once."""
        with self._lock:
            grown = max(0, allowance.burst - self._allowance.burst)
            for found in self._of.values():
                found.tokens += grown
            self._allowance = allowance

    def __len__(self) -> int:
        """Return the number of addresses that are remembered."""
        return len(self._of)

    def is_refused(self, address: str, now_s: float) -> bool:
        """Return True if logins from an address are now rejected without a check."""
        network, allowance = network_of(address), self._allowance
        with self._lock:
            found = self._of.get(network)
            if found is None or self._tokens(found, now_s) > -allowance.per_second * MAX_DELAY_S:
                return False
        return not allowance.is_exempt(network)

    def note(self, address: str, now_s: float) -> float:
        """Count a failure, and return the delay of its answer in seconds, 0 for an exempt address."""
        network = network_of(address)
        if self._allowance.is_exempt(network):
            return 0.0
        with self._lock:
            return self._note(network, now_s)

    def _note(self, address: str, now_s: float) -> float:
        found = self._of.get(address)
        if found is None:
            found = self._of[address] = _Failures(now_s, self._allowance.burst)
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
                "second are rejected unread. If many clients share this address, raise %s and %s, or add it "
                "to %s.",
                found.count,
                address,
                self._allowance.per_second,
                FAILED_LOGINS_BURST,
                FAILED_LOGINS_RATE,
                FAILED_LOGINS_EXEMPT,
            )
            found.logged_s, found.count = now_s, 0
        return min(-found.tokens / self._allowance.per_second, MAX_DELAY_S)

    def _tokens(self, found: _Failures, now_s: float) -> float:
        allowance = self._allowance
        found.tokens = min(allowance.burst, found.tokens + (now_s - found.updated_s) * allowance.per_second)
        found.updated_s = now_s
        return found.tokens
