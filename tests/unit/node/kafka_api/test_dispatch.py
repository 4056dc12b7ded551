"""From frames to handlers and back: routes, headers, and errors that close a connection."""

import asyncio
import struct
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema_compiler import decode
from ottla.node.kafka_api import api_versions, dispatch, list_groups, metadata
from ottla.node.kafka_api.api_description import SMALL_REQUEST_BYTES
from ottla.node.kafka_api.dispatch import Dispatcher
from ottla.node.kafka_api.served_apis import SERVED, describe, served_by
from ottla.node.net.answers import BuiltInThread, CloseConnection, Delayed, EncodedBody, Pending
from ottla.node.settings.config import parse_config
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.node.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.node.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.node.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.node.wire.messages.heartbeat import HeartbeatRequest
from ottla.node.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.node.wire.messages.metadata import MetadataRequest
from ottla.node.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.node.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.node.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.node.wire.messages.produce import ProduceRequest
from ottla.node.wire.request_limits import MAX_ID_BYTES
from ottla.node.work.turns import STEPS_PER_TURN, take_turns
from tests.unit.node.fakes import connection_of
from tests.unit.node.kafka_api.serving import dispatcher_of
from tests.unit.node.replica.replica_world import CONNECTION, NODE_ID, ReplicaWorld

PEER = connection_of(CONNECTION)


@pytest.fixture
def dispatcher() -> Dispatcher:
    world = ReplicaWorld()
    world.supported_features = {"group.version": (0, 1), "other.version": (1, 2)}  # type: ignore[attr-defined]
    return dispatcher_of(world, large_requests=world.large_requests)


def frame(key: int, version: int, request: object, tail: bytes = b"") -> memoryview:
    """Return a request in the form that the connection passes on: without its length."""
    return memoryview(b"".join(codec.encode_request(key, version, 7, "test", request))[4:] + tail)


def answer(dispatcher: Dispatcher, request: memoryview, key: int, version: int) -> Any:
    buffers = dispatcher.serve(PEER, request)
    assert isinstance(buffers, list)
    return response_of(b"".join(buffers), key, version)


def response_of(sent: bytes, key: int, version: int) -> Any:
    assert struct.unpack_from(">i", sent)[0] == len(sent) - 4
    correlation_id, response = codec.decode_response(key, version, sent, 4)
    assert correlation_id == 7
    return response


def versions_request(version: int, **fields: Any) -> memoryview:
    fields = {"client_software_name": "test", "client_software_version": "1.0", **fields}
    return frame(18, version, ApiVersionsRequest(**fields))


def test_every_served_api_has_messages_and_a_handler(dispatcher: Dispatcher) -> None:
    for key, (_, last) in SERVED.items():
        dispatcher.load_route(key, last)


def test_every_advertised_version_but_the_oldest_of_produce_has_a_codec(dispatcher: Dispatcher) -> None:
    for key, (first, last) in SERVED.items():
        for version in range(3 if key is ApiKey.PRODUCE else first, last + 1):
            dispatcher.load_route(key, version)


def test_a_client_sends_its_name_and_version_kip_511(dispatcher: Dispatcher) -> None:
    named, nameless = connection_of(CONNECTION), connection_of(CONNECTION)

    dispatcher.serve(named, versions_request(3, client_software_name="librdkafka"))
    dispatcher.serve(nameless, versions_request(3, client_software_name="no name!"))

    assert (named.info.software_name, nameless.info.software_name) == ("librdkafka", "")


@pytest.mark.parametrize(
    ("setting", "last"),
    [(None, 5), ("unstable.api.versions.enable", 6), ("transaction.two.phase.commit.enable", 6)],
)
def test_versions_that_are_not_final_are_served_if_a_setting_enables_them(
    setting: str | None, last: int
) -> None:
    config = parse_config({} if setting is None else {setting: "true"})
    served = served_by(config)

    assert served == {**SERVED, ApiKey.INIT_PRODUCER_ID: (0, last)}

    world = ReplicaWorld()
    world.served_apis = served
    dispatcher = dispatcher_of(world, served_apis=served)
    world.supported_features = {}  # type: ignore[attr-defined]
    api_keys = answer(dispatcher, versions_request(4), 18, 4).api_keys
    assert [one.max_version for one in api_keys if one.api_key == ApiKey.INIT_PRODUCER_ID] == [last]
    dispatcher.load_route(ApiKey.INIT_PRODUCER_ID, last)
    with pytest.raises(CloseConnection):
        dispatcher.load_route(ApiKey.INIT_PRODUCER_ID, last + 1)


