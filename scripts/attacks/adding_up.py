"""Attacks that are small by themselves and add up: sessions, members, large requests of many connections."""

import re
import struct
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from typing import Final

from attacks.attack import Attack
from attacks.hostile import TIMEOUT_S, codes_in, in_words
from attacks.nodes import BETWEEN_SCRAPES_S, Nodes
from tests.compat.batches import batch
from tests.compat.wire_client import Closed, WireClient, eventually

# The memory of a small pod; 0.6 of it is the budget.
SETTINGS: Final = {"ottla.memory.max.bytes": str(256 << 20)}
BUDGET_MIB: Final = 256 * 0.6
ABSENT_PARTITIONS: Final = 50_000
SESSIONS: Final = 12
JOINS: Final = 200
METADATA_BYTES: Final = 1_000_000
AT_A_TIME: Final = 12
# For the attack on several parts of the budget at once; with 256 MiB a part has 3 to 25 MiB.
LARGE_TOPIC: Final = "adding-up"
RECORD_BYTES: Final = 900_000
LARGE_RECORDS: Final = 16
FRAMES: Final = 60
FRAME_BYTES: Final = 1_000_000
READERS: Final = 20
COMMITTING_GROUPS: Final = 4_000
METADATA_CHARS: Final = 4_000
PRODUCERS: Final = 12_000
HELD_TIMEOUT_S: Final = 5.0
FULL: Final = 0.8
SLACK: Final = 0.1  # requests that arrive at the same moment may be admitted together
LEAST_FULL: Final = 3  # not more: we look once a second, and a large request is answered sooner
# A request that is larger than the limit of its part is served alone; it counts 24 times its frame.
ALONE: Final = {"large_requests": 24 * (METADATA_BYTES + 1_000)}


def _fetch_sessions(nodes: Nodes) -> str:
    wanted = [
        {"partition": one, "fetch_offset": 10_000 + one, "partition_max_bytes": 1 << 20}
        for one in range(ABSENT_PARTITIONS)
    ]
    topics = [{"topic": "absent", "partitions": wanted}]
    maker = object.__new__(WireClient)
    maker.client_id, maker.correlation_id = "attack", 0
    frame = maker.frame("fetch", 12, max_wait_ms=0, min_bytes=0, session_epoch=0, topics=topics)

    def fetch(_: int) -> int:
        with nodes.connect(timeout_s=TIMEOUT_S) as client:
            client.send_bytes(frame)
            return int.from_bytes(client.receive_frame()[11:15])

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        kept = sum(session_id != 0 for session_id in pool.map(fetch, range(SESSIONS)))
    assert not kept, f"{kept} sessions of partitions that do not exist were kept"
    return f"{SESSIONS} responses, no session kept"


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


# ---- all parts of the budget at once ---------------------------------------------------------------------


def _prepare_parts(nodes: Nodes) -> None:
    _make_offsets_topic(nodes)
    with nodes.connect(timeout_s=TIMEOUT_S) as client:
        wanted = [{"name": LARGE_TOPIC, "num_partitions": 1, "replication_factor": 1}]
        client.call("create_topics", 7, topics=wanted, timeout_ms=30_000)
        large = batch([bytes(RECORD_BYTES)])
        for _ in range(LARGE_RECORDS):
            data = [{"name": LARGE_TOPIC, "partition_data": [{"index": 0, "records": large}]}]
            codes = eventually(
                lambda data=data: codes_in(  # type: ignore[misc]
                    client.call("produce", 9, acks=1, timeout_ms=30_000, topic_data=data)
                ),
                lambda codes: set(codes) == {0},
            )
            assert set(codes) == {0}, in_words(codes)


def _announce_frames(nodes: Nodes, stack: ExitStack) -> None:
    """Send half of many frames, and never the end; the halves fill `receive_buffers`."""
    for _ in range(FRAMES):
        client = stack.enter_context(nodes.connect(timeout_s=HELD_TIMEOUT_S))
        with suppress(OSError, Closed):
            client.send_bytes(struct.pack(">ihhih", FRAME_BYTES, 0, 9, 1, -1) + bytes(FRAME_BYTES // 2))


def _read_nothing(nodes: Nodes, stack: ExitStack) -> None:
    """Fetch records and never read the responses; they fill `unsent_answers`, and buffers of the kernel."""
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 24}]
    for _ in range(READERS):
        client = stack.enter_context(nodes.connect(timeout_s=HELD_TIMEOUT_S))
        with suppress(OSError, Closed):
            for _ in range(4):
                client.send(
                    "fetch",
                    12,
                    max_wait_ms=0,
                    min_bytes=0,
                    topics=[{"topic": LARGE_TOPIC, "partitions": partitions}],
                )


