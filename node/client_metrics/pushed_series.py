"""The metrics that a client pushed last, as series with labels, within limits.

Deltas are added up, so that counters and histograms grow as Prometheus expects. A new series for which there
is no room is left out; existing series continue. A gauge that is missing in the last push is removed, and so
is a counter or histogram that is missing in several: clients change labels when they join a group.
"""

import re
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Final, NamedTuple

from ottla.node.client_metrics.otlp_reader import Attributes, Buckets, MetricPoint, PointKind

_OBJECT_BYTES: Final = 300  # of a series, beside its texts
_BUCKET_BYTES: Final = 80
# A counter or histogram is removed after so many pushes without it.
MISSED_PUSHES: Final = 3
_NOT_OF_LABELS: Final = re.compile(r"[^a-zA-Z0-9_]")
# Labels that every series has, and labels with a meaning in Prometheus.
_TAKEN: Final = frozenset(
    {"client_instance_id", "client_id", "metric", "le", "quantile", "job", "instance", "name"}
)

Labels = tuple[tuple[str, str], ...]


class SeriesKey(NamedTuple):
    """The identity of a series of one client."""

    metric: str
    kind: PointKind
    labels: Labels


class SeriesPoint(NamedTuple):
    """A value for a series; a delta is added to the last value."""

    key: SeriesKey
    value: float | Buckets
    is_delta: bool


def series_points(points: Iterable[MetricPoint]) -> list[SeriesPoint]:
    """Return the points with labels in place of attributes."""
    return [
        SeriesPoint(SeriesKey(one.name, one.kind, labels_of(one.attributes)), one.value, one.is_delta)
        for one in points
    ]


def labels_of(attributes: Attributes) -> Labels:
    """Return attributes as sorted labels; if several get one name, the first of them."""
    labels: dict[str, str] = {}
    for key, text in attributes:
        name = _NOT_OF_LABELS.sub("_", key).lstrip("_") or "attribute"
        if name in _TAKEN or name[0].isdigit():
            name = f"attribute_{name}"
        labels.setdefault(name, text)
    return tuple(sorted(labels.items()))


class _Kept(NamedTuple):
    """The value of a series, the last push that contained it, and its memory."""

    value: float | Buckets
    push: int
    needed_bytes: int


class PushedSeries:
    """The series of one client."""

    __slots__ = ("_pushes", "_values", "used_bytes")

    def __init__(self) -> None:
        self._values: dict[SeriesKey, _Kept] = {}
        self._pushes = 0
        self.used_bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    def put(self, point: SeriesPoint, *, max_series: int, max_bytes: int) -> bool:
        """Update a series with a point; return False if the point is not valid or there is no room for it."""
        key, value, is_delta = point
        kept = self._values.get(key)
        before, needed_bytes = (None, bytes_of(point)) if kept is None else (kept.value, kept.needed_bytes)
        if kept is None and (len(self._values) >= max_series or self.used_bytes + needed_bytes > max_bytes):
            return False
        made = value
        if isinstance(value, Buckets):
            if before is not None and isinstance(before, Buckets):
                if is_delta and before.bounds == value.bounds:
                    made = _added(before, value)
                elif len(value.bounds) > len(before.bounds):
                    return False
            if not isfinite(value.sum):
                return False
        elif is_delta:
            if not isfinite(value) or (value < 0 and key.kind is PointKind.COUNTER):
                return False
            made = value if before is None else value + (before if isinstance(before, float) else 0.0)
        if kept is None:
            self.used_bytes += needed_bytes
        self._values[key] = _Kept(made, self._pushes, needed_bytes)
        return True

    def put_all(self, points: Sequence[SeriesPoint], *, max_series: int, max_bytes: int) -> int:
        """Update series with some points; return the number of points left out."""
        return sum(not self.put(one, max_series=max_series, max_bytes=max_bytes) for one in points)

    def end_push(self) -> None:
        """Remove the series that the client no longer pushes."""
        for key, kept in list(self._values.items()):
            missed = self._pushes - kept.push
            if missed >= MISSED_PUSHES or (missed and key.kind is PointKind.GAUGE):
                del self._values[key]
                self.used_bytes -= kept.needed_bytes
        self._pushes += 1

    def snapshot(self) -> tuple[tuple[SeriesKey, float | Buckets], ...]:
        """Return the current series and values."""
        return tuple((key, kept.value) for key, kept in self._values.items())


def bytes_of(point: SeriesPoint) -> int:
    """Return the memory of a new series for this point."""
    texts = len(point.key.metric) + sum(len(name) + len(text) + 120 for name, text in point.key.labels)
    buckets = len(point.value.counts) if isinstance(point.value, Buckets) else 0
    return _OBJECT_BYTES + texts + buckets * _BUCKET_BYTES


def _added(before: Buckets, more: Buckets) -> Buckets:
    return Buckets(
        before.bounds,
        tuple(one + other for one, other in zip(before.counts, more.counts, strict=True)),
        before.sum + more.sum,
    )
