"""`kafka-consumer-groups --reset-offsets` with each of its options, and `ottla group reset` beside it.

Both tools run with each option against a node and against Apache Kafka, and agree.
"""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.compat import command_line
from tests.compat.java.kafka_tools import KafkaTools, Ran
from tests.compat.servers import Server
from tests.compat.wire_client import WireClient, eventually

pytestmark = [pytest.mark.java, pytest.mark.slow]

MINUTE_MS = 60_000
# Offsets of partition 0; nothing is committed for partition 1, whose log begins at 0.
FIRST, COMMITTED, END = 2, 6, 10
TIMEOUT_S = 60


class TopicToReset:
    """A topic of two partitions with ten records each, ten minutes apart, the first 100 minutes old."""

    def __init__(self, server: Server, tools: KafkaTools) -> None:
        self.server, self.tools = server, tools
        self.topic, self.group = f"reset-{uuid4().hex[:8]}", f"group-{uuid4().hex[:8]}"
        self.began_ms = int(time.time() * 1000) - 100 * MINUTE_MS
        self.ottla("topic", "create", self.topic, "-p", "2")
        records = [
            {
                "value": str(number),
                "partition": partition,
                "timestamp": self.began_ms + number * 10 * MINUTE_MS,
            }
            for partition in (0, 1)
            for number in range(END)
        ]
        self.ottla("produce", self.topic, "--input", "json", given="".join(map(_line, records)))
        with WireClient(server.bootstrap) as client:
            partitions = [{"partition_index": 0, "offset": FIRST}]
            topics = [{"name": self.topic, "partitions": partitions}]
            answer = client.call("delete_records", 2, topics=topics, timeout_ms=10_000)
            assert answer.topics[0].partitions[0].error_code == 0
        self.commit(COMMITTED)

    def ottla(self, *arguments: str, given: str = "", code: int = 0) -> str:
        return command_line.ottla(self.server.bootstrap, *arguments, given=given, code=code)

    def kafka(self, *arguments: str) -> Ran:
        return self.tools.run(
            "kafka-consumer-groups", "--bootstrap-server", self.server.bootstrap, *arguments
        )

    def commit(self, offset: int) -> None:
        where = ("--topic", f"{self.topic}:0", "--to-offset", str(offset))
        self.ottla("group", "reset", self.group, *where, "--execute")

    def by_kafka(self, *arguments: str) -> dict[int, int]:
        """Return the new offsets by partition, as Kafka's tool exports them."""
        ran = self.kafka("--reset-offsets", "--group", self.group, *arguments, "--export")
        return self.parse(ran.text)

    def by_ottla(self, *arguments: str) -> dict[int, int]:
        return self.parse(self.ottla("group", "reset", self.group, *arguments, "--export"))

    def parse(self, text: str) -> dict[int, int]:
        found = re.findall(rf'^"?{self.topic}"?,(\d+),(\d+)$', text, flags=re.M)
        assert found, text
        return {int(partition): int(offset) for partition, offset in found}

    def committed(self) -> dict[int, int]:
        """Return the committed offsets by partition, as Kafka's tool shows them."""
        rows = [line.split() for line in self.kafka("--describe", "--group", self.group).lines()]
        return {int(row[2]): int(row[3]) for row in rows if len(row) > 3 and row[1] == self.topic}


def _line(fields: dict[str, object]) -> str:
    return json.dumps(fields) + "\n"


@pytest.fixture(scope="module", params=["ottla", "reference"])
def target(request: pytest.FixtureRequest, tools: KafkaTools) -> TopicToReset:
    return TopicToReset(request.getfixturevalue(request.param), tools)


@pytest.fixture
def member(target: TopicToReset) -> Iterator["subprocess.Popen[str]"]:
    """Run a member of the group, which is stable then."""
    words = ("consume", target.topic, "--group", target.group)
    process = command_line.start(target.server.bootstrap, *words, stdout=subprocess.DEVNULL)
    eventually(
        lambda: target.ottla("group", "list", "--state", "stable"),
        lambda listed: target.group in listed,
        seconds=TIMEOUT_S,
    )
    try:
        yield process
        # A killed member would keep the group active until its session ends.
        process.terminate()
        process.wait(TIMEOUT_S)
    finally:
        command_line.end_all()


def minutes_after_the_first(target: TopicToReset, minutes: float) -> str:
    moment_s = target.began_ms / 1000 + minutes * 60
    return time.strftime("%Y-%m-%dT%H:%M:%S.000", time.gmtime(moment_s))


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        (["--to-earliest"], {0: FIRST, 1: 0}),
        (["--to-latest"], {0: END, 1: END}),
        (["--to-current"], {0: COMMITTED, 1: END}),
        (["--to-offset", "5"], {0: 5, 1: 5}),
        (["--to-offset", "1"], {0: FIRST, 1: 1}),
        (["--to-offset", "99"], {0: END, 1: END}),
        (["--by-duration", "PT35M"], {0: 7, 1: 7}),
        (["--by-duration", "P30D"], {0: FIRST, 1: 0}),
        (["--by-duration", "PT0S"], {0: END, 1: END}),
    ],
    ids=str,
)
def test_both_tools_find_the_same_offsets_of_a_topic(
    target: TopicToReset, way: list[str], expected: dict[int, int]
) -> None:
    where = ("--topic", target.topic)

    assert target.by_kafka(*way, *where, "--dry-run") == expected
    assert target.by_ottla(*way, *where) == expected
    assert target.committed() == {0: COMMITTED}


