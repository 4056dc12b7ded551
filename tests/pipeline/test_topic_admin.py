"""Topics created and grown, and their settings changed, as an administrator does it."""

from typing import Any
from uuid import uuid4

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.wire.api_keys import ApiKey
from ottla.pipeline.client.client_settings import Role
from ottla.pipeline.client.connection import BrokerConnection, PendingRequest
from ottla.pipeline.client.topic_admin import (
    ConfigSource,
    NewTopic,
    alter_configs,
    create_partitions,
    create_topics,
    describe_configs,
)
from tests.compat.wire_client import eventually
from tests.pipeline.conftest import MakeClient
from tests.pipeline.topics import own_configs

pytestmark = pytest.mark.slow


def new_name() -> str:
    return f"t-{uuid4().hex}"


def code_of(error: KafkaError | None) -> ErrorCode | None:
    return None if error is None else error.code


def test_topics_are_made_with_partitions_and_settings(client: MakeClient) -> None:
    cluster, name, plain = client(Role.SINK), new_name(), new_name()

    made = create_topics(
        cluster,
        [
            NewTopic(name=name, partitions_count=3, configs={"cleanup.policy": "compact"}),
            NewTopic(name=plain),
        ],
    )

    assert made == {name: None, plain: None}
    assert len(cluster.topic(name).leaders) == 3
    assert len(cluster.topic(plain).leaders) >= 1
    configs = describe_configs(cluster, [name])[name]
    assert (configs["cleanup.policy"].value, configs["cleanup.policy"].source) == (
        "compact",
        ConfigSource.TOPIC,
    )
    assert configs["segment.ms"].source is not ConfigSource.TOPIC


def test_each_topic_has_an_answer_of_its_own(client: MakeClient) -> None:
    cluster, name = client(Role.SINK), new_name()
    create_topics(cluster, [NewTopic(name=name, partitions_count=1)])

    wrong = NewTopic(name=new_name(), configs={"retention.ms": "soon"})
    made = create_topics(cluster, [NewTopic(name=name), wrong, NewTopic(name="no name")])

    assert [*map(code_of, made.values())] == [
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert f"creating topic '{wrong.name}'" in str(made[wrong.name])


def test_topics_grow_and_do_not_shrink(client: MakeClient) -> None:
    cluster, name = client(Role.SINK), new_name()
    create_topics(cluster, [NewTopic(name=name, partitions_count=2)])
    assert len(cluster.topic(name).leaders) == 2

    assert create_partitions(cluster, {name: 4}) == {name: None}

    # Apache Kafka answers before its nodes know the topic, here and below.
    assert len(eventually(lambda: cluster.topic(name).leaders, lambda leaders: len(leaders) == 4)) == 4
    rejected = create_partitions(cluster, {name: 3, "nowhere": 2})
    assert [*map(code_of, rejected.values())] == [
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_settings_are_set_and_removed(client: MakeClient) -> None:
    cluster, name = client(Role.SINK), new_name()
    create_topics(cluster, [NewTopic(name=name, configs={"segment.ms": "70000"})])
    cluster.topic(name)  # waits until it is known

    changed = alter_configs(
        cluster,
        {
            name: {"retention.ms": "90000", "segment.ms": None},
            "nowhere": {"retention.ms": "1"},
        },
    )

    assert [*map(code_of, changed.values())] == [None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [*describe_configs(cluster, [name, "nowhere"])] == [name]
    wanted = {"retention.ms": "90000"}
    assert eventually(lambda: own_configs(cluster, name), lambda own: own == wanted) == wanted


def test_many_topics_are_asked_about_in_several_requests(
    client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.pipeline.client.topic_admin.MAX_TOPICS_PER_REQUEST", 2)
    cluster, names = client(Role.SINK), [new_name() for _ in range(5)]

    assert create_topics(cluster, [NewTopic(name=name) for name in names]) == dict.fromkeys(names)
    assert [*describe_configs(cluster, names)] == names


def test_a_topic_whose_creation_was_not_confirmed_is_found(
    client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, name = client(Role.SINK), new_name()
    receive, lost = BrokerConnection.receive, []

    def lose_the_first(connection: BrokerConnection, pending: PendingRequest) -> Any:
        answer = receive(connection, pending)
        if pending.api_key == ApiKey.CREATE_TOPICS and not lost:
            lost.append(answer)
            connection.close()
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the answer is lost")
        return answer

    monkeypatch.setattr(BrokerConnection, "receive", lose_the_first)

    made = create_topics(cluster, [NewTopic(name=name)])

    assert lost
    assert code_of(made[name]) is ErrorCode.TOPIC_ALREADY_EXISTS
