"""Makes the replication and the maintenance of logs."""

from dataclasses import dataclass

from ottla.logstore.checkpoint import LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from ottla.metadata_raft.image import METADATA_TOPIC
from ottla.metadata_raft.raft_check import damage_in
from ottla.node.log_care.damaged_replicas import DamagedReplicas
from ottla.node.log_care.log_maintenance import LogMaintenance
from ottla.node.log_care.segment_repair import SegmentRepair
from ottla.node.replica.follower_fetcher import FetcherWorld
from ottla.node.replica.partition import Partition
from ottla.node.replica.replica_manager import ReplicaManager
from ottla.node.replica.replication import Replication
from ottla.node.services import QuorumServices
from ottla.node.settings.broker_settings import DEDUPE_BUFFER, MIN_DEDUPE_BUFFER_BYTES
from ottla.node.start.foundation import Foundation
from ottla.node.start.log_dirs import log_notes
from ottla.node.start.part_settings import fetcher_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """The replication from leaders, and the maintenance of logs: flushes, cleaning, scrubbing and repair."""

    replication: Replication
    maintenance: LogMaintenance


def make_care(base: Foundation, parts: QuorumServices, replicas: ReplicaManager) -> Care:
    """Make the replication and the maintenance of logs; nothing runs yet."""
    config, world = base.config, base.world
    replication = Replication(
        replicas=replicas,
        world=FetcherWorld(
            broker_id=config.node_id,
            broker_epoch=lambda: parts.metadata.broker_epoch,
            connect=base.peers.client,
            settings=lambda: fetcher_settings(base.config),
            quotas=replicas.quotas,
            now_ms=world.clock.now_ms,
            chance=world.chance,
            start_task=base.tasks.start,
            until_safe=lambda partition: maintenance.flusher.until_safe(partition),
            keep_log_starts=lambda: maintenance.checkpoint(LOG_START_OFFSET_CHECKPOINT),
            keep_recovery_points=lambda: maintenance.checkpoint(RECOVERY_POINT_CHECKPOINT),
            must_pause=world.disk.is_behind,
        ),
        num_fetchers=lambda: base.config.num_replica_fetchers,
        alter_partition=parts.metadata.submit,
    )
    maintenance = LogMaintenance(
        log_manager=base.log_manager,
        config=lambda: base.config,
        clock=world.clock,
        on_moved=replicas.replace_log,
        on_flushed=replicas.log_flushed,
        on_notes=lambda: log_notes(base.log_manager),
        repair=SegmentRepair(
            broker_id=config.node_id,
            disk=world.disk,
            clock=world.clock,
            find=replicas.find,
            connect=base.peers.client,
            quotas=replicas.quotas,
            bytes_per_second=lambda: base.config.ottla_log_scrub_bytes_per_second,
            refilling=lambda log, end_offset: maintenance.refilling(log, end_offset),
        ),
        replicas=DamagedReplicas(find=replicas.find, notify_leader=replication.report_again),
        metadata_damage=lambda: damage_in(config.metadata_log_dir / f"{METADATA_TOPIC}-0", world.disk),
        key_bytes=lambda: cleaner_key_bytes(base),
    )
    base.memory_uses.count_by("cleaners", lambda: maintenance.used_key_bytes, lambda: cleaner_key_bytes(base))
    replicas.watch(lambda partition: _scrub_sooner(maintenance, partition))
    replicas.flush_by(maintenance.flusher.flush_soon)
    return Care(replication=replication, maintenance=maintenance)


def _scrub_sooner(maintenance: LogMaintenance, partition: Partition) -> None:
    """Scrub the log of a partition that this node now leads before those that it follows."""
    if partition.is_leader:
        maintenance.scrub.leads(partition.topic_partition)


def cleaner_key_bytes(base: Foundation) -> int:
    """Return the bytes for keys of logs under compaction: the setting, or else the share of the budget."""
    config = base.config
    wanted = config.log_cleaner_dedupe_buffer_size
    if config.is_set(DEDUPE_BUFFER):
        return wanted
    return min(wanted, max(base.memory.cleaners, config.log_cleaner_threads * MIN_DEDUPE_BUFFER_BYTES))
