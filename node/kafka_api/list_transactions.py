"""ListTransactions: the transactional ids of this node that pass the filters (KIP-664).

Since 1 by the time for which their transaction has been open (KIP-994); since 2 by a regular expression for
the whole id (KIP-1152), where an empty one matches all.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from ottla.groupcoord.transactions.id_pattern import IdPattern
from ottla.groupcoord.transactions.transaction_commands import ListTransactions
from ottla.groupcoord.transactions.transaction_results import ListedTransaction, ListTransactionsResult
from ottla.groupcoord.transactions.transaction_state import TransactionState as State
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import BuiltInThread, Result
from ottla.node.services import Services
from ottla.node.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from ottla.node.wire.request_limits import NAME, REGEX, SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(0, 2),
    asks=Asks(by_handler=((AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),)),
    limits=RequestLimits(SEVERAL, {"state_filters": NAME, "transactional_id_pattern": REGEX}),
    changes_nothing=True,
)

STATE_NAMES = frozenset(state.value for state in State)
PAUSE_EVERY: Final = 100  # ids, some milliseconds at most


Answers: TypeAlias = Sequence[ListTransactionsResult | KafkaError]  # of all shards
Listed: TypeAlias = Sequence[ListedTransaction]


def handle(
    services: Services, context: RequestContext, request: ListTransactionsRequest
) -> Result[ListTransactionsResponse]:
    states = frozenset(request.state_filters)
    producer_ids = frozenset(request.producer_id_filters)

    def build(answers: Answers, matched: Callable[[Listed], Listed] = tuple) -> ListTransactionsResponse:
        listed: list[ListedTransaction] = []
        for answer in answers:
            if not isinstance(answer, KafkaError):
                listed += answer.transactions
            elif answer.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return ListTransactionsResponse(error_code=answer.code)
        access = context.access
        if not access.is_open:
            listed = [
                one
                for one in listed
                if access.allows(
                    AclOperation.DESCRIBE,
                    ResourceType.TRANSACTIONAL_ID,
                    one.transactional_id,
                    log_if_denied=False,
                )
            ]
        return ListTransactionsResponse(
            unknown_state_filters=sorted(states - STATE_NAMES),
            transaction_states=[
                TransactionState(
                    transactional_id=one.transactional_id,
                    producer_id=one.producer_id,
                    transaction_state=one.state,
                )
                for one in matched(listed)
            ],
        )

    async def match(answers: Answers) -> Result[ListTransactionsResponse]:
        """Build the response in a thread that clients share, since a pattern may be slow on purpose."""
        try:
            response = await services.pattern_pool.submit(
                context.connection,
                lambda pause: build(answers, lambda listed: matching(pattern, listed, pause)),
            )
        except KafkaError as error:
            return ListTransactionsResponse(error_code=error.code)
        return BuiltInThread(lambda: response)

    pattern = request.transactional_id_pattern or ""
    return services.txns.ask_all_shards(
        lambda token: ListTransactions(
            token=token,
            states=states,
            producer_ids=producer_ids,
            longer_than_ms=request.duration_filter,
        ),
        build,
        match if pattern else None,
        is_large=context.is_large,
    )


def matching(pattern: str, listed: Listed, pause: Callable[[], None]) -> Listed:
    """Return the transactions whose whole id matches; `pause` is called at intervals and may raise.

    Raises INVALID_REGULAR_EXPRESSION for an invalid pattern.
    """
    compiled = IdPattern(pattern)
    found = []
    for count, one in enumerate(listed):
        if count % PAUSE_EVERY == 0:
            pause()
        if compiled.matches(one.transactional_id):
            found.append(one)
    return found
