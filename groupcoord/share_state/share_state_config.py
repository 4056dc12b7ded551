"""The settings that a share coordinator obeys, and Ottla's own limits.

Attribute names are Kafka's broker settings with underscores; `node` fills them in from its configuration.
"""

from dataclasses import dataclass
from typing import Final

# A share-partition has at most 10,000 records in flight (group.share.max.partition.max.record.locks), and
# each of them may be a batch of its own. A snapshot of 20,000 batches takes 400 kB.
MAX_BATCHES: Final = 20_000
# The note of a leader on dead letters that it is about to produce: some 60 ranges of offsets.
MAX_DEAD_LETTERS_BYTES: Final = 2_048
# The memory, as measured, of a share-partition's state without its batches, and of a batch.
STATE_BYTES: Final = 700
BATCH_BYTES: Final = 170
BATCH_OVERHEAD_BYTES: Final = 128  # of the log: the header of a batch
MAX_STATES_PER_SHARD: Final = 200_000
# Share-partitions looked at in one slice of work that no request asked for: about a millisecond.
SLICE_STATES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareCoordinatorConfig:
    """Kafka's settings of the share coordinator, with Kafka's defaults."""

    share_coordinator_snapshot_update_records_per_snapshot: int = 500
    share_coordinator_state_topic_prune_interval_ms: int = 300_000
    share_coordinator_cold_partition_snapshot_interval_ms: int = 300_000
    # The largest batch that the partition of __share_group_state takes (its max.message.bytes).
    max_batch_bytes: int = 1_048_588
