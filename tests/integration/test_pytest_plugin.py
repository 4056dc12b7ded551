"""The fixtures in the package as another project gets them: through pytest's entry point."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
TIMEOUT_S = 240
# Plugins for the tests of this project. Importing some of them takes longer than the tests below.
NO_OTHER_PLUGINS = " ".join(
    f"-p no:{name}" for name in ("anyio", "hypothesispytest", "rerunfailures", "schemathesis", "xdist")
)

# Their conftest.py does not name Ottla, and their pytest runs in their own directory.
THEIR_TESTS = """
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic


def create(cluster, name, **configs):
    configs = {key.replace("_", "."): value for key, value in configs.items()}
    topic = NewTopic(name, 1, len(cluster.node_ids), config=configs)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([topic])[name].result(30)


def send(cluster, topic, *values):
    failures = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "message.timeout.ms": 60_000})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(60) == 0 and not failures


def read(cluster, topic, count):
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values, deadline = [], time.monotonic() + 60
    while len(values) < count and time.monotonic() < deadline:
        values += [one.value() for one in consumer.consume(count, 0.2) if not one.error()]
    consumer.close()
    return values


def until(holds):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_session_has_one_cluster(ottla_cluster, request):
    assert len(ottla_cluster.node_ids) == request.config.getoption("--ottla-nodes") == 2
    create(ottla_cluster, "orders")
    send(ottla_cluster, "orders", b"1", b"2")
    assert read(ottla_cluster, "orders", 2) == [b"1", b"2"]


def test_it_is_the_same_for_the_next_test(ottla_cluster):
    assert read(ottla_cluster, "orders", 2) == [b"1", b"2"]


@pytest.fixture
def three(ottla_cluster_factory):
    cluster = ottla_cluster_factory(nodes=3, overrides={"num.partitions": "1"})
    create(cluster, "t", min_insync_replicas="2")
    return cluster


def test_nodes_are_killed_paused_cut_off_and_restarted(three):
    send(three, "t", b"before")

    killed = three.leader_of("t", 0)
    three.kill(killed)
    send(three, "t", b"killed")
    assert three.leader_of("t", 0) != killed
    three.restart(killed)
    assert sorted(three.node_ids) == [0, 1, 2]

    paused = three.leader_of("t", 0)
    three.pause(paused)
    until(lambda: three.leader_of("t", 0) not in (paused, -1))
    three.resume(paused)
    send(three, "t", b"paused")

    alone = three.leader_of("t", 0)
    others = [one for one in three.node_ids if one != alone]
    three.partition([alone], others)
    until(lambda: three.leader_of("t", 0) in others)
    three.heal()
    send(three, "t", b"cut off")

    for node_id in three.node_ids:
        three.shut_down(node_id)
        three.restart(node_id)
        send(three, "t", b"%d" % node_id)
    assert read(three, "t", 7) == [b"before", b"killed", b"paused", b"cut off", b"0", b"1", b"2"]
"""


def run_pytest(directory: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options],
        cwd=directory,
        env={**os.environ, "PYTEST_ADDOPTS": NO_OTHER_PLUGINS},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (tmp_path / "test_theirs.py").write_text(THEIR_TESTS)
    return tmp_path


def test_clusters_of_a_session_and_of_a_test_are_killed_paused_cut_off_and_restarted(project: Path) -> None:
    done = run_pytest(project, "-q", "--ottla-nodes", "2")

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert "3 passed" in done.stdout


def test_tests_without_a_cluster_pay_nothing_for_it(project: Path) -> None:
    (project / "test_theirs.py").write_text(
        "import sys\n\n\n"
        "def test_nothing():\n    assert not {'ottla.node.broker', 'uvloop'} & set(sys.modules)\n"
        "def test_import():\n    import ottla.testing\n"
        "    assert type(ottla.testing.__loader__).__name__ == 'SourceFileLoader'\n"
    )

    done = run_pytest(project, "-q")

    assert done.returncode == 0, done.stdout


def test_the_fixtures_and_the_option_say_what_they_are(project: Path) -> None:
    fixtures = run_pytest(project, "--fixtures", "-q")
    shown = run_pytest(project, "--help")

    assert "ottla_cluster [session scope]" in fixtures.stdout and "ottla_cluster_factory" in fixtures.stdout
    assert "ottla_secure_cluster [session scope]" in fixtures.stdout
    assert "--ottla-nodes=N" in shown.stdout
