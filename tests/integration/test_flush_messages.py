"""With `flush.messages`, a slow disk delays only the producers that wait for an acknowledgement."""

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.logstore.flush_target import FlushTarget
from ottla.node.embedded import Cluster

TIMEOUT_S = 60


@pytest.fixture
def may_flush(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Yield an event: flushes block until it is set."""
    ready, run = threading.Event(), FlushTarget.run

    def slowly(target: FlushTarget) -> None:
        assert ready.wait(TIMEOUT_S)
        run(target)

    monkeypatch.setattr(FlushTarget, "run", slowly)
    yield ready
    ready.set()


@pytest.mark.slow
@pytest.mark.parametrize("acks", ["1", "all"])
def test_a_node_serves_others_while_a_produce_waits_for_the_disk(
    may_flush: threading.Event, acks: str
) -> None:
    with Cluster(nodes=1) as cluster:
        settings = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
        admin = AdminClient(settings)
        topics = [NewTopic("safe", 1, 1, config={"flush.messages": "1"}), NewTopic("usual", 1, 1)]
        for made in admin.create_topics(topics).values():
            made.result(TIMEOUT_S)
        delivered: list[str] = []
        producer = Producer({**settings, "acks": acks, "linger.ms": 0})

        producer.produce("safe", b"1", on_delivery=lambda error, _: delivered.append(f"safe {error}"))
        other = Producer({**settings, "acks": acks, "linger.ms": 0})
        other.produce("usual", b"2", on_delivery=lambda error, _: delivered.append(f"usual {error}"))
        assert other.flush(TIMEOUT_S) == 0
        for _ in range(20):
            assert "safe" in admin.list_topics(timeout=TIMEOUT_S).topics
        producer.poll(0)
        assert delivered == ["usual None"]
        may_flush.set()

        assert producer.flush(TIMEOUT_S) == 0
        assert delivered == ["usual None", "safe None"]
