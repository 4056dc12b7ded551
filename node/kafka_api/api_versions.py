"""ApiVersions: the APIs that this node serves, and the finalized features of the cluster.

Versions 0 to 5. Since 3 clients send their name (KIP-511) and get features (KIP-584); version 3 must not show
a feature with a minimum of 0, which old parsers reject; later ones may. Since 5 clients send the cluster and
node that they mean to reach, and get REBOOTSTRAP_REQUIRED if it is another one (KIP-1242).

All clients of a version get the same response until the metadata change, so it is encoded once.
"""

import re
from typing import Final

from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.schema_compiler import encoder
from ottla.logstore.words.topic_partition import uuid_to_text
from ottla.node.kafka_api.api_description import NOTHING, ApiDescription
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.kafka_api.served_apis import SERVED
from ottla.node.net.answers import EncodedBody
from ottla.node.services import QuorumServices
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ottla.node.wire.request_limits import NAME, SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(0, 5),
    asks=NOTHING,
    limits=RequestLimits(
        SEVERAL, {"client_software_name": NAME, "client_software_version": NAME, "cluster_id": NAME}
    ),
    is_served_early=True,
)

_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(
    services: QuorumServices, context: RequestContext, request: ApiVersionsRequest
) -> ApiVersionsResponse | EncodedBody:
    if context.api_version >= 3 and not (
        _SOFTWARE_NAME.fullmatch(request.client_software_name)
        and _SOFTWARE_NAME.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    image = services.metadata.image
    is_other_cluster = request.cluster_id not in (None, uuid_to_text(image.cluster_id))
    if is_other_cluster or request.node_id not in (-1, services.config.node_id):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    answers, key = services.metadata.encoded_versions, (context.api_version,)
    body = answers.get(key)
    if body is None:
        response = _response(services, context.api_version)
        body = encoder(ApiVersionsResponse, context.api_version)(response, bytearray())
        answers.put(key, body)
    return EncodedBody(body)


def _response(services: QuorumServices, api_version: int) -> ApiVersionsResponse:
    image = services.metadata.image
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=first, max_version=last)
            for key, (first, last) in sorted(services.served_apis.items())
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=first, max_version=last)
            for name, (first, last) in sorted(services.supported_features.items())
            if first > 0 or api_version >= 4
        ],
        finalized_features_epoch=image.version,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in sorted(image.features.items())
        ],
    )


def unsupported_version() -> ApiVersionsResponse:
    """Return the response to an unknown version: version 0, with the versions of this API only (KIP-511)."""
    first, last = SERVED[ApiKey.API_VERSIONS]
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=first, max_version=last)],
    )
