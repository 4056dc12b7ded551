"""Fixtures of the compatibility tests.

`OTTLA_TEST_BOOTSTRAP=host:port` runs the trap tests, and those that use `cluster_bootstrap`, against any
running server instead of nodes of their own. Apache Kafka 4.3.1 passes them too: the tests were written
against it.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.compat.java.jars import KAFKA, reason_to_skip
from tests.compat.java.kafka_tools import KafkaTools
from tests.compat.java.program_runner import ProgramRunner
from tests.compat.servers import Server, start_kafka, start_ottla
from tests.compat.wire_client import WireClient, eventually, only
from tests.integration.cluster.conftest import Cluster, write_cluster

# Settings that make the tests quick: a new group does not wait three seconds for more members, and members of
# consumer groups learn of changes within half a second. Retention would run for the first time half a minute
# after the start, and delete records that a test has just written with old timestamps.
OVERRIDES = (
    "log.initial.task.delay.ms=3600000",
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.min.heartbeat.interval.ms=500",
    "group.consumer.heartbeat.interval.ms=500",
    "group.consumer.assignment.interval.ms=0",
    "log.segment.delete.delay.ms=1000",
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=200",
)
# Three nodes keep the states of share groups on all of them, because tests kill one of the nodes.
THREE_NODE_OVERRIDES = tuple(one for one in OVERRIDES if not one.startswith("share.coordinator."))


@pytest.fixture(scope="session")
def ottla(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a node of Ottla for the session."""
    server = start_ottla(tmp_path_factory.mktemp("ottla"), *OVERRIDES)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run Apache Kafka 4.3.1 for the session, or skip the test with the reason why it cannot run."""
    if (reason := reason_to_skip()) is not None:
        pytest.skip(reason)
    server = start_kafka(tmp_path_factory.mktemp("kafka"), *OVERRIDES)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run three nodes for the session, each a process. A test that stops one starts it again."""
    three = write_cluster(tmp_path_factory.mktemp("three"), 3, *THREE_NODE_OVERRIDES)
    three.start(0, 1, 2)
    yield three
    three.stop()


@pytest.fixture(scope="session")
def runner_of() -> Iterator[Callable[..., ProgramRunner]]:
    """Give a function that returns the one JVM with the classes of `artifacts`, or skips with the reason."""
    started: dict[tuple[str, ...], ProgramRunner] = {}

    def runner(artifacts: tuple[str, ...] = KAFKA) -> ProgramRunner:
        if (reason := reason_to_skip(artifacts)) is not None:
            pytest.skip(reason)
        if artifacts not in started:
            started[artifacts] = ProgramRunner(artifacts)
        return started[artifacts]

    yield runner
    for one in started.values():
        one.close()


@pytest.fixture(scope="session")
def tools(runner_of: Callable[..., ProgramRunner]) -> KafkaTools:
    """Give Apache Kafka's command-line tools in one JVM, or skip the test with the reason."""
    return KafkaTools(runner_of())


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Return the address of the server under test."""
    given = os.environ.get("OTTLA_TEST_BOOTSTRAP")
    if given:
        return given
    server: Server = request.getfixturevalue("ottla")
    return server.bootstrap


@pytest.fixture(scope="session")
def is_reference(bootstrap: str) -> bool:
    """Return True if the server under test is Apache Kafka, which has no feature of ours."""
    with WireClient(bootstrap) as client:
        response = client.call("api_versions", 4, client_software_name="test", client_software_version="1")
    return not any(one.name.startswith("ottla.") for one in response.supported_features)


@pytest.fixture(scope="session")
def cluster_bootstrap(request: pytest.FixtureRequest) -> str:
    """Return the addresses of the cluster under test, separated by commas."""
    given = os.environ.get("OTTLA_TEST_BOOTSTRAP")
    if given:
        return given
    cluster: Cluster = request.getfixturevalue("three_nodes")
    return cluster.bootstrap


@pytest.fixture
def connect(bootstrap: str) -> Iterator[Callable[..., WireClient]]:
    """Give a function that opens more connections; all of them are closed at the end."""
    opened: list[WireClient] = []

    def open_client(**options: str | float | None) -> WireClient:
        opened.append(WireClient(bootstrap, **options))  # type: ignore[arg-type]
        return opened[-1]

    yield open_client
    for client in opened:
        client.close()


@pytest.fixture
def client(connect: Callable[..., WireClient]) -> WireClient:
    return connect()


@pytest.fixture
def topic(client: WireClient) -> Iterator[str]:
    """Create a topic of one partition, wait until its leader serves it, and delete it afterwards."""
    name = create_topic(client)
    yield name
    with WireClient(client.bootstrap) as closer:
        closer.call("delete_topics", 6, topics=[{"name": name}], timeout_ms=5000)


def create_topic(client: WireClient, partitions: int = 1, **configs: str) -> str:
    """Create a topic and wait until each partition has a leader; `_` in config names stands for a dot."""
    name = f"trap-{uuid4().hex[:10]}"
    settings = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    wanted = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": settings}
    answer = only(client.call("create_topics", 7, topics=[wanted], timeout_ms=10000).topics)
    assert answer.error_code == 0, answer
    indexes = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
    eventually(
        lambda: client.call("list_offsets", 5, replica_id=-1, topics=[{"name": name, "partitions": indexes}]),
        lambda found: all(one.error_code == 0 for one in only(found.topics).partitions),
    )
    return name


def topic_id_of(client: WireClient, name: str) -> bytes:
    found = only(client.call("metadata", 12, topics=[{"name": name}]).topics)
    assert found.error_code == 0
    return bytes(found.topic_id)


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).resolve().parents[2]
