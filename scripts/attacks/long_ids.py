"""Ids of kilobytes, in every API that takes an id: rejected before they are hashed, kept or compared."""

import struct
from collections.abc import Sequence
from typing import Final

from attacks.attack import Attack
from attacks.hostile import FLOOD_S, ask, codes_in, flood, in_words, strings_frame
from attacks.nodes import Nodes
from ottla.logstore.words.schema_compiler import decode
from ottla.node.wire.api_keys import ApiKey
from tests.compat.wire_client import Closed, WireClient, eventually, message_class

KEY_CHARS: Final = 32_704
SPACE: Final = 96 << 20  # of a frame of less than socket.request.max.bytes
PAYLOAD_BYTES: Final = 4 << 20
FLOOD_BYTES_PER_S: Final = 3_000_000.0


def _send_strings(
    nodes: Nodes, api: ApiKey, version: int, count: int, size: int, *, tail: bytes = b""
) -> str:
    """Send one frame of strings to one node; return the error codes of the response."""
    frame = strings_frame(api, version, count, size, tail)
    with nodes.connect(timeout_s=300.0) as client:
        try:
            client.send_bytes(frame)
            answer = client.receive_frame()
        except Closed:
            return "connection closed"
    return in_words(codes_in(decode(message_class(api.name.lower(), "Response"), version, answer[4:])))


def _find_coordinators(nodes: Nodes) -> str:
    return ask(nodes, "find_coordinator", 4, key_type=0, coordinator_keys=["x" * KEY_CHARS] * 1_000)


