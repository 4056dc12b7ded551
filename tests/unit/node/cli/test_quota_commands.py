"""`ottla quota`: the entities of options, the quota that applies, and options that are rejected."""

import asyncio
import json

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.cli import quota_commands as commands
from ottla.node.cli.failure import CommandError
from ottla.node.cli.quota_commands import Effective, EntityWords
from ottla.node.client.refusal import Refused
from ottla.node.wire.messages import alter_client_quotas as alter
from ottla.node.wire.messages import describe_client_quotas as describe
from tests.unit.node.client.scripted_cluster import ScriptedCluster

ANNA = (("user", "anna"),)
EVERY_USER = (("user", None),)
ANNAS_APP = (("client-id", "app"), ("user", "anna"))
APP = (("client-id", "app"),)
RATE = "producer_byte_rate"


@pytest.mark.parametrize(
    ("words", "entity"),
    [
        (EntityWords(user="anna"), ANNA),
        (EntityWords(user_default=True), EVERY_USER),
        (EntityWords(user="anna", client_id="app"), ANNAS_APP),
        (EntityWords(user_default=True, client_id_default=True), (("client-id", None), ("user", None))),
        (EntityWords(ip="10.0.0.1"), (("ip", "10.0.0.1"),)),
        (EntityWords(ip_default=True), (("ip", None),)),
        (EntityWords(), ()),
    ],
)
def test_options_name_an_entity(words: EntityWords, entity: commands.QuotaEntity) -> None:
    assert words.entity() == entity


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (EntityWords(user="anna", user_default=True), "either --user or --user-default"),
        (EntityWords(client_id=""), "--client-id-default is for all others"),
        (EntityWords(ip="10.0.0.1", user="anna"), "--ip cannot be combined with a user or a client id"),
        (EntityWords(ip_default=True, client_id="app"), "--ip cannot be combined with a user"),
    ],
)
def test_options_that_contradict_each_other_are_rejected(words: EntityWords, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        words.entity()


def test_a_change_needs_an_entity_and_a_principal_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError, match="Name the entity of the quotas"):
        commands.some_entity(EntityWords())

    assert commands.some_entity(EntityWords(user="User:anna")) == (("user", "User:anna"),)
    assert "did you mean --user anna?" in capsys.readouterr().err


def test_values_are_numbers_above_0() -> None:
    assert commands.parse_quotas([(RATE, "1_048_576"), ("request_percentage", "12.5")]) == {
        RATE: 1048576.0,
        "request_percentage": 12.5,
    }
    for text in ("10MB", "", "0", "-1", "nan", "inf", "1e999"):
        with pytest.raises(CommandError, match="must be a number above 0"):
            commands.parse_quotas([(RATE, text)])
    with pytest.raises(CommandError, match="given twice"):
        commands.parse_quotas([(RATE, "1"), (RATE, "2")])


QUOTAS = {
    EVERY_USER: {RATE: 1.0, "consumer_byte_rate": 2.0},
    ANNA: {RATE: 1.0},
    ANNAS_APP: {RATE: 1.0},
    APP: {RATE: 9.0, "request_percentage": 5.0},
    (("ip", None),): {"connection_creation_rate": 3.0},
}


@pytest.mark.parametrize(
    ("user", "client_id", "entity", "shared_by"),
    [
        ("anna", "app", ANNAS_APP, "clients app of user anna"),
        ("anna", "other", ANNA, "all clients of user anna"),
        ("bob", "app", EVERY_USER, "all clients of user bob"),
        ("bob", None, EVERY_USER, "all clients of user bob"),
    ],
)
def test_the_most_specific_quota_applies_even_if_others_have_the_same_value(
    user: str, client_id: str | None, entity: commands.QuotaEntity, shared_by: str
) -> None:
    found = commands.effective(QUOTAS, {"user": user, "client-id": client_id})

    assert found[RATE] == Effective(1.0, entity, shared_by)
    assert found["controller_mutation_rate"] is None