@pytest.mark.parametrize("version", range(6))
def test_served_apis_are_advertised(dispatcher: Dispatcher, version: int) -> None:
    response = answer(dispatcher, versions_request(version), 18, version)

    served = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
    assert served == {int(key): versions for key, versions in SERVED.items()}


def test_versions_are_encoded_once_for_all_clients(dispatcher: Dispatcher, monkeypatch: Any) -> None:
    made: list[int] = []
    encoder = api_versions.encoder

    def counted(response_type: type[ApiVersionsResponse], version: int) -> Any:
        made.append(version)
        return encoder(response_type, version)

    monkeypatch.setattr(api_versions, "encoder", counted)
    sent: list[Any] = [dispatcher.serve(PEER, versions_request(version)) for version in (4, 3, 4, 3)]

    assert made == [4, 3]
    assert b"".join(sent[0]) == b"".join(sent[2]) != b"".join(sent[1]) == b"".join(sent[3])


def test_features_with_minimum_zero_are_hidden_from_version_3(dispatcher: Dispatcher) -> None:
    third = answer(dispatcher, versions_request(3), 18, 3)
    fourth = answer(dispatcher, versions_request(4), 18, 4)

    assert [one.name for one in third.supported_features] == ["other.version"]
    assert [one.name for one in fourth.supported_features] == ["group.version", "other.version"]


@pytest.mark.parametrize("version", [6, 100, 32767, -1])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(
    dispatcher: Dispatcher, version: int
) -> None:
    request = memoryview(struct.pack(">hhih", 18, version, 7, -1))

    buffers = dispatcher.serve(PEER, request)

    assert isinstance(buffers, list)
    response = decode(ApiVersionsResponse, 0, b"".join(buffers)[8:])
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(one.api_key, one.min_version, one.max_version) for one in response.api_keys] == [(18, 0, 5)]


@pytest.mark.parametrize("name", ["", "-x", "x-", "a b", "a/b", "ä", "x" * 10 + "."])
def test_a_software_name_must_look_like_one(dispatcher: Dispatcher, name: str) -> None:
    response = answer(dispatcher, versions_request(3, client_software_name=name), 18, 3)

    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.api_keys == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"cluster_id": "Y2NjY2NjY2NjY2NjY2NjYw", "node_id": NODE_ID}, ErrorCode.NONE),
        ({"cluster_id": "another"}, ErrorCode.REBOOTSTRAP_REQUIRED),
        ({"node_id": NODE_ID + 1}, ErrorCode.REBOOTSTRAP_REQUIRED),
    ],
)
def test_a_client_that_reached_another_cluster_starts_over_kip_1242(
    dispatcher: Dispatcher, fields: dict[str, Any], code: ErrorCode
) -> None:
    assert answer(dispatcher, versions_request(5, **fields), 18, 5).error_code == code


def test_bytes_after_a_request_are_accepted(dispatcher: Dispatcher) -> None:
    request = frame(
        18, 3, ApiVersionsRequest(client_software_name="t", client_software_version="1"), b"\0\0\0"
    )

    assert answer(dispatcher, request, 18, 3).error_code == 0


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\0\x12\0\0\0\0", id="header-cut"),
        pytest.param(struct.pack(">hhih", 999, 0, 1, -1), id="unknown-key"),
        pytest.param(struct.pack(">hhih", 4, 0, 1, -1), id="removed-key"),
        pytest.param(struct.pack(">hhih", -1, 0, 1, -1), id="negative-key"),
        pytest.param(struct.pack(">hhih", 3, 14, 1, -1), id="version-too-high"),
        pytest.param(struct.pack(">hhih", 3, -1, 1, -1), id="version-negative"),
        pytest.param(struct.pack(">hhih", 0, 2, 1, -1), id="produce-2-is-advertised-only"),
        pytest.param(struct.pack(">hhih", 3, 1, 1, 100), id="client-id-beyond-the-end"),
        pytest.param(struct.pack(">hhih", 3, 1, 1, 2) + b"\xff\xff\0\0\0\0", id="client-id-not-text"),
        pytest.param(struct.pack(">hhihi", 3, 1, 1, -1, 2**31 - 1), id="count-beyond-the-end"),
        pytest.param(struct.pack(">hhih", 3, 12, 1, -1) + b"\xff" * 8, id="tags-without-end"),
    ],
)
def test_invalid_requests_close_the_connection(dispatcher: Dispatcher, request_bytes: bytes) -> None:
    with pytest.raises(CloseConnection):
        dispatcher.serve(PEER, memoryview(request_bytes))


