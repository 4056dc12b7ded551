"""ottla.node.quota.token_bucket: tokens that return at the rate of a quota."""

from ottla.node.quota.rate import Windows
from ottla.node.quota.token_bucket import TokenBucket

WINDOWS = Windows(11, 1_000)


def test_a_bucket_begins_full_and_never_holds_more() -> None:
    bucket = TokenBucket(WINDOWS)

    assert bucket.tokens(2, 5) == 22
    assert bucket.tokens(2, 50_000) == 22
    assert bucket.tokens(1, 50_000) == 11


def test_one_request_may_take_more_tokens_than_there_are_and_the_next_waits() -> None:
    bucket = TokenBucket(WINDOWS)

    assert bucket.take_if_any(2, 32, 0) is None
    assert bucket.take_if_any(2, 1, 0) == 5_000
    assert bucket.tokens(2, 0) == -10  # a rejected request takes no token
    assert bucket.take_if_any(2, 1, 5_000) is None


def test_the_wait_for_the_smallest_quota_is_bounded() -> None:
    bucket = TokenBucket(WINDOWS)
    bucket.take(5e-324, 1, 0)

    assert bucket.throttle_ms(5e-324, 0) == 2**31 - 1


def test_a_quota_is_exhausted_even_if_the_wait_is_rounded_to_zero() -> None:
    bucket = TokenBucket(WINDOWS)
    bucket.take(1_000_000, 11_000_001, 0)

    assert bucket.take_if_any(1_000_000, 1, 0) == 0
    assert bucket.tokens(1_000_000, 0) == -1


def test_a_request_that_is_executed_anyway_takes_tokens_in_advance() -> None:
    bucket = TokenBucket(WINDOWS)
    bucket.take(2, 32, 0)

    bucket.take(2, 10, 0)

    assert bucket.throttle_ms(2, 0) == 10_000
