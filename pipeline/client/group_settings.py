"""The one setting of a group that the sink uses: its offsets never expire."""

from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.pipeline.client.answers import to_error
from ottla.pipeline.client.metadata import Cluster
from ottla.pipeline.client.retries import is_retriable

RETENTION: Final = "ottla.offsets.retention.ms"
KEEP_FOREVER: Final = "-1"
_GROUP: Final = 32  # the type of a resource
_SET: Final = 0


def keep_offsets(cluster: Cluster, group_id: str) -> bool:
    """Let the offsets of a group never expire; return False if the cluster refuses, as Apache Kafka does."""
    change = AlterableConfig(name=RETENTION, config_operation=_SET, value=KEEP_FOREVER)
    resource = AlterConfigsResource(resource_type=_GROUP, resource_name=group_id, configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource])

    def attempt() -> bool:
        response: IncrementalAlterConfigsResponse = cluster.connections.to_any().request(request)
        for one in response.responses:
            if one.error_code:
                error = to_error(one.error_code, f"settings of group {group_id}", one.error_message)
                if is_retriable(error):
                    raise error
                return False
        return True

    try:
        return cluster.retry(attempt)
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            return False
        raise