def test_an_error_is_answered_if_the_response_has_a_field_for_it(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    for module in (list_groups, metadata):
        monkeypatch.setattr(module, "handle", fail)
    request = frame(16, 4, ListGroupsRequest())
    with pytest.raises(KafkaError) as error:
        dispatcher.serve(PEER, request)

    sent = dispatcher.fail(PEER, request, error.value)
    assert sent is not None
    assert response_of(b"".join(sent), 16, 4).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    sent = dispatcher.fail(PEER, request, RuntimeError("a bug"))
    assert sent is not None
    assert response_of(b"".join(sent), 16, 4).error_code == ErrorCode.UNKNOWN_SERVER_ERROR

    refused = frame(3, 12, MetadataRequest(topics=[]))
    with pytest.raises(KafkaError):
        dispatcher.serve(PEER, refused)
    with pytest.raises(CloseConnection):
        dispatcher.fail(PEER, refused, error.value)


def test_the_delayed_answer_of_a_handler_may_be_delayed_again(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing() -> None: ...

    first, second = nothing(), nothing()
    then = Delayed(second, lambda _: ListGroupsResponse(error_code=3))
    monkeypatch.setattr(list_groups, "handle", lambda *_: Delayed(first, lambda _: then))

    pending = dispatcher.serve(PEER, frame(16, 4, ListGroupsRequest()))

    assert isinstance(pending, Pending)
    again = pending.encode(None)
    assert isinstance(again, Pending)
    assert again.awaitable is second
    sent = again.encode(None)
    assert isinstance(sent, list)
    assert response_of(b"".join(sent), 16, 4).error_code == 3
    first.close()
    second.close()


def test_an_encoded_body_gets_its_header(dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch) -> None:
    body = codec.encode_response(16, 4, 0, ListGroupsResponse(error_code=5))
    kept = b"".join(body)[9:]
    monkeypatch.setattr(list_groups, "handle", lambda *_: EncodedBody([kept]))

    assert answer(dispatcher, frame(16, 4, ListGroupsRequest()), 16, 4).error_code == 5


def test_a_request_with_very_many_elements_shares_the_loop(dispatcher: Dispatcher) -> None:
    count = 2 * dispatch.SMALL_REQUEST_ELEMENTS
    topics = [OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition()] * count)]
    request = frame(23, 4, OffsetForLeaderEpochRequest(topics=topics))
    others = 0

    async def other() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    async def ask() -> bytes:
        running = asyncio.create_task(other())
        pending = dispatcher.serve(PEER, request)
        assert isinstance(pending, Pending)
        buffers = pending.encode(await pending.awaitable)
        running.cancel()
        assert isinstance(buffers, list)
        return b"".join(buffers)

    response = response_of(asyncio.run(ask()), 23, 4)

    assert len(response.topics[0].partitions) == count
    assert others >= count // STEPS_PER_TURN


def test_a_large_read_ends_at_its_next_step_when_its_client_has_disconnected(dispatcher: Dispatcher) -> None:
    steps = 0

    def endless_steps() -> Iterator[None]:
        nonlocal steps
        while True:
            steps += 1
            yield

    count = 2 * dispatch.SMALL_REQUEST_ELEMENTS
    topics = [OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition()] * count)]
    route = dispatcher.load_route(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4)
    endless = route._replace(handle=lambda *_: take_turns(endless_steps()))
    dispatcher.routes[ApiKey.OFFSET_FOR_LEADER_EPOCH, 4] = endless

    async def ask() -> None:
        pending = dispatcher.serve(PEER, frame(23, 4, OffsetForLeaderEpochRequest(topics=topics)))
        assert isinstance(pending, Pending) and pending.ends_with_client
        serving = asyncio.create_task(cast(Any, pending.awaitable))
        while not steps:
            await asyncio.sleep(0)
        serving.cancel()  # like a connection that is lost
        await asyncio.wait([serving])
        assert serving.cancelled()

    asyncio.run(ask())

    assert steps <= 2 * STEPS_PER_TURN