def _join_heavily(nodes: Nodes) -> None:
    """Join groups with large metadata, which fills `group_members`."""
    _joins(nodes)


def _commit_heavily(nodes: Nodes) -> None:
    """Commit offsets with metadata in many groups; they fill `committed_offsets`."""
    for number in range(COMMITTING_GROUPS):
        with nodes.connect(timeout_s=TIMEOUT_S) as client, suppress(Closed):
            partitions = [
                {"partition_index": 0, "committed_offset": 1, "committed_metadata": "m" * METADATA_CHARS}
            ]
            client.call(
                "offset_commit",
                8,
                group_id=f"commits{number}",
                generation_id_or_member_epoch=-1,
                member_id="",
                topics=[{"name": LARGE_TOPIC, "partitions": partitions}],
            )


def _produce_by_many(nodes: Nodes) -> None:
    """Send one record of each of many idempotent producers, whose states fill `producer_states`."""
    with nodes.connect(timeout_s=TIMEOUT_S) as client, suppress(Closed):
        for first in range(0, PRODUCERS, AT_A_TIME):
            for producer_id in range(first, first + AT_A_TIME):
                one = batch([b"v"], producer_id=producer_id, producer_epoch=0, base_sequence=0)
                data = [{"name": LARGE_TOPIC, "partition_data": [{"index": 0, "records": one}]}]
                client.send("produce", 9, acks=1, timeout_ms=30_000, topic_data=data)
            for _ in range(AT_A_TIME):
                client.receive_frame()


def _uses(nodes: Nodes) -> dict[str, tuple[float, float]]:
    """Return the bytes that each part of the budget uses, and its limit."""
    scraped = nodes.scrape().decode()

    def by_part(name: str) -> dict[str, float]:
        found = re.findall(rf'^{name}{{part="(\w+)"}} (\S+)$', scraped, re.M)
        return {part: float(value) for part, value in found}

    limits = by_part("ottla_memory_limit_bytes")
    return {part: (used, limits[part]) for part, used in by_part("ottla_memory_bytes").items()}


def _all_parts(nodes: Nodes) -> str:
    full: dict[str, float] = {}
    with ExitStack() as stack, ThreadPoolExecutor(AT_A_TIME) as pool:
        work = [
            pool.submit(_announce_frames, nodes, stack),
            pool.submit(_read_nothing, nodes, stack),
            pool.submit(_join_heavily, nodes),
            pool.submit(_commit_heavily, nodes),
            pool.submit(_produce_by_many, nodes),
        ]
        while not all(one.done() for one in work):
            for part, (used, limit) in _uses(nodes).items():
                most = max(limit * (1 + SLACK), ALONE.get(part, 0))
                assert used <= most, f"{part} uses {used:,.0f} of {limit:,.0f} bytes"
                full[part] = max(full.get(part, 0.0), used / limit if limit else 0.0)
            wait(work, BETWEEN_SCRAPES_S)
        for one in work:
            one.result()
    full_parts = sorted(part for part, share in full.items() if share >= FULL)
    assert len(full_parts) >= LEAST_FULL, f"only {full_parts} were full: {full}"
    return f"full: {', '.join(full_parts)}"


ATTACKS: Final[Sequence[Attack]] = (
    Attack(
        name="fetch-sessions-absent-partitions",
        sends=f"{SESSIONS} Fetch requests for sessions of {ABSENT_PARTITIONS:,} partitions that do not exist",
        send=_fetch_sessions,
        cpu_s=20.0,
        growth_mib=BUDGET_MIB,
        settings=SETTINGS,
    ),
    Attack(
        name="join-groups-large-metadata",
        sends=f"{JOINS} JoinGroup requests of 1 MB, each for a group of its own",
        send=_joins,
        cpu_s=10.0,
        growth_mib=BUDGET_MIB,
        prepare=_make_offsets_topic,
        settings=SETTINGS,
    ),
    Attack(
        name="all-parts-at-once",
        sends="half frames, fetches with unread responses, members, commits and producers, all at once",
        send=_all_parts,
        cpu_s=25.0,
        growth_mib=BUDGET_MIB,
        prepare=_prepare_parts,
        settings=SETTINGS,
        is_thorough=True,
        node_counts=(1,),
    ),
)
