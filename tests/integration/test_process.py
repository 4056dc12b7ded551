"""A node as a process: start, READY, graceful stop, and exclusive use of its data directory."""

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.compat.batches import batch
from tests.compat.servers import ROOT, Server, StartNode
from tests.compat.wire_client import Closed, WireClient, eventually, only
from tests.node_fork import popen
from tests.ports import free_port

pytestmark = pytest.mark.slow
START_LIMIT_S = 30  # for a machine under load; scripts/bench measures the usual time


def cluster_id_of(server: Server) -> str:
    with WireClient(server.bootstrap) as client:
        return str(client.call("metadata", 12, topics=[]).cluster_id)


def test_a_node_serves_when_it_prints_ready(tmp_path: Path, start_node: StartNode) -> None:
    began = time.monotonic()
    server = start_node(tmp_path)

    assert cluster_id_of(server)
    assert time.monotonic() - began < START_LIMIT_S
    assert f"bootstrap={server.bootstrap}" in server.ready_line
    assert server.stop() == 0


def test_ready_names_the_port_that_was_chosen(tmp_path: Path, start_node: StartNode) -> None:
    server = start_node(tmp_path, "listeners=PLAINTEXT://127.0.0.1:0")

    assert cluster_id_of(server)


def test_a_node_listens_on_ipv6_alone_or_on_every_address(tmp_path: Path, start_node: StartNode) -> None:
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").read_text().strip():
        pytest.skip("this machine has no IPv6")
    for number, (listener, hosts) in enumerate((("[::1]:0", ["::1"]), (":0", ["::1", "127.0.0.1"]))):
        server = start_node(tmp_path / str(number), f"listeners=PLAINTEXT://{listener}")
        port = int(server.ready_line.split("bootstrap=")[1].split()[0].rpartition(":")[2])
        for host in hosts:
            name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            (broker,) = AdminClient({"bootstrap.servers": name}).list_topics(timeout=20).brokers.values()
            assert (broker.host, broker.port) == (host, port), (
                "the advertised address is the one that the client used"
            )
        assert server.stop() == 0


def test_sigterm_stops_a_node_cleanly_and_its_cluster_id_stays(tmp_path: Path, start_node: StartNode) -> None:
    server = start_node(tmp_path)
    cluster_id = cluster_id_of(server)
    began = time.monotonic()

    assert server.stop() == 0
    assert time.monotonic() - began < START_LIMIT_S
    assert list(tmp_path.rglob(".kafka_cleanshutdown")), "the next start needs no recovery"
    again = start_node(tmp_path)
    assert cluster_id_of(again) == cluster_id
    assert again.stop() == 0
    output = server.output()
    assert "Traceback" not in output + again.output()
    assert f"SIGTERM from process {os.getpid()} (" in output and "The node has stopped." in output


