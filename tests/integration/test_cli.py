"""The command line as a process, against a node: its output and its exit codes."""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest

from tests.compat.command_line import TIMEOUT_S, ottla, start
from tests.compat.servers import ROOT, Server
from tests.integration.cluster.conftest import eventually
from tests.node_fork import popen
from tests.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_process_is_left")]


def create(node: Server, *options: str) -> str:
    """Create a topic, and return its name."""
    name = f"cli-{uuid4().hex[:8]}"
    ottla(node.bootstrap, "topic", "create", name, *options)
    return name


def lines(first: int, last: int) -> str:
    return "".join(f"k{number}:{number}\n" for number in range(first, last))


def test_a_topic_is_created_altered_described_and_deleted(node: Server) -> None:
    where, topic = node.bootstrap, f"cli-{uuid4().hex[:8]}"

    assert f"created {topic} with 3 partitions" in ottla(where, "topic", "create", topic, "-p", "3")
    assert "--if-not-exists" in ottla(where, "topic", "create", topic, code=1)
    ottla(where, "topic", "create", topic, "--if-not-exists")
    ottla(where, "topic", "alter", topic, "--partitions", "4")
    assert topic in ottla(where, "topic", "list")
    ottla(where, "topic", "config", topic, "--set", "retention.ms=5000")
    assert ottla(where, "topic", "config", topic) == "retention.ms=5000\n"
    [described] = json.loads(ottla(where, "topic", "describe", topic, "--output", "json"))
    assert described["configs"] == {"retention.ms": "5000"}
    assert [one["next_offset"] for one in described["partitions"]] == [0, 0, 0, 0]
    ottla(where, "topic", "config", topic, "--reset", "retention.ms")
    assert "overrides no settings" in ottla(where, "topic", "config", topic)
    assert ottla(where, "topic", "delete", topic) == f"deleted {topic}\n"
    assert "UNKNOWN_TOPIC_OR_PARTITION" in ottla(where, "topic", "describe", topic, code=1)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_come_out_as_they_went_in(node: Server, compression: str) -> None:
    topic = create(node, "-p", "3")

    ottla(node.bootstrap, "produce", topic, "-K", ":", "-z", compression, given=lines(0, 5000))
    out = ottla(node.bootstrap, "consume", topic, "--until-end", "--keys", "--separator", ":")

    assert sorted(out.splitlines()) == sorted(lines(0, 5000).splitlines())


def test_json_copies_a_topic_exactly(node: Server) -> None:
    where, source, copy = node.bootstrap, create(node), create(node)
    given = (
        '{"key":"k","value":"v","headers":{"h":null},"timestamp":5}\n{"value_base64":"/w=="}\n{"key":"x"}\n'
    )
    ottla(where, "produce", source, "--input", "json", given=given)

    printed = ottla(where, "consume", source, "-e", "--output", "json")
    ottla(where, "produce", copy, "--input", "json", given=printed)

    copied = ottla(where, "consume", copy, "-e", "--output", "json")
    assert copied == printed.replace(source, copy)


def test_consume_starts_at_an_offset_or_at_a_time(node: Server) -> None:
    # With a limit, retention would delete records of 1970 during the test.
    where, topic = node.bootstrap, create(node, "-c", "retention.ms=-1")
    for moment in (1000, 2000, 3000):
        ottla(where, "produce", topic, "--timestamp", str(moment), given=f"at {moment}\n")

    def read(place: str) -> str:
        return ottla(where, "consume", topic, "--from", place, "--until-end")

    assert read("beginning") == "at 1000\nat 2000\nat 3000\n"
    assert read("1") == "at 2000\nat 3000\n"
    assert read("-1") == "at 3000\n"
    assert read("@1500") == "at 2000\nat 3000\n"
    assert read("@9000") == read("end") == ""
    assert "offsets 0 to 3, but --from is 9" in ottla(where, "consume", topic, "--from", "9", code=1)


