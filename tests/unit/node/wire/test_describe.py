"""Messages as readable text."""

import json

from ottla.logstore.words.topic_partition import uuid_to_text
from ottla.metadata_raft.commands import AlterConfigs, ConfigChange, ResourceChanges
from ottla.metadata_raft.records import ConfigRecord
from ottla.node.settings.broker_settings import BROKER_CONFIG_DEF
from ottla.node.wire.describe import MAX_BYTES, MAX_ELEMENTS, MAX_LINE_CHARACTERS, describe, describe_line
from ottla.node.wire.messages.alter_configs import AlterableConfig
from ottla.node.wire.messages.fetch import FetchRequest, FetchTopic
from ottla.node.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.node.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.node.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.node.wire.messages.sasl_authenticate import SaslAuthenticateRequest

TOPIC_ID = bytes(range(16))


def test_a_message_becomes_json_with_readable_ids_and_sizes() -> None:
    partition = PartitionProduceData(index=1, records=memoryview(bytes(500)))
    request = ProduceRequest(
        acks=-1, topic_data=[TopicProduceData(topic_id=TOPIC_ID, partition_data=[partition])]
    )

    described = describe(request, 13)

    assert json.loads(json.dumps(described)) == {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 0,
        "topic_data": [
            {
                "topic_id": uuid_to_text(TOPIC_ID),
                "partition_data": [{"index": 1, "records": "500 bytes of records"}],
            }
        ],
    }


def test_without_a_version_all_fields_are_shown() -> None:
    assert describe(FetchTopic(topic="t")) == {
        "topic": "t",
        "topic_id": uuid_to_text(bytes(16)),
        "partitions": [],
    }


def test_a_line_has_what_differs_from_the_defaults() -> None:
    response = FindCoordinatorResponse(
        coordinators=[Coordinator(key="g", node_id=1, host="h"), Coordinator()]
    )

    assert describe_line(response, 4) == (
        'FindCoordinatorResponse v4 (coordinators=[(key="g" node_id=1 host="h"), ()])'
    )
    assert describe_line(FetchRequest(topics=[])) == "FetchRequest ()"


def test_fields_of_other_versions_are_left_out_of_a_line() -> None:
    assert describe_line(FetchTopic(topic="t", topic_id=TOPIC_ID), 12) == 'FetchTopic v12 (topic="t")'


def test_long_values_are_cut() -> None:
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"\xab" * 1000)
    topics = [FetchTopic(topic=str(index)) for index in range(MAX_ELEMENTS + 5)]
    found = describe(FetchRequest(topics=topics))["topics"]

    metadata = describe(JoinGroupRequest(protocols=[protocol]))["protocols"]

    assert metadata == [{"name": "range", "metadata": "ab" * MAX_BYTES + "... 1000 bytes"}]
    assert isinstance(found, list) and (len(found), found[-1]) == (MAX_ELEMENTS + 1, "... 5 more")
    assert len(describe_line(FetchRequest(topics=topics))) == MAX_LINE_CHARACTERS


def test_secrets_are_not_shown() -> None:
    request = SaslAuthenticateRequest(auth_bytes=b"\x00alice\x00alice-secret")

    assert describe(request) == {"auth_bytes": "(secret)"}
    assert b"alice".hex() not in describe_line(request)


JAAS = "listener.name.internal.plain.sasl.jaas.config"


def test_the_values_of_secret_settings_are_not_shown_in_requests_commands_and_records() -> None:
    value, name = "a-password", JAAS
    change = ConfigChange(name=name, operation=0, value=value)
    command = AlterConfigs(
        resources=[ResourceChanges(resource_type=4, resource_name="1", changes=[change], replace_all=False)]
    )
    shown: list[object] = [
        AlterableConfig(name=name, value=value),
        ConfigRecord(resource_type=4, resource_name="1", name=name, value=value),
        command,
    ]

    for one in shown:
        assert value not in repr(one) + json.dumps(describe(one)) + describe_line(one)
    assert describe(change)["value"] == "(secret)"
    assert describe(ConfigChange(name=name, operation=1))["value"] is None, "deleted"
    assert describe(ConfigChange(name="retention.ms", operation=0, value="7"))["value"] == "7"


def test_every_secret_setting_of_a_node_is_known_as_one() -> None:
    secret = [key.name for key in BROKER_CONFIG_DEF if key.sensitive]

    shown = [one for one in secret if "canary" in repr(ConfigChange(name=one, operation=0, value="canary"))]

    assert shown == [] and "cluster.secret" in secret
