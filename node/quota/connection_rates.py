"""Measures the rate of new connections against the limits of the node, its listeners and addresses.

A connection beyond the rate of the node or its listener waits until the rate is within the limit again. One
beyond the rate of its address is closed and counts for nothing. No throttle time is longer than one window,
but connections are let in one by one (`net/arrivals`), so those behind others may wait for longer.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.metadata_raft.image import QuotaEntity
from ottla.node.quota.quota_buckets import QuotaBuckets
from ottla.node.quota.quota_entities import QuotaEntities
from ottla.node.quota.rate import Rate, Windows
from ottla.node.quota.throttle_times import ThrottleTimes

CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
NO_LIMIT: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """The limits, with Kafka's names and defaults; names of listeners are in upper case."""

    max_connection_creation_rate: int = NO_LIMIT
    listener_max_connection_creation_rate: Mapping[str, int] = field(default_factory=dict)

    @property
    def are_set(self) -> bool:
        """Return True if any rate is limited."""
        rates = (self.max_connection_creation_rate, *self.listener_max_connection_creation_rate.values())
        return any(rate < NO_LIMIT for rate in rates)


class ListenerRates(NamedTuple):
    """The rate of one listener, and the throttle times of its connections."""

    name: str
    per_second: float
    throttle_ms: float  # the average of connections that waited for the node or the listener
    address_throttle_ms: float  # of connections closed because of their address


class RateReadings(NamedTuple):
    """The measured rates of new connections."""

    per_second: float
    listeners: list[ListenerRates]
    addresses: list[tuple[str, float]]  # those with a quota that were seen last


class _ListenerMeasurements:
    __slots__ = ("address_throttled", "rate", "throttled")

    def __init__(self, windows: Windows) -> None:
        self.rate = Rate(windows)
        self.throttled = ThrottleTimes()
        self.address_throttled = ThrottleTimes()


class ConnectionRates:
    """The rates of one node; `are_set` is true if any is limited."""

    def __init__(self, windows: Windows, now_ms: Callable[[], int]) -> None:
        self._windows = windows
        self._now_ms = now_ms
        self._limits = RateLimits()
        self._entities = QuotaEntities({}, CONNECTION_CREATION_RATE)
        self._of_node = Rate(windows)
        self._of_listeners: dict[str, _ListenerMeasurements] = {}
        self._of_addresses: QuotaBuckets[str, Rate] = QuotaBuckets(lambda: Rate(windows))
        self.are_set = False

    def limit(self, limits: RateLimits) -> None:
        """Replace the limits of the node and its listeners."""
        self._limits = limits
        self._update_are_set()

    def set(self, client_quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Replace the quotas of addresses, and keep what was measured."""
        self._entities = QuotaEntities({}, CONNECTION_CREATION_RATE)
        self.follow(client_quotas, client_quotas)

    def follow(
        self, client_quotas: Mapping[QuotaEntity, Mapping[str, float]], changed: Iterable[QuotaEntity]
    ) -> None:
        """Apply the changed quotas of these addresses."""
        self._entities.follow(client_quotas, changed)
        self._update_are_set()

    def enter_address(self, listener: str, address: str) -> int:
        """Count a connection from an address; return the delay (ms) before it is closed, 0 to accept it."""
        quota = self._entities.of_address(address)
        if quota is None:
            return 0
        now_ms = self._now_ms()
        rate = self._of_addresses.of(address, now_ms)
        rate.record(1.0, now_ms)
        throttle_ms = rate.throttle_ms(quota, now_ms, max_ms=self._windows.window_ms)
        if throttle_ms:
            rate.record(-1.0, now_ms)
            self._measurements(listener).address_throttled.record(throttle_ms, now_ms)
        return throttle_ms

    def enter(self, listener: str, *, is_protected: bool) -> int:
        """Count a connection to a listener; return how long (ms) it must wait.

        A connection to a protected listener does not count for the node, so clients cannot delay it.
        """
        now_ms, max_ms = self._now_ms(), self._windows.window_ms
        measured = self._measurements(listener)
        throttle_ms = 0
        if not is_protected:
            self._of_node.record(1.0, now_ms)
            limit = self._limits.max_connection_creation_rate
            if limit < NO_LIMIT:
                throttle_ms = self._of_node.throttle_ms(limit, now_ms, max_ms=max_ms)
        measured.rate.record(1.0, now_ms)
        limit = self._limits.listener_max_connection_creation_rate.get(listener, self._listener_default)
        if limit < NO_LIMIT:
            throttle_ms = max(throttle_ms, measured.rate.throttle_ms(limit, now_ms, max_ms=max_ms))
        if throttle_ms:
            measured.throttled.record(throttle_ms, now_ms)
        return throttle_ms

    def readings(self, limit: int) -> RateReadings:
        """Return the current measurements, of at most `limit` addresses."""
        now_ms = self._now_ms()
        return RateReadings(
            self._of_node.per_second(now_ms),
            [
                ListenerRates(
                    name,
                    one.rate.per_second(now_ms),
                    one.throttled.average_ms(now_ms),
                    one.address_throttled.average_ms(now_ms),
                )
                for name, one in sorted(self._of_listeners.items())
            ],
            [
                (address, rate.per_second(now_ms))
                for address, rate in self._of_addresses.latest(limit, now_ms)
                if self._entities.of_address(address) is not None
            ],
        )

    @property
    def _listener_default(self) -> int:
        # As in Apache Kafka, a listener without a setting of its own uses the broker's.
        return self._limits.max_connection_creation_rate

    def _measurements(self, listener: str) -> _ListenerMeasurements:
        found = self._of_listeners.get(listener)
        if found is None:
            found = self._of_listeners[listener] = _ListenerMeasurements(self._windows)
        return found

    def _update_are_set(self) -> None:
        self.are_set = self._limits.are_set or bool(self._entities)