def test_members_share_and_hand_over_without_loss(node: Server) -> None:
    where, topic, group = node.bootstrap, create(node, "-p", "4"), f"members-{uuid4().hex}"
    first = start(where, "consume", topic, "--group", group)
    ottla(where, "produce", topic, "-K", ":", given=lines(0, 100))
    second = start(where, "consume", topic, "--group", group)

    def shares() -> list[int]:
        members = json.loads(ottla(where, "group", "members", group, "--output", "json"))
        return [len(one["partitions"]) for one in members]

    eventually(lambda: shares() == [2, 2], "both have partitions")
    ottla(where, "produce", topic, "-K", ":", given=lines(100, 200))
    time.sleep(1)

    first.send_signal(signal.SIGINT)
    out, err = first.communicate(timeout=TIMEOUT_S)
    ottla(where, "produce", topic, "-K", ":", given=lines(200, 300))
    of_first, of_second = out.split(), []
    reading = threading.Thread(target=lambda: of_second.extend(map(str.strip, second.stdout or ())))
    reading.start()
    deadline = time.monotonic() + TIMEOUT_S
    while len(of_first) + len(of_second) < 300 and time.monotonic() < deadline:
        time.sleep(0.05)
    second.send_signal(signal.SIGTERM)
    reading.join(TIMEOUT_S)

    assert second.stderr is not None
    ended = first.returncode, second.wait(TIMEOUT_S), err, second.stderr.read()
    assert ended == (130, 143, "", "")
    assert of_first and of_second
    assert Counter(of_first + of_second) == Counter(str(number) for number in range(300))
    assert ottla(where, "consume", topic, "--group", group, "--until-end") == ""


def test_output_that_is_closed_after_some_lines_is_no_error(node: Server) -> None:
    topic = create(node)
    ottla(node.bootstrap, "produce", topic, given="x" * 100 + "\n" + "y\n" * 100_000)

    process = start(node.bootstrap, "consume", topic)
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline() == "x" * 100 + "\n"
    process.stdout.close()

    assert process.wait(TIMEOUT_S) == 0
    assert process.stderr.read() == ""


def test_an_unreachable_cluster_is_reported_in_one_helpful_sentence() -> None:
    words = ottla(f"127.0.0.1:{free_port()}", "topic", "list", code=1)

    assert words.count("\n") == 1
    assert "connection refused" in words and "ottla start" in words


@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["--help"], ["topic", "--help"], ["topic", "list"], ["log", "dump", "--records"]],
    ids=" ".join,
)
def test_output_that_is_closed_from_the_start_is_no_error(node: Server, arguments: list[str]) -> None:
    if arguments[0] == "log":
        ottla(node.bootstrap, "produce", "cli-nobody-reads", "--create-topic", given="y\n" * 100)
        arguments = [*arguments, *map(str, node.data.rglob("cli-nobody-reads-0"))]
    reader, writer = os.pipe()
    os.close(reader)

    process = start(node.bootstrap, *arguments, stdout=writer)
    os.close(writer)

    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, errors) == (0, "")


def test_changes_of_settings_are_printed_for_programs(node: Server) -> None:
    topic = create(node)
    change = ("topic", "config", topic, "--set", "retention.ms=5", "--reset", "segment.ms", "--output")

    replies = [
        json.loads(ottla(node.bootstrap, *change, "json", *dry_run)) for dry_run in (("--dry-run",), ())
    ]

    for changes, is_made in zip(replies, (False, True), strict=True):
        assert changes == [
            {"name": "retention.ms", "value": "5", "changed": is_made},
            {"name": "segment.ms", "value": None, "changed": is_made},
        ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["topic", "list", "--nonsense"], "No such option"),
        (["topic", "create", "t", "-c", "retention"], "is not NAME=VALUE"),
        (["consume", "t", "--from", "nowhere"], "is not beginning, end"),
        (["consume", "t", "--format", "%z"], "is not a field; use one of"),
        (["consume", "t", "--group", "g", "--partition", "1"], "--partition cannot be used with --group"),
        (["topic", "list", "--bootstrap", "a:b"], "is not an address"),
        (["produce", "t", "--timestamp", str(2**63)], "'--timestamp'"),
        (
            ["produce", "t", "--acks", "1", "--idempotent"],
            "--idempotent needs --acks all, not --acks 1.",
        ),
        (
            ["produce", "t", "--acks", "0", "--idempotent"],
            "--idempotent needs --acks all, not --acks 0.",
        ),
        (["produce", "t", "--key-separator", ""], "--key-separator must not be empty"),
        (["consume", "t", "--group", ""], "The name after --group must not be empty."),
    ],
)
def test_wrong_usage_exits_with_two(arguments: list[str], words: str) -> None:
    assert words in ottla("127.0.0.1:1", *arguments, code=2)