def test_large_requests_that_change_something_or_come_from_a_node_are_carried_out(
    dispatcher: Dispatcher,
) -> None:
    node = connection_of(replace(CONNECTION, peer_id=NODE_ID))
    names = [f"topic-{number}" for number in range(2 * dispatch.SMALL_REQUEST_ELEMENTS)]
    topics = [OffsetForLeaderTopic(topic=name, partitions=[]) for name in names]
    reading = frame(23, 4, OffsetForLeaderEpochRequest(topics=topics))
    changing = frame(20, 5, DeleteTopicsRequest(topic_names=names, timeout_ms=1))

    for connection, request in ((node, reading), (PEER, changing)):
        pending = dispatcher.serve(connection, request)
        assert isinstance(pending, Pending) and not pending.ends_with_client
        cast(Any, pending.awaitable).close()


def test_a_frame_with_very_many_elements_that_does_not_parse_closes_the_connection(
    dispatcher: Dispatcher,
) -> None:
    topics = [OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition()] * 5_000)]
    request = frame(23, 4, OffsetForLeaderEpochRequest(topics=topics))[:-20]

    async def ask() -> object:
        pending = dispatcher.serve(PEER, request)
        assert isinstance(pending, Pending)
        return await pending.awaitable

    with pytest.raises(CloseConnection, match="cannot be parsed"):
        asyncio.run(ask())


def test_produce_is_served_from_version_0_for_old_clients() -> None:
    assert SERVED[ApiKey.PRODUCE] == (0, 13), "KAFKA-18659: from 3 on, old librdkafka does not compress"


def test_an_unsupported_version_is_answered_with_its_error() -> None:
    assert api_versions.unsupported_version().error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_large_answer_is_built_and_written_off_the_loop(dispatcher: Dispatcher) -> None:
    threads: list[int] = []

    def make() -> ListGroupsResponse:
        threads.append(threading.get_ident())
        return ListGroupsResponse(error_code=14)

    route = dispatcher.load_route(ApiKey.LIST_GROUPS, 4)
    dispatcher.routes[ApiKey.LIST_GROUPS, 4] = route._replace(handle=lambda *_: BuiltInThread(make))
    pending = dispatcher.serve(PEER, frame(ApiKey.LIST_GROUPS, 4, ListGroupsRequest(states_filter=[])))
    assert isinstance(pending, Pending)

    async def wait() -> Any:
        return await pending.awaitable

    buffers = pending.encode(asyncio.run(wait()))

    assert isinstance(buffers, list)
    assert response_of(b"".join(cast(Any, buffers)), ApiKey.LIST_GROUPS, 4).error_code == 14
    assert threads != [threading.get_ident()]


LONG = "x" * (MAX_ID_BYTES + 1)


def test_an_id_that_is_too_long_is_refused_before_its_handler_sees_it(dispatcher: Dispatcher) -> None:
    request = DeleteTopicsRequest(topic_names=["short", LONG], timeout_ms=1_000)

    deleted = answer(dispatcher, frame(ApiKey.DELETE_TOPICS, 5, request), ApiKey.DELETE_TOPICS, 5)
    heartbeat = answer(
        dispatcher,
        frame(ApiKey.HEARTBEAT, 4, HeartbeatRequest(group_id="g", member_id=LONG)),
        ApiKey.HEARTBEAT,
        4,
    )

    assert [one.name for one in deleted.responses] == ["short", LONG]
    assert {one.error_code for one in deleted.responses} == {ErrorCode.INVALID_TOPIC_EXCEPTION}
    assert heartbeat.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def seen_by_handler(dispatcher: Dispatcher, api: ApiKey, version: int, request: Any) -> list[Any]:
    """Return the requests that reach the API's handler when this one is served."""
    seen: list[Any] = []
    route = dispatcher.load_route(api, version)

    def handle(broker: Any, context: Any, request: Any) -> Any:
        seen.append(request)
        return route.response_class()

    dispatcher.routes[api, version] = route._replace(handle=handle)
    dispatcher.serve(PEER, frame(api, version, request))
    return seen


