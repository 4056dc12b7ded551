"""The handlers of metadata, topics, configs, cluster and producer ids, version by version."""

import asyncio
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.topic_partition import uuid_to_text
from ottla.node.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from ottla.node.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.node.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.node.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.node.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.node.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.node.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.node.wire.messages.incremental_alter_configs import (
    AlterableConfig as IncrementalConfig,
)
from ottla.node.wire.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from ottla.node.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.node.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.node.wire.messages.list_config_resources import ListConfigResourcesRequest
from ottla.node.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.node.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.unit.metadata_raft.metadata_world import CLUSTER_ID
from tests.unit.node.metadata.metadata_node import MetadataNode, ask

TOPIC, BROKER, GROUP = 2, 4, 32
COUNT = 100


def creation(*names: str, partitions: int = 3) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=-1,
                configs=[CreatableTopicConfig(name="retention.ms", value="1000")],
            )
            for name in names
        ]
    )


def by_name(*names: str, create: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=create
    )


@pytest.mark.parametrize("is_all", [False, True])
def test_a_suspected_leader_is_waited_for_and_no_leader_is_returned_if_it_is_gone(
    is_all: bool,
) -> None:
    async def scenario() -> None:
        node = MetadataNode()
        await node.start()
        await node.ask(7, creation("orders"))
        request = MetadataRequest(topics=None) if is_all else by_name("orders")
        (before,) = (await node.ask(12, request)).topics
        suspects = node.metadata.suspects

        suspects.suspect(node.config.node_id)
        pending = asyncio.ensure_future(node.ask(12, request))
        await asyncio.sleep(0.05)
        assert not pending.done()
        suspects.trust(node.config.node_id)
        assert (await pending).topics == [before], "it was a false alarm"

        suspects.suspect(node.config.node_id)
        suspects.mark_gone(node.config.node_id)
        (during,) = (await node.ask(12, request)).topics
        assert {(one.leader_id, one.error_code) for one in during.partitions} == {
            (-1, ErrorCode.LEADER_NOT_AVAILABLE)
        }

        suspects.trust(node.config.node_id)
        assert (await node.ask(12, request)).topics == [before], "that response was not cached"

    asyncio.run(scenario())


@pytest.mark.parametrize("version", range(14))
def test_all_topics_are_requested_with_null_and_in_version_0_with_an_empty_list(version: int) -> None:
    everything = MetadataRequest(topics=[] if version == 0 else None)

    _, answer = ask((7, creation("a", "b")), (version, everything))

    assert [topic.name for topic in answer.topics] == ["a", "b"]
    assert [len(topic.partitions) for topic in answer.topics] == [3, 3]
    assert [(one.node_id, one.host, one.port) for one in answer.brokers] == [(0, "localhost", 9092)]
    if version >= 1:
        assert answer.controller_id == 0 and answer.brokers[0].rack == "r1"
    if version >= 2:
        assert answer.cluster_id == uuid_to_text(CLUSTER_ID)
    if version >= 8:
        assert answer.topics[0].topic_authorized_operations == -(2**31)


def test_an_empty_list_means_no_topics_since_version_1() -> None:
    _, answer = ask((7, creation("a")), (1, MetadataRequest(topics=[])))

    assert answer.topics == [] and answer.brokers


def test_topics_are_found_by_id_since_version_12() -> None:
    made, known, unknown = ask(
        (7, creation("a")),
        (12, by_name("a")),
        (12, MetadataRequest(topics=[MetadataRequestTopic(topic_id=b"x" * 16, name=None)])),
    )

    assert known.topics[0].topic_id == made.topics[0].topic_id
    assert unknown.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert unknown.topics[0].topic_id == b"x" * 16 and unknown.topics[0].name is None


def test_a_missing_topic_is_created_for_a_client_that_retries() -> None:
    first, second = ask((12, by_name("new", "bad/name", create=True)), (12, by_name("new")))

    assert [topic.error_code for topic in first.topics] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert second.topics[0].error_code == 0 and len(second.topics[0].partitions) == 1


