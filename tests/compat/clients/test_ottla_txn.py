"""`ottla txn` against a node and against Apache Kafka.

The command runs in this process: to start another one takes as long as all requests of these tests.
"""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from ottla.node.cli import app
from tests.compat.conftest import create_topic
from tests.compat.raw_transactions import (
    LONG_MS,
    Transaction,
    last_stable_offset,
    leave_hanging,
    produce_transactional,
)
from tests.compat.servers import Server
from tests.compat.wire_client import WireClient

pytestmark = pytest.mark.slow
Run = Callable[..., str]


@pytest.fixture(params=["ottla", pytest.param("reference", marks=pytest.mark.java)])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def wire(server: Server) -> Iterator[WireClient]:
    with WireClient(server.bootstrap) as client:
        yield client


@pytest.fixture
def run(
    server: Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Give a function that runs a command and checks its exit code.

    It returns stdout, or stderr if `errors` is set.
    """

    def ottla(*arguments: str, of: str = "txn", code: int = 0, errors: bool = False) -> str:
        monkeypatch.setattr(sys, "argv", ["ottla", *of.split(), *arguments])
        monkeypatch.setenv("OTTLA_BOOTSTRAP", server.bootstrap)
        capfd.readouterr()
        ended = app.main()
        printed = capfd.readouterr()
        assert ended == code, printed.out + printed.err
        return printed.err if errors else printed.out

    return ottla


def json_of(run: Run, *arguments: str, code: int = 0) -> Any:
    return json.loads(run(*arguments, "--output", "json", code=code))


def test_a_transaction_is_found_shown_and_aborted(wire: WireClient, run: Run) -> None:
    topic = create_topic(wire, partitions=2)
    t = Transaction(wire, topic)
    assert run("abort", t.id, code=1, errors=True) == f"ottla: {t.id} has no open transaction (Empty).\n"
    t.add(0, 1)
    assert produce_transactional(wire, topic, t.id, **t.pair) == 0

    ids = ["--match", f"{t.id[:-1]}."]
    [listed] = json_of(run, "list", *ids, "--state", "ongoing", "--longer-than", "PT0S")
    [by_producer] = json_of(run, "list", "--producer-id", str(t.pair["producer_id"]))
    [_, row] = run("list", *ids).splitlines()
    described = json_of(run, "describe", t.id)
    [known] = json_of(run, "producers", f"{topic}:0")
    shown = run("describe", t.id).splitlines()

    assert (listed["id"], listed["state"]) == (t.id, "Ongoing")
    assert min(listed.pop("open_for_ms"), by_producer.pop("open_for_ms")) >= 0
    assert listed == by_producer
    assert (listed["timeout_ms"], listed["two_phase"]) == (LONG_MS, False)
    assert row.startswith(t.id) and row.split()[-3:] == ["s", "60", "s"]
    assert json_of(run, "list", *ids, "--longer-than", "P1D") == []
    assert [(one["state"], one["timeout_ms"], one["epoch"]) for one in described] == [("Ongoing", LONG_MS, 0)]
    assert [(one["partition"], one["open_from"]) for one in described[0]["partitions"]] == [(0, 0), (1, None)]
    assert described[0]["open_for_ms"] >= 0
    assert (known["producer"], known["open_from"]) == (t.pair["producer_id"], 0)
    assert shown[0].startswith(f"id {t.id}  Ongoing  producer {t.pair['producer_id']}  epoch 0  timeout 60 s")
    assert [line.split() for line in shown[2:]] == [[topic, "0", "0"], [topic, "1", "-"]]
    # Its coordinator knows it, so it does not hang.
    assert run("find-hanging", "--topic", topic, "--longer-than", "PT0S") == ""

    assert run("abort", t.id).startswith(f"aborted the transaction of {t.id}")
    assert last_stable_offset(wire, topic) == 2
    assert json_of(run, "describe", t.id)[0]["partitions"] == []
    assert json_of(run, "list", *ids)[0]["open_for_ms"] is None
    assert [one["open_from"] for one in json_of(run, "producers", topic)] == [None] * 2
    assert t.end(committed=True) in (47, 90)  # its producer is fenced
    assert "has no open transaction" in run("abort", t.id, code=1, errors=True)


def test_a_hanging_transaction_is_found_and_aborted(wire: WireClient, run: Run) -> None:
    topic = create_topic(wire)
    leave_hanging(wire, topic, 2**40, 3)
    where = ["--topic", topic, "--longer-than", "PT0S"]

    [found] = json_of(run, "find-hanging", *where, code=1)
    shown = run("find-hanging", "--all", "--longer-than", "PT0S", code=1).splitlines()
    offset = ["--start-offset", "0"]

    assert (found["producer"], found["epoch"], found["open_from"]) == (2**40, 3, 0)
    rows = [line.split()[:5] for line in shown[1:]]
    assert [row for row in rows if row[0] == topic] == [[topic, "0", str(2**40), "3", "0"]]
    assert run("find-hanging", "--topic", topic) == ""  # not open for long enough
    assert last_stable_offset(wire, topic) == 0
    assert "no open transaction that starts at offset 7" in run(
        "abort", "--topic", f"{topic}:0", "--start-offset", "7", code=1, errors=True
    )
    assert "Name exactly one partition" in run("abort", "--topic", topic, *offset, code=2, errors=True)

    assert run("abort", "--topic", f"{topic}:0", *offset).endswith(f"in {topic}-0\n")
    assert last_stable_offset(wire, topic) == 2
    assert run("find-hanging", *where) == ""


def test_aborted_records_are_not_consumed_with_read_committed(
    server: Server, wire: WireClient, run: Run
) -> None:
    topic = create_topic(wire, partitions=1)
    producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, f"{number}a")
        producer.produce(topic, f"{number}b")
        producer.flush()
        (producer.abort_transaction if number % 3 == 1 else producer.commit_transaction)(60)
    producer.begin_transaction()
    producer.produce(topic, "open")
    producer.flush()
    consume = ("consume", topic, "--until-end", "--isolation")

    committed = run(*consume, "read_committed", of="").split()
    all_of_them = run(*consume, "read_uncommitted", of="").split()

    assert committed == [f"{number}{part}" for number in (0, 2, 3, 5) for part in "ab"]
    assert all_of_them == [*(f"{number}{part}" for number in range(6) for part in "ab"), "open"]
    # A marker takes an offset, but it is not consumed.
    assert run("consume", topic, "--from", "-3", "--until-end", of="").split() == ["5a", "5b", "open"]
    producer.abort_transaction(60)


def test_unknown_names_and_invalid_options_are_errors(run: Run) -> None:
    unknown = f"nobody-{uuid4().hex}"

    assert "`ottla txn list` shows all" in run("describe", unknown, code=1, errors=True)
    assert "`ottla txn list` shows all" in run("abort", unknown, code=1, errors=True)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in run("producers", unknown, code=1, errors=True)
    assert "Use RE2 syntax" in run("list", "--match", "(", code=1, errors=True)
    run("list", "--producer-id", "-1", code=2, errors=True)
    assert "A transactional id must not be empty" in run("describe", unknown, "", code=2, errors=True)
    assert "Unknown transaction state" in run("list", "--state", "odd", code=2, errors=True)
    assert "is not a duration" in run("list", "--longer-than", "1h", code=2, errors=True)
    assert "Give exactly one of" in run("find-hanging", code=2, errors=True)
    assert "99 is not in the cluster" in run("find-hanging", "--broker", "99", code=1, errors=True)
    assert "Give either a transactional id" in run("abort", code=2, errors=True)
    assert "Give either a transactional id" in run("abort", "", code=2, errors=True)
