"""`ottla quorum`, `ottla broker` and reassignments, against four nodes of which three are voters."""

import json
import time
from collections.abc import Iterator

import pytest

from ottla.node.embedded import Cluster
from tests.compat import command_line
from tests.integration.cluster.conftest import eventually

pytestmark = pytest.mark.slow
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def four() -> Iterator[Cluster]:
    """Start four nodes for all tests of this module; each test leaves them unchanged."""
    with Cluster(nodes=4) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def no_topic_is_left(four: Cluster) -> Iterator[None]:
    """Delete the topics of a test at its end."""
    yield
    names = [one["name"] for one in json.loads(ottla(four, "topic", "list", "--output", "json"))]
    if names:
        ottla(four, "topic", "delete", *names)


def ottla(cluster: Cluster, *arguments: str, code: int = 0) -> str:
    return command_line.ottla(cluster.bootstrap, *arguments, code=code)


def voters(cluster: Cluster) -> list[int]:
    status = json.loads(ottla(cluster, "quorum", "status", "--output", "json"))
    return [one["node"] for one in status["voters"]]


def replicas(cluster: Cluster, topic: str) -> list[list[int]]:
    [described] = json.loads(ottla(cluster, "topic", "describe", topic, "--output", "json"))
    return [one["replicas"] for one in described["partitions"]]


def brokers(cluster: Cluster) -> dict[int, dict[str, object]]:
    rows = json.loads(ottla(cluster, "broker", "list", "--output", "json"))
    return {row["broker"]: row for row in rows}


def test_the_quorum_is_shown_with_all_its_voters(four: Cluster) -> None:
    text = ottla(four, "quorum", "status")

    assert text.startswith(f"leader {four.controller_id}  epoch ")
    assert text.count("voter") == 2 and text.count("127.0.0.1:") == 3
    assert voters(four) == [0, 1, 2]


def test_a_voter_leaves_and_comes_back(four: Cluster) -> None:
    follower = (four.controller_id + 1) % 3
    rest = [one for one in (0, 1, 2) if one != follower]

    removed = ottla(four, "quorum", "remove", str(follower))
    assert removed == f"node {follower} is not a voter any more; the voters are {rest[0]}, {rest[1]}\n"
    refused = ottla(four, "quorum", "remove", str(follower), code=1)
    added = ottla(four, "quorum", "add", str(follower))
    again = ottla(four, "quorum", "add", str(follower), code=1)

    assert f"Node {follower} is not a voter" in refused
    assert added == f"node {follower} is a voter now; the voters are 0, 1, 2\n"
    assert again == f"ottla: Node {follower} is already a voter; `ottla quorum status` shows all voters.\n"


def test_the_leader_of_the_quorum_leaves_at_once(four: Cluster) -> None:
    leader = four.controller_id

    begin = time.monotonic()
    ottla(four, "quorum", "remove", str(leader))
    took_s = time.monotonic() - begin

    assert took_s < 30 and four.controller_id != leader
    ottla(four, "quorum", "add", str(leader))


def test_a_node_without_a_listener_for_controllers_cannot_vote(four: Cluster) -> None:
    assert "it has no listener for controllers" in ottla(four, "quorum", "add", "3", code=1)
    assert "is not a single address" in ottla(four, "quorum", "add", "3", "--endpoint", "a", code=2)


def test_partitions_move_and_are_led_as_preferred(four: Cluster) -> None:
    ottla(four, "topic", "create", "moved", "-p", "3", "-r", "2")

    out = ottla(four, "topic", "reassign", "moved", "-r", "0,1", "-r", "2:3,2,1")
    assert out == "moved-0 is on 0,1\nmoved-1 is on 0,1\nmoved-2 is on 3,2,1\n"
    eventually(lambda: replicas(four, "moved") == [[0, 1], [0, 1], [3, 2, 1]], "the replicas are known")
    ottla(four, "topic", "reassign", "moved", "-r", "1,0", "-r", "2:1,2,3")
    elected = ottla(four, "topic", "elect", "moved").splitlines()
    assert len(elected) == 3 and all(line.endswith(" led by 1") for line in elected)
    assert "already" in ottla(four, "topic", "elect", "moved", "-p", "0")
    assert ottla(four, "topic", "reassign", "moved") == "no partition of moved is moving\n"
    assert ottla(four, "topic", "reassign", "moved", "--output", "json") == "[]\n"
    assert "no partition of moved is moving" in ottla(four, "topic", "reassign", "moved", "--cancel")
    assert "has no partition 9" in ottla(four, "topic", "reassign", "moved", "-r", "9:0", code=1)
    refused = ottla(four, "topic", "reassign", "moved", "-r", "0,77", code=1)
    assert refused.startswith("ottla: ") and refused.count("\n") == 1 and "77" in refused


