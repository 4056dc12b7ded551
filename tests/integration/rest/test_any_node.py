"""A request may go to any node that is up, whichever one is down."""

from collections.abc import Iterator

import pytest

from ottla.node.embedded import Cluster
from tests.integration.rest.conftest import Api, eventually, name_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    """Start a separate cluster, since a node of it is killed."""
    with Cluster(nodes=3, rest=True) as cluster:
        yield cluster


def test_the_other_nodes_serve_requests_when_the_controller_dies(three: Cluster) -> None:
    dead = three.controller_id
    by_node = dict(zip(three.node_ids, three.rest_urls, strict=True))
    living = [Api(url, three.cluster_id) for node_id, url in by_node.items() if node_id != dead]
    for api in living:
        assert api.get(f"{api.v3}/brokers")["data"], "the node has connected to the others"

    three.kill(dead)
    for api in living:
        name = name_of("topic")
        body = {"topic_name": name, "partitions_count": 2, "replication_factor": 2}
        made = api.post(f"{api.v3}/topics", body, 201)
        assert made["topic_name"] == name

    for api in living:
        eventually(lambda api=api: len(api.get(f"{api.v3}/brokers")["data"]) == 2, "the dead node is fenced")
        assert api.get(f"{api.v3}/brokers/{dead}", 404)["error_code"] == 404
        assert api.get(f"{api.v3}/brokers/{dead}/configs", 404)["error_code"] == 404
        controller = api.get(api.v3)["controller"]["related"]
        assert int(controller.rpartition("/")[2]) != dead
    three.restart(dead)
    back = Api(three.rest_urls[dead], three.cluster_id)
    eventually(
        lambda: {one["broker_id"] for one in back.get(f"{back.v3}/brokers")["data"]} == {0, 1, 2},
        "the restarted node lists all brokers",
    )
