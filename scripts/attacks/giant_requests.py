"""Requests with as many elements as a node accepts in one request, in every API that takes arrays."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from attacks.attack import Attack
from attacks.hostile import ask, flood
from attacks.nodes import Nodes
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.request_limits import (
    MANY,
    MANY_CHANGED,
    MANY_ELECTED,
    MANY_FETCHED,
    MANY_MOVED,
    MANY_PARTITIONS,
    SEVERAL,
)
from tests.compat.wire_client import WireClient

# Room for the elements around the many, such as their topic.
SPARE: Final = 16
NAME_CHARS: Final = 200
ID_CHARS: Final = 1_000

Fields = dict[str, Any]


def _names(count: int, chars: int) -> list[str]:
    """Return names that differ only in their last characters, the worst case for comparisons."""
    return [f"{number:x}".rjust(chars, "x") for number in range(count)]


def _partitions(count: int, **more: Any) -> list[Fields]:
    return [{"partition_index": number, **more} for number in range(count)]


_TOPICS: Final = MANY - SPARE
_PLACES: Final = MANY_PARTITIONS - SPARE
_CHANGED: Final = MANY_CHANGED - SPARE
_HALF: Final = _TOPICS // 2  # topics with four partitions
_FEW: Final = SEVERAL - SPARE
_FETCHED: Final = MANY_FETCHED - SPARE
_MOVED: Final = MANY_MOVED - SPARE
_ELECTED: Final = MANY_ELECTED - SPARE
_GROUP: Final = {"group_id": "giant", "generation_id_or_member_epoch": -1, "member_id": ""}

# API, version, fields, and a description of the content.
REQUESTS: Final[Sequence[tuple[ApiKey, int, Callable[[], Fields], str]]] = (
    (
        ApiKey.METADATA,
        12,
        lambda: {
            "topics": [{"name": one} for one in _names(30_000, NAME_CHARS)],
            "allow_auto_topic_creation": False,
        },
        "30,000 topics of 200 characters",
    ),
    (
        ApiKey.DELETE_TOPICS,
        5,
        lambda: {"topic_names": _names(_CHANGED, NAME_CHARS), "timeout_ms": 1_000},
        f"{_CHANGED:,} topics of 200 characters",
    ),
    (
        ApiKey.CREATE_TOPICS,
        7,
        lambda: {
            "topics": [
                {"name": one, "num_partitions": 1, "replication_factor": 1}
                for one in _names(_CHANGED, NAME_CHARS)
            ],
            "timeout_ms": 1_000,
        },
        f"{_CHANGED:,} topics of 200 characters",
    ),
    (
        ApiKey.CREATE_PARTITIONS,
        3,
        lambda: {
            "topics": [{"name": one, "count": 2} for one in _names(_CHANGED, NAME_CHARS)],
            "timeout_ms": 1_000,
        },
        f"{_CHANGED:,} topics of 200 characters",
    ),
    (
        ApiKey.FIND_COORDINATOR,
        4,
        lambda: {"key_type": 0, "coordinator_keys": _names(10_000, ID_CHARS)},
        "10,000 keys of 1,000 characters",
    ),
    (
        ApiKey.DESCRIBE_GROUPS,
        5,
        lambda: {"groups": _names(_TOPICS, ID_CHARS)},
        f"{_TOPICS:,} groups of 1,000 characters",
    ),
    (
        ApiKey.DELETE_GROUPS,
        2,
        lambda: {"groups_names": _names(_TOPICS, ID_CHARS)},
        f"{_TOPICS:,} groups of 1,000 characters",
    ),
    (
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        1,
        lambda: {"group_ids": _names(_TOPICS, ID_CHARS)},
        f"{_TOPICS:,} groups of 1,000 characters",
    ),
    (
        ApiKey.DESCRIBE_TRANSACTIONS,
        0,
        lambda: {"transactional_ids": _names(_TOPICS, ID_CHARS)},
        f"{_TOPICS:,} ids of 1,000 characters",
    ),
    (
        ApiKey.LIST_OFFSETS,
        7,
        lambda: {
            "replica_id": -1,
            "topics": [{"name": "absent", "partitions": _partitions(_PLACES, timestamp=5)}],
        },
        f"{_PLACES:,} partitions",
    ),
    (
        ApiKey.OFFSET_FETCH,
        8,
        lambda: {
            "groups": [
                {"group_id": one, "topics": [{"name": "absent", "partition_indexes": [0]}]}
                for one in _names(30_000, ID_CHARS)
            ]
        },
        "30,000 groups of 1,000 characters",
    ),
    (
        ApiKey.OFFSET_COMMIT,
        8,
        lambda: {
            **_GROUP,
            "topics": [{"name": "absent", "partitions": _partitions(_TOPICS, committed_metadata="x")}],
        },
        f"{_TOPICS:,} partitions with metadata",
    ),
    (
        ApiKey.DELETE_RECORDS,
        2,
        lambda: {
            "topics": [{"name": "absent", "partitions": _partitions(_PLACES, offset=0)}],
            "timeout_ms": 1_000,
        },
        f"{_PLACES:,} partitions",
    ),
    (
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        lambda: {
            "replica_id": -1,
            "topics": [
                {
                    "topic": "absent",
                    "partitions": [{"partition": number, "leader_epoch": 0} for number in range(_PLACES)],
                }
            ],
        },
        f"{_PLACES:,} partitions",
    ),
    (
        ApiKey.DESCRIBE_CONFIGS,
        4,
        lambda: {
            "resources": [
                {"resource_type": 2, "resource_name": one, "configuration_keys": None}
                for one in _names(_TOPICS, NAME_CHARS)
            ]
        },
        f"{_TOPICS:,} topics of 200 characters",
    ),
    (
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        lambda: {
            "resources": [
                {"resource_type": 2, "resource_name": one, "configs": []}
                for one in _names(_CHANGED, NAME_CHARS)
            ]
        },
        f"{_CHANGED:,} topics of 200 characters",
    ),
    (
        ApiKey.ALTER_CONFIGS,
        2,
        lambda: {
            "resources": [
                {
                    "resource_type": 2,
                    "resource_name": "absent",
                    "configs": [{"name": one, "value": "1"} for one in _names(_CHANGED, NAME_CHARS)],
                }
            ]
        },
        f"{_CHANGED:,} settings of one topic",
    ),
    (
        ApiKey.LEAVE_GROUP,
        5,
        lambda: {
            "group_id": "giant",
            "members": [{"member_id": one, "group_instance_id": None} for one in _names(_FEW, ID_CHARS)],
        },
        f"{_FEW:,} members of 1,000 characters",
    ),
    (
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        lambda: {
            "group_id": "giant",
            "member_id": "giant",
            "member_epoch": 0,
            "rebalance_timeout_ms": 30_000,
            "subscribed_topic_names": _names(_FEW, NAME_CHARS),
            "topic_partitions": [],
        },
        f"a subscription to {_FEW:,} topics of 200 characters",
    ),
    (
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        lambda: {"topics": [{"name": one} for one in _names(_CHANGED, NAME_CHARS)]},
        f"{_CHANGED:,} topics of 200 characters",
    ),
    (
        ApiKey.DESCRIBE_PRODUCERS,
        0,
        lambda: {
            "topics": [{"name": one, "partition_indexes": [0, 1, 2, 3]} for one in _names(_HALF, NAME_CHARS)]
        },
        f"{_HALF:,} topics of 200 characters",
    ),
    (
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        lambda: {
            "v3_and_below_transactional_id": "giant",
            "v3_and_below_topics": [{"name": one, "partitions": [0]} for one in _names(_TOPICS, NAME_CHARS)],
        },
        f"{_TOPICS:,} topics of 200 characters",
    ),
    (
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        0,
        lambda: {
            "timeout_ms": 1_000,
            "topics": [
                {
                    "name": "absent",
                    "partitions": [{"partition_index": one, "replicas": [0]} for one in range(_MOVED)],
                }
            ],
        },
        f"{_MOVED:,} partitions",
    ),
    (
        ApiKey.ELECT_LEADERS,
        2,
        lambda: {
            "election_type": 0,
            "topic_partitions": [{"topic": one, "partitions": [0]} for one in _names(_ELECTED, NAME_CHARS)],
            "timeout_ms": 1_000,
        },
        f"{_ELECTED:,} topics of 200 characters",
    ),
    (
        ApiKey.FETCH,
        12,
        lambda: {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "topics": [
                {
                    "topic": "absent",
                    "partitions": [{"partition": one, "fetch_offset": 0} for one in range(_FETCHED)],
                }
            ],
        },
        f"{_FETCHED:,} partitions",
    ),
)


def _send(api: ApiKey, version: int, fields: Callable[[], Fields], nodes: Nodes) -> str:
    return ask(nodes, api.name.lower(), version, **fields())


# Topics that are really created: with their partitions nearly as many records as one command may have.
_MADE: Final = 4_900
_MADE_NAMES: Final = [f"made-{number}" for number in range(_MADE)]
_MAX_WAIT_MS: Final = 120_000


def _made_topics() -> Fields:
    return {
        "topics": [{"name": one, "num_partitions": 1, "replication_factor": -1} for one in _MADE_NAMES],
        "timeout_ms": _MAX_WAIT_MS,
    }


def _made_configs() -> Fields:
    changes = [{"name": "retention.ms", "config_operation": 0, "value": "3600000"}]
    return {
        "resources": [{"resource_type": 2, "resource_name": one, "configs": changes} for one in _MADE_NAMES]
    }


def _made_whole_configs() -> Fields:
    configs = [{"name": "retention.ms", "value": "7200000"}]
    return {
        "resources": [{"resource_type": 2, "resource_name": one, "configs": configs} for one in _MADE_NAMES]
    }


def _make_topics(nodes: Nodes) -> None:
    """Create the topics that an attack changes, unless they exist."""
    _send(ApiKey.CREATE_TOPICS, 7, _made_topics, nodes)


def _forget_topics(nodes: Nodes) -> None:
    """Delete these topics, so that the attack can create them."""
    _send(ApiKey.DELETE_TOPICS, 5, _deleted_topics, nodes)


def _deleted_topics() -> Fields:
    return {"topic_names": _MADE_NAMES, "timeout_ms": _MAX_WAIT_MS}


# One topic is one command, with a record for each partition.
_MANY_PARTITIONS: Final = 9_900
_LARGE_TOPIC: Final = "large"


def _large_topic() -> Fields:
    topic = {"name": _LARGE_TOPIC, "num_partitions": _MANY_PARTITIONS, "replication_factor": -1}
    return {"topics": [topic], "timeout_ms": _MAX_WAIT_MS}


def _deleted_large_topic() -> Fields:
    return {"topic_names": [_LARGE_TOPIC], "timeout_ms": _MAX_WAIT_MS}


def _make_large_topic(nodes: Nodes) -> None:
    _send(ApiKey.CREATE_TOPICS, 7, _large_topic, nodes)


def _forget_large_topic(nodes: Nodes) -> None:
    _send(ApiKey.DELETE_TOPICS, 5, _deleted_large_topic, nodes)


def _named_topics() -> Fields:
    names = [f"auto-{number}" for number in range(100)]
    return {"topics": [{"name": one} for one in names], "allow_auto_topic_creation": True}


# Changes that succeed: the controller writes them, and every node applies and publishes them.
CHANGES: Final[Sequence[tuple[str, ApiKey, int, Callable[[], Fields], Callable[[Nodes], None], str]]] = (
    ("create-topics", ApiKey.CREATE_TOPICS, 7, _made_topics, _forget_topics, f"{_MADE:,} topics are created"),
    (
        "alter-topics",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        _made_configs,
        _make_topics,
        f"a setting of {_MADE:,} topics is set",
    ),
    (
        "alter-whole-topics",
        ApiKey.ALTER_CONFIGS,
        2,
        _made_whole_configs,
        _make_topics,
        f"the settings of {_MADE:,} topics are replaced",
    ),
    (
        "grow-topics",
        ApiKey.CREATE_PARTITIONS,
        3,
        lambda: {
            "topics": [{"name": one, "count": 2, "assignments": None} for one in _MADE_NAMES],
            "timeout_ms": _MAX_WAIT_MS,
        },
        _make_topics,
        f"{_MADE:,} topics get a second partition",
    ),
    (
        "delete-topics",
        ApiKey.DELETE_TOPICS,
        5,
        _deleted_topics,
        _make_topics,
        f"{_MADE:,} topics are deleted",
    ),
    (
        "create-large-topic",
        ApiKey.CREATE_TOPICS,
        7,
        _large_topic,
        _forget_large_topic,
        f"a topic of {_MANY_PARTITIONS:,} partitions is created",
    ),
    (
        "delete-large-topic",
        ApiKey.DELETE_TOPICS,
        5,
        _deleted_large_topic,
        _make_large_topic,
        f"a topic of {_MANY_PARTITIONS:,} partitions is deleted",
    ),
    (
        "auto-create-topics",
        ApiKey.METADATA,
        12,
        _named_topics,
        lambda nodes: None,
        "100 topics are created automatically",
    ),
)

# Sent to every node at once: of each kind of work, the largest request that is still accepted.
_FLOOD_APIS: Final = (
    ApiKey.METADATA,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DESCRIBE_CONFIGS,
)
FLOOD_ALL_S: Final = 8.0
SESSION_MS: Final = 3_000  # a third of the default
UNBOUNDED: Final = 1e12  # bytes a second
FENCED: Final = "The controller has fenced this broker"  # a node logs this about itself


def _flood_all_nodes(nodes: Nodes) -> str:
    """Send giant requests to all nodes repeatedly, each kind over a connection of its own."""
    maker = object.__new__(WireClient)
    maker.client_id, maker.correlation_id = "attack", 0
    frames = [
        maker.frame(api.name.lower(), version, **fields())
        for api, version, fields, _ in REQUESTS
        if api in _FLOOD_APIS
    ]
    with ThreadPoolExecutor(len(frames) * len(nodes.bootstraps)) as clients:
        sent = [
            clients.submit(flood, one, frame, UNBOUNDED, FLOOD_ALL_S)
            for one in nodes.each()
            for frame in frames
        ]
        total = sum(each.result() for each in sent)
    assert FENCED not in nodes.log(), "a node was fenced"
    return f"{total} requests, no broker fenced"


ATTACKS: Final[Sequence[Attack]] = (
    *(
        Attack(
            name=f"giant-{api.name.lower().replace('_', '-')}",
            sends=f"{api.api_name} with {words}",
            send=partial(_send, api, version, fields),
            cpu_s=6.0,
            # A frame of 32 MB (receive_buffers of the budget), its decoded form (large_requests), responses.
            growth_mib=250.0,
            is_thorough=True,
        )
        for api, version, fields, words in REQUESTS
    ),
    *(
        Attack(
            name=f"giant-change-{name}",
            sends=f"{api.api_name}: {words}",
            send=partial(_send, api, version, fields),
            prepare=prepare,
            cpu_s=40.0,  # on three nodes: creating 5,000 logs takes each of them 15 to 25 s
            growth_mib=160.0,  # for the logs; the request itself takes less
            is_thorough=True,
        )
        for name, api, version, fields, prepare, words in CHANGES
    ),
    Attack(
        name="giant-all-nodes",
        sends=f"{len(_FLOOD_APIS)} giant requests at once to each node for {FLOOD_ALL_S:g} s; "
        "short broker sessions",
        send=_flood_all_nodes,
        settings={"broker.session.timeout.ms": str(SESSION_MS), "broker.heartbeat.interval.ms": "500"},
        cpu_s=60.0,  # all that the processors have: only fencing is judged
        growth_mib=400.0,  # frames of 32 MB, their decoded forms, and the responses
        is_thorough=True,
        node_counts=(3,),
    ),
)
