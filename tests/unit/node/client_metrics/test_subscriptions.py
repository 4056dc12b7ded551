"""All subscriptions that match a client determine the metrics that it should push (KIP-714)."""

from typing import Any

import pytest

from ottla.metadata_raft.image import ConfigsImage, MetadataImage
from ottla.metadata_raft.records import ConfigResourceType
from ottla.node.client_metrics.subscriptions import Subscriptions, Wanted
from ottla.node.settings.client_metrics_config_def import DEFAULT_INTERVAL_MS

ID = bytes(range(16))
CLIENT = {
    "client_instance_id": "AAECAwQFBgcICQoLDA0ODw",
    "client_id": "orders-1",
    "client_software_name": "apache-kafka-java",
    "client_software_version": "4.3.1",
    "client_source_address": "127.0.0.1",
    "client_source_port": "4711",
}


def changed(subscriptions: Subscriptions, **by_name: dict[str, str]) -> Subscriptions:
    kind = ConfigResourceType.CLIENT_METRICS
    resources = {(int(kind), name): texts for name, texts in by_name.items()}
    kept = {key: texts for key, texts in resources.items() if texts}
    subscriptions.update(MetadataImage(configs=ConfigsImage(by_resource=kept)), resources)
    return subscriptions


def wanted(client: dict[str, Any] | None = None, **by_name: dict[str, str]) -> Wanted:
    return changed(Subscriptions(), **by_name).wanted_of(ID, CLIENT if client is None else client)


def test_without_a_subscription_nothing_is_wanted() -> None:
    assert wanted()[:2] == ((), DEFAULT_INTERVAL_MS)


def test_subscriptions_add_up_and_the_shortest_interval_holds() -> None:
    found = wanted(
        a={"metrics": "b.,a.", "interval.ms": "5000"},
        b={"metrics": "a.,c.", "interval.ms": "1000"},
        c={"metrics": "d.", "interval.ms": "100", "match": "client_id=other"},
    )

    assert found[:2] == (("a.", "b.", "c."), 1000)


def test_a_subscription_of_all_metrics_is_a_single_star() -> None:
    assert wanted(a={"metrics": "a."}, b={"metrics": "b., *"})[0] == ("*",)


@pytest.mark.parametrize(
    ("match", "is_matched"),
    [
        ("", True),
        ("client_id=orders-.*", True),
        ("client_id=orders", False),  # the whole value must match
        (" client_id = orders-1 ,client_software_version=4\\..*", True),
        ("client_id=orders-1,client_software_name=librdkafka", False),
        ("client_source_address=127\\.0\\.0\\.1,client_source_port=47[0-9]+", True),
        ("client_instance_id=AAECAwQFBgcICQoLDA0ODw", True),
        ("client_id=other,client_id=orders-1", True),  # as in Kafka, the last value of a name counts
    ],
)
def test_a_client_matches_if_all_its_values_do(match: str, is_matched: bool) -> None:
    assert wanted(s={"metrics": "m", "match": match})[0] == (("m",) if is_matched else ())


def test_a_property_that_a_client_did_not_send_matches_nothing() -> None:
    client = {**CLIENT, "client_software_name": None}

    assert wanted(client, s={"metrics": "m", "match": "client_software_name=.*"})[0] == ()


def test_a_changed_or_deleted_subscription_no_longer_counts() -> None:
    subscriptions = changed(Subscriptions(), a={"metrics": "a."}, b={"metrics": "b."})
    version = subscriptions.version

    changed(subscriptions, a={"metrics": "c."}, b={})

    assert subscriptions.version > version
    assert subscriptions.wanted_of(ID, CLIENT)[0] == ("c.",)


def test_settings_of_topics_change_no_subscription() -> None:
    subscriptions = Subscriptions()

    subscriptions.update(MetadataImage(), [(int(ConfigResourceType.TOPIC), "t")])

    assert subscriptions.version == 0


def test_an_invalid_subscription_is_ignored() -> None:
    assert wanted(a={"metrics": "a.", "interval.ms": "x"}, b={"metrics": "b."})[0] == ("b.",)
    assert wanted(a={"metrics": "a.", "match": "client_id=("})[0] == ()


def test_the_id_differs_by_client_and_subscription_but_not_by_node() -> None:
    texts = {"metrics": "a.,b."}
    one = wanted(s=texts)
    ids = {
        one.subscription_id,
        wanted(s={**texts, "interval.ms": "100"}).subscription_id,
        wanted(s={"metrics": "a."}).subscription_id,
        changed(Subscriptions(), s=texts).wanted_of(bytes(15) + b"x", CLIENT).subscription_id,
    }

    assert len(ids) == 4
    assert one.subscription_id == wanted(z={"metrics": "b."}, y={"metrics": "a."}).subscription_id
    assert all(-(1 << 31) <= each < 1 << 31 for each in ids)


def test_the_id_without_a_subscription_is_that_of_kafka() -> None:
    # crc32c("[]300000") ^ hash of the UUID, as in Java.
    assert wanted().subscription_id == -725132322
