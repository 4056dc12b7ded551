"""Delayed delivery at a node: share groups get records when they are due, consumers at once."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.logstore.compression import Compression
from ottla.logstore.record import build_batch
from ottla.logstore.words.errors import ErrorCode
from ottla.node.clock import SystemClock
from tests.compat.batches import now_ms
from tests.compat.wire_client import WireClient, only
from tests.integration.embedded_broker import EmbeddedBroker
from tests.integration.test_share_fetch import ACCEPT, Member, acquired, ten_records

pytestmark = pytest.mark.slow
TOPIC = 2


@pytest.fixture
def member(broker: EmbeddedBroker) -> Iterator[Member]:
    """Yield a member that has acquired the ten records of a topic with delayed delivery."""
    one = Member(broker.bootstrap, "m1", ten_records(broker.bootstrap))
    alter(one.wire, {"ottla.delivery.delay.enable": "true"})
    assert one.acquire() == [(0, 9, 1)]
    yield one
    one.wire.close()


def alter(wire: WireClient, settings: dict[str, str]) -> int:
    configs = [{"name": name, "config_operation": 0, "value": value} for name, value in settings.items()]
    resources = [{"resource_type": TOPIC, "resource_name": "t", "configs": configs}]
    return int(only(wire.call("incremental_alter_configs", 1, resources=resources).responses).error_code)


def produce(wire: WireClient, *delays: bytes | None, compression: Compression = Compression.NONE) -> Any:
    """Produce one record per delay, given in ms; None is no delay."""
    headers = [(("ottla.deliver.after.ms", delay),) if delay is not None else () for delay in delays]
    batch = build_batch([(None, b"v", now_ms(), each) for each in headers], compression=compression)
    data = {"index": 0, "records": bytes(batch)}
    answer = wire.call(
        "produce", 9, acks=-1, timeout_ms=30_000, topic_data=[{"name": "t", "partition_data": [data]}]
    )
    return only(only(answer.responses).partition_responses)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_delayed_records_are_delivered_when_due_and_others_at_once(
    member: Member, compression: Compression
) -> None:
    began_ms = now_ms()
    produce(member.wire, b"6000", None, b"3000", None, compression=compression)

    assert member.acquire() == [(11, 11, 1), (13, 13, 1)]
    assert now_ms() - began_ms < 3000
    assert acquired(member.fetch(max_wait_ms=20_000)) == [(12, 12, 1)]
    assert 3000 <= now_ms() - began_ms < 6000
    assert acquired(member.fetch(max_wait_ms=20_000)) == [(10, 10, 1)]
    assert now_ms() - began_ms >= 6000


def test_a_fetch_skips_records_that_are_not_due(member: Member) -> None:
    for _ in range(3):
        produce(member.wire, *[b"600000"] * 700)
    produce(member.wire, None)

    assert acquired(member.fetch(max_wait_ms=10_000)) == [(2110, 2110, 1)]


def test_records_stay_delayed_after_their_state_is_reloaded(member: Member, broker: EmbeddedBroker) -> None:
    produce(member.wire, b"600000", None, b"1000")
    assert member.acquire() == [(11, 11, 1)]
    assert member.acknowledge((0, 9, [ACCEPT]), (11, 11, [ACCEPT])) == ErrorCode.NONE

    def forget(node: Any) -> None:
        """Drop the share-partitions, so that the node loads their state again from the log."""
        shares = node.services.shares
        for led in list(shares.share_partitions.values()):
            shares._drop(led)

    broker.call(forget)
    again = Member(member.wire.bootstrap, "m2", member.topic_id)

    assert again.acquire() == [(12, 12, 1)]
    states = broker.call(
        lambda node: [
            [tuple(each) for each in led.core.states()]
            for led in node.services.shares.share_partitions.values()
        ]
    )
    assert states[0][0][:3] == (10, 10, 5)  # WAITING until it is due
    again.wire.close()


def test_waiting_members_follow_a_clock_that_is_set_forward(
    embedded: Callable[..., EmbeddedBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead_ms = 0
    monkeypatch.setattr(SystemClock, "now_ms", lambda self: now_ms() + ahead_ms)
    bootstrap = embedded().bootstrap
    one = Member(bootstrap, "m1", ten_records(bootstrap))
    alter(one.wire, {"ottla.delivery.delay.enable": "true"})
    assert one.acquire() == [(0, 9, 1)]
    produce(one.wire, b"600000")
    assert acquired(one.fetch(max_wait_ms=500)) == []

    ahead_ms += 600_000

    began_ms = now_ms()
    assert acquired(one.fetch(max_wait_ms=30_000)) == [(10, 10, 1)]
    assert now_ms() - began_ms < 10_000
    one.wire.close()


def test_records_that_cannot_be_delayed_are_rejected(member: Member) -> None:
    too_far = produce(member.wire, None, b"999999999999")
    unreadable = produce(member.wire, b"soon")

    assert too_far.error_code == ErrorCode.INVALID_TIMESTAMP
    assert only(too_far.record_errors).batch_index == 1
    assert unreadable.error_code == ErrorCode.INVALID_RECORD
    assert alter(member.wire, {"ottla.delivery.delay.ms": "999999999999"}) == ErrorCode.INVALID_CONFIG


def test_the_delay_of_the_topic_applies_to_records_without_headers(member: Member) -> None:
    assert alter(member.wire, {"ottla.delivery.delay.ms": "800"}) == ErrorCode.NONE
    began_ms = now_ms()

    produce(member.wire, None, b"0")

    assert member.acquire() == [(11, 11, 1)]
    assert acquired(member.fetch(max_wait_ms=10_000)) == [(10, 10, 1)]
    assert now_ms() - began_ms >= 800
