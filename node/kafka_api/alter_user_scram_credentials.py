"""AlterUserScramCredentials: sets and removes SCRAM credentials of users (KIP-554).

The client sends the salted password, which is as powerful as the password. It goes no further than this
module: the command has the keys with which a password is verified.
"""

from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.commands import (
    AlterUserScramCredentials,
    NamedResult,
    ScramDeletion,
    ScramUpsertion,
)
from ottla.metadata_raft.scram import ScramKeys, ScramMechanism, keys_of, mechanism_of
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)
from ottla.node.wire.request_limits import NAME, SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(0, 0),
    asks=Asks(of_cluster=AclOperation.ALTER),
    limits=RequestLimits(
        SEVERAL,
        {
            "deletions.name": NAME,
            "upsertions.name": NAME,
            "upsertions.salt": NAME,
            "upsertions.salted_password": NAME,
        },
        ErrorCode.POLICY_VIOLATION,
    ),
    echoes=(
        Echo("deletions", "results", ("name>user",)),
        Echo("upsertions", "results", ("name>user",)),
    ),
)

_NO_KEYS: Final = ScramKeys(b"", b"")  # the controller rejects these, with a reason


async def handle(
    services: Services, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    try:
        command = AlterUserScramCredentials(
            deletions=[ScramDeletion(name=one.name, mechanism=one.mechanism) for one in request.deletions],
            upsertions=[_upsertion(one) for one in request.upsertions],
        )
        results = (await services.metadata.submit(command, client=context.client)).results
    except KafkaError as error:
        users = sorted({one.name for one in request.deletions} | {one.name for one in request.upsertions})
        results = [
            NamedResult(name=user, error_code=error.code, error_message=error.detail) for user in users
        ]
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=result.name, error_code=result.error_code, error_message=result.error_message
            )
            for result in results
        ]
    )


def _upsertion(upsertion: ScramCredentialUpsertion) -> ScramUpsertion:
    mechanism = mechanism_of(upsertion.mechanism)
    keys = _NO_KEYS
    if mechanism is not ScramMechanism.UNKNOWN and len(upsertion.salted_password) == mechanism.key_bytes:
        keys = keys_of(mechanism, upsertion.salted_password)
    return ScramUpsertion(
        name=upsertion.name,
        mechanism=upsertion.mechanism,
        iterations=upsertion.iterations,
        salt=upsertion.salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
    )
