"""Java's KafkaShareConsumer: members of share groups accept, release, reject, crash, read transactions."""

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.compat.java.jars import KAFKA, reason_to_skip
from tests.compat.java.java_programs import java_program
from tests.compat.wire_client import eventually

pytestmark = [pytest.mark.java, pytest.mark.slow]

Line = list[str]


class Jvm:
    """A process with members of share groups (ShareMembers.java), and the lines that they printed."""

    def __init__(self, bootstrap: str, log: Path) -> None:
        if (reason := reason_to_skip(KAFKA)) is not None:
            pytest.skip(reason)
        self._bootstrap = bootstrap
        self.lines: list[Line] = []
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                java_program("ShareMembers"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def start(self, name: str, topic: str, group: str, mode: str = "accept") -> None:
        settings = (f"bootstrap.servers={self._bootstrap}", f"group.id={group}", f"client.id={name}")
        self._send("start", name, topic, mode, *settings)

    def close(self, name: str) -> None:
        self._send("close", name)
        self.wait(lambda: [name, "closed"] in self.lines)

    def polled(self, name: str = "") -> list[Line]:
        """Return TOPIC-PARTITION, offset, delivery count and value of each record that members were given."""
        return [line[2:] for line in list(self.lines) if line[1] == "polled" and name in ("", line[0])]

    def values(self, name: str = "") -> Counter[str]:
        return Counter(line[3] for line in self.polled(name))

    def wait(self, is_so: Callable[[], bool]) -> None:
        assert eventually(is_so, bool), self.lines
        assert not [line for line in self.lines if "failed" in line], self.lines

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(10)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _send(self, *words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.split())


@pytest.fixture
def jvm_of(bootstrap: str, tmp_path: Path) -> Iterator[Callable[[], Jvm]]:
    started: list[Jvm] = []

    def start() -> Jvm:
        started.append(Jvm(bootstrap, tmp_path / f"jvm{len(started)}.log"))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"shared-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    return name


@pytest.fixture
def group(bootstrap: str) -> str:
    """Return a share group that starts at the earliest offset."""
    return group_with(bootstrap, **{"share.auto.offset.reset": "earliest"})


def group_with(bootstrap: str, **settings: str) -> str:
    name = f"workers-{uuid4().hex[:8]}"
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, name, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)
    return name


def send(bootstrap: str, topic: str, *values: str, commits: bool | None = None) -> None:
    """Send each value in a batch of its own, in a transaction that is committed or not."""
    transactional = {} if commits is None else {"transactional.id": f"txn-{uuid4().hex[:8]}"}
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **transactional})
    if commits is not None:
        producer.init_transactions(60)
        producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
        producer.flush(30)
    if commits is not None:
        (producer.commit_transaction if commits else producer.abort_transaction)(60)


def test_members_of_a_group_are_given_every_record_once(
    jvm_of: Callable[[], Jvm], bootstrap: str, topic: str, group: str
) -> None:
    jvm = jvm_of()
    for name in ("a", "b", "c"):
        jvm.start(name, topic, group)
    values = [f"value-{number}" for number in range(300)]

    send(bootstrap, topic, *values)

    jvm.wait(lambda: jvm.values().keys() >= set(values))
    assert set(jvm.values().values()) == {1}
    for name in ("a", "b", "c"):
        jvm.close(name)
    late = jvm_of()
    late.start("d", topic, group)
    send(bootstrap, topic, "last")
    late.wait(lambda: bool(late.polled()))
    assert late.values() == Counter(["last"])


def test_released_records_are_delivered_again_and_rejected_ones_are_not(
    jvm_of: Callable[[], Jvm], bootstrap: str, topic: str, group: str
) -> None:
    jvm = jvm_of()
    send(bootstrap, topic, "one", "bad-two", "three")
    jvm.start("a", topic, group, "release")
    jvm.wait(lambda: len(jvm.polled()) == 6)
    jvm.close("a")
    assert sorted(line[2] for line in jvm.polled()) == ["1", "1", "1", "2", "2", "2"]

    jvm.start("b", topic, group, "reject")
    send(bootstrap, topic, "bad-four", "five")
    jvm.wait(lambda: len(jvm.polled("b")) == 2)
    jvm.close("b")
    jvm.start("c", topic, group)
    send(bootstrap, topic, "six")
    jvm.wait(lambda: bool(jvm.polled("c")))

    assert jvm.values("c") == Counter(["six"])


def test_the_records_of_a_crashed_member_are_given_to_another(
    jvm_of: Callable[[], Jvm], bootstrap: str, topic: str, group: str
) -> None:
    crashing, other = jvm_of(), jvm_of()
    send(bootstrap, topic, "one", "two")
    crashing.start("a", topic, group, "hold")
    crashing.wait(lambda: bool(crashing.polled()))

    crashing.kill()
    other.start("b", topic, group)

    other.wait(lambda: len(other.polled()) == 2)
    counts = {line[3]: line[2] for line in other.polled()}
    assert counts[crashing.polled()[0][3]] == "2"


def test_readers_of_committed_data_are_given_nothing_aborted(
    jvm_of: Callable[[], Jvm], bootstrap: str, topic: str
) -> None:
    group = group_with(
        bootstrap, **{"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"}
    )
    jvm = jvm_of()
    send(bootstrap, topic, "aborted-1", "aborted-2", commits=False)
    send(bootstrap, topic, "committed", commits=True)
    send(bootstrap, topic, "plain")

    jvm.start("a", topic, group)

    jvm.wait(lambda: "plain" in jvm.values())
    assert jvm.values() == Counter(["committed", "plain"])
    send(bootstrap, topic, "aborted-3", commits=False)
    send(bootstrap, topic, "after")
    jvm.wait(lambda: "after" in jvm.values())
    assert jvm.values() == Counter(["committed", "plain", "after"])
