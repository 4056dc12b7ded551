"""`ottla consume --share` and `ottla group` with share groups, beside `kafka-share-groups`.

Each test runs against Apache Kafka and against a node of ours.
"""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.compat import command_line
from tests.compat.java.kafka_tools import KafkaTools
from tests.compat.servers import Server, start_kafka, start_ottla
from tests.compat.wire_client import eventually

pytestmark = [pytest.mark.java, pytest.mark.slow]

OVERRIDES = (
    "group.share.heartbeat.interval.ms=500",
    "group.share.min.heartbeat.interval.ms=500",
    "group.share.assignment.interval.ms=0",
    "group.share.min.record.lock.duration.ms=1000",
    "group.share.record.lock.duration.ms=3000",
    "group.share.session.timeout.ms=2000",
    "group.share.min.session.timeout.ms=1000",
)
TIMEOUT_S = 60


@pytest.fixture(scope="module", params=["ottla", "reference"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server with short locks and sessions."""
    start = start_kafka if request.param == "reference" else start_ottla
    if request.param == "reference":
        request.getfixturevalue("tools")  # or skip the test with the reason
    started = start(tmp_path_factory.mktemp(request.param), *OVERRIDES)
    yield started
    started.stop()


class Queue:
    """A topic, and a share group that reads it from the beginning."""

    def __init__(self, server: Server, partitions: int = 1) -> None:
        self.server = server
        self.topic, self.group = f"jobs-{uuid4().hex[:8]}", f"workers-{uuid4().hex[:8]}"
        self.ottla("topic", "create", self.topic, "-p", str(partitions))
        self.ottla("group", "config", self.group, "--set", "share.auto.offset.reset=earliest")

    def ottla(self, *arguments: str, given: str = "", code: int = 0) -> str:
        return command_line.ottla(self.server.bootstrap, *arguments, given=given, code=code)

    def produce(self, *values: int) -> None:
        self.ottla("produce", self.topic, given="".join(f"{one}\n" for one in values))

    def consume(self, *more: str, code: int = 0) -> list[tuple[str, int]]:
        """Return the values and delivery counts that a worker prints until it ends."""
        words = ("consume", self.topic, "--share", self.group, "--output", "json", *more)
        records = [json.loads(line) for line in self.ottla(*words, code=code).splitlines()]
        return [(one["value"], one["delivery_count"]) for one in records]

    def worker(self, *more: str) -> "subprocess.Popen[str]":
        return command_line.start(self.server.bootstrap, "consume", self.topic, "--share", self.group, *more)

    def listed_state(self) -> str:
        """Return the group's state in the list of groups, or nothing until its first member has joined."""
        groups = json.loads(self.ottla("group", "list", "--output", "json"))
        return next((str(one["state"]) for one in groups if one["group"] == self.group), "")

    def described(self) -> dict[str, object]:
        (one,) = json.loads(self.ottla("group", "describe", self.group, "--output", "json"))
        assert isinstance(one, dict)
        return one


@pytest.fixture
def queue(server: Server) -> Iterator[Queue]:
    yield Queue(server)
    command_line.end_all()


IDLE = ("--idle-timeout", "1")


def values(*numbers: int, count: int = 1) -> list[tuple[str, int]]:
    return [(str(one), count) for one in numbers]


def test_an_accepted_record_is_not_delivered_again(queue: Queue) -> None:
    queue.produce(1, 2, 3)

    assert queue.consume("-n", "2") == values(1, 2)
    assert queue.consume(*IDLE) == values(3)
    assert queue.consume(*IDLE) == []


def test_a_released_record_is_delivered_again_with_a_higher_count(queue: Queue) -> None:
    queue.produce(1, 2)

    assert queue.consume("-n", "2", "--acknowledge", "release") == values(1, 2)
    assert queue.consume(*IDLE) == values(1, 2, count=2)


def test_a_rejected_record_is_never_delivered_again(queue: Queue) -> None:
    queue.produce(1, 2)

    assert queue.consume("-n", "1", "--acknowledge", "reject") == values(1)
    assert queue.consume(*IDLE) == values(2)


def test_a_record_that_is_always_released_ends_at_the_delivery_limit(queue: Queue) -> None:
    queue.produce(1)

    assert queue.consume("--acknowledge", "release", *IDLE) == [("1", count) for count in range(1, 6)]


def test_exit_codes_of_a_command_acknowledge(queue: Queue) -> None:
    queue.produce(1, 2, 3)
    work = (
        'read value; echo "$value:$OTTLA_DELIVERY_COUNT"; '
        'case "$value:$OTTLA_DELIVERY_COUNT" in 2:1) exit 1;; 3:*) exit 65;; esac'
    )

    done = queue.ottla(
        "consume", queue.topic, "--share", queue.group, "--exec", f"sh -c '{work}'", *IDLE
    ).split()

    assert sorted(done) == ["1:1", "2:1", "2:2", "3:1"]
    assert queue.consume(*IDLE) == []


def test_two_workers_share_one_partition(queue: Queue) -> None:
    command = ("--exec", "sh -c 'cat; echo; sleep 0.1'")
    workers = [queue.worker(*command, "--idle-timeout", "5") for _ in range(2)]
    eventually(
        lambda: len(queue.described()["members"]) if queue.listed_state() else 0,  # type: ignore[arg-type]
        lambda count: count == 2,
        seconds=TIMEOUT_S,
    )
    numbers = range(30)
    queue.produce(*numbers)

    done = [one.communicate(timeout=TIMEOUT_S)[0].split() for one in workers]

    assert all(len(mine) >= 5 for mine in done)
    assert sorted(int(one) for mine in done for one in mine) == list(numbers)


def test_the_records_of_a_killed_worker_are_delivered_again(queue: Queue) -> None:
    queue.produce(1)
    worker = queue.worker("--exec", "sleep 20")  # the sleep ends by itself
    eventually(lambda: _children(worker.pid), lambda found: "sleep" in found, seconds=TIMEOUT_S)
    worker.send_signal(signal.SIGKILL)
    worker.wait()

    assert queue.consume("-n", "1") == values(1, count=2)


def test_a_worker_that_is_stopped_releases_its_records_at_once(queue: Queue) -> None:
    queue.produce(1)
    worker = queue.worker("--exec", "sleep 60")
    eventually(lambda: _children(worker.pid), lambda found: "sleep" in found, seconds=TIMEOUT_S)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(TIMEOUT_S) == 143
    began_s = time.monotonic()

    assert queue.consume("-n", "1") == values(1, count=2)
    assert time.monotonic() - began_s < 10
    assert queue.described()["members"] == []


def test_a_lock_is_renewed_while_a_command_runs(queue: Queue) -> None:
    queue.produce(1)
    slow = queue.worker("--exec", f"{sys.executable} -c 'import time; time.sleep(8)'", "-n", "1")
    eventually(lambda: _children(slow.pid), lambda found: "python" in found, seconds=TIMEOUT_S)

    assert queue.consume("--idle-timeout", "6") == []
    _, errors = slow.communicate(timeout=TIMEOUT_S)
    assert (slow.returncode, errors) == (0, "")


def _children(pid: int) -> str:
    return subprocess.run(
        ["ps", "-o", "args=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    ).stdout


# ---- ottla group beside kafka-share-groups -------------------------------------------------------


def by_kafka(tools: KafkaTools, queue: Queue) -> list[list[str]]:
    """Return partition, start offset and lag of each partition, as `kafka-share-groups` describes them."""
    ran = tools.run(
        *("kafka-share-groups", "--bootstrap-server", queue.server.bootstrap),
        *("--describe", "--offsets", "--group", queue.group),
    )
    rows = [line.split() for line in ran.text.splitlines()]
    return sorted(row[2:5] for row in rows if len(row) >= 5 and row[1] == queue.topic)


def by_ottla(queue: Queue) -> list[list[str]]:
    rows = [line.split() for line in queue.ottla("group", "describe", queue.group).splitlines()]
    return sorted([row[1], row[2], row[4]] for row in rows if row[0] == queue.topic)


def test_groups_are_shown_as_kafkas_tool_shows_them(server: Server, tools: KafkaTools) -> None:
    queue = Queue(server, partitions=2)
    queue.produce(*range(10))
    queue.consume("-n", "4")

    assert by_ottla(queue) == by_kafka(tools, queue) != []
    listed = queue.ottla("group", "list", "--type", "share", "--state", "empty")
    assert re.search(rf"^{queue.group} +share +Empty +share", listed, flags=re.M)


@pytest.mark.parametrize(
    ("way", "offset"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 5),
        (["--to-offset", "2"], 2),
        (["--by-duration", "PT1H"], 0),
    ],
    ids=str,
)
def test_a_reset_is_shown_before_it_is_executed(
    queue: Queue, tools: KafkaTools, way: list[str], offset: int
) -> None:
    queue.produce(*range(5))
    queue.consume("-n", "3")
    before = by_kafka(tools, queue)

    dry = queue.ottla("group", "reset", queue.group, *way, "--topic", queue.topic)
    assert dry.splitlines()[-1].split()[-1] == str(offset)
    assert by_kafka(tools, queue) == before
    queue.ottla("group", "reset", queue.group, *way, "--topic", queue.topic, "--execute")

    assert by_ottla(queue) == by_kafka(tools, queue)
    assert by_ottla(queue)[0][1] == str(offset)
    assert queue.consume(*IDLE) == values(*range(offset, 5))


def test_a_group_with_members_is_not_reset(queue: Queue) -> None:
    queue.produce(1)
    queue.worker("--exec", "sleep 60")
    eventually(queue.listed_state, lambda state: state == "Stable", seconds=TIMEOUT_S)

    errors = queue.ottla("group", "reset", queue.group, "--to-earliest", "--all-topics", code=1)
    assert "is active (Stable); stop its members first: ottla at" in errors


def test_offsets_and_groups_are_deleted(queue: Queue, tools: KafkaTools) -> None:
    queue.produce(1)
    queue.consume("-n", "1")

    partly = queue.ottla("group", "delete-offsets", queue.group, "--topic", f"{queue.topic}:0", code=2)
    assert "whole topics" in partly
    queue.ottla("group", "delete-offsets", queue.group, "--topic", queue.topic)
    assert by_ottla(queue) == by_kafka(tools, queue) == []
    assert queue.consume("-n", "1") == values(1)
    queue.ottla("group", "delete", queue.group)
    assert queue.group not in queue.ottla("group", "list")
