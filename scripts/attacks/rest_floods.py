"""One address that wants all of the REST API, or of the probes' port; others and the kubelet must be served.

During each attack `kubelet` probes /healthz.
"""

import http.client
import json
import math
import socket
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from attacks.attack import Attack
from attacks.kubelet import SETTINGS, probe_url, probed
from attacks.nodes import Nodes
from attacks.probes import ATTACKER, TIMEOUT_S, get
from tests.compat.batches import batch
from tests.compat.wire_client import eventually

TOPIC: Final = "rest-floods"
PARTITIONS: Final = 6
RECORDS: Final = 12_000
RECORDS_OF_BATCH: Final = 1_000
READS: Final = 300
MANY_READS: Final = 1_300
PROBE_LIMIT_S: Final = 1.0
READ_MS: Final = 4_000
TAILS: Final = 40
TAILS_OF_ADDRESS: Final = 8  # the default of ottla.rest.tails.max.per.address
SLOW_CONNECTIONS: Final = 300
SLOW_ROUNDS: Final = 5
SLOW_ADDRESS: Final = "127.0.0.2"  # not that of the kubelet
OTHER: Final = "127.0.0.2"


def _make_records(nodes: Nodes) -> None:
    with nodes.connect() as client:
        wanted = [{"name": TOPIC, "num_partitions": PARTITIONS, "replication_factor": 1}]
        client.call("create_topics", 7, topics=wanted, timeout_ms=30_000)
        values = [
            json.dumps({"user": {"id": number}, "text": "x" * 200}).encode()
            for number in range(RECORDS_OF_BATCH)
        ]
        for number in range(RECORDS // RECORDS_OF_BATCH):
            data = [
                {
                    "name": TOPIC,
                    "partition_data": [{"index": number % PARTITIONS, "records": batch(values)}],
                }
            ]

            def produce(data: object = data) -> int:
                answer = client.call("produce", 9, acks=-1, timeout_ms=30_000, topic_data=data)
                return int(answer.responses[0].partition_responses[0].error_code)

            eventually(produce, lambda code: not code)


def _records_path(nodes: Nodes) -> str:
    _, body = get(nodes.rest, "/v3/clusters")
    cluster_id = json.loads(body)["data"][0]["cluster_id"]
    return f"/v3/clusters/{cluster_id}/topics/{TOPIC}/records"


def _filtered_reads(nodes: Nodes, count: int = READS, probe_s: float = math.inf) -> str:
    """Read from one address and from another; AssertionError if a probe takes longer than `probe_s`."""
    path = _records_path(nodes)
    statuses: Counter[str] = Counter()

    def read() -> None:
        try:
            seen = str(get(nodes.rest, f"{path}?filter=$.user.id=-1&timeout_ms={READ_MS}")[0])
        except (OSError, http.client.HTTPException) as error:
            seen = type(error).__name__
        statuses[seen] += 1

    with probed(nodes) as kubelet:
        readers = [threading.Thread(target=read, daemon=True) for _ in range(count)]
        for one in readers:
            one.start()
        others = [get(nodes.rest, f"{path}?count=1&timeout_ms=30000", source=OTHER)[0] for _ in range(3)]
        for one in readers:
            one.join()
    assert others == [200] * 3, f"another address got {others}"
    assert statuses["429"], f"no read was rejected: {dict(statuses)}"
    for where, longest_s in (("its port", kubelet.longest_s), ("the REST API", kubelet.rest_longest_s)):
        assert longest_s <= probe_s, f"a probe at {where} took {longest_s:.2f} s, more than {probe_s:g}"
    return (
        f"{dict(statuses)}; {kubelet.requests} probes, the longest {kubelet.longest_s:.2f} s,"
        f" {kubelet.rest_longest_s:.2f} s at the REST API"
    )


def _open_tail(nodes: Nodes, path: str, source: str) -> tuple[int, http.client.HTTPConnection]:
    parts = urlsplit(nodes.rest)
    connection = http.client.HTTPConnection(
        str(parts.hostname), parts.port, timeout=TIMEOUT_S, source_address=(source, 0)
    )
    connection.request("GET", f"{path}?filter=$.user.id=-1", headers={"Accept": "text/event-stream"})
    answer = connection.getresponse()
    if answer.status == 200:
        assert answer.fp.readline().startswith(b"retry:") or answer.fp.readline()
    return answer.status, connection


def _live_tails(nodes: Nodes) -> str:
    path = _records_path(nodes)
    opened: list[tuple[int, http.client.HTTPConnection]] = []
    try:
        with probed(nodes) as kubelet:
            opened += [_open_tail(nodes, path, ATTACKER) for _ in range(TAILS)]
            other = _open_tail(nodes, path, OTHER)
            opened.append(other)
            time.sleep(1.0)
    finally:
        for _, connection in opened:
            connection.close()
    statuses = Counter(status for status, _ in opened[:TAILS])
    assert statuses == {200: TAILS_OF_ADDRESS, 429: TAILS - TAILS_OF_ADDRESS}, statuses
    assert other[0] == 200, f"another address got {other[0]}"
    return f"{dict(statuses)}; {kubelet.requests} probes, the longest {kubelet.longest_s:.2f} s"


def _slow_probes(nodes: Nodes) -> str:
    where = urlsplit(probe_url(nodes))
    ended = 0
    with probed(nodes) as kubelet:
        for number in range(SLOW_ROUNDS):
            held = [
                socket.create_connection((where.hostname, where.port), source_address=(SLOW_ADDRESS, 0))
                for _ in range(SLOW_CONNECTIONS)
            ]
            for one in held:
                with suppress(OSError):
                    one.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: 1")
            for one in held[:: SLOW_ROUNDS - number]:
                try:
                    one.sendall(b"x" * 100_000)
                except OSError:
                    ended += 1
            time.sleep(0.2)
            for one in held:
                one.close()
    return f"{ended} cut off at once; {kubelet.requests} probes, the longest {kubelet.longest_s:.2f} s"


ATTACKS: Final[Sequence[Attack]] = (
    Attack(
        name="filtered-reads",
        sends=f"{READS} filtered reads of {RECORDS:,} records from one address, while another one reads",
        send=_filtered_reads,
        prepare=_make_records,
        # Two cores for the longest time of a request; then all have been answered.
        cpu_s=2.0 * READ_MS / 1000,
        settings=SETTINGS,
        node_counts=(1,),
    ),
    Attack(
        name="filtered-reads-1300",
        sends=f"{MANY_READS:,} filtered reads from one address, and probes within a second",
        send=lambda nodes: _filtered_reads(nodes, MANY_READS, PROBE_LIMIT_S),
        prepare=_make_records,
        # As above, and rejections: 3 to 5 ms each with their connections, while two threads read.
        cpu_s=2.0 * READ_MS / 1000 + MANY_READS * 0.006,
        settings=SETTINGS,
        is_scripts_alone=True,  # on a busy machine a node may wait longer than a second for a processor
        node_counts=(1,),
    ),
    Attack(
        name="live-tails",
        sends=f"{TAILS} live tails from one address, then one from another",
        send=_live_tails,
        prepare=_make_records,
        cpu_s=3.0,
        settings=SETTINGS,
        node_counts=(1,),
    ),
    Attack(
        name="slow-probes",
        sends=f"{SLOW_ROUNDS} times {SLOW_CONNECTIONS} slow and long headers at the port of the probes",
        send=_slow_probes,
        cpu_s=2.0,
        settings=SETTINGS,
        node_counts=(1,),
    ),
)
