"""ottla.node.doctor.ask_cluster: facts that come over REST, and the login that is sent for them."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.node.client.cluster_client import Client
from ottla.node.client.quorum_admin import QuorumMember, QuorumView
from ottla.node.doctor import ask_cluster
from ottla.node.doctor.ask_cluster import NodeDialer, ask_quorum, is_page_of, listeners_of, rest_access
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
def test_the_response_of_another_nodes_rest_api_is_not_used(
    cluster_id: str | None, body: Mapping[str, Any], expected: bool
) -> None:
    """The other node may have bound the port before this one."""
    node = AdvertisedFacts(3, EndpointFacts("localhost", 9092, cluster_id=cluster_id), True)
    assert is_page_of(node, body) is expected


@pytest.mark.parametrize(
    ("is_secure", "host", "node_host", "sends_credentials"),
    [
        (True, "kafka-1", "kafka-1", True),
        (False, "127.0.0.1", "localhost", True),
        (False, "kafka-1", "kafka-1", False),
        # The loopback address of a node on another machine may here belong to any program.
        (False, "127.0.0.1", "kafka-1", False),
    ],
)
def test_a_password_is_sent_only_where_no_other_program_can_read_it(
    is_secure: bool, host: str, node_host: str, sends_credentials: bool
) -> None:
    login = SaslLogin(mechanism="PLAIN", user="anna", password="secret")
    asking = NodeDialer(1.0, ClientSecurity(login=login), None)

    assert bool(rest_access(is_secure, host, asking, node_host).headers) is sends_credentials


NODE = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "listeners": "A://10.0.0.1:1,B://10.0.0.1:2,C://10.0.0.1:3,D://10.0.0.1:4,E://127.0.0.1:5,F://10.0.0.1:6",
    "listener.security.protocol.map": "A:PLAINTEXT,B:SSL,C:SSL,D:SASL_SSL,E:PLAINTEXT,F:PLAINTEXT",
    "listener.name.c.ssl.client.auth": "required",
    "controller.listener.names": "F",
}


@pytest.mark.parametrize(
    ("changed", "ways"),
    [
        ({}, ["A", "B"]),
        ({"ssl.client.auth": "REQUIRED"}, ["A"]),
        ({"listener.name.c.ssl.client.auth": "requested"}, ["A", "B", "C"]),
        ({"super.users": "User:admin"}, []),
        ({"super.users": "nonsense"}, []),
        ({"authorizer.class.name": ""}, []),
    ],
    ids=["open ways", "certificates", "none is needed", "nobody", "cannot be read", "no authorizer"],
)
def test_the_ways_to_be_a_super_user_without_a_login_are_read_from_the_settings_of_a_node(
    changed: Mapping[str, str], ways: list[str]
) -> None:
    found = listeners_of(1, {**NODE, **changed})

    assert found is not None and list(found.anonymous_ways) == ways


def view(epoch: int, *heard_ms: int) -> QuorumView:
    voters = [QuorumMember(one, True, bytes(16), 5, at_ms, at_ms) for one, at_ms in enumerate(heard_ms)]
    return QuorumView(0, epoch, 5, voters, {})


@pytest.mark.parametrize(
    ("answers", "epoch"),
    [
        ([view(1, 900, 900, 900)], 1),
        ([view(1, -1, 900, 900)], 1),  # a leader does not contact itself
        ([view(1, 900, -1, 0), view(2, 900, 900, 900)], 2),
        ([view(1, 900, -1, 900), view(2, 900, -1, 900)], 2),
    ],
    ids=["all are heard", "the leader", "elected just now", "never heard"],
)
def test_the_quorum_is_described_again_if_its_leader_has_not_heard_from_all_voters(
    monkeypatch: pytest.MonkeyPatch, answers: list[QuorumView], epoch: int
) -> None:
    left = list(answers)

    async def describe(client: Client) -> QuorumView:
        return left.pop(0)

    async def ask() -> None:
        found = await ask_quorum(Client([("localhost", 1)], timeout_s=1))
        assert found is not None and found.view is not None and found.view.leader_epoch == epoch

    monkeypatch.setattr(ask_cluster, "describe_quorum", describe)
    monkeypatch.setattr(ask_cluster, "FIRST_CONTACT_S", 0.0)
    asyncio.run(ask())

    assert not left