def test_bad_input_names_its_line(node: Server) -> None:
    topic = create(node)

    assert "Line 2" in ottla(node.bootstrap, "produce", topic, "-K", ":", given="a:b\nc\n", code=1)


def test_records_before_a_bad_line_are_sent(node: Server) -> None:
    topic = create(node)
    good = "".join(f'{{"value":"{number}"}}\n' for number in range(5000))

    words = ottla(node.bootstrap, "produce", topic, "--input", "json", given=f"{good}bad\n{good}", code=1)

    assert words.count("\n") == 1 and "Line 5001 cannot be sent: this line is not JSON" in words
    assert "5000 records before it were produced" in words
    assert len(ottla(node.bootstrap, "consume", topic, "--until-end").splitlines()) == 5000


def test_a_line_that_the_topic_rejects_is_named(node: Server) -> None:
    topic = create(node, "-c", "max.message.bytes=1000")
    given = f"small\n{'x' * 1000}\nnever read\n"

    words = ottla(node.bootstrap, "produce", topic, given=given, code=1)
    ottla(node.bootstrap, "produce", topic, "-z", "gzip", given=given)

    assert (
        "Line 2 cannot be sent: the record takes 1070 bytes, more than the max.message.bytes of topic"
        in words
    )
    assert words.endswith("1 records before it were produced; continue with that line.\n")
    assert ottla(node.bootstrap, "consume", topic, "-e").split("\n")[:2] == ["small", "small"]


def test_produce_prints_the_partition_and_offset_of_each_record(node: Server) -> None:
    where, topic = node.bootstrap, f"cli-output-{uuid4().hex}"
    ottla(where, "topic", "create", topic, "-p", "2")

    first = ottla(where, "produce", topic, "-p", "1", given="a\nb\n")
    second = ottla(where, "produce", topic, "-p", "1", given="c\n")
    third = ottla(where, "produce", topic, "-p", "0", "--output", "json", given="d\ne\n")
    silent = ottla(where, "produce", topic, "-q", given="f\n")
    unknown = ottla(where, "produce", topic, "-p", "0", "--acks", "0", given="g\n")

    assert first == f"{topic}-1: 2 records at offsets 0 to 1\n"
    assert second == f"{topic}-1: 1 record at offset 2\n"
    place = {"topic": topic, "partition": 0}
    assert json.loads(third) == [{**place, "records": 2, "first_offset": 0, "last_offset": 1}]
    assert silent == ""
    assert unknown == f"{topic}-0: 1 record sent, at unknown offsets\n"


def test_produce_creates_a_missing_topic_only_on_request(node: Server) -> None:
    where, topic = node.bootstrap, f"cli-typo-{uuid4().hex}"

    words = ottla(where, "produce", topic, given="x\n", code=1)
    listed = ottla(where, "topic", "list")
    made = ottla(where, "produce", topic, "--create-topic", given="x\n")

    assert f"Topic '{topic}' does not exist" in words and f"`ottla topic create {topic}`" in words
    assert topic not in listed
    assert made == f"{topic}-0: 1 record at offset 0\n"


def test_records_are_written_to_a_new_file_or_appended(node: Server, tmp_path: Path) -> None:
    where, topic, file = node.bootstrap, f"cli-file-{uuid4().hex}", tmp_path / "records"
    ottla(where, "produce", topic, "--create-topic", given="a\nb\n")
    to_file = ("consume", topic, "-e", "--output-file", str(file))

    assert ottla(where, *to_file) == "" and file.read_text() == "a\nb\n"
    assert "exists already; add --append" in ottla(where, *to_file, code=2)
    ottla(where, *to_file, "--append", "--group", f"{topic}-group")
    full = ottla(where, *to_file[:-1], "/dev/full", "--append", code=1)

    assert file.read_text() == "a\nb\n" * 2
    assert full == "ottla: /dev/full cannot be written: No space left on device.\n"
    assert "--append needs" in ottla(where, "consume", topic, "--append", code=2)
    assert ottla(where, "consume", topic, "-e", "--group", f"{topic}-group") == ""


