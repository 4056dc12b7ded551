"""Attacks that are small by themselves and add up: sessions, members, large requests of many connections."""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from attacks.attack import Attack
from attacks.hostile import TIMEOUT_S, in_words
from attacks.nodes import Nodes
from tests.compat.wire_client import Closed, WireClient, eventually

# As of a small pod: 0.6 of it is the budget.
SETTINGS: Final = {"ottla.memory.max.bytes": str(256 << 20)}
BUDGET_MIB: Final = 256 * 0.6
ABSENT_PARTITIONS: Final = 50_000
SESSIONS: Final = 12
JOINS: Final = 200
METADATA_BYTES: Final = 1_000_000
AT_A_TIME: Final = 12


def _fetch_sessions(nodes: Nodes) -> str:
    wanted = [
        {"partition": one, "fetch_offset": 10_000 + one, "partition_max_bytes": 1 << 20}
        for one in range(ABSENT_PARTITIONS)
    ]
    topics = [{"topic": "absent", "partitions": wanted}]
    maker = object.__new__(WireClient)
    maker.client_id, maker.correlation_id = "attack", 0
    frame = maker.frame("fetch", 12, max_wait_ms=0, min_bytes=0, session_epoch=0, topics=topics)

    def ask(_: int) -> int:
        with nodes.connect(timeout_s=TIMEOUT_S) as client:
            client.send_bytes(frame)
            return int.from_bytes(client.receive_frame()[11:15])

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        kept = sum(session_id != 0 for session_id in pool.map(ask, range(SESSIONS)))
    assert not kept, f"{kept} sessions of partitions that do not exist are kept"
    return f"{SESSIONS} answers, no session"


def _make_offsets_topic(nodes: Nodes) -> None:
    with nodes.connect(timeout_s=TIMEOUT_S) as client:
        eventually(
            lambda: client.call("find_coordinator", 4, key_type=0, coordinator_keys=["x"]).coordinators[0],
            lambda one: not one.error_code,
        )


def _joins(nodes: Nodes) -> str:
    def join(number: int) -> int:
        with nodes.connect(timeout_s=TIMEOUT_S) as client:
            try:
                answer = client.call(
                    "join_group",
                    5,
                    group_id=f"heavy{number}",
                    session_timeout_ms=30_000,
                    rebalance_timeout_ms=30_000,
                    member_id="",
                    group_instance_id="i",
                    protocol_type="c",
                    protocols=[{"name": "p", "metadata": bytes(METADATA_BYTES)}],
                )
            except Closed:
                return -1
            return int(answer.error_code)

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return in_words(Counter(pool.map(join, range(JOINS))))


ATTACKS: Final[Sequence[Attack]] = (
    Attack(
        name="fetch-sessions-absent-partitions",
        sends=f"{SESSIONS} fetches that want sessions of {ABSENT_PARTITIONS:,} partitions that do not exist",
        send=_fetch_sessions,
        cpu_s=20.0,
        growth_mib=BUDGET_MIB,
        settings=SETTINGS,
        node_counts=(1,),
    ),
    Attack(
        name="join-groups-large-metadata",
        sends=f"{JOINS} JoinGroup requests of 1 MB, each for a group of its own",
        send=_joins,
        cpu_s=10.0,
        growth_mib=BUDGET_MIB,
        prepare=_make_offsets_topic,
        settings=SETTINGS,
        node_counts=(1,),
    ),
)
