"""ListConfigResources: what has settings of its own (KIP-714 as version 0, KIP-1142).

0 lists the subscriptions to client metrics. 1 lists resources of the types asked for, of
all types if none is named: every topic, every broker, and the groups and subscriptions that have settings.
"""

from typing import Final

from ottla.logstore.words.errors import ErrorCode
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.records import ConfigResourceType
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ottla.node.wire.request_limits import SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(0, 1),
    asks=Asks(of_cluster=AclOperation.DESCRIBE_CONFIGS),
    limits=RequestLimits(SEVERAL),
    changes_nothing=True,
)

_LISTED = (
    ConfigResourceType.TOPIC,
    ConfigResourceType.BROKER,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.CLIENT_METRICS,
    ConfigResourceType.GROUP,
)


def handle(
    services: Services, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    if context.api_version == 0:
        wanted = {int(ConfigResourceType.CLIENT_METRICS)}
    else:
        wanted = set(request.resource_types) or set(_LISTED)
    if not wanted.issubset(_LISTED):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = services.metadata.image
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in sorted(wanted)
            for name in _names(image, ConfigResourceType(kind))
        ]
    )


def _names(image: MetadataImage, kind: ConfigResourceType) -> list[str]:
    match kind:
        case ConfigResourceType.TOPIC:
            return sorted(image.topics.by_name)
        case ConfigResourceType.BROKER | ConfigResourceType.BROKER_LOGGER:
            return [str(broker_id) for broker_id in sorted(image.brokers)]
        case _:
            return sorted(name for number, name in image.configs.by_resource if number == kind)
