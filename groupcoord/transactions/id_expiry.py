"""Removes ids that were not used for `transactional.id.expiration.ms`."""

from ottla.groupcoord.transactions.transaction_commands import SweepIds
from ottla.groupcoord.transactions.transaction_config import SWEEP_SLICE_IDS
from ottla.groupcoord.transactions.transaction_effects import Append, Effect, StartTimer, TimerKey
from ottla.groupcoord.transactions.transaction_records import TransactionRecord, encode_key
from ottla.groupcoord.transactions.transaction_shard import TransactionShard
from ottla.groupcoord.transactions.transaction_state import AT_REST

EXPIRE_KEY = TimerKey("expire")
_RECORD_OVERHEAD_BYTES = 32


def sweep_ids(shard: TransactionShard, now_ms: int) -> list[Effect]:
    """Look at a slice of the ids; a round over all present ones begins each interval."""
    queue = shard.ids_to_sweep
    if not queue:
        queue.extend(shard.transactions)
    last_use_ms = now_ms - shard.config.transactional_id_expiration_ms
    tombstones: list[TransactionRecord] = []
    room_bytes = shard.config.max_batch_bytes // 2
    for _ in range(min(len(queue), SWEEP_SLICE_IDS)):
        transactional_id = queue.popleft()
        t = shard.transactions.get(transactional_id)
        if t is None or t.state not in AT_REST or t.last_update_ms > last_use_ms:
            continue
        tombstones.append(TransactionRecord(transactional_id, None))
        room_bytes -= len(encode_key(transactional_id)) + _RECORD_OVERHEAD_BYTES
        if room_bytes <= 0:
            break
    interval_ms = shard.config.transaction_remove_expired_transaction_cleanup_interval_ms
    effects: list[Effect] = [Append(tombstones)] if tombstones else []
    return [*effects, StartTimer(EXPIRE_KEY, 0 if queue else interval_ms, SweepIds())]
