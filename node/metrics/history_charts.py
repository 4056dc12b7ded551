"""Merges the histories of several nodes into one: times, and the values of each series at these times.

Rates, sizes and lags are added up, and so are the buckets of latencies, from which quantiles are computed.
"""

from collections.abc import Collection, Mapping, Sequence
from math import isnan, nan
from typing import Final, NamedTuple

from ottla.logstore.words.latency import quantile
from ottla.node.counters.history import BUCKETS, COLUMNS, FETCH, PRODUCE, Kind, Samples, latency_column

QUANTILES: Final[Mapping[str, float]] = {"p50": 0.5, "p99": 0.99}
# A node whose samples end this many intervals before the newest does not take samples at present.
LATE_INTERVALS: Final = 3
_DIGITS: Final = 3
_LATENCIES: Final[Mapping[str, Sequence[str]]] = {
    api: [latency_column(api, bucket) for bucket in range(BUCKETS)] for api in (PRODUCE, FETCH)
}
_BUCKETS: Final = frozenset(name for names in _LATENCIES.values() for name in names)
_SUMS: Final[Mapping[Kind, Mapping[str, str]]] = {
    kind: {
        one.name: f"{one.name}_per_second" if one.grows else one.name
        for one in columns
        if one.name not in _BUCKETS
    }
    for kind, columns in COLUMNS.items()
}
# The names of the series, by kind.
SERIES: Final[Mapping[Kind, Sequence[str]]] = {
    kind: (
        *names.values(),
        *(f"{api}_{word}_ms" for api in _LATENCIES for word in QUANTILES if kind is Kind.NODE),
    )
    for kind, names in _SUMS.items()
}


class Charted(NamedTuple):
    """The values of each series at these times (ms); None where no node has a value."""

    interval_ms: int
    times_ms: list[int]
    series: dict[str, list[float | None]]


def charted(kind: Kind, samples: Collection[Samples]) -> Charted:
    """Return the history of a topic, a group or nodes, from the samples of each node."""
    samples = [one for one in samples if len(one.values)]
    interval_ms = max((one.interval_ms for one in samples), default=0)
    times = _times(samples, interval_ms)
    sums = {name: _sum(samples, name, times) for name in _SUMS[kind]}
    series = {line: [_rounded(value) for value in sums[name]] for name, line in _SUMS[kind].items()}
    if kind is Kind.NODE:
        for api, names in _LATENCIES.items():
            rows = list(zip(*(_sum(samples, name, times) for name in names), strict=True))
            for word, share in QUANTILES.items():
                series[f"{api}_{word}_ms"] = [_quantile_ms(row, share) for row in rows]
    return Charted(interval_ms, times, series)


def _times(samples: Collection[Samples], interval_ms: int) -> list[int]:
    """Return the times of the samples, up to the last one of all nodes that take samples at present."""
    if not samples:
        return []
    newest_ms = max(one.end_ms for one in samples)
    end_ms = min(one.end_ms for one in samples if one.end_ms >= newest_ms - LATE_INTERVALS * interval_ms)
    begin_ms = min(one.begin_ms for one in samples)
    return list(range(begin_ms - begin_ms % interval_ms, end_ms + 1, interval_ms))


def _sum(samples: Collection[Samples], column: str, times: Sequence[int]) -> list[float]:
    """Return the sums of a column at these times, over the nodes that have a value; NaN where none has."""
    sums = [nan] * len(times)
    for one in samples:
        if column not in one.columns:  # a node of another version
            continue
        width = len(one.columns)
        values = one.values[one.columns.index(column) :: width]
        for place, time_ms in enumerate(times):
            row = (time_ms - one.begin_ms) // one.interval_ms
            if 0 <= row < len(values) and not isnan(value := values[row]):
                sums[place] = value if isnan(sums[place]) else sums[place] + value
    return sums


def _rounded(value: float) -> float | None:
    return None if isnan(value) else round(value, _DIGITS)


def _quantile_ms(counts: Sequence[float], share: float) -> float | None:
    known = [0.0 if isnan(one) else one for one in counts]
    return round(quantile(known, share) * 1000, _DIGITS) if any(known) else None
