"""Apache Kafka 4.3.1's own command-line tools at controllers that are not brokers (KIP-919)."""

import json
import re
from collections.abc import Iterator

import pytest

from tests.compat.java.kafka_tools import KafkaTools
from tests.compat.wire_client import eventually
from tests.integration.cluster.conftest import Cluster, write_cluster
from tests.integration.cluster.rolling import setting
from tests.integration.cluster.test_separate_controllers import BROKERS, CONTROLLERS, separate

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = separate(write_cluster(tmp_path_factory.mktemp("cluster"), 5))
    try:
        made.start(*CONTROLLERS, *BROKERS)
        yield made
    finally:
        made.stop()


class Shell:
    """The tools with the address of one controller filled in."""

    def __init__(self, tools: KafkaTools, cluster: Cluster, node_id: int) -> None:
        listeners = setting(cluster.homes[node_id], "listeners")
        self._tools, self._address = tools, listeners.removeprefix("CONTROLLER://")

    def ok(self, tool: str, *arguments: str) -> str:
        address = ("--bootstrap-controller", self._address)
        # In this tool alone, the address is an option of the subcommand.
        words = (*arguments, *address) if tool == "kafka-cluster" else (*address, *arguments)
        ran = self._tools.run(tool, *words)
        assert ran.code == 0 and "Exception" not in ran.text, f"{tool} {arguments}: {ran.text}"
        return ran.text


@pytest.fixture(params=CONTROLLERS)
def shell(tools: KafkaTools, cluster: Cluster, request: pytest.FixtureRequest) -> Shell:
    """Give the tools at each controller: one leads the quorum, the others pass requests on to it."""
    return Shell(tools, cluster, request.param)


def test_kafka_metadata_quorum_describes_voters_and_observers(shell: Shell) -> None:
    status = shell.ok("kafka-metadata-quorum", "describe", "--status")
    replication = shell.ok("kafka-metadata-quorum", "describe", "--replication")

    fields = dict(re.findall(r"^(\w+): +(.*)$", status, flags=re.M))
    rows = [line.split() for line in replication.splitlines()[1:] if line.strip()]
    assert int(fields["LeaderId"]) in CONTROLLERS and int(fields["HighWatermark"]) > 0
    assert sorted(one["id"] for one in json.loads(fields["CurrentVoters"])) == list(CONTROLLERS)
    assert sorted(one["id"] for one in json.loads(fields["CurrentObservers"])) == list(BROKERS)
    assert sorted(row[-1] for row in rows) == ["Follower", "Follower", "Leader", "Observer", "Observer"]


def test_kafka_cluster_lists_the_controllers(shell: Shell) -> None:
    output = shell.ok("kafka-cluster", "cluster-id")
    endpoints = shell.ok("kafka-cluster", "list-endpoints")

    rows = [line.split() for line in endpoints.splitlines()[1:] if line.strip()]
    assert [int(row[0]) for row in rows] == list(CONTROLLERS), endpoints
    assert output.startswith("Cluster ID: ")


def test_kafka_configs_and_kafka_features_ask_a_controller(shell: Shell) -> None:
    described = shell.ok("kafka-features", "describe")
    own = shell.ok("kafka-configs", "--entity-type", "brokers", "--entity-name", "0", "--describe", "--all")
    shell.ok(
        *("kafka-configs", "--entity-type", "brokers", "--entity-default"),
        *("--alter", "--add-config", "log.cleaner.threads=2"),
    )
    changed = eventually(
        lambda: shell.ok("kafka-configs", "--entity-type", "brokers", "--entity-default", "--describe"),
        lambda text: "log.cleaner.threads=2" in text,
    )
    shell.ok(
        *("kafka-configs", "--entity-type", "brokers", "--entity-default"),
        *("--alter", "--delete-config", "log.cleaner.threads"),
    )

    assert "metadata.version" in described
    assert "process.roles=controller" in own and "log.cleaner.threads=2" in changed