def test_a_node_that_waits_for_others_stops_on_a_signal(tmp_path: Path) -> None:
    ports = [free_port() for _ in range(4)]
    voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(ports[:3]))
    settings = {
        "node.id": 0,
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[3]},CONTROLLER://127.0.0.1:{ports[0]}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": voters,
        "cluster.secret": "a secret of this test",
        "ottla.rest.listeners": "",
    }
    overrides = [word for name, value in settings.items() for word in ("--override", f"{name}={value}")]
    alone = popen(
        [sys.executable, "-m", "ottla", "start", "--data", str(tmp_path), *overrides],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert "No connection to node" in alone.stderr.readline()
    began = time.monotonic()

    alone.send_signal(signal.SIGTERM)
    out, errors = alone.communicate(timeout=60)

    assert (alone.returncode, out) == (0, "")
    assert f"Received SIGTERM from process {os.getpid()}" in errors
    assert "the node exits, as it is still starting" in errors
    assert "Traceback" not in errors
    assert time.monotonic() - began < START_LIMIT_S


def test_sigterm_answers_or_closes_a_waiting_fetch(tmp_path: Path, start_node: StartNode) -> None:
    server = start_node(tmp_path)
    with WireClient(server.bootstrap) as client:
        wanted = {"name": "waiting", "num_partitions": 1, "replication_factor": 1}
        assert only(client.call("create_topics", 7, topics=[wanted], timeout_ms=5000).topics).error_code == 0
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
        topics = [{"topic": "waiting", "partitions": [partition]}]
        client.send("fetch", 11, max_wait_ms=60_000, min_bytes=1, topics=topics)
        began = time.monotonic()

        assert server.stop() == 0

        assert time.monotonic() - began < START_LIMIT_S
        with suppress(Closed):
            client.receive_frame()  # the response, or the end of the connection: no client waits for ever


def test_a_second_node_on_the_same_directory_is_rejected(tmp_path: Path, start_node: StartNode) -> None:
    server = start_node(tmp_path)
    command = [sys.executable, "-m", "ottla", "start", "--port", str(free_port())]

    second = subprocess.run(
        [*command, "--data", str(tmp_path / "ottla")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert second.returncode != 0
    assert "READY" not in second.stdout
    assert "Traceback" not in second.stdout + second.stderr
    assert "lock" in (second.stdout + second.stderr).lower() or "use" in (second.stdout + second.stderr)
    assert cluster_id_of(server)
    assert server.stop() == 0


def test_a_taken_port_is_reported_in_one_sentence(tmp_path: Path, start_node: StartNode) -> None:
    server = start_node(tmp_path / "first")
    command = [sys.executable, "-m", "ottla", "start", "--port", str(server.port)]

    second = subprocess.run(
        [*command, "--data", str(tmp_path / "second")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert second.returncode != 0
    assert "Traceback" not in second.stdout + second.stderr
    assert str(server.port) in second.stdout + second.stderr
    assert server.stop() == 0


def test_a_taken_port_of_a_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"
        file.write_text(f"listeners={address}\nottla.rest.listeners=\nlog.dirs={tmp_path / 'data'}\n")
        refused = popen(
            [sys.executable, "-m", "ottla", "start", "--config", str(file)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        _, errors = refused.communicate(timeout=60)

    assert refused.returncode == 1
    assert f"ottla: Cannot listen on listeners={address}: another process uses that port" in errors


SLOW_EXPRESSION = "[ab]*a[ab]{100}|(?:.?){350}"  # 2 ms for a name of 249 letters, and a second at most
SLOW_GROUPS, LONG_NAMES = 20, 300


def test_sigterm_ends_a_node_while_hostile_expressions_are_matched(
    tmp_path: Path, start_node: StartNode
) -> None:
    server = start_node(tmp_path, "num.partitions=1")
    chance = random.Random(1)
    names = ["".join(chance.choices("ab", k=249)) for _ in range(LONG_NAMES)]
    with WireClient(server.bootstrap) as client:
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
        client.call("create_topics", 7, topics=topics, timeout_ms=60_000)
        groups = [f"slow-{number}" for number in range(SLOW_GROUPS)]
        eventually(
            lambda: client.call("find_coordinator", 4, key_type=0, coordinator_keys=groups).coordinators,
            lambda results: not any(one.error_code for one in results),
        )
        for group in groups:
            joined = eventually(lambda group=group: join_by_expression(client, group), lambda code: code == 0)
            assert joined == 0

        assert server.stop() == 0

    output = server.output()
    assert "The node has stopped." in output and "Traceback" not in output


def join_by_expression(client: WireClient, group: str) -> int:
    answer = client.call(
        "consumer_group_heartbeat",
        1,
        group_id=group,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex=SLOW_EXPRESSION,
        topic_partitions=[],
    )
    return int(answer.error_code)


READERS, TAILS = 8, 4
BATCHES, RECORDS_OF_BATCH = 10, 1_000


def test_sigterm_ends_a_node_while_records_are_read_over_rest(tmp_path: Path, start_node: StartNode) -> None:
    rest = f"127.0.0.1:{free_port()}"
    server = start_node(tmp_path, "num.partitions=1", f"ottla.rest.listeners=http://{rest}")
    make_records(server, "read")
    cluster_id = json.loads(rest_answer(rest, "/v3/clusters")[1])["data"][0]["cluster_id"]
    # The filter matches no record, so each page reads all of them.
    path = f"/v3/clusters/{cluster_id}/topics/read/records?filter=$.absent=1&timeout_ms=30000"
    seen: list[int] = []
    is_ended = threading.Event()

    def read(accept: str) -> None:
        while not is_ended.is_set():
            try:
                seen.append(rest_answer(rest, path, accept)[0])
            except (OSError, http.client.HTTPException):
                is_ended.wait(0.05)

    kinds = ["application/json"] * READERS + ["text/event-stream"] * TAILS
    readers = [threading.Thread(target=read, args=(kind,), daemon=True) for kind in kinds]
    for one in readers:
        one.start()
    assert eventually(lambda: len(seen), lambda count: count > 1) > 1
    try:
        assert server.stop() == 0
    finally:
        is_ended.set()
        for one in readers:
            one.join()

    output = server.output()
    assert "The node has stopped." in output and "Traceback" not in output
    assert set(seen) <= {200, 429, 503}


def make_records(server: Server, topic: str) -> None:
    with WireClient(server.bootstrap) as client:
        wanted = {"name": topic, "num_partitions": 1, "replication_factor": 1}
        client.call("create_topics", 7, topics=[wanted], timeout_ms=30_000)
        records = batch([b'{"present": 1}'] * RECORDS_OF_BATCH)
        data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
        for _ in range(BATCHES):
            answer = client.call("produce", 9, acks=-1, timeout_ms=30_000, topic_data=data)
            assert answer.responses[0].partition_responses[0].error_code == 0


def rest_answer(rest: str, path: str, accept: str = "application/json") -> tuple[int, bytes]:
    """Send a GET and return status and body; the body of a live tail ends with the node."""
    connection = http.client.HTTPConnection(rest, timeout=60)
    try:
        connection.request("GET", path, headers={"Accept": accept})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
