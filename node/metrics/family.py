"""Families of samples, made for one scrape: the library's own counters would take a lock for each request."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

from prometheus_client import Metric
from prometheus_client.samples import Sample

from logstore.latency import BOUNDS_S, LatencyHistogram, quantile

Labels: TypeAlias = Mapping[str, str]
Row: TypeAlias = tuple[Labels, float]
NO_LABELS: Final[Labels] = {}
# As the JMX exporter's rules make of Kafka's histograms.
QUANTILES: Final = (0.50, 0.75, 0.95, 0.98, 0.99, 0.999)


def gauge(name: str, documentation: str, rows: Iterable[Row] | float) -> Metric:
    """A family of gauges; a plain number is the one sample without labels."""
    metric = Metric(name, documentation, "gauge")
    metric.samples = [Sample(name, dict(labels), value) for labels, value in _rows(rows)]
    return metric


def counter(name: str, documentation: str, rows: Iterable[Row] | float) -> Metric:
    """A family of counters; its name ends in _total."""
    metric = Metric(name.removesuffix("_total"), documentation, "counter")
    metric.samples = [Sample(name, dict(labels), value) for labels, value in _rows(rows)]
    return metric


def info(name: str, documentation: str, labels: Labels) -> Metric:
    """What does not change, in labels; the name has _info."""
    return gauge(name, documentation, [(labels, 1)])


def histogram(name: str, documentation: str, rows: Iterable[tuple[Labels, LatencyHistogram]]) -> Metric:
    """A family of histograms, in seconds."""
    metric = Metric(name, documentation, "histogram")
    for labels, times in rows:
        reached = list(accumulate(times.counts))
        bounds = [*map(_bound, BOUNDS_S), "+Inf"]
        metric.samples += [
            Sample(f"{name}_bucket", {**labels, "le": bound}, count)
            for bound, count in zip(bounds, reached, strict=True)
        ]
        metric.samples.append(Sample(f"{name}_count", dict(labels), reached[-1]))
        metric.samples.append(Sample(f"{name}_sum", dict(labels), times.sum_s))
    return metric


def summary_ms(
    name: str, documentation: str, rows: Iterable[tuple[Labels, LatencyHistogram, Sequence[int]]]
) -> Metric:
    """A family of summaries, in milliseconds as Kafka's; each with the counts to take the quantiles from."""
    metric = Metric(name, documentation, "summary")
    for labels, times, recent in rows:
        metric.samples += [
            Sample(name, {**labels, "quantile": str(share)}, quantile(recent, share) * 1000)
            for share in QUANTILES
        ]
        metric.samples.append(Sample(f"{name}_count", dict(labels), sum(times.counts)))
        metric.samples.append(Sample(f"{name}_sum", dict(labels), times.sum_s * 1000))
    return metric


def _rows(rows: Iterable[Row] | float) -> Iterable[Row]:
    return [(NO_LABELS, rows)] if isinstance(rows, (int, float)) else rows


def _bound(seconds: float) -> str:
    return f"{seconds:g}" if seconds >= 0.0001 else f"{seconds:.5f}"
