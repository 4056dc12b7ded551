"""Without an authorizer, only clients on the machines of nodes may change the cluster itself."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from ottla.metadata_raft.acl_set import AclSet, AuthorizerSettings
from ottla.node.authorization.authorizer import Authorizer
from ottla.node.kafka_api import (
    alter_configs,
    incremental_alter_configs,
)
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.act_for import Caller
from ottla.node.net.connection_info import ConnectionInfo
from ottla.node.security.administrators import Administrators
from ottla.node.wire.messages import alter_configs as alter_wire
from ottla.node.wire.messages import incremental_alter_configs as incremental_wire
from tests.unit.node.metadata.metadata_node import CONNECTION, MetadataNode

UNKNOWN_CLIENT = replace(CONNECTION, client_host="10.9.9.9")


class FakeResolver:
    """A resolver of host names that records its calls."""

    def __init__(self, addresses: dict[str, str]) -> None:
        self.addresses = addresses
        self.looked_up: list[str] = []
        self.now_s = 100.0

    def time(self) -> float:
        return self.now_s

    async def getaddrinfo(self, name: str, port: None, *, type: int) -> Sequence[Any]:
        self.looked_up.append(name)
        if name not in self.addresses:
            raise OSError("unknown")
        return [(None, None, None, "", (self.addresses[name], 0))]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> FakeResolver:
    resolver = FakeResolver({"node-1": "10.0.0.1", "node-2": "10.0.0.2"})
    monkeypatch.setattr("ottla.node.security.administrators.asyncio.get_running_loop", lambda: resolver)
    return resolver


def is_let_in(administrators: Administrators, connection: ConnectionInfo) -> bool:
    try:
        asyncio.run(administrators.check(connection, AclOperation.ALTER))
    except KafkaError as error:
        assert error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return False
    return True


@pytest.mark.parametrize(
    ("connection", "expected"),
    [
        (CONNECTION, True),
        (replace(CONNECTION, client_host="10.0.0.7", local_host="10.0.0.7"), True),
        (replace(UNKNOWN_CLIENT, peer_id=2), True),
        (replace(CONNECTION, client_host="10.0.0.2"), True),
        (UNKNOWN_CLIENT, False),
    ],
    ids=["loopback", "own address", "a proven node", "the machine of a node", "an unknown client"],
)
def test_nodes_and_their_machines_may_change_the_cluster(
    connection: ConnectionInfo, expected: bool, resolver: FakeResolver
) -> None:
    administrators = Administrators(lambda: ["node-1", "gone", "node-2"], lambda: False)

    assert is_let_in(administrators, connection) is expected


def test_a_setting_allows_every_client(resolver: FakeResolver) -> None:
    assert is_let_in(Administrators(lambda: ["node-1"], lambda: True), UNKNOWN_CLIENT)
    assert resolver.looked_up == []


def test_look_ups_for_unknown_clients_are_limited_and_a_new_address_is_found(resolver: FakeResolver) -> None:
    administrators = Administrators(lambda: ["node-1"], lambda: False)

    assert [is_let_in(administrators, UNKNOWN_CLIENT) for _ in range(5)] == [False] * 5
    assert resolver.looked_up == ["node-1"]
    resolver.addresses["node-1"] = UNKNOWN_CLIENT.client_host
    resolver.now_s += 6
    assert is_let_in(administrators, UNKNOWN_CLIENT) and resolver.looked_up == ["node-1"] * 2


def test_callers_of_the_rest_api_are_checked_by_their_address_only_without_an_authorizer() -> None:
    remote, here = Caller("User:ANONYMOUS", "10.0.0.7", False), Caller("User:ANONYMOUS", "10.0.0.8", True)
    without, authorizer = Administrators(list, lambda: False), Authorizer(AuthorizerSettings())
    with_authorizer = Administrators(list, lambda: False, authorizer.access)

    asyncio.run(without.check_caller(here))
    with pytest.raises(KafkaError, match="no authorizer"):
        asyncio.run(without.check_caller(remote))
    # With an authorizer, the broker that gets the request decides.
    asyncio.run(with_authorizer.check_caller(remote))


def test_a_connection_for_a_caller_is_checked_by_the_address_of_the_caller() -> None:
    administrators = Administrators(lambda: ["node-1"], lambda: False)
    acting = replace(UNKNOWN_CLIENT, client_host="127.0.0.1", local_host="127.0.0.1", caller_host="10.9.9.9")

    assert is_let_in(administrators, replace(acting, caller_host=""))
    assert not is_let_in(administrators, acting)
    assert is_let_in(administrators, replace(acting, caller_is_local=True))


def config_changes(kind: int, name: str) -> incremental_wire.IncrementalAlterConfigsRequest:
    config = incremental_wire.AlterableConfig(name="max.connections", config_operation=0, value="1")
    resource = incremental_wire.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    return incremental_wire.IncrementalAlterConfigsRequest(resources=[resource])


@pytest.mark.parametrize(("kind", "name"), [(4, ""), (4, "0"), (8, "0")])
def test_unknown_clients_may_not_change_settings_and_loggers_of_brokers(kind: int, name: str) -> None:
    async def ask(api: Any, request: Any) -> Any:
        answer = await api.handle(MetadataNode(), RequestContext(0, 1, 1, "test", UNKNOWN_CLIENT), request)
        return answer.responses[0].error_code

    resource = alter_wire.AlterConfigsResource(resource_type=kind, resource_name=name)
    whole = alter_wire.AlterConfigsRequest(resources=[resource])

    code = asyncio.run(ask(incremental_alter_configs, config_changes(kind, name)))
    assert code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if kind == 4:
        assert asyncio.run(ask(alter_configs, whole)) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_unknown_clients_may_change_topics() -> None:
    async def ask() -> Any:
        node = MetadataNode()
        await node.start()
        context = RequestContext(0, 1, 1, "test", UNKNOWN_CLIENT)
        return await incremental_alter_configs.handle(node, context, config_changes(2, "absent"))  # type: ignore[arg-type]

    assert asyncio.run(ask()).responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("operation", [AclOperation.ALTER, AclOperation.CLUSTER_ACTION])
def test_one_of_several_rights_is_enough(operation: AclOperation) -> None:
    authorizer = Authorizer(AuthorizerSettings())
    entry = AccessControlEntry(
        ResourceType.CLUSTER,
        CLUSTER_NAME,
        PatternType.LITERAL,
        "User:ann",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
    authorizer.update(AclSet().changed({bytes(16): entry}))
    administrators = Administrators(list, lambda: False, authorizer.access)
    ann, bob = (
        replace(CONNECTION, access=authorizer.access(principal, "10.0.0.1"))
        for principal in ("User:ann", "User:bob")
    )
    operations = (AclOperation.ALTER, AclOperation.CLUSTER_ACTION)

    asyncio.run(administrators.check(ann, *operations))
    with pytest.raises(KafkaError) as refused:
        asyncio.run(administrators.check(bob, *operations))

    assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert "CLUSTER_ACTION" in refused.value.detail
