"""What a node, or the cluster, does a second, and how long requests took lately: for live charts.

A rate is the difference between now and the oldest reading of the last seconds; whoever asks first has none.
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
    """What went through in the last `window_s` seconds, a second; 0 s stands for no earlier reading."""

    window_s: float
    meters: Mapping[str, float]
    requests: Mapping[str, float]
    latencies: Mapping[str, list[int]]  # how many took how long, in the window


NOTHING_YET: Final = Flow(window_s=0.0, meters={}, requests={}, latencies={})


class _Readings:
    """Of one node."""

    def __init__(self) -> None:
        self._window: Window[NodeCounts] = Window(WINDOW_S)

    def flow(self, now_s: float, now: NodeCounts) -> Flow:
        before = self._window.oldest(now_s)
        self._window.add(now_s, now)
        if before is None:
            return NOTHING_YET
        age_s, then = before
        # A node that has begun anew counts from zero.
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
    """Of one node, in the thread of its REST API. Nothing is asked of the node's loop."""

    def __init__(self, facts: NodeFacts) -> None:
        self._facts = facts
        self._readings = _Readings()

    def read(self) -> dict[str, Any]:
        """Rates of topics' meters and of requests, and latencies in milliseconds by API."""
        services = self._facts.services
        counts = at_once(
            read_counts(
                services.replica_manager.counters.values(), services.request_counters.by_version.values()
            )
        )
        return {"node_id": self._facts.node_id} | as_json(self._readings.flow(monotonic_s(), counts))


class ClusterRates:
    """Of all nodes, as they were asked; each is compared with itself. In the thread of the REST API."""

    def __init__(self, facts: NodeFacts) -> None:
        self._readings: dict[int, _Readings] = {}

    def flows(self, told: Mapping[int, NodeCounts]) -> dict[int, Flow]:
        """By node. One that is silent is forgotten, and begins anew."""
        now_s = monotonic_s()
        self._readings = {node_id: self._readings.get(node_id) or _Readings() for node_id in told}
        return {node_id: self._readings[node_id].flow(now_s, counts) for node_id, counts in told.items()}


def together(flows: Iterable[Flow]) -> Flow:
    """Rates add up; so does how many took how long, of which quantiles are made."""
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
    """Rates are None where there is nothing to compare with, milliseconds where nothing was asked lately."""
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
