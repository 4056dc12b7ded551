"""A cluster of three nodes with an authorizer: through any node, each broker authorizes the caller."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from ottla.node.embedded import Cluster
from tests.integration.rest.conftest import Api, eventually
from tests.integration.rest.test_rest_logins import STANDARD, basic

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    overrides = {
        "authorizer.class.name": STANDARD,
        "super.users": "User:admin",
        "ottla.add.scram": "SCRAM-SHA-512=[name=admin,password=a],SCRAM-SHA-512=[name=ann,password=b]",
        "ottla.rest.authentication": "basic",
        "num.partitions": "6",
    }
    with Cluster(3, rest=True, overrides=overrides) as found:
        yield found


def apis(cluster: Cluster, user: str, password: str) -> list[Api]:
    return [Api(url, cluster.cluster_id, headers=basic(user, password)) for url in cluster.rest_urls]


def test_every_node_sends_requests_to_every_other_as_its_caller(cluster: Cluster) -> None:
    admins, anns = apis(cluster, "admin", "a"), apis(cluster, "ann", "b")
    v3 = admins[0].v3
    seen, unseen = (f"{one}-{uuid4().hex[:8]}" for one in ("seen", "unseen"))
    for topic in (seen, unseen):
        admins[0].post(f"{v3}/topics", {"topic_name": topic}, 201)
    acl = {
        "resource_type": "TOPIC",
        "resource_name": seen,
        "pattern_type": "LITERAL",
        "principal": "User:ann",
        "host": "*",
        "operation": "ALL",
        "permission": "ALLOW",
    }
    admins[1].post(f"{v3}/acls", acl, 201)
    record: dict[str, Any] = {"value": {"type": "STRING", "data": "x"}}

    def topics(api: Api) -> list[str]:
        return [one["topic_name"] for one in api.get(f"{v3}/topics")["data"]]

    for ann in anns:
        eventually(lambda ann=ann: topics(ann) == [seen], "all nodes have the ACL")
    for number in range(6):  # each leader, from each node
        for ann in anns:
            sent = ann.post(f"{v3}/topics/{seen}/records", {**record, "partition_id": number})
            assert sent["error_code"] == 200, sent
            refused = ann.ask("POST", f"{v3}/topics/{unseen}/records", {**record, "partition_id": number})
            assert refused.status in (403, 404), refused.content
            read = ann.get(f"{v3}/topics/{seen}/partitions/{number}/records?offset=earliest")
            assert read["data"]
            hidden = ann.ask("GET", f"{v3}/topics/{unseen}/partitions/{number}/records")
            assert hidden.status in (403, 404), hidden.content
    for ann in anns:
        assert ann.ask("GET", "/v1/users").status == 403
        assert ann.ask("PUT", "/v1/users/ann", {"password": "c"}).status == 403
        assert ann.ask("POST", "/v1/leaders/rebalance").status == 403
    assert admins[2].ask("POST", "/v1/leaders/rebalance").status == 200
    assert admins[2].get("/v1/health")["brokers"]
