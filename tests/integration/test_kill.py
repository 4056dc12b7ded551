"""A node that is killed while it works: all that it acknowledged is there when it is restarted."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.batches import batch
from tests.compat.servers import Server, StartNode
from tests.ports import free_port

WAIT_S = 60
PARTITIONS = 3
pytestmark = pytest.mark.slow


class Sender:
    """A producer of numbered records with acks=all in a thread, with the acknowledged offsets."""

    def __init__(self, bootstrap: str, topic: str, **settings: Any) -> None:
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "linger.ms": 1,
                "batch.num.messages": 50,
                "reconnect.backoff.max.ms": 200,
                "message.timeout.ms": WAIT_S * 1000,
                **settings,
            }
        )
        self.topic = topic
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.failed: list[KafkaError] = []
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def report(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            self.acknowledged[message.partition() or 0, message.offset() or 0] = message.value() or b""

    def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            for _ in range(20):
                value = b"%d-" % number + b"x" * 200
                self.producer.produce(
                    self.topic, value, partition=number % PARTITIONS, on_delivery=self.report
                )
                number += 1
            self.producer.poll(0.002)

    def stop(self) -> None:
        self.stopping.set()
        self.thread.join()
        assert self.producer.flush(WAIT_S) == 0

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + WAIT_S
        while len(self.acknowledged) < count and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(self.acknowledged) >= count


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(WAIT_S)


def read_all(bootstrap: str, topic: str) -> dict[tuple[int, int], bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    partitions = [TopicPartition(topic, index, 0) for index in range(PARTITIONS)]
    ends = sum(consumer.get_watermark_offsets(one, WAIT_S)[1] for one in partitions)
    consumer.assign(partitions)
    found: dict[tuple[int, int], bytes] = {}
    deadline = time.monotonic() + WAIT_S
    while len(found) < ends and time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.5):
            assert message.error() is None, message.error()
            found[message.partition() or 0, message.offset() or 0] = message.value() or b""
    consumer.close()
    assert len(found) == ends
    return found


@pytest.mark.parametrize("idempotent", [False, True])
def test_acknowledged_records_survive_kill_9_and_clients_continue(
    tmp_path: Path, start_node: StartNode, idempotent: bool
) -> None:
    port = free_port()
    server = start_node(tmp_path, port=port)
    create(server.bootstrap, "killed")
    sender = Sender(server.bootstrap, "killed", **{"enable.idempotence": idempotent})
    try:
        for _ in range(2):
            sender.wait_for(len(sender.acknowledged) + 3000)
            server.kill()
            server = start_node(tmp_path, port=port)
        sender.wait_for(len(sender.acknowledged) + 1000)
    finally:
        sender.stop()

    found = read_all(server.bootstrap, "killed")

    assert not sender.failed
    assert {place: found.get(place) for place in sender.acknowledged} == sender.acknowledged
    if idempotent:
        assert len(set(found.values())) == len(found), "no record twice"
    assert server.stop() == 0


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(batch([b"y" * 500])[:300], id="half-a-batch"),
        pytest.param(batch([b"y"])[:20], id="part-of-a-header"),
        pytest.param(batch([b"y" * 500], crc=1), id="wrong-checksum"),
        pytest.param(bytes(4096), id="zeros"),
    ],
)
def test_a_torn_tail_is_cut_back_to_the_last_whole_batch(
    tmp_path: Path, start_node: StartNode, tail: bytes
) -> None:
    server = start_node(tmp_path)
    create(server.bootstrap, "torn")
    sender = Sender(server.bootstrap, "torn")
    sender.wait_for(300)
    sender.stop()
    before = read_all(server.bootstrap, "torn")
    server.kill()
    log = only_log_of(tmp_path, "torn-0")
    size = log.stat().st_size
    with log.open("ab") as file:
        file.write(tail)

    server = start_node(tmp_path)

    assert log.stat().st_size == size
    assert read_all(server.bootstrap, "torn") == before
    assert "Traceback" not in server.output()
    assert server.stop() == 0


def only_log_of(place: Path, partition: str) -> Path:
    (log,) = [path for path in place.rglob("*.log") if path.parent.name == partition]
    return log


def test_records_that_were_deleted_stay_deleted_after_kill_9(tmp_path: Path, start_node: StartNode) -> None:
    server = start_node(tmp_path)
    create(server.bootstrap, "cut")
    sender = Sender(server.bootstrap, "cut")
    sender.wait_for(300)
    sender.stop()
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    (answer,) = admin.delete_records([TopicPartition("cut", 0, 20)]).values()
    assert answer.result().low_watermark == 20
    server.kill()

    again = start_node(tmp_path)
    consumer = Consumer({"bootstrap.servers": again.bootstrap, "group.id": "cut"})
    low, _ = consumer.get_watermark_offsets(TopicPartition("cut", 0), timeout=WAIT_S)
    consumer.close()
    assert low == 20


def test_offsets_and_topics_survive_kill_9(tmp_path: Path, start_node: StartNode) -> None:
    server = start_node(tmp_path, "group.initial.rebalance.delay.ms=0")
    create(server.bootstrap, "kept")
    sender = Sender(server.bootstrap, "kept")
    sender.wait_for(100)
    sender.stop()
    settings = {"bootstrap.servers": server.bootstrap, "group.id": "kept", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.commit(offsets=[TopicPartition("kept", 0, 17)], asynchronous=False)
    consumer.close()
    cluster_id = AdminClient({"bootstrap.servers": server.bootstrap}).list_topics().cluster_id
    server.kill()

    again: Server = start_node(tmp_path, port=server.port)
    consumer = Consumer(settings)
    committed = consumer.committed([TopicPartition("kept", 0)], WAIT_S)[0].offset
    found = consumer.list_topics(timeout=WAIT_S)
    consumer.close()

    assert committed == 17
    assert "kept" in found.topics
    assert found.cluster_id == cluster_id
    assert again.stop() == 0
