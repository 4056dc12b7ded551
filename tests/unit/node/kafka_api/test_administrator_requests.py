"""Every request that changes something is for administrators only, or for every client with a reason.

A new API or route fails here until it is in one of the lists.
"""

import asyncio
import inspect
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any, Final, cast

import pytest

from ottla.logstore.words.errors import ErrorCode
from ottla.node.kafka_api.served_apis import SERVED
from ottla.node.net.answers import Pending
from ottla.node.rest_api.all_routes import ALL_ROUTES
from ottla.node.rest_api.route import Route
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from tests.compat.wire_client import build, message_class
from tests.unit.node.fakes import connection_of
from tests.unit.node.kafka_api.serving import dispatcher_of
from tests.unit.node.metadata.metadata_node import CONNECTION, MetadataNode

UNKNOWN_CLIENT: Final = replace(CONNECTION, client_host="10.9.9.9")
BROKER_RESOURCE: Final = 4


def share_state(**fields: int | list[object]) -> Mapping[str, Any]:
    """Return a request about the state of a share-partition, which nodes send to each other."""
    return {"group_id": "g", "topics": [{"topic_id": b"t" * 16, "partitions": [{"partition": 0, **fields}]}]}


READS: Final = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FETCH,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        # Rejected for every client.
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    }
)
# The fields of a request that is rejected for an unknown client.
ADMINISTRATOR_APIS: Final[Mapping[ApiKey, Mapping[str, Any]]] = {
    ApiKey.WRITE_TXN_MARKERS: {
        "markers": [
            {
                "producer_id": 1,
                "producer_epoch": 0,
                "transaction_result": False,
                "topics": [{"name": "t", "partition_indexes": [0]}],
                "coordinator_epoch": 0,
            }
        ]
    },
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: share_state(state_epoch=0, start_offset=0),
    ApiKey.READ_SHARE_GROUP_STATE: share_state(leader_epoch=0),
    ApiKey.WRITE_SHARE_GROUP_STATE: share_state(
        state_epoch=0, leader_epoch=0, start_offset=0, state_batches=[]
    ),
    ApiKey.DELETE_SHARE_GROUP_STATE: share_state(),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: share_state(leader_epoch=0),
    ApiKey.ALTER_CONFIGS: {
        "resources": [{"resource_type": BROKER_RESOURCE, "resource_name": "", "configs": []}]
    },
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {
        "resources": [{"resource_type": BROKER_RESOURCE, "resource_name": "", "configs": []}]
    },
    ApiKey.ALTER_REPLICA_LOG_DIRS: {
        "dirs": [{"path": "/tmp", "topics": [{"name": "t", "partitions": [0, 1]}]}]
    },
    ApiKey.ELECT_LEADERS: {
        "election_type": 1,
        "topic_partitions": [{"topic": "t", "partitions": [0]}],
        "timeout_ms": 1_000,
    },
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {
        "timeout_ms": 1_000,
        "topics": [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [1]}]}],
    },
    ApiKey.UPDATE_FEATURES: {},
    ApiKey.CREATE_ACLS: {"creations": [{"resource_name": "t", "principal": "User:a", "host": "*"}]},
    ApiKey.DELETE_ACLS: {"filters": [{}]},
    ApiKey.ALTER_CLIENT_QUOTAS: {
        "entries": [{"entity": [{"entity_type": "user", "entity_name": "a"}], "ops": []}],
    },
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {"deletions": [{"name": "a", "mechanism": 1}], "upsertions": []},
    ApiKey.UNREGISTER_BROKER: {"broker_id": 7},
    ApiKey.ADD_RAFT_VOTER: {"cluster_id": None, "voter_id": 7},
    ApiKey.REMOVE_RAFT_VOTER: {"cluster_id": None, "voter_id": 7},
}
_TOPICS: Final = "topics belong to all clients while clients cannot log in"
_GROUPS: Final = "groups belong to all clients while clients cannot log in"
_TRANSACTIONS: Final = "it is how producers work, and each has an id and an epoch of its own"
OPEN_APIS: Final[Mapping[ApiKey, str]] = {
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "a client asks which of its own metrics to push",
    ApiKey.PUSH_TELEMETRY: "a client pushes only its own metrics, within bounds",
    ApiKey.PRODUCE: "it is how producers work; internal topics are for administrators",
    ApiKey.METADATA: "it creates topics only with auto.create.topics.enable",
    ApiKey.FIND_COORDINATOR: "it creates the internal topics that every group needs",
    ApiKey.CREATE_TOPICS: _TOPICS,
    ApiKey.DELETE_TOPICS: _TOPICS,
    ApiKey.DELETE_RECORDS: _TOPICS,
    ApiKey.CREATE_PARTITIONS: _TOPICS,
    ApiKey.OFFSET_COMMIT: _GROUPS,
    ApiKey.JOIN_GROUP: _GROUPS,
    ApiKey.HEARTBEAT: _GROUPS,
    ApiKey.LEAVE_GROUP: _GROUPS,
    ApiKey.SYNC_GROUP: _GROUPS,
    ApiKey.DELETE_GROUPS: _GROUPS,
    ApiKey.OFFSET_DELETE: _GROUPS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _GROUPS,
    ApiKey.SHARE_GROUP_HEARTBEAT: _GROUPS,
    ApiKey.SHARE_FETCH: _GROUPS,
    ApiKey.SHARE_ACKNOWLEDGE: _GROUPS,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _GROUPS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _GROUPS,
    ApiKey.INIT_PRODUCER_ID: _TRANSACTIONS,
    ApiKey.ADD_PARTITIONS_TO_TXN: _TRANSACTIONS,
    ApiKey.ADD_OFFSETS_TO_TXN: _TRANSACTIONS,
    ApiKey.END_TXN: _TRANSACTIONS,
    ApiKey.TXN_OFFSET_COMMIT: _TRANSACTIONS,
}

