"""Requests about SCRAM users: keys that log in, changes that are rejected or answered twice."""

import asyncio

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.scram import ScramMechanism, keys_of
from ottla.node.client import user_admin
from ottla.node.client.cluster_right import for_a_change
from ottla.node.client.user_admin import ScramUser
from ottla.node.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ottla.node.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from tests.unit.node.client.scripted_cluster import ScriptedCluster, only_request

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
LOST = KafkaError(ErrorCode.NETWORK_EXCEPTION, "the connection was lost")


def described(*results: DescribeUserScramCredentialsResult) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(results=list(results))


def altered(
    code: ErrorCode = ErrorCode.NONE, message: str | None = None
) -> AlterUserScramCredentialsResponse:
    result = AlterUserScramCredentialsResult(user="anna", error_code=code, error_message=message)
    return AlterUserScramCredentialsResponse(results=[result])


def test_users_are_sorted_with_their_mechanisms_and_missing_ones_are_left_out() -> None:
    infos = [CredentialInfo(mechanism=SHA_512, iterations=8192), CredentialInfo(mechanism=1, iterations=4096)]
    cluster = ScriptedCluster(
        described(
            DescribeUserScramCredentialsResult(user="bob", credential_infos=infos),
            DescribeUserScramCredentialsResult(user="nobody", error_code=ErrorCode.RESOURCE_NOT_FOUND),
            DescribeUserScramCredentialsResult(user="anna", credential_infos=infos[:1]),
        )
    )

    users = asyncio.run(user_admin.list_users(cluster.client(), ["bob", "nobody", "anna", "bob"]))

    assert users == [ScramUser("anna", {SHA_512: 8192}), ScramUser("bob", {SHA_256: 4096, SHA_512: 8192})]
    assert [one.name for one in only_request(cluster).users] == ["bob", "nobody", "anna"]


def test_an_empty_list_of_names_selects_no_user_and_a_missing_list_selects_all() -> None:
    cluster = ScriptedCluster(described())

    assert asyncio.run(user_admin.list_users(cluster.client(), [])) == [] and not cluster.requests
    assert asyncio.run(user_admin.list_users(cluster.client())) == []
    assert only_request(cluster).users is None


@pytest.mark.parametrize("message", [None, "Cluster authorization failed."])
def test_an_error_about_rights_names_the_missing_right(message: str | None) -> None:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    answer = DescribeUserScramCredentialsResponse(error_code=code, error_message=message)

    with pytest.raises(KafkaError, match="needs DESCRIBE permission on the cluster") as raised:
        asyncio.run(user_admin.list_users(ScriptedCluster(answer).client()))

    assert raised.value.code is code


def test_the_message_of_a_server_that_names_the_right_is_kept() -> None:
    message = "User:bob from 10.0.0.1 needs ALTER permission on the cluster."
    cluster = ScriptedCluster(altered(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, message))

    refused = asyncio.run(user_admin.alter_users(cluster.client()))

    assert refused["anna"].detail == f"user anna: {message}"


def test_the_keys_of_a_password_are_those_of_rfc_7677() -> None:
    """The example of RFC 7677, section 3; its server signature is derived from these keys."""
    import base64
    import hashlib
    import hmac

    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    change = user_admin.upsertion("user", "pencil", SHA_256, 4096, salt)

    covered = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,"
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    signature = hmac.digest(keys_of(SHA_256, change.salted_password).server_key, covered, hashlib.sha256)
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_each_password_has_a_salt_of_its_own_and_none_is_shown() -> None:
    one, other = (user_admin.upsertion("anna", "secret", SHA_512, 4096) for _ in range(2))

    assert one.salt != other.salt and len(one.salted_password) == 64
    assert "secret)" in repr(one) and repr(one.salted_password) not in repr(one)


def test_names_and_passwords_are_used_unchanged_as_in_kafka() -> None:
    """SASLprep would map these two to the same password."""
    composed = user_admin.upsertion("a=b,c", "\u00e9", SHA_256, 4096, b"salt")
    decomposed = user_admin.upsertion("a=b,c", "e\u0301", SHA_256, 4096, b"salt")

    assert composed.name == "a=b,c" and composed.salted_password != decomposed.salted_password


def test_rejected_changes_are_returned_by_user() -> None:
    cluster = ScriptedCluster(altered(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"))
    change = user_admin.upsertion("anna", "secret", SHA_512, 1)

    refused = asyncio.run(user_admin.alter_users(cluster.client(), upsertions=[change]))

    assert {name: error.code for name, error in refused.items()} == {
        "anna": ErrorCode.UNACCEPTABLE_CREDENTIAL
    }
    assert only_request(cluster).upsertions == [change]


@pytest.mark.parametrize("first", [LOST, altered(ErrorCode.NOT_CONTROLLER)])
def test_a_deletion_whose_response_was_lost_is_a_success(first: object) -> None:
    cluster = ScriptedCluster(first, altered(ErrorCode.RESOURCE_NOT_FOUND))
    gone = [user_admin.deletion("anna", SHA_512)]

    assert asyncio.run(user_admin.alter_users(cluster.client(), deletions=gone)) == {}

    cluster = ScriptedCluster(altered(ErrorCode.RESOURCE_NOT_FOUND))
    refused = asyncio.run(user_admin.alter_users(cluster.client(), deletions=gone))
    assert refused["anna"].code is ErrorCode.RESOURCE_NOT_FOUND


def test_a_mechanism_is_written_as_clients_write_it() -> None:
    assert user_admin.words_of(SHA_512) == "SCRAM-SHA-512"


@pytest.mark.parametrize(
    "message", ["User:bob from 10.0.0.1 needs DESCRIBE permission on the cluster.", None]
)
def test_a_look_up_for_a_change_names_the_right_to_change(message: str | None) -> None:
    answer = DescribeUserScramCredentialsResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=message
    )
    listing = user_admin.list_users(ScriptedCluster(answer).client())

    with pytest.raises(KafkaError, match="needs ALTER permission on the cluster"):
        asyncio.run(for_a_change(listing, AclOperation.ALTER))