@pytest.mark.parametrize(
    ("create", "settings"), [(False, {}), (True, {"auto.create.topics.enable": "false"})]
)
def test_a_missing_topic_stays_missing_if_it_may_not_be_created(
    create: bool, settings: dict[str, str]
) -> None:
    answers = ask((12, by_name("new", create=create)), (12, by_name("new")), settings=settings)

    assert [answer.topics[0].error_code for answer in answers] == [3, 3]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("a.b", {}),  # collides with a_b
        ("__cluster_metadata", {}),
        ("new", {"default.replication.factor": "3"}),
    ],
)
def test_a_creation_that_fails_leaves_the_topic_unknown(name: str, settings: dict[str, str]) -> None:
    _, first, second = ask(
        (7, creation("a_b")),
        (12, by_name(name, create=True)),
        (12, by_name(name, create=True)),
        settings=settings,
    )

    assert [answer.topics[0].error_code for answer in (first, second)] == [3, 3]


def test_the_offsets_topic_is_created_as_its_settings_say() -> None:
    _, answer, configs = ask(
        (12, by_name("__consumer_offsets", create=True)),
        (12, by_name("__consumer_offsets")),
        (
            4,
            DescribeConfigsRequest(
                resources=[DescribeConfigsResource(resource_type=TOPIC, resource_name="__consumer_offsets")]
            ),
        ),
        settings={"offsets.topic.num.partitions": "7"},
    )

    assert answer.topics[0].is_internal and len(answer.topics[0].partitions) == 7
    values = {config.name: config.value for config in configs.results[0].configs}
    assert values["cleanup.policy"] == "compact" and values["segment.bytes"] == str(100 * 1024 * 1024)


def test_authorized_operations_are_returned_on_request() -> None:
    request = MetadataRequest(
        topics=None, include_topic_authorized_operations=True, include_cluster_authorized_operations=True
    )

    _, eight, twelve = ask(
        (7, creation("a")),
        (8, request),
        (12, MetadataRequest(topics=None, include_topic_authorized_operations=True)),
    )

    assert eight.topics[0].topic_authorized_operations == 3576
    assert eight.cluster_authorized_operations == 8096
    assert twelve.topics[0].topic_authorized_operations == 3576


def test_a_cached_response_is_dropped_when_the_metadata_change() -> None:
    answers = ask(
        (9, by_name("a")),
        (7, creation("a")),
        (9, by_name("a")),
        (9, by_name("a")),
        (3, CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=4, assignments=None)])),
        (9, by_name("a")),
    )

    assert answers[0].topics[0].error_code == 3
    assert [len(answer.topics[0].partitions) for answer in (answers[2], answers[3], answers[5])] == [3, 3, 4]


@pytest.mark.parametrize("version", range(2, 8))
def test_a_created_topic_is_shown_as_far_as_the_version_can(version: int) -> None:
    made, again = ask((version, creation("a")), (version, creation("a", "__cluster_metadata")))

    topic = made.topics[0]
    assert (topic.name, topic.error_code) == ("a", 0)
    if version >= 5:
        assert (topic.num_partitions, topic.replication_factor) == (3, 1)
        shown = {config.name: (config.value, config.config_source) for config in topic.configs}
        assert shown["retention.ms"] == ("1000", 1) and len(shown) == 41
    assert (topic.topic_id != bytes(16)) == (version >= 7)
    assert [topic.error_code for topic in again.topics] == [
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_REQUEST,
    ]


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted_by_every_version(version: int) -> None:
    request = (
        DeleteTopicsRequest(topics=[DeleteTopicState(name="a"), DeleteTopicState(name="b")])
        if version >= 6
        else DeleteTopicsRequest(topic_names=["a", "b"])
    )

    _, deleted, disabled = (
        *ask((7, creation("a")), (version, request)),
        *ask((version, request), settings={"delete.topic.enable": "false"}),
    )

    assert {one.name: one.error_code for one in deleted.responses} == {"a": 0, "b": 3}
    expected = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    assert {one.error_code for one in disabled.responses} == {expected}


def test_a_topic_is_deleted_by_its_id() -> None:
    async def scenario() -> tuple[Any, Any]:
        node = MetadataNode()
        await node.start()
        created = (await node.ask(7, creation("a", "b"))).topics
        states = [DeleteTopicState(topic_id=topic_id) for topic_id in (created[0].topic_id, b"x" * 16)]
        deleted = await node.ask(6, DeleteTopicsRequest(topics=states))
        return deleted, await node.ask(12, MetadataRequest(topics=None))

    deleted, listing = asyncio.run(scenario())

    assert {(one.name, one.error_code) for one in deleted.responses} == {
        ("a", ErrorCode.NONE),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
    }
    assert [one.name for one in listing.topics] == ["b"]


