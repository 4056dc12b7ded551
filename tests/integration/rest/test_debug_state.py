"""/debug/state shows the state machines: replicas, groups, transactions, the node."""

from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from ottla.node.embedded import Cluster
from tests.compat.share_states import write_share_state
from tests.integration.rest.conftest import TIMEOUT_S, Api, eventually, name_of
from tests.integration.rest.test_produce_records import create

pytestmark = pytest.mark.slow


def test_a_replica_shows_its_offsets_and_its_followers(rest_cluster: Cluster, apis: list[Api]) -> None:
    topic = create(rest_cluster)
    leader = rest_cluster.leader_of(topic, 0)

    def replicas() -> list[Any]:
        return [api.get(f"/debug/state?part=partitions&name={topic}-0") for api in apis]

    found = eventually(
        lambda: (found := replicas()) and all(one["machines"] for one in found) and found,
        "each node has a replica",
    )

    assert [one["node_id"] for one in found] == [0, 1, 2] and all(one["next"] is None for one in found)
    states = [machine["state"] for one in found for machine in one["machines"]]
    assert [one["is_leader"] for one in states] == [number == leader for number in range(3)]
    assert set(states[leader]["isr"]["followers"]) == {str(number) for number in range(3)} - {str(leader)}
    assert states[leader]["high_watermark"] == states[leader]["log_end_offset"] == 0


def test_a_group_shows_its_members_and_a_transaction_its_state(
    rest_cluster: Cluster, apis: list[Api]
) -> None:
    topic, name = create(rest_cluster), name_of("watched")
    settings = {"bootstrap.servers": rest_cluster.bootstrap}
    consumer = Consumer({**settings, "group.id": name, "client.id": "seen"})
    producer = Producer({**settings, "transactional.id": name})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"x")
    producer.flush(TIMEOUT_S)
    consumer.subscribe([topic])

    def machine(part: str) -> dict[str, Any]:
        consumer.poll(0.05)
        found = [
            one["state"]
            for api in apis
            for one in api.get(f"/debug/state?part={part}&name={name}")["machines"]
        ]
        assert len(found) <= 1
        return found[0] if found else {}

    try:
        group = eventually(
            lambda: (one := machine("groups")).get("state") == "Stable" and one, "the group is stable"
        )
        transaction = machine("transactions")
    finally:
        producer.abort_transaction(TIMEOUT_S)
        consumer.close()

    assert [one["client_id"] for one in group["members"].values()] == ["seen"]
    known = transaction["transaction"]
    assert (known["transactional_id"], known["state"]) == (name, "Ongoing")


def test_only_the_controller_shows_which_brokers_it_has_heard_from(apis: list[Api]) -> None:
    """Sessions of brokers are soft state, which no log and no image has."""

    def controllers() -> list[dict[str, Any]]:
        found = [api.get("/debug/state")["machines"][0]["state"]["controller"] for api in apis]
        return [one for one in found if one is not None]

    [controller] = eventually(
        lambda: len(found := controllers()) == 1 and len(found[0]["broker_sessions"]) == 3 and found,
        "there is one controller",
    )

    for session in controller["broker_sessions"].values():
        assert session["broker_epoch"] >= 0
        assert session["last_contact_ms"] <= controller["now_ms"]
    assert controller["uncommitted_decisions"] >= 0


def test_the_node_shows_its_own_state_and_long_lists_have_pages(rest_cluster: Cluster, api: Api) -> None:
    create(rest_cluster, partitions=3)
    [node] = api.get("/debug/state")["machines"]
    names: list[str] = []
    begin: int | None = 0
    while begin is not None:
        page = api.get(f"/debug/state?part=partitions&limit=2&begin={begin}")
        names += [one["name"] for one in page["machines"]]
        begin = page["next"]

    assert node["state"]["is_serving"] and node["state"]["lifecycle"] == "running"
    assert node["state"]["quorum"]["leader_id"] in (0, 1, 2)
    assert len(names) == len(set(names)) >= 3
    assert api.get("/debug/state?part=groups&name=absent")["machines"] == []
    assert api.get("/debug/state?limit=1000", 400)


def test_the_coordinator_of_a_share_partition_shows_its_state(rest_cluster: Cluster, apis: list[Api]) -> None:
    key = write_share_state(rest_cluster.bootstrap, create(rest_cluster), 0)

    pages = [api.get(f"/debug/state?part=share-partitions&name={key}")["machines"] for api in apis]

    [machine] = [one for page in pages for one in page]
    assert machine["name"] == key
    assert (machine["state"]["state"]["start_offset"], machine["state"]["updates"]) == (3, 1)
