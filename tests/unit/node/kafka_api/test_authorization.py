"""Every API rejects a client without rights, with Kafka's error for the missing right.

The node of these tests fails if it does anything, so a rejected request was not begun.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

import pytest

from ottla.logstore.words.errors import ErrorCode
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.metadata_raft.acl_set import NO_AUTHORIZER, AclDecision, AuthorizerSettings
from ottla.node.authorization.access import REFUSALS, Access
from ottla.node.authorization.authorizer import Authorizer
from ottla.node.kafka_api.served_apis import SERVED, SERVED_TO_PEERS, describe
from ottla.node.net.answers import Pending
from ottla.node.net.unsent_answers import UnsentAnswers
from ottla.node.replica.fetch_session import FetchSessionCache
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.work.turns import STEPS_PER_TURN
from tests.compat.wire_client import build, message_class
from tests.unit.node.fakes import connection_of
from tests.unit.node.kafka_api.serving import dispatcher_of
from tests.unit.node.metadata.metadata_node import CONNECTION, MetadataNode

TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTION: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

OF_TOPIC: Final = {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
OF_GROUP: Final = {"group_id": "g"}
OF_TRANSACTION: Final = {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0}
ONE_TOPIC_RESOURCE: Final = [{"resource_type": 2, "resource_name": "t", "configs": []}]

# The version and the fields of a request, and the errors of its response.
REFUSED: Final[Mapping[ApiKey, tuple[int, Mapping[str, Any], set[ErrorCode]]]] = {
    ApiKey.PRODUCE: (
        9,
        {
            "acks": 1,
            "timeout_ms": 1000,
            "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": b""}]}],
        },
        {TOPIC},
    ),
    ApiKey.FETCH: (
        12,
        {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "replica_id": -1,
            "topics": [
                {
                    "topic": "t",
                    "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}],
                }
            ],
        },
        {TOPIC},
    ),
    ApiKey.LIST_OFFSETS: (
        7,
        {
            "replica_id": -1,
            "topics": [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
        },
        {TOPIC},
    ),
    ApiKey.METADATA: (12, {"topics": [{"name": "t"}], "allow_auto_topic_creation": True}, {TOPIC}),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, {"topics": [{"name": "t"}]}, {TOPIC}),
    ApiKey.OFFSET_COMMIT: (8, {**OF_GROUP, **OF_TOPIC}, {GROUP}),
    ApiKey.OFFSET_FETCH: (9, {"groups": [{"group_id": "g", "topics": None}]}, {GROUP}),
    ApiKey.FIND_COORDINATOR: (4, {"key_type": 0, "coordinator_keys": ["g"]}, {GROUP}),
    ApiKey.JOIN_GROUP: (9, {**OF_GROUP, "protocol_type": "consumer"}, {GROUP}),
    ApiKey.SYNC_GROUP: (5, {**OF_GROUP, "protocol_type": "consumer", "protocol_name": "range"}, {GROUP}),
    ApiKey.HEARTBEAT: (4, OF_GROUP, {GROUP}),
    ApiKey.LEAVE_GROUP: (5, {**OF_GROUP, "members": [{"member_id": "m"}]}, {GROUP}),
    ApiKey.DELETE_GROUPS: (2, {"groups_names": ["g"]}, {GROUP}),
    ApiKey.DESCRIBE_GROUPS: (6, {"groups": ["g"], "include_authorized_operations": True}, {GROUP}),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (1, {"group_ids": ["g"]}, {GROUP}),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (1, {**OF_GROUP, "member_id": "m", "member_epoch": 0}, {GROUP}),
    ApiKey.SHARE_FETCH: (2, {**OF_GROUP, "member_id": "m", "share_session_epoch": 0}, {GROUP}),
    ApiKey.SHARE_ACKNOWLEDGE: (2, {**OF_GROUP, "member_id": "m", "share_session_epoch": 1}, {GROUP}),
    ApiKey.SHARE_GROUP_DESCRIBE: (1, {"group_ids": ["g"]}, {GROUP}),
    ApiKey.SHARE_GROUP_HEARTBEAT: (1, {**OF_GROUP, "member_id": "m", "member_epoch": 0}, {GROUP}),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (1, {"groups": [{"group_id": "g", "topics": None}]}, {GROUP}),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (0, {**OF_GROUP, "topics": []}, {GROUP}),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (0, {**OF_GROUP, "topics": []}, {GROUP}),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, {"transactional_ids": ["x"]}, {TRANSACTION}),
    ApiKey.DELETE_RECORDS: (2, {**OF_TOPIC, "timeout_ms": 1000}, {TOPIC}),
    ApiKey.OFFSET_DELETE: (0, {**OF_GROUP, **OF_TOPIC}, {GROUP}),
    ApiKey.CREATE_TOPICS: (
        7,
        {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}], "timeout_ms": 1000},
        {TOPIC},
    ),
    ApiKey.DELETE_TOPICS: (6, {"topics": [{"name": "t"}], "timeout_ms": 1000}, {TOPIC}),
    ApiKey.CREATE_PARTITIONS: (
        3,
        {"topics": [{"name": "t", "count": 2, "assignments": None}], "timeout_ms": 1000},
        {TOPIC},
    ),
    ApiKey.DESCRIBE_PRODUCERS: (0, {"topics": [{"name": "t", "partition_indexes": [0]}]}, {TOPIC}),
    ApiKey.DESCRIBE_CONFIGS: (
        4,
        {
            "resources": [
                {"resource_type": kind, "resource_name": name, "configuration_keys": None}
                for kind, name in ((2, "t"), (32, "g"), (4, "0"), (8, "0"))
            ]
        },
        {TOPIC, GROUP, CLUSTER},
    ),
    ApiKey.ALTER_CONFIGS: (2, {"resources": ONE_TOPIC_RESOURCE}, {TOPIC}),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (1, {"resources": ONE_TOPIC_RESOURCE}, {TOPIC}),
    ApiKey.INIT_PRODUCER_ID: (
        5,
        {"transactional_id": "x", "transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1},
        {TRANSACTION},
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        3,
        {
            "v3_and_below_transactional_id": "x",
            "v3_and_below_producer_id": 1,
            "v3_and_below_topics": [{"name": "t", "partitions": [0]}],
        },
        {TRANSACTION},
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: (3, {**OF_TRANSACTION, **OF_GROUP}, {TRANSACTION}),
    ApiKey.END_TXN: (3, {**OF_TRANSACTION, "committed": True}, {TRANSACTION}),
    ApiKey.TXN_OFFSET_COMMIT: (3, {**OF_TRANSACTION, **OF_GROUP, **OF_TOPIC}, {TRANSACTION}),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        4,
        {"replica_id": -1, "topics": [{"topic": "t", "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
        {TOPIC},
    ),
}
# Their responses leave out resources that the client may not see; the tests of these APIs cover that.
FILTERED: Final = {
    ApiKey.LIST_GROUPS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.DESCRIBE_CLUSTER,
}
OPEN_APIS: Final = {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
    # Rejected for every client.
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
OF_CLUSTER: Final = [api for api in SERVED if describe(api).asks.of_cluster is not None]


class EmptyCoordinator:
    """The coordinators of a node; any request to them fails the test."""

    def ask_each(
        self, requests: Sequence[object], build: Callable[[Sequence[object]], Any], **_: bool
    ) -> Any:
        assert not requests
        return build([])


class Logs:
    """The logs of a node; any request to them fails the test."""

    sessions = FetchSessionCache(max_slots=0, eviction_ms=1, random_id=lambda: 1)

    def counters_of(self, topic: str) -> None:
        return None

    async def checkpoint(self, kind: str) -> None:
        return None


class Node(MetadataNode):
    """A node whose metadata have no topics; any request to its other parts fails the test."""

    serves_consumer_groups = True
    serves_share_groups = True
    is_cut_off = False
    unsent = UnsentAnswers()
    groups = txns = EmptyCoordinator()
    replica_manager = maintenance = Logs()


DECISIONS: Final[list[tuple[str, str, str, AclOperation, ResourceType, str, AclDecision]]] = []
NO_RIGHTS: Final = Authorizer(AuthorizerSettings(), lambda *decision: DECISIONS.append(decision)).access(
    "User:nobody", "10.9.9.9"
)


def ask(api: ApiKey, version: int, fields: Mapping[str, Any]) -> Any:
    request = build(message_class(api.name.lower(), "Request"), dict(fields))
    frame = memoryview(b"".join(codec.encode_request(api, version, 1, "test", request))[4:])
    client = connection_of(replace(CONNECTION, access=NO_RIGHTS, client_host="10.9.9.9"))

    async def answered() -> bytes:
        answer = dispatcher_of(Node()).serve(client, frame)
        while type(answer) is Pending:
            answer = answer.encode(await answer.awaitable)
        return b"".join(cast(list[bytes], answer))

    return codec.decode_response(api, version, asyncio.run(answered())[4:])[1]


def codes_in(answer: Any) -> Counter[int]:
    """Count the error codes of a response that are not NONE, at any depth."""
    if isinstance(answer, list | tuple):
        return sum(map(codes_in, answer), Counter())
    if not hasattr(type(answer), "__schema__"):
        return Counter()
    names = ("error_code", "partition_error_code")
    here = Counter(value for name, value in vars(answer).items() if name in names and value)
    return here + sum(map(codes_in, vars(answer).values()), Counter())


def test_every_api_is_in_one_list() -> None:
    lists = (frozenset(REFUSED), FILTERED, OPEN_APIS, frozenset(OF_CLUSTER))

    assert sum(map(len, lists)) == len(frozenset().union(*lists)) and frozenset().union(*lists) == set(SERVED)


def test_only_apis_for_all_clients_or_for_peers_need_no_right() -> None:
    asking = {api for api in SERVED if describe(api).asks.of_cluster or describe(api).asks.by_handler}

    assert asking == set(SERVED) - OPEN_APIS
    assert all(describe(api).asks.is_for_peers for api in SERVED_TO_PEERS)
    assert not any(describe(api).asks.is_for_peers for api in SERVED)


@pytest.mark.parametrize("api", REFUSED, ids=lambda api: api.api_name)
def test_a_client_without_rights_is_refused(api: ApiKey) -> None:
    version, fields, expected = REFUSED[api]
    DECISIONS.clear()

    assert set(codes_in(ask(api, version, fields))) == expected
    # The audit log has each denied resource once.
    assert {decision[2] for decision in DECISIONS} == {api.api_name}
    assert {REFUSALS[decision[4]] for decision in DECISIONS} == expected
    assert len({decision[3:6] for decision in DECISIONS}) == len(DECISIONS)
    assert all(
        decision[:2] == ("User:nobody", "10.9.9.9") and not decision[6].is_allowed for decision in DECISIONS
    )


def test_a_topic_that_is_hidden_has_no_id_and_is_not_created() -> None:
    (topic,) = ask(ApiKey.METADATA, 12, {"topics": [{"name": "t"}], "allow_auto_topic_creation": True}).topics

    assert (topic.name, topic.topic_id, topic.partitions) == ("t", bytes(16), [])


def test_a_producer_id_without_a_transaction_needs_a_topic_to_write_to() -> None:
    fields = {"transactional_id": None, "transaction_timeout_ms": 1, "producer_id": -1, "producer_epoch": -1}
    answer = ask(ApiKey.INIT_PRODUCER_ID, 5, fields)

    assert (answer.error_code, answer.producer_id) == (CLUSTER, -1)


def test_hidden_topics_in_a_list_of_all_topics_are_no_denials() -> None:
    DECISIONS.clear()
    ask(ApiKey.METADATA, 12, {"topics": None})
    ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": []})

    assert not DECISIONS


def test_leaders_alone_add_partitions_for_others() -> None:
    fields = {"transactions": [{"transactional_id": "x", "producer_id": 1, "topics": []}]}

    assert set(codes_in(ask(ApiKey.ADD_PARTITIONS_TO_TXN, 5, fields))) == {CLUSTER}


MANY: Final = [f"name-{number}" for number in range(2_000)]
# Requests that name very many resources.
LARGE: Final[Mapping[ApiKey, tuple[int, Mapping[str, Any]]]] = {
    ApiKey.DESCRIBE_GROUPS: (5, {"groups": MANY}),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (1, {"group_ids": MANY}),
    ApiKey.SHARE_GROUP_DESCRIBE: (1, {"group_ids": MANY}),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (
        1,
        {"groups": [{"group_id": one, "topics": None} for one in MANY]},
    ),
    ApiKey.DELETE_GROUPS: (2, {"groups_names": MANY}),
    ApiKey.OFFSET_FETCH: (9, {"groups": [{"group_id": one, "topics": None} for one in MANY]}),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, {"transactional_ids": MANY}),
    ApiKey.METADATA: (12, {"topics": [{"name": one} for one in MANY]}),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, {"topics": [{"name": one} for one in MANY]}),
    ApiKey.CREATE_TOPICS: (
        7,
        {"topics": [{"name": one, "num_partitions": 1, "replication_factor": 1} for one in MANY]},
    ),
    ApiKey.DELETE_TOPICS: (6, {"topics": [{"name": one} for one in MANY]}),
    ApiKey.CREATE_PARTITIONS: (
        3,
        {"topics": [{"name": one, "count": 2, "assignments": None} for one in MANY]},
    ),
    ApiKey.LIST_OFFSETS: (
        7,
        {
            "replica_id": -1,
            "topics": [
                {"name": one, "partitions": [{"partition_index": 0, "timestamp": -1}]} for one in MANY
            ],
        },
    ),
}


class CountingAuthorizer:
    """Denies everything, and counts its calls by turn of the loop."""

    def __init__(self) -> None:
        self.turn = 0
        self.checks: Counter[int] = Counter()

    def decide(self, *_: object) -> AclDecision:
        self.checks[self.turn] += 1
        return NO_AUTHORIZER

    def is_allowed_somewhere(self, *_: object) -> bool:
        return self.decide().is_allowed

    def log_decision(self, *_: object) -> None:
        """Ignore the denial."""

    def authorized_operations(self, *_: object) -> int:
        return 0

    async def count_turns(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.turn += 1


@pytest.mark.parametrize("api", LARGE, ids=lambda api: api.api_name)
def test_the_rights_of_many_resources_are_checked_in_turns(api: ApiKey) -> None:
    version, fields = LARGE[api]
    authorizer = CountingAuthorizer()
    request = build(message_class(api.name.lower(), "Request"), {**fields})
    frame = memoryview(b"".join(codec.encode_request(api, version, 1, "test", request))[4:])
    client = connection_of(replace(CONNECTION, access=Access("User:nobody", "10.9.9.9", authorizer)))

    async def answered() -> None:
        counting = asyncio.ensure_future(authorizer.count_turns())
        answer = dispatcher_of(Node()).serve(client, frame)
        while type(answer) is Pending:
            answer = answer.encode(await answer.awaitable)
        counting.cancel()

    asyncio.run(answered())

    assert authorizer.checks.total() >= len(MANY)
    assert max(authorizer.checks.values()) <= 2 * STEPS_PER_TURN  # a deletion checks two rights
