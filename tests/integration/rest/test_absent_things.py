"""A path to a resource that does not exist is answered with 404 by every route, whatever the method."""

import re
from typing import Any

import pytest

from ottla.node.embedded import Cluster
from ottla.node.rest_api import group_configs
from ottla.node.rest_api.all_routes import ALL_ROUTES
from ottla.node.rest_api.route import Route
from tests.integration.rest.conftest import Api
from tests.integration.rest.test_produce_records import create

pytestmark = pytest.mark.slow

# The settings of a future topic or group can be read, or set, before it exists.
SERVED_BEFORE_CREATION = {
    "listKafkaDefaultTopicConfigs",
    "resetGroup",
    *(one.operation_id for one in group_configs.ROUTES),
}
V2 = {"Content-Type": "application/vnd.kafka.json.v2+json"}
BODIES = {
    "updatePartitionCountKafkaTopic": {"partitions_count": 9},
    "produceRecord": {"value": None},
    "produceRecordsV2": {"records": [{"value": 1}]},
    "produceRecordsToPartitionV2": {"records": [{"value": 1}]},
    "produceRecordsBatch": {"entries": [{"id": "a"}]},
    "trimTopic": {"to_end": True},
    "deliverAgain": {"topic": "t", "letters": [{"partition": 0, "offset": 0}]},
}


def body_of(route: Route) -> Any:
    if route.operation_id in BODIES:
        return BODIES[route.operation_id]
    if route.path.endswith(":alter"):
        return {"data": [{"name": "a", "value": "1"}]}
    return {"value": "1"} if route.method == "PUT" else None


def routes_of(name: str) -> list[Route]:
    found = [one for one in ALL_ROUTES if f"{{{name}}}" in one.path]
    assert found, f"no path has a {name}"
    return [one for one in found if one.operation_id not in SERVED_BEFORE_CREATION]


# Paths of Confluent's Server and its cloud, which its REST Proxy does not have.
NOT_OF_THE_PROXY = """
GET /links; POST /links; GET /links/-/configs; GET /links/a; GET /links/a/mirrors; GET /topics/-/mirrors
POST /links/a/mirrors; GET /balancer; GET /any-uneven-load; POST /brokers:delete; GET /remove-broker-tasks
GET /broker-tasks; GET /replica-status; GET /topics/t/partitions/0/replica-status; GET /streams-groups
GET /clients; GET /tenants; GET /client-quotas
"""


def test_routes_of_confluents_server_are_absent_as_in_its_proxy(api: Api) -> None:
    lines = [one.strip() for one in NOT_OF_THE_PROXY.replace("\n", ";").split(";") if one.strip()]

    replies = {}
    for line in lines:
        method, path = line.split()
        reply = api.ask(method, api.v3 + path, {} if method == "POST" else None)
        replies[line] = reply.status, reply.json

    absent = {"error_code": 404, "message": "HTTP 404 Not Found"}
    assert {line: one for line, one in replies.items() if one != (404, absent)} == {}


@pytest.mark.parametrize(
    "name", ["broker_id", "topic_name", "partition_id", "consumer_group_id", "group_id", "transactional_id"]
)
def test_missing_resources_are_404(rest_cluster: Cluster, api: Api, name: str) -> None:
    there = {"cluster_id": api.cluster_id, "topic_name": create(rest_cluster), "broker_id": "0"}
    given = {"partition_id": "0", **there, name: "99" if name in ("broker_id", "partition_id") else "absent"}
    replies: dict[str, tuple[int, int]] = {}
    for route in routes_of(name):
        path = re.sub(r"{(\w+)}", lambda match: given.get(match[1], "absent"), route.path)
        is_v2 = route.operation_id.startswith("produceRecords") and route.operation_id.endswith("V2")
        reply = api.ask(route.method, path, body_of(route), headers=V2 if is_v2 else None)
        replies[f"{route.method} {route.path}"] = reply.status, reply.json["error_code"]

    assert {line for line, (status, _) in replies.items() if status != 404} == set()
    assert {code for _, code in replies.values()} <= {404, 40401, 40402, 40403}
