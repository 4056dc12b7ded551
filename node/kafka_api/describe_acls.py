"""DescribeAcls: the access control entries that a filter matches, by resource (KIP-140, KIP-290)."""

from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.metadata_raft.acl import AccessControlEntry, AclOperation
from ottla.metadata_raft.acl_control import checked_filter
from ottla.node.kafka_api.acl_requests import PRINCIPAL, check_authorizer, filter_fields
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ottla.node.wire.request_limits import NAME, SEVERAL, RequestLimits
from ottla.node.work.turns import listed

API: Final = ApiDescription(
    versions=(1, 3),
    asks=Asks(of_cluster=AclOperation.DESCRIBE),
    limits=RequestLimits(
        SEVERAL,
        {"resource_name_filter": NAME, "principal_filter": PRINCIPAL, "host_filter": NAME},
    ),
    changes_nothing=True,
)

AT_ONCE: Final = 1_000  # of more entries the answer is made in turns


async def handle(
    services: Services, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    acls = services.metadata.image.acls
    try:
        check_authorizer(services, "No Authorizer is configured on the broker")
        selected = checked_filter(filter_fields(request))
    except KafkaError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.detail)
    is_large = len(acls) > AT_ONCE
    found = sorted(await listed((entry for _, entry in acls.matching(selected)), is_large=is_large))
    by_resource: dict[tuple[int, str, int], list[AclDescription]] = {}
    for entry in found:
        by_resource.setdefault(entry[:3], []).append(_description(entry))
    resources = (
        DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=descriptions)
        for (kind, name, pattern), descriptions in by_resource.items()
    )
    return DescribeAclsResponse(error_message=None, resources=await listed(resources, is_large=is_large))


def _description(entry: AccessControlEntry) -> AclDescription:
    return AclDescription(
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission_type,
    )
