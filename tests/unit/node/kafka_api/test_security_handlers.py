"""Requests about ACLs, client quotas and SCRAM credentials, and the responses of a node."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema_compiler import encode
from ottla.metadata_raft.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from ottla.metadata_raft.image import ScramKey
from ottla.metadata_raft.scram import ScramMechanism, keys_of
from ottla.node.kafka_api import describe_acls
from ottla.node.kafka_api.refusals import error_by_element
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryDataRequest,
    OpData,
)
from ottla.node.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.node.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.node.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.node.wire.messages.describe_acls import DescribeAclsRequest
from ottla.node.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from ottla.node.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tests.unit.node.metadata.metadata_node import MetadataNode

ANY_ENTRY: dict[str, Any] = {"operation": 1, "permission_type": 1}
SALTED = hashlib.pbkdf2_hmac("sha256", b"secret of alice", b"salt", 4096)


def run(scenario: Callable[[MetadataNode], Awaitable[None]]) -> None:
    async def scene() -> None:
        node = MetadataNode()
        await node.start()
        await scenario(node)

    asyncio.run(scene())


def creation(name: str = "t", **changes: Any) -> AclCreation:
    fields = {
        "resource_type": ResourceType.TOPIC,
        "resource_name": name,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": AclOperation.READ,
        "permission_type": AclPermissionType.ALLOW,
    }
    return AclCreation(**{**fields, **changes})


def describing(**changes: Any) -> DescribeAclsRequest:
    fields = {"resource_type_filter": 1, "pattern_type_filter": 1, **ANY_ENTRY}
    nothing = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    return DescribeAclsRequest(**{**fields, **nothing, **changes})


def deleting(**changes: Any) -> DeleteAclsFilter:
    fields = {"resource_type_filter": 1, "pattern_type_filter": 1, **ANY_ENTRY}
    nothing = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    return DeleteAclsFilter(**{**fields, **nothing, **changes})


def test_many_acls_are_described_in_the_order_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(node: MetadataNode) -> None:
        created = [creation(f"t{7 * number % 10}", host=f"10.0.0.{number}") for number in range(25)]
        await node.ask(3, CreateAclsRequest(creations=created))
        few = await node.ask(3, describing())

        monkeypatch.setattr(describe_acls, "AT_ONCE", 4)
        many = await node.ask(3, describing())

        assert many == few
        assert [one.resource_name for one in few.resources] == [f"t{number}" for number in range(10)]
        assert sum(len(one.acls) for one in few.resources) == 25

    run(scenario)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_are_created_described_and_deleted(version: int) -> None:
    async def scenario(node: MetadataNode) -> None:
        made = await node.ask(
            version,
            CreateAclsRequest(
                creations=[
                    creation("t", operation=AclOperation.WRITE),
                    creation("t"),
                    creation("a", resource_pattern_type=PatternType.PREFIXED),
                    creation("t", principal="nobody"),
                ]
            ),
        )
        described = await node.ask(version, describing())
        narrowed = await node.ask(
            version,
            describing(
                resource_type_filter=ResourceType.TOPIC,
                resource_name_filter="abc",
                pattern_type_filter=PatternType.MATCH,
            ),
        )
        unknown = await node.ask(version, describing(operation=0))
        gone = await node.ask(
            version, DeleteAclsRequest(filters=[deleting(resource_name_filter="t"), deleting(operation=0)])
        )

        assert [one.error_code for one in made.results] == [0, 0, 0, ErrorCode.INVALID_REQUEST]
        assert [
            (one.resource_name, one.pattern_type, [acl.operation for acl in one.acls])
            for one in described.resources
        ] == [("a", PatternType.PREFIXED, [3]), ("t", PatternType.LITERAL, [3, 4])]
        assert [one.resource_name for one in narrowed.resources] == ["a"]
        assert (unknown.error_code, unknown.error_message) == (
            ErrorCode.INVALID_REQUEST,
            "Unknown entryFilter.",
        )
        first, second = gone.filter_results
        assert [(acl.resource_name, acl.operation) for acl in first.matching_acls] == [("t", 3), ("t", 4)]
        assert (second.error_code, second.matching_acls) == (ErrorCode.INVALID_REQUEST, [])
        assert [entry.resource_name for entry in node.metadata.image.acls.by_id.values()] == ["a"]

    run(scenario)


def test_many_acls_are_created_and_described() -> None:
    async def scenario(node: MetadataNode) -> None:
        wanted = [creation(f"t{number % 1_100:04}") for number in range(1_200)]

        made = await node.ask(3, CreateAclsRequest(creations=wanted))
        described = await node.ask(3, describing())

        assert [one.error_code for one in made.results] == [0] * 1_200
        assert [one.resource_name for one in described.resources] == [f"t{one:04}" for one in range(1_100)]

    run(scenario)


def test_without_an_authorizer_there_are_no_acls() -> None:
    async def scenario(node: MetadataNode) -> None:
        node.has_authorizer = False

        made = await node.ask(3, CreateAclsRequest(creations=[creation(), creation("u")]))
        described = await node.ask(3, describing())
        gone = await node.ask(3, DeleteAclsRequest(filters=[deleting()]))

        disabled = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
        assert [(one.error_code, one.error_message) for one in made.results] == [disabled] * 2
        assert [(one.error_code, one.error_message) for one in gone.filter_results] == [disabled]
        assert described.error_code == ErrorCode.SECURITY_DISABLED
        assert described.error_message == "No Authorizer is configured on the broker"
        assert not node.metadata.image.acls

    run(scenario)


def entry(entity: dict[str, str | None], **quotas: float | None) -> EntryDataRequest:
    return EntryDataRequest(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
    )


ENTITIES: list[dict[str, str | None]] = [
    {"user": "alice"},
    {"user": None},
    {"user": "alice", "client-id": "c"},
    {"client-id": None},
]


def component(kind: str, match_type: int, match: str | None = None) -> ComponentData:
    return ComponentData(entity_type=kind, match_type=match_type, match=match)


FILTERS: list[tuple[list[ComponentData], bool, list[int]]] = [
    ([], False, [0, 1, 2, 3]),
    ([], True, []),
    ([component("user", 0, "alice")], False, [0, 2]),
    ([component("user", 0, "alice")], True, [0]),
    ([component("user", 1)], False, [1]),
    ([component("user", 2)], False, [0, 1, 2]),
    ([component("user", 2), component("client-id", 0, "c")], True, [2]),
    ([component("ip", 2)], False, []),
]


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(("components", "strict", "found"), FILTERS, ids=map(str, range(len(FILTERS))))
def test_a_filter_finds_the_quotas_of_its_entities(
    version: int, components: list[ComponentData], strict: bool, found: list[int]
) -> None:
    async def scenario(node: MetadataNode) -> None:
        entries = [entry(one, producer_byte_rate=float(number + 1)) for number, one in enumerate(ENTITIES)]
        altered = await node.ask(version, AlterClientQuotasRequest(entries=entries))

        answer = await node.ask(version, DescribeClientQuotasRequest(components=components, strict=strict))

        assert [one.error_code for one in altered.entries] == [0] * 4
        assert answer.error_code == 0
        assert sorted(one.values[0].value for one in answer.entries) == [float(one + 1) for one in found]
        named = [{part.entity_type: part.entity_name for part in one.entity} for one in answer.entries]
        assert all(one in named for one in (ENTITIES[index] for index in found))

    run(scenario)


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([component("", 0, "a")], ErrorCode.INVALID_REQUEST),
        ([component("user", 0, "a"), component("user", 2)], ErrorCode.INVALID_REQUEST),
        ([component("robot", 0, "a")], ErrorCode.UNSUPPORTED_VERSION),
        ([component("user", 0)], ErrorCode.INVALID_REQUEST),
        ([component("user", 1, "a")], ErrorCode.INVALID_REQUEST),
        ([component("user", 2, "a")], ErrorCode.INVALID_REQUEST),
        ([component("user", 3)], ErrorCode.INVALID_REQUEST),
        ([component("user", 2), component("ip", 1)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_invalid_filter_is_rejected(components: list[ComponentData], code: ErrorCode) -> None:
    async def scenario(node: MetadataNode) -> None:
        answer = await node.ask(1, DescribeClientQuotasRequest(components=components))

        assert (answer.error_code, answer.entries) == (code, None) and answer.error_message

    run(scenario)


def test_quotas_are_answered_by_entity() -> None:
    async def scenario(node: MetadataNode) -> None:
        answer = await node.ask(
            1,
            AlterClientQuotasRequest(
                entries=[
                    entry({"user": "a"}, producer_byte_rate=1.0),
                    entry({"user": "b"}, nonsense=1.0),
                    entry({"user": "c"}, producer_byte_rate=1.0),
                    entry({"user": "c"}, producer_byte_rate=None),
                ]
            ),
        )

        codes = {one.entity[0].entity_name: one.error_code for one in answer.entries}
        assert codes == {"a": 0, "b": ErrorCode.INVALID_REQUEST, "c": ErrorCode.INVALID_REQUEST}
        assert len(answer.entries) == 3
        assert list(node.metadata.image.client_quotas) == [(("user", "a"),)]

    run(scenario)


def upsertion(user: str, **changes: Any) -> ScramCredentialUpsertion:
    fields = {"mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": SALTED}
    return ScramCredentialUpsertion(name=user, **{**fields, **changes})


def test_a_refused_request_names_each_user_of_both_lists() -> None:
    request = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="alice", mechanism=1)], upsertions=[upsertion("bob")]
    )
    too_many = KafkaError(ErrorCode.POLICY_VIOLATION, "too many")

    response = error_by_element(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, encode(request, 0), 0, too_many)

    code = ErrorCode.POLICY_VIOLATION
    assert [(one.user, one.error_code) for one in response.results] == [("alice", code), ("bob", code)]


def test_scram_credentials_are_set_described_and_removed() -> None:
    async def scenario(node: MetadataNode) -> None:
        wanted = [upsertion("alice"), upsertion("bob", salted_password=b"short")]
        altered = await node.ask(0, AlterUserScramCredentialsRequest(upsertions=wanted))
        credential = node.metadata.image.scram_credentials[ScramKey("alice", 1)]
        all_users = await node.ask(0, DescribeUserScramCredentialsRequest(users=None))
        users = [UserName(name=name) for name in ("alice", "bob", "carol", "carol")]
        named = await node.ask(0, DescribeUserScramCredentialsRequest(users=users))
        deletions = [ScramCredentialDeletion(name="alice", mechanism=1)]
        removed = await node.ask(0, AlterUserScramCredentialsRequest(deletions=deletions))

        assert {one.user: one.error_code for one in altered.results} == {
            "alice": 0,
            "bob": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        }
        keys = keys_of(ScramMechanism.SCRAM_SHA_256, SALTED)
        assert credential[:3] == (b"salt", keys.stored_key, keys.server_key)
        assert [(one.user, one.credential_infos[0].iterations) for one in all_users.results] == [
            ("alice", 4096)
        ]
        assert {one.user: one.error_code for one in named.results} == {
            "alice": 0,
            "bob": ErrorCode.RESOURCE_NOT_FOUND,
            "carol": ErrorCode.DUPLICATE_RESOURCE,
        }
        assert [(one.user, one.error_code) for one in removed.results] == [("alice", 0)]
        assert not node.metadata.image.scram_credentials

    run(scenario)
