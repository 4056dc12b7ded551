"""`ottla user`: the planned changes, and the output if only some mechanisms could be changed."""

import asyncio
import json
from collections.abc import Mapping

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.scram import ScramMechanism
from ottla.node.cli import user_commands as commands
from ottla.node.cli.failure import CommandError
from ottla.node.client.refusal import Refused
from ottla.node.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ottla.node.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from tests.unit.node.client.scripted_cluster import ScriptedCluster

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
BOTH = {SHA_256: 4096, SHA_512: 8192}
LOST = KafkaError(ErrorCode.INVALID_REQUEST, "the answer cannot be read")


def users(**found: Mapping[ScramMechanism, int]) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(
        results=[
            DescribeUserScramCredentialsResult(
                user=name,
                credential_infos=[
                    CredentialInfo(mechanism=mechanism, iterations=iterations)
                    for mechanism, iterations in iterations_of.items()
                ],
            )
            for name, iterations_of in found.items()
        ]
    )


def altered(code: ErrorCode = ErrorCode.NONE, user: str = "anna") -> AlterUserScramCredentialsResponse:
    result = AlterUserScramCredentialsResult(user=user, error_code=code, error_message="no" if code else None)
    return AlterUserScramCredentialsResponse(results=[result])


def test_words_become_mechanisms_once_each() -> None:
    assert commands.mechanisms_of(["scram-sha-256", "SCRAM-SHA-512", "SCRAM-SHA-256"]) == [SHA_256, SHA_512]
    with pytest.raises(CommandError, match="PLAIN is not one of SCRAM-SHA-256, SCRAM-SHA-512"):
        commands.mechanisms_of(["plain"])


@pytest.mark.parametrize(("name", "iterations"), [("", 4096), ("anna", 4095), ("anna", 16385)])
def test_invalid_users_are_rejected_before_a_password_is_asked_for(name: str, iterations: int) -> None:
    with pytest.raises(CommandError):
        commands.check_new_user(name, iterations)


def test_a_name_that_is_a_principal_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    commands.check_new_user("anna", None)
    assert not capsys.readouterr().err

    commands.check_new_user("User:anna", 4096)
    assert "its principal is User:User:anna" in capsys.readouterr().err


def test_a_name_that_scram_cannot_carry_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    commands.check_new_user("\u00e4nne", 4096)

    assert "cannot log in with SCRAM" in capsys.readouterr().err


def creation(
    known: DescribeUserScramCredentialsResponse, *mechanisms: ScramMechanism, if_not_exists: bool = False
) -> commands.Wanted:
    return asyncio.run(
        commands.plan_creation(
            ScriptedCluster(known).client(), "anna", mechanisms, 4096, if_not_exists=if_not_exists
        )
    )


def test_a_creation_adds_mechanisms_and_changes_no_password() -> None:
    assert creation(users(), SHA_512, SHA_256) == {SHA_512: 4096, SHA_256: 4096}
    assert creation(users(anna={SHA_512: 8192}), SHA_256) == {SHA_256: 4096}
    assert creation(users(anna={SHA_512: 8192}), SHA_512, if_not_exists=True) == {}
    with pytest.raises(Refused, match=r"User anna has SCRAM-SHA-512 already\. `ottla user password`"):
        creation(users(anna={SHA_512: 8192}), SHA_512)


def test_a_new_password_is_for_all_mechanisms_of_a_user_with_their_iterations() -> None:
    def plan(known: DescribeUserScramCredentialsResponse, *named: ScramMechanism) -> commands.Wanted:
        client = ScriptedCluster(known).client()
        return asyncio.run(commands.plan_password(client, "anna", named, None))

    assert plan(users(anna=BOTH)) == BOTH
    assert plan(users(anna=BOTH), SHA_512) == {SHA_512: 8192}
    with pytest.raises(Refused, match="There is no SCRAM user anna"):
        plan(users())
    with pytest.raises(Refused, match=r"has no password for SCRAM-SHA-256\. `ottla user create` adds"):
        plan(users(anna={SHA_512: 4096}), SHA_256)


