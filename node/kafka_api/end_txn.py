"""EndTxn: commits or aborts a transaction.

The response is sent when the decision is durable, not when all partitions have their markers. Up to 4 the
producer keeps its epoch. Since 5 each end bumps it (KIP-890), and the response has the new epoch.
"""

from typing import Final

from ottla.groupcoord.transactions.transaction import CLIENT_V1, CLIENT_V2, ProducerPair
from ottla.groupcoord.transactions.transaction_commands import EndTransaction
from ottla.groupcoord.transactions.transaction_effects import CloseWithoutResponse
from ottla.groupcoord.transactions.transaction_results import EndTransactionResult
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import CloseConnection, Result
from ottla.node.services import Services
from ottla.node.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.node.wire.request_limits import NAME, SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(0, 5),
    asks=Asks(by_handler=((AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID),)),
    limits=RequestLimits(SEVERAL, {"transactional_id": NAME}),
)

FIRST_FENCED_VERSION = 2  # older clients know INVALID_PRODUCER_EPOCH only
FIRST_MOVING_VERSION = 5


def handle(services: Services, context: RequestContext, request: EndTxnRequest) -> Result[EndTxnResponse]:
    version = context.api_version
    context.access.check(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)

    def build(answer: EndTransactionResult | CloseWithoutResponse | KafkaError) -> EndTxnResponse:
        if isinstance(answer, CloseWithoutResponse):
            raise CloseConnection(
                "an EndTxn arrived after a later one of the same producer that came "
                "over a newer connection: it is a late copy"
            )
        if isinstance(answer, KafkaError):
            code = answer.code
            if code is ErrorCode.PRODUCER_FENCED and version < FIRST_FENCED_VERSION:
                code = ErrorCode.INVALID_PRODUCER_EPOCH
            return EndTxnResponse(error_code=code)
        return EndTxnResponse(
            producer_id=answer.producer.producer_id, producer_epoch=answer.producer.producer_epoch
        )

    return services.txns.ask(
        request.transactional_id,
        lambda token: EndTransaction(
            token=token,
            transactional_id=request.transactional_id,
            producer=ProducerPair(request.producer_id, request.producer_epoch),
            committed=request.committed,
            client_version=CLIENT_V2 if version >= FIRST_MOVING_VERSION else CLIENT_V1,
            connection_number=context.connection.number,
        ),
        build,
        keeps_nothing=True,
    )
