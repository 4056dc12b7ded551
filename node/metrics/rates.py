"""What a node does a second, and how long its requests took lately: for charts that are drawn live.

A rate is the difference between now and the oldest reading of the last seconds; whoever asks first has none.
Nothing is asked of the node's loop.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from logstore.latency import quantile
from node.clock import monotonic_s
from node.metrics.request_families import latencies_of, request_counts
from node.metrics.windows import Window, counts_since

if TYPE_CHECKING:
    from node.rest_api.node_facts import NodeFacts

WINDOW_S: Final = 5.0
METERS: Final = (
    "bytes_in",
    "bytes_out",
    "messages_in",
    "replication_bytes_in",
    "replication_bytes_out",
    "total_fetch_requests",
    "total_produce_requests",
    "failed_produce_requests",
    "failed_fetch_requests",
)


class Rates:
    """Of one node, in the thread of the REST API."""

    def __init__(self, facts: "NodeFacts") -> None:
        self._facts = facts
        self._meters: Window[tuple[dict[str, int], dict[str, int], dict[str, list[int]]]] = Window(WINDOW_S)

    def read(self) -> dict[str, Any]:
        """Rates of topics' meters and of requests, and latencies in milliseconds by API.

        `window_seconds` is over how long; 0 for the first reading, which has no rates.
        """
        broker, now_s = self._facts.broker, monotonic_s()
        topics = list(broker.replica_manager.counters.values())
        meters = {name: sum(getattr(one, name) for one in topics) for name in METERS}
        counters = list(broker.dispatcher.counters.by_version.values())
        requests: dict[str, int] = {}
        for (api, _), count in request_counts(counters).items():
            requests[api] = requests.get(api, 0) + count
        counts = {name: list(times.counts) for name, times in latencies_of(counters).items()}
        before = self._meters.oldest(now_s)
        self._meters.add(now_s, (meters, requests, counts))
        found: dict[str, Any] = {"node_id": self._facts.node_id, "window_seconds": 0.0}
        found |= {f"{name}_per_second": None for name in METERS}
        found["requests"] = []
        if before is None:
            return found
        age_s, (meters_then, requests_then, counts_then) = before
        found["window_seconds"] = round(age_s, 3)
        for name in METERS:
            found[f"{name}_per_second"] = max(0, meters[name] - meters_then[name]) / age_s
        recent = counts_since(counts, counts_then)
        found["requests"] = [
            _of_request(name, (total - requests_then.get(name, 0)) / age_s, recent)
            for name, total in sorted(requests.items())
            if total
        ]
        return found


def _of_request(name: str, per_second: float, recent: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    counts = recent.get(name, ())
    has_any = any(counts)
    return {
        "api": name,
        "requests_per_second": per_second,
        "p50_ms": round(quantile(counts, 0.5) * 1000, 3) if has_any else None,
        "p99_ms": round(quantile(counts, 0.99) * 1000, 3) if has_any else None,
    }
