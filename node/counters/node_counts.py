"""Totals since the node started, over all topics and versions, which can be summed over nodes."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.logstore.words.latency import LatencyHistogram
from ottla.node.counters.request_counters import RequestCounters
from ottla.node.counters.topic_counters import TopicCounters

METERS: Final = (  # attributes of TopicCounters
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
FOLLOWERS: Final = "FetchFollower"
CONSUMERS: Final = "FetchConsumer"
FETCH: Final = "Fetch"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCounts:
    """A reading: the sums of `METERS` over topics, requests by API, and histograms of latency by API."""

    meters: Mapping[str, int]
    requests: Mapping[str, int]
    latencies: Mapping[str, Sequence[int]]  # as LatencyHistogram.counts


def read_counts(
    topics: Iterable[TopicCounters], requests: Iterable[RequestCounters]
) -> Generator[None, None, NodeCounts]:
    """Return the totals, in steps: a node may have ten thousand topics."""
    topics, requests = list(topics), list(requests)
    meters = dict.fromkeys(METERS, 0)
    for one in topics:
        for name in METERS:
            meters[name] += getattr(one, name)
        yield
    by_api: dict[str, int] = {}
    for (api, _), count in request_counts(requests).items():
        by_api[api] = by_api.get(api, 0) + count
    return NodeCounts(
        meters=meters,
        requests=by_api,
        latencies={name: list(times.counts) for name, times in latencies_of(requests).items()},
    )


def latencies_of(requests: Iterable[RequestCounters]) -> dict[str, LatencyHistogram]:
    """Return the latencies by API; fetches of followers and of consumers separately and together."""
    found = {one.name: one.latency for one in requests if one.requests}
    if FETCH in found:
        consumers, followers = found[FETCH], found.get(FOLLOWERS, LatencyHistogram())
        both = LatencyHistogram()
        both.counts = [a + b for a, b in zip(consumers.counts, followers.counts, strict=True)]
        both.sum_s = consumers.sum_s + followers.sum_s
        found |= {FETCH: both, CONSUMERS: consumers, FOLLOWERS: followers}
    return found


def request_counts(requests: Iterable[RequestCounters]) -> dict[tuple[str, int], int]:
    """Return the requests by API and version; fetches of consumers and followers apart and together."""
    counts = {(one.name, one.version): one.requests for one in requests if one.requests}
    for (name, version), count in tuple(counts.items()):
        if name == FETCH:
            counts[CONSUMERS, version] = count - counts.get((FOLLOWERS, version), 0)
    return counts
