"""DeleteAcls: deletes the access control entries that filters match (KIP-140, KIP-290).

All filters are one command: an entry that two of them match is in the results of both, and if they match too
many entries, none is deleted.
"""

from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.commands import AclFields, DeleteAcls, DeletedAcls
from ottla.node.kafka_api.acl_requests import PRINCIPAL, check_authorizer, filter_fields
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.node.wire.request_limits import NAME, SEVERAL, RequestLimits
from ottla.node.work.turns import Turn, listed

API: Final = ApiDescription(
    versions=(1, 3),
    asks=Asks(of_cluster=AclOperation.ALTER),
    limits=RequestLimits(
        SEVERAL,
        {
            "filters.resource_name_filter": NAME,
            "filters.principal_filter": PRINCIPAL,
            "filters.host_filter": NAME,
        },
    ),
    echoes=(Echo("filters", "filter_results"),),
)

AT_ONCE: Final = 100  # more filters are decoded, and responses with more deleted entries are built, in turns


async def handle(
    services: Services, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse:
    try:
        check_authorizer(services, "No Authorizer is configured.")
        is_large = len(request.filters) > AT_ONCE
        filters = await listed(map(filter_fields, request.filters), is_large=is_large)
        results = (await services.metadata.submit(DeleteAcls(filters=filters), client=context.client)).results
    except KafkaError as error:
        results = [DeletedAcls(error_code=error.code, error_message=error.detail) for _ in request.filters]
    is_large = sum(len(one.matching) for one in results) > AT_ONCE
    answered = []
    turn = Turn()
    for one in results:
        matching = await listed(map(_matching_acl, one.matching), is_large=is_large)
        answered.append(
            DeleteAclsFilterResult(
                error_code=one.error_code, error_message=one.error_message, matching_acls=matching
            )
        )
        await turn.step()
    return DeleteAclsResponse(filter_results=answered)


def _matching_acl(removed: AclFields) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=removed.resource_type,
        resource_name=removed.resource_name,
        pattern_type=removed.pattern_type,
        principal=removed.principal,
        host=removed.host,
        operation=removed.operation,
        permission_type=removed.permission_type,
    )