def test_client_ids_apply_to_users_without_a_quota_and_addresses_by_themselves() -> None:
    of_client = commands.effective(QUOTAS, {"user": "anna", "client-id": "app"})
    of_address = commands.effective(QUOTAS, {"ip": "10.0.0.1"})

    assert of_client["request_percentage"] == Effective(5.0, APP, "clients app")
    assert of_client["consumer_byte_rate"] == Effective(2.0, EVERY_USER, "all clients of user anna")
    assert of_address == {
        "connection_creation_rate": Effective(3.0, (("ip", None),), "connections from 10.0.0.1")
    }


def listed(*entries: tuple[commands.QuotaEntity, dict[str, float]]) -> describe.DescribeClientQuotasResponse:
    return describe.DescribeClientQuotasResponse(
        entries=[
            describe.EntryData(
                entity=[describe.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[describe.ValueData(key=key, value=value) for key, value in values.items()],
            )
            for entity, values in entries
        ]
    )


def answer(
    entity: commands.QuotaEntity, code: int = 0, message: str | None = None
) -> alter.AlterClientQuotasResponse:
    parts = [alter.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    one = alter.EntryDataResponse(error_code=code, error_message=message, entity=parts)
    return alter.AlterClientQuotasResponse(entries=[one])


def test_quotas_are_listed_users_first(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = ScriptedCluster(listed((APP, {RATE: 2.5}), (EVERY_USER, {RATE: 1.0}), (ANNA, {RATE: 1024.0})))

    assert asyncio.run(commands.list_all(cluster.client(), (), as_json=False)) == 0

    assert capsys.readouterr().out.splitlines() == [
        "user       client id  ip  quota               value",
        "<default>  -          -   producer_byte_rate  1",
        "anna       -          -   producer_byte_rate  1024",
        "-          app        -   producer_byte_rate  2.5",
    ]


def test_a_client_without_limits_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = ScriptedCluster(listed())

    assert asyncio.run(commands.list_effective(cluster.client(), ANNA, as_json=True)) == 0

    assert {one["value"] for one in json.loads(capsys.readouterr().out)} == {None}
    for entity in ((), EVERY_USER):
        with pytest.raises(CommandError, match="is for one client"):
            asyncio.run(commands.list_effective(cluster.client(), entity, as_json=True))


def delete(cluster: ScriptedCluster, *keys: str, dry_run: bool = False) -> int:
    return asyncio.run(commands.delete(cluster.client(), ANNA, keys, dry_run=dry_run, as_json=False))


def test_the_named_quotas_are_deleted_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    both = listed((ANNA, {RATE: 1.0, "request_percentage": 5.0}))
    one, every = ScriptedCluster(both, answer(ANNA)), ScriptedCluster(both, answer(ANNA))

    assert delete(one, RATE, RATE) == delete(every, dry_run=True) == 0

    assert [(op.key, op.remove) for op in one.requests[1].entries[0].ops] == [(RATE, True)]
    assert one.requests[0].strict
    assert len(every.requests[1].entries[0].ops) == 2 and every.requests[1].validate_only
    assert capsys.readouterr().out.splitlines() == [
        f"deleted {RATE} of user anna",
        f"would delete {RATE} of user anna",
        "would delete request_percentage of user anna",
    ]


def test_missing_quotas_are_not_deleted() -> None:
    with pytest.raises(Refused, match="User anna has no quotas"):
        delete(ScriptedCluster(listed()))
    with pytest.raises(Refused, match="User anna has no quota consumer_byte_rate"):
        delete(ScriptedCluster(listed((ANNA, {RATE: 1.0}))), RATE, "consumer_byte_rate")


def test_an_unknown_quota_is_reported_with_the_known_ones() -> None:
    message = "Invalid configuration key producer_rate"
    cluster = ScriptedCluster(answer(ANNA, ErrorCode.INVALID_REQUEST, message))

    with pytest.raises(CommandError, match=r"cannot have the quota producer_rate.*producer_byte_rate"):
        asyncio.run(
            commands.set_quotas(cluster.client(), ANNA, {"producer_rate": 1.0}, dry_run=False, as_json=False)
        )


def test_another_error_is_reported_unchanged() -> None:
    cluster = ScriptedCluster(answer(ANNA, ErrorCode.POLICY_VIOLATION, "too many"))

    with pytest.raises(KafkaError, match="the quotas of user anna: too many"):
        asyncio.run(commands.set_quotas(cluster.client(), ANNA, {RATE: 1.0}, dry_run=True, as_json=False))