@pytest.mark.parametrize("size", [MAX_ID_BYTES + 1, 32_767])
def test_a_small_request_may_delete_a_group_from_before_the_limit(dispatcher: Dispatcher, size: int) -> None:
    request = DeleteGroupsRequest(groups_names=["short", "x" * size])

    assert seen_by_handler(dispatcher, ApiKey.DELETE_GROUPS, 2, request) == [request]


def test_many_ids_from_before_the_limit_are_rejected(dispatcher: Dispatcher) -> None:
    request = DeleteGroupsRequest(groups_names=["x" * 32_767] * 2 + ["y"])

    pending = dispatcher.serve(PEER, frame(ApiKey.DELETE_GROUPS, 2, request))
    assert isinstance(pending, Pending)

    async def served() -> Any:
        return await pending.awaitable

    refused = response_of(b"".join(asyncio.run(served())), ApiKey.DELETE_GROUPS, 2)
    assert {one.error_code for one in refused.results} == {ErrorCode.INVALID_GROUP_ID}


def test_a_request_with_an_old_id_is_held_to_its_other_limits(dispatcher: Dispatcher) -> None:
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name=LONG, partitions=partitions)]
    request = OffsetDeleteRequest(group_id=LONG, topics=topics)

    assert seen_by_handler(dispatcher, ApiKey.OFFSET_DELETE, 0, request) == []


def test_a_client_id_that_is_too_long_is_refused(dispatcher: Dispatcher) -> None:
    request = b"".join(codec.encode_request(ApiKey.HEARTBEAT, 4, 7, LONG, HeartbeatRequest(group_id="g")))[4:]

    refused = answer(dispatcher, memoryview(request), ApiKey.HEARTBEAT, 4)

    assert refused.error_code == ErrorCode.INVALID_REQUEST


def test_a_large_request_with_a_long_id_is_refused_off_the_loop(dispatcher: Dispatcher) -> None:
    groups = ["g" * 1_000] * (SMALL_REQUEST_BYTES // 1_000) + [LONG]
    pending = dispatcher.serve(PEER, frame(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=groups)))
    assert isinstance(pending, Pending)

    async def served() -> Any:
        return await pending.awaitable

    refused = response_of(b"".join(asyncio.run(served())), ApiKey.DESCRIBE_GROUPS, 5)

    assert len(refused.groups) == len(groups)
    assert {one.error_code for one in refused.groups} == {ErrorCode.INVALID_GROUP_ID}
    assert max(len(one.group_id) for one in refused.groups) < 100


def test_commits_that_are_read_by_columns_have_the_same_limits(dispatcher: Dispatcher) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    request = OffsetCommitRequest(
        group_id=LONG,
        member_id="",
        topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])],
    )

    refused = answer(dispatcher, frame(ApiKey.OFFSET_COMMIT, 8, request), ApiKey.OFFSET_COMMIT, 8)

    (topic,) = refused.topics
    assert (topic.name, topic.partitions[0].error_code) == ("t", ErrorCode.INVALID_GROUP_ID)


@pytest.mark.parametrize(
    ("count", "answered"), [(describe(ApiKey.DELETE_TOPICS).limits.elements + 1, True), (70_000, False)]
)
def test_a_request_with_too_many_elements_is_refused_by_its_code_or_closes_the_connection(
    dispatcher: Dispatcher, count: int, answered: bool
) -> None:
    request = DeleteTopicsRequest(topic_names=[f"t{number}" for number in range(count)], timeout_ms=1)
    pending = dispatcher.serve(PEER, frame(ApiKey.DELETE_TOPICS, 5, request))
    assert isinstance(pending, Pending)

    async def served() -> Any:
        return await pending.awaitable

    if not answered:
        with pytest.raises(CloseConnection, match="too many"):
            asyncio.run(served())
        return
    refused = response_of(b"".join(asyncio.run(served())), ApiKey.DELETE_TOPICS, 5)
    assert [one.name for one in refused.responses] == list(request.topic_names)
    assert {one.error_code for one in refused.responses} == {ErrorCode.POLICY_VIOLATION}


def test_a_rejected_request_with_acks_zero_gets_no_response(dispatcher: Dispatcher) -> None:
    request = ProduceRequest(transactional_id=LONG, acks=0, timeout_ms=1, topic_data=[])

    with pytest.raises(CloseConnection, match="acks=0"):
        dispatcher.serve(PEER, frame(ApiKey.PRODUCE, 9, request))
