"""Brokers, their settings and replicas; dynamic defaults of all brokers; ACLs without an authorizer."""

import pytest

from tests.integration.rest.conftest import Api, eventually, name_of

pytestmark = pytest.mark.slow
DYNAMIC = "log.cleaner.threads"


def test_brokers_are_listed_with_their_addresses(api: Api) -> None:
    listed = api.get(f"{api.v3}/brokers")
    one = api.get(f"{api.v3}/brokers/1")

    here = f"{api.url}{api.v3}/brokers/1"
    assert [broker["broker_id"] for broker in listed["data"]] == [0, 1, 2] and one in listed["data"]
    assert one == {
        "kind": "KafkaBroker",
        "metadata": {"self": here, "resource_name": f"crn:///kafka={api.cluster_id}/broker=1"},
        "cluster_id": api.cluster_id,
        "broker_id": 1,
        "host": "127.0.0.1",
        "port": one["port"],
        "rack": None,
        "configs": {"related": f"{here}/configs"},
        "partition_replicas": {"related": f"{here}/partition-replicas"},
    }


@pytest.mark.parametrize(
    "path", ["9", "9/configs", "9/configs/num.partitions", "9/partition-replicas", "one", "-1"]
)
def test_a_missing_broker_is_404(api: Api, path: str) -> None:
    assert api.get(f"{api.v3}/brokers/{path}", 404)["error_code"] == 404


def test_the_replicas_of_a_broker_are_listed(api: Api) -> None:
    name = name_of("topic")
    api.post(
        f"{api.v3}/topics", {"topic_name": name, "replicas_assignments": {"0": [2, 1], "1": [0, 1]}}, 201
    )

    def of(broker_id: int) -> list[int]:
        listed = api.get(f"{api.v3}/brokers/{broker_id}/partition-replicas")
        assert listed["kind"] == "KafkaReplicaList"
        return [one["partition_id"] for one in listed["data"] if one["topic_name"] == name]

    eventually(lambda: (of(0), of(1), of(2)) == ([1], [0, 1], [0]), "the node knows the replicas")


def test_the_settings_of_a_broker_are_listed(api: Api) -> None:
    listed = api.get(f"{api.v3}/brokers/2/configs?include_documentation=true")
    one = api.get(f"{api.v3}/brokers/2/configs/node.id")
    every = api.get(f"{api.v3}/brokers/-/configs")["data"]

    named = {config["name"]: config for config in listed["data"]}
    assert one["value"] == "2" and one["source"] == "STATIC_BROKER_CONFIG" and one["is_read_only"]
    assert one["kind"] == "KafkaBrokerConfig" and one["broker_id"] == 2
    assert named["cluster.secret"]["is_sensitive"] and named["cluster.secret"]["value"] is None
    assert named["num.partitions"]["documentation"]
    assert {config["broker_id"] for config in every} == {0, 1, 2}


def test_a_setting_of_one_broker_is_changed_while_it_runs(api: Api) -> None:
    place = f"{api.v3}/brokers/1/configs"

    api.put(f"{place}/{DYNAMIC}", {"value": "2"}, 204)
    changed = eventually(
        lambda: (found := api.get(f"{place}/{DYNAMIC}"))["value"] == "2" and found, "the setting is 2"
    )
    other = api.get(f"{api.v3}/brokers/0/configs/{DYNAMIC}")
    api.post(f"{place}:alter", {"data": [{"name": DYNAMIC, "operation": "DELETE"}]}, 204)

    assert changed["source"] == "DYNAMIC_BROKER_CONFIG" and other["value"] == "1"
    eventually(lambda: api.get(f"{place}/{DYNAMIC}")["value"] == "1", "the setting is 1 again")


def test_a_setting_of_all_brokers_is_set_listed_and_reset(api: Api) -> None:
    place = f"{api.v3}/broker-configs"
    name = "log.cleaner.backoff.ms"

    before = api.get(place)
    api.put(f"{place}/{name}", {"value": "14000"}, 204)
    one = api.get(f"{place}/{name}")
    api.post(f"{place}:alter", {"data": [{"name": name, "value": "13000"}]}, 204)
    altered = api.get(f"{place}/{name}")["value"]
    api.delete(f"{place}/{name}")

    # A new cluster has this setting, for eligible leader replicas.
    assert before["kind"] == "KafkaClusterConfigList"
    assert [each["name"] for each in before["data"]] == ["min.insync.replicas"]
    assert (one["value"], one["config_type"], one["kind"]) == ("14000", "BROKER", "KafkaClusterConfig")
    assert one["metadata"]["resource_name"] == f"crn:///kafka={api.cluster_id}/broker-config={name}"
    assert one["source"] == "DYNAMIC_DEFAULT_BROKER_CONFIG" and altered == "13000"
    assert api.get(f"{place}/{name}", 404)["error_code"] == 404
    assert api.delete(f"{place}/{name}", 404)["error_code"] == 404


def test_a_setting_that_cannot_be_changed_is_rejected(api: Api) -> None:
    read_only = api.put(f"{api.v3}/brokers/1/configs/log.dirs", {"value": "/tmp/x"}, 400)
    nothing = api.put(f"{api.v3}/brokers/1/configs/{DYNAMIC}", None, 422)
    unknown = api.put(f"{api.v3}/brokers/1/configs/no.such", {"value": "1"}, 404)
    wrong = api.post(f"{api.v3}/broker-configs:alter", {"data": [{"name": DYNAMIC, "value": "x"}]}, 400)
    no_value = api.put(f"{api.v3}/brokers/1/configs/{DYNAMIC}", {}, 400)

    assert read_only["error_code"] == 40002 and nothing["error_code"] == 422
    assert unknown["message"].startswith("Config no.such cannot be found for BROKER 1 in cluster ")
    assert wrong["error_code"] == 40002 and no_value["error_code"] == 40002


def test_acls_are_answered_as_by_a_cluster_without_an_authorizer(api: Api) -> None:
    acl = {
        "resource_type": "TOPIC",
        "resource_name": "t",
        "pattern_type": "LITERAL",
        "principal": "User:a",
        "host": "*",
        "operation": "READ",
        "permission": "ALLOW",
    }
    problem = {"error_code": 40002, "message": "No Authorizer is configured."}

    assert api.get(f"{api.v3}/acls", 400) == problem
    assert api.get(f"{api.v3}/acls?resource_type=topic&operation=ANY", 400) == problem
    assert api.get(f"{api.v3}/acls?resource_type=USER&operation=TWO_PHASE_COMMIT", 400) == problem
    assert api.post(f"{api.v3}/acls", acl, 400) == problem
    assert api.post(f"{api.v3}/acls:batch", {"data": [acl]}, 400) == problem
    assert api.delete(f"{api.v3}/acls?resource_type=TOPIC", 400) == problem
    assert api.get(f"{api.v3}/acls?operation=unknown", 400)["error_code"] == 400
    assert api.post(f"{api.v3}/acls", {**acl, "operation": "FLY"}, 400)["error_code"] == 400
