"""Operations of administrators over REST, on three nodes that the tests leave unchanged."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.node.embedded import Cluster
from tests.compat import command_line
from tests.integration.rest.conftest import TIMEOUT_S, Api, eventually, name_of

pytestmark = pytest.mark.slow


@pytest.fixture
def topic(rest_cluster: Cluster) -> Iterator[str]:
    """Create three partitions on all nodes, with ten records each."""
    name = name_of("operated")
    command_line.ottla(rest_cluster.bootstrap, "topic", "create", name, "-p", "3", "-r", "3")
    producer = Producer({"bootstrap.servers": rest_cluster.bootstrap})
    for number in range(30):
        producer.produce(name, b"value", partition=number % 3)
    producer.flush(30)
    yield name
    command_line.ottla(rest_cluster.bootstrap, "topic", "delete", name)


def group_at(cluster: Cluster, topic: str, offset: int) -> str:
    """Return a group without members that has committed this offset of the first partition."""
    name = name_of("group")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": name})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()
    return name


def leaders(cluster: Cluster, topic: str) -> list[int]:
    return [cluster.leader_of(topic, number) for number in range(3)]


# ---- the node itself -----------------------------------------------------------------------------


def test_every_node_is_alive_and_ready(apis: list[Api]) -> None:
    for api in apis:
        eventually(lambda api=api: api.ask("GET", "/readyz").status == 200, "the node is ready")  # type: ignore[misc]

        assert api.get("/healthz")["status"] == "alive" and api.get("/readyz")["status"] == "ready"


# ---- the cluster ---------------------------------------------------------------------------------


def test_each_node_reports_a_healthy_cluster(apis: list[Api], rest_cluster: Cluster, topic: str) -> None:
    def is_well() -> bool:
        return all(api.get("/v1/health")["is_healthy"] for api in apis)

    eventually(is_well, "all replicas are in sync")

    health = apis[1].get("/v1/health")
    assert health["controller_id"] == rest_cluster.controller_id
    assert health["cluster_id"] == rest_cluster.cluster_id
    assert [one["state"] for one in health["brokers"]] == ["active"] * 3
    assert health["under_replicated"] == {"count": 0, "partitions": []}
    assert sum(one["leads"] for one in health["brokers"]) == health["partitions"]


def test_the_quorum_is_described_as_on_the_command_line(apis: list[Api], rest_cluster: Cluster) -> None:
    quorum = apis[2].get("/v1/quorum")

    assert quorum["leader"] == rest_cluster.controller_id
    assert [one["node"] for one in quorum["voters"]] == [0, 1, 2]
    assert all(one["log_end_offset"] > 0 for one in quorum["voters"])


def test_log_directories_are_listed_with_their_disks(api: Api, topic: str) -> None:
    brokers = api.get("/v1/log-dirs")["brokers"]
    [one] = api.get("/v1/log-dirs?broker_id=1&partitions=true")["brokers"]

    assert [one["broker_id"] for one in brokers] == [0, 1, 2]
    [log_dir] = brokers[0]["log_dirs"]
    assert log_dir["total_bytes"] >= log_dir["usable_bytes"] > 0 and not log_dir["is_offline"]
    replicas = {(each["topic"], each["partition"]): each for each in one["log_dirs"][0]["partitions"]}
    assert replicas[topic, 0]["size_bytes"] > 0 and not replicas[topic, 0]["is_future"]
    assert "no broker 9" in api.get("/v1/log-dirs?broker_id=9", 404)["message"]


def test_the_oldest_records_of_a_topic_are_deleted(api: Api, topic: str) -> None:
    def trim(status: int = 200, **wanted: object) -> Any:
        return api.post(f"/v1/topics/{topic}/trim", wanted, status)

    planned = trim(to_end=True, dry_run=True)
    beyond = trim(409, before_offset=11)
    unknown = trim(404, before_offset=0, partitions=[99])
    both = trim(400, before_offset=0, to_end=True)
    too_large = trim(400, before_timestamp=2**63)
    done = trim(to_end=True, partitions=[0])
    again = trim(before_offset=0)

    assert [one["first_offset"] for one in planned["partitions"]] == [10] * 3 and planned["dry_run"]
    assert "nothing was deleted" in beyond["message"] and "partition 99" in unknown["message"]
    assert "one of before_offset" in both["message"]
    assert too_large["message"] == "Invalid body: before_timestamp must be at most 9223372036854775807."
    assert done["partitions"] == [{"partition": 0, "first_offset": 10, "deleted_offsets": 10}]
    assert [one["first_offset"] for one in again["partitions"]] == [10, 0, 0], (
        "a log start offset never moves back"
    )


# ---- leaders -------------------------------------------------------------------------------------


def test_a_leader_is_transferred_and_stays_the_preferred_one(
    api: Api, rest_cluster: Cluster, topic: str
) -> None:
    before = rest_cluster.leader_of(topic, 0)
    after = (before + 1) % 3

    wanted = {"topic": topic, "partition": 0, "leader": after}
    moved = api.post("/v1/leaders/transfer", wanted)
    again = api.post("/v1/leaders/transfer", wanted)

    assert moved == {"moved": 1, "failed": [], "kept": []} and again["moved"] == 0
    assert rest_cluster.leader_of(topic, 0) == after
    preferred = api.post(
        "/v1/leaders/elect", {"type": "preferred", "partitions": [{"topic": topic, "partition": 0}]}
    )
    assert preferred["failed"] == [] and rest_cluster.leader_of(topic, 0) == after


def test_a_broker_that_cannot_lead_is_rejected_with_the_reason(api: Api, topic: str) -> None:
    wanted = {"topic": topic, "partition": 0, "leader": 7}

    refused = api.post("/v1/leaders/transfer", wanted, 409)
    unknown = api.post("/v1/leaders/transfer", {**wanted, "partition": 9}, 404)
    malformed = api.post("/v1/leaders/transfer", {**wanted, "leader": "one"}, 400)
    unnamed = api.post("/v1/leaders/elect", {"type": "unclean"}, 400)

    assert "Broker 7 has no replica" in refused["message"] and refused["error_code"] == 409
    assert "no partition 9" in unknown["message"]
    assert "leader must be an integer" in malformed["message"]
    assert "you must name its partitions" in unnamed["message"]


def test_a_broker_is_drained_of_leaders_and_gets_its_share_back(
    apis: list[Api], rest_cluster: Cluster, topic: str
) -> None:
    api, drained = apis[0], 2
    eventually(lambda: api.get("/v1/health")["is_healthy"], "all replicas are in sync")

    # A replica that was just created is not in sync yet: the drain has to be repeated.
    moved = eventually(lambda: drain_of(api, drained), "other brokers lead all partitions that they can")
    eventually(lambda: drained not in leaders(rest_cluster, topic), "all nodes know the new leaders")
    progress = api.get(f"/v1/brokers/{drained}/drain")
    while_drained = leaders(rest_cluster, topic)
    rebalanced = api.post("/v1/leaders/rebalance")
    still = leaders(rest_cluster, topic)
    back = api.delete(f"/v1/brokers/{drained}/drain", 200)

    # Other tests may have left topics with one replica, or with only one in sync.
    kept = len(moved["kept"])
    assert topic not in [one["topic"] for one in moved["kept"]]
    assert progress == progress | {"broker_id": drained, "leads": kept, "is_drained": kept == 0}
    assert progress["preferred_for"] <= kept and (progress["can_end"] or kept > 0)
    assert drained not in while_drained and still == while_drained and rebalanced["failed"] == []
    assert back["failed"] == [] and not api.get(f"/v1/brokers/{drained}/drain")["can_end"]
    eventually(lambda: are_even(api, 2 + kept), "all brokers lead about as many partitions")


def drain_of(api: Api, broker: int) -> Any:
    """Return the answer of a drain once the broker leads no partition that another could lead."""
    moved = api.post(f"/v1/brokers/{broker}/drain")
    leads = api.get(f"/v1/brokers/{broker}/drain")["leads"]
    return moved if moved["failed"] == [] and leads == len(moved["kept"]) else None


def are_even(api: Api, apart: int) -> bool:
    led = [one["leads"] for one in api.get("/v1/health")["brokers"]]
    return max(led) - min(led) <= apart


# ---- replicas ------------------------------------------------------------------------------------


def test_a_partition_moves_and_is_no_longer_listed(api: Api, rest_cluster: Cluster, topic: str) -> None:
    wanted = [{"topic": topic, "partition": 0, "replicas": [1, 2]}]

    began = api.post("/v1/reassignments", {"reassignments": wanted}, 202)
    eventually(lambda: api.get("/v1/reassignments")["reassignments"] == [], "no partition moves")
    eventually(
        lambda: "1,2 " in command_line.ottla(rest_cluster.bootstrap, "topic", "describe", topic),
        "the node that is asked knows the new replicas",
    )
    back = [{"topic": topic, "partition": 0, "replicas": [1, 2, 0]}]
    api.post("/v1/reassignments", {"reassignments": back}, 202)
    eventually(lambda: api.get("/v1/reassignments")["reassignments"] == [], "no partition moves")

    assert all(one["topic"] == topic for one in began["reassignments"])
    assert api.delete("/v1/reassignments", 200) == {"cancelled": {"count": 0, "partitions": []}}
    twice = api.post("/v1/reassignments", {"reassignments": wanted * 2}, 400)
    assert "named twice" in twice["message"]


def test_a_voter_may_not_leave(api: Api, topic: str) -> None:
    refused = api.post("/v1/brokers/1/decommission", {"dry_run": True}, 409)
    unknown = api.get("/v1/brokers/9/decommission", 404)
    progress = api.get("/v1/brokers/1/decommission")

    assert "is a voter of the metadata quorum" in refused["message"]
    assert "no broker 9" in unknown["message"]
    assert progress["stage"] == "holds replicas" and progress["held"]["count"] > 0


def test_throttles_are_set_shown_and_removed(api: Api, rest_cluster: Cluster, topic: str) -> None:
    given = {"leader_bytes_per_second": 5_000_000, "broker_ids": [0, 1], "topics": [topic]}

    throttles = api.put("/v1/throttles", given)
    eventually(lambda: len(api.get("/v1/throttles")["brokers"]) == 2, "both brokers have the throttle")
    eventually(
        lambda: (
            "leader.replication.throttled.replicas=*"
            in command_line.ottla(rest_cluster.bootstrap, "topic", "describe", topic)
        ),
        "the node that is asked knows the throttled replicas",
    )
    before = api.delete("/v1/throttles", 200)
    eventually(
        lambda: api.get("/v1/throttles") == {"brokers": [], "topics": [], "missing": []},
        "no throttle is left",
    )

    assert set(throttles) == {"brokers", "topics", "missing"}
    assert [one["leader_bytes_per_second"] for one in before["brokers"]] == [5_000_000] * 2
    assert before["brokers"][0]["follower_bytes_per_second"] is None
    assert [one["topic"] for one in before["topics"]] == [topic]
    assert "Give a rate" in api.put("/v1/throttles", {"broker_ids": [0]}, 400)["message"]
    assert "no broker 9" in api.put("/v1/throttles", {**given, "broker_ids": [9]}, 404)["message"]


# ---- transactions --------------------------------------------------------------------------------


def test_a_transaction_is_listed_described_and_aborted(api: Api, rest_cluster: Cluster, topic: str) -> None:
    name = name_of("txn/with a slash")
    producer = Producer({"bootstrap.servers": rest_cluster.bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=1)
    producer.flush(30)
    path = f"/v1/transactions/{name.replace('/', '%2F').replace(' ', '%20')}"

    listed = api.get("/v1/transactions?state=Ongoing")["transactions"]
    assert "state must be one of Empty, Ongoing" in api.get("/v1/transactions?state=ongoing", 400)["message"]
    described = api.get(path)
    producers = api.get(f"/v1/producers/{topic}/1")["producers"]
    hanging = api.get(f"/v1/transactions/hanging?topic={topic}&longer_than_ms=0")["hanging"]
    aborted = api.post("/v1/transactions/abort", {"transactional_id": name})
    eventually(lambda: api.get(path)["state"] != "Ongoing", "the coordinator has aborted the transaction")
    again = api.post("/v1/transactions/abort", {"transactional_id": name}, 409)

    [row] = [one for one in listed if one["id"] == name]
    assert row["open_for_ms"] >= 0 and row["timeout_ms"] == described["timeout_ms"] == 60_000
    assert (row["two_phase"], described["two_phase"]) == (False, False)
    assert described["state"] == "Ongoing" and described["open_for_ms"] >= 0
    [partition] = described["partitions"]
    assert (partition["topic"], partition["partition"], partition["deleted"]) == (topic, 1, False)
    assert partition["open_from"] in [one["open_from"] for one in producers]
    assert hanging == [], "the coordinator knows the transaction"
    assert aborted["aborted"] and "no open transaction" in again["message"]
    nowhere = {"topic": topic, "partition": 1, "start_offset": 0}
    assert (
        "no open transaction that starts at offset"
        in api.post("/v1/transactions/abort", nowhere, 409)["message"]
    )


# ---- groups --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "offset"),
    [
        ({"to": "earliest"}, 0),
        ({"to": "latest"}, 10),
        ({"to": "current"}, 4),
        ({"to": "offset", "value": 7}, 7),
        ({"to": "shift", "value": -3}, 1),
        ({"to": "datetime", "value": "2001-01-01T00:00:00Z"}, 0),
        ({"to": "datetime", "value": 0}, 0),
        ({"to": "duration", "value": "PT1H"}, 0),
    ],
)
def test_a_group_is_reset(
    api: Api, rest_cluster: Cluster, topic: str, wanted: dict[str, object], offset: int
) -> None:
    group = group_at(rest_cluster, topic, 4)

    planned = api.post(f"/v1/groups/{group}/reset", {**wanted, "dry_run": True})
    [change] = api.post(f"/v1/groups/{group}/reset", wanted)["changes"]
    [now] = api.post(f"/v1/groups/{group}/reset", {"to": "current", "dry_run": True})["changes"]
    api.delete(f"/v1/groups/{group}")

    assert planned == {"dry_run": True, "changes": [change]}
    assert (change["group"], change["topic"], change["partition"]) == (group, topic, 0)
    assert (change["offset"], change["new_offset"], change["warning"]) == (4, offset, None)
    assert now["offset"] == offset


def test_an_invalid_reset_is_rejected(api: Api, rest_cluster: Cluster, topic: str) -> None:
    group = group_at(rest_cluster, topic, 4)
    path = f"/v1/groups/{group}/reset"

    for body, words in (
        ({"to": "earliest", "value": 1}, "takes no value"),
        ({"to": "offset"}, "needs a value"),
        ({"to": "shift", "value": "3"}, "must be an integer"),
        ({"to": "datetime", "value": "yesterday"}, "is not a date"),
        ({"to": "duration", "value": "1h"}, "is not a duration"),
        ({"to": "somewhere"}, "must be one of"),
        ({"to": "earliest", "extra": 1}, "extra is unknown"),
    ):
        assert words in api.post(path, body, 400)["message"]
    nothing = api.post(f"/v1/groups/{name_of('new')}/reset", {"to": "earliest"}, 409)
    clamped = api.post(path, {"to": "offset", "value": 99, "topics": [{"topic": topic}]})
    api.delete(f"/v1/groups/{group}")

    assert "has no committed offsets" in nothing["message"]
    assert [one["new_offset"] for one in clamped["changes"]] == [10] * 3
    assert all("after the log end" in one["warning"] for one in clamped["changes"])


def test_a_group_with_members_is_not_reset_and_lists_its_rebalances(
    api: Api, rest_cluster: Cluster, topic: str
) -> None:
    group = name_of("busy")
    consumer = Consumer({"bootstrap.servers": rest_cluster.bootstrap, "group.id": group})
    consumer.subscribe([topic])
    deadline = time.monotonic() + TIMEOUT_S
    while not consumer.assignment() and time.monotonic() < deadline:
        consumer.poll(0.1)

    timeline = api.get(f"/v1/groups/{group}/timeline")
    refused = api.post(f"/v1/groups/{group}/reset", {"to": "earliest"}, 409)
    consumer.close()
    eventually(lambda: api.ask("DELETE", f"/v1/groups/{group}").status == 204, "the group has no members")

    assert timeline["group_id"] == group
    assert timeline["rebalances"][-1]["events"], timeline
    assert "stop its members first" in refused["message"]
