"""ottla.node.quota.connection_rates: the rate of new connections, with a fake clock."""

from ottla.node.clock import ManualClock
from ottla.node.quota.connection_rates import CONNECTION_CREATION_RATE, ConnectionRates, RateLimits
from ottla.node.quota.rate import Windows


def rates_of(
    clock: ManualClock, limits: RateLimits, quotas: dict[str | None, float] | None = None
) -> ConnectionRates:
    rates = ConnectionRates(Windows(), clock.now_ms)
    rates.limit(limits)
    rates.set({(("ip", name),): {CONNECTION_CREATION_RATE: rate} for name, rate in (quotas or {}).items()})
    return rates


def waits_of(rates: ConnectionRates, listener: str, count: int, *, is_protected: bool = False) -> list[int]:
    return [rates.enter(listener, is_protected=is_protected) for _ in range(count)]


def test_nothing_is_limited_by_default() -> None:
    rates = rates_of(ManualClock(), RateLimits())

    assert not rates.are_set and not any(waits_of(rates, "A", 1_000))
    assert rates.enter_address("A", "10.0.0.1") == 0


def test_connections_beyond_the_rate_of_the_node_wait_for_no_longer_than_a_window() -> None:
    rates = rates_of(ManualClock(), RateLimits(max_connection_creation_rate=2))

    # Twenty may come at once, since the rate is measured over ten seconds; then one each half second.
    assert rates.are_set
    assert waits_of(rates, "A", 20) == [0] * 20
    assert waits_of(rates, "B", 3) == [500, 1_000, 1_000]


def test_a_listener_has_the_rate_of_the_node_unless_it_has_its_own() -> None:
    limits = RateLimits(
        max_connection_creation_rate=2, listener_max_connection_creation_rate={"INNER": 1_000}
    )
    rates = rates_of(ManualClock(), limits)

    assert not any(waits_of(rates, "INNER", 100, is_protected=True))
    assert not any(waits_of(rates, "A", 20)), "a protected listener does not count for the node"
    assert any(waits_of(rates, "A", 1))


def test_an_address_beyond_its_rate_is_throttled_and_does_not_count() -> None:
    clock = ManualClock()
    rates = rates_of(clock, RateLimits(), {"10.0.0.1": 2, None: 1_000})

    assert [rates.enter_address("A", "10.0.0.1") for _ in range(22)] == [0] * 20 + [500, 500]
    assert rates.enter_address("A", "10.0.0.2") == 0
    clock.advance(12_000)
    assert rates.enter_address("A", "10.0.0.1") == 0


def test_quotas_that_are_removed_limit_nothing() -> None:
    rates = rates_of(ManualClock(), RateLimits(), {None: 1})

    rates.set({})

    assert not rates.are_set


def test_measurements_are_returned() -> None:
    rates = rates_of(ManualClock(), RateLimits(max_connection_creation_rate=2), {"10.0.0.1": 2})
    waits_of(rates, "A", 21)
    for _ in range(21):
        rates.enter_address("A", "10.0.0.1")

    readings = rates.readings(10)

    assert readings.per_second == 2.1
    assert readings.listeners == [("A", 2.1, 500.0, 500.0)]
    assert readings.addresses == [("10.0.0.1", 2.0)]
    assert rates.readings(0).addresses == []
