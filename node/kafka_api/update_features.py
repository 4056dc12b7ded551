"""UpdateFeatures: upgrades or downgrades finalized features (KIP-584).

Version 0 allows a downgrade with a boolean, which stands for a safe downgrade. The request succeeds or fails
as a whole; up to 1 the success is repeated for each feature (KIP-1022).
"""

from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.commands import FeatureUpdate, UpdateFeatures, UpgradeType
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.kafka_api.request_timeout import command_timeout_ms
from ottla.node.services import Services
from ottla.node.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ottla.node.wire.request_limits import NAME, SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(0, 2),
    asks=Asks(of_cluster=AclOperation.ALTER),
    limits=RequestLimits(SEVERAL, {"feature_updates.feature": NAME}),
)

RESULTS_UNTIL = 1


async def handle(
    services: Services, context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    command = UpdateFeatures(
        feature_updates=[_update(one, context.api_version) for one in request.feature_updates],
        validate_only=request.validate_only,
    )
    try:
        await services.metadata.submit(command, command_timeout_ms(request.timeout_ms), context.client)
    except KafkaError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=error.detail)
    results = []
    if context.api_version <= RESULTS_UNTIL:
        results = [
            UpdatableFeatureResult(
                feature=one.feature, error_code=ErrorCode.NONE, error_message=ErrorCode.NONE.name
            )
            for one in request.feature_updates
        ]
    return UpdateFeaturesResponse(error_message=None, results=results)


def _update(requested: FeatureUpdateKey, api_version: int) -> FeatureUpdate:
    upgrade_type = requested.upgrade_type
    if api_version == 0:
        upgrade_type = UpgradeType.SAFE_DOWNGRADE if requested.allow_downgrade else UpgradeType.UPGRADE
    return FeatureUpdate(
        feature=requested.feature, max_version_level=requested.max_version_level, upgrade_type=upgrade_type
    )
