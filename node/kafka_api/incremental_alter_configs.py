"""IncrementalAlterConfigs: sets, deletes, appends to or subtracts from single settings (KIP-339)."""

from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.metadata_raft.commands import ConfigChange, ConfigOperation
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.config_resources import alter_resources
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.node.wire.request_limits import ALTERED_CONFIGS, MANY_CHANGED, RequestLimits

API: Final = ApiDescription(
    versions=(0, 1),
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
    services: Services, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    responses = await alter_resources(
        services,
        context,
        request.resources,
        _changes,
        AlterConfigsResourceResponse,
        replace_all=False,
        validate_only=request.validate_only,
    )
    return IncrementalAlterConfigsResponse(responses=responses)


def _changes(resource: AlterConfigsResource) -> list[ConfigChange] | KafkaError:
    known = frozenset(ConfigOperation)
    for config in resource.configs:
        if config.config_operation not in known:
            return KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {config.config_operation}")
    return [
        ConfigChange(name=config.name, operation=config.config_operation, value=config.value)
        for config in resource.configs
    ]