def test_brokers_are_listed_with_what_they_hold(four: Cluster) -> None:
    ottla(four, "topic", "create", "listed", "-p", "4", "-r", "4")

    rows = brokers(four)
    text = ottla(four, "broker", "list")

    assert sorted(rows) == [0, 1, 2, 3]
    assert all(row["state"] == "active" and row["replicas"] == 4 for row in rows.values())
    assert sum(int(str(row["leads"])) for row in rows.values()) == 4
    assert text.startswith("broker  address ") and text.count("active") == 4


def test_the_reason_why_a_broker_may_not_leave_is_printed(four: Cluster) -> None:
    ottla(four, "topic", "create", "everywhere", "-r", "4")

    assert "`ottla quorum remove 0`" in ottla(four, "broker", "decommission", "0", code=1)
    assert "There is no broker 9" in ottla(four, "broker", "decommission", "9", code=1)
    refused = ottla(four, "broker", "decommission", "3", "--dry-run", code=1)

    assert "everywhere-0 has 4 replicas, and there is no other broker" in refused
    assert refused.count("\n") == 1


def test_a_broker_leaves_for_good(four: Cluster) -> None:
    ottla(four, "topic", "create", "leaving", "-p", "3", "-r", "3")
    ottla(four, "topic", "reassign", "leaving", "-r", "3,0,1")

    planned = json.loads(ottla(four, "broker", "decommission", "3", "--dry-run", "--output", "json"))
    for _ in range(TIMEOUT_S):  # a busy machine may need more than a second for the move
        still_there = ottla(four, "broker", "decommission", "3", "--timeout", "1", code=1)
        if "holds nothing" in still_there:
            break
    eventually(lambda: replicas(four, "leaving") == [[2, 0, 1]] * 3, "no replica is on the broker")
    waiting = command_line.start(four.bootstrap, "broker", "decommission", "3")
    assert waiting.stderr is not None
    line = waiting.stderr.readline()
    four.shut_down(3)
    out, _ = waiting.communicate(timeout=TIMEOUT_S)

    assert [one["new_replicas"] for one in planned] == [[2, 0, 1]] * 3
    assert "Broker 3 holds nothing but is still running" in still_there
    assert line == "broker 3 holds nothing; stop it now, and it is removed from the cluster\n"
    assert (waiting.returncode, out) == (
        0,
        "broker 3 was removed from the cluster; 0 of its partitions were moved\n",
    )
    assert sorted(brokers(four)) == [0, 1, 2]
    four.restart(3)
    eventually(lambda: brokers(four).get(3, {}).get("state") == "active", "the broker is active again")


def test_lag_is_shown_if_it_is_known(four: Cluster) -> None:
    ottla(four, "topic", "create", "alone", "-p", "2", "-r", "1")
    ottla(four, "topic", "reassign", "alone", "-r", "0:3", "-r", "1:0")
    ottla(four, "group", "reset", "billing", "--to-earliest", "--topic", "alone", "--execute")

    four.kill(3)
    try:
        [lag] = json.loads(ottla(four, "group", "lag", "billing", "--output", "json"))
        refused = ottla(
            four, "group", "reset", "billing", "--to-latest", "--all-topics", "--timeout", "6", code=1
        )
    finally:
        four.restart(3)

    assert [one["end"] for one in lag["partitions"]] == [None, 0]
    assert [one["lag"] for one in lag["partitions"]] == [None, 0]
    assert "alone-0 has no leader at the moment" in refused
    ottla(four, "group", "delete", "billing")
