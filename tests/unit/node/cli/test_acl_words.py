"""Parsing of the options of `ottla acl`, and options that are rejected."""

from collections.abc import Sequence

import pytest

from ottla.metadata_raft.acl import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from ottla.node.cli import acl_words as words
from ottla.node.cli.acl_words import Resource, Roles, Selection
from ottla.node.cli.failure import EXIT_USAGE, CommandError

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ORDERS = Resource(ResourceType.TOPIC, "orders", LITERAL)
TEAM = Resource(ResourceType.GROUP, "team", LITERAL)
COPY = Resource(ResourceType.TRANSACTIONAL_ID, "copy", LITERAL)
CLUSTER = Resource(ResourceType.CLUSTER, "kafka-cluster", LITERAL)
ANNA, BOB = "User:anna", "User:bob"


def resources(
    pattern: PatternType = LITERAL, *, cluster: bool = False, **named: Sequence[str]
) -> list[Resource]:
    kinds = ("topics", "groups", "transactional_ids", "delegation_tokens", "user_principals")
    return words.resources_of(pattern, is_cluster=cluster, **{kind: named.get(kind, ()) for kind in kinds})


def granted(
    *some: Resource, operations: Sequence[AclOperation] = (), roles: Roles | None = None
) -> set[tuple[str, str]]:
    """Return the operations that anna is allowed, by resource type."""
    entries = words.new_entries(
        some, allowed=[ANNA], denied=(), operations=operations, hosts=["*"], roles=roles or Roles()
    )
    assert all(one.principal == ANNA and one.permission_type == AclPermissionType.ALLOW for one in entries)
    return {(ResourceType(one.resource_type).name, AclOperation(one.operation).name) for one in entries}


@pytest.mark.parametrize(
    "text", ["describe_configs", "DescribeConfigs", "DESCRIBE_CONFIGS", "describe-configs", "describeconfigs"]
)
def test_an_operation_may_be_written_with_any_case_and_separator(text: str) -> None:
    assert words.parse_operations([text]) == [AclOperation.DESCRIBE_CONFIGS]


def test_operations_come_with_commas_or_one_by_one() -> None:
    assert words.parse_operations(["read, write", "READ", "all"]) == [
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.ALL,
    ]
    for text in ("red", "any", "unknown", "1"):
        with pytest.raises(CommandError, match=r"is not a known operation; use one of all, read, write"):
            words.parse_operations([text])


@pytest.mark.parametrize("text", ["User:anna", "User:*", "User:CN=a,O=b:c", "Group:x"])
def test_a_principal_has_a_type_and_a_name(text: str) -> None:
    assert words.parse_principal(text) == text


@pytest.mark.parametrize(
    ("text", "likely"), [("anna", "User:anna"), (":anna", "User:anna"), ("", "User:NAME")]
)
def test_an_invalid_principal_is_rejected_with_the_likely_one(text: str, likely: str) -> None:
    with pytest.raises(CommandError, match=f"write it as {likely}"):
        words.parse_principal(text)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("*", "*"),
        ("10.0.0.7", "10.0.0.7"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:DB8::5", "2001:db8:0:0:0:0:0:5"),
    ],
)
def test_an_address_is_written_as_nodes_compare_it(text: str, host: str) -> None:
    assert words.parse_host(text) == host


@pytest.mark.parametrize("text", ["localhost", "10.0.0.0/8", "", "10.0.0"])
def test_a_host_that_no_client_could_have_is_rejected(text: str) -> None:
    with pytest.raises(CommandError, match="is not an IP address"):
        words.parse_host(text)


def test_resources_are_those_of_the_options_each_once() -> None:
    assert resources(topics=["orders", "orders"], groups=["team"], cluster=True) == [ORDERS, TEAM, CLUSTER]
    assert resources(PREFIXED, topics=["o"], cluster=True) == [
        Resource(ResourceType.TOPIC, "o", PREFIXED),
        CLUSTER,
    ]
    assert resources(topics=["*"], user_principals=[ANNA]) == [
        Resource(ResourceType.TOPIC, "*", LITERAL),
        Resource(ResourceType.USER, ANNA, LITERAL),
    ]