def _describe_groups(nodes: Nodes) -> str:
    return _send_strings(nodes, ApiKey.DESCRIBE_GROUPS, 0, SPACE // (KEY_CHARS + 2), KEY_CHARS)


def _describe_many_groups(nodes: Nodes) -> str:
    return _send_strings(nodes, ApiKey.DESCRIBE_GROUPS, 0, SPACE // 1_002, 1_000)


def _giant_metadata(nodes: Nodes) -> str:
    return _send_strings(nodes, ApiKey.METADATA, 0, SPACE // 202, 200)


def _giant_delete_topics(nodes: Nodes) -> str:
    timeout_ms = struct.pack(">i", 1_000)
    return _send_strings(nodes, ApiKey.DELETE_TOPICS, 1, SPACE // 202, 200, tail=timeout_ms)


def _heartbeats(nodes: Nodes) -> str:
    maker = object.__new__(WireClient)
    maker.client_id, maker.correlation_id = "attack", 0
    frame = maker.frame("heartbeat", 4, group_id="g" * KEY_CHARS, generation_id=1, member_id="m" * KEY_CHARS)
    return f"{flood(nodes, frame, FLOOD_BYTES_PER_S)} answers"


def _old_ids(nodes: Nodes) -> str:
    """Request the longest ids that APIs accept for groups from before the limit on ids."""
    maker = object.__new__(WireClient)
    maker.client_id, maker.correlation_id = "attack", 0
    outcomes = []
    for api, version, name in (
        ("find_coordinator", 4, "coordinator_keys"),
        ("describe_groups", 5, "groups"),
        ("delete_groups", 2, "groups_names"),
        ("describe_transactions", 0, "transactional_ids"),
    ):
        frame = maker.frame(api, version, **{name: [letter * 32_700 for letter in "ab"]})
        outcomes.append(f"{flood(nodes, frame, FLOOD_BYTES_PER_S, FLOOD_S / 4)} answers")
    return ", ".join(outcomes)


def _join_with_payloads(nodes: Nodes) -> str:
    """Join with one payload that is too long, then with as many allowed ones as fit in a frame."""
    fields = {
        "group_id": "payloads",
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "member_id": "",
        "protocol_type": "attack",
    }
    outcomes = []
    for count, size in ((1, SPACE), (SPACE // PAYLOAD_BYTES, PAYLOAD_BYTES)):
        offered = [{"name": f"{number}", "metadata": bytes(size)} for number in range(count)]
        outcomes.append(ask(nodes, "join_group", 3, protocols=offered, **fields))
    assert "INVALID_REQUEST" in outcomes[0], outcomes
    return "; ".join(outcomes)


def _init_producer_id(nodes: Nodes, transactional_id: str) -> str:
    return ask(
        nodes,
        "init_producer_id",
        4,
        transactional_id=transactional_id,
        transaction_timeout_ms=60_000,
        producer_id=-1,
        producer_epoch=-1,
    )


def _make_transactions_topic(nodes: Nodes) -> None:
    def made() -> str:
        ask(nodes, "find_coordinator", 4, key_type=1, coordinator_keys=["honest"])
        return _init_producer_id(nodes, "honest")

    assert "NONE" in eventually(made, lambda one: "NONE" in one)


def _list_transactions(nodes: Nodes) -> str:
    refused = _init_producer_id(nodes, "a" * 30_000)
    assert "INVALID_REQUEST" in refused, refused
    for number in range(3):
        made = _init_producer_id(nodes, "".join("ab"[7**one % 11 % 2] for one in range(1_000)) + f"{number}")
        assert made == "1 x NONE", made
    outcomes = [
        ask(nodes, "list_transactions", 2, transactional_id_pattern=pattern)
        for pattern in ("(?:.?){690}", "[ab]*a[ab]{100}|(?:.?){690}")
    ]
    return "; ".join(outcomes)


# A frame of 96 MB, which is held whole (receive_buffers of the budget), and what is read behind it.
ONE_FRAME_MIB: Final = 150.0

ATTACKS: Final[Sequence[Attack]] = (
    Attack(
        name="find-coordinator-long-keys",
        sends="FindCoordinator with 1,000 keys of 32,704 characters, 33 MB",
        send=_find_coordinators,
        cpu_s=1.0,
    ),
    Attack(
        name="describe-groups-long-names",
        sends="DescribeGroups with 96 MB of names of 32,704 characters",
        send=_describe_groups,
        cpu_s=1.0,
        growth_mib=ONE_FRAME_MIB,
    ),
    Attack(
        name="describe-groups-many-names",
        sends="DescribeGroups with 96 MB of names of 1,000 characters",
        send=_describe_many_groups,
        cpu_s=1.0,
        growth_mib=ONE_FRAME_MIB,
    ),
    Attack(
        name="metadata-many-names",
        sends="Metadata with 96 MB of topic names of 200 characters",
        send=_giant_metadata,
        cpu_s=1.0,
        growth_mib=ONE_FRAME_MIB,
    ),
    Attack(
        name="delete-topics-many-names",
        sends="DeleteTopics with 96 MB of topic names of 200 characters",
        send=_giant_delete_topics,
        cpu_s=1.0,
        growth_mib=ONE_FRAME_MIB,
    ),
    Attack(
        name="heartbeats-long-ids",
        sends="Heartbeat with a group and a member of 32,704 characters, 3 MB/s for 3 s",
        send=_heartbeats,
        cpu_s=1.0,
    ),
    Attack(
        name="old-ids",
        sends="four APIs that accept ids from before the limit, two of 32,700 characters, 3 MB/s for 3 s",
        send=_old_ids,
        cpu_s=1.5,  # some 2 ms a request: it is read twice, hashed, and repeated in the response
    ),
    Attack(
        name="join-group-payloads",
        sends="JoinGroup with one payload of 96 MB, and with 24 of 4 MB",
        send=_join_with_payloads,
        cpu_s=1.5,
        growth_mib=350.0,  # the frame, and a copy of it
        node_counts=(1,),
    ),
    Attack(
        name="list-transactions-pattern",
        sends="ListTransactions with [ab]*a[ab]{100}|(?:.?){690} over three ids of 1,001 characters",
        send=_list_transactions,
        cpu_s=6.0,
        prepare=_make_transactions_topic,
        node_counts=(1,),  # of three nodes another may be the coordinator
    ),
)
