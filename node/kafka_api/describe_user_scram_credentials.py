"""DescribeUserScramCredentials: the SCRAM mechanisms of users, and their iterations (KIP-554).

Salts and keys are never returned.
"""

from collections import Counter
from typing import Final

from ottla.logstore.words.errors import ErrorCode
from ottla.metadata_raft.acl import AclOperation
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ottla.node.wire.request_limits import NAME, SEVERAL, RequestLimits
from ottla.node.work.turns import listed

API: Final = ApiDescription(
    versions=(0, 0),
    asks=Asks(of_cluster=AclOperation.DESCRIBE),
    limits=RequestLimits(SEVERAL, {"users.name": NAME}),
    echoes=(Echo("users", "results"),),
    changes_nothing=True,
)

AT_ONCE: Final = 1_000  # a response with more credentials is built in turns


async def handle(
    services: Services, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    credentials = services.metadata.image.scram_credentials
    is_large = len(credentials) > AT_ONCE
    infos: dict[str, list[CredentialInfo]] = {}
    for key, credential in await listed(iter(credentials.items()), is_large=is_large):
        info = CredentialInfo(mechanism=key.mechanism, iterations=credential.iterations)
        infos.setdefault(key.user, []).append(info)
    # No users in the request stands for all users.
    times = Counter(user.name for user in request.users or ()) or Counter(infos.keys())

    def result(user: str) -> DescribeUserScramCredentialsResult:
        if times[user] > 1:
            return DescribeUserScramCredentialsResult(
                user=user,
                error_code=ErrorCode.DUPLICATE_RESOURCE,
                error_message="Cannot describe SCRAM credentials for the same user twice in a single "
                f"request: {user}",
            )
        if user not in infos:
            return DescribeUserScramCredentialsResult(
                user=user,
                error_code=ErrorCode.RESOURCE_NOT_FOUND,
                error_message=f"Attempt to describe a user credential that does not exist: {user}",
            )
        return DescribeUserScramCredentialsResult(
            user=user,
            error_message=None,
            credential_infos=sorted(infos[user], key=lambda info: info.mechanism),
        )

    results = await listed(map(result, sorted(times)), is_large=len(times) > AT_ONCE)
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)
