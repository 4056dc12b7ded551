"""Families of samples as the lines that Prometheus reads, made for one scrape.

The counters of the Prometheus library would take a lock for each request, and its encoders 7 us for each
sample. A line costs 0.4 us here, since the labels of a partition are written once for all its families. Lines
are generated one by one, so the writer can pause between any two.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

from prometheus_client import Metric

from ottla.logstore.words.latency import BOUNDS_S, LatencyHistogram, quantile

LabelText: TypeAlias = str  # made by `labels`, as it stands in a line
Row: TypeAlias = tuple[LabelText, float]
NO_LABELS: Final[LabelText] = ""
# The quantiles that the rules of the JMX exporter make of Kafka's histograms.
QUANTILES: Final = (0.50, 0.75, 0.95, 0.98, 0.99, 0.999)
# The bounds in every scrape, each about five times the one before; the alert on the loop needs one of them.
# Each requested API has a histogram, so with all bounds half of an idle node's scrape would be buckets.
COARSE_BOUNDS_S: Final = (0.0005, 0.0025, 0.01, 0.05, 0.25, 1.0, 5.0, 30.0)


class Family(NamedTuple):
    """The samples of one name; `lines` can be read once."""

    name: str  # a counter's name ends in _total
    documentation: str
    kind: str
    lines: Iterator[str]

    def head(self, *, is_openmetrics: bool) -> str:
        """Return the HELP and TYPE lines. OpenMetrics names a counter without its suffix in them."""
        name, words = self.name, self.documentation
        if is_openmetrics:
            name, words = name.removesuffix("_total") if self.kind == "counter" else name, _escaped(words)
        return f"# HELP {name} {words}\n# TYPE {name} {self.kind}\n"


def labels(**names: str | int) -> LabelText:
    """Return the labels of a sample as text; values may have any characters."""
    pairs = ",".join([f'{name}="{_escaped(str(value))}"' for name, value in names.items()])
    return f"{{{pairs}}}"


def with_labels(text: LabelText, **more: str | int) -> LabelText:
    """Return these labels with more labels appended."""
    return f"{text[:-1]},{labels(**more)[1:]}" if text else labels(**more)


def gauge(name: str, documentation: str, rows: Iterable[Row] | float) -> Family:
    """Return a family of gauges; a plain number makes one sample without labels."""
    return Family(name, documentation, "gauge", _lines(name, rows))


def counter(name: str, documentation: str, rows: Iterable[Row] | float) -> Family:
    """Return a family of counters; `name` ends in _total."""
    return Family(name, documentation, "counter", _lines(name, rows))


def info(name: str, documentation: str, text: LabelText) -> Family:
    """Return constant facts as the labels of one gauge with the value 1; `name` ends in _info."""
    return gauge(name, documentation, [(text, 1)])


def histogram(name: str, documentation: str, rows: Iterable[tuple[LabelText, LatencyHistogram]]) -> Family:
    """Return a family of histograms, in seconds."""

    def lines() -> Iterator[str]:
        for text, times in rows:
            reached = list(accumulate(times.counts))
            for bound, count in zip(_BOUNDS, reached, strict=True):
                yield f"{name}_bucket{with_labels(text, le=bound)} {count}\n"
            yield f"{name}_count{text} {reached[-1]}\n"
            yield f"{name}_sum{text} {times.sum_s}\n"

    return Family(name, documentation, "histogram", lines())


def with_fewer_buckets(family: Family) -> Family:
    """Return a histogram with only the buckets of COARSE_BOUNDS_S, and any other family as it is."""
    if family.kind != "histogram":
        return family
    return family._replace(lines=(line for line in family.lines if _is_coarse(line)))


def _is_coarse(line: str) -> bool:
    # The bound is the last label of a bucket. Counts and sums have no bound.
    _, mark, bound = line.rpartition('le="')
    return not mark or bound.partition('"')[0] in _COARSE_BOUNDS


def summary_ms(
    name: str, documentation: str, rows: Iterable[tuple[LabelText, LatencyHistogram, Sequence[int]]]
) -> Family:
    """Return a family of summaries, in ms as in Kafka; each row ends with the counts for its quantiles."""

    def lines() -> Iterator[str]:
        for text, times, recent in rows:
            for share in QUANTILES:
                yield f"{name}{with_labels(text, quantile=str(share))} {quantile(recent, share) * 1000}\n"
            yield f"{name}_count{text} {sum(times.counts)}\n"
            yield f"{name}_sum{text} {times.sum_s * 1000}\n"

    return Family(name, documentation, "summary", lines())


def library_family(metric: Metric) -> Family:
    """Return the family of a metric from a collector of the Prometheus library."""
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name

    def lines() -> Iterator[str]:
        for one in metric.samples:
            yield f"{one.name}{labels(**one.labels) if one.labels else NO_LABELS} {one.value}\n"

    return Family(name, metric.documentation, metric.type, lines())


def _lines(name: str, rows: Iterable[Row] | float) -> Iterator[str]:
    if isinstance(rows, (int, float)):
        rows = [(NO_LABELS, rows)]
    # The plus sign turns True and False into numbers.
    return (f"{name}{text} {+value}\n" for text, value in rows)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _bound(seconds: float) -> str:
    return f"{seconds:g}" if seconds >= 0.0001 else f"{seconds:.5f}"


_BOUNDS: Final = (*map(_bound, BOUNDS_S), "+Inf")
_COARSE_BOUNDS: Final = frozenset((*map(_bound, COARSE_BOUNDS_S), "+Inf"))
