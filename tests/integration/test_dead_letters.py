"""Dead letters at a node: by raw requests, over restarts, and with settings that change."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from ottla.logstore.record import Record, iterate_records
from ottla.logstore.record_batch import iterate_headers
from ottla.logstore.words.errors import ErrorCode
from ottla.node.doctor.diagnosis import diagnose_cluster
from ottla.node.share.dead_letters import read_note
from tests.compat.wire_client import WireClient, eventually, only
from tests.integration.embedded_broker import EmbeddedBroker
from tests.integration.test_share_fetch import ACCEPT, GROUP, RELEASE, Member, ten_records

pytestmark = pytest.mark.slow
REJECT = 3
TOPIC, BROKER, GROUPS = 2, 4, 32
MEMBER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.fixture
def member(broker: EmbeddedBroker) -> Iterator[Member]:
    """Yield a member that has acquired the ten records of a topic."""
    one = Member(broker.bootstrap, "m1", ten_records(broker.bootstrap))
    assert alter(one.wire, GROUPS, GROUP, {"errors.deadletterqueue.topic.name": "dlq.t"}) == 0
    join(one.wire)
    assert one.acquire() == [(0, 9, 1)]
    yield one
    one.wire.close()


def join(wire: WireClient) -> None:
    """Join the group, so that it is listed and its share-partitions have state."""
    heartbeat = partial(wire.call, "share_group_heartbeat", 1, group_id=GROUP, member_id=MEMBER_ID)

    def begin() -> Any:
        wire.call("find_coordinator", 4, key_type=0, coordinator_keys=[GROUP])
        return heartbeat(member_epoch=0, subscribed_topic_names=["t"])

    answer = eventually(begin, lambda answer: answer.error_code == ErrorCode.NONE)
    while answer.assignment is None or not answer.assignment.topic_partitions:
        answer = heartbeat(member_epoch=answer.member_epoch)
        assert answer.error_code == ErrorCode.NONE, answer


def alter(wire: WireClient, kind: int, name: str, settings: dict[str, str]) -> int:
    configs = [{"name": key, "config_operation": 0, "value": value} for key, value in settings.items()]
    resources = [{"resource_type": kind, "resource_name": name, "configs": configs}]
    return int(only(wire.call("incremental_alter_configs", 1, resources=resources).responses).error_code)


def create(wire: WireClient, name: str, partitions: int = 1, *, is_for_letters: bool = True) -> None:
    value = "true" if is_for_letters else "false"
    configs = [{"name": "errors.deadletterqueue.group.enable", "value": value}]
    topics = [{"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": configs}]
    assert only(wire.call("create_topics", 7, topics=topics, timeout_ms=30_000).topics).error_code == 0


def letters(wire: WireClient, name: str = "dlq.t") -> list[Record]:
    """Return all records of a topic with one partition."""
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    answer = wire.call(
        "fetch",
        11,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        topics=[{"topic": name, "partitions": [part]}],
    )
    found = only(only(answer.responses).partitions)
    content = bytes(found.records or b"")
    return [
        record
        for position, header in iterate_headers(content)
        for record in iterate_records(content[position : position + header.size_bytes])
    ]


def offsets(records: list[Record]) -> list[int]:
    return [int(dict(one.headers)["__dlq.errors.offset"] or b"") for one in records]


def test_rejected_records_are_in_the_groups_topic(member: Member) -> None:
    create(member.wire, "dlq.t")

    assert member.acknowledge((0, 2, [ACCEPT]), (3, 4, [REJECT]), (5, 8, [ACCEPT]), (9, 9, [REJECT])) == 0

    found = eventually(lambda: letters(member.wire), lambda some: len(some) == 3)
    assert offsets(found) == [3, 4, 9]


def test_a_missing_topic_is_created_as_soon_as_a_setting_of_the_cluster_allows_it(member: Member) -> None:
    settings = {"errors.deadletterqueue.auto.create.topics.enable": "true"}
    assert alter(member.wire, BROKER, "", settings) == 0

    assert member.acknowledge((0, 9, [REJECT])) == 0

    def created() -> list[Record]:
        names = [one.name for one in member.wire.call("metadata", 9, topics=None).topics]
        return letters(member.wire) if "dlq.t" in names else []

    assert offsets(eventually(created, lambda some: len(some) == 10)) == list(range(10))
    resources = [{"resource_type": TOPIC, "resource_name": "dlq.t"}]
    described = only(member.wire.call("describe_configs", 4, resources=resources).results).configs
    configs = {one.name: one.value for one in described}
    assert configs["errors.deadletterqueue.group.enable"] == "true"


def test_the_doctor_names_the_topic_that_may_not_have_dead_letters(
    member: Member, broker: EmbeddedBroker
) -> None:
    create(member.wire, "dlq.t", is_for_letters=False)
    host, _, port = broker.bootstrap.rpartition(":")

    assert member.acknowledge((0, 9, [REJECT])) == 0

    def findings_text() -> str:
        findings = asyncio.run(diagnose_cluster([(host, int(port))], timeout_s=60))
        return " ".join(one.sentence for one in findings if "dead letters" in one.sentence)

    warning = eventually(findings_text, bool, 20)
    assert "the dead letter topic (dlq.t) is not enabled for them" in warning


def test_the_doctor_reports_a_cluster_at_a_level_without_dead_letters(
    member: Member, broker: EmbeddedBroker
) -> None:
    """A cluster after an upgrade is at such a level until its share.version is raised."""
    create(member.wire, "dlq.t")
    host, _, port = broker.bootstrap.rpartition(":")

    def set_level(level: int, kind: int) -> None:
        updates = [{"feature": "share.version", "max_version_level": level, "upgrade_type": kind}]
        answer = member.wire.call("update_features", 1, timeout_ms=30_000, feature_updates=updates)
        assert answer.error_code == 0 and not any(one.error_code for one in answer.results)

    def findings_text() -> list[str]:
        findings = asyncio.run(diagnose_cluster([(host, int(port))], timeout_s=60))
        return [one.sentence for one in findings if "share.version" in one.sentence]

    assert not findings_text()
    set_level(1, 2)
    member.acquire()

    assert member.acknowledge((0, 9, [REJECT])) == 0

    [sentence] = eventually(findings_text, bool, 20)
    assert f"share groups {GROUP} are set to have dead letters, but share.version is 1" in sentence
    ignored = broker.call(lambda node: node.services.shares.counters.dead_letters[GROUP].ignored)
    assert (ignored, letters(member.wire)) == (10, [])
    set_level(2, 1)
    assert not eventually(findings_text, lambda text: not text)


def test_the_last_delivery_is_a_dead_letter_with_its_count(member: Member) -> None:
    create(member.wire, "dlq.t")
    settings = {"share.delivery.count.limit": "2", "errors.deadletterqueue.copy.record.enable": "true"}
    assert alter(member.wire, GROUPS, GROUP, settings) == 0

    assert member.acknowledge((0, 9, [RELEASE])) == 0
    assert member.acquire() == [(0, 9, 2)]
    assert member.acknowledge((0, 8, [ACCEPT]), (9, 9, [RELEASE])) == 0

    [found] = eventually(lambda: letters(member.wire), bool)
    headers = dict(found.headers)
    assert (headers["__dlq.errors.offset"], headers["__dlq.errors.delivery.count"]) == (b"9", b"2")
    assert headers["__dlq.errors.message"] == b"Offset delivery count exceeded the threshold."
    assert found.value is not None


def test_a_letter_is_written_once_even_if_the_node_stops_meanwhile(
    embedded: Callable[..., EmbeddedBroker],
) -> None:
    """The node fails after the batch is in the log and before the share-partition's state says so."""
    first = embedded()
    member = Member(first.bootstrap, "m1", ten_records(first.bootstrap))
    create(member.wire, "dlq.t")
    alter(member.wire, GROUPS, GROUP, {"errors.deadletterqueue.topic.name": "dlq.t"})
    assert member.acquire() == [(0, 9, 1)]

    def lose_answers(node: Any) -> None:
        queue = node.services.shares._dead_letters
        persist = queue._persist

        async def fail_after_the_letters(led: Any, write: Any) -> bool:
            return read_note(write.dead_letters).letters is not None and await persist(led, write)

        queue._persist = fail_after_the_letters

    first.call(lose_answers)
    assert member.acknowledge((0, 3, [REJECT]), (4, 9, [ACCEPT])) == 0
    eventually(lambda: letters(member.wire), lambda some: len(some) == 4)
    member.wire.close()
    first.stop()
    second = embedded()
    again = Member(second.bootstrap, "m2", member.topic_id)
    eventually(lambda: again.fetch(max_wait_ms=100).error_code, lambda code: code == ErrorCode.NONE)

    def state(node: Any) -> list[tuple[int, bool]]:
        return [(led.core.start_offset, led.core.has_letters) for led in node.services.shares._led.values()]

    eventually(lambda: second.call(state), lambda delivered: delivered == [(10, False)])
    assert offsets(letters(again.wire)) == [0, 1, 2, 3]
    again.wire.close()


def test_the_settings_of_dead_letters_are_checked(member: Member) -> None:
    wrong = {"errors.deadletterqueue.copy.record.enable": "perhaps"}

    assert alter(member.wire, GROUPS, GROUP, wrong) == ErrorCode.INVALID_CONFIG
    assert alter(member.wire, BROKER, "", {"errors.deadletterqueue.auto.create.topics.enable": "x"}) != 0
