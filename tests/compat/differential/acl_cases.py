"""Requests of clients without rights, with the required rights, without one of these, or with one denied.

Each case has resources of its own, so all ACLs can be created before the first request. Beside its resource,
a request names another one (`other`), to which no client has a right, and one that does not exist.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple

from ottla.logstore.words.topic_partition import uuid_to_text
from ottla.metadata_raft.acl import CLUSTER_NAME, AclOperation, AclPermissionType, PatternType, ResourceType
from tests.compat.batches import TRANSACTIONAL, batch
from tests.compat.differential.cases import LONG_AGO_MS, UNKNOWN_ID, Fields

ADMINISTRATOR: Final = "admin"
NOBODY: Final = "nobody"
OTHER: Final = "other"
BY_EXPRESSION: Final = "joins by an expression"
SUBSCRIPTION: Final = b"\0\0\0\0\0\0\xff\xff\xff\xff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The resources of a case on one server."""

    run: str
    number: int
    node: int
    ids: dict[str, bytes]  # of topics

    def _own(self, word: str) -> str:
        return f"{word}-{self.run}-{self.number}"

    @property
    def topic(self) -> str:
        return self._own("t")

    @property
    def missing(self) -> str:
        return self._own("missing")

    @property
    def other(self) -> str:
        return f"{OTHER}-{self.run}"

    @property
    def group(self) -> str:
        return self._own("g")

    @property
    def txn(self) -> str:
        return self._own("x")

    @property
    def topic_id(self) -> bytes:
        return self.ids[self.topic]

    @property
    def other_id(self) -> bytes:
        return self.ids[self.other]


class Right(NamedTuple):
    """An operation on a resource of a case."""

    operation: AclOperation
    resource_type: ResourceType
    word: str  # the attribute of Names that holds its name

    def entry(self, names: Names, user: str, permission: AclPermissionType) -> Fields:
        return {
            "resource_type": self.resource_type,
            "resource_name": CLUSTER_NAME if self.word == "cluster" else getattr(names, self.word),
            "resource_pattern_type": PatternType.LITERAL,
            "principal": f"User:{user}",
            "host": "*",
            "operation": self.operation,
            "permission_type": permission,
        }


class Role(NamedTuple):
    """The rights of a client in a case; each role has a user of its own."""

    name: str
    user: str
    allowed: Sequence[Right]
    denied: Sequence[Right]


class Shares(Enum):
    """The preparation of a case's share group by its administrator."""

    NOTHING = 0
    JOINED = 1  # with a member that is assigned the topic of the case
    LEFT = 2  # a member of both topics has joined and left: the states of their share-partitions remain
    FILLED = 3  # as LEFT, with a record in the topic that the group has not been given


@dataclass(frozen=True, slots=True, kw_only=True)
class AclCase:
    """One request in one version, and the rights that are enough for everything it names."""

    number: int
    api: str
    name: str
    version: int
    rights: Sequence[Right]
    fields: Callable[[Names], Fields]
    has_group: bool  # whether its group gets a committed offset
    shares: Shares  # the preparation of its share group

    def roles(self) -> Iterator[Role]:
        """Yield the roles in an order in which only the last one can change what the others ask for."""
        rights = list(self.rights)
        yield Role("nobody", NOBODY, (), ())
        for at, right in enumerate(rights):
            yield Role(f"denied {right.operation.name}", self._user(f"d{at}"), rights, (right,))
            if len(rights) > 1:
                lacking = [one for one in rights if one is not right]
                yield Role(f"without {right.operation.name} {right.word}", self._user(f"w{at}"), lacking, ())
        yield Role("allowed", self._user("a"), rights, ())

    def _user(self, role: str) -> str:
        return f"u{self.number}{role}"


CASES: list[AclCase] = []


def _always(fields: Fields) -> Callable[[Names], Fields]:
    return lambda names: fields


def case(
    api: str,
    name: str,
    rights: Sequence[Right],
    fields: Fields | Callable[[Names], Fields],
    *versions: int,
    has_group: bool = False,
    shares: Shares = Shares.NOTHING,
) -> None:
    for version in versions:
        CASES.append(
            AclCase(
                number=len(CASES),
                api=api,
                name=name,
                version=version,
                rights=rights,
                fields=fields if callable(fields) else _always(fields),
                has_group=has_group,
                shares=shares,
            )
        )