def described(kind: int, name: str, *keys: str, documentation: bool = False) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
            )
        ],
        include_synonyms=True,
        include_documentation=documentation,
    )


@pytest.mark.parametrize("version", [3, 4])
def test_a_resource_is_answered_as_often_as_it_is_named(version: int) -> None:
    one = described(TOPIC, "a", "segment.bytes").resources[0]
    other = described(TOPIC, "a", "retention.ms").resources[0]
    unknown = described(TOPIC, "unknown").resources[0]

    _, answer = ask(
        (7, creation("a")), (version, DescribeConfigsRequest(resources=[one, other, unknown] * 500))
    )

    assert len(answer.results) == 1500
    assert [[config.name for config in result.configs] for result in answer.results[-3:]] == [
        ["segment.bytes"],
        ["retention.ms"],
        [],
    ]
    assert answer.results[2].error_code == answer.results[-1].error_code == 3


def test_synonyms_come_in_kafkas_order() -> None:
    changes = [
        IncrementalResource(
            resource_type=kind,
            resource_name=name,
            configs=[IncrementalConfig(name=key, config_operation=0, value=value)],
        )
        for kind, name, key, value in (
            (TOPIC, "a", "max.message.bytes", "1"),
            (BROKER, "0", "message.max.bytes", "2"),
            (BROKER, "", "message.max.bytes", "3"),
        )
    ]

    _, altered, answer, broker, cluster = ask(
        (7, creation("a")),
        (1, IncrementalAlterConfigsRequest(resources=changes)),
        (4, described(TOPIC, "a", "max.message.bytes")),
        (4, described(BROKER, "0", "message.max.bytes")),
        (4, described(BROKER, "")),
        settings={"message.max.bytes": "4"},
    )

    assert [one.error_code for one in altered.responses] == [0, 0, 0]
    (entry,) = answer.results[0].configs
    assert [(one.name, one.value, one.source) for one in entry.synonyms] == [
        ("max.message.bytes", "1", 1),
        ("message.max.bytes", "2", 2),
        ("message.max.bytes", "3", 3),
        ("message.max.bytes", "4", 4),
        ("message.max.bytes", "1048588", 5),
    ]
    assert (entry.value, entry.config_source, entry.config_type) == ("1", 1, 3)
    assert [(one.value, one.config_source) for one in broker.results[0].configs] == [("2", 2)]
    assert [(one.name, one.value, one.config_source) for one in cluster.results[0].configs] == [
        ("message.max.bytes", "3", 3),
        ("min.insync.replicas", "1", 3),  # in a new cluster, for eligible leader replicas
    ]


def test_a_groups_setting_precedes_the_brokers() -> None:
    session, assignment = "consumer.session.timeout.ms", "consumer.assignment.interval.ms"
    changes = [
        IncrementalResource(
            resource_type=kind,
            resource_name=name,
            configs=[IncrementalConfig(name=key, config_operation=0, value=value)],
        )
        for kind, name, key, value in (
            (GROUP, "g", session, "50000"),
            (BROKER, "", f"group.{assignment}", "2000"),
            (GROUP, "out of range", session, "1"),
            (BROKER, "0", f"group.{assignment}", "20000"),
        )
    ]

    altered, answer, removed, after = ask(
        (1, IncrementalAlterConfigsRequest(resources=changes)),
        (4, described(GROUP, "g", session, assignment, "share.isolation.level", "share.session.timeout.ms")),
        (
            1,
            IncrementalAlterConfigsRequest(
                resources=[
                    IncrementalResource(
                        resource_type=GROUP,
                        resource_name="g",
                        configs=[IncrementalConfig(name=session, config_operation=1, value=None)],
                    )
                ]
            ),
        ),
        (4, described(GROUP, "g", session)),
        settings={f"group.{session}": "46000"},
    )

    assert [(one.error_code, one.error_message) for one in altered.responses] == [
        (0, None),
        (0, None),
        (40, f"{session} must be greater than or equal to group.consumer.min.session.timeout.ms"),
        (42, f"group.{assignment} must be less than or equal to group.consumer.max.assignment.interval.ms"),
    ]
    shown = {
        one.name: (
            one.value,
            one.config_source,
            [(each.name, each.value, each.source) for each in one.synonyms],
        )
        for one in answer.results[0].configs
    }
    broker_session = [(f"group.{session}", "46000", 4), (f"group.{session}", "45000", 5)]
    assert shown == {
        session: ("50000", 8, [(session, "50000", 8), *broker_session]),
        assignment: ("2000", 3, [(f"group.{assignment}", "2000", 3), (f"group.{assignment}", "1000", 5)]),
        "share.isolation.level": ("read_uncommitted", 5, [("share.isolation.level", "read_uncommitted", 5)]),
        "share.session.timeout.ms": ("45000", 5, [("group.share.session.timeout.ms", "45000", 5)]),
    }
    assert removed.responses[0].error_code == 0
    assert [(one.value, one.config_source) for one in after.results[0].configs] == [("46000", 4)]