@pytest.mark.parametrize(
    ("by", "expected"),
    [("2", COMMITTED + 2), ("-2", COMMITTED - 2), ("99", END), ("-99", FIRST), ("0", COMMITTED)],
)
def test_both_tools_shift_committed_offsets_within_the_log(
    target: TopicToReset, by: str, expected: int
) -> None:
    for where in (["--topic", f"{target.topic}:0"], ["--all-topics"]):
        assert target.by_kafka("--shift-by", by, *where, "--dry-run") == {0: expected}
        assert target.by_ottla("--shift-by", by, *where) == {0: expected}


@pytest.mark.parametrize(
    ("minutes", "zone", "expected"),
    [
        (35, "", {0: 4, 1: 4}),
        (35, "Z", {0: 4, 1: 4}),
        (35 + 60, "+01:00", {0: 4, 1: 4}),
        (-5, "", {0: FIRST, 1: 0}),
        (95, "", {0: END, 1: END}),
    ],
)
def test_both_tools_find_the_same_offsets_of_a_date(
    target: TopicToReset, minutes: int, zone: str, expected: dict[int, int]
) -> None:
    way = ["--to-datetime", minutes_after_the_first(target, minutes) + zone, "--topic", target.topic]

    assert target.by_kafka(*way, "--dry-run") == expected
    assert target.by_ottla(*way) == expected


def test_each_tool_reads_the_file_of_the_other(target: TopicToReset, tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    way = ("--from-file", str(file))

    file.write_text(
        target.ottla("group", "reset", target.group, "--to-offset", "1", "--topic", target.topic, "--export")
    )
    assert target.by_kafka(*way, "--dry-run") == {0: FIRST, 1: 1}
    exported = target.kafka(
        *("--reset-offsets", "--group", target.group, "--to-latest", "--topic", target.topic),
        *("--dry-run", "--export"),
    )
    file.write_text("".join(f"{line}\n" for line in exported.lines() if target.topic in line))
    assert target.by_ottla(*way) == {0: END, 1: END}
    file.write_text(f"{target.group},{target.topic},0,99\nanother,{target.topic},0,1\n")
    assert target.by_kafka(*way, "--dry-run") == {0: END} == target.by_ottla(*way)


def test_each_tool_shows_the_offsets_that_the_other_sets(target: TopicToReset) -> None:
    where = ("--topic", f"{target.topic}:0")
    try:
        target.by_kafka("--to-offset", "4", *where, "--execute")
        [described] = json.loads(target.ottla("group", "describe", target.group, "--output", "json"))
        assert [one["committed"] for one in described["partitions"]] == [4]
        target.by_ottla("--to-offset", "8", *where, "--execute")
        assert target.committed() == {0: 8}
    finally:
        target.commit(COMMITTED)


def test_an_offset_that_was_never_committed_is_not_shifted(target: TopicToReset) -> None:
    way = ("--shift-by", "1", "--topic", target.topic)

    ran = target.kafka("--reset-offsets", "--group", target.group, *way, "--dry-run")

    assert f"partition {target.topic}-1 since there is no current committed offset" in ran.text
    assert f"{target.topic}-1 cannot be shifted" in target.ottla("group", "reset", target.group, *way, code=1)


def test_a_group_that_does_not_exist_is_created(target: TopicToReset) -> None:
    for number, tool in enumerate(("kafka", "ottla")):
        fresh = f"{target.group}-{number}"
        way = ("--to-earliest", "--topic", target.topic, "--execute")
        if tool == "kafka":
            target.kafka("--reset-offsets", "--group", fresh, *way)
        else:
            target.ottla("group", "reset", fresh, *way)
        described = target.ottla("group", "describe", fresh)
        assert [line.split()[:3] for line in described.splitlines()[2:]] == [
            [target.topic, "0", str(FIRST)],
            [target.topic, "1", "0"],
        ]


def test_a_group_with_members_is_left_alone(target: TopicToReset, member: "subprocess.Popen[str]") -> None:
    way = ("--to-earliest", "--all-topics")

    ran = target.kafka("--reset-offsets", "--group", target.group, *way, "--execute")
    rejected = target.ottla("group", "reset", target.group, *way, "--execute", code=1)

    assert "is inactive, but the current state is Stable" in ran.text
    assert f"Group {target.group} is active (Stable); stop its members first: ottla at 127.0.0.1" in rejected
