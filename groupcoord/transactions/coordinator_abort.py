"""The coordinator's own aborts: for a producer that replaces another, and after the transaction's timeout."""

from ottla.groupcoord.transactions.marker_progress import decide_end
from ottla.groupcoord.transactions.transaction import (
    NO_PRODUCER_ID,
    Transaction,
    fenced,
    fencing_needs_new_id,
)
from ottla.groupcoord.transactions.transaction_commands import AbortTimedOut, SweepTimeouts
from ottla.groupcoord.transactions.transaction_config import SWEEP_SLICE_IDS
from ottla.groupcoord.transactions.transaction_effects import (
    Append,
    Effect,
    NeedProducerId,
    StartTimer,
    TimerKey,
)
from ottla.groupcoord.transactions.transaction_shard import TransactionShard

TIMEOUTS_KEY = TimerKey("timeouts")


def aborted_by_coordinator(
    shard: TransactionShard, t: Transaction, fresh_id: int | None, now_ms: int
) -> Transaction | None:
    """Return the open transaction `t`, aborted under a new epoch; None if that needs a producer id first."""
    next_id = NO_PRODUCER_ID
    if fencing_needs_new_id(t, level=shard.level):
        if fresh_id is None:
            return None
        next_id = fresh_id
    return fenced(t, level=shard.level, next_id=next_id, now_ms=now_ms)


def abort_timed_out(shard: TransactionShard, command: AbortTimedOut, now_ms: int) -> list[Effect]:
    """Abort a transaction, if it is still the very one that the command names, and timed out."""
    t = shard.transactions.get(command.transactional_id)
    if t is None or t.pair != command.producer or not t.is_timed_out(now_ms):
        return []
    aborted = aborted_by_coordinator(shard, t, command.fresh_id, now_ms)
    return [NeedProducerId(command)] if aborted is None else decide_end(shard, aborted, now_ms)


def sweep_timeouts(shard: TransactionShard, now_ms: int) -> list[Effect]:
    """Abort a slice of the transactions that are open for longer than their timeout.

    The timer brings the next slice at once, or after the last one the next sweep.
    """
    timed_out = []
    for transactional_id in shard.ongoing:
        t = shard.transactions[transactional_id]
        if t.is_timed_out(now_ms):
            timed_out.append(AbortTimedOut(transactional_id=transactional_id, producer=t.pair))
            if len(timed_out) == SWEEP_SLICE_IDS:
                break
    effects = [effect for each in timed_out for effect in abort_timed_out(shard, each, now_ms)]
    # Transactions that wait for a producer id are found again; they alone are no reason to hurry.
    is_all = len(timed_out) < SWEEP_SLICE_IDS or not any(isinstance(each, Append) for each in effects)
    interval_ms = shard.config.transaction_abort_timed_out_transaction_cleanup_interval_ms
    return [*effects, StartTimer(TIMEOUTS_KEY, interval_ms if is_all else 0, SweepTimeouts())]
