"""franz-go's share groups: members accept, release, reject, renew, crash, at a node and at Apache Kafka."""

import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
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

from tests.compat.conftest import OVERRIDES
from tests.compat.go.programs import go_program
from tests.compat.java.jars import reason_to_skip
from tests.compat.servers import Server, start_kafka, start_ottla
from tests.compat.wire_client import eventually
from tests.thorough import THOROUGH

pytestmark = pytest.mark.slow
# Locks that end while a test waits.
SHORT_LOCKS = ("group.share.min.record.lock.duration.ms=1000", "group.share.record.lock.duration.ms=3000")
CLOSE_TIMEOUT_S = 60

Line = list[str]


class Member:
    """A process with one member, and the lines that it printed."""

    def __init__(self, program: Path, log: Path, *words: str) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen([program, *words], stdout=output, stderr=output)

    @property
    def lines(self) -> list[Line]:
        """Return the complete lines."""
        return [line.split() for line in self._log.read_text().splitlines(keepends=True) if line[-1] == "\n"]

    def polled(self) -> list[tuple[str, int]]:
        """Return value and delivery count of each record that the member was given."""
        return [(line[4], int(line[3])) for line in self.lines if line[0] == "polled"]

    def values(self) -> Counter[str]:
        return Counter(value for value, _ in self.polled())

    def has(self, word: str) -> bool:
        return any(line[0] == word for line in self.lines)

    def close(self) -> None:
        """Make the member leave its group, which releases its records."""
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(CLOSE_TIMEOUT_S) == 0, self.lines
        assert self.has("closed"), self.lines

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class ShareGroupServer:
    """A server with a topic and a share group that starts at the earliest offset."""

    def __init__(self, bootstrap: str, program: Path, logs: Path, partitions: int) -> None:
        self._bootstrap, self._program, self._logs = bootstrap, program, logs
        self._members: list[Member] = []
        self._topic, self._group = f"shared-{uuid4().hex[:8]}", f"workers-{uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(self._topic, partitions, 1)])[self._topic].result(30)
        entry = ConfigEntry(
            "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.GROUP, self._group, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(30)

    def member(self, mode: str) -> Member:
        words = (self._bootstrap, self._group, self._topic, mode)
        self._members.append(Member(self._program, self._logs / f"{len(self._members)}.log", *words))
        return self._members[-1]

    def send(self, *values: str, partition: int = 0) -> None:
        """Send each value in a batch of its own."""
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 0})
        for value in values:
            producer.produce(self._topic, value, partition=partition)
            producer.flush(30)

    def wait(self, is_so: Callable[[], bool]) -> None:
        assert eventually(is_so, bool), [one.lines[-20:] for one in self._members]

    def end(self) -> None:
        for one in self._members:
            one.kill()


@pytest.fixture(scope="module", params=["ottla", pytest.param("kafka", marks=THOROUGH)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if request.param == "kafka" and (reason := reason_to_skip()) is not None:
        pytest.skip(reason)
    start = start_kafka if request.param == "kafka" else start_ottla
    one = start(tmp_path_factory.mktemp(request.param), *OVERRIDES, *SHORT_LOCKS)
    yield one
    one.stop()


@pytest.fixture
def partitions() -> int:
    """Return 1: with one partition, every member of the group reads it."""
    return 1


@pytest.fixture
def share_server(server: Server, tmp_path: Path, partitions: int) -> Iterator[ShareGroupServer]:
    program = go_program("share")
    if isinstance(program, str):
        pytest.skip(program)
    one = ShareGroupServer(server.bootstrap, program, tmp_path, partitions)
    yield one
    one.end()


@pytest.mark.parametrize("partitions", [2])
def test_two_members_are_given_every_record_once(share_server: ShareGroupServer) -> None:
    values = [f"value-{number}" for number in range(200)]
    members = [share_server.member("accept"), share_server.member("accept")]
    share_server.send(*values[:100], partition=0)
    share_server.send(*values[100:], partition=1)

    def given() -> Counter[str]:
        return members[0].values() + members[1].values()

    share_server.wait(lambda: given().keys() >= set(values))
    assert set(given().values()) == {1}
    for one in members:
        one.close()
        assert not one.has("failed"), one.lines
    late = share_server.member("accept")
    share_server.send("last")
    share_server.wait(lambda: late.has("acknowledged"))
    assert late.values() == Counter(["last"])


def test_a_member_takes_one_record_at_a_time(share_server: ShareGroupServer) -> None:
    share_server.send(*(f"value-{number}" for number in range(10)))

    member = share_server.member("single")

    share_server.wait(lambda: len(member.polled()) == 10)
    events = [line[0] for line in member.lines]
    assert events[:18] == ["polled", "acknowledged"] * 9, events


def test_released_records_are_delivered_again_and_rejected_ones_are_not(
    share_server: ShareGroupServer,
) -> None:
    share_server.send("one", "bad-two", "three")
    releasing = share_server.member("release")
    share_server.wait(lambda: len(releasing.polled()) == 6)
    releasing.close()
    assert sorted(releasing.polled()) == [
        (value, count) for value in ("bad-two", "one", "three") for count in (1, 2)
    ]

    rejecting = share_server.member("reject")
    share_server.send("bad-four", "five")
    share_server.wait(lambda: len(rejecting.polled()) == 2)
    rejecting.close()
    last = share_server.member("accept")
    share_server.send("six")
    share_server.wait(lambda: bool(last.polled()))

    assert last.values() == Counter(["six"])
    assert not any(one.has("failed") for one in (releasing, rejecting, last))


def test_a_lock_that_is_renewed_holds(share_server: ShareGroupServer) -> None:
    share_server.send("slow")
    renewing = share_server.member("renew")
    share_server.wait(lambda: renewing.has("polled"))
    other = share_server.member("accept")

    share_server.wait(lambda: [line[0] for line in renewing.lines].count("renewed") == 6)
    renewing.close()
    share_server.send("next")
    share_server.wait(lambda: bool(other.polled()))

    assert renewing.polled() == [("slow", 1)]
    assert other.polled() == [("next", 1)]
    assert not renewing.has("failed"), renewing.lines


def test_the_records_of_a_crashed_member_are_given_to_another(share_server: ShareGroupServer) -> None:
    share_server.send("one", "two")
    holding = share_server.member("hold")
    share_server.wait(lambda: len(holding.polled()) == 2)
    other = share_server.member("accept")

    holding.kill()

    share_server.wait(lambda: len(other.polled()) == 2)
    assert sorted(other.polled()) == [("one", 2), ("two", 2)]
