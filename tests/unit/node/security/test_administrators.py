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

STRANGER = replace(CONNECTION, client_host="10.9.9.9")


class Names:
    """A resolver of host names that records its calls."""

    def __init__(self, addresses: dict[str, str]) -> None:
        self.addresses = addresses
        self.asked: list[str] = []
        self.now_s = 100.0

    def time(self) -> float:
        return self.now_s

    async def getaddrinfo(self, name: str, port: None, *, type: int) -> Sequence[Any]:
        self.asked.append(name)
        if name not in self.addresses:
            raise OSError("unknown")
        return [(None, None, None, "", (self.addresses[name], 0))]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    names = Names({"node-1": "10.0.0.1", "node-2": "10.0.0.2"})
    monkeypatch.setattr("ottla.node.security.administrators.asyncio.get_running_loop", lambda: names)
    return names


def is_let_in(judge: Administrators, connection: ConnectionInfo) -> bool:
    try:
        asyncio.run(judge.check(connection, AclOperation.ALTER))
    except KafkaError as error:
        assert error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return False
    return True


@pytest.mark.parametrize(
    ("connection", "expected"),
    [
        (CONNECTION, True),
        (replace(CONNECTION, client_host="10.0.0.7", local_host="10.0.0.7"), True),
        (replace(STRANGER, peer_id=2), True),
        (replace(CONNECTION, client_host="10.0.0.2"), True),
        (STRANGER, False),
    ],
    ids=["loopback", "own address", "a proven node", "the machine of a node", "a stranger"],
)
def test_nodes_and_their_machines_may_change_the_cluster(
    connection: ConnectionInfo, expected: bool, names: Names
) -> None:
    judge = Administrators(lambda: ["node-1", "gone", "node-2"], lambda: False)

    assert is_let_in(judge, connection) is expected


def test_a_setting_allows_every_client(names: Names) -> None:
    assert is_let_in(Administrators(lambda: ["node-1"], lambda: True), STRANGER)
    assert names.asked == []


def test_look_ups_for_strangers_are_limited_and_a_new_address_is_found(names: Names) -> None:
    judge = Administrators(lambda: ["node-1"], lambda: False)

    assert [is_let_in(judge, STRANGER) for _ in range(5)] == [False] * 5
    assert names.asked == ["node-1"]
    names.addresses["node-1"] = STRANGER.client_host
    names.now_s += 6
    assert is_let_in(judge, STRANGER) and names.asked == ["node-1"] * 2


def test_callers_of_the_rest_api_are_judged_by_their_address_only_without_an_authorizer() -> None:
    stranger, here = Caller("User:ANONYMOUS", "10.0.0.7", False), Caller("User:ANONYMOUS", "10.0.0.8", True)
    without, authorizer = Administrators(list, lambda: False), Authorizer(AuthorizerSettings())
    judged = Administrators(list, lambda: False, authorizer.access)

    asyncio.run(without.check_caller(here))
    with pytest.raises(KafkaError, match="no authorizer"):
        asyncio.run(without.check_caller(stranger))
    # With an authorizer, the broker that gets the request decides.
    asyncio.run(judged.check_caller(stranger))


def test_a_connection_for_a_caller_is_judged_by_the_address_of_the_caller() -> None:
    judge = Administrators(lambda: ["node-1"], lambda: False)
    acting = replace(STRANGER, client_host="127.0.0.1", local_host="127.0.0.1", caller_host="10.9.9.9")

    assert is_let_in(judge, replace(acting, caller_host=""))
    assert not is_let_in(judge, acting)
    assert is_let_in(judge, replace(acting, caller_is_local=True))


def config_changes(kind: int, name: str) -> incremental_wire.IncrementalAlterConfigsRequest:
    config = incremental_wire.AlterableConfig(name="max.connections", config_operation=0, value="1")
    resource = incremental_wire.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    return incremental_wire.IncrementalAlterConfigsRequest(resources=[resource])


@pytest.mark.parametrize(("kind", "name"), [(4, ""), (4, "0"), (8, "0")])
def test_strangers_may_not_change_settings_and_loggers_of_brokers(kind: int, name: str) -> None:
    async def ask(api: Any, request: Any) -> Any:
        answer = await api.handle(MetadataNode(), RequestContext(0, 1, 1, "test", STRANGER), request)
        return answer.responses[0].error_code

    resource = alter_wire.AlterConfigsResource(resource_type=kind, resource_name=name)
    whole = alter_wire.AlterConfigsRequest(resources=[resource])

    code = asyncio.run(ask(incremental_alter_configs, config_changes(kind, name)))
    assert code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if kind == 4:
        assert asyncio.run(ask(alter_configs, whole)) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_strangers_may_change_topics() -> None:
    async def ask() -> Any:
        node = MetadataNode()
        await node.start()
        context = RequestContext(0, 1, 1, "test", STRANGER)
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
    judge = Administrators(list, lambda: False, authorizer.access)
    ann, bob = (
        replace(CONNECTION, access=authorizer.access(who, "10.0.0.1")) for who in ("User:ann", "User:bob")
    )
    asked = (AclOperation.ALTER, AclOperation.CLUSTER_ACTION)

    asyncio.run(judge.check(ann, *asked))
    with pytest.raises(KafkaError) as refused:
        asyncio.run(judge.check(bob, *asked))

    assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert "CLUSTER_ACTION" in refused.value.detail
