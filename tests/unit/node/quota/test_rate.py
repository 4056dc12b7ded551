"""ottla.node.quota.rate: rates over windows (tests/compat/java/test_quotas.py compares them with Kafka's)."""

import pytest

from ottla.node.quota.rate import MAX_THROTTLE_MS, Rate, Windows, most_in_windows, rounded

WINDOWS = Windows(11, 1_000)


def test_a_first_record_counts_over_all_windows_but_one() -> None:
    rate = Rate(WINDOWS)

    rate.record(100, 5_000)

    assert rate.per_second(5_000) == 10
    assert rate.measured_ms(5_000) == 10_000


def test_without_records_the_rate_is_zero() -> None:
    assert Rate(WINDOWS).per_second(7) == 0
    assert Rate(Windows(1, 1_000)).measured_ms(7) == 1


def test_a_record_counts_until_all_windows_have_passed() -> None:
    rate = Rate(WINDOWS)
    rate.record(100, 0)

    assert rate.per_second(10_999) > 0
    assert rate.per_second(11_000) == 0


def test_a_client_beyond_its_quota_waits_until_its_rate_is_the_quota_again() -> None:
    rate = Rate(WINDOWS)
    rate.record(300, 0)

    assert rate.throttle_ms(30, 0) == 0
    assert rate.throttle_ms(10, 0) == 20_000
    assert rate.throttle_ms(10, 0, max_ms=1_000) == 1_000
    assert rate.throttle_ms(1e-9, 0) == MAX_THROTTLE_MS
    assert rate.throttle_ms(5e-324, 0) == MAX_THROTTLE_MS


def test_a_recorded_value_can_be_taken_back() -> None:
    rate = Rate(WINDOWS)
    rate.record(300, 0)

    rate.record(-300, 0)

    assert rate.throttle_ms(1, 0) == 0


def test_the_largest_value_within_the_windows_is_not_throttled() -> None:
    rate = Rate(WINDOWS)
    rate.record(most_in_windows(7, WINDOWS), 0)

    assert rate.throttle_ms(7, 0) == 0


@pytest.mark.parametrize(
    ("value", "whole"), [(0.5, 1), (1.5, 2), (2.4, 2), (-0.5, 0), (0.49999999999999994, 0)]
)
def test_numbers_are_rounded_as_in_java(value: float, whole: int) -> None:
    assert rounded(value) == whole
