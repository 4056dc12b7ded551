"""Moves of replicas, decommissioned brokers, and forced recovery: four nodes, three of which vote."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from ottla.node.embedded import Cluster
from tests.compat import command_line
from tests.compat.raw_transactions import leave_hanging
from tests.compat.wire_client import WireClient
from tests.integration.rest.conftest import Api, eventually, name_of

pytestmark = pytest.mark.slow
RECORDS, RECORD_BYTES = 40, 50_000


@pytest.fixture(scope="module")
def four() -> Iterator[Cluster]:
    """Start four nodes; the last one is no voter, and each test leaves it running."""
    with Cluster(nodes=4, rest=True) as cluster:
        yield cluster


@pytest.fixture
def api(four: Cluster) -> Api:
    """Return the API of a node that is never stopped."""
    url = four.rest_url(0)
    assert url is not None
    return Api(url, four.cluster_id)


def create(cluster: Cluster, name: str, replicas: str, *configs: str) -> None:
    """Create a topic with one partition on these brokers."""
    settings = [word for config in configs for word in ("-c", config)]
    count = str(replicas.count(",") + 1)
    command_line.ottla(cluster.bootstrap, "topic", "create", name, "-r", count, *settings)
    command_line.ottla(cluster.bootstrap, "topic", "reassign", name, "-r", replicas)
    command_line.ottla(cluster.bootstrap, "topic", "elect", name)


def fill(cluster: Cluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "batch.size": 100_000, "linger.ms": 0})
    for _ in range(RECORDS):
        producer.produce(topic, bytes(RECORD_BYTES), partition=0)
    producer.flush(30)


def test_a_reassignment_has_its_progress_and_can_be_cancelled(four: Cluster, api: Api) -> None:
    topic = name_of("moving")
    create(four, topic, "0,1")
    fill(four, topic)
    slow = {"follower_bytes_per_second": 1_000, "broker_ids": [3], "topics": [topic]}
    api.put("/v1/throttles", slow)
    eventually(lambda: api.get("/v1/throttles")["brokers"], "the limit holds")

    wanted = {"reassignments": [{"topic": topic, "partition": 0, "replicas": [0, 3]}]}
    api.post("/v1/reassignments", wanted, 202)
    eventually(lambda: api.get("/v1/reassignments")["reassignments"], "the partition moves")
    [move] = api.get("/v1/reassignments")["reassignments"]
    health = api.get("/v1/health")
    cancelled = api.delete(f"/v1/reassignments?topic={topic}&partition=0", 200)
    eventually(lambda: api.get("/v1/reassignments")["reassignments"] == [], "no partition moves")
    api.delete("/v1/throttles", 200)

    assert (move["topic"], move["leader"], move["adding"], move["removing"]) == (topic, 0, [3], [1])
    [copy] = move["copies"]
    assert copy["broker_id"] == 3 and copy["total_bytes"] >= RECORDS * RECORD_BYTES
    assert 0 <= move["percent"] < 100 and 0 < move["bytes_left"] <= copy["total_bytes"]
    assert health["under_replicated"]["count"] == 0, (
        "a replica that a reassignment adds does not count as missing"
    )
    assert cancelled["cancelled"] == {"count": 1, "partitions": [{"topic": topic, "partition": 0}]}

    def replicas() -> list[int]:
        listed = api.get(f"{api.v3}/topics/{topic}/partitions/0/replicas")["data"]
        return [one["broker_id"] for one in listed]

    eventually(lambda: replicas() == [0, 1], "the replicas are where they were")


def test_a_broker_leaves_step_by_step(four: Cluster, api: Api) -> None:
    topic = name_of("leaving")
    create(four, topic, "3,0")
    path = "/v1/brokers/3/decommission"

    planned = api.post(path, {"dry_run": True})
    untouched = api.get(path)
    api.post(path)
    eventually(lambda: api.get(path)["stage"] != "holds replicas", "the broker holds no replica")
    still_runs = api.post(path)
    four.shut_down(3)
    eventually(
        lambda: api.get(path)["stage"] == "holds nothing, and is stopped", "the broker is reported as stopped"
    )
    gone = api.post(path)
    eventually(lambda: api.ask("GET", path).status == 404, "the broker is unregistered")
    four.restart(3)
    eventually(lambda: len(api.get("/v1/health")["brokers"]) == 4, "the broker is registered again")

    moves = {one["topic"]: one for one in planned["planned"]}
    assert moves[topic]["replicas"] == [3, 0] and 3 not in moves[topic]["new_replicas"]
    assert (
        untouched["stage"] == "holds replicas"
        and {"topic": topic, "partition": 0} in untouched["held"]["partitions"]
    )
    assert still_runs["stage"] == "holds nothing, and still runs"
    assert gone["stage"] == "unregistered"


def test_only_an_unclean_election_helps_a_partition_that_lost_its_isr(four: Cluster, api: Api) -> None:
    topic = name_of("unclean")
    create(four, topic, "3,1", "min.insync.replicas=1")
    place = {"topic": topic, "partition": 0}
    wanted = {"type": "unclean", "partitions": [place]}
    not_needed = api.post("/v1/leaders/elect", wanted)

    four.kill(1)
    eventually(lambda: place in problems_of_kind(api, "under_replicated"), "one replica is missing")
    fill(four, topic)  # these records are missing on the dead replica
    four.kill(3)
    eventually(lambda: place in problems_of_kind(api, "leaderless"), "the partition has no leader")
    before_restart = place in problems_of_kind(api, "unclean")
    four.restart(1)
    eventually(lambda: place in problems_of_kind(api, "unclean"), "a replica that lacks records is up")
    preferred = api.post("/v1/leaders/elect", {**wanted, "type": "preferred"})
    forced = api.post("/v1/leaders/elect", wanted)
    eventually(lambda: place not in problems_of_kind(api, "leaderless"), "the partition has a leader again")
    leader = four.leader_of(topic, 0)
    four.restart(3)
    command_line.ottla(four.bootstrap, "topic", "delete", topic)
    eventually(lambda: api.get("/v1/health")["is_healthy"], "the cluster is healthy")

    assert not_needed["failed"] == []
    assert not before_restart, "none of its replicas was up"
    [failed] = preferred["failed"]
    assert (failed["topic"], failed["error_code"]) == (topic, "PREFERRED_LEADER_NOT_AVAILABLE")
    assert forced == {"moved": 1, "failed": [], "kept": []} and leader == 1


def problems_of_kind(api: Api, kind: str) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = api.get("/v1/health")[kind]["partitions"]
    return listed


def test_a_hanging_transaction_is_found_and_ended_in_its_log(four: Cluster, api: Api) -> None:
    topic = name_of("hanging")
    create(four, topic, "0")
    with WireClient(four.bootstrap.split(",")[0]) as wire:
        leave_hanging(wire, topic, 2**40, 3)

    path = f"/v1/transactions/hanging?topic={topic}"
    [found] = api.get(f"{path}&longer_than_ms=0")["hanging"]
    recent = api.get(path)["hanging"]
    place = {"topic": topic, "partition": 0, "start_offset": found["open_from"]}
    ended = api.post("/v1/transactions/abort", place)
    left = api.get(f"{path}&longer_than_ms=0")["hanging"]

    assert (found["producer"], found["epoch"]) == (2**40, 3) and found["silent_for_ms"] >= 0
    assert recent == [] and left == []
    assert ended == {"aborted": True, "producer": 2**40}


def test_a_balance_is_planned_executed_and_cancelled(four: Cluster, api: Api) -> None:
    topic = name_of("uneven")
    command_line.ottla(four.bootstrap, "topic", "create", topic, "-p", "8", "-r", "2")
    command_line.ottla(four.bootstrap, "topic", "reassign", topic, "-r", "0,1")
    eventually(lambda: not api.get("/v1/reassignments")["reassignments"], "all replicas are on two brokers")

    planned = api.get("/v1/balance?measure=true")
    assert planned["move_count"] > 0 and {"replicas"} <= {one["reason"] for one in planned["moves"]}
    assert planned["least_ms"] >= 0
    for when in ("before", "after"):
        shares = [one[when] for one in planned["brokers"]]
        assert sum(one["replicas"] for one in shares) >= 16 and sum(one["leaders"] for one in shares) >= 8
        assert all(one["size_bytes"] >= 0 and one["bytes_in"] >= 0 for one in shares)
    assert api.post("/v1/balance", {}, 202) == {"requested": True}
    eventually(lambda: not api.get("/v1/balance")["requested"], "nothing is left to move")

    shares = [one["before"]["replicas"] for one in api.get("/v1/balance")["brokers"]]
    assert max(shares) - min(shares) <= 2
    assert api.delete("/v1/balance", 200) == {"cancelled": []}
