"""ListConfigResources: the resources that have settings (KIP-714 as version 0, KIP-1142).

Version 0 lists the subscriptions to client metrics. Version 1 lists resources of the requested types, or of
all types if none is named: every topic, every broker, and the groups and subscriptions that have settings.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.schema_compiler import encoder
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.records import ConfigResourceType
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import EncodedBody
from ottla.node.services import Services
from ottla.node.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ottla.node.wire.request_limits import SEVERAL, RequestLimits
from ottla.node.work.turns import Steps, ordered, take_turns

API: Final = ApiDescription(
    versions=(0, 1),
    asks=Asks(of_cluster=AclOperation.DESCRIBE_CONFIGS),
    limits=RequestLimits(SEVERAL),
    changes_nothing=True,
)

AT_ONCE: Final = 1_000  # a response with more resources is encoded in a thread

_LISTED = (
    ConfigResourceType.TOPIC,
    ConfigResourceType.BROKER,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.CLIENT_METRICS,
    ConfigResourceType.GROUP,
)


async def handle(
    services: Services, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse | EncodedBody:
    if context.api_version == 0:
        wanted = {int(ConfigResourceType.CLIENT_METRICS)}
    else:
        wanted = set(request.resource_types) or set(_LISTED)
    if not wanted.issubset(_LISTED):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    found = await take_turns(_resources(services.metadata.image, sorted(wanted)))
    response = ListConfigResourcesResponse(config_resources=found)
    if len(found) <= AT_ONCE:
        return response
    encode = encoder(ListConfigResourcesResponse, context.api_version)
    return EncodedBody(await services.in_thread(partial(encode, response, bytearray())))


def _resources(image: MetadataImage, kinds: Sequence[int]) -> Steps[list[ConfigResource]]:
    """Return all resources of some types; a small request may list a hundred thousand topics."""
    found = []
    for kind in kinds:
        for name in (yield from _names(image, ConfigResourceType(kind))):
            found.append(ConfigResource(resource_name=name, resource_type=kind))
            yield
    return found


def _names(image: MetadataImage, kind: ConfigResourceType) -> Steps[list[str]]:
    match kind:
        case ConfigResourceType.TOPIC:
            return (yield from ordered(image.topics.by_name))
        case ConfigResourceType.BROKER | ConfigResourceType.BROKER_LOGGER:
            return [str(broker_id) for broker_id in sorted(image.brokers)]
        case _:
            return (yield from ordered(name for number, name in image.configs.by_resource if number == kind))
