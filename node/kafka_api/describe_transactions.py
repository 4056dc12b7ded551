"""DescribeTransactions: the state of transactional ids, from their coordinator (KIP-664). Version 0."""

from collections.abc import Sequence
from itertools import compress
from typing import Final

from ottla.groupcoord.transactions.transaction_commands import DescribeTransactions
from ottla.groupcoord.transactions.transaction_results import DescribedTransaction, DescribeTransactionsResult
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.authorization.access import Access
from ottla.node.coordinators.txn_runtime import Make
from ottla.node.kafka_api.answered_once import names_once
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.refusals import with_denials
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from ottla.node.wire.request_limits import MANY, NAME, RequestLimits
from ottla.node.work.turns import listed

API: Final = ApiDescription(
    versions=(0, 0),
    asks=Asks(
        by_handler=(
            (AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
            (AclOperation.DESCRIBE, ResourceType.TOPIC),
        )
    ),
    limits=RequestLimits(MANY, {"transactional_ids": NAME}),
    old_ids=("transactional_ids",),
    echoes=(Echo("transactional_ids", "transaction_states", ("transactional_id",)),),
    changes_nothing=True,
)


async def handle(
    services: Services, context: RequestContext, request: DescribeTransactionsRequest
) -> Result[DescribeTransactionsResponse]:
    ids, access = names_once(request.transactional_ids), context.access
    allowed = access.allows_each(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, ids)
    may_describe = await listed(allowed, is_large=context.is_large)
    commands = await listed(
        ((each, _make(each)) for each in compress(ids, may_describe)), is_large=context.is_large
    )
    denied = KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

    def build(answers: Sequence[DescribeTransactionsResult | KafkaError]) -> DescribeTransactionsResponse:
        of_all = with_denials(answers, may_describe, denied)
        return DescribeTransactionsResponse(
            transaction_states=[
                TransactionState(transactional_id=transactional_id, error_code=answer.code)
                if isinstance(answer, KafkaError)
                else _state(access, answer.transactions[0])
                for transactional_id, answer in zip(ids, of_all, strict=True)
            ]
        )

    return services.txns.ask_each(commands, build, is_large=context.is_large)


def _make(transactional_id: str) -> Make:
    return lambda token: DescribeTransactions(token=token, transactional_ids=(transactional_id,))


def _state(access: Access, found: DescribedTransaction) -> TransactionState:
    if found.error is not ErrorCode.NONE:
        return TransactionState(transactional_id=found.transactional_id, error_code=found.error)
    return TransactionState(
        transactional_id=found.transactional_id,
        transaction_state=found.state,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=partitions)
            for topic, partitions in (found.topics or {}).items()
            if access.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic, log_if_denied=False)
        ],
    )
