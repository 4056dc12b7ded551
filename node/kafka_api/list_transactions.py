"""ListTransactions: the transactional ids of this node that pass the filters (KIP-664).

Since 1 by how long their transaction is open already (KIP-994); since 2 by an expression over the whole id
(KIP-1152), where an empty one is none.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from groupcoord.transactions.id_pattern import IdPattern
from groupcoord.transactions.transaction_commands import ListTransactions
from groupcoord.transactions.transaction_results import ListTransactionsResult
from groupcoord.transactions.transaction_state import TransactionState as State
from logstore.errors import ErrorCode, KafkaError
from node.kafka_api.request_context import RequestContext
from node.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from node.broker import Broker

STATE_NAMES = frozenset(state.value for state in State)


def handle(broker: "Broker", context: RequestContext, request: ListTransactionsRequest) -> Any:
    states = frozenset(request.state_filters)
    producer_ids = frozenset(request.producer_id_filters)
    try:
        pattern = IdPattern(request.transactional_id_pattern) if request.transactional_id_pattern else None
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)

    def build(answers: Sequence[ListTransactionsResult | KafkaError]) -> ListTransactionsResponse:
        results = []
        for answer in answers:
            if not isinstance(answer, KafkaError):
                results.append(answer)
            elif answer.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return ListTransactionsResponse(error_code=answer.code)
        return ListTransactionsResponse(
            unknown_state_filters=sorted(states - STATE_NAMES),
            transaction_states=[
                TransactionState(
                    transactional_id=one.transactional_id,
                    producer_id=one.producer_id,
                    transaction_state=one.state,
                )
                for result in results
                for one in result.transactions
            ],
        )

    return broker.txns.ask_all_shards(
        lambda token: ListTransactions(
            token=token,
            states=states,
            producer_ids=producer_ids,
            longer_than_ms=request.duration_filter,
            pattern=pattern,
        ),
        build,
        is_large=context.is_large,
    )