def test_only_the_creation_of_a_topic_shows_the_source_of_a_setting_given_in_hours_as_in_kafka() -> None:
    made, answer = ask(
        (7, CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1)])),
        (4, described(TOPIC, "a", "retention.ms", "segment.jitter.ms")),
        settings={"log.retention.hours": "1"},
    )

    shown = {
        one.name: (one.value, one.config_source, list(one.synonyms)) for one in answer.results[0].configs
    }
    assert shown == {"retention.ms": ("3600000", 5, []), "segment.jitter.ms": ("0", 5, [])}
    configs = {one.name: (one.value, one.config_source) for one in made.topics[0].configs}
    assert (configs["retention.ms"], configs["segment.jitter.ms"]) == (("3600000", 4), ("0", 5))


def test_an_internal_setting_is_shown_where_it_is_set() -> None:
    name = "internal.segment.bytes"
    topics = [
        CreatableTopic(
            name=topic,
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=name, value="1000")] if is_set else [],
        )
        for topic, is_set in (("with", True), ("without", False))
    ]

    made, with_it, without = ask(
        (7, CreateTopicsRequest(topics=topics)),
        (4, described(TOPIC, "with", name)),
        (4, described(TOPIC, "without", name)),
    )

    assert [name in {one.name for one in topic.configs} for topic in made.topics] == [True, False]
    (entry,) = with_it.results[0].configs
    assert (entry.value, entry.config_source) == ("1000", 1)
    assert [(one.name, one.value, one.source) for one in entry.synonyms] == [(name, "1000", 1)]
    assert without.results[0].configs == []


@pytest.mark.parametrize("resource", ["0", ""])
def test_a_pool_of_workers_changes_in_steps_and_all_else_at_once(resource: str) -> None:
    def change(name: str, value: str | None, operation: int = 0) -> IncrementalAlterConfigsRequest:
        configs = [IncrementalConfig(name=name, config_operation=operation, value=value)]
        one = IncrementalResource(resource_type=BROKER, resource_name=resource, configs=configs)
        return IncrementalAlterConfigsRequest(resources=[one])

    def replaced(values: dict[str, str]) -> AlterConfigsRequest:
        kept = {} if resource else {"min.insync.replicas": "1"}
        configs = [AlterableConfig(name=name, value=value) for name, value in (kept | values).items()]
        one = AlterConfigsResource(resource_type=BROKER, resource_name=resource, configs=configs)
        return AlterConfigsRequest(resources=[one])

    pool = "log.cleaner.threads"
    answers = ask(
        (1, change(pool, "9")),
        (1, change(pool, "many")),
        (1, change(pool, "4")),
        (1, change("log.retention.ms", "7")),
        (1, change(pool, "1")),
        (1, change(pool, "8")),
        (1, change(pool, None, 1)),
        (1, replaced({})),
        (1, replaced({pool: "8", "log.retention.ms": "7"})),
        (1, change(pool, "4")),
        (1, change(pool, None, 1)),
        settings={pool: "2"},
    )

    codes = [answer.responses[0].error_code for answer in answers]
    assert codes == [42, 42, 0, 0, 42, 0, 42, 42, 0, 0, 0]
    assert [answer.responses[0].error_message for answer in (answers[0], answers[4])] == [
        f"Dynamic thread count update validation failed for {pool}=9, value should not be greater than double"
        " the current value 2",
        f"Dynamic thread count update validation failed for {pool}=1, value should be at least half the"
        " current value 4",
    ]


