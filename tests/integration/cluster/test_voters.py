"""The voters of a cluster change while it is in use: one node becomes three, and one again."""

import base64
import contextlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode
from ottla.node.cli.local_cluster import NodeHome, NodeProcess, wait_until_ready
from tests.compat.wire_client import WireClient
from tests.compat.wire_client import eventually as call_until
from tests.integration.cluster.conftest import QUICK, Cluster, MakeCluster, eventually
from tests.integration.cluster.test_cluster import consume, create
from tests.integration.cluster.test_failures import Load, in_sync
from tests.node_fork import popen
from tests.ports import free_ports

pytestmark = pytest.mark.slow


class Growing:
    """Nodes that all have the first as their bootstrap server; it founds the cluster alone."""

    def __init__(self, directory: Path) -> None:
        self.base_port = free_ports(6)
        self.cluster = Cluster(homes=[self._home(directory, node_id) for node_id in range(3)])

    def _home(self, directory: Path, node_id: int) -> NodeHome:
        home = NodeHome(node_id=node_id, directory=directory / f"node-{node_id}")
        home.directory.mkdir()
        settings = [
            f"node.id={node_id}",
            "process.roles=broker,controller",
            "cluster.secret=sixteen characters and more",
            f"listeners=PLAINTEXT://127.0.0.1:{self.base_port + node_id},CONTROLLER://{self.controller(node_id)}",
            "controller.listener.names=CONTROLLER",
            f"controller.quorum.bootstrap.servers={self.controller(0)}",
            f"log.dirs={home.directory / 'data'}",
            *QUICK,
        ]
        home.properties.write_text("\n".join(settings) + "\n")
        return home

    def controller(self, node_id: int) -> str:
        return f"127.0.0.1:{self.base_port + 3 + node_id}"

    def directory_id(self, node_id: int) -> bytes:
        text = (self.cluster.homes[node_id].directory / "data" / "meta.properties").read_text()
        (line,) = (line for line in text.splitlines() if line.startswith("directory.id="))
        return base64.urlsafe_b64decode(line.partition("=")[2] + "==")

    def ask(self, node_id: int, api: str, version: int, **fields: Any) -> Any:
        """Send a request to a node until a controller answers, which a change of the voters may replace."""
        with contextlib.closing(WireClient(self.cluster.nodes[node_id].bootstrap)) as client:
            answer = call_until(
                lambda: client.call(api, version, **fields),
                lambda found: found.error_code != ErrorCode.NOT_CONTROLLER,
            )
        assert answer.error_code == 0, answer.error_message
        return answer

    def add_voter(self, node_id: int, *, by: int) -> None:
        host, _, port = self.controller(node_id).rpartition(":")
        self.ask(
            by,
            "add_raft_voter",
            0,
            cluster_id=None,
            timeout_ms=15_000,
            voter_id=node_id,
            voter_directory_id=self.directory_id(node_id),
            listeners=[{"name": "CONTROLLER", "host": host, "port": int(port)}],
        )

    def remove_voter(self, node_id: int, *, by: int) -> None:
        self.ask(
            by,
            "remove_raft_voter",
            0,
            cluster_id=None,
            voter_id=node_id,
            voter_directory_id=self.directory_id(node_id),
        )

    def voters(self, *, by: int) -> list[int]:
        topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
        answer = self.ask(by, "describe_quorum", 2, topics=topics)
        return sorted(one.replica_id for one in answer.topics[0].partitions[0].current_voters)


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[Growing]:
    made = Growing(tmp_path)
    yield made
    made.cluster.stop()


def topics(cluster: Cluster, *, of: int) -> Collection[str]:
    """Return the names of the topics that one node knows."""
    known: Mapping[str, object] = cluster.admin(of).list_topics(timeout=60).topics
    return known.keys()


def test_one_node_becomes_three_and_one_again_under_load(growing: Growing) -> None:
    cluster = growing.cluster
    cluster.start(0)
    cluster.start(1, 2)
    topic = create(cluster, by=1, min_insync_replicas="2")
    load = Load(cluster, topic)

    growing.add_voter(1, by=2)
    growing.add_voter(2, by=0)
    eventually(lambda: growing.voters(by=1) == [0, 1, 2], "there are three voters")
    cluster.kill(0)
    made_without_the_founder = create(cluster, by=2, replicas=2)
    cluster.start(0)
    eventually(lambda: in_sync(cluster, topic) == [0, 1, 2], "the founder has caught up")
    growing.remove_voter(2, by=1)
    growing.remove_voter(1, by=0)
    eventually(lambda: growing.voters(by=2) == [0], "there is one voter")
    made_with_one_voter = create(cluster, by=1)
    acknowledged = load.stop()

    assert [int(value) for value in consume(cluster, topic, acknowledged)] == list(range(acknowledged))
    assert made_without_the_founder in topics(cluster, of=2)
    # Other nodes than the one asked have a new topic in their metadata a moment later.
    eventually(lambda: made_with_one_voter in topics(cluster, of=2), "a topic made with one voter is known")


def test_a_new_quorum_waits_for_all_of_its_voters_and_says_so(make_cluster: MakeCluster) -> None:
    """metadata_raft D33: a majority of empty disks may be of voters that lost acknowledged records."""
    cluster = make_cluster(5)
    early = {one: NodeProcess(cluster.homes[one], start=popen) for one in (0, 1, 2)}
    cluster.nodes |= early
    message = "a new quorum begins when all of its voters are up at the same time"
    for node_id in early:
        eventually(lambda one=node_id: message in cluster.output(one), f"node {node_id} says so")  # type: ignore[misc]
    assert "the quorum works without them" not in "".join(map(cluster.output, early))

    cluster.start(3, 4)
    wait_until_ready(list(early.values()), [])
    cluster.kill(3)
    cluster.kill(4)

    assert create(cluster, by=0, replicas=3), "from now on a majority is enough"
