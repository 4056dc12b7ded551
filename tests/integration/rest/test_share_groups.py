"""Share groups in Confluent's REST API, and the operations of /v1 on them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.node.embedded import Cluster
from tests.integration.rest.conftest import TIMEOUT_S, Api, eventually, name_of

pytestmark = pytest.mark.slow
RECORDS = 7


class Worker(NamedTuple):
    """The only member of a share group, which has accepted all records of partition 0."""

    group_id: str
    topic: str


@pytest.fixture(scope="module")
def topic(rest_cluster: Cluster) -> str:
    name = name_of("shared")
    admin = AdminClient({"bootstrap.servers": rest_cluster.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, 2, 3)])[name].result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": rest_cluster.bootstrap, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(name, str(number), partition=0)
    producer.flush(TIMEOUT_S)
    return name


@contextmanager
def working(bootstrap: str, group_id: str, topic: str) -> Iterator[None]:
    """Run a member that accepts its records, for the time of a block."""
    stop = threading.Event()

    def work() -> None:
        consumer = ShareConsumer(
            {"bootstrap.servers": bootstrap, "group.id": group_id, "client.id": "worker", "log_level": 0}
        )
        consumer.subscribe([topic])
        while not stop.is_set():
            try:
                consumer.poll(0.2)  # the next poll accepts these records
            except KafkaException as error:
                if error.args[0].code() != KafkaError.COORDINATOR_NOT_AVAILABLE:
                    raise
        consumer.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(TIMEOUT_S)


def read_from_earliest(api: Api, group_id: str) -> None:
    configs = f"{api.v3}/groups/{quote(group_id, safe='-')}/configs"
    api.put(f"{configs}/share.auto.offset.reset", {"value": "earliest"}, 204)


def place_of(api: Api, group_id: str) -> dict[str, Any]:
    """Return the lag of the group in partition 0; its values are None if it is not listed."""
    lags = api.get(f"/v1/groups/{quote(group_id, safe='-')}")["lags"]
    return next((one for one in lags if one["partition"] == 0), {"lag": None, "committed": None})


@pytest.fixture(scope="module")
def worker(rest_cluster: Cluster, api: Api, topic: str) -> Iterator[Worker]:
    group_id = name_of("workers/ü")
    read_from_earliest(api, group_id)
    with working(rest_cluster.bootstrap, group_id, topic):
        eventually(lambda: place_of(api, group_id)["lag"] == 0, "all records are accepted")
        yield Worker(group_id, topic)


def path_of(api: Api, worker: Worker) -> str:
    return f"{api.v3}/share-groups/{quote(worker.group_id, safe='-')}"


def test_a_share_group_is_returned_with_its_links(apis: list[Api], worker: Worker) -> None:
    for api in apis:
        here = path_of(api, worker)
        name = f"crn:///kafka={api.cluster_id}/share-group={here.rpartition('/')[2]}"
        group = api.get(here)

        coordinator = group.pop("coordinator")["related"]
        assert coordinator in [f"{api.url}{api.v3}/brokers/{number}" for number in range(3)]
        place = f"{api.url}{api.v3}/topics/{worker.topic}/partitions"
        assert group.pop("assigned_topic_partitions") == [
            {
                "kind": "KafkaShareGroupTopicPartition",
                "metadata": {
                    "self": f"{place}/{number}",
                    "resource_name": f"{name}/topic={worker.topic}/partition={number}",
                },
                "topic_name": worker.topic,
                "partition_id": number,
                "partition": {"related": f"{place}/{number}"},
            }
            for number in range(2)
        ]
        assert group == {
            "kind": "KafkaShareGroup",
            "metadata": {"self": f"{api.url}{here}", "resource_name": name},
            "cluster_id": api.cluster_id,
            "share_group_id": worker.group_id,
            "state": "STABLE",
            "consumers": {"related": f"{api.url}{here}/consumers"},
            "consumer_count": 1,
            "partition_count": 2,
        }
        listed = api.get(f"{api.v3}/share-groups")
        assert listed["kind"] == "KafkaShareGroupList"
        [mine] = [one for one in listed["data"] if one["share_group_id"] == worker.group_id]
        assert mine == {**group, "coordinator": {"related": coordinator}}
        others = api.get(f"{api.v3}/consumer-groups")["data"]
        assert worker.group_id not in [one["consumer_group_id"] for one in others]


def test_its_consumers_and_their_assignments_are_listed(api: Api, worker: Worker) -> None:
    here = path_of(api, worker)

    [member] = api.get(f"{here}/consumers")["data"]

    member_id = quote(member["consumer_id"], safe="-._~")
    name = f"crn:///kafka={api.cluster_id}/share-group={here.rpartition('/')[2]}/consumer={member_id}"
    assert member == {
        "kind": "KafkaShareGroupConsumer",
        "metadata": {"self": f"{api.url}{here}/consumers/{member_id}", "resource_name": name},
        "cluster_id": api.cluster_id,
        "group_id": worker.group_id,
        "consumer_id": member["consumer_id"],
        "client_id": "worker",
        "assignments": {"related": f"{api.url}{here}/consumers/{member_id}/assignments"},
    }
    assert api.get(member["metadata"]["self"]) == member
    assigned = api.get(member["assignments"]["related"])
    assert assigned["kind"] == "KafkaShareGroupConsumerAssignmentList"
    assert [(one["topic_name"], one["partition_id"]) for one in assigned["data"]] == [
        (worker.topic, 0),
        (worker.topic, 1),
    ]
    first = assigned["data"][0]
    assert first["kind"] == "KafkaShareGroupConsumerAssignment"
    assert first["partition"] == {"related": f"{api.url}{api.v3}/topics/{worker.topic}/partitions/0"}
    assert (first["group_id"], first["consumer_id"]) == (worker.group_id, member["consumer_id"])


def test_groups_of_other_types_are_no_share_groups(api: Api, topic: str) -> None:
    group = name_of("classic")
    api.post(f"/v1/groups/{group}/reset", {"to": "earliest", "topics": [{"topic": topic}]})

    for path in ("", "/consumers", "/consumers/a", "/consumers/a/assignments"):
        reply = api.get(f"{api.v3}/share-groups/{group}{path}", 404)
        assert reply["message"].endswith("it is a group of another type.")
        api.get(f"{api.v3}/share-groups/{name_of('none')}{path}", 404)
    api.delete(f"{api.v3}/share-groups/{group}", 404)

    assert api.get(f"/v1/groups/{group}")["type"] == "classic"


def test_the_list_of_groups_has_type_members_and_lag(api: Api, worker: Worker) -> None:
    shares = api.get(f"/v1/groups?type=share&search={quote(worker.group_id)}")["groups"]
    classics = api.get("/v1/groups?type=classic")["groups"]

    [mine] = [one for one in shares if one["group_id"] == worker.group_id]
    assert {one["type"] for one in shares} == {"share"}
    assert (mine["state"], mine["members"], mine["lag"]) == ("Stable", 1, 0)
    assert worker.group_id not in [one["group_id"] for one in classics]
    assert api.ask("GET", "/v1/groups?type=streams").status == 400


def test_a_partition_is_returned_with_all_members_that_read_it(
    rest_cluster: Cluster, api: Api, worker: Worker
) -> None:
    path = f"/v1/groups/{quote(worker.group_id, safe='-')}"

    def look() -> Any:
        view = api.get(path)
        return view if sum(bool(one["partitions"]) for one in view["members"]) == 3 else None

    with (
        working(rest_cluster.bootstrap, worker.group_id, worker.topic),
        working(rest_cluster.bootstrap, worker.group_id, worker.topic),
    ):
        found = eventually(look, "three members have partitions")

    readers = {one["partition"]: one["member_ids"] for one in found["lags"]}
    assert {one for each in readers.values() for one in each} == {
        one["member_id"] for one in found["members"]
    }
    assert max(map(len, readers.values())) > 1  # from two partitions
    for one in found["lags"]:
        assert one["member_id"] == (one["member_ids"][0] if len(one["member_ids"]) == 1 else None)
    assert (found["lags"][0]["lag"], found["lags"][0]["log_end_offset"]) == (0, RECORDS)


def test_an_active_group_is_not_changed(api: Api, worker: Worker) -> None:
    group = quote(worker.group_id, safe="-")
    answers = [
        api.ask("POST", f"/v1/groups/{group}/reset", {"to": "earliest"}),
        api.ask("DELETE", f"/v1/groups/{group}/topics/{worker.topic}"),
        api.ask("DELETE", f"/v1/groups/{group}"),
        api.ask("DELETE", path_of(api, worker)),
    ]

    assert [one.status for one in answers] == [409] * 4
    assert api.get(f"/v1/groups/{group}")["state"] == "Stable"


def test_a_group_without_members_is_reset_forgets_a_topic_and_is_deleted(
    rest_cluster: Cluster, api: Api, topic: str
) -> None:
    group_id = name_of("done")
    read_from_earliest(api, group_id)

    with working(rest_cluster.bootstrap, group_id, topic):
        eventually(lambda: place_of(api, group_id)["lag"] == 0, "all records are accepted")
    eventually(lambda: api.get(f"/v1/groups/{group_id}")["state"] == "Empty", "the member has left")

    reply = api.post(
        f"/v1/groups/{group_id}/reset", {"to": "offset", "value": 3, "topics": [{"topic": topic}]}
    )
    assert [(one["partition"], one["new_offset"]) for one in reply["changes"]] == [(0, 3), (1, 0)]
    after = place_of(api, group_id)
    assert (after["committed"], after["log_end_offset"], after["lag"]) == (3, RECORDS, RECORDS - 3)
    assert api.get(f"/v1/groups?search={group_id}")["groups"]
    api.delete(f"/v1/groups/{group_id}/topics/{topic}")
    eventually(lambda: api.get(f"/v1/groups/{group_id}")["lags"] == [], "the group has no state of the topic")
    api.delete(f"{api.v3}/share-groups/{group_id}")
    assert api.ask("GET", f"/v1/groups/{group_id}").status == 404


def test_a_consumer_group_forgets_a_topic(api: Api, topic: str) -> None:
    group = name_of("classic")
    api.post(f"/v1/groups/{group}/reset", {"to": "earliest", "topics": [{"topic": topic}]})
    api.delete(f"/v1/groups/{group}/topics/other", 404)

    api.delete(f"/v1/groups/{group}/topics/{topic}")

    assert api.ask("GET", f"/v1/groups/{group}").status == 404 or not api.get(f"/v1/groups/{group}")["lags"]


def test_the_settings_of_a_group_are_listed_and_changed(api: Api) -> None:
    group = name_of("set/ü")
    here = f"{api.v3}/groups/{quote(group, safe='-')}/configs"

    before = api.get(f"{here}/share.record.lock.duration.ms")
    api.put(f"{here}/share.record.lock.duration.ms", {"value": 20_000}, 204)
    after = eventually(
        lambda: (one := api.get(f"{here}/share.record.lock.duration.ms"))["value"] == "20000" and one
    )
    api.post(f"{here}:alter", {"data": [{"name": "share.auto.offset.reset", "value": "earliest"}]}, 204)
    api.delete(f"{here}/share.record.lock.duration.ms")

    assert before["source"] == "DEFAULT_CONFIG" and before["kind"] == "KafkaGroupConfig"
    assert (before["group_id"], before["name"]) == (group, "share.record.lock.duration.ms")
    assert after["source"] == "DYNAMIC_GROUP_CONFIG"
    assert after["metadata"]["self"] == f"{api.url}{here}/share.record.lock.duration.ms"

    def values() -> tuple[str, str]:
        listed = {one["name"]: one["value"] for one in api.get(here)["data"]}
        return listed["share.auto.offset.reset"], listed["share.record.lock.duration.ms"]

    eventually(lambda: values() == ("earliest", before["value"]), "the node knows both changes")
    api.put(f"{here}/share.record.lock.duration.ms", {"value": "short"}, 400)
    api.put(f"{here}/no.such.setting", {"value": "1"}, 404)