def test_a_long_produce_shows_its_progress_at_a_terminal(node: Server) -> None:
    topic = f"cli-progress-{uuid4().hex}"
    ottla(node.bootstrap, "topic", "create", topic)
    master, terminal = os.openpty()
    process = popen(
        [sys.executable, "-m", "ottla", "produce", topic, "-b", node.bootstrap],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=terminal,
    )
    os.close(terminal)
    assert process.stdin is not None and process.stdout is not None
    shown = b""

    try:
        while b"MB/s" not in shown:
            process.stdin.write(b"x" * 99_999 + b"\n")
            process.stdin.flush()
            while select.select([master], [], [], 0.01)[0]:
                shown += os.read(master, 4096)
        process.stdin.close()
        output = process.stdout.read()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        os.close(master)

    assert b" records, " in shown and output.startswith(f"{topic}-0: ".encode())


def test_a_header_may_be_given_twice(node: Server) -> None:
    topic = create(node)

    ottla(node.bootstrap, "produce", topic, "-H", "h=1", "-H", "g=", "-H", "h=2", given="x\n")

    assert ottla(node.bootstrap, "consume", topic, "-e", "-f", "%h\\n") == "h=1,g=,h=2\n"


def test_idempotence_is_on_with_acks_all_only(node: Server) -> None:
    topic = create(node)

    for options in (("--acks", "1"), ("--acks", "0", "--no-idempotent"), ("--acks", "all", "--idempotent")):
        ottla(node.bootstrap, "produce", topic, *options, given="x\n")

    assert ottla(node.bootstrap, "consume", topic, "-e") == "x\nx\nx\n"


def test_missing_resources_are_named(node: Server) -> None:
    where = node.bootstrap
    topic = create(node)

    unknown = ottla(where, "topic", "config", topic, "--reset", "foo", code=1)
    partition = ottla(where, "consume", topic, "-p", "99", code=1)
    name = ottla(where, "produce", "bad name", given="x\n", code=1)
    ottla(where, "topic", "config", topic, "--reset", "retention.ms")

    assert unknown == "ottla: Unknown topic config name: foo.\n"
    assert partition == f"ottla: Topic {topic} has no partition 99; its last one is 0.\n"
    assert "bad name" in name and "1 to 249 characters" in name


def test_a_rejected_timestamp_is_named_with_its_limits(node: Server) -> None:
    topic = create(node)

    words = ottla(node.bootstrap, "produce", topic, "--timestamp", "99999999999999", given="x\n", code=1)

    assert "Timestamp 99999999999999 of message with offset 0 is out of range" in words
    assert "message.timestamp.after.max.ms" in words


def test_start_needs_no_options(tmp_path: Path) -> None:
    port = str(free_port())
    process = start("", "start", "--port", port, "--data", str(tmp_path / "data"))
    assert process.stdout is not None
    assert f"localhost:{port}" in process.stdout.readline()

    ottla(f"127.0.0.1:{port}", "topic", "list")
    process.send_signal(signal.SIGTERM)

    assert process.wait(TIMEOUT_S) == 0
    assert (tmp_path / "data" / "meta.properties").exists()
    process.communicate()


def test_log_dump_names_a_missing_file(tmp_path: Path) -> None:
    missing = tmp_path / "nothing"

    assert ottla("", "log", "dump", str(missing), code=2) == f"ottla log dump: {missing} does not exist.\n"


def test_log_dump_prints_the_written_records(node: Server) -> None:
    topic = create(node)
    ottla(node.bootstrap, "produce", topic, "-z", "zstd", given="hello\n")
    [segment] = node.data.rglob(f"{topic}-0/00000000000000000000.log")

    out = ottla("", "log", "dump", str(segment))

    assert "zstd" in out.lower()


def test_a_subscription_to_client_metrics_is_set_listed_and_deleted(node: Server) -> None:
    where, name = node.bootstrap, "cli-subscription"
    ottla(where, "client-metrics", "config", name, "--set", "metrics=a.,b.", "--set", "interval.ms=1000")
    listed = json.loads(ottla(where, "client-metrics", "list", "--output", "json"))
    checked = ottla(where, "client-metrics", "delete", name, "--dry-run")
    wrong = ottla(where, "client-metrics", "config", name, "--set", "interval.ms=1", code=1)
    deleted = json.loads(ottla(where, "client-metrics", "delete", name, "--output", "json"))
    again = ottla(where, "client-metrics", "delete", name, code=1)

    assert listed == [{"name": name, "config": {"interval.ms": "1000", "match": "", "metrics": "a.,b."}}]
    assert checked == f"would delete {name}\n"
    assert "interval must be between 100 and 3600000" in wrong
    assert deleted == {"name": name, "deleted": True}
    assert again.startswith(f"ottla: There is no subscription {name}.")
