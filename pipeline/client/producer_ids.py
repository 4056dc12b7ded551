"""A producer id for writes without transactions; any node assigns one."""

from ottla.node.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.pipeline.client.answers import check
from ottla.pipeline.client.metadata import Cluster
from ottla.pipeline.columns.producer_pair import ProducerPair

NO_TRANSACTION_MS = 2**31 - 1  # the value that Java's producer sends


def new_producer_pair(cluster: Cluster) -> ProducerPair:
    """Return a new producer id with its first epoch."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=NO_TRANSACTION_MS)

    def attempt() -> ProducerPair:
        response: InitProducerIdResponse = cluster.connections.to_any().request(request, most=5)
        check(response.error_code, "a producer id")
        return ProducerPair(response.producer_id, response.producer_epoch)

    return cluster.retry(attempt)
