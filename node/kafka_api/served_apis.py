"""The APIs that a node serves, with the versions that it advertises.

They are Apache Kafka 4.4's, each as it is really served, because clients enable features by the advertised
versions. `node/kafka_api/<api>.py` has the `handle` of each API and its description, `API`. The versions are
listed in both places because ApiVersions returns all of them before any of these modules is loaded;
tests/tidy asserts that they are equal.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final

from ottla.node.kafka_api.api_description import NOTHING, ApiDescription
from ottla.node.settings.config import BrokerConfig
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.peer_api import PeerApi, api_of
from ottla.node.wire.request_limits import NAME, SEVERAL, VALUE, RequestLimits

SERVED: dict[ApiKey, tuple[int, int]] = {
    # Served from 3 on. With a higher minimum librdkafka before 2.11.1 would not compress (KAFKA-18659).
    ApiKey.PRODUCE: (0, 13),
    ApiKey.FETCH: (4, 18),
    ApiKey.LIST_OFFSETS: (1, 11),
    ApiKey.METADATA: (0, 13),
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.OFFSET_FETCH: (1, 10),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.API_VERSIONS: (0, 5),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.WRITE_TXN_MARKERS: (1, 2),
    ApiKey.TXN_OFFSET_COMMIT: (0, 6),
    ApiKey.DESCRIBE_ACLS: (1, 3),
    ApiKey.CREATE_ACLS: (1, 3),
    ApiKey.DELETE_ACLS: (1, 3),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 5),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.CREATE_DELEGATION_TOKEN: (1, 3),
    ApiKey.RENEW_DELEGATION_TOKEN: (1, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (1, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (1, 3),
    ApiKey.DELETE_GROUPS: (0, 3),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.DESCRIBE_QUORUM: (0, 2),
    ApiKey.UPDATE_FEATURES: (0, 2),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.UNREGISTER_BROKER: (0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0),
    ApiKey.PUSH_TELEMETRY: (0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: (1, 1),
    ApiKey.ADD_RAFT_VOTER: (0, 1),
    ApiKey.REMOVE_RAFT_VOTER: (0, 0),
    ApiKey.SHARE_FETCH: (1, 2),
    ApiKey.SHARE_ACKNOWLEDGE: (1, 2),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: (0, 0),
    ApiKey.READ_SHARE_GROUP_STATE: (0, 0),
    ApiKey.WRITE_SHARE_GROUP_STATE: (0, 1),
    ApiKey.DELETE_SHARE_GROUP_STATE: (0, 0),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (0, 1),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (0, 0),
}

# The APIs of a node that is only a controller: those of Kafka's controller APIs that clients use.
CONTROLLER_APIS: Final = frozenset(
    {
        ApiKey.SASL_HANDSHAKE,
        ApiKey.API_VERSIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)

# APIs for nodes of the cluster that have proven their identity; ApiVersions does not list them.
SERVED_TO_PEERS: dict[PeerApi, tuple[int, int]] = {
    PeerApi.SUBMIT_COMMAND: (0, 1),
    PeerApi.FETCH_METADATA: (0, 0),
    PeerApi.FETCH_METADATA_SNAPSHOT: (0, 0),
    PeerApi.DESCRIBE_LAG: (0, 0),
    PeerApi.DESCRIBE_SHARE_PARTITIONS: (0, 0),
}

NO_VERSIONS = (0, -1)
# Never changes: nodes of different releases find their common versions with it.
PEER_HANDSHAKE_VERSIONS = (0, 0)
# The other end of a connection proves its identity with these APIs, so they are served before it has.
PROOFS: Final = frozenset({PeerApi.PEER_HANDSHAKE, PeerApi.ACT_FOR})

# The dispatcher itself answers these; they have no handler.
_DESCRIBED_HERE: Final[Mapping[ApiKey | PeerApi, ApiDescription]] = {
    PeerApi.PEER_HANDSHAKE: ApiDescription(
        versions=(0, 0),
        asks=NOTHING,  # a client proves with it that it is a node
        limits=RequestLimits(SEVERAL, {"proof": NAME, "nonce": NAME}),
        is_served_early=True,
    ),
    PeerApi.ACT_FOR: ApiDescription(
        versions=(0, 0),
        asks=NOTHING,  # the REST API of a node proves its identity with it
        limits=RequestLimits(SEVERAL, {"proof": NAME, "nonce": NAME, "principal": VALUE, "host": NAME}),
    ),
}

Served = Mapping[ApiKey, tuple[int, int]]


def served_by(config: BrokerConfig) -> Served:
    """Return the APIs and versions that a node with this configuration serves.

    Two-phase commit (KIP-939), with which a client leaves the end of a transaction to an external
    coordinator, has no final version yet, so it is served only if the configuration enables it.
    """
    if not config.is_broker:
        return {key: versions for key, versions in SERVED.items() if key in CONTROLLER_APIS}
    if config.transaction_two_phase_commit_enable or config.unstable_api_versions_enable:
        return {**SERVED, ApiKey.INIT_PRODUCER_ID: (0, 6)}
    return SERVED


def is_advertised(served: Served, key: ApiKey | PeerApi, version: int) -> bool:
    """Return True if a client, or a peer for its APIs, may use this version of an API."""
    if isinstance(key, ApiKey):
        first, last = served.get(key, NO_VERSIONS)
    else:
        first, last = SERVED_TO_PEERS.get(key, PEER_HANDSHAKE_VERSIONS)
    return first <= version <= last


def is_served(api_key: int) -> bool:
    """Return True if any node serves the API, to clients or to peers."""
    return api_key in SERVED or api_key in SERVED_TO_PEERS or api_key in PROOFS


@cache
def describe(api: ApiKey | PeerApi) -> ApiDescription:
    """Return the description of an API; this loads its module."""
    here = _DESCRIBED_HERE.get(api)
    if here is not None:
        return here
    described: ApiDescription = handler_module(api).API
    return described


def is_served_early(api_key: int) -> bool:
    """Return True if requests with this key are served while clients still wait."""
    return is_served(api_key) and describe(api_of(api_key)).is_served_early


def handler_module(api: ApiKey | PeerApi) -> ModuleType:
    """Return the module that has the `handle` of an API."""
    return import_module(f"ottla.node.kafka_api.{api.name.lower()}")
