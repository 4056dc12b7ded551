"""UpdateFeatures: finalized features go up or down (KIP-584).

0 says by a boolean that a feature may go down, which is the safe way of doing so. Until 1 every feature has a
result of its own; since 2 the request succeeds or fails as a whole (KIP-1022), which it always did here.
"""

from typing import TYPE_CHECKING

from logstore.errors import ErrorCode, KafkaError
from metadata_raft.commands import FeatureUpdate, UpdateFeatures, UpgradeType
from node.kafka_api.request_context import RequestContext
from node.kafka_api.request_timeout import command_timeout_ms
from node.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from node.broker import Broker

RESULTS_UNTIL = 1


async def handle(
    broker: "Broker", context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    command = UpdateFeatures(
        feature_updates=[_update(one, context.api_version) for one in request.feature_updates],
        validate_only=request.validate_only,
    )
    failure = KafkaError(ErrorCode.NONE)
    try:
        await broker.metadata.submit(command, command_timeout_ms(request.timeout_ms))
    except KafkaError as error:
        failure = error
    message = failure.detail if failure.code else None
    if context.api_version <= RESULTS_UNTIL:
        return UpdateFeaturesResponse(
            error_message=None,
            results=[
                UpdatableFeatureResult(feature=one.feature, error_code=failure.code, error_message=message)
                for one in request.feature_updates
            ],
        )
    return UpdateFeaturesResponse(error_code=failure.code, error_message=message)


def _update(asked: FeatureUpdateKey, api_version: int) -> FeatureUpdate:
    upgrade_type = asked.upgrade_type
    if api_version == 0:
        upgrade_type = UpgradeType.SAFE_DOWNGRADE if asked.allow_downgrade else UpgradeType.UPGRADE
    return FeatureUpdate(
        feature=asked.feature, max_version_level=asked.max_version_level, upgrade_type=upgrade_type
    )
