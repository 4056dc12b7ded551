"""SCRAM users: list them, set their passwords and delete them (KIP-554).

The keys are derived from the password here, so the password itself never leaves this process. Names and
passwords are used as they are, in UTF-8: Kafka's clients and brokers do not apply SASLprep (RFC 4013), and a
login by one of them would fail with a prepared password.
"""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.scram import SALT_BYTES, ScramMechanism, mechanism_of
from ottla.node.client.cluster_client import Client
from ottla.node.client.cluster_right import check_right, error_of
from ottla.node.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.node.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)


class ScramUser(NamedTuple):
    """A user, and the iterations of each mechanism by which it can log in."""

    name: str
    iterations: Mapping[ScramMechanism, int]


def words_of(mechanism: ScramMechanism) -> str:
    """Return a mechanism as clients write it: `SCRAM-SHA-512`."""
    return mechanism.name.replace("_", "-")


async def list_users(client: Client, names: Sequence[str] | None = None) -> list[ScramUser]:
    """Return the existing users of these names, or all (None), sorted by name."""
    if names is not None and not names:
        return []  # an empty list would request all
    users = None if names is None else [UserName(name=name) for name in dict.fromkeys(names)]
    request = DescribeUserScramCredentialsRequest(users=users)

    async def attempt() -> list[ScramUser]:
        # The controller has every acknowledged change; other nodes apply it a moment later.
        connection = await client.controller()
        response = await connection.request(
            request, DescribeUserScramCredentialsResponse, timeout_s=client.remaining_s
        )
        check_right(response.error_code, response.error_message, "the list of users", AclOperation.DESCRIBE)
        found = []
        for one in response.results:
            if one.error_code == ErrorCode.RESOURCE_NOT_FOUND:
                continue
            check_right(one.error_code, one.error_message, f"user {one.user}", AclOperation.DESCRIBE)
            infos = sorted(one.credential_infos, key=lambda info: info.mechanism)
            iterations = {mechanism_of(info.mechanism): info.iterations for info in infos}
            found.append(ScramUser(one.user, iterations))
        return sorted(found)

    return await client.retry(attempt)


def upsertion(
    name: str, password: str, mechanism: ScramMechanism, iterations: int, salt: bytes | None = None
) -> ScramCredentialUpsertion:
    """Return the change that sets a user's password; takes milliseconds. The salt is random if None."""
    salt = secrets.token_bytes(SALT_BYTES) if salt is None else salt
    return ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations),
    )


def deletion(name: str, mechanism: ScramMechanism) -> ScramCredentialDeletion:
    """Return the change that deletes a user's credential of this mechanism."""
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


async def alter_users(
    client: Client,
    *,
    upsertions: Sequence[ScramCredentialUpsertion] = (),
    deletions: Sequence[ScramCredentialDeletion] = (),
) -> dict[str, KafkaError]:
    """Make these changes, at most one per user; return the errors of the users that were rejected."""
    request = AlterUserScramCredentialsRequest(upsertions=upsertions, deletions=deletions)
    deleted = {one.name for one in deletions}
    attempts = 0

    async def attempt() -> AlterUserScramCredentialsResponse:
        nonlocal attempts
        attempts += 1
        connection = await client.controller()
        response = await connection.request(
            request, AlterUserScramCredentialsResponse, timeout_s=client.remaining_s
        )
        for one in response.results:
            if one.error_code == ErrorCode.NOT_CONTROLLER:
                check_right(one.error_code, one.error_message, f"user {one.user}", AclOperation.ALTER)
        return response

    response = await client.retry(attempt)
    refused: dict[str, KafkaError] = {}
    for one in response.results:
        # An earlier attempt may have succeeded, and its response may be lost.
        was_done = attempts > 1 and one.user in deleted and one.error_code == ErrorCode.RESOURCE_NOT_FOUND
        error = error_of(one.error_code, one.error_message, f"user {one.user}", AclOperation.ALTER)
        if error is not None and not was_done:
            refused[one.user] = error
    return refused
