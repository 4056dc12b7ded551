"""DescribeAcls: the access control entries that a filter matches, by resource (KIP-140, KIP-290)."""

import heapq
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.schema_compiler import encoder
from ottla.metadata_raft.acl import AccessControlEntry, AclOperation
from ottla.metadata_raft.acl_control import checked_filter
from ottla.node.kafka_api.acl_requests import PRINCIPAL, check_authorizer, filter_fields
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import EncodedBody
from ottla.node.services import Services
from ottla.node.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ottla.node.wire.request_limits import NAME, SEVERAL, RequestLimits
from ottla.node.work.turns import give_way, listed

API: Final = ApiDescription(
    versions=(1, 3),
    asks=Asks(of_cluster=AclOperation.DESCRIBE),
    limits=RequestLimits(
        SEVERAL,
        {"resource_name_filter": NAME, "principal_filter": PRINCIPAL, "host_filter": NAME},
    ),
    changes_nothing=True,
)

AT_ONCE: Final = 1_000  # a response with more entries is built in turns


async def handle(
    services: Services, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse | EncodedBody:
    acls = services.metadata.image.acls
    try:
        check_authorizer(services, "No Authorizer is configured on the broker")
        selected = checked_filter(filter_fields(request))
    except KafkaError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.detail)
    is_large = len(acls) > AT_ONCE
    found = await listed((entry for _, entry in acls.matching(selected)), is_large=is_large)
    found = await _sorted(found, is_large=is_large)
    described = await listed(map(_description, found), is_large=is_large)
    resources = await listed(_resources(found, described), is_large=is_large)
    response = DescribeAclsResponse(error_message=None, resources=resources)
    if not is_large:
        return response
    encode = encoder(DescribeAclsResponse, context.api_version)
    return EncodedBody(await services.in_thread(partial(encode, response, bytearray())))


async def _sorted(entries: list[AccessControlEntry], *, is_large: bool) -> list[AccessControlEntry]:
    """Sort entries; many of them in runs that are merged in turns, since one sort would block the loop."""
    runs = []
    for at in range(0, len(entries), AT_ONCE):
        runs.append(sorted(entries[at : at + AT_ONCE]))
        if is_large:
            await give_way()
    return await listed(heapq.merge(*runs), is_large=is_large)


def _resources(
    entries: Sequence[AccessControlEntry], described: Sequence[AclDescription]
) -> Iterator[DescribeAclsResource]:
    """Yield the resources of sorted entries, each with the descriptions of its entries."""
    pairs = zip(entries, described, strict=True)
    for (kind, name, pattern), of_resource in groupby(pairs, key=lambda pair: pair[0][:3]):
        acls = [description for _, description in of_resource]
        yield DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=acls)


def _description(entry: AccessControlEntry) -> AclDescription:
    return AclDescription(
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission_type,
    )
