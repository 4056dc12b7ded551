"""The rates of a node or of the cluster, and the recent latencies of requests, for live charts.

A rate is the difference between the present reading and the oldest one of the last seconds. So the first call
returns no rates.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.logstore.words.latency import quantile
from ottla.node.clock import monotonic_s
from ottla.node.counters.node_counts import METERS, NodeCounts, read_counts
from ottla.node.metrics.windows import Window, counts_since
from ottla.node.node_facts import NodeFacts
from ottla.node.work.turns import at_once

WINDOW_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Rates per second over the last `window_s` seconds; 0 means that there was no earlier reading."""

    window_s: float
    meters: Mapping[str, float]
    requests: Mapping[str, float]
    latencies: Mapping[str, list[int]]  # API -> counts of the buckets of its latencies, in the window


NOTHING_YET: Final = Flow(window_s=0.0, meters={}, requests={}, latencies={})


class _Readings:
    """The last readings of one node."""

    def __init__(self) -> None:
        self._window: Window[NodeCounts] = Window(WINDOW_S)

    def flow(self, now_s: float, now: NodeCounts) -> Flow:
        before = self._window.oldest(now_s)
        self._window.add(now_s, now)
        if before is None:
            return NOTHING_YET
        age_s, then = before
        # A node that was restarted counts from zero.
        return Flow(
            window_s=age_s,
            meters={
                name: max(0, count - then.meters.get(name, 0)) / age_s for name, count in now.meters.items()
            },
            requests={
                api: max(0, count - then.requests.get(api, 0)) / age_s for api, count in now.requests.items()
            },
            latencies={
                api: [max(0, count) for count in counts]
                for api, counts in counts_since(now.latencies, then.latencies).items()
            },
        )


class Rates:
    """The rates of this node, read in the thread of its REST API without a call on the node's loop."""

    def __init__(self, facts: NodeFacts) -> None:
        self._facts = facts
        self._readings = _Readings()

    def read(self) -> dict[str, Any]:
        """Return the rates of the topics' meters and of requests, and latencies in ms, by API, as JSON."""
        services = self._facts.services
        counts = at_once(
            read_counts(
                services.replica_manager.counters.values(), services.request_counters.by_version.values()
            )
        )
        return {"node_id": self._facts.node_id} | as_json(self._readings.flow(monotonic_s(), counts))


class ClusterRates:
    """The rates of all nodes, each from its own earlier readings. Used in the thread of the REST API."""

    def __init__(self, facts: NodeFacts) -> None:
        self._readings: dict[int, _Readings] = {}

    def flows(self, counts_by_node: Mapping[int, NodeCounts]) -> dict[int, Flow]:
        """Return the rates by node, from the counts of the nodes that answered; others start again."""
        now_s = monotonic_s()
        self._readings = {node_id: self._readings.get(node_id) or _Readings() for node_id in counts_by_node}
        return {
            node_id: self._readings[node_id].flow(now_s, counts) for node_id, counts in counts_by_node.items()
        }


def together(flows: Iterable[Flow]) -> Flow:
    """Return the sum of several rates, and of the buckets of latencies, from which quantiles are computed."""
    flows = [one for one in flows if one.window_s]
    if not flows:
        return NOTHING_YET
    meters: dict[str, float] = {}
    requests: dict[str, float] = {}
    latencies: dict[str, list[int]] = {}
    for one in flows:
        for total, part in ((meters, one.meters), (requests, one.requests)):
            for name, rate in part.items():
                total[name] = total.get(name, 0.0) + rate
        for api, counts in one.latencies.items():
            before = latencies.get(api, [0] * len(counts))
            latencies[api] = [a + b for a, b in zip(before, counts, strict=True)]
    return Flow(
        window_s=max(one.window_s for one in flows), meters=meters, requests=requests, latencies=latencies
    )


def as_json(flow: Flow) -> dict[str, Any]:
    """Return rates as JSON: rates are None without an earlier reading, quantiles without requests."""
    has_any = flow.window_s > 0
    return {
        "window_seconds": round(flow.window_s, 3),
        **{f"{name}_per_second": flow.meters.get(name, 0.0) if has_any else None for name in METERS},
        "requests": [
            {
                "api": api,
                "requests_per_second": rate,
                "p50_ms": _quantile_ms(flow, api, 0.5),
                "p99_ms": _quantile_ms(flow, api, 0.99),
            }
            for api, rate in sorted(flow.requests.items())
        ],
    }


def _quantile_ms(flow: Flow, api: str, share: float) -> float | None:
    counts = flow.latencies.get(api, ())
    return round(quantile(counts, share) * 1000, 3) if any(counts) else None