@pytest.mark.parametrize(
    ("named", "message"),
    [({"topics": ["orders-*"]}, "--pattern-type prefixed"), ({"groups": [""]}, "must not be empty")],
)
def test_names_that_no_resource_can_have_are_rejected(named: dict[str, list[str]], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        resources(**named)


def test_a_producer_gets_what_kafka_acls_gives_one() -> None:
    of_topic = {("TOPIC", "WRITE"), ("TOPIC", "DESCRIBE"), ("TOPIC", "CREATE")}
    of_id = {("TRANSACTIONAL_ID", "WRITE"), ("TRANSACTIONAL_ID", "DESCRIBE")}

    assert granted(ORDERS, roles=Roles(producer=True)) == of_topic
    assert granted(ORDERS, COPY, roles=Roles(producer=True)) == of_topic | of_id
    assert granted(ORDERS, roles=Roles(producer=True, idempotent=True)) == of_topic | {
        ("CLUSTER", "IDEMPOTENT_WRITE")
    }


def test_a_consumer_gets_what_kafka_acls_gives_one_and_both_roles_go_together() -> None:
    of_consumer = {("TOPIC", "READ"), ("TOPIC", "DESCRIBE"), ("GROUP", "READ")}

    assert granted(ORDERS, TEAM, roles=Roles(consumer=True)) == of_consumer
    assert granted(ORDERS, TEAM, roles=Roles(producer=True, consumer=True)) == of_consumer | {
        ("TOPIC", "WRITE"),
        ("TOPIC", "CREATE"),
    }


def test_prefixes_of_a_role_are_those_of_its_topics_and_groups_not_of_the_cluster() -> None:
    topic = Resource(ResourceType.TOPIC, "o", PREFIXED)
    entries = words.new_entries(
        [topic],
        allowed=[ANNA],
        denied=(),
        operations=(),
        hosts=["*"],
        roles=Roles(producer=True, idempotent=True),
    )

    assert {(one.resource_name, one.pattern_type) for one in entries} == {
        ("o", PREFIXED),
        ("kafka-cluster", LITERAL),
    }


def test_every_principal_operation_resource_and_host_is_combined() -> None:
    entries = words.new_entries(
        [ORDERS, TEAM],
        allowed=[ANNA, BOB],
        denied=["User:*"],
        operations=[AclOperation.READ, AclOperation.ALL],
        hosts=["10.0.0.1", "10.0.0.2"],
        roles=Roles(),
    )

    assert len(entries) == len(set(entries)) == 3 * 2 * 2 * 2
    assert {one.principal for one in entries if one.permission_type == AclPermissionType.DENY} == {"User:*"}


@pytest.mark.parametrize(
    ("some", "operations", "roles", "denied", "message"),
    [
        ([], ["read"], Roles(), (), "Name a resource with --topic"),
        ([ORDERS], [], Roles(), (), "Name an operation with --operation"),
        ([TEAM], ["write"], Roles(), (), "A group has no operation write; it has read, delete"),
        ([ORDERS], ["read"], Roles(idempotent=True), (), "--idempotent goes with --producer"),
        ([ORDERS, TEAM], [], Roles(consumer=True, idempotent=True), (), "--idempotent goes with --producer"),
        ([ORDERS], ["read"], Roles(producer=True), (), "cannot be used with --operation"),
        ([ORDERS], [], Roles(producer=True), [BOB], "cannot be used with --operation"),
        ([COPY], [], Roles(producer=True), (), "need a --topic"),
        ([ORDERS], [], Roles(consumer=True), (), "--consumer needs a --group"),
        ([ORDERS, TEAM], [], Roles(producer=True), (), "--producer cannot be used with a group"),
        (
            [ORDERS, TEAM, COPY],
            [],
            Roles(consumer=True),
            (),
            "--consumer cannot be used with a transactional_id",
        ),
        ([ORDERS, CLUSTER], [], Roles(producer=True), (), "--producer cannot be used with a cluster"),
    ],
)
def test_options_that_contradict_each_other_are_rejected(
    some: list[Resource], operations: list[str], roles: Roles, denied: Sequence[str], message: str
) -> None:
    with pytest.raises(CommandError, match=message) as refused:
        words.new_entries(
            some,
            allowed=[ANNA],
            denied=denied,
            operations=words.parse_operations(operations),
            hosts=["*"],
            roles=roles,
        )

    assert refused.value.exit_code == EXIT_USAGE


def test_an_acl_needs_a_principal_and_a_command_creates_a_limited_number() -> None:
    with pytest.raises(CommandError, match="Name a principal with --allow"):
        words.new_entries(
            [ORDERS], allowed=(), denied=(), operations=[AclOperation.READ], hosts=["*"], roles=Roles()
        )
    with pytest.raises(CommandError, match=r"would be 10,001 ACLs; a command creates at most 10,000"):
        words.new_entries(
            [ORDERS],
            allowed=[f"User:{number}" for number in range(10_001)],
            denied=(),
            operations=[AclOperation.READ],
            hosts=["*"],
            roles=Roles(),
        )


def test_without_operations_all_operations_of_a_resource_are_checked() -> None:
    assert len(words.pair_operations([ORDERS], [])) == 8
    assert words.pair_operations([TEAM], [AclOperation.ALL]) == [(TEAM, AclOperation.ALL)]


# ---- selections -----------------------------------------------------------------------------------


def entry(
    resource: Resource = ORDERS,
    principal: str = ANNA,
    operation: AclOperation = AclOperation.READ,
    host: str = "*",
) -> AccessControlEntry:
    return AccessControlEntry(*resource, principal, host, operation, AclPermissionType.ALLOW)


def test_only_an_empty_selection_is_everything() -> None:
    assert Selection([], [], [], []).is_everything and Selection().is_everything
    assert Selection(pattern_type=LITERAL).is_everything, "all entries but the prefixed ones are selected"
    for one in (
        Selection([ORDERS]),
        Selection(principals=[ANNA]),
        Selection(operations=[AclOperation.READ]),
        Selection(hosts=["*"]),
        Selection(permission=AclPermissionType.DENY),
    ):
        assert not one.is_everything


def test_each_resource_has_a_filter_which_names_a_single_principal() -> None:
    [one] = Selection(principals=[ANNA], pattern_type=PREFIXED).filters()
    assert one.principal == ANNA and one.resource_name is None and one.pattern_type == PREFIXED
    assert one.resource_type == ResourceType.ANY

    many = Selection([ORDERS, TEAM], [ANNA, BOB], [AclOperation.READ, AclOperation.ALL]).filters()
    assert [one.resource_name for one in many] == ["orders", "team"]
    assert {(one.principal, one.operation) for one in many} == {(None, AclOperation.ANY)}


def test_entries_that_match_all_options_are_chosen_from_the_responses() -> None:
    others = [entry(principal="User:x"), entry(operation=AclOperation.WRITE), entry(host="10.0.0.1")]
    selection = Selection([ORDERS], [ANNA, BOB], [AclOperation.READ, AclOperation.ALL], ["*", "10.0.0.2"])

    chosen = selection.choose([entry(principal=BOB), *others, entry(), entry()])

    assert chosen == [entry(), entry(principal=BOB)]
    assert Selection(permission=AclPermissionType.DENY).choose([entry()]) == []


def test_an_entry_reads_as_a_sentence() -> None:
    prefixed = entry(Resource(ResourceType.TOPIC, "or", PREFIXED), operation=AclOperation.DESCRIBE_CONFIGS)

    assert words.entry_in_words(entry()) == "allow User:anna read on topic orders from *"
    assert words.entry_in_words(prefixed) == (
        "allow User:anna describe_configs on topic names that begin with or from *"
    )
