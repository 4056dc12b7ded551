"""Commands for operators of a cluster: trim, health, info, drain, limits, settings and disks of brokers."""

import json
from collections.abc import Iterator
from uuid import uuid4

import pytest

from ottla.node.embedded import Cluster
from tests.compat.command_line import TIMEOUT_S, ottla, start
from tests.integration.cluster.conftest import eventually

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_process_is_left")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """Create a topic of two partitions on all nodes, with four records each."""
    name = f"care-{uuid4().hex[:8]}"
    # Without retention, which would delete these records of 1970.
    ottla(cluster.bootstrap, "topic", "create", name, "-p", "2", "-r", "3", "-c", "retention.ms=-1")
    for partition in ("0", "1"):
        given = "".join(f'{{"value":"{number}","timestamp":{number * 1000}}}\n' for number in range(1, 5))
        ottla(cluster.bootstrap, "produce", name, "-q", "-p", partition, "--input", "json", given=given)
    return name


def rows(cluster: Cluster, *arguments: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(ottla(cluster.bootstrap, *arguments, "--output", "json"))
    return found


def test_trim_deletes_the_oldest_records_of_the_selected_partitions(cluster: Cluster, topic: str) -> None:
    where = cluster.bootstrap

    planned = ottla(where, "topic", "trim", topic, "-p", "1", "--before-offset", "2", "--dry-run")
    untouched = ottla(where, "consume", topic, "-p", "1", "-e")
    output = ottla(where, "topic", "trim", topic, "-p", "1", "--before-offset", "2")
    earlier = ottla(where, "topic", "trim", topic, "-p", "1", "--before-offset", "1")
    beyond = ottla(where, "topic", "trim", topic, "--before-offset", "9", code=1)

    assert planned == f"{topic}-1 would begin at offset 2, 2 offsets later than before\n"
    assert untouched == "1\n2\n3\n4\n"
    assert output == f"{topic}-1 begins now at offset 2, 2 offsets later than before\n"
    assert earlier == f"{topic}-1 begins now at offset 2, 0 offsets later than before\n"
    assert f"{topic}-0 ends at offset 4, before 9; nothing was deleted." in beyond
    assert ottla(where, "consume", topic, "-p", "1", "-e") == "3\n4\n"
    assert len(ottla(where, "consume", topic, "-p", "0", "-e").splitlines()) == 4


def test_trim_deletes_records_up_to_a_time_or_to_the_end(cluster: Cluster, topic: str) -> None:
    by_time = rows(cluster, "topic", "trim", topic, "-p", "0", "--before-timestamp", "1970-01-01T00:00:03Z")
    to_end = rows(cluster, "topic", "trim", topic, "--before-offset", "end")

    assert [one["first_offset"] for one in by_time] == [2]
    assert [one["first_offset"] for one in to_end] == [4, 4] and all(one["trimmed"] for one in to_end)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Give either --before-offset or --before-timestamp."),
        (("--before-offset", "1", "--before-timestamp", "1"), "Give either"),
        (("--before-offset", "-1"), "neither an offset nor end"),
        (("--before-timestamp", "soon"), "or as ms since 1970"),
    ],
)
def test_trim_names_missing_options(arguments: tuple[str, ...], words: str) -> None:
    assert words in ottla("127.0.0.1:1", "topic", "trim", "t", *arguments, code=2)


def test_a_drained_broker_leads_nothing_until_it_is_undrained(cluster: Cluster) -> None:
    """The other brokers have equal shares of few partitions, so none of these moves back."""
    topic = f"led-{uuid4().hex[:8]}"
    ottla(cluster.bootstrap, "topic", "create", topic, "-p", "6", "-r", "3")

    def status() -> str:
        return ottla(cluster.bootstrap, "cluster", "balance", "--status", "--output", "json")

    def led() -> object:
        [mine] = [one for one in rows(cluster, "broker", "list") if one["broker"] == 1]
        return mine["leads"]

    ottla(cluster.bootstrap, "topic", "elect", topic)
    drained = ottla(cluster.bootstrap, "broker", "drain", "1")
    eventually(lambda: led() == 0, "the broker leads nothing")
    eventually(lambda: json.loads(status())["not_leading"] == [1], "a balance gives the broker no leaders")
    undrained = ottla(cluster.bootstrap, "broker", "undrain", "1")
    eventually(lambda: led() != 0, "the broker leads again")
    again = ottla(cluster.bootstrap, "broker", "undrain", "1")
    eventually(lambda: json.loads(status())["not_leading"] == [], "a balance may give it leaders again")

    assert "moved away from broker 1" in drained
    assert "moved back to broker 1\n" in undrained and not undrained.startswith("0 ")
    assert again == "0 leaders moved back to broker 1, which leads its share\n"


def test_limits_are_set_shown_and_removed(cluster: Cluster, topic: str) -> None:
    where = cluster.bootstrap

    def limits() -> dict[str, list[dict[str, object]]]:
        found: dict[str, list[dict[str, object]]] = json.loads(
            ottla(where, "broker", "throttle", "--output", "json")
        )
        return found

    # Each broker shows the settings that it has applied, a moment after they were changed.
    ottla(where, "broker", "throttle", "1", "--rate", "5000000", "--topic", topic)
    eventually(lambda: all(limits()[kind] for kind in ("brokers", "topics")), "the limits are shown")
    shown = limits()
    ottla(where, "broker", "throttle", "--clear")
    nothing = "nothing is throttled\n"
    eventually(lambda: ottla(where, "broker", "throttle") == nothing, "no limit is left")

    [limited] = shown["brokers"]
    assert limited["broker"] == 1 and limited["leader.replication.throttled.rate"] == 5_000_000
    assert [one["topic"] for one in shown["topics"]] == [topic]
    assert "Give the limit with --rate" in ottla(where, "broker", "throttle", "1", code=2)


def test_settings_of_one_broker_and_of_all_change_while_they_run(cluster: Cluster) -> None:
    where = cluster.bootstrap
    ottla(where, "broker", "config", "all", "--set", "log.retention.ms=86400000")
    ottla(where, "broker", "config", "2", "--set", "log.cleaner.threads=2")

    of_all = ottla(where, "broker", "config", "all")
    eventually(
        lambda: (
            {"log.retention.ms", "log.cleaner.threads"}
            <= {line.partition("=")[0] for line in ottla(where, "broker", "config", "2").splitlines()}
        ),
        "the broker has both settings",
    )
    of_one = ottla(where, "broker", "config", "2")
    ottla(where, "broker", "config", "all", "--reset", "log.retention.ms")
    ottla(where, "broker", "config", "2", "--reset", "log.cleaner.threads")

    assert of_all == "log.retention.ms=86400000\nmin.insync.replicas=1\n"
    assert of_one == "log.cleaner.threads=2\nlog.retention.ms=86400000\nmin.insync.replicas=1\n"
    assert "neither the id of a broker nor all" in ottla(where, "broker", "config", "x", code=2)


def test_the_disks_of_brokers_are_shown_with_their_replicas(cluster: Cluster, topic: str) -> None:
    disks = rows(cluster, "broker", "log-dirs")
    replicas = rows(cluster, "broker", "log-dirs", "2", "--replicas")

    assert [one["broker"] for one in disks] == [0, 1, 2] and not any(one["error"] for one in disks)
    mine = [one for one in replicas if one["topic"] == topic]
    assert [one["partition"] for one in mine] == [0, 1] and {one["broker"] for one in replicas} == {2}


def test_a_cluster_without_a_node_reports_the_problem_and_the_partitions(
    cluster: Cluster, topic: str
) -> None:
    where = cluster.bootstrap
    well = ottla(where, "cluster", "health")
    cluster.kill(2)
    try:
        eventually(
            lambda: ottla(where, "topic", "describe", "--under-replicated").count(topic) == 2,
            "both partitions miss a replica",
        )
        described = ottla(where, "topic", "describe", topic, "--under-replicated")
        none = ottla(where, "topic", "describe", topic, "--unavailable")
        command = start(where, "cluster", "health", "--output", "json")
        health = json.loads(command.communicate(timeout=TIMEOUT_S)[0])
        info = json.loads(ottla(where, "cluster", "info", "--output", "json"))
    finally:
        cluster.restart(2)

    assert well.startswith("healthy: 3 brokers, ")
    assert [line.split()[:2] for line in described.splitlines()[1:]] == [[topic, "0"], [topic, "1"]]
    assert none == "no such partition\n"
    assert command.returncode == 1
    assert not health["is_healthy"] and health["fenced_brokers"] == [2]
    assert {"topic": topic, "partition": 0} in health["under_replicated"]
    assert [one["state"] for one in info["brokers"]] == ["active", "active", "fenced"]
