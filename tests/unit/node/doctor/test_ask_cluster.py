"""What the doctor believes of what it is told over REST."""

from collections.abc import Mapping
from typing import Any

import pytest

from ottla.node.doctor.ask_cluster import is_of
from ottla.node.doctor.endpoint_facts import AdvertisedFacts, EndpointFacts


@pytest.mark.parametrize(
    ("cluster_id", "body", "expected"),
    [
        ("one", {"cluster_id": "one", "node_id": 3}, True),
        (None, {"cluster_id": "one", "node_id": 3}, True),
        ("one", {"cluster_id": "another", "node_id": 3}, False),
        ("one", {"cluster_id": "one", "node_id": 4}, False),
        ("one", {}, False),
    ],
)
def test_another_nodes_rest_api_says_nothing_of_this_one(
    cluster_id: str | None, body: Mapping[str, Any], expected: bool
) -> None:
    """It may have the port that this node wanted for its own, and did not get."""
    node = AdvertisedFacts(3, EndpointFacts("localhost", 9092, cluster_id=cluster_id), True)
    assert is_of(node, body) is expected