def of_topic(operation: AclOperation, word: str = "topic") -> Right:
    return Right(operation, ResourceType.TOPIC, word)


def of_group(operation: AclOperation) -> Right:
    return Right(operation, ResourceType.GROUP, "group")


def of_txn(operation: AclOperation) -> Right:
    return Right(operation, ResourceType.TRANSACTIONAL_ID, "txn")


def of_cluster(operation: AclOperation) -> Right:
    return Right(operation, ResourceType.CLUSTER, "cluster")


READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
CREATE, DELETE, ALTER = AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER
ALTER_CONFIGS, DESCRIBE_CONFIGS = AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS
CLUSTER_ACTION, IDEMPOTENT_WRITE = AclOperation.CLUSTER_ACTION, AclOperation.IDEMPOTENT_WRITE


def topics(names: Names, key: str = "name", **each: Any) -> list[Fields]:
    """Return an element for each of the topics of a case."""
    return [{key: one, **each} for one in (names.topic, names.other, names.missing)]


def ids(names: Names, **each: Any) -> list[Fields]:
    return [{"topic_id": one, **each} for one in (names.topic_id, names.other_id, UNKNOWN_ID)]


# ---- produce and fetch -------------------------------------------------------------------------------------


def records(**wrong: Any) -> list[Fields]:
    return [{"index": 0, "records": batch((b"v",), base_timestamp=LONG_AGO_MS, **wrong)}]


def produce(make: Callable[[Names], Sequence[Fields]], **fields: Any) -> Callable[[Names], Fields]:
    def ask(n: Names) -> Fields:
        named = {key: value(n) for key, value in fields.items()}
        return {"acks": -1, "timeout_ms": 3000, "topic_data": make(n), **named}

    return ask


def transactional(n: Names) -> list[Fields]:
    wanted = records(attributes=TRANSACTIONAL, producer_id=1, producer_epoch=0, base_sequence=0)
    return [{"name": n.topic, "partition_data": wanted}]


case("produce", "by name", [of_topic(WRITE)], produce(lambda n: topics(n, partition_data=records())), 3, 12)
case("produce", "by id", [of_topic(WRITE)], produce(lambda n: ids(n, partition_data=records())), 13)
case(
    "produce",
    "idempotent",
    [of_topic(WRITE)],
    produce(lambda n: topics(n, partition_data=records(producer_id=1, producer_epoch=0, base_sequence=0))),
    11,
)
case(
    "produce",
    "in a transaction",
    [of_txn(WRITE), of_topic(WRITE)],
    produce(transactional, transactional_id=lambda n: n.txn),
    11,
)
case(
    "produce",
    "transactional without an id",
    [of_topic(WRITE)],
    produce(transactional, transactional_id=lambda n: None),
    11,
)

FETCHED: Final = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
FETCH: Final[Fields] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 10_000}


def fetch(by_id: bool, replica: int = -1) -> Callable[[Names], Fields]:
    def ask(n: Names) -> Fields:
        named = ids(n, partitions=FETCHED) if by_id else topics(n, "topic", partitions=FETCHED)
        return {**FETCH, "replica_id": replica, "topics": named}

    return ask


