"""AlterConfigs: replaces all settings of a resource; settings that are not named return to their defaults."""

from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.metadata_raft.commands import ConfigChange, ConfigOperation
from ottla.metadata_raft.records import ConfigResourceType
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.config_resources import alter_resources
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ottla.node.wire.request_limits import ALTERED_CONFIGS, MANY_CHANGED, RequestLimits

API: Final = ApiDescription(
    versions=(0, 2),
    asks=Asks(
        by_handler=(
            (AclOperation.ALTER_CONFIGS, ResourceType.TOPIC),
            (AclOperation.ALTER_CONFIGS, ResourceType.GROUP),
            (AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER),
        )
    ),
    limits=RequestLimits(MANY_CHANGED, ALTERED_CONFIGS, ErrorCode.POLICY_VIOLATION),
    echoes=(Echo("resources", "responses", ("resource_type", "resource_name")),),
)


async def handle(
    services: Services, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    responses = await alter_resources(
        services,
        context,
        request.resources,
        _changes,
        AlterConfigsResourceResponse,
        replace_all=True,
        validate_only=request.validate_only,
    )
    return AlterConfigsResponse(responses=responses)


def _changes(resource: AlterConfigsResource) -> list[ConfigChange] | KafkaError:
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        return KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
    return [
        ConfigChange(name=config.name, operation=ConfigOperation.SET, value=config.value)
        for config in resource.configs
    ]
