"""Carries a transaction from its decision to its last marker."""

from ottla.groupcoord.transactions.transaction import Transaction, completed
from ottla.groupcoord.transactions.transaction_commands import MarkersWritten
from ottla.groupcoord.transactions.transaction_effects import Append, Effect, MarkerJob, SendMarkers
from ottla.groupcoord.transactions.transaction_records import TransactionRecord
from ottla.groupcoord.transactions.transaction_shard import TransactionShard
from ottla.groupcoord.transactions.transaction_state import TransactionState


def decide_end(shard: TransactionShard, decided: Transaction, now_ms: int) -> list[Effect]:
    """Return the record of a decision, and its markers; without partitions, complete it in the same batch."""
    record = TransactionRecord(decided.transactional_id, decided)
    if not decided.partitions:
        return [Append((record, _completion(decided, now_ms)))]
    return [Append((record,)), SendMarkers(job_of(shard, decided))]


def job_of(shard: TransactionShard, decided: Transaction) -> MarkerJob:
    """Return a job of markers for all partitions: a new coordinator does not know which have theirs (D37)."""
    return MarkerJob(
        decided.transactional_id,
        decided.producer_id,
        decided.producer_epoch,
        shard.coordinator_epoch,
        decided.state is TransactionState.PREPARE_COMMIT,
        decided.client_version,
        tuple(sorted(decided.partitions)),
    )


def markers_written(shard: TransactionShard, command: MarkersWritten, now_ms: int) -> list[Effect]:
    """Note the partitions that have their marker; with the last one the transaction is complete."""
    left = shard.markers_left.get(command.transactional_id)
    if left is None:
        return []  # a repeated answer
    t = shard.transactions[command.transactional_id]
    if t.producer_id != command.producer_id or t.producer_epoch != command.marker_epoch:
        return []  # of an earlier transaction
    left -= command.partitions
    return [] if left else [Append((_completion(t, now_ms),))]


def resume_markers(shard: TransactionShard, now_ms: int) -> list[Effect]:
    """Return the effects that a new coordinator owes to transactions that the previous one decided."""
    effects: list[Effect] = []
    for transactional_id, left in shard.markers_left.items():
        t = shard.transactions[transactional_id]
        effects.append(SendMarkers(job_of(shard, t)) if left else Append((_completion(t, now_ms),)))
    return effects


def _completion(decided: Transaction, now_ms: int) -> TransactionRecord:
    return TransactionRecord(decided.transactional_id, completed(decided, now_ms=now_ms))