_CONSUMERS: Final = "a consumer has the rights of the client that created it, and no other client may use it"
ADMINISTRATOR_ROUTES: Final = frozenset(
    {
        "drainBroker",
        "endDrain",
        "electLeaders",
        "transferLeader",
        "rebalanceLeaders",
        "beginReassignments",
        "cancelReassignments",
        "decommissionBroker",
        "setThrottles",
        "requestBalance",
        "cancelBalance",
        "clearThrottles",
        "abortTransaction",
        "updateKafkaClusterConfig",
        "deleteKafkaClusterConfig",
        "updateKafkaClusterConfigs",
        "updateKafkaBrokerConfig",
        "deleteKafkaBrokerConfig",
        "updateKafkaBrokerConfigBatch",
        "createKafkaAcls",
        "batchCreateKafkaAcls",
        "deleteKafkaAcls",
        "setPassword",
        "deleteUser",
        "alterQuotas",
        "deleteQuotas",
    }
)
OPEN_ROUTES: Final[Mapping[str, str]] = {
    "logIn": "it is how the console gets a session",
    "logOut": "it ends the client's own session",
    "createKafkaTopic": _TOPICS,
    "updatePartitionCountKafkaTopic": _TOPICS,
    "deleteKafkaTopic": _TOPICS,
    "trimTopic": _TOPICS,
    "updateKafkaTopicConfig": _TOPICS,
    "deleteKafkaTopicConfig": _TOPICS,
    "updateKafkaTopicConfigBatch": _TOPICS,
    "updateKafkaConfigsOfTopics": _TOPICS,
    "produceRecord": "it is how producers work",
    "produceRecordsBatch": "it is how producers work",
    "resetGroup": _GROUPS,
    "deleteGroup": _GROUPS,
    "deleteKafkaShareGroup": _GROUPS,
    "deleteGroupOffsets": _GROUPS,
    "updateKafkaGroupConfig": _GROUPS,
    "deleteKafkaGroupConfig": _GROUPS,
    "updateKafkaGroupConfigBatch": _GROUPS,
    "deliverAgain": "it is how producers work",
    "produceRecordsV2": "it is how producers work",
    "produceRecordsToPartitionV2": "it is how producers work",
    "createConsumerV2": _CONSUMERS,
    "deleteConsumerV2": _CONSUMERS,
    "subscribeV2": _CONSUMERS,
    "unsubscribeV2": _CONSUMERS,
    "assignV2": _CONSUMERS,
    "seekV2": _CONSUMERS,
    "seekToBeginningV2": _CONSUMERS,
    "seekToEndV2": _CONSUMERS,
    "commitOffsetsV2": _CONSUMERS,
}


MUTATING: Final = [route for route in ALL_ROUTES if route.method not in ("GET", "HEAD", "OPTIONS")]


def ask(api: ApiKey, fields: Mapping[str, Any]) -> Any:
    """Return the response to an unknown client from a node that would fail if it did anything."""
    version = SERVED[api][1]
    request = build(message_class(api.name.lower(), "Request"), dict(fields))
    frame = memoryview(b"".join(codec.encode_request(api, version, 1, "test", request))[4:])

    async def answered() -> Any:
        answer = dispatcher_of(MetadataNode()).serve(connection_of(UNKNOWN_CLIENT), frame)
        while type(answer) is Pending:
            answer = answer.encode(await answer.awaitable)
        return b"".join(cast(list[bytes], answer))

    return codec.decode_response(api, version, asyncio.run(answered())[4:])[1]


def codes_in(answer: Any) -> Counter[int]:
    """Count the error codes of a response, at any depth."""
    if isinstance(answer, list):
        return sum(map(codes_in, answer), Counter())
    if not hasattr(type(answer), "__schema__"):
        return Counter()
    here = Counter(value for name, value in vars(answer).items() if name == "error_code")
    return here + sum(map(codes_in, vars(answer).values()), Counter())


def test_every_api_reads_or_is_for_administrators_or_for_all_clients_with_a_reason() -> None:
    lists = (READS, frozenset(ADMINISTRATOR_APIS), frozenset(OPEN_APIS))

    assert sum(map(len, lists)) == len(frozenset().union(*lists)), "an API is in two lists"
    assert frozenset().union(*lists) == frozenset(SERVED)


@pytest.mark.parametrize("api", ADMINISTRATOR_APIS, ids=lambda api: api.api_name)
def test_an_unknown_client_is_refused_every_api_for_administrators(api: ApiKey) -> None:
    codes = codes_in(ask(api, ADMINISTRATOR_APIS[api]))

    assert set(codes) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}


@pytest.mark.parametrize("api", [*READS, *OPEN_APIS], ids=lambda api: api.api_name)
def test_apis_for_every_client_do_not_check_for_administrators(api: ApiKey) -> None:
    """The list of APIs for every client is wrong about an API whose handler rejects unknown clients."""
    source = inspect.getsource(import_module(f"ottla.node.kafka_api.{api.name.lower()}"))

    assert "administrators.check" not in source


def test_every_route_that_changes_something_is_for_administrators_or_for_all_clients_with_a_reason() -> None:
    mutating = [route.operation_id for route in MUTATING]

    assert sorted(mutating) == sorted([*ADMINISTRATOR_ROUTES, *OPEN_ROUTES])


@pytest.mark.parametrize("route", MUTATING, ids=lambda route: route.operation_id)
def test_a_route_is_for_administrators_if_it_is_in_their_list(route: Route) -> None:
    assert route.is_for_administrators is (route.operation_id in ADMINISTRATOR_ROUTES)
