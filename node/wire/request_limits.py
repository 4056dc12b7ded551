"""How long the texts and bytes in requests may be, and of how many elements a request: one table, by API.

A text of the wire may have 32,767 bytes and a frame 100 MiB of them. What is an id here is hashed, compared,
kept and written to logs, so it is refused beyond 1,024 bytes where its length stands in the frame, before
anything is done with it. Apache Kafka has no such limit; its clients' names are below 300 bytes (topics 249,
member ids a client's id and a UUID). What lies in logs from before may be longer: it is read, and small
requests still find, show and remove it (`OLD_IDS`).

Names of topics are held against Kafka's 249 characters where topics are created; a longer one cannot exist,
and up to this limit it is answered as one that does not. Values of settings and the metadata of commits are
no ids: they have limits of their own where they are taken.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from ottla.logstore.errors import ErrorCode
from ottla.logstore.schema_compiler import Decoder
from ottla.logstore.schema_decode import FieldLimit, Limits, build_decoder
from ottla.logstore.schema_source import STRING_MAX_BYTES
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.peer_api import PeerApi

MAX_ID_BYTES: Final = 1_024
# Elements of a client's request, more of which are refused; nodes of the cluster may send more. What is done
# with so many at once holds up the loop for less than 50 ms.
MANY: Final = 32_768  # topics, groups or ids to look up
MANY_CHANGED: Final = 12_000  # topics and settings; a command of the controller makes at most 10,000 records
# Partitions: a cluster has at most 200,000, and a client asks the leader of some of them.
MANY_PARTITIONS: Final = 100_000
MANY_TOPICS: Final = 40_000  # in Metadata, which answers 30,000
MANY_FETCHED: Final = 20_000  # partitions that one consumer reads from one node
MANY_MOVED: Final = 6_000  # partitions whose replicas are to move
MANY_LEAVING: Final = 6_000  # members of a group
MANY_ELECTED: Final = 3_000  # topics whose leaders are to be elected, or four times as many partitions
SEVERAL: Final = 10_000  # where one client or group has a few

GROUP: Final = FieldLimit(MAX_ID_BYTES, ErrorCode.INVALID_GROUP_ID)
# No member has such an id: a client that believes it joins anew.
MEMBER: Final = FieldLimit(MAX_ID_BYTES, ErrorCode.UNKNOWN_MEMBER_ID)
TOPIC: Final = FieldLimit(MAX_ID_BYTES, ErrorCode.INVALID_TOPIC_EXCEPTION)
REGEX: Final = FieldLimit(MAX_ID_BYTES, ErrorCode.INVALID_REGULAR_EXPRESSION)
NAME: Final = FieldLimit(MAX_ID_BYTES, ErrorCode.INVALID_REQUEST)
PATH: Final = FieldLimit(4_096, ErrorCode.INVALID_REQUEST)  # as file systems allow
# Values of settings (lists of throttled replicas are long) and metadata of commits, which have a limit and a
# code of their own (offset.metadata.max.bytes).
VALUE: Final = FieldLimit(STRING_MAX_BYTES, ErrorCode.INVALID_REQUEST)
# Metadata of a member, or an assignment; a copy of so much takes a millisecond. The group refuses those that
# do not fit in a record of __consumer_offsets.
PAYLOAD: Final = FieldLimit(4 << 20, ErrorCode.INVALID_REQUEST)
COMMAND: Final = FieldLimit(
    16 << 20, ErrorCode.INVALID_REQUEST
)  # of nodes of the cluster, which have proven it


class RequestLimits(NamedTuple):
    """`fields` by path; `elements` of all arrays together, where four numbers count as one, and the code that
    refuses more.
    """

    elements: int
    fields: Limits = {}
    too_many: ErrorCode = ErrorCode.INVALID_REQUEST


_MEMBER_OF_GROUP: Final = {"group_id": GROUP, "member_id": MEMBER, "group_instance_id": NAME}
_COMMITTED: Final = {"topics.name": TOPIC, "topics.partitions.committed_metadata": VALUE}
_ALTERED: Final = {
    "resources.resource_name": NAME,
    "resources.configs.name": NAME,
    "resources.configs.value": VALUE,
}

LIMITS: Final[Mapping[ApiKey | PeerApi, RequestLimits]] = {
    ApiKey.PRODUCE: RequestLimits(MANY_PARTITIONS, {"transactional_id": NAME, "topic_data.name": TOPIC}),
    ApiKey.FETCH: RequestLimits(
        MANY_FETCHED,
        {"cluster_id": NAME, "topics.topic": TOPIC, "forgotten_topics_data.topic": TOPIC, "rack_id": NAME},
    ),
    ApiKey.LIST_OFFSETS: RequestLimits(MANY_PARTITIONS, {"topics.name": TOPIC}),
    ApiKey.METADATA: RequestLimits(MANY_TOPICS, {"topics.name": TOPIC}),
    ApiKey.OFFSET_COMMIT: RequestLimits(MANY, {**_MEMBER_OF_GROUP, **_COMMITTED}),
    ApiKey.OFFSET_FETCH: RequestLimits(
        MANY_PARTITIONS,
        {
            "group_id": GROUP,
            "topics.name": TOPIC,
            "groups.group_id": GROUP,
            "groups.member_id": MEMBER,
            "groups.topics.name": TOPIC,
        },
    ),
    ApiKey.FIND_COORDINATOR: RequestLimits(MANY, {"key": NAME, "coordinator_keys": NAME}),
    ApiKey.JOIN_GROUP: RequestLimits(
        SEVERAL,
        {
            **_MEMBER_OF_GROUP,
            "protocol_type": NAME,
            "protocols.name": NAME,
            "protocols.metadata": PAYLOAD,
            "reason": NAME,
        },
    ),
    ApiKey.HEARTBEAT: RequestLimits(SEVERAL, _MEMBER_OF_GROUP),
    ApiKey.LEAVE_GROUP: RequestLimits(
        MANY_LEAVING,
        {
            "group_id": GROUP,
            "member_id": MEMBER,
            "members.member_id": MEMBER,
            "members.group_instance_id": NAME,
            "members.reason": NAME,
        },
    ),
    ApiKey.SYNC_GROUP: RequestLimits(
        MANY,
        {
            **_MEMBER_OF_GROUP,
            "protocol_type": NAME,
            "protocol_name": NAME,
            "assignments.member_id": MEMBER,
            "assignments.assignment": PAYLOAD,
        },
    ),
    ApiKey.DESCRIBE_GROUPS: RequestLimits(MANY, {"groups": GROUP}),
    ApiKey.LIST_GROUPS: RequestLimits(SEVERAL, {"states_filter": NAME, "types_filter": NAME}),
    ApiKey.API_VERSIONS: RequestLimits(
        SEVERAL, {"client_software_name": NAME, "client_software_version": NAME, "cluster_id": NAME}
    ),
    ApiKey.CREATE_TOPICS: RequestLimits(
        MANY_CHANGED,
        {"topics.name": TOPIC, "topics.configs.name": NAME, "topics.configs.value": VALUE},
        ErrorCode.POLICY_VIOLATION,
    ),
    ApiKey.DELETE_TOPICS: RequestLimits(
        MANY_CHANGED, {"topics.name": TOPIC, "topic_names": TOPIC}, ErrorCode.POLICY_VIOLATION
    ),
    ApiKey.DELETE_RECORDS: RequestLimits(MANY_PARTITIONS, {"topics.name": TOPIC}),
    ApiKey.INIT_PRODUCER_ID: RequestLimits(SEVERAL, {"transactional_id": NAME}),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: RequestLimits(MANY_PARTITIONS, {"topics.topic": TOPIC}),
    ApiKey.ADD_PARTITIONS_TO_TXN: RequestLimits(
        MANY_PARTITIONS,
        {
            "transactions.transactional_id": NAME,
            "transactions.topics.name": TOPIC,
            "v3_and_below_transactional_id": NAME,
            "v3_and_below_topics.name": TOPIC,
        },
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: RequestLimits(SEVERAL, {"transactional_id": NAME, "group_id": GROUP}),
    ApiKey.END_TXN: RequestLimits(SEVERAL, {"transactional_id": NAME}),
    ApiKey.WRITE_TXN_MARKERS: RequestLimits(MANY_PARTITIONS, {"markers.topics.name": TOPIC}),
    ApiKey.TXN_OFFSET_COMMIT: RequestLimits(
        MANY, {"transactional_id": NAME, **_MEMBER_OF_GROUP, **_COMMITTED}
    ),
    ApiKey.DESCRIBE_CONFIGS: RequestLimits(
        MANY, {"resources.resource_name": NAME, "resources.configuration_keys": NAME}
    ),
    ApiKey.ALTER_CONFIGS: RequestLimits(MANY_CHANGED, _ALTERED, ErrorCode.POLICY_VIOLATION),
    ApiKey.ALTER_REPLICA_LOG_DIRS: RequestLimits(
        MANY_PARTITIONS, {"dirs.path": PATH, "dirs.topics.name": TOPIC}
    ),
    ApiKey.DESCRIBE_LOG_DIRS: RequestLimits(MANY_PARTITIONS, {"topics.topic": TOPIC}),
    ApiKey.CREATE_PARTITIONS: RequestLimits(MANY_CHANGED, {"topics.name": TOPIC}, ErrorCode.POLICY_VIOLATION),
    ApiKey.DELETE_GROUPS: RequestLimits(MANY, {"groups_names": GROUP}),
    ApiKey.ELECT_LEADERS: RequestLimits(MANY_ELECTED, {"topic_partitions.topic": TOPIC}),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: RequestLimits(MANY_CHANGED, _ALTERED, ErrorCode.POLICY_VIOLATION),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: RequestLimits(MANY_MOVED, {"topics.name": TOPIC}),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: RequestLimits(MANY_PARTITIONS, {"topics.name": TOPIC}),
    ApiKey.OFFSET_DELETE: RequestLimits(MANY_PARTITIONS, {"group_id": GROUP, "topics.name": TOPIC}),
    ApiKey.DESCRIBE_QUORUM: RequestLimits(MANY, {"topics.topic_name": TOPIC}),
    ApiKey.UPDATE_FEATURES: RequestLimits(SEVERAL, {"feature_updates.feature": NAME}),
    ApiKey.DESCRIBE_CLUSTER: RequestLimits(SEVERAL),
    ApiKey.DESCRIBE_PRODUCERS: RequestLimits(MANY, {"topics.name": TOPIC}),
    ApiKey.UNREGISTER_BROKER: RequestLimits(SEVERAL),
    ApiKey.DESCRIBE_TRANSACTIONS: RequestLimits(MANY, {"transactional_ids": NAME}),
    ApiKey.LIST_TRANSACTIONS: RequestLimits(
        SEVERAL, {"state_filters": NAME, "transactional_id_pattern": REGEX}
    ),
    ApiKey.LIST_CONFIG_RESOURCES: RequestLimits(SEVERAL),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: RequestLimits(
        SEVERAL,
        {
            "group_id": GROUP,
            "member_id": NAME,  # a client of this protocol chooses it
            "instance_id": NAME,
            "rack_id": NAME,
            "subscribed_topic_names": TOPIC,
            "subscribed_topic_regex": REGEX,
            "server_assignor": NAME,
        },
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: RequestLimits(MANY, {"group_ids": GROUP}),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: RequestLimits(
        MANY_CHANGED, {"topics.name": TOPIC, "cursor.topic_name": TOPIC}
    ),
    ApiKey.ADD_RAFT_VOTER: RequestLimits(
        SEVERAL, {"cluster_id": NAME, "listeners.name": NAME, "listeners.host": NAME}
    ),
    ApiKey.REMOVE_RAFT_VOTER: RequestLimits(SEVERAL, {"cluster_id": NAME}),
    PeerApi.PEER_HANDSHAKE: RequestLimits(SEVERAL, {"proof": NAME, "nonce": NAME}),
    PeerApi.SUBMIT_COMMAND: RequestLimits(SEVERAL, {"command": COMMAND}),
    PeerApi.FETCH_METADATA: RequestLimits(SEVERAL),
    PeerApi.FETCH_METADATA_SNAPSHOT: RequestLimits(SEVERAL),
    PeerApi.DESCRIBE_LAG: RequestLimits(MANY_PARTITIONS),
}

# What finds, shows and removes groups and transactional ids, which may be older than the limit and longer.
# Their texts are hashed and compared, some 20 ns a byte, so such a request is a small one as a whole.
OLD_IDS_MAX_BYTES: Final = 65_536
OLD_IDS: Final[Mapping[int, tuple[str, ...]]] = {
    ApiKey.FIND_COORDINATOR: ("key", "coordinator_keys"),
    ApiKey.DESCRIBE_GROUPS: ("groups",),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ("group_ids",),
    ApiKey.DELETE_GROUPS: ("groups_names",),
    ApiKey.OFFSET_FETCH: ("group_id", "groups.group_id"),
    ApiKey.OFFSET_DELETE: ("group_id",),
    ApiKey.DESCRIBE_TRANSACTIONS: ("transactional_ids",),
    # It aborts what an older producer left; the coordinator refuses new ids that are too long.
    ApiKey.INIT_PRODUCER_ID: ("transactional_id",),
}


@cache
def limited_decoder(api: ApiKey | PeerApi, version: int) -> Decoder[Any]:
    """The decoder of a version of an API's requests; FieldTooLong for what is beyond its limit."""
    return build_decoder(codec.request_class(api), version, LIMITS[api].fields)


@cache
def cutting_decoder(api: ApiKey | PeerApi, version: int, max_bytes: int) -> Decoder[Any]:
    """Return a decoder that cuts each limited text at `max_bytes`, for answers that refuse the request."""
    fields = LIMITS[api].fields
    cut = {path: limit._replace(max_bytes=max_bytes) for path, limit in fields.items()}
    return build_decoder(codec.request_class(api), version, cut, cuts=True)


@cache
def old_ids_decoder(api: ApiKey, version: int) -> Decoder[Any]:
    """Return the decoder of an API in `OLD_IDS` for requests whose ids may be as long as the wire allows."""
    fields = {**LIMITS[api].fields, **dict.fromkeys(OLD_IDS[api], VALUE)}
    return build_decoder(codec.request_class(api), version, fields)
