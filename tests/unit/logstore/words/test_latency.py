"""Histograms of latencies: counts in fixed buckets, and quantiles."""

import pytest

from ottla.logstore.words.latency import BOUNDS_S, LatencyHistogram, quantile


def test_each_duration_is_counted_in_the_first_bucket_that_fits() -> None:
    histogram = LatencyHistogram()

    for seconds in (*BOUNDS_S, 31.0):
        histogram.observe(seconds)

    assert histogram.counts == [1] * (len(BOUNDS_S) + 1)
    assert histogram.sum_s == pytest.approx(sum(BOUNDS_S) + 31.0)


def test_a_sample_stands_for_its_weight() -> None:
    histogram = LatencyHistogram()

    histogram.observe(0.003, 16)

    assert sum(histogram.counts) == 16 and histogram.sum_s == pytest.approx(0.048)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99, 1.0])
def test_a_quantile_is_in_the_bucket_of_its_rank(share: float) -> None:
    histogram = LatencyHistogram()
    histogram.observe(0.002, 98)
    histogram.observe(2.0, 2)

    found = quantile(histogram.counts, share)

    lower, upper = (0.001, 0.0025) if share < 0.98 else (1.0, 2.5)
    assert lower <= found <= upper


def test_quantiles_of_no_samples_are_0_and_beyond_the_last_bound_that_bound() -> None:
    histogram = LatencyHistogram()
    assert quantile(histogram.counts, 0.99) == 0.0

    histogram.observe(1000.0)

    assert quantile(histogram.counts, 0.5) == BOUNDS_S[-1]
