"""One address that wants all of the REST API, or of the probes' port: others and the kubelet are served.

Beside each attack /healthz is asked at the probes' own port, as a kubelet does, and at that of the REST API:
every time it must answer within the time that k8s/base/statefulset.yaml gives it.
"""

import http.client
import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

from attacks.attack import Attack
from attacks.nodes import Nodes
from tests.compat.batches import batch
from tests.compat.wire_client import eventually

TOPIC: Final = "rest-floods"
PARTITIONS: Final = 6
RECORDS: Final = 12_000
RECORDS_OF_BATCH: Final = 1_000
READS: Final = 300
READ_MS: Final = 4_000
TAILS: Final = 40
TAILS_OF_ADDRESS: Final = 8  # the default of ottla.rest.tails.max.per.address
SLOW_CONNECTIONS: Final = 300
SLOW_ROUNDS: Final = 5
ATTACKER, OTHER = "127.0.0.1", "127.0.0.2"
PROBE_TIMEOUT_S: Final = 5.0
PROBE_PAUSE_S: Final = 0.1
TIMEOUT_S: Final = 120.0
SETTINGS: Final = {"ottla.probe.listener": "127.0.0.1:0"}


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
    _, body = _get(nodes.rest, "/v3/clusters")
    cluster_id = json.loads(body)["data"][0]["cluster_id"]
    return f"/v3/clusters/{cluster_id}/topics/{TOPIC}/records"


def _get(url: str, path: str, *, source: str = ATTACKER, timeout_s: float = TIMEOUT_S) -> tuple[int, bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(
        str(parts.hostname), parts.port, timeout=timeout_s, source_address=(source, 0)
    )
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _probe_url(nodes: Nodes) -> str:
    found = re.search(r"Probes are served at (\S+)", nodes.log())
    assert found is not None, "the node has no port for probes"
    return f"http://{found[1]}"


class _Kubelet:
    """Asks /healthz again and again."""

    def __init__(self, url: str) -> None:
        self.longest_s = 0.0
        self.asked = 0
        self.failures: list[str] = []
        self._url = url
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait for its last probe."""
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            began = time.monotonic()
            try:
                status, _ = _get(self._url, "/healthz", timeout_s=PROBE_TIMEOUT_S)
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(type(error).__name__)
            else:
                if status != 200:
                    self.failures.append(str(status))
            self.asked += 1
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            if self._end.wait(PROBE_PAUSE_S):
                return


@contextmanager
def _probed(nodes: Nodes) -> Iterator[_Kubelet]:
    kubelet, other = _Kubelet(_probe_url(nodes)), _Kubelet(nodes.rest)
    try:
        yield kubelet
    finally:
        kubelet.finish()
        other.finish()
    failures = kubelet.failures + other.failures
    assert not failures, f"{len(failures)} probes failed: {failures[:3]}"
    kubelet.longest_s = max(kubelet.longest_s, other.longest_s)


def _filtered_reads(nodes: Nodes) -> str:
    path = _records_path(nodes)
    statuses: Counter[str] = Counter()

    def read() -> None:
        try:
            seen = str(_get(nodes.rest, f"{path}?filter=$.user.id=-1&timeout_ms={READ_MS}")[0])
        except (OSError, http.client.HTTPException) as error:
            seen = type(error).__name__
        statuses[seen] += 1

    with _probed(nodes) as kubelet:
        readers = [threading.Thread(target=read, daemon=True) for _ in range(READS)]
        for one in readers:
            one.start()
        others = [_get(nodes.rest, f"{path}?count=1&timeout_ms=30000", source=OTHER)[0] for _ in range(3)]
        for one in readers:
            one.join()
    assert others == [200] * 3, f"another address was answered {others}"
    assert statuses["429"], f"nothing was refused: {dict(statuses)}"
    return f"{dict(statuses)}; {kubelet.asked} probes, the longest {kubelet.longest_s:.2f} s"


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
        with _probed(nodes) as kubelet:
            opened += [_open_tail(nodes, path, ATTACKER) for _ in range(TAILS)]
            other = _open_tail(nodes, path, OTHER)
            opened.append(other)
            time.sleep(1.0)
    finally:
        for _, connection in opened:
            connection.close()
    statuses = Counter(status for status, _ in opened[:TAILS])
    assert statuses == {200: TAILS_OF_ADDRESS, 429: TAILS - TAILS_OF_ADDRESS}, statuses
    assert other[0] == 200, f"another address was answered {other[0]}"
    return f"{dict(statuses)}; {kubelet.asked} probes, the longest {kubelet.longest_s:.2f} s"


def _slow_probes(nodes: Nodes) -> str:
    where = urlsplit(_probe_url(nodes))
    ended = 0
    with _probed(nodes) as kubelet:
        for number in range(SLOW_ROUNDS):
            held = [socket.create_connection((where.hostname, where.port)) for _ in range(SLOW_CONNECTIONS)]
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
    return f"{ended} cut off at once; {kubelet.asked} probes, the longest {kubelet.longest_s:.2f} s"


ATTACKS: Final[Sequence[Attack]] = (
    Attack(
        name="filtered-reads",
        sends=f"{READS} filtered reads of {RECORDS:,} records from one address, while another one reads",
        send=_filtered_reads,
        prepare=_make_records,
        # Two cores for as long as a request may take; then all have an answer.
        cpu_s=2.0 * READ_MS / 1000,
        settings=SETTINGS,
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
