"""The changes of the cluster that the audit log gets from requests and responses, without secrets."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import schema_of
from ottla.node.audit.audit_event import Kind
from ottla.node.kafka_api import audited_changes as audited_changes_module
from ottla.node.kafka_api import offset_commit
from ottla.node.kafka_api.api_description import SMALL_REQUEST_BYTES
from ottla.node.kafka_api.audited_changes import MAX_LOGGED, AuditedChanges
from ottla.node.kafka_api.changes import CHANGES, MAY_BE_CHANGES
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.kafka_api.served_apis import SERVED, describe
from ottla.node.net.answers import Delayed, EncodedBody, Pending
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from tests.compat.wire_client import build, message_class
from tests.unit.node.fakes import connection_of
from tests.unit.node.kafka_api.serving import dispatcher_of
from tests.unit.node.metadata.metadata_node import CONNECTION
from tests.unit.node.replica.replica_world import ReplicaWorld

CANARY: Final = "canary-7f3a9d"
# Requests of ordinary clients, and logins: they do not change the cluster itself.
OF_CLIENTS: Final = {
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.METADATA,  # may create a topic if automatic creation is enabled
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.OFFSET_FETCH,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.API_VERSIONS,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
    # Requests between nodes for share groups.
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
}
# APIs that only read, but may have to search all groups or ids.
READERS: Final = {
    ApiKey.LIST_GROUPS,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.DESCRIBE_ACLS,
}


class FakeAuditLog:
    """An audit log that records its events."""

    takes_changes = True

    def __init__(self) -> None:
        self.changes: list[tuple[str, str, str, str]] = []
        self.rest = 0

    def changed(
        self, principal: str, address: str, api: str, kind: str, name: str, outcome: str, detail: str = ""
    ) -> None:
        self.changes.append((kind, name, outcome, detail))

    def left_out(self, kind: Kind, principal: str, address: str, count: int) -> None:
        self.rest += count


def audited_changes(api: ApiKey, audit: Any, request: object = None) -> AuditedChanges:
    context = RequestContext(api, SERVED[api][1], 1, "test", CONNECTION)
    return AuditedChanges(audit, CHANGES[api], context, request, codec.response_class(api))


def changes_of(
    api: ApiKey, request: Mapping[str, Any], response: Mapping[str, Any]
) -> Sequence[tuple[str, str, str, str]]:
    audit = FakeAuditLog()
    message = build(message_class(api.name.lower(), "Request"), dict(request))
    answer = build(message_class(api.name.lower(), "Response"), dict(response))
    audited_changes(api, audit, message).wrap(answer)
    return audit.changes


def test_every_api_changes_the_cluster_or_does_not() -> None:
    readers = {api for api in SERVED if describe(api).changes_nothing} | READERS

    assert set(SERVED) - readers - OF_CLIENTS == {ApiKey(api) for api in CHANGES}
    assert not {ApiKey(api) for api in CHANGES} & (readers | OF_CLIENTS)


ACL: Final = {
    "resource_type": 2,
    "resource_name": "orders",
    "principal": "User:bob",
    "host": "*",
    "operation": 4,
    "permission_type": 3,
}


@pytest.mark.parametrize(
    ("api", "request_", "response", "expected"),
    [
        (
            ApiKey.CREATE_TOPICS,
            {"topics": []},
            {"topics": [{"name": "a", "error_code": 0}, {"name": "b", "error_code": 36}]},
            [("Topic", "a", "NONE", ""), ("Topic", "b", "TOPIC_ALREADY_EXISTS", "")],
        ),
        (ApiKey.CREATE_TOPICS, {"topics": [], "validate_only": True}, {"topics": [{"name": "a"}]}, []),
        (
            ApiKey.CREATE_TOPICS,
            {"topics": []},
            {"topics": [{"name": "a", "error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED}]},
            [],
        ),
        (
            ApiKey.DELETE_TOPICS,
            {"topics": []},
            {"responses": [{"name": None, "topic_id": bytes(16), "error_code": 100}]},
            [("Topic", "AAAAAAAAAAAAAAAAAAAAAA", "UNKNOWN_TOPIC_ID", "")],
        ),
        (
            ApiKey.CREATE_PARTITIONS,
            {"topics": [{"name": "a", "count": 7, "assignments": None}]},
            {"results": [{"name": "a"}]},
            [("Topic", "a", "NONE", "7 partitions")],
        ),
        (
            ApiKey.DELETE_RECORDS,
            {"topics": []},
            {"topics": [{"name": "a", "partitions": [{"error_code": 0}, {"error_code": 1}]}]},
            [("Topic", "a", "OFFSET_OUT_OF_RANGE", "")],
        ),
        (
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            {
                "resources": [
                    {
                        "resource_type": 4,
                        "resource_name": "",
                        "configs": [
                            {"name": "ssl.key.password", "value": CANARY},
                            {"name": "x", "value": "1"},
                        ],
                    }
                ]
            },
            {"responses": [{"resource_type": 4, "resource_name": ""}]},
            [("Broker", "<default>", "NONE", "ssl.key.password, x")],
        ),
        (
            ApiKey.ALTER_CONFIGS,
            {
                "resources": [
                    {"resource_type": 2, "resource_name": "a", "configs": [{"name": "k", "value": CANARY}]}
                ]
            },
            {"responses": [{"resource_type": 2, "resource_name": "a", "error_message": CANARY}]},
            [("Topic", "a", "NONE", "k")],
        ),
        (
            ApiKey.CREATE_ACLS,
            {"creations": [{**ACL, "resource_pattern_type": 4}]},
            {"results": [{}]},
            [("Topic", "orders", "NONE", "ALLOW User:bob from * the operation WRITE on the PREFIXED name")],
        ),
        (
            ApiKey.DELETE_ACLS,
            {"filters": []},
            {"filter_results": [{"matching_acls": [{**ACL, "pattern_type": 3}]}, {"error_code": 42}]},
            [
                ("Topic", "orders", "NONE", "ALLOW User:bob from * the operation WRITE on the LITERAL name"),
                ("Cluster", "", "INVALID_REQUEST", ""),
            ],
        ),
        (
            ApiKey.ALTER_CLIENT_QUOTAS,
            {
                "entries": [
                    {
                        "entity": [
                            {"entity_type": "user", "entity_name": "ann"},
                            {"entity_type": "client-id", "entity_name": None},
                        ],
                        "ops": [
                            {"key": "producer_byte_rate", "value": 1.5},
                            {"key": "consumer_byte_rate", "remove": True},
                        ],
                    }
                ]
            },
            {"entries": [{"entity": []}]},
            [
                (
                    "ClientQuota",
                    "user=ann,client-id=<default>",
                    "NONE",
                    "producer_byte_rate, consumer_byte_rate removed",
                )
            ],
        ),
        (
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            {
                "deletions": [{"name": "ann", "mechanism": 1}],
                "upsertions": [
                    {
                        "name": "ann",
                        "mechanism": 2,
                        "iterations": 4096,
                        "salt": CANARY.encode(),
                        "salted_password": CANARY.encode(),
                    }
                ],
            },
            {"results": [{"user": "ann"}]},
            [("User", "ann", "NONE", "SCRAM-SHA-256 removed, SCRAM-SHA-512 set")],
        ),
        (
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            {"topics": []},
            {"responses": [{"name": "a", "partitions": [{"partition_index": 0}, {"partition_index": 3}]}]},
            [("Topic", "a", "NONE", "partitions 0, 3")],
        ),
        (
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            {"dirs": []},
            {"results": [{"topic_name": "a", "partitions": [{"partition_index": 1, "error_code": 57}]}]},
            [("Topic", "a", "LOG_DIR_NOT_FOUND", "partitions 1")],
        ),
        (
            ApiKey.ELECT_LEADERS,
            {"election_type": 0},
            {
                "replica_election_results": [
                    {
                        "topic": "a",
                        "partition_result": [
                            {"partition_id": 0},
                            {"partition_id": 1, "error_code": ErrorCode.ELECTION_NOT_NEEDED},
                        ],
                    }
                ]
            },
            [("Topic", "a", "NONE", "preferred leaders, partitions 0")],
        ),
        (
            ApiKey.UPDATE_FEATURES,
            {"feature_updates": [{"feature": "metadata.version", "max_version_level": 29}]},
            {},
            [("Feature", "metadata.version", "NONE", "level 29")],
        ),
        (
            ApiKey.ADD_RAFT_VOTER,
            {"voter_id": 7, "voter_directory_id": bytes(16), "listeners": []},
            {"error_code": 0},
            [("Voter", "7", "NONE", "")],
        ),
        (
            ApiKey.REMOVE_RAFT_VOTER,
            {"voter_id": 7, "voter_directory_id": bytes(16)},
            {"error_code": 0},
            [("Voter", "7", "NONE", "")],
        ),
        (ApiKey.UNREGISTER_BROKER, {"broker_id": 3}, {}, [("Broker", "3", "NONE", "")]),
        (
            ApiKey.DELETE_GROUPS,
            {"groups_names": ["g"]},
            {"results": [{"group_id": "g", "error_code": 68}]},
            [("Group", "g", "NON_EMPTY_GROUP", "")],
        ),
        (
            ApiKey.OFFSET_DELETE,
            {"group_id": "g", "topics": [{"name": "a", "partitions": []}]},
            {"topics": [{"name": "a", "partitions": [{"error_code": 86}]}]},
            [("Group", "g", "GROUP_SUBSCRIBED_TO_TOPIC", "a")],
        ),
        (
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            {"group_id": "g", "topics": [{"topic_name": "a", "partitions": [{"start_offset": 5}]}]},
            {"responses": [{"topic_name": "a", "topic_id": bytes(16), "partitions": [{"error_code": 3}]}]},
            [("Group", "g", "UNKNOWN_TOPIC_OR_PARTITION", "a")],
        ),
        (
            ApiKey.DELETE_SHARE_GROUP_OFFSETS,
            {"group_id": "g", "topics": [{"topic_name": "a"}]},
            {"responses": [{"topic_name": "a", "topic_id": bytes(16), "error_code": 0}]},
            [("Group", "g", "NONE", "a")],
        ),
        (
            ApiKey.OFFSET_COMMIT,
            {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "topics": []},
            {"topics": []},
            [("Group", "g", "NONE", "")],
        ),
        (
            ApiKey.OFFSET_COMMIT,
            {"group_id": "g", "generation_id_or_member_epoch": 3, "member_id": "m", "topics": []},
            {"topics": []},
            [],
        ),
        (
            ApiKey.WRITE_TXN_MARKERS,
            {"markers": [{"producer_id": 5, "topics": [{"name": "a", "partition_indexes": [0]}]}]},
            {"markers": [{"producer_id": 5, "topics": [{"name": "a", "partitions": [{"error_code": 0}]}]}]},
            [("Topic", "a", "NONE", "markers of producer 5")],
        ),
    ],
)
def test_each_api_logs_its_changes_without_secrets(
    api: ApiKey,
    request_: Mapping[str, Any],
    response: Mapping[str, Any],
    expected: Sequence[tuple[str, str, str, str]],
) -> None:
    found = changes_of(api, request_, response)

    assert list(found) == expected and CANARY not in repr(found)


def test_every_secret_field_of_a_message_has_a_canary_above() -> None:
    """A new secret field needs a case with CANARY."""
    secret = {
        field.name
        for api in CHANGES
        for struct in (codec.request_class(ApiKey(api)),)
        for of in (schema_of(struct), *(schema_of(one.of) for one in schema_of(struct).fields if one.of))
        for field in of.fields
        if field.is_secret
    }

    assert secret == {"salt", "salted_password"}


def test_the_changes_of_one_request_are_bounded() -> None:
    audit = FakeAuditLog()
    topics = [{"name": f"t{number}"} for number in range(MAX_LOGGED + 20)]
    request = build(message_class("create_topics", "Request"), {"topics": []})
    response = build(message_class("create_topics", "Response"), {"topics": topics})
    audited_changes(ApiKey.CREATE_TOPICS, audit, request).wrap(response)

    assert (len(audit.changes), audit.rest) == (MAX_LOGGED, 20)


def test_changes_with_a_later_outcome_are_logged_when_it_is_known() -> None:
    audit = FakeAuditLog()
    request = build(message_class("unregister_broker", "Request"), {"broker_id": 3})
    response = build(message_class("unregister_broker", "Response"), {})
    changes = audited_changes(ApiKey.UNREGISTER_BROKER, audit, request)

    async def answer() -> Any:
        return response

    async def fail() -> Any:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, CANARY)

    async def ask_all() -> None:
        awaited: Any = changes.wrap(answer())
        delayed: Any = changes.wrap(Delayed(answer(), lambda outcome: outcome))
        assert not audit.changes
        assert await awaited is response and delayed.answer(await delayed.future) is response
        failed: Any = changes.wrap(fail())
        with pytest.raises(KafkaError):
            await failed

    asyncio.run(ask_all())
    assert [one[2] for one in audit.changes] == ["NONE", "NONE", "BROKER_ID_NOT_REGISTERED"]


def test_a_change_is_logged_even_if_its_client_left_before_the_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audited_changes_module, "LEFT_AFTER_S", 0.0)
    audit = FakeAuditLog()
    request = build(message_class("delete_groups", "Request"), {"groups_names": ["g"]})
    response = build(message_class("delete_groups", "Response"), {"results": [{"group_id": "g"}]})

    async def ask(leaves: bool) -> None:
        future = asyncio.get_running_loop().create_future()
        delayed: Any = audited_changes(ApiKey.DELETE_GROUPS, audit, request).wrap(
            Delayed(future, lambda outcome: outcome)
        )
        if leaves:
            future.cancel()
        else:
            future.set_result(response)
            assert delayed.answer(await future) is response
        for _ in range(3):
            await asyncio.sleep(0.001)

    asyncio.run(ask(True))
    asyncio.run(ask(False))
    assert audit.changes == [("Group", "g", "CLIENT_DISCONNECTED", ""), ("Group", "g", "NONE", "")]


def test_a_request_that_fails_as_a_whole_is_a_change_of_the_cluster_that_failed() -> None:
    audit = FakeAuditLog()
    request = build(message_class("create_topics", "Request"), {"topics": []})
    error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, CANARY)
    audited_changes(ApiKey.CREATE_TOPICS, audit, request).failed(error)

    assert audit.changes == [("Cluster", "", "REQUEST_TIMED_OUT", "")]


def test_a_change_with_an_encoded_response_has_its_error_code() -> None:
    audit = FakeAuditLog()
    request = build(
        message_class("offset_commit", "Request"),
        {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "topics": []},
    )
    audited_changes(ApiKey.OFFSET_COMMIT, audit, request).wrap(EncodedBody([], ErrorCode.NOT_COORDINATOR))

    assert audit.changes == [("Group", "g", "NOT_COORDINATOR", "")]


def test_a_large_reset_of_offsets_is_logged_and_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    audit: Any = FakeAuditLog()
    world = ReplicaWorld()
    dispatcher = dispatcher_of(world, large_requests=world.large_requests, audit=audit)
    monkeypatch.setattr(offset_commit, "handle", lambda *_: EncodedBody([b""], ErrorCode.NOT_COORDINATOR))
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    topics = [{"name": f"{number:0>200}", "partitions": [partition]} for number in range(800)]
    request = build(
        message_class("offset_commit", "Request"),
        {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics},
    )
    frame = b"".join(codec.encode_request(ApiKey.OFFSET_COMMIT, 9, 1, "test", request))[4:]
    assert len(frame) > SMALL_REQUEST_BYTES

    async def served() -> object:
        pending = dispatcher.serve(connection_of(CONNECTION), memoryview(frame))
        assert isinstance(pending, Pending)
        return await pending.awaitable

    asyncio.run(served())

    assert audit.changes == [("Group", "g", "NOT_COORDINATOR", "")]
    assert sum(dispatcher.routes[ApiKey.OFFSET_COMMIT, 9].counters.latency.counts) == 1


@pytest.mark.parametrize(
    ("generation", "member", "expected"), [(-1, "", True), (3, "m", False), (-1, "m", False)]
)
def test_only_a_commit_without_a_member_may_be_an_administrators(
    generation: int, member: str, expected: bool
) -> None:
    fields = {
        "group_id": "g",
        "generation_id_or_member_epoch": generation,
        "member_id": member,
        "topics": [],
    }
    request = build(message_class("offset_commit", "Request"), fields)

    assert MAY_BE_CHANGES[ApiKey.OFFSET_COMMIT](request) is expected
