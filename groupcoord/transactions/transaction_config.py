"""The settings that a transaction coordinator obeys, and Ottla's own limits.

Attribute names are Kafka's broker settings with underscores; `node` fills them in from its configuration.
"""

from dataclasses import dataclass
from typing import Final

# KIP-939: only its client or an administrator ends a transaction with this timeout.
NO_TIMEOUT_MS: Final = 2**31 - 1
# From here on a producer id has no epochs left: the last one, 32767, is kept for fencing.
EXHAUSTED_EPOCH: Final = 2**15 - 2
LAST_EPOCH: Final = 2**15 - 1
# The memory of a transactional id at rest, with a long name. A shard with the maximum number of ids rejects
# new ones (COORDINATOR_NOT_AVAILABLE).
ID_BYTES: Final = 1_000
MAX_IDS_PER_SHARD: Final = 1_000_000
# Longer ids cannot begin; those from before this limit are served.
MAX_NEW_ID_BYTES: Final = 1_024
# Requests of one id that wait for its markers: a producer has one under way, its successor another; the rest
# are copies.
MAX_WAITING_OF_ID: Final = 5
# Of all ids of a shard; some hundred bytes each.
MAX_WAITING: Final = 10_000
# Ids looked at in one slice of the sweeps for time-outs and expired ids, so that a slice takes about a
# millisecond.
SWEEP_SLICE_IDS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """Kafka's settings of the transaction coordinator, with Kafka's defaults."""

    transaction_max_timeout_ms: int = 15 * 60_000
    transactional_id_expiration_ms: int = 7 * 24 * 60 * 60_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 60 * 60_000
    transaction_two_phase_commit_enable: bool = False
    # Ottla's own: the time that a request may wait for the markers of the previous transaction before it gets
    # CONCURRENT_TRANSACTIONS; 0 for no wait.
    ottla_transaction_hold_ms: int = 100
    # The largest batch that the partition of __transaction_state takes (its max.message.bytes).
    max_batch_bytes: int = 1_048_588
