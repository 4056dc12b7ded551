"""`ottla perf`: measurements in the format of Kafka's tools, also of an interrupted run."""

import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ottla.node.embedded import Cluster
from tests.compat.command_line import TIMEOUT_S, ottla, start

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_process_is_left")]
PRODUCED = (
    r"%d records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, [\d.]+ ms max latency, "
    r"[\d.]+ ms 50th, [\d.]+ ms 95th, [\d.]+ ms 99th, [\d.]+ ms 99.9th\.\n"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as running:
        ottla(running.bootstrap, "topic", "create", "measured", "-p", "2")
        yield running


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """Create a topic of two partitions without records."""
    name = f"perf-{uuid4().hex[:8]}"
    ottla(cluster.bootstrap, "topic", "create", name, "-p", "2")
    return name


def topics(cluster: Cluster) -> list[str]:
    return [one["name"] for one in json.loads(ottla(cluster.bootstrap, "topic", "list", "--output", "json"))]


def test_records_are_sent_and_read(cluster: Cluster, topic: str) -> None:
    where = cluster.bootstrap

    sent = ottla(where, "perf", "produce", topic, "-n", "5000", "--record-size", "200", "-z", "lz4")
    read = ottla(where, "perf", "consume", topic)
    part: Any = json.loads(ottla(where, "perf", "consume", topic, "-n", "100", "--output", "json"))

    assert re.fullmatch(PRODUCED % 5000, sent), sent
    head, line = read.splitlines()
    assert head.startswith("start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg")
    assert len(line.split(", ")) == 10 and line.split(", ")[4] == "5000"
    assert float(line.split(", ")[2]) == pytest.approx(5000 * 200 / 2**20, abs=0.001)
    assert part["records"] >= 100 and part["bytes"] == part["records"] * 200


def test_fewer_records_than_requested_are_reported(cluster: Cluster, topic: str) -> None:
    message = ottla(cluster.bootstrap, "perf", "consume", topic, "-n", "3", "--timeout", "1", code=1)

    assert "Only 0 of 3 records came, and none for the last 1 seconds" in message
    assert ottla(cluster.bootstrap, "perf", "consume", topic).splitlines()[1].split(", ")[4] == "0"


def test_a_rate_is_kept_and_lines_of_a_file_are_sent(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("apple\npear\n\n")

    words = ("perf", "produce", topic, "-n", "40", "--throughput", "20", "--payload-file", str(lines))
    result: Any = json.loads(ottla(cluster.bootstrap, *words, "--acks", "1", "--output", "json"))

    assert result["records"] == 40 and 1.9 < result["seconds"] < 20
    assert result["latency_percentiles_ms"].keys() == {"50", "95", "99", "99.9"}
    assert set(ottla(cluster.bootstrap, "consume", topic, "-e").split()) == {"apple", "pear"}


def test_a_temporary_topic_is_deleted_and_an_existing_one_is_not(cluster: Cluster) -> None:
    where = cluster.bootstrap

    ottla(where, "perf", "latency", "passing", "--create-topic", "-p", "3", "-n", "5")
    refused = ottla(where, "perf", "produce", "measured", "--create-topic", code=1)
    unknown = ottla(where, "perf", "produce", "typo", code=1)

    assert "passing" not in topics(cluster) and "typo" not in topics(cluster)
    assert "exists already, and --create-topic would delete it" in refused and "measured" in topics(cluster)
    assert "Topic 'typo' does not exist." in unknown


def test_latencies_are_measured_from_a_producer_to_a_consumer(cluster: Cluster) -> None:
    where = cluster.bootstrap

    text = ottla(where, "perf", "latency", "measured", "-n", "20")
    result: Any = json.loads(ottla(where, "perf", "latency", "measured", "-n", "20", "--output", "json"))

    assert re.fullmatch(
        r"0\t[\d.]+\nAvg latency: [\d.]+ ms\n\nPercentiles: 50th = [\d.]+, 99th = [\d.]+, 99.9th = [\d.]+\n",
        text,
    ), text
    assert result["records"] == 20 and 0 < result["average_latency_ms"] <= result["max_latency_ms"]


def test_an_interrupted_run_prints_its_figures_so_far_and_deletes_its_topic(cluster: Cluster) -> None:
    words = ("--create-topic", "-n", "1000000", "--throughput", "50", "--output", "json")
    process = start(cluster.bootstrap, "perf", "produce", "mine", *words)
    begun = time.monotonic()
    while "mine" not in topics(cluster):
        assert time.monotonic() - begun < TIMEOUT_S
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 130 and not err
    assert 0 < json.loads(out)["records"] < 1_000_000
    assert "mine" not in topics(cluster)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("produce", "t", "-p", "2"), "--partitions and --replicas need --create-topic."),
        (("produce", "t", "--payload-file", "/nowhere"), "cannot be read: No such file"),
        (("consume", "t", "--from", "soon"), "is not beginning, end, an offset"),
    ],
)
def test_impossible_measurements_are_rejected(words: tuple[str, ...], message: str) -> None:
    assert message in ottla("127.0.0.1:1", "perf", *words, code=2)