def test_the_setting_of_one_listener_falls_back_to_that_of_all() -> None:
    name = "listener.name.inner.max.connections"
    change = IncrementalResource(
        resource_type=BROKER,
        resource_name="0",
        configs=[IncrementalConfig(name=name, config_operation=0, value="7")],
    )

    altered, answer = ask(
        (1, IncrementalAlterConfigsRequest(resources=[change])),
        (4, described(BROKER, "0", name)),
        settings={"max.connections": "9"},
    )

    assert altered.responses[0].error_code == 0
    (entry,) = answer.results[0].configs
    assert (entry.name, entry.value, entry.config_source) == (name, "7", 2)
    assert [(one.name, one.value, one.source) for one in entry.synonyms] == [
        (name, "7", 2),
        ("max.connections", "9", 4),
        ("max.connections", "2147483647", 5),
    ]


def test_documentation_is_returned_on_request() -> None:
    without, with_it = ask(
        (4, described(BROKER, "0", "num.partitions")),
        (4, described(BROKER, "0", "num.partitions", documentation=True)),
    )

    assert without.results[0].configs[0].documentation is None
    assert with_it.results[0].configs[0].documentation
    assert with_it.results[0].configs[0].read_only


DESCRIPTIONS = [
    (TOPIC, "nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (TOPIC, "bad/name", ErrorCode.INVALID_TOPIC_EXCEPTION),
    (BROKER, "7", ErrorCode.INVALID_REQUEST),
    (BROKER, "x", ErrorCode.INVALID_REQUEST),
    (GROUP, "", ErrorCode.INVALID_REQUEST),
    (GROUP, "g", ErrorCode.NONE),
    (8, "0", ErrorCode.NONE),
    (8, "", ErrorCode.INVALID_REQUEST),
    (99, "x", ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(("kind", "name", "error"), DESCRIPTIONS)
def test_a_resource_is_described_or_rejected_with_its_error(kind: int, name: str, error: ErrorCode) -> None:
    (answer,) = ask((1, described(kind, name)))

    assert answer.results[0].error_code == error
    assert (answer.results[0].resource_type, answer.results[0].resource_name) == (kind, name)


def test_the_old_alter_configs_replaces_and_answers_in_order() -> None:
    def resource(kind: int, name: str, key: str, value: str | None) -> AlterConfigsResource:
        return AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=[AlterableConfig(name=key, value=value)]
        )

    _, altered, answer = ask(
        (7, creation("a")),
        (
            2,
            AlterConfigsRequest(
                resources=[
                    resource(TOPIC, "nobody", "segment.ms", "5"),
                    resource(TOPIC, "a", "segment.ms", "5"),
                    resource(BROKER, "9", "message.max.bytes", "5"),
                    resource(8, "0", "root", "DEBUG"),
                    resource(99, "x", "y", "z"),
                    resource(BROKER, "0", "message.max.bytes", None),
                ]
            ),
        ),
        (4, described(TOPIC, "a")),
    )

    assert [one.error_code for one in altered.responses] == [3, 0, 42, 42, 42, 42]
    own = {one.name for one in answer.results[0].configs if one.config_source == 1}
    assert own == {"segment.ms"}


def test_an_unknown_operation_is_refused() -> None:
    change = IncrementalConfig(name="segment.ms", config_operation=9, value="1")

    (answer,) = ask(
        (
            1,
            IncrementalAlterConfigsRequest(
                resources=[IncrementalResource(resource_type=TOPIC, resource_name="a", configs=[change])]
            ),
        )
    )

    assert answer.responses[0].error_code == ErrorCode.INVALID_REQUEST


def pages(limit: int) -> list[tuple[str, int]]:
    """Return (topic, partition) of all pages of three topics with three partitions."""
    seen: list[tuple[str, int]] = []
    cursor: Cursor | None = None
    for _ in range(10):
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in ("b", "a", "c")],
            response_partition_limit=limit,
            cursor=cursor,
        )
        _, answer = ask((7, creation("a", "b", "c")), (0, request))
        seen += [(topic.name, one.partition_index) for topic in answer.topics for one in topic.partitions]
        cursor = answer.next_cursor
        if cursor is None:
            return seen
    raise AssertionError("paging does not end")


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 9, 2000])
def test_pages_have_every_partition_once_and_in_order(limit: int) -> None:
    assert pages(limit) == [(name, index) for name in "abc" for index in range(3)]