def set_both(*answers: object, as_json: bool = False, shows_it: bool = False) -> int:
    wanted = {SHA_256: 4096, SHA_512: 4096}
    return asyncio.run(
        commands.set_password(
            ScriptedCluster(*answers).client(),
            "anna",
            wanted,
            "secret",
            "create",
            shows_it=shows_it,
            as_json=as_json,
        )
    )


def test_changes_are_printed_and_the_password_only_if_it_was_generated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert set_both(altered(), altered()) == 0
    assert capsys.readouterr().out == "created anna with SCRAM-SHA-256 and SCRAM-SHA-512\n"

    assert set_both(altered(), altered(), shows_it=True) == 0
    assert capsys.readouterr().out.endswith("\npassword secret\n")


@pytest.mark.parametrize("second", [altered(ErrorCode.POLICY_VIOLATION), LOST])
def test_a_partial_success_is_reported_and_ends_with_an_error(
    second: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set_both(altered(), second) == 1

    out, err = capsys.readouterr()
    assert out == "created anna with SCRAM-SHA-256\n"
    assert err.startswith("ottla: SCRAM-SHA-512 of anna was not changed: ") and err.count("\n") == 1

    assert set_both(altered(), second, as_json=True, shows_it=True) == 1
    document = json.loads(capsys.readouterr().out)
    assert [one["changed"] for one in document["mechanisms"]] == [True, False]
    assert document["mechanisms"][1]["error"] and document["password"] == "secret"


def test_if_nothing_was_changed_only_the_error_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KafkaError) as raised:
        set_both(altered(ErrorCode.POLICY_VIOLATION), LOST, shows_it=True)

    assert raised.value.code is ErrorCode.POLICY_VIOLATION and not capsys.readouterr().out


def delete(cluster: ScriptedCluster, *names: str, **options: object) -> int:
    given = {"mechanisms": (), "if_exists": False, "dry_run": False, "as_json": False, **options}
    mechanisms = given.pop("mechanisms")
    return asyncio.run(commands.delete(cluster.client(), names, mechanisms, **given))  # type: ignore[arg-type]


def test_users_are_deleted_with_all_their_mechanisms_or_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = ScriptedCluster(
        users(anna=BOTH, bob={SHA_512: 4096}), altered(), altered(), altered(user="bob")
    )
    assert delete(cluster, "anna", "bob") == 0
    assert capsys.readouterr().out == "deleted anna\ndeleted bob\n"

    assert delete(ScriptedCluster(users(anna=BOTH), altered()), "anna", mechanisms=[SHA_256]) == 0
    assert capsys.readouterr().out == "deleted SCRAM-SHA-256 of anna\n"


def test_no_user_is_deleted_if_one_of_them_does_not_exist() -> None:
    cluster = ScriptedCluster(users(anna=BOTH))

    with pytest.raises(Refused, match="There is no SCRAM user bob"):
        delete(cluster, "anna", "bob")

    assert len(cluster.requests) == 1, "it was only looked up"


def test_a_deletion_may_skip_missing_users_and_be_a_dry_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert delete(ScriptedCluster(users(anna=BOTH)), "anna", "bob", if_exists=True, dry_run=True) == 0
    assert capsys.readouterr().out == "would delete anna\nbob does not exist\n"

    cluster = ScriptedCluster(users(anna=BOTH))
    assert delete(cluster, "anna", dry_run=True, as_json=True) == 0
    [document] = json.loads(capsys.readouterr().out)
    assert document["name"] == "anna" and not any(one["changed"] for one in document["mechanisms"])


def test_half_a_deletion_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = ScriptedCluster(users(anna=BOTH), altered(), altered(ErrorCode.POLICY_VIOLATION))

    assert delete(cluster, "anna") == 1

    out, err = capsys.readouterr()
    assert out == "deleted SCRAM-SHA-256 of anna\n" and "SCRAM-SHA-512 of anna was not changed" in err


def test_names_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    commands.print_plan("\x1b[2Janna", {SHA_512: 4096}, "create", as_json=False)

    assert "\x1b" not in capsys.readouterr().out
