"""Requests about quotas: entities in one order, filters, errors by entity."""

import asyncio

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.client import quota_admin
from ottla.node.client.quota_admin import EXACT, QuotaFilterPart
from ottla.node.wire.messages import alter_client_quotas as alter
from ottla.node.wire.messages import describe_client_quotas as describe
from tests.unit.node.client.scripted_cluster import ScriptedCluster, only_request

ANNA = (("user", "anna"),)
BOTH = (("client-id", None), ("user", "anna"))


def test_quotas_come_by_entity_whatever_the_order_of_its_parts() -> None:
    parts = [describe.EntityData(entity_type=kind, entity_name=name) for kind, name in reversed(BOTH)]
    values = [describe.ValueData(key="producer_byte_rate", value=1024.0)]
    cluster = ScriptedCluster(
        describe.DescribeClientQuotasResponse(entries=[describe.EntryData(entity=parts, values=values)])
    )
    selected = [QuotaFilterPart("user", EXACT, "anna")]

    found = asyncio.run(quota_admin.list_quotas(cluster.client(), selected, is_strict=True))

    assert found == {BOTH: {"producer_byte_rate": 1024.0}}
    [component] = only_request(cluster).components
    assert (component.entity_type, component.match_type, component.match) == ("user", EXACT, "anna")
    assert only_request(cluster).strict


def test_an_error_about_rights_names_the_missing_right() -> None:
    answer = describe.DescribeClientQuotasResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None, entries=None
    )

    with pytest.raises(KafkaError, match="needs DESCRIBE_CONFIGS permission on the cluster"):
        asyncio.run(quota_admin.list_quotas(ScriptedCluster(answer).client()))


def answered(*results: tuple[quota_admin.QuotaEntity, int]) -> alter.AlterClientQuotasResponse:
    return alter.AlterClientQuotasResponse(
        entries=[
            alter.EntryDataResponse(
                error_code=code,
                error_message="no" if code else None,
                entity=[alter.EntityData(entity_type=kind, entity_name=name) for kind, name in of],
            )
            for of, code in results
        ]
    )


def test_quotas_are_set_and_removed_and_errors_are_returned_by_entity() -> None:
    cluster = ScriptedCluster(answered((ANNA, 0), (BOTH, ErrorCode.INVALID_REQUEST)))
    changes = {ANNA: {"producer_byte_rate": 1.5, "request_percentage": None}, BOTH: {"no_such_key": 1.0}}

    refused = asyncio.run(quota_admin.alter_quotas(cluster.client(), changes, only_check=True))

    assert list(refused) == [BOTH]
    assert refused[BOTH].detail == "the quotas of user anna, default client id: no"
    request = only_request(cluster)
    assert request.validate_only
    assert [(op.key, op.value, op.remove) for op in request.entries[0].ops] == [
        ("producer_byte_rate", 1.5, False),
        ("request_percentage", 0.0, True),
    ]


def test_many_entities_are_sent_in_parts() -> None:
    names = [(("user", f"u{number}"),) for number in range(quota_admin.AT_ONCE + 1)]
    cluster = ScriptedCluster(
        answered(*((one, 0) for one in names[:-1])),
        answered((names[-1], ErrorCode.NOT_CONTROLLER)),
        answered(),
    )

    changes = {one: {"producer_byte_rate": 1.0} for one in names}
    assert asyncio.run(quota_admin.alter_quotas(cluster.client(), changes)) == {}
    assert [len(one.entries) for one in cluster.requests] == [quota_admin.AT_ONCE, 1, 1]


@pytest.mark.parametrize(
    ("entity", "words"),
    [
        (ANNA, "user anna"),
        (BOTH, "user anna, default client id"),
        ((("ip", None),), "default address"),
        ((("ip", "10.0.0.1"),), "address 10.0.0.1"),
        ((("group", "g"), ("user", None)), "default user, group g"),
    ],
)
def test_an_entity_is_described_in_words(entity: quota_admin.QuotaEntity, words: str) -> None:
    assert quota_admin.in_words(entity) == words
