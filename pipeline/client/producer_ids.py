"""A producer id for one who writes without transactions; any node gives it."""

from ottla.node.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.pipeline.client.answers import check
from ottla.pipeline.client.metadata import Cluster
from ottla.pipeline.columns.producer_pair import ProducerPair

NO_TRANSACTION_MS = 2**31 - 1  # as Java's producer says


def new_producer_pair(cluster: Cluster) -> ProducerPair:
    """A new producer id with its first epoch."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=NO_TRANSACTION_MS)

    def attempt() -> ProducerPair:
        response: InitProducerIdResponse = cluster.connections.to_any().request(request, most=5)
        check(response.error_code, "a producer id")
        return ProducerPair(response.producer_id, response.producer_epoch)

    return cluster.retry(attempt)
