"""Settings of brokers that a client has to keep to."""

from typing import Final

from ottla.logstore.words.errors import ErrorCode
from ottla.node.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.pipeline.client.answers import check
from ottla.pipeline.client.connections import Purpose
from ottla.pipeline.client.metadata import Cluster

_BROKER: Final = 4  # the type of a resource
_MAX_TIMEOUT: Final = "transaction.max.timeout.ms"
DEFAULT_MAX_TIMEOUT_MS: Final = 900_000


def max_transaction_timeout_ms(cluster: Cluster) -> int:
    """Return the longest time that transactions may be open, as one node reports it, or Kafka's default.

    Nodes hide their settings from clients without that right, which few producers need.
    """
    cluster.topics([])  # learns which nodes there are now

    def attempt() -> int:
        node_id = cluster.connections.nodes()[0]
        resource = DescribeConfigsResource(
            resource_type=_BROKER, resource_name=str(node_id), configuration_keys=[_MAX_TIMEOUT]
        )
        connection = cluster.connections.to(node_id, Purpose.CONTROL)
        response: DescribeConfigsResponse = connection.request(DescribeConfigsRequest(resources=[resource]))
        for result in response.results:
            if result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                return DEFAULT_MAX_TIMEOUT_MS
            check(result.error_code, f"settings of node {node_id}", result.error_message)
            for config in result.configs:
                if config.name == _MAX_TIMEOUT and (config.value or "").isdecimal():
                    return min(int(config.value or 0), 2**31 - 1) or DEFAULT_MAX_TIMEOUT_MS
        return DEFAULT_MAX_TIMEOUT_MS

    return cluster.retry(attempt)
