"""The decision about a principal, made by the nodes' own code from the entries of the cluster."""

import asyncio
from collections.abc import Mapping

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AccessControlEntry, AclOperation, PatternType, ResourceType
from ottla.metadata_raft.acl_set import ClientIdentity, DefaultRule
from ottla.node.client.acl_check import AccessRules, access_rules, set_of
from ottla.node.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ottla.node.wire.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tests.unit.node.client.scripted_cluster import ScriptedCluster

ANNA = ClientIdentity("User:anna", "*")
DENY, ALLOW = 2, 3


def acls(*entries: tuple[str, int, int]) -> DescribeAclsResponse:
    """Return entries for the topic orders, by principal, operation and permission."""
    described = [
        AclDescription(principal=principal, host="*", operation=operation, permission_type=permission)
        for principal, operation, permission in entries
    ]
    resource = DescribeAclsResource(resource_type=2, resource_name="orders", acls=described)
    return DescribeAclsResponse(resources=[resource] if described else [])


def settings(values: Mapping[str, str], code: int = 0, node_id: str = "0") -> DescribeConfigsResponse:
    configs = [DescribeConfigsResourceResult(name=name, value=value) for name, value in values.items()]
    result = DescribeConfigsResult(error_code=code, resource_type=4, resource_name=node_id, configs=configs)
    return DescribeConfigsResponse(results=[result])


def ask(cluster: ScriptedCluster) -> AccessRules:
    return asyncio.run(access_rules(cluster.client(), ResourceType.TOPIC, "orders"))


def test_an_entry_allows_what_it_implies_and_is_returned_as_the_rule() -> None:
    cluster = ScriptedCluster(acls(("User:anna", AclOperation.READ, ALLOW)), settings({}))

    decision = ask(cluster).decide(ANNA, AclOperation.DESCRIBE)

    assert decision.is_allowed
    assert isinstance(decision.rule, AccessControlEntry) and decision.rule.operation == AclOperation.READ
    assert cluster.requests[0].pattern_type_filter == PatternType.MATCH


def test_a_denial_of_all_principals_overrides_what_is_allowed() -> None:
    entries = ("User:anna", AclOperation.READ, ALLOW), ("User:*", AclOperation.READ, DENY)

    rules = ask(ScriptedCluster(acls(*entries), settings({})))

    assert not rules.decide(ANNA, AclOperation.READ).is_allowed


def test_the_settings_of_the_node_decide_if_no_entry_does() -> None:
    everyone = ask(ScriptedCluster(acls(), settings({"allow.everyone.if.no.acl.found": "true"})))
    closed = ask(ScriptedCluster(acls(), settings({"allow.everyone.if.no.acl.found": "false"})))
    above = ask(ScriptedCluster(acls(("User:*", 2, DENY)), settings({"super.users": "User:b; User:anna"})))

    rules = [one.decide(ANNA, AclOperation.READ).rule for one in (everyone, closed, above)]
    assert rules == [DefaultRule.ALLOW, DefaultRule.DENY, DefaultRule.SUPER_USER]


def test_settings_that_may_not_be_read_count_as_unset_and_are_reported() -> None:
    rules = ask(ScriptedCluster(acls(), settings({}, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)))

    assert rules.settings is None and not rules.decide(ANNA, AclOperation.READ).is_allowed


def test_settings_that_apache_kafka_hides_count_as_unknown() -> None:
    hidden = DescribeConfigsResourceResult(name="super.users", value=None, is_sensitive=True)
    result = DescribeConfigsResult(resource_type=4, resource_name="0", configs=[hidden])

    rules = ask(ScriptedCluster(acls(), DescribeConfigsResponse(results=[result])))

    assert rules.settings is None


def test_another_node_is_asked_if_one_does_not_return_its_settings() -> None:
    gone = KafkaError(ErrorCode.INVALID_CONFIG, "no TLS connection")
    everyone = settings({"allow.everyone.if.no.acl.found": "true"}, node_id="1")

    rules = ask(ScriptedCluster(acls(), gone, everyone))

    assert rules.decide(ANNA, AclOperation.READ).rule is DefaultRule.ALLOW
    with pytest.raises(KafkaError, match="no TLS connection"):
        ask(ScriptedCluster(acls(), gone, gone))


def test_an_entry_that_a_server_returns_twice_counts_once() -> None:
    entry = AccessControlEntry(ResourceType.TOPIC, "orders", PatternType.LITERAL, *ANNA, 3, ALLOW)

    assert len(set_of([entry, entry])) == 1