def test_an_unknown_topic_is_listed_among_the_others() -> None:
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="x"), TopicRequest(name="a")])

    _, answer = ask((7, creation("a")), (0, request))

    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("a", 0), ("x", 3)]
    assert answer.topics[0].topic_authorized_operations == 3576


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_described(version: int) -> None:
    (answer,) = ask((version, DescribeClusterRequest(include_cluster_authorized_operations=True)))

    assert answer.cluster_id == uuid_to_text(CLUSTER_ID) and answer.controller_id == 0
    assert [(one.broker_id, one.host, one.port) for one in answer.brokers] == [(0, "localhost", 9092)]
    assert answer.cluster_authorized_operations == 8096


def test_controllers_are_not_described_by_brokers() -> None:
    controllers, invalid = ask(
        (1, DescribeClusterRequest(endpoint_type=2)), (1, DescribeClusterRequest(endpoint_type=9))
    )

    assert controllers.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert invalid.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_an_id_of_its_own(version: int) -> None:
    answers = ask(*[(version, InitProducerIdRequest(transactional_id=None))] * 3)

    assert [(one.producer_id, one.producer_epoch, one.error_code) for one in answers] == [
        (0, 0, 0),
        (1, 0, 0),
        (2, 0, 0),
    ]


def test_an_invalid_producer_is_rejected() -> None:
    answers = ask(
        (5, InitProducerIdRequest(transactional_id="")),
        (5, InitProducerIdRequest(transactional_id=None, producer_id=5, producer_epoch=-1)),
    )

    assert [one.error_code for one in answers] == [42, 42]


def test_resources_with_settings_are_listed() -> None:
    _, none, all_, topics, invalid = ask(
        (7, creation("a")),
        (0, ListConfigResourcesRequest()),
        (1, ListConfigResourcesRequest()),
        (1, ListConfigResourcesRequest(resource_types=[TOPIC])),
        (1, ListConfigResourcesRequest(resource_types=[77])),
    )

    assert none.config_resources == []
    assert [(one.resource_type, one.resource_name) for one in all_.config_resources] == [
        (TOPIC, "a"),
        (BROKER, "0"),
        (8, "0"),
    ]
    assert [one.resource_name for one in topics.config_resources] == ["a"]
    assert invalid.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_cursor_at_a_topic_that_was_not_asked_for_is_refused() -> None:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name="a")], cursor=Cursor(topic_name="z", partition_index=0)
    )

    _, answer = ask((7, creation("a")), (0, request))

    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("a", 42)]


@pytest.mark.parametrize(
    ("version", "request_of_many", "part", "expected"),
    [
        (7, creation(*(f"new-{number}" for number in range(COUNT))), "topics", COUNT),
        (0, DescribeTopicPartitionsRequest(), "topics", COUNT),
        (1, ListConfigResourcesRequest(resource_types=[TOPIC]), "config_resources", COUNT),
        (0, ListPartitionReassignmentsRequest(), "topics", 0),
    ],
    ids=["CreateTopics", "DescribeTopicPartitions", "ListConfigResources", "ListPartitionReassignments"],
)
def test_a_small_request_with_a_large_answer_is_answered_in_turns(
    version: int, request_of_many: Any, part: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.node.work.turns.STEPS_PER_TURN", 16)
    monkeypatch.setattr("ottla.node.work.turns.TURN_CPU_S", 0)
    others = 0

    async def other() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    async def scenario() -> Any:
        nonlocal others
        node = MetadataNode()
        await node.start()
        await node.ask(7, creation(*(f"old-{number}" for number in range(COUNT)), partitions=1))
        task = asyncio.create_task(other())
        await asyncio.sleep(0)
        others = 0
        answer = await node.ask(version, request_of_many)
        task.cancel()
        return answer

    answer = asyncio.run(scenario())

    assert others >= COUNT // 16
    assert len(getattr(answer, part)) == expected
