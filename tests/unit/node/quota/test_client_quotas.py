"""ottla.node.quota.client_quotas: bytes of clients against the quotas of the cluster, with a fake clock."""

from ottla.node.clock import ManualClock
from ottla.node.quota.client_quotas import PRODUCER_BYTE_RATE, RateQuotas
from ottla.node.quota.rate import Windows


def quotas_of(clock: ManualClock, limit: float) -> RateQuotas:
    quotas = RateQuotas(PRODUCER_BYTE_RATE, Windows(), clock.now_ms)
    quotas.set({(("user", "ann"),): {PRODUCER_BYTE_RATE: limit}})
    return quotas


def test_a_client_beyond_its_quota_waits_until_its_rate_is_the_quota() -> None:
    quotas = quotas_of(ManualClock(), 1_000)

    # The first request counts over ten seconds.
    assert quotas.record("User:ann", "app", 10_000) == 0
    assert quotas.record("User:ann", "app", 5_000) == 5_000


def test_a_changed_quota_applies_at_once_to_what_was_measured() -> None:
    quotas = quotas_of(ManualClock(), 1_000)
    assert quotas.record("User:ann", "app", 10_000) == 0

    quotas.set({(("user", "ann"),): {PRODUCER_BYTE_RATE: 500}})
    assert quotas.record("User:ann", "app", 0) == 10_000

    quotas.set({})
    assert not quotas.are_set and quotas.record("User:ann", "app", 1_000_000) == 0


def test_only_clients_with_a_quota_are_measured() -> None:
    quotas = quotas_of(ManualClock(), 1_000)

    assert quotas.has("User:ann", None) and not quotas.has("User:bob", None)
    assert quotas.record("User:bob", "app", 1_000_000) == 0
