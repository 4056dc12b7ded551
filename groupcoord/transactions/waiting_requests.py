"""Requests that wait for the markers of the previous transaction.

Kafka answers them with CONCURRENT_TRANSACTIONS, and the client sleeps (20 ms in Java, else its retry
back-off) before it asks again, for each transaction that it begins. Markers take a few milliseconds, so a
request that waits costs nothing and is answered as early as possible (D44).
"""

from ottla.groupcoord.request_token import Token
from ottla.groupcoord.transactions.transaction_commands import EndWaiting, WaitingCommand
from ottla.groupcoord.transactions.transaction_config import MAX_WAITING, MAX_WAITING_OF_ID
from ottla.groupcoord.transactions.transaction_effects import (
    CancelTimer,
    Effect,
    Refuse,
    StartTimer,
    TimerKey,
)
from ottla.groupcoord.transactions.transaction_shard import TransactionShard
from ottla.logstore.words.errors import ErrorCode


def wait_or_refuse(shard: TransactionShard, command: WaitingCommand, *, may_wait: bool) -> list[Effect]:
    """Keep the request until the transaction is complete or `ottla_transaction_hold_ms` is over.

    It is refused with CONCURRENT_TRANSACTIONS if it may not wait, or if too many requests wait already.
    """
    hold_ms = shard.config.ottla_transaction_hold_ms
    queue = shard.waiting.get(command.transactional_id)
    if (
        not may_wait
        or hold_ms <= 0
        or shard.waiting_count >= MAX_WAITING
        or (queue is not None and len(queue) >= MAX_WAITING_OF_ID)
    ):
        return [refuse_concurrent(command.token)]
    shard.waiting_count += 1
    if queue is not None:
        queue.append(command)
        return []
    shard.waiting[command.transactional_id] = [command]
    end = EndWaiting(transactional_id=command.transactional_id)
    return [StartTimer(_timer_of(command.transactional_id), hold_ms, end)]


def take_waiting(shard: TransactionShard, transactional_id: str) -> tuple[list[WaitingCommand], list[Effect]]:
    """Remove and return the waiting requests of an id, in their order, and the end of their timer."""
    queue = shard.waiting.pop(transactional_id, [])
    shard.waiting_count -= len(queue)
    return queue, [CancelTimer(_timer_of(transactional_id))] if queue else []


def end_waiting(shard: TransactionShard, command: EndWaiting) -> list[Effect]:
    """Refuse the requests that have waited for too long, with Kafka's immediate answer."""
    queue = shard.waiting.pop(command.transactional_id, [])
    shard.waiting_count -= len(queue)
    return [refuse_concurrent(each.token) for each in queue]


def refuse_concurrent(token: Token) -> Refuse:
    """Return the refusal that makes a client ask again: markers of a transaction are on their way."""
    return Refuse(token, ErrorCode.CONCURRENT_TRANSACTIONS, "the previous transaction is not complete yet")


def _timer_of(transactional_id: str) -> TimerKey:
    return TimerKey("hold", transactional_id)
