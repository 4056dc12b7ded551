"""`ottla topic reassign --json` with log_dirs: replicas move to the directories that the plan names."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.compat.command_line import TIMEOUT_S, ottla, start
from tests.integration.cluster.conftest import Cluster, eventually, write_cluster

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_process_is_left")]
NAMES = ("one", "two")


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes with two log directories each."""
    cluster = write_cluster(tmp_path_factory.mktemp("disks"), 3)
    for home in cluster.homes:
        with home.properties.open("a") as file:
            file.write("log.dirs=" + ",".join(str(home.directory / name) for name in NAMES) + "\n")
    cluster.start(0, 1, 2)
    yield cluster
    cluster.stop()


@pytest.fixture
def topic(disks: Cluster) -> str:
    """A topic of one partition on broker 0, with 4 MB of records."""
    name = f"moved-{uuid4().hex[:8]}"
    ottla(disks.bootstrap, "topic", "create", name, "-p", "1", "-r", "1")
    ottla(disks.bootstrap, "topic", "reassign", name, "-r", "0")
    ottla(disks.bootstrap, "perf", "produce", name, "-n", "4000", "--record-size", "1000")
    return name


def log_dirs(cluster: Cluster, topic: str) -> list[tuple[int, str]]:
    """Return the brokers and directories that have a replica of the topic."""
    rows: Any = json.loads(ottla(cluster.bootstrap, "broker", "log-dirs", "--replicas", "--output", "json"))
    return sorted((one["broker"], one["log_dir"]) for one in rows if one["topic"] == topic)


def write_plan(path: Path, topic: str, replicas: list[int], places: list[str]) -> str:
    entry = {"topic": topic, "partition": 0, "replicas": replicas, "log_dirs": places}
    path.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    return str(path)


def run_on_plan(cluster: Cluster, plan: str, *options: str) -> tuple[int, str, str]:
    """Run a command on a plan; return its exit code, its output and its errors."""
    process = start(cluster.bootstrap, "topic", "reassign", "--json", plan, *options)
    out, err = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, out, err


def verify(cluster: Cluster, plan: str) -> tuple[int, str]:
    """Return the exit code and the output of `--verify`."""
    code, out, err = run_on_plan(cluster, plan, "--verify")
    assert "ottla: " not in err
    return code, out


def test_a_replica_moves_to_another_directory_of_its_broker(
    disks: Cluster, topic: str, tmp_path: Path
) -> None:
    [(_, before)] = log_dirs(disks, topic)
    target = next(str(disks.homes[0].directory / one) for one in NAMES if not before.endswith(one))
    plan = write_plan(tmp_path / "plan.json", topic, [0], [target])
    not_yet = verify(disks, plan)

    done = ottla(disks.bootstrap, "topic", "reassign", "--json", plan)

    assert not_yet == (
        1,
        "Status of partition reassignment:\n"
        f"Reassignment of partition {topic}-0 is completed.\n"
        f"Partition {topic}-0 on broker 0 is not being moved from log dir {before} to {target}.\n",
    )
    assert f"Successfully started log directory moves for: {topic}-0-0\n" in done
    assert f"Reassignment of replica {topic}-0-0 completed successfully.\n" in done
    assert log_dirs(disks, topic) == [(0, target)]


@pytest.mark.parametrize("name", NAMES)
def test_a_replica_comes_to_its_directory_on_a_new_broker(
    disks: Cluster, topic: str, tmp_path: Path, name: str
) -> None:
    target = str(disks.homes[1].directory / name)
    plan = write_plan(tmp_path / "plan.json", topic, [1], [target])

    done = ottla(disks.bootstrap, "topic", "reassign", "--json", plan, "--output", "json")

    assert log_dirs(disks, topic) == [(1, target)]
    assert json.loads(done)[-1] == {
        "topic": topic,
        "partition": 0,
        "broker": 1,
        "log_dir": target,
        "wanted_log_dir": target,
        "state": "completed",
    }


def test_a_slow_move_between_directories_is_cancelled(disks: Cluster, topic: str, tmp_path: Path) -> None:
    [(_, before)] = log_dirs(disks, topic)
    target = next(str(disks.homes[0].directory / one) for one in NAMES if not before.endswith(one))
    plan = write_plan(tmp_path / "plan.json", topic, [0], [target])
    words = ("topic", "reassign", "--json", plan)

    started = ottla(disks.bootstrap, *words, "--replica-alter-log-dirs-throttle", "10000", "--no-wait")
    slow = verify(disks, plan)
    eventually(lambda: "10000" in ottla(disks.bootstrap, "broker", "throttle"), "the throttle is shown")
    cancelled = ottla(disks.bootstrap, *words, "--cancel")
    again = ottla(disks.bootstrap, *words, "--cancel")

    assert "The replica-alter-dir throttle limit was set to 10000 B/s\n" in started
    assert slow[0] == 1 and f"Reassignment of replica {topic}-0-0 is still in progress.\n" in slow[1]
    assert f"Successfully cancelled log directory moves for: {topic}-0-0\n" in cancelled
    assert "None of the specified log directory moves are active.\n" in again
    assert log_dirs(disks, topic) == [(0, before)]
    nothing = "nothing is throttled\n"
    eventually(lambda: ottla(disks.bootstrap, "broker", "throttle") == nothing, "no throttle is left")


def test_a_directory_that_the_broker_does_not_have_is_named_and_so_is_the_throttle_that_stays(
    disks: Cluster, topic: str, tmp_path: Path
) -> None:
    plan = write_plan(tmp_path / "plan.json", topic, [0], ["/nowhere"])

    code, _, err = run_on_plan(disks, plan, "--replica-alter-log-dirs-throttle", "10000")
    eventually(lambda: "10000" in ottla(disks.bootstrap, "broker", "throttle"), "the throttle stays")
    ottla(disks.bootstrap, "broker", "throttle", "--clear")

    assert code == 1
    assert "Log directory /nowhere of broker 0 does not exist (LOG_DIR_NOT_FOUND)." in err
    assert "`ottla broker throttle` shows all throttles, and --clear removes them." in err


def test_a_plan_is_verified_and_cancelled_while_a_broker_of_it_is_down(
    disks: Cluster, topic: str, tmp_path: Path
) -> None:
    """A broker that died in the middle of a move is the very reason to cancel it."""
    plan = write_plan(tmp_path / "plan.json", topic, [1], [str(disks.homes[1].directory / "one")])
    unknown = f"The log directory of replica {topic}-0-1 is unknown, because broker 1 does not answer."

    run_on_plan(disks, plan, "--throttle", "10000", "--no-wait")
    disks.kill(1)
    try:
        eventually(lambda: "fenced" in ottla(disks.bootstrap, "broker", "list"), "broker 1 is fenced")
        slow = verify(disks, plan)
        cancelled = run_on_plan(disks, plan, "--cancel")
        left = ottla(disks.bootstrap, "cluster", "balance", "--status")
    finally:
        disks.start(1)

    assert slow[0] == 1
    assert f"Reassignment of partition {topic}-0 is still in progress.\n{unknown}\n" in slow[1]
    assert cancelled == (
        1,
        f"Successfully cancelled partition reassignments for: {topic}-0\n"
        "None of the specified log directory moves are active.\n",
        cancelled[2],
    )
    assert cancelled[2].endswith(f"ottla: {unknown}\n")
    assert "0 partitions move" in left
