"""A Java consumer that a node rejects for lack of memory retries, and reads as soon as there is room."""

import re
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from ottla.logstore.words.errors import ErrorCode
from tests.compat.batches import batch
from tests.compat.java.kafka_tools import KafkaTools
from tests.compat.servers import Server, start_ottla
from tests.compat.wire_client import WireClient, eventually, only
from tests.ports import free_port

pytestmark = [pytest.mark.java, pytest.mark.slow]

METADATA_BYTES: Final = 14_000  # below the size that counts as large
RECORDS: Final = 5
# Errors of whole responses: a consumer that receives this one looks up its coordinator and joins again.
REFUSED: Final = re.compile(
    r'^kafka_network_requestmetrics_errors_total\{[^}]*request="(?:JoinGroup|ConsumerGroupHeartbeat)"'
    r'[^}]*error="COORDINATOR_NOT_AVAILABLE"[^}]*\} (\S+)|'
    r'^kafka_network_requestmetrics_errors_total\{[^}]*error="COORDINATOR_NOT_AVAILABLE"'
    r'[^}]*request="(?:JoinGroup|ConsumerGroupHeartbeat)"[^}]*\} (\S+)',
    re.MULTILINE,
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = start_ottla(
        tmp_path_factory.mktemp("refusals"),
        f"ottla.memory.max.bytes={64 << 20}",
        "group.initial.rebalance.delay.ms=0",
        "offsets.topic.num.partitions=1",
        f"ottla.rest.listeners=http://127.0.0.1:{free_port()}",
    )
    yield server
    assert server.stop() == 0


def refusals(node: Server) -> int:
    """Return the number of joins answered with COORDINATOR_NOT_AVAILABLE."""
    rest = re.search(r"rest=(\S+)", node.ready_line)
    assert rest is not None
    with urllib.request.urlopen(f"{rest[1]}/metrics", timeout=60) as answer:
        found = REFUSED.findall(answer.read().decode())
    return sum(int(float(one or other)) for one, other in found)


def join(client: WireClient, group: str, metadata: bytes) -> tuple[int, str]:
    answer = client.call(
        "join_group",
        3,
        group_id=group,
        session_timeout_ms=300_000,
        rebalance_timeout_ms=300_000,
        member_id="",
        protocol_type="c",
        protocols=[{"name": "p", "metadata": metadata}],
    )
    return int(answer.error_code), str(answer.member_id)


def fill(client: WireClient) -> dict[str, str]:
    """Let members join groups of their own until no more are accepted, and return group -> member id."""
    members: dict[str, str] = {}
    for size in (METADATA_BYTES, 0):
        while True:
            group = f"full{len(members)}"
            code, member_id = join(client, group, bytes(size))
            if code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                break
            assert code == ErrorCode.NONE
            members[group] = member_id
    return members


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_rejected_consumer_reads_when_others_have_left(
    node: Server, tools: KafkaTools, protocol: str
) -> None:
    topic = f"refusals-{protocol}"
    with WireClient(node.bootstrap, timeout_s=60) as client, ThreadPoolExecutor(1) as pool:
        made = [{"name": topic, "num_partitions": 1, "replication_factor": 1}]
        client.call("create_topics", 7, topics=made, timeout_ms=30_000)
        data = [{"index": 0, "records": batch([b"value-%d" % number for number in range(RECORDS)])}]
        topics = [{"name": topic, "partition_data": data}]
        eventually(
            lambda: only(client.call("produce", 9, acks=-1, timeout_ms=30_000, topic_data=topics).responses),
            lambda one: not one.partition_responses[0].error_code,
        )
        client.call("find_coordinator", 4, key_type=0, coordinator_keys=["first"])
        eventually(lambda: join(client, f"first-{protocol}", b"")[0], lambda code: not code)
        members, before = fill(client), refusals(node)

        reading = pool.submit(
            tools.run,
            "kafka-console-consumer",
            *("--bootstrap-server", node.bootstrap, "--topic", topic, "--group", f"java-{protocol}"),
            *("--from-beginning", "--max-messages", str(RECORDS), "--timeout-ms", "60000"),
            *("--consumer-property", f"group.protocol={protocol}"),
        )
        eventually(lambda: refusals(node), lambda count: count >= before + 3 or reading.done())
        assert not reading.done(), reading.result().text
        for group, member_id in members.items():
            client.call("leave_group", 2, group_id=group, member_id=member_id)

        ran = reading.result()

    assert ran.code == 0, ran.text
    assert [line for line in ran.lines() if line.startswith("value-")] == [
        f"value-{number}" for number in range(RECORDS)
    ]
