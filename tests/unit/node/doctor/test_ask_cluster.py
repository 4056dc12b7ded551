"""What the doctor believes of what it is told over REST."""

from collections.abc import Mapping
from typing import Any

import pytest

from ottla.node.doctor.ask_cluster import Asking, is_of, rest_access
from ottla.node.doctor.endpoint_facts import AdvertisedFacts, EndpointFacts
from ottla.node.secure_client.client_security import ClientSecurity, SaslLogin


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


@pytest.mark.parametrize(
    ("is_secure", "host", "node_host", "is_told"),
    [
        (True, "kafka-1", "kafka-1", True),
        (False, "127.0.0.1", "localhost", True),
        (False, "kafka-1", "kafka-1", False),
        # Here, anybody may listen at the loopback address that a node elsewhere has for itself.
        (False, "127.0.0.1", "kafka-1", False),
    ],
)
def test_a_password_is_sent_where_the_node_alone_hears_it(
    is_secure: bool, host: str, node_host: str, is_told: bool
) -> None:
    login = SaslLogin(mechanism="PLAIN", user="anna", password="secret")
    asking = Asking(1.0, ClientSecurity(login=login), None)

    assert bool(rest_access(is_secure, host, asking, node_host).headers) is is_told
