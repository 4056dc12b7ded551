"""States of a transactional id, for tables of cases."""

from ottla.groupcoord.transactions.transaction import CLIENT_V2, Transaction
from ottla.groupcoord.transactions.transaction_state import AT_REST, PREPARED, TransactionState
from ottla.logstore.words.topic_partition import TopicPartition
from tests.unit.groupcoord.transactions.transaction_world import P0, START_MS

S = TransactionState
IN_LOG = (
    S.EMPTY,
    S.ONGOING,
    S.PREPARE_COMMIT,
    S.PREPARE_ABORT,
    S.COMPLETE_COMMIT,
    S.COMPLETE_ABORT,
)
PRODUCER_ID, PREVIOUS_ID, OTHER_ID = 700, 600, 800
__all__ = ["AT_REST", "IN_LOG", "OTHER_ID", "PREPARED", "PREVIOUS_ID", "PRODUCER_ID", "S", "at"]


def at(
    state: TransactionState,
    epoch: int = 5,
    *,
    last: int = -1,
    version: int = CLIENT_V2,
    partitions: tuple[TopicPartition, ...] = (P0,),
    timeout_ms: int = 60_000,
    id: str = "t",
    previous: int = PREVIOUS_ID,
) -> Transaction:
    return Transaction(
        transactional_id=id,
        producer_id=PRODUCER_ID,
        previous_producer_id=previous,
        producer_epoch=epoch,
        last_producer_epoch=last,
        timeout_ms=timeout_ms,
        state=state,
        partitions=frozenset() if state in AT_REST else frozenset(partitions),
        start_ms=-1 if state is S.EMPTY else START_MS,
        last_update_ms=START_MS,
        client_version=version,
    )
