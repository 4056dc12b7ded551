"""Traps 9 to 11, 28 and 32 to 36: features, metadata, topics, configurations and producer ids."""

import base64
import os
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from tests.compat.conftest import create_topic, topic_id_of
from tests.compat.wire_client import WireClient, eventually, only

Connect = Callable[..., WireClient]
NOT_REQUESTED = -(2**31)
TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def test_trap_09_features_are_advertised_only_as_they_are_honoured(
    client: WireClient, is_reference: bool
) -> None:
    answer = client.call("api_versions", 4, client_software_name="trap", client_software_version="1")
    finalized = {one.name: one.max_version_level for one in answer.finalized_features}
    keys = {one.api_key for one in answer.api_keys}

    newest = {one.api_key: one.max_version for one in answer.api_keys}

    # A client that writes with version 12 relies on its partitions being added, which is level 2.
    assert (newest[0] >= 12, newest[26] >= 5) == (finalized["transaction.version"] >= 2,) * 2
    if not is_reference:
        # Clients enable implicit adds to transactions and the new group protocol by these two features.
        assert finalized.get("transaction.version", 0) == 0 or {24, 25, 26, 28} <= keys
        assert finalized.get("group.version", 0) == 0 or {68, 69} <= keys
    # Kafka has telemetry only if a plugin receives it; a node always receives it.
    assert {71, 72} & keys == (set() if is_reference else {71, 72})
    assert {4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73} & keys == set()


def test_trap_10_metadata_names_cluster_controller_ids_and_epochs(client: WireClient, topic: str) -> None:
    answer = client.call("metadata", 12, topics=[{"name": topic}])
    again = client.call("metadata", 12, topics=[{"name": topic}])
    found = only(answer.topics)
    partition = only(found.partitions)

    assert len(base64.urlsafe_b64decode(f"{answer.cluster_id}==")) == 16
    assert len(answer.cluster_id) == 22
    assert answer.controller_id in {broker.node_id for broker in answer.brokers}
    assert found.topic_id != bytes(16)
    assert found.topic_id == only(again.topics).topic_id
    assert not found.is_internal
    assert partition.leader_epoch >= 0
    assert (partition.error_code, list(partition.offline_replicas)) == (0, [])
    assert found.topic_authorized_operations == NOT_REQUESTED


def test_trap_10_authorized_operations_are_returned_on_request(client: WireClient, topic: str) -> None:
    answer = client.call(
        "metadata",
        10,
        topics=[{"name": topic}],
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )

    assert answer.cluster_authorized_operations != NOT_REQUESTED
    assert only(answer.topics).topic_authorized_operations != NOT_REQUESTED


def test_trap_10_version_0_reads_an_empty_list_as_all_and_later_ones_as_none(
    client: WireClient, topic: str
) -> None:
    everything = client.call("metadata", 0, topics=[])
    nothing = client.call("metadata", 1, topics=[])
    null = client.call("metadata", 1, topics=None)

    assert topic in {one.name for one in everything.topics}
    assert not nothing.topics
    assert topic in {one.name for one in null.topics}


def test_trap_10_internal_topics_are_marked(client: WireClient) -> None:
    eventually(
        lambda: client.call("find_coordinator", 2, key="trap-10", key_type=0),
        lambda found: found.error_code == 0,
    )

    answer = client.call("metadata", 12, topics=[{"name": "__consumer_offsets"}])

    assert only(answer.topics).error_code == 0
    assert only(answer.topics).is_internal


