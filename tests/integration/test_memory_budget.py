"""Clients that fill every part of a node's memory stay within its budget, and other clients are served."""

import re
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from ottla.logstore.words.errors import ErrorCode
from ottla.node.memory.memory_budget import BUDGET_SHARE, PARTS, divide
from tests.compat.batches import batch
from tests.compat.servers import Server, start_ottla
from tests.compat.wire_client import WireClient, eventually, only
from tests.integration.test_limits import rss_bytes
from tests.ports import free_port

MIB: Final = 1 << 20
# A small pod. The memory of the idle node, about 80 MiB, is measured before.
MEMORY_BYTES: Final = 256 * MIB
GROWTH_BYTES: Final = int(MEMORY_BYTES * BUDGET_SHARE)
ABSENT_PARTITIONS: Final = 50_000
SESSIONS: Final = 8
LARGE_GROUPS: Final = 200
METADATA_BYTES: Final = 1_000_000
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = start_ottla(
        tmp_path_factory.mktemp("memory"),
        f"ottla.memory.max.bytes={MEMORY_BYTES}",
        "group.initial.rebalance.delay.ms=0",
        f"ottla.rest.listeners=http://127.0.0.1:{free_port()}",
    )
    yield server
    assert server.stop() == 0


def session_id_of(answer: bytes) -> int:
    """Return the session id in a Fetch response of version 12."""
    return int.from_bytes(answer[4 + 1 + 4 + 2 :][:4])


def test_fetches_of_absent_partitions_keep_no_session_and_little_memory(node: Server) -> None:
    wanted = [
        {"partition": one, "fetch_offset": 10_000 + one, "partition_max_bytes": MIB}
        for one in range(ABSENT_PARTITIONS)
    ]
    topics = [{"topic": "absent", "partitions": wanted}]
    answers = []
    with WireClient(node.bootstrap, timeout_s=120) as client:
        frame = client.frame("fetch", 12, max_wait_ms=0, min_bytes=0, session_epoch=0, topics=topics)
        made = [{"name": "memory", "num_partitions": 1, "replication_factor": 1}]
        client.call("create_topics", 7, topics=made, timeout_ms=30_000)
        eventually(
            lambda: only(client.call("metadata", 12, topics=[{"name": "memory"}]).topics),
            lambda topic: not topic.error_code and topic.partitions[0].leader_id >= 0,
        )

        def attack() -> None:
            with WireClient(node.bootstrap, timeout_s=120) as attacker:
                attacker.send_bytes(frame)
                answers.append(session_id_of(attacker.receive_frame()))

        produce_and_fetch(client)
        before = peak = rss_bytes(node)
        with ThreadPoolExecutor(SESSIONS) as pool:
            attacks = [pool.submit(attack) for _ in range(SESSIONS)]
            while not all(one.done() for one in attacks):
                produce_and_fetch(client)
                peak = max(peak, rss_bytes(node))
            for one in attacks:
                one.result()

    assert peak - before < GROWTH_BYTES, f"{(peak - before) // MIB} MiB"
    assert answers == [0] * SESSIONS, "a session of absent partitions is not kept"


def produce_and_fetch(client: WireClient) -> None:
    """Produce and fetch as a well-behaved client."""
    data = [{"name": "memory", "partition_data": [{"index": 0, "records": batch([b"honest"])}]}]
    produced = only(client.call("produce", 9, acks=-1, timeout_ms=30_000, topic_data=data).responses)
    assert not produced.partition_responses[0].error_code
    wanted = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
    topics = [{"topic": "memory", "partitions": wanted}]
    fetched = client.call("fetch", 12, max_wait_ms=0, min_bytes=0, max_bytes=1000, topics=topics)
    assert not fetched.responses[0].partitions[0].error_code


def join(client: WireClient, group: str, metadata: bytes) -> int:
    answer = client.call(
        "join_group",
        5,
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id="",
        group_instance_id=group,
        protocol_type="c",
        protocols=[{"name": "p", "metadata": metadata}],
    )
    return int(answer.error_code)


def test_members_with_large_metadata_are_rejected_beyond_their_budget_and_small_ones_are_not(
    node: Server,
) -> None:
    with WireClient(node.bootstrap, timeout_s=60) as client:
        client.call("find_coordinator", 4, key_type=0, coordinator_keys=["first"])
        eventually(lambda: join(client, "first", b"m"), lambda code: not code)
        before = rss_bytes(node)

        codes = Counter(
            join(client, f"large{number}", bytes(METADATA_BYTES)) for number in range(LARGE_GROUPS)
        )

        grown = rss_bytes(node) - before
        part = divide(MEMORY_BYTES).group_members
        assert grown < GROWTH_BYTES, f"{grown // MIB} MiB"
        assert codes.keys() == {ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert codes[ErrorCode.NONE] <= part // METADATA_BYTES
        assert {join(client, f"small{number}", b"m") for number in range(20)} == {ErrorCode.NONE}


def test_each_part_of_the_budget_has_metrics_of_its_use_and_limit(node: Server) -> None:
    with WireClient(node.bootstrap, timeout_s=60) as client:
        client.call("find_coordinator", 4, key_type=0, coordinator_keys=["first"])
        eventually(lambda: join(client, "first", b"m"), lambda code: not code)
        join(client, "measured", bytes(METADATA_BYTES))  # rejected if members of another test fill the budget
    rest = re.search(r"rest=(\S+)", node.ready_line)
    assert rest is not None
    with urllib.request.urlopen(f"{rest[1]}/metrics", timeout=60) as answer:
        read = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line[0] != "#")

    assert float(read["ottla_memory_max_bytes"]) == MEMORY_BYTES
    for part in PARTS:
        most = float(read[f'ottla_memory_limit_bytes{{part="{part}"}}'])
        assert 0 <= float(read[f'ottla_memory_bytes{{part="{part}"}}']) <= most, part
    assert float(read['ottla_memory_bytes{part="group_members"}']) > METADATA_BYTES
