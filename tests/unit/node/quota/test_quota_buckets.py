"""ottla.node.quota.quota_buckets: measurements in bounded memory."""

from ottla.node.quota.quota_buckets import IDLE_MS, QuotaBuckets


def buckets(max_buckets: int = 3) -> QuotaBuckets[str, object]:
    return QuotaBuckets(object, max_buckets=max_buckets)


def test_clients_that_share_a_quota_have_one_bucket() -> None:
    made = buckets()

    assert made.of("a", 0) is made.of("a", 5)
    assert made.of("b", 5) is not made.of("a", 5)


def test_a_client_that_was_not_seen_for_an_hour_gets_a_new_bucket() -> None:
    made = buckets()
    first = made.of("a", 0)

    assert made.of("a", IDLE_MS - 1) is first
    assert made.of("a", 2 * IDLE_MS - 1) is not first


def test_buckets_of_other_clients_are_removed_after_an_hour_too() -> None:
    made = buckets()
    made.of("a", 0)

    made.of("b", IDLE_MS)

    assert len(made) == 1


def test_the_least_recently_seen_bucket_is_removed_beyond_the_limit() -> None:
    made = buckets()
    kept = [made.of(name, 0) for name in ("a", "b", "c")]
    assert made.of("a", 1) is kept[0]

    made.of("d", 2)

    assert len(made) == 3
    assert made.of("a", 3) is kept[0]
    assert made.of("b", 3) is not kept[1]