def test_trap_11_an_unknown_topic_is_an_error_first_and_created_on_request(client: WireClient) -> None:
    name = f"auto-{uuid4().hex[:8]}"

    rejected = only(
        client.call("metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False).topics
    )
    first = only(client.call("metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=True).topics)
    later = eventually(
        lambda: only(
            client.call("metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False).topics
        ),
        lambda found: found.error_code == 0,
    )

    assert rejected.error_code == 3
    assert first.error_code in (0, 3, 5)
    assert later.error_code == 0
    assert len(later.partitions) >= 1


@pytest.mark.parametrize("name", ["has space", "a/b", "..", ".", "x" * 250, "", "naïve"])
def test_trap_11_an_illegal_name_is_17_and_is_not_created(client: WireClient, name: str) -> None:
    found = only(client.call("metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=True).topics)

    assert found.error_code == 17
    assert name not in {one.name for one in client.call("metadata", 12, topics=None).topics}


def test_trap_11_an_unknown_topic_id_is_100(client: WireClient) -> None:
    wanted = {"topic_id": os.urandom(16), "name": None}

    found = only(client.call("metadata", 12, topics=[wanted]).topics)

    assert (found.error_code, found.name) == (100, None)
    assert found.topic_id == wanted["topic_id"]


def test_trap_11_a_topic_is_found_by_its_id(client: WireClient, topic: str) -> None:
    topic_id = topic_id_of(client, topic)

    found = only(client.call("metadata", 12, topics=[{"topic_id": topic_id, "name": None}]).topics)

    assert (found.error_code, found.name) == (0, topic)


def test_trap_28_ids_without_a_name_are_new_each_time(client: WireClient) -> None:
    def ask() -> Any:
        return client.call("init_producer_id", 4, transactional_id=None, transaction_timeout_ms=60000)

    first = eventually(ask, lambda found: found.error_code == 0)
    second = ask()

    assert (first.error_code, first.producer_epoch) == (0, 0)
    assert second.producer_id > first.producer_id


def describe(client: WireClient, kind: int, name: str, **fields: Any) -> Any:
    request = {"configuration_keys": None, **fields.pop("resource", {})}
    answer = client.call(
        "describe_configs", 4, resources=[{"resource_type": kind, "resource_name": name, **request}], **fields
    )
    return only(answer.results)


def test_trap_32_null_keys_are_all_configs_with_types_and_sources(client: WireClient) -> None:
    name = create_topic(client, retention_ms="1234567", flush_messages="77")

    configs = {one.name: one for one in describe(client, TOPIC, name, include_synonyms=True).configs}

    assert len(configs) >= 33
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("1234567", 1)
    assert configs["segment.bytes"].config_source == 5
    assert configs["retention.ms"].config_type == 5, "LONG"
    assert [one.source for one in configs["flush.messages"].synonyms] == [1, 5]
    assert [one.source for one in configs["retention.ms"].synonyms] == [1], "log.retention.ms has no default"
    assert [one.name for one in configs["segment.bytes"].synonyms] == ["log.segment.bytes"]


def test_trap_32_only_the_requested_keys_are_described(client: WireClient, topic: str) -> None:
    keys = ["cleanup.policy", "no.such.config"]

    found = describe(client, TOPIC, topic, resource={"configuration_keys": keys})

    assert [one.name for one in found.configs] == ["cleanup.policy"]


def test_trap_32_unknown_topics_and_other_brokers_are_errors(client: WireClient) -> None:
    assert describe(client, TOPIC, "no-such-topic").error_code == 3
    assert describe(client, BROKER, "987654").error_code == 42
    assert describe(client, BROKER, "not-a-number").error_code == 42


def test_trap_32_the_configs_of_a_broker_that_clients_read_have_values(client: WireClient) -> None:
    broker = only(client.call("metadata", 12, topics=[]).brokers).node_id
    configs = {one.name: one for one in describe(client, BROKER, str(broker)).configs}

    for name in ("num.partitions", "default.replication.factor", "message.max.bytes", "compression.type"):
        assert configs[name].value is not None
    assert configs["message.max.bytes"].value == "1048588"
    assert configs["log.cleaner.threads"].config_source == 5


def test_trap_30_producer_ids_are_kept_for_a_day(client: WireClient) -> None:
    broker = only(client.call("metadata", 12, topics=[]).brokers).node_id
    configs = {one.name: one for one in describe(client, BROKER, str(broker)).configs}

    kept = configs["producer.id.expiration.ms"]
    assert (kept.value, kept.config_source) == ("86400000", 5)


def alter(
    client: WireClient, topic: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> Any:
    configs = [
        {"name": name, "config_operation": operation, "value": value} for name, operation, value in changes
    ]
    resource = {"resource_type": TOPIC, "resource_name": topic, "configs": configs}
    return only(
        client.call(
            "incremental_alter_configs", 1, resources=[resource], validate_only=validate_only
        ).responses
    )


def value_of(client: WireClient, topic: str, name: str) -> Any:
    return only(describe(client, TOPIC, topic, resource={"configuration_keys": [name]}).configs).value


def test_trap_33_incremental_changes_set_delete_append_and_subtract(client: WireClient, topic: str) -> None:
    def becomes(name: str, value: str) -> bool:
        return bool(eventually(lambda: value_of(client, topic, name), lambda found: found == value) == value)

    assert alter(client, topic, ("retention.ms", SET, "777")).error_code == 0
    assert becomes("retention.ms", "777")
    assert alter(client, topic, ("cleanup.policy", APPEND, "compact")).error_code == 0
    assert becomes("cleanup.policy", "delete,compact")
    assert alter(client, topic, ("cleanup.policy", SUBTRACT, "delete")).error_code == 0
    assert becomes("cleanup.policy", "compact")
    assert alter(client, topic, ("retention.ms", DELETE, None)).error_code == 0
    assert becomes("retention.ms", "604800000")
    assert alter(client, topic, ("retention.ms", SET, "5"), validate_only=True).error_code == 0
    assert value_of(client, topic, "retention.ms") == "604800000"


def test_trap_33_invalid_changes_are_rejected(client: WireClient, topic: str, is_reference: bool) -> None:
    assert alter(client, topic, ("retention.ms", SET, "soon")).error_code == 40
    assert alter(client, topic, ("no.such.config", SET, "1")).error_code == 40
    assert alter(client, topic, ("retention.ms", APPEND, "1")).error_code == 40
    # There is no such operation: in Kafka an exception leads to UNKNOWN_SERVER_ERROR.
    assert alter(client, topic, ("retention.ms", 9, "1")).error_code == (-1 if is_reference else 42)
    assert alter(client, topic, ("retention.ms", SET, "1"), ("retention.ms", SET, "2")).error_code == 42
    assert alter(client, "no-such-topic", ("retention.ms", SET, "1")).error_code == 3


def test_trap_33_groups_and_client_metrics_have_configs(client: WireClient) -> None:
    name = f"trap-33-{uuid4().hex[:8]}"

    group, metrics = describe(client, GROUP, name), describe(client, CLIENT_METRICS, name)

    assert (group.error_code, metrics.error_code) == (0, 0)
    assert "consumer.session.timeout.ms" in {one.name for one in group.configs}


def test_trap_33_alter_configs_replaces_the_whole_set(client: WireClient) -> None:
    name = create_topic(client, retention_ms="1000", segment_bytes="2000000")
    resource = {
        "resource_type": TOPIC,
        "resource_name": name,
        "configs": [{"name": "retention.ms", "value": "2000"}],
    }

    answer = only(client.call("alter_configs", 2, resources=[resource], validate_only=False).responses)

    assert answer.error_code == 0
    assert eventually(lambda: value_of(client, name, "retention.ms"), lambda found: found == "2000") == "2000"
    assert value_of(client, name, "segment.bytes") == "1073741824"


def create(client: WireClient, name: str, version: int = 7, **fields: Any) -> Any:
    wanted = {"name": name, "num_partitions": 1, "replication_factor": 1, **fields}
    return only(client.call("create_topics", version, topics=[wanted], timeout_ms=5000).topics)


def test_trap_34_created_topics_are_returned_with_counts_configs_and_id(client: WireClient) -> None:
    found = create(client, f"t34-{uuid4().hex[:8]}", num_partitions=-1, replication_factor=-1)
    configs = {one.name: one for one in found.configs}

    assert found.error_code == 0
    assert (found.num_partitions, found.replication_factor) == (1, 1)
    assert found.topic_id != bytes(16)
    assert configs["cleanup.policy"].value == "delete"


def test_trap_34_invalid_topics_are_rejected(client: WireClient, topic: str) -> None:
    name = f"t34.{uuid4().hex[:8]}"
    assert create(client, name).error_code == 0
    colliding = create(client, name.replace(".", "_"))
    bad_value = create(client, f"{name}-b", configs=[{"name": "retention.ms", "value": "soon"}])
    bad_name = create(client, f"{name}-c", configs=[{"name": "no.such", "value": "1"}])

    assert create(client, topic).error_code == 36
    assert create(client, f"{name}-d", replication_factor=3).error_code == 38
    assert create(client, f"{name}-e", num_partitions=0).error_code == 37
    assert (bad_value.error_code, bool(bad_value.error_message)) == (40, True)
    assert (bad_name.error_code, bool(bad_name.error_message)) == (40, True)
    assert colliding.error_code == 17
    for illegal in ("a b", ".", "..", "x" * 250, "", "a/b", "../etc"):
        assert create(client, illegal).error_code == 17, illegal


def test_trap_34_validate_only_creates_nothing(client: WireClient) -> None:
    name = f"t34-{uuid4().hex[:8]}"
    wanted = {"name": name, "num_partitions": 2, "replication_factor": 1}

    answer = only(
        client.call("create_topics", 7, topics=[wanted], timeout_ms=5000, validate_only=True).topics
    )

    assert answer.error_code == 0
    found = client.call("metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False)
    assert only(found.topics).error_code == 3


def test_trap_35_describe_topic_partitions_pages_with_a_cursor(client: WireClient) -> None:
    name = create_topic(client, partitions=5)
    first = client.call(
        "describe_topic_partitions", 0, topics=[{"name": name}], response_partition_limit=2, cursor=None
    )
    rest = client.call(
        "describe_topic_partitions",
        0,
        topics=[{"name": name}],
        response_partition_limit=10,
        cursor={"topic_name": name, "partition_index": 2},
    )

    assert [one.partition_index for one in only(first.topics).partitions] == [0, 1]
    assert (first.next_cursor.topic_name, first.next_cursor.partition_index) == (name, 2)
    assert [one.partition_index for one in only(rest.topics).partitions] == [2, 3, 4]
    assert rest.next_cursor is None


def test_trap_35_an_unknown_topic_is_3(client: WireClient) -> None:
    answer = client.call("describe_topic_partitions", 0, topics=[{"name": "no-such-topic"}])

    assert only(answer.topics).error_code == 3


def test_trap_36_sasl_handshake_on_a_plaintext_listener_is_an_illegal_state_or_not_served(
    client: WireClient,
) -> None:
    keys = {one.api_key for one in client.call("api_versions", 0).api_keys}
    if 17 in keys:
        assert client.call("sasl_handshake", 1, mechanism="PLAIN").error_code == 34
    else:
        client.send("sasl_handshake", 1, mechanism="PLAIN")
        assert client.is_closed()
