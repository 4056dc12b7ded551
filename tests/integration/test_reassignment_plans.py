"""`ottla topic reassign` with plans: it reads, writes and prints what kafka-reassign-partitions does."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ottla.node.embedded import Cluster
from tests.compat.command_line import ottla
from tests.integration.cluster.conftest import eventually
from tests.integration.test_cluster_commands import replicas

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_process_is_left")]
NOT_THROTTLED = "nothing is throttled\n"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """Create a topic of two partitions on brokers 0 and 1."""
    name = f"moved-{uuid4().hex[:8]}"
    ottla(cluster.bootstrap, "topic", "create", name, "-p", "2", "-r", "2")
    ottla(cluster.bootstrap, "topic", "reassign", name, "-r", "0,1")
    return name


def test_a_plan_is_generated_executed_verified_and_rolled_back(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    where = cluster.bootstrap
    topics, plan, back = tmp_path / "topics.json", tmp_path / "plan.json", tmp_path / "back.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))

    generated = ottla(
        *(where, "topic", "reassign", "--generate"),
        *("--topics-to-move-json-file", str(topics), "--broker-list", "1,2"),
    ).splitlines()
    plan.write_text(generated[4])
    not_yet = ottla_code_1(where, "topic", "reassign", "--json", str(plan), "--verify")
    done = ottla(where, "topic", "reassign", "--json", str(plan), "--throttle", "100000000")
    eventually(lambda: sorted(map(sorted, replicas(cluster, topic))) == [[1, 2], [1, 2]], "both have moved")
    back.write_text(next(line for line in done.splitlines() if line.startswith("{")))
    moves: Any = json.loads(ottla(where, "topic", "reassign", "--json", str(back), "--output", "json"))

    assert generated[0] == "Current partition replica assignment" and generated[2] == ""
    assert generated[3] == "Proposed partition reassignment configuration"
    assert [one["replicas"] for one in json.loads(generated[1])["partitions"]] == [[0, 1], [0, 1]]
    assert f"There is no active reassignment of partition {topic}-0, but replica set is 0,1 rather" in not_yet
    assert f"Successfully started partition reassignments for {topic}-0,{topic}-1" in done
    assert "The inter-broker throttle limit was set to 100000000 B/s" in done
    assert f"Reassignment of partition {topic}-1 is completed." in done
    assert f"Clearing topic-level throttles on topics {topic}" in done
    assert [one["state"] for one in moves] == ["completed", "completed"]
    eventually(lambda: replicas(cluster, topic) == [[0, 1], [0, 1]], "the replicas are back")
    eventually(lambda: ottla(where, "broker", "throttle") == NOT_THROTTLED, "no throttle is left")


def ottla_code_1(bootstrap: str, *arguments: str) -> str:
    """Run a command that must end with 1 and print no error, and return its output."""
    from tests.compat.command_line import TIMEOUT_S, start

    process = start(bootstrap, *arguments)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (1, ""), out + err
    return out


def test_a_slow_move_is_in_progress_until_it_is_cancelled(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    where, plan = cluster.bootstrap, tmp_path / "plan.json"
    ottla(where, "perf", "produce", topic, "-n", "4000", "--record-size", "1000")
    partitions = [{"topic": topic, "partition": number, "replicas": [2, 0]} for number in (0, 1)]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    of_plan = ("topic", "reassign", "--json", str(plan))

    ottla(where, *of_plan, "--throttle", "10000", "--no-wait")
    slow = ottla_code_1(where, *of_plan, "--verify")
    eventually(lambda: "10000" in ottla(where, "broker", "throttle"), "the throttle is shown")
    cancelled = ottla(where, *of_plan, "--cancel")
    again = ottla(where, *of_plan, "--cancel")

    assert f"Reassignment of partition {topic}-0 is still in progress." in slow
    assert f"Successfully cancelled partition reassignments for: {topic}-0,{topic}-1" in cancelled
    assert again == "None of the specified partition reassignments are active.\n"
    eventually(lambda: replicas(cluster, topic) == [[0, 1], [0, 1]], "the replicas are where they were")
    eventually(lambda: ottla(where, "broker", "throttle") == NOT_THROTTLED, "no throttle is left")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "Name a topic, or use --json or --generate."),
        (("t", "--verify"), "--verify needs --json."),
        (("t", "--broker-list", "1"), "--broker-list needs --generate."),
        (("t", "--generate"), "--generate needs --broker-list."),
        (("--generate", "--broker-list", "1"), "Name a topic or give --topics-to-move-json-file."),
        (("t", "--generate", "--broker-list", "1,1"), "names a broker twice"),
        (("t", "--generate", "--broker-list", "one"), "is not a list of broker ids"),
        (("--json", "/nowhere"), "/nowhere cannot be read"),
        (("--json", "/dev/null"), "/dev/null is not a plan of reassignments: it is not JSON."),
        (("t", "--json", "/dev/null"), "leave the topic out"),
        (("--json", "/dev/null", "--verify", "--cancel"), "Use one of --verify, --cancel and --throttle."),
        (("t", "--generate", "-r", "1"), "Use one of --replicas, --json and --generate."),
    ],
)
def test_conflicting_options_are_rejected(words: tuple[str, ...], message: str) -> None:
    assert message in ottla("127.0.0.1:1", "topic", "reassign", *words, code=2)


def test_missing_brokers_and_partitions_are_named(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    where, plan = cluster.bootstrap, tmp_path / "plan.json"
    plan.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 9, "replicas": [0]}]}))

    broker = ottla(where, "topic", "reassign", topic, "--generate", "--broker-list", "7", code=1)
    partition = ottla(where, "topic", "reassign", "--json", str(plan), code=1)

    assert "There is no broker 7" in broker and f"There is no partition {topic}-9" in partition
