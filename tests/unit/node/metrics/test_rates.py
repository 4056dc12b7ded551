"""Rates of a node and of all nodes: each is computed from its own readings, and the rates are added up."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from ottla.logstore.words.latency import LatencyHistogram
from ottla.node.counters.node_counts import NodeCounts
from ottla.node.metrics import rates
from ottla.node.metrics.rates import ClusterRates, as_json, together


def counts(messages: int, requests: int = 0, seconds: float = 0.001) -> NodeCounts:
    times = LatencyHistogram()
    times.observe(seconds, requests)
    return NodeCounts(
        meters={"messages_in": messages}, requests={"Produce": requests}, latencies={"Produce": times.counts}
    )


class Clock:
    """Seconds that a test sets."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(rates, "monotonic_s", clock)
    return clock


def read(of: ClusterRates, clock: Clock, now_s: float, reported: Mapping[int, NodeCounts]) -> dict[str, Any]:
    clock.now_s = now_s
    return as_json(together(of.flows(reported).values()))


@pytest.fixture
def cluster() -> ClusterRates:
    return ClusterRates(cast(Any, None))


def test_rates_of_nodes_add_up(cluster: ClusterRates, clock: Clock) -> None:
    first = read(cluster, clock, 0.0, {0: counts(1000), 1: counts(0)})
    second = read(cluster, clock, 2.0, {0: counts(1200, 10), 1: counts(40, 30)})

    assert first["window_seconds"] == 0.0 and first["messages_in_per_second"] is None
    assert second["window_seconds"] == 2.0 and second["messages_in_per_second"] == 120.0
    [produce] = second["requests"]
    assert produce["requests_per_second"] == 20.0 and 0.5 <= produce["p99_ms"] <= 1.0


def test_a_quantile_is_that_of_all_requests_not_the_mean_of_the_nodes(
    cluster: ClusterRates, clock: Clock
) -> None:
    read(cluster, clock, 0.0, {0: counts(0), 1: counts(0)})
    rates = read(cluster, clock, 2.0, {0: counts(0, 999, 0.001), 1: counts(0, 1, 20.0)})

    assert rates["requests"][0]["p99_ms"] <= 1.0


def test_a_new_node_counts_from_its_second_reading(cluster: ClusterRates, clock: Clock) -> None:
    read(cluster, clock, 0.0, {0: counts(0)})
    joined = read(cluster, clock, 2.0, {0: counts(20), 1: counts(5000)})
    later = read(cluster, clock, 4.0, {0: counts(40), 1: counts(5010)})

    assert joined["messages_in_per_second"] == 10.0
    assert later["messages_in_per_second"] == 15.0


def test_a_restarted_node_has_rates_of_zero_and_not_below(cluster: ClusterRates, clock: Clock) -> None:
    read(cluster, clock, 0.0, {0: counts(9000, 90)})
    rates = read(cluster, clock, 2.0, {0: counts(10, 1)})

    assert rates["messages_in_per_second"] == 0 and rates["requests"][0]["requests_per_second"] == 0
    assert rates["requests"][0]["p50_ms"] is None


def test_an_api_without_recent_requests_has_no_quantiles(cluster: ClusterRates, clock: Clock) -> None:
    read(cluster, clock, 0.0, {0: counts(0, 5)})
    rates = read(cluster, clock, 2.0, {0: counts(0, 5)})

    assert rates["requests"][0] == {
        "api": "Produce",
        "requests_per_second": 0.0,
        "p50_ms": None,
        "p99_ms": None,
    }
