"""ListTransactions (key 66): the transactions of a coordinator, filtered (KIP-664, KIP-994)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@message(api_key=66, versions=(0, 2), flexible_since=0)
class ListTransactionsRequest:
    state_filters: Sequence[str] = schema.array(schema.string)
    producer_id_filters: Sequence[int] = schema.array(schema.int64)
    duration_filter: int = schema.int64(since=1, default=-1)
    transactional_id_pattern: str | None = schema.string(since=2, nullable_since=2, default=None)


@struct
class TransactionState:
    transactional_id: str = schema.string()
    producer_id: int = schema.int64()
    transaction_state: str = schema.string()


@message(api_key=66, versions=(0, 2), flexible_since=0)
class ListTransactionsResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    unknown_state_filters: Sequence[str] = schema.array(schema.string)
    transaction_states: Sequence[TransactionState] = schema.array(TransactionState)