case("fetch", "by name", [of_topic(READ)], fetch(by_id=False), 4, 12)
case("fetch", "by id", [of_topic(READ)], lambda n: {**FETCH, "topics": ids(n, partitions=FETCHED)}, 16)
case("fetch", "of a follower", [of_cluster(CLUSTER_ACTION)], fetch(by_id=False, replica=7), 12)
case("fetch", "of a follower that may read", [of_topic(READ)], fetch(by_id=False, replica=7), 12)
case(
    "list_offsets",
    "latest",
    [of_topic(DESCRIBE)],
    lambda n: {
        "replica_id": -1,
        "topics": topics(n, partitions=[{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]),
    },
    1,
    9,
)
case(
    "offset_for_leader_epoch",
    "of a consumer",
    [of_topic(DESCRIBE)],
    lambda n: {
        "replica_id": -1,
        "topics": topics(n, "topic", partitions=[{"partition": 0, "leader_epoch": 0}]),
    },
    4,
)
case(
    "offset_for_leader_epoch",
    "of a follower",
    [of_cluster(CLUSTER_ACTION)],
    lambda n: {
        "replica_id": 7,
        "topics": topics(n, "topic", partitions=[{"partition": 0, "leader_epoch": 0}]),
    },
    4,
)
case(
    "delete_records",
    "all",
    [of_topic(DELETE)],
    lambda n: {"topics": topics(n, partitions=[{"partition_index": 0, "offset": -1}]), "timeout_ms": 5000},
    2,
)
case(
    "describe_producers",
    "of topics",
    [of_topic(READ)],
    lambda n: {"topics": topics(n, partition_indexes=[0])},
    0,
)

# ---- metadata ----------------------------------------------------------------------------------------------


def metadata(**fields: Any) -> Callable[[Names], Fields]:
    return lambda n: {
        "topics": [{"name": one["name"]} for one in topics(n)],
        "allow_auto_topic_creation": False,
        **fields,
    }


case("metadata", "by name", [of_topic(DESCRIBE)], metadata(), 4, 12)
case("metadata", "by a right that implies it", [of_topic(WRITE)], metadata(), 12)
case("metadata", "by a right that does not", [of_topic(CREATE)], metadata(), 12)
case("metadata", "a missing one", [of_topic(DESCRIBE, "missing")], metadata(), 12)
case(
    "metadata",
    "a missing one with a right to create it",
    [of_topic(CREATE, "missing"), of_topic(DESCRIBE, "missing")],
    metadata(allow_auto_topic_creation=True),
    12,
)
case(
    "metadata",
    "a missing one with a right to create any",
    [of_cluster(CREATE), of_topic(DESCRIBE, "missing")],
    metadata(allow_auto_topic_creation=True),
    12,
)
case(
    "metadata",
    "with operations",
    [of_topic(READ), of_topic(ALTER), of_topic(DESCRIBE_CONFIGS)],
    metadata(include_topic_authorized_operations=True, include_cluster_authorized_operations=True),
    8,
    10,
)
case(
    "metadata",
    "with operations of the cluster",
    [of_cluster(DESCRIBE), of_cluster(ALTER)],
    metadata(include_cluster_authorized_operations=True),
    8,
)
case("metadata", "all", [of_topic(DESCRIBE)], {"topics": None}, 1, 12)
case(
    "metadata",
    "by id",
    [of_topic(DESCRIBE)],
    lambda n: {"topics": [{"name": None, **one} for one in ids(n)], "allow_auto_topic_creation": False},
    12,
)
case(
    "describe_topic_partitions",
    "by name",
    [of_topic(DESCRIBE)],
    lambda n: {"topics": topics(n), "response_partition_limit": 100},
    0,
)
case("describe_topic_partitions", "all", [of_topic(DESCRIBE)], {"topics": []}, 0)
case(
    "describe_cluster",
    "with operations",
    [of_cluster(DESCRIBE)],
    {"include_cluster_authorized_operations": True, "endpoint_type": 1},
    0,
    1,
)
case(
    "find_coordinator",
    "of groups",
    [of_group(DESCRIBE)],
    lambda n: {"key_type": 0, "coordinator_keys": [n.group, "unasked"]},
    4,
)
case("find_coordinator", "of a group", [of_group(READ)], lambda n: {"key_type": 0, "key": n.group}, 2)
case(
    "find_coordinator",
    "of transactions",
    [of_txn(DESCRIBE)],
    lambda n: {"key_type": 1, "coordinator_keys": [n.txn, "unasked"]},
    4,
)

case(
    "find_coordinator",
    "of share-partitions",
    [of_cluster(CLUSTER_ACTION)],
    lambda n: {"key_type": 2, "coordinator_keys": [f"{n.group}:{uuid_to_text(UNKNOWN_ID)}:0"]},
    6,
)

# ---- the state of share-partitions -------------------------------------------------------------------------


def of_share_partition(n: Names, **fields: Any) -> Fields:
    """Return a partition that no coordinator keeps, of a topic that does not exist."""
    return {
        "group_id": n.group,
        "topics": [{"topic_id": UNKNOWN_ID, "partitions": [{"partition": 0, **fields}]}],
    }


SHARE_STATES: Final = {
    "initialize_share_group_state": {"state_epoch": 0, "start_offset": 0},
    "read_share_group_state": {"leader_epoch": 0},
    "write_share_group_state": {
        "state_epoch": 0,
        "leader_epoch": 0,
        "start_offset": 0,
        "state_batches": list[Fields](),
    },
    "delete_share_group_state": dict[str, Any](),
    "read_share_group_state_summary": {"leader_epoch": 0},
}
for api, state_fields in SHARE_STATES.items():
    case(api, "of the cluster", [of_cluster(CLUSTER_ACTION)], partial(of_share_partition, **state_fields), 0)

# ---- share groups ------------------------------------------------------------------------------------------

SHARE_MEMBER: Final = "AAAAAAAAAAAAAAAAAAAAAQ"  # share sessions accept only member ids that are UUIDs


def of_share_group(n: Names, *words: str) -> Fields:
    subscribed = [getattr(n, word) for word in words]
    return {
        "group_id": n.group,
        "member_id": SHARE_MEMBER,
        "member_epoch": 0,
        "subscribed_topic_names": subscribed,
    }


for subscribed in (("topic",), ("topic", "missing"), ("topic", "other")):
    case(
        "share_group_heartbeat",
        f"joins for {' and '.join(subscribed)}",
        [
            of_group(READ),
            of_topic(DESCRIBE),
            *([of_topic(DESCRIBE, "missing")] if "missing" in subscribed else []),
        ],
        lambda n, subscribed=subscribed: of_share_group(n, *subscribed),
        1,
    )
case(
    "share_group_heartbeat",
    "by a right that implies to describe",
    [of_group(READ), of_topic(READ)],
    lambda n: of_share_group(n, "topic"),
    1,
)
case(
    "share_group_heartbeat",
    "of a group that may only be described",
    [of_group(DESCRIBE), of_topic(DESCRIBE)],
    lambda n: of_share_group(n, "topic"),
    1,
)
case(
    "share_group_describe",
    "and a group that does not exist",
    [of_group(DESCRIBE)],
    lambda n: {"group_ids": [n.group, "unasked"], "include_authorized_operations": True},
    1,
)
case(
    "share_group_describe",
    "with a member and its topic",
    [of_group(DESCRIBE), of_topic(DESCRIBE)],
    lambda n: {"group_ids": [n.group, "unasked"], "include_authorized_operations": True},
    1,
    shares=Shares.JOINED,
)


def share_fetch(n: Names, **fields: Any) -> Fields:
    """Return a request for the existing topics only: an unknown topic id causes an exception in Kafka."""
    partitions: list[Fields] = [{"partition_index": 0, "acknowledgement_batches": []}]
    return {
        "group_id": n.group,
        "member_id": SHARE_MEMBER,
        "share_session_epoch": 0,
        "max_wait_ms": 2_000,
        "min_bytes": 1,
        "max_records": 10,
        "batch_size": 10,
        "topics": [{"topic_id": one, "partitions": partitions} for one in (n.topic_id, n.other_id)],
        **fields,
    }


ACCEPTED: Final = [{"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}]


def share_acknowledge(n: Names, **fields: Any) -> Fields:
    return {
        "group_id": n.group,
        "member_id": SHARE_MEMBER,
        "share_session_epoch": 1,
        "topics": ids(n, partitions=[{"partition_index": 0, "acknowledgement_batches": ACCEPTED}]),
        **fields,
    }


case("share_fetch", "of topics", [of_group(READ), of_topic(READ)], share_fetch, 1, 2, shares=Shares.FILLED)
case("share_fetch", "of a group to describe", [of_group(DESCRIBE), of_topic(READ)], share_fetch, 1)
case(
    "share_fetch",
    "with acknowledgements in a session that does not exist",
    [of_group(READ), of_topic(READ)],
    lambda n: share_fetch(
        n,
        share_session_epoch=3,
        topics=ids(n, partitions=[{"partition_index": 0, "acknowledgement_batches": ACCEPTED}]),
    ),
    1,
)
case("share_acknowledge", "without a session", [of_group(READ), of_topic(READ)], share_acknowledge, 1, 2)
case(
    "share_acknowledge",
    "to end a session",
    [of_group(READ), of_topic(READ)],
    partial(share_acknowledge, share_session_epoch=-1),
    1,
)


def share_offsets(n: Names, *words: str) -> Fields:
    wanted = [{"topic_name": getattr(n, word), "partitions": [0]} for word in words]
    return {"groups": [{"group_id": group, "topics": wanted or None} for group in (n.group, "unasked")]}


THE_TOPICS: Final = ("topic", "other", "missing")
for shared in (Shares.NOTHING, Shares.LEFT):
    case(
        "describe_share_group_offsets",
        f"of topics, {shared.name}",
        [of_group(DESCRIBE), of_topic(DESCRIBE)],
        lambda n: share_offsets(n, *THE_TOPICS),
        0,
        1,
        shares=shared,
    )
    case(
        "describe_share_group_offsets",
        f"of all, {shared.name}",
        [of_group(DESCRIBE), of_topic(DESCRIBE)],
        share_offsets,
        0,
        1,
        shares=shared,
    )
    case(
        "alter_share_group_offsets",
        f"of topics, {shared.name}",
        [of_group(READ), of_topic(READ)],
        lambda n: {
            "group_id": n.group,
            "topics": topics(n, "topic_name", partitions=[{"partition_index": 0, "start_offset": 0}]),
        },
        0,
        shares=shared,
    )
    case(
        "delete_share_group_offsets",
        f"of topics, {shared.name}",
        [of_group(DELETE), of_topic(READ)],
        lambda n: {"group_id": n.group, "topics": topics(n, "topic_name")},
        0,
        shares=shared,
    )
case(
    "alter_share_group_offsets",
    "of a group with members",
    [of_group(READ), of_topic(READ)],
    lambda n: {
        "group_id": n.group,
        "topics": topics(n, "topic_name", partitions=[{"partition_index": 0, "start_offset": 0}]),
    },
    0,
    shares=Shares.JOINED,
)
case(
    "delete_share_group_offsets",
    "of a group with members",
    [of_group(DELETE), of_topic(READ)],
    lambda n: {"group_id": n.group, "topics": topics(n, "topic_name")},
    0,
    shares=Shares.JOINED,
)

# ---- groups ------------------------------------------------------------------------------------------------

COMMITTED: Final = [{"partition_index": 0, "committed_offset": 3, "committed_metadata": ""}]

case(
    "offset_commit",
    "by name",
    [of_group(READ), of_topic(READ)],
    lambda n: {"group_id": n.group, "topics": topics(n, partitions=COMMITTED)},
    2,
    9,
)
case(
    "offset_commit",
    "by id",
    [of_group(READ), of_topic(READ)],
    lambda n: {"group_id": n.group, "topics": ids(n, partitions=COMMITTED)},
    10,
)
case(
    "offset_fetch",
    "of topics",
    [of_group(DESCRIBE), of_topic(DESCRIBE)],
    lambda n: {"group_id": n.group, "topics": topics(n, partition_indexes=[0])},
    2,
    7,
    has_group=True,
)
case(
    "offset_fetch",
    "of topics of groups",
    [of_group(DESCRIBE), of_topic(DESCRIBE)],
    lambda n: {
        "groups": [
            {"group_id": n.group, "topics": topics(n, partition_indexes=[0])},
            {"group_id": "unasked", "topics": topics(n, partition_indexes=[0])},
        ]
    },
    9,
    has_group=True,
)
case(
    "offset_fetch",
    "by id",
    [of_group(DESCRIBE), of_topic(DESCRIBE)],
    lambda n: {"groups": [{"group_id": n.group, "topics": ids(n, partition_indexes=[0])}]},
    10,
    has_group=True,
)
case(
    "offset_fetch",
    "all",
    [of_group(READ), of_topic(READ)],
    lambda n: {"groups": [{"group_id": n.group, "topics": None}]},
    8,
    9,
    10,
    has_group=True,
)
case(
    "offset_fetch",
    "all of one group",
    [of_group(READ), of_topic(READ)],
    lambda n: {"group_id": n.group, "topics": None},
    7,
    has_group=True,
)
case(
    "offset_delete",
    "of topics",
    [of_group(DELETE), of_topic(READ)],
    lambda n: {"group_id": n.group, "topics": topics(n, partitions=[{"partition_index": 0}])},
    0,
    has_group=True,
)
case(
    "join_group",
    "as a new member",
    [of_group(READ)],
    lambda n: {
        "group_id": n.group,
        "member_id": "",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
    },
    5,
    9,
)
MEMBER: Final[Fields] = {"generation_id": 1, "member_id": "x"}
case("sync_group", "unknown", [of_group(READ)], lambda n: {"group_id": n.group, **MEMBER}, 3)
case("heartbeat", "unknown", [of_group(READ)], lambda n: {"group_id": n.group, **MEMBER}, 4)
case(
    "leave_group",
    "unknown",
    [of_group(READ)],
    lambda n: {"group_id": n.group, "members": [{"member_id": "x"}, {"member_id": "y"}]},
    5,
)
case("leave_group", "of one member", [of_group(READ)], lambda n: {"group_id": n.group, "member_id": "x"}, 2)
case(
    "describe_groups",
    "with operations",
    [of_group(DESCRIBE), of_group(DELETE)],
    lambda n: {"groups": [n.group, "unasked"], "include_authorized_operations": True},
    3,
    6,
    has_group=True,
)
case("describe_groups", "plainly", [of_group(READ)], lambda n: {"groups": [n.group, "unasked"]}, 0, 5)
case(
    "consumer_group_describe",
    "with operations",
    [of_group(DESCRIBE)],
    lambda n: {"group_ids": [n.group, "unasked"], "include_authorized_operations": True},
    0,
    1,
    has_group=True,
)
case("list_groups", "by a group", [of_group(DESCRIBE)], {}, 0, 5, has_group=True)
case("list_groups", "by the cluster", [of_cluster(DESCRIBE)], {"types_filter": ["consumer"]}, 5)
case(
    "delete_groups",
    "by name",
    [of_group(DELETE)],
    lambda n: {"groups_names": [n.group, "unasked"]},
    2,
    has_group=True,
)


def joined(n: Names, **fields: Any) -> Fields:
    return {
        "group_id": n.group,
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 10_000,
        "topic_partitions": [],
        **fields,
    }


case(
    "consumer_group_heartbeat",
    "joins",
    [of_group(READ), of_topic(DESCRIBE)],
    lambda n: joined(n, subscribed_topic_names=[n.topic]),
    1,
)
case(
    "consumer_group_heartbeat",
    "joins for more than it may see",
    [of_group(READ), of_topic(DESCRIBE)],
    lambda n: joined(n, subscribed_topic_names=[n.topic, n.other, n.missing]),
    1,
)
case(
    "consumer_group_heartbeat",
    BY_EXPRESSION,
    [of_group(READ), of_topic(DESCRIBE)],
    lambda n: joined(n, subscribed_topic_regex=f"{n.topic}|{n.other}"),
    1,
)
case(
    "consumer_group_heartbeat",
    "leaves",
    [of_group(READ)],
    lambda n: {"group_id": n.group, "member_id": "m", "member_epoch": -1},
    1,
)

# ---- transactions ------------------------------------------------------------------------------------------

NEW_PRODUCER: Final[Fields] = {
    "transaction_timeout_ms": 10_000,
    "producer_id": -1,
    "producer_epoch": -1,
}
case(
    "init_producer_id",
    "of a transaction",
    [of_txn(WRITE)],
    lambda n: {"transactional_id": n.txn, **NEW_PRODUCER},
    4,
    5,
)
case(
    "init_producer_id",
    "by the cluster",
    [of_cluster(IDEMPOTENT_WRITE)],
    {"transactional_id": None, **NEW_PRODUCER},
    4,
)
case("init_producer_id", "by a topic", [of_topic(WRITE)], {"transactional_id": None, **NEW_PRODUCER}, 4)


def in_txn(n: Names, **fields: Any) -> Fields:
    return {"transactional_id": n.txn, "producer_id": 1, "producer_epoch": 0, **fields}


case(
    "add_partitions_to_txn",
    "of a client",
    [of_txn(WRITE), of_topic(WRITE)],
    lambda n: {
        "v3_and_below_transactional_id": n.txn,
        "v3_and_below_producer_id": 1,
        "v3_and_below_topics": topics(n, partitions=[0]),
    },
    3,
)
case(
    "add_partitions_to_txn",
    "all allowed",
    [of_txn(WRITE), of_topic(WRITE)],
    lambda n: {
        "v3_and_below_transactional_id": n.txn,
        "v3_and_below_producer_id": 1,
        "v3_and_below_topics": [{"name": n.topic, "partitions": [0]}],
    },
    2,
)
case(
    "add_partitions_to_txn",
    "of a leader",
    [of_cluster(CLUSTER_ACTION)],
    lambda n: {"transactions": [in_txn(n, topics=[{"name": n.topic, "partitions": [0]}])]},
    5,
)
case(
    "add_offsets_to_txn",
    "of a group",
    [of_txn(WRITE), of_group(READ)],
    lambda n: in_txn(n, group_id=n.group),
    3,
)
case("end_txn", "commits", [of_txn(WRITE)], lambda n: in_txn(n, committed=True), 3)
case(
    "txn_offset_commit",
    "by name",
    [of_txn(WRITE), of_group(READ), of_topic(READ)],
    lambda n: in_txn(n, group_id=n.group, topics=topics(n, partitions=COMMITTED)),
    3,
)
case(
    "describe_transactions",
    "by id",
    [of_txn(DESCRIBE)],
    lambda n: {"transactional_ids": [n.txn, "unasked"]},
    0,
)
case("list_transactions", "all", [of_txn(DESCRIBE)], {}, 0, 1)
MARKERS: Final = {"producer_id": 1, "producer_epoch": 0, "transaction_result": False, "coordinator_epoch": 0}
for operation in (ALTER, CLUSTER_ACTION):
    case(
        "write_txn_markers",
        f"by {operation.name}",
        [of_cluster(operation)],
        lambda n: {"markers": [{**MARKERS, "topics": [{"name": n.missing, "partition_indexes": [0]}]}]},
        1,
    )

# ---- topics and settings -----------------------------------------------------------------------------------


def new(name: str, **fields: Any) -> Fields:
    return {"name": name, "num_partitions": 1, "replication_factor": 1, **fields}


def creating(n: Names) -> Fields:
    return {"topics": [new(n.missing), new(n.topic), new(n.other), new("bad name")], "timeout_ms": 10_000}


case("create_topics", "by name", [of_topic(CREATE, "missing")], creating, 7)
case("create_topics", "by the cluster", [of_cluster(CREATE)], creating, 5)
case(
    "create_topics",
    "with settings",
    [of_topic(CREATE, "missing"), of_topic(DESCRIBE_CONFIGS, "missing")],
    lambda n: {"topics": [new(n.missing)], "timeout_ms": 10_000, "validate_only": True},
    7,
)
case(
    "delete_topics",
    "by name",
    [of_topic(DELETE)],
    lambda n: {"topics": topics(n), "timeout_ms": 10_000},
    6,
)
case(
    "delete_topics",
    "by name in old versions",
    [of_topic(DELETE)],
    lambda n: {"topic_names": [n.topic, n.other, n.missing], "timeout_ms": 10_000},
    4,
)
case(
    "delete_topics",
    "by id",
    [of_topic(DELETE), of_topic(DESCRIBE)],
    lambda n: {"topics": [{"name": None, **one} for one in ids(n)], "timeout_ms": 10_000},
    6,
)
case(
    "delete_topics",
    "by id of a topic that it may describe",
    [of_topic(DESCRIBE)],
    lambda n: {"topics": [{"name": None, **one} for one in ids(n)], "timeout_ms": 10_000},
    6,
)
case(
    "create_partitions",
    "to two",
    [of_topic(ALTER)],
    lambda n: {"topics": topics(n, count=2, assignments=None), "timeout_ms": 10_000, "validate_only": True},
    3,
)


def resources(*kinds: tuple[int, str], **each: Any) -> Callable[[Names], Fields]:
    def ask(n: Names) -> Fields:
        named = [
            {"resource_type": kind, "resource_name": str(getattr(n, word, word)), **each}
            for kind, word in kinds
        ]
        return {"resources": named}

    return ask


OF_ALL: Final = ((2, "topic"), (2, "other"), (2, "missing"), (32, "group"), (16, "metrics"), (4, "node"))
OF_LOGGERS: Final = (8, "node")
SOME_KEY: Final = {"configuration_keys": ["retention.ms"]}
case(
    "describe_configs",
    "of a topic",
    [of_topic(DESCRIBE_CONFIGS)],
    resources(*OF_ALL, OF_LOGGERS, **SOME_KEY),
    4,
)
case(
    "describe_configs",
    "of the cluster",
    [of_cluster(DESCRIBE_CONFIGS)],
    resources(*OF_ALL, **SOME_KEY),
    4,
)
case("describe_configs", "of a group", [of_group(DESCRIBE_CONFIGS)], resources(*OF_ALL, **SOME_KEY), 4)
case(
    "describe_configs",
    "by a right that implies it",
    [of_topic(ALTER_CONFIGS)],
    resources((2, "topic"), (2, "other"), **SOME_KEY),
    4,
)
for right in (of_topic(ALTER_CONFIGS), of_group(ALTER_CONFIGS), of_cluster(ALTER_CONFIGS)):
    case(
        "incremental_alter_configs",
        f"of a {right.word}",
        [right],
        resources(*OF_ALL, OF_LOGGERS, configs=[]),
        1,
    )
    case("alter_configs", f"of a {right.word}", [right], resources(*OF_ALL[:4], configs=[]), 2)
for api_version in (0, 1):
    case(
        "list_config_resources", "all", [of_cluster(DESCRIBE_CONFIGS)], {"resource_types": [16]}, api_version
    )

# ---- the cluster -------------------------------------------------------------------------------------------

ANY_ACL: Final[Fields] = {"operation": 1, "permission_type": 1}
NO_FILTER: Final[Fields] = {"resource_name_filter": "none", "principal_filter": None, "host_filter": None}
ACL_FILTER: Final[Fields] = {**NO_FILTER, **ANY_ACL, "resource_type_filter": 2, "pattern_type_filter": 3}
case("describe_acls", "of a topic", [of_cluster(DESCRIBE)], ACL_FILTER, 3)
case("delete_acls", "of a topic", [of_cluster(ALTER)], {"filters": [ACL_FILTER]}, 3)
case(
    "create_acls",
    "of a topic",
    [of_cluster(ALTER)],
    lambda n: {"creations": [of_topic(READ, "missing").entry(n, "robot", AclPermissionType.ALLOW)]},
    3,
)
USERS_QUOTA: Final[Fields] = {
    "entity": [{"entity_type": "user", "entity_name": "robot"}],
    "ops": [{"key": "producer_byte_rate", "value": 1e9, "remove": False}],
}
case(
    "alter_client_quotas",
    "of a user",
    [of_cluster(ALTER_CONFIGS)],
    {"entries": [USERS_QUOTA], "validate_only": True},
    1,
)
case("describe_client_quotas", "of all", [of_cluster(DESCRIBE_CONFIGS)], {"components": []}, 1)
case("create_delegation_token", "of its own", [], {"renewers": [], "max_lifetime_ms": -1}, 1, 3)
case("renew_delegation_token", "of nobody", [], {"hmac": b"mac", "renew_period_ms": -1}, 2)
case("expire_delegation_token", "of nobody", [], {"hmac": b"mac", "expiry_time_period_ms": -1}, 2)
case("describe_delegation_token", "all", [], {"owners": None}, 3)
case("describe_user_scram_credentials", "of one", [of_cluster(DESCRIBE)], {"users": [{"name": "robot"}]}, 0)
case(
    "alter_user_scram_credentials",
    "of nobody",
    [of_cluster(ALTER)],
    {"deletions": [{"name": "robot", "mechanism": 1}], "upsertions": []},
    0,
)
case(
    "elect_leaders",
    "of a topic",
    [of_cluster(ALTER)],
    lambda n: {
        "election_type": 0,
        "topic_partitions": [{"topic": n.topic, "partitions": [0]}],
        "timeout_ms": 9000,
    },
    0,
    2,
)
case(
    "alter_partition_reassignments",
    "of none",
    [of_cluster(ALTER)],
    lambda n: {
        "topics": [{"name": n.topic, "partitions": [{"partition_index": 0, "replicas": None}]}],
        "timeout_ms": 9000,
    },
    0,
)
case(
    "list_partition_reassignments", "of all", [of_cluster(DESCRIBE)], {"topics": None, "timeout_ms": 9000}, 0
)
case(
    "alter_replica_log_dirs",
    "to nowhere",
    [of_cluster(ALTER)],
    lambda n: {"dirs": [{"path": "/nowhere", "topics": [{"name": n.topic, "partitions": [0]}]}]},
    2,
)
case("describe_log_dirs", "of no topic", [of_cluster(DESCRIBE)], {"topics": []}, 1, 4)
case(
    "describe_quorum",
    "of no topic",
    [of_cluster(DESCRIBE)],
    {"topics": []},
    2,
)
case(
    "update_features",
    "of an unknown one",
    [of_cluster(ALTER)],
    {
        "feature_updates": [{"feature": "robot", "max_version_level": 1, "upgrade_type": 1}],
        "timeout_ms": 9000,
    },
    1,
)
case("unregister_broker", "unknown", [of_cluster(ALTER)], {"broker_id": 77}, 0)
