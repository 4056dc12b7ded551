"""The controller authorizes commands of clients by the entries before the command in the log."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, get_args

import pytest

import ottla.node.kafka_api
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import CLUSTER_NAME, AclOperation, AclPermissionType, PatternType, ResourceType
from ottla.metadata_raft.acl_set import AuthorizerSettings, ClientIdentity
from ottla.metadata_raft.cluster_features import SECURITY_VERSION
from ottla.metadata_raft.command_access import rights_needed
from ottla.metadata_raft.commands import (
    AlterConfigs,
    AlterPartition,
    Command,
    CreateAcls,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    NewAcl,
    NewPartitions,
    NewTopic,
    RequestId,
    ResourceChanges,
    TopicReference,
)
from ottla.metadata_raft.records import ConfigResourceType, FeatureLevelRecord
from tests.unit.metadata_raft.metadata_world import CONFIG, MetadataWorld

ALICE: Final = ClientIdentity("User:alice", "10.0.0.1")
TOPIC_FAILED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
CLUSTER_FAILED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.fixture
def world() -> MetadataWorld:
    config = replace(CONFIG, authorizer=AuthorizerSettings(frozenset({"User:root"})))
    made = MetadataWorld(config)
    made.append([FeatureLevelRecord(name=SECURITY_VERSION, feature_level=1)])
    return made


def acl(world: MetadataWorld, operation: AclOperation, **changes: Any) -> None:
    """Create an entry for alice, on the topic t unless `changes` differ."""
    fields = {
        "id": world.uuid(),
        "resource_type": ResourceType.TOPIC,
        "resource_name": "t",
        "pattern_type": PatternType.LITERAL,
        "principal": ALICE.principal,
        "host": "*",
        "operation": operation,
        "permission_type": AclPermissionType.ALLOW,
    }
    world.submit(CreateAcls(creations=[NewAcl(**{**fields, **changes})]))


def of_cluster() -> dict[str, Any]:
    return {"resource_type": ResourceType.CLUSTER, "resource_name": CLUSTER_NAME}


def refusal(
    world: MetadataWorld, command: Command, client: ClientIdentity | None = ALICE
) -> ErrorCode | None:
    """Return the error that rejects a command as a whole, None if it is decided."""
    try:
        world.controller.decide(command, world.now_ms, None, client)
    except KafkaError as error:
        return error.code
    return None


def new_topics(world: MetadataWorld, *names: str) -> CreateTopics:
    return CreateTopics(topics=[NewTopic(name=name, topic_id=world.uuid()) for name in names])


def test_every_command_needs_a_right(world: MetadataWorld) -> None:
    named = {
        CreateTopics: new_topics(world, "t"),
        DeleteTopics: DeleteTopics(topics=[TopicReference(name="t")]),
        CreatePartitions: CreatePartitions(topics=[NewPartitions(name="t", count=2)]),
        AlterConfigs: AlterConfigs(
            resources=[ResourceChanges(resource_type=ConfigResourceType.BROKER, resource_name="0")]
        ),
    }

    for command_type in get_args(Command):
        command = named.get(command_type) or command_type()
        assert list(rights_needed(command, world.image.topics)), command_type.__name__
        assert refusal(world, command) is not None, command_type.__name__


@pytest.mark.parametrize(
    ("operation", "where"), [(AclOperation.CREATE, {}), (AclOperation.CREATE, of_cluster())]
)
def test_a_topic_is_created_with_a_right_on_it_or_on_the_cluster(
    world: MetadataWorld, operation: AclOperation, where: dict[str, Any]
) -> None:
    assert refusal(world, new_topics(world, "t")) is TOPIC_FAILED

    acl(world, operation, **where)

    assert refusal(world, new_topics(world, "t")) is None
    assert refusal(world, new_topics(world, "t", "u")) == (None if where else TOPIC_FAILED)


def test_a_topic_is_not_deleted_by_its_id_without_a_right(world: MetadataWorld) -> None:
    world.submit(CreateTopics(topics=[world.topic("t")]))
    topic_id = world.image.topics.by_name["t"].topic_id
    acl(world, AclOperation.DESCRIBE)

    assert refusal(world, DeleteTopics(topics=[TopicReference(topic_id=topic_id)])) is TOPIC_FAILED
    acl(world, AclOperation.DELETE)
    assert refusal(world, DeleteTopics(topics=[TopicReference(topic_id=topic_id)])) is None
    assert refusal(world, DeleteTopics(topics=[TopicReference(topic_id=world.uuid())])) is None


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (ConfigResourceType.TOPIC, TOPIC_FAILED),
        (ConfigResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (ConfigResourceType.BROKER, CLUSTER_FAILED),
        (ConfigResourceType.CLIENT_METRICS, CLUSTER_FAILED),
    ],
)
def test_settings_are_changed_with_a_right_on_their_resource(
    world: MetadataWorld, kind: ConfigResourceType, code: ErrorCode
) -> None:
    command = AlterConfigs(resources=[ResourceChanges(resource_type=kind, resource_name="0")])

    assert refusal(world, command) is code
    assert refusal(world, command, ClientIdentity("User:root", "10.0.0.1")) is None


def test_a_denial_before_the_command_counts_even_if_it_is_not_committed(world: MetadataWorld) -> None:
    acl(world, AclOperation.ALTER, **of_cluster())
    committed = world.image
    elections = ElectLeaders(election_type=0)
    assert refusal(world, elections) is None

    acl(world, AclOperation.ALTER, permission_type=AclPermissionType.DENY, **of_cluster())

    assert refusal(world, elections) is CLUSTER_FAILED
    world.controller.reset(committed)
    assert refusal(world, elections) is None


def test_a_command_that_was_carried_out_gets_its_reply_again_even_if_it_is_denied_now(
    world: MetadataWorld,
) -> None:
    acl(world, AclOperation.CREATE)
    epoch = world.image.brokers[0].broker_epoch
    command, request = new_topics(world, "t"), RequestId(epoch, 0, 0)
    decision = world.controller.decide(command, world.now_ms, request, ALICE)
    world.append(decision.records)

    acl(world, AclOperation.CREATE, permission_type=AclPermissionType.DENY)

    assert world.controller.decide(command, world.now_ms, request, ALICE).reply == decision.reply
    with pytest.raises(KafkaError) as refused:
        world.controller.decide(command, world.now_ms, RequestId(epoch, 1, 0), ALICE)
    assert refused.value.code is TOPIC_FAILED


def test_commands_of_nodes_and_all_commands_without_an_authorizer_are_not_checked(
    world: MetadataWorld,
) -> None:
    open_world = MetadataWorld()

    assert refusal(world, new_topics(world, "t"), client=None) is None
    assert refusal(open_world, new_topics(open_world, "t")) is None
    assert refusal(world, AlterPartition(broker_id=0, broker_epoch=1)) is CLUSTER_FAILED


def test_handlers_name_the_client_of_each_command() -> None:
    """Without the client, the controller would carry out commands that the client may not send."""
    calls = []
    for module in Path(ottla.node.kafka_api.__path__[0]).glob("*.py"):
        text = module.read_text()
        for call in re.finditer(r"metadata\.submit\(", text):
            calls.append(_arguments(text[call.end() :]))
            assert "client" in calls[-1], f"{module.name}: {calls[-1]}"

    assert len(calls) > 10


def _arguments(text: str) -> str:
    depth = 1
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return text[:at]
    raise AssertionError("a call does not end")
