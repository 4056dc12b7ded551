"""Pushed metrics become series: deltas are added up, attributes become valid labels, limits hold."""

import math

import pytest

from ottla.node.client_metrics.otlp_reader import Buckets, MetricPoint, PointKind
from ottla.node.client_metrics.pushed_series import (
    PushedSeries,
    SeriesPoint,
    bytes_of,
    labels_of,
    series_points,
)

GAUGE, COUNTER, HISTOGRAM = PointKind


def put(
    series: PushedSeries, *points: MetricPoint, max_series: int = 10, max_bytes: int = 1 << 20
) -> list[bool]:
    return [series.put(one, max_series=max_series, max_bytes=max_bytes) for one in series_points(points)]


def made(
    value: float | Buckets, kind: PointKind = COUNTER, *, is_delta: bool = True, name: str = "m"
) -> MetricPoint:
    return MetricPoint(name, kind, (), value, is_delta)


def values(series: PushedSeries) -> list[float | Buckets]:
    return [value for _, value in series.snapshot()]


@pytest.mark.parametrize("kind", [COUNTER, GAUGE])
def test_deltas_are_added_up(kind: PointKind) -> None:
    series = PushedSeries()

    put(series, made(2.0, kind), made(3.0, kind))

    assert values(series) == [5.0]


def test_a_cumulative_value_is_the_last_one() -> None:
    series = PushedSeries()

    put(series, made(2.0, is_delta=False), made(3.0, is_delta=False))

    assert values(series) == [3.0]


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_a_delta_that_would_spoil_a_counter_is_left_out(value: float) -> None:
    series = PushedSeries()

    assert put(series, made(2.0), made(value)) == [True, False]
    assert values(series) == [2.0]


def test_histograms_are_added_up_while_their_bounds_are_equal() -> None:
    series = PushedSeries()
    one, two = Buckets((1.0,), (1, 2), 4.0), Buckets((1.0,), (1, 0), 0.5)
    other = Buckets((2.0,), (1, 1), 3.0)

    put(series, made(one, HISTOGRAM), made(two, HISTOGRAM))
    added = values(series)
    put(series, made(other, HISTOGRAM))

    assert added == [Buckets((1.0,), (2, 2), 4.5)]
    assert values(series) == [other]
    assert put(series, made(Buckets((1.0, 2.0), (1, 1, 1), 1.0), HISTOGRAM)) == [False]


def test_a_series_beyond_the_limits_is_left_out_and_the_others_continue() -> None:
    series = PushedSeries()

    assert put(series, made(1.0), made(1.0, name="n"), max_series=1) == [True, False]
    assert put(series, made(1.0), max_series=0, max_bytes=0) == [True]
    assert values(series) == [2.0]


def test_a_missing_gauge_is_removed_at_once_and_a_counter_after_three_pushes() -> None:
    series = PushedSeries()
    put(series, made(1.0, GAUGE, name="gauge"), made(1.0, name="counter"), made(1.0, name="often"))
    series.end_push()
    seen = []
    for _ in range(3):
        put(series, made(1.0, name="often"))
        series.end_push()
        seen.append([key.metric for key, _ in series.snapshot()])

    assert seen == [["counter", "often"], ["counter", "often"], ["often"]]
    assert values(series) == [4.0]
    assert series.used_bytes == bytes_of(series_points([made(1.0, name="often")])[0])


def test_the_memory_of_a_series_is_counted() -> None:
    series, (point,) = PushedSeries(), series_points([made(1.0)])

    assert not series.put(point, max_series=1, max_bytes=bytes_of(point) - 1)
    assert series.put(point, max_series=1, max_bytes=bytes_of(point))
    assert series.used_bytes == bytes_of(point)


def test_more_text_and_more_buckets_take_more_memory() -> None:
    plain = series_points([made(1.0)])[0]
    long = series_points([MetricPoint("m", COUNTER, (("k", "v" * 1_000),), 1.0, True)])[0]
    wide = SeriesPoint(plain.key, Buckets((1.0,) * 99, (0,) * 100, 0.0), True)

    assert bytes_of(long) > bytes_of(plain) + 1_000
    assert bytes_of(wide) > bytes_of(plain) + 1_000


@pytest.mark.parametrize(
    ("attributes", "labels"),
    [
        ({"node_id": "1", "a-b.c": "2"}, {"node_id": "1", "a_b_c": "2"}),
        (
            {"client_id": "x", "le": "1", "metric": "y"},
            {"attribute_client_id": "x", "attribute_le": "1", "attribute_metric": "y"},
        ),
        ({"__name__": "evil", "9": "n", "ä": "u"}, {"name__": "evil", "attribute_9": "n", "attribute": "u"}),
        ({"a.b": "first", "a_b": "second"}, {"a_b": "first"}),
    ],
)
def test_attributes_get_names_that_prometheus_accepts(
    attributes: dict[str, str], labels: dict[str, str]
) -> None:
    assert dict(labels_of(tuple(attributes.items()))) == labels
