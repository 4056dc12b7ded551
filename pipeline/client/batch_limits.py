"""The largest batch that a topic's log takes, asked before rows are encoded so that none must be split."""

from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.node.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.pipeline.client.answers import check
from ottla.pipeline.client.metadata import Cluster

_TOPIC: Final = 2  # the type of a resource
# A batch larger than a segment is refused as well.
_LIMITS: Final = ("max.message.bytes", "segment.bytes")
NO_LIMIT_BYTES: Final = 2**31 - 1


def max_batch_bytes(cluster: Cluster, topic: str) -> int:
    """Return the most bytes of a batch in `topic`, cached as long as the topic's metadata.

    It is NO_LIMIT_BYTES if the limit is not known, as a client may lack the right to ask: a refused batch is
    split anyway.
    """
    known = cluster.batch_bytes.get(topic)
    if known is None:
        try:
            known = cluster.retry(lambda: _request_limits(cluster, topic))
        except KafkaError:
            known = NO_LIMIT_BYTES
        cluster.batch_bytes[topic] = known
    return known


def _request_limits(cluster: Cluster, topic: str) -> int:
    resource = DescribeConfigsResource(
        resource_type=_TOPIC, resource_name=topic, configuration_keys=list(_LIMITS)
    )
    request = DescribeConfigsRequest(resources=[resource])
    response: DescribeConfigsResponse = cluster.connections.to_any().request(request)
    limits = [NO_LIMIT_BYTES]
    for result in response.results:
        check(result.error_code, f"settings of topic {topic}", result.error_message)
        limits += [
            int(one.value)
            for one in result.configs
            if one.name in _LIMITS and one.value is not None and one.value.isdigit()
        ]
    return min(limits)
