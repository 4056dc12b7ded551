"""Nodes on file systems that lose power under load. Skipped without root or loop devices."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.history import History
from tests.chaos.nodes import Nodes
from tests.chaos.power import PoweredDisk, disks_unavailable_reason, powered_disk
from tests.chaos.traffic import CALL_TIMEOUT_S, Reader, Writer, acknowledged_after, create_topic, read_all

pytestmark = pytest.mark.slow
PARTITIONS, RATE = 6, 50
RECOVERY_LIMIT_S = 60.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[PoweredDisk]:
    reason = disks_unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    with powered_disk(tmp_path) as made:
        yield made


class TopicCreator:
    """A client that creates topics one after the other; `acknowledged` has those that were created."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: list[str] = []
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            name, number = f"made-{number}", number + 1
            made = self._admin.create_topics([NewTopic(name, 1, 1)], request_timeout=2.0)[name]
            try:
                made.result(CALL_TIMEOUT_S)
            except KafkaException:  # not confirmed, so it need not exist
                self._stop.wait(0.1)
            else:
                self.acknowledged.append(name)

    def wait_for_more(self, count: int) -> None:
        """Wait until this many more topics are created."""
        wanted, deadline = len(self.acknowledged) + count, time.monotonic() + RECOVERY_LIMIT_S
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < deadline, f"{len(self.acknowledged)} topics were made, not {wanted}"
            time.sleep(0.01)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def check_topics(nodes: Nodes, names: list[str]) -> None:
    """Wait until every node knows the topics: a node may apply the latest metadata a moment later."""
    deadline = time.monotonic() + RECOVERY_LIMIT_S
    for address in nodes.addresses:
        admin = AdminClient({"bootstrap.servers": address})
        while missing := set(names) - set(admin.list_topics(timeout=CALL_TIMEOUT_S).topics):
            assert time.monotonic() < deadline, f"{address} does not know {sorted(missing)}"
            time.sleep(0.05)


def test_a_disk_that_lost_power_has_only_synced_data(disk: PoweredDisk) -> None:
    directory = os.open(disk.directory, os.O_RDONLY)
    with (disk.directory / "file").open("wb", buffering=0) as file:
        file.write(b"synced")
        os.fsync(file.fileno())
        os.fsync(directory)
        file.write(b", written")
        disk.lose_power()
        with pytest.raises(OSError, match="Input/output error"):
            os.fsync(file.fileno())
    os.close(directory)

    disk.restore()

    assert (disk.directory / "file").read_bytes() == b"synced"


def test_no_acknowledged_record_is_lost_if_one_node_of_three_loses_power(
    disk: PoweredDisk, tmp_path: Path
) -> None:
    nodes = Nodes(tmp_path / "nodes", disks={0: disk})
    try:
        create_topic(nodes.bootstrap, PARTITIONS, 3)
        history = History()
        writer = Writer(0, nodes.bootstrap, PARTITIONS, RATE, history)
        reader = Reader(nodes.bootstrap, PARTITIONS, history)
        creator = TopicCreator(nodes.bootstrap)
        for _ in range(2):
            acknowledged_after(history, len(history.acknowledged) + 500, range(PARTITIONS), RECOVERY_LIMIT_S)
            creator.wait_for_more(5)

            nodes.lose_power(disk, 0)
            acknowledged_after(history, len(history.acknowledged), range(PARTITIONS), RECOVERY_LIMIT_S)
            disk.restore()
            nodes.start(0)
            nodes.wait_until_in_sync()
        creator.stop()
        writer.stop()
        reader.stop()
        log = read_all(nodes.bootstrap, PARTITIONS)

        assert history.problems(log) == [] and history.failed == []
        check_topics(nodes, creator.acknowledged)
        assert nodes.tracebacks() == []
    finally:
        nodes.stop_all()


def test_no_created_topic_is_lost_if_all_nodes_lose_power_at_once(disk: PoweredDisk, tmp_path: Path) -> None:
    """Unsynced records may be lost, as in Apache Kafka; changes that the quorum has confirmed may not."""
    nodes = Nodes(tmp_path / "nodes", disks=dict.fromkeys(range(3), disk))
    try:
        for _ in range(2):
            creator = TopicCreator(nodes.bootstrap)
            creator.wait_for_more(20)

            nodes.lose_power(disk, 0, 1, 2)
            creator.stop()
            disk.restore()
            nodes.start(0, 1, 2)

            check_topics(nodes, creator.acknowledged)
        create_topic(nodes.bootstrap, PARTITIONS, 3)
        nodes.wait_until_in_sync()
        assert nodes.tracebacks() == []
    finally:
        nodes.stop_all()
