"""Merged histories of nodes: values of the same time add up, and quantiles are those of all requests."""

from array import array
from collections.abc import Sequence
from math import nan

from ottla.node.counters.history import BUCKETS, COLUMNS, Kind, Samples, latency_column
from ottla.node.metrics.history_charts import SERIES, charted

TOPIC = [one.name for one in COLUMNS[Kind.TOPIC]]


def samples(
    end_ms: int, *rows: Sequence[float], columns: Sequence[str] = TOPIC, interval_ms: int = 10
) -> Samples:
    return Samples(columns, array("f", [value for row in rows for value in row]), end_ms, interval_ms)


def test_values_of_the_same_time_add_up() -> None:
    charts = charted(
        Kind.TOPIC,
        [samples(100, (1, 2, 3, 4), (5, 6, 7, 8)), samples(100, (0, 0, 0, 0), (1, 1, 1, 1), (9, 9, 9, nan))],
    )

    assert charts.interval_ms == 10 and charts.times_ms == [80, 90, 100]
    assert charts.series == {
        "bytes_in_per_second": [0, 2, 14],
        "bytes_out_per_second": [0, 3, 15],
        "messages_in_per_second": [0, 4, 16],
        "size_bytes": [0, 5, 8],
    }


def test_sums_end_at_the_last_samples_of_the_nodes_that_still_take_them() -> None:
    late = [samples(110, (1, 1, 1, 1), (2, 2, 2, 2)), samples(100, (5, 5, 5, 5))]
    ended = [samples(200, (1, 1, 1, 1), (2, 2, 2, 2)), samples(100, (5, 5, 5, 5))]

    assert charted(Kind.TOPIC, late).series["size_bytes"] == [6]
    assert charted(Kind.TOPIC, ended).series["size_bytes"] == [5, *[None] * 8, 1, 2]


def test_a_history_that_no_node_has_is_empty() -> None:
    for histories in ([], [samples(100)], [Samples([], array("f"), 100, 10)]):
        assert charted(Kind.GROUP, histories) == (0, [], {"lag": []})


def test_histories_of_other_versions_and_intervals_are_merged_as_far_as_possible() -> None:
    charts = charted(
        Kind.TOPIC,
        [
            samples(120, (7,), (9,), columns=["bytes_in"], interval_ms=20),
            samples(120, *[(1, 1, 1, 1)] * 4, interval_ms=10),
        ],
    )

    assert charts.interval_ms == 20 and charts.times_ms == [80, 100, 120]
    assert charts.series["bytes_in_per_second"] == [None, 8, 10]
    assert charts.series["size_bytes"] == [None, 1, 1]


def test_a_quantile_is_that_of_the_requests_of_all_nodes() -> None:
    def node(fast: float, slow: float) -> Samples:
        counts = dict.fromkeys((one.name for one in COLUMNS[Kind.NODE]), 0.0)
        counts |= {latency_column("produce", 3): fast, latency_column("produce", BUCKETS - 2): slow}
        return samples(100, list(counts.values()), columns=list(counts))

    charts = charted(Kind.NODE, [node(999, 0), node(0, 1)])

    assert charts.series.keys() == set(SERIES[Kind.NODE])
    [p50], [p99] = charts.series["produce_p50_ms"], charts.series["produce_p99_ms"]
    assert p50 is not None and p99 is not None and p50 <= p99 <= 0.5
    assert charts.series["fetch_p50_ms"] == [None]
