"""CreateAcls: creates access control entries (KIP-140, KIP-290)."""

from collections.abc import Sequence
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.commands import CreateAcls, NewAcl, ResourceResult
from ottla.node.kafka_api.acl_requests import PRINCIPAL, check_authorizer
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.metadata.command_parts import submit_in_parts
from ottla.node.metadata.metadata_runtime import DEFAULT_TIMEOUT_MS
from ottla.node.services import Services
from ottla.node.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ottla.node.wire.request_limits import MANY_CHANGED, NAME, RequestLimits
from ottla.node.work.turns import listed

API: Final = ApiDescription(
    versions=(1, 3),
    asks=Asks(of_cluster=AclOperation.ALTER),
    limits=RequestLimits(
        MANY_CHANGED,
        {"creations.resource_name": NAME, "creations.principal": PRINCIPAL, "creations.host": NAME},
        ErrorCode.POLICY_VIOLATION,
    ),
    echoes=(Echo("creations", "results"),),
)


async def handle(
    services: Services, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse:
    def refused(part: Sequence[object], error: KafkaError) -> list[ResourceResult]:
        return [ResourceResult(error_code=error.code, error_message=error.detail) for _ in part]

    async def submit(part: list[NewAcl], timeout_ms: int) -> Sequence[ResourceResult]:
        return (
            await services.metadata.submit(CreateAcls(creations=part), timeout_ms, context.client)
        ).results

    try:
        check_authorizer(services, "No Authorizer is configured.")
    except KafkaError as error:
        results = refused(request.creations, error)
    else:
        wanted = (
            NewAcl(
                id=services.unique(16),
                resource_type=one.resource_type,
                resource_name=one.resource_name,
                pattern_type=one.resource_pattern_type,
                principal=one.principal,
                host=one.host,
                operation=one.operation,
                permission_type=one.permission_type,
            )
            for one in request.creations
        )
        results = await submit_in_parts(
            await listed(wanted, is_large=context.is_large),
            records_of=lambda creation: 1,
            key_of=id,  # an entry that is created twice succeeds in any part
            submit=submit,
            refused=refused,
            timeout_ms=DEFAULT_TIMEOUT_MS,  # the request has no timeout
        )
    answered = (
        AclCreationResult(error_code=result.error_code, error_message=result.error_message)
        for result in results
    )
    return CreateAclsResponse(results=await listed(answered, is_large=context.is_large))
