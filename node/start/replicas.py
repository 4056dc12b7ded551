"""Makes the replica manager of a node, before any log is open."""

import asyncio

from ottla.logstore.log_dir import LogDir
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.counters.leader_load import MEASURED_EACH_S, LeaderLoad, steps_to_total
from ottla.node.memory.freed_objects import FreedObjects
from ottla.node.metadata.metadata_publisher import log_config_of
from ottla.node.net.gathered_answers import GatheredAnswers
from ottla.node.replica.replica_manager import ReplicaManager
from ottla.node.services import QuorumServices
from ottla.node.start.foundation import Foundation
from ottla.node.work.turns import take_turns


def make_replicas(base: Foundation, parts: QuorumServices, gathered: GatheredAnswers) -> ReplicaManager:
    """Make the replica manager, which has no partitions yet, and start to measure its load as a leader."""
    config, manager, assignments = base.config, base.log_manager, parts.assignments
    loop = asyncio.get_running_loop()  # kept: finding it takes a system call, and the time is read often

    def placed(topic_partition: TopicPartition, partition_log: PartitionLog | None) -> None:
        directory_id = None if partition_log is None else manager.directory_id_of(partition_log)
        assignments.assign(topic_partition, directory_id)

    def went_offline(offline: tuple[LogDir, list[TopicPartition]]) -> None:
        log_dir, lost = offline
        replicas.take_offline(lost)
        if log_dir.directory_id is not None:
            assignments.dir_failed(log_dir.directory_id)

    replicas = ReplicaManager(
        broker_id=config.node_id,
        log_manager=manager,
        image=lambda: parts.image,
        log_config=lambda image, topic: log_config_of(base.config, image, topic),
        on_placed=placed,
        on_freed=FreedObjects().note,
        session_slots=config.max_incremental_fetch_session_cache_slots,
        session_bytes=base.memory.fetch_sessions,
        is_open=base.connection_quota.is_open,
        monotonic_ms=lambda: int(loop.time() * 1000),
        max_lag_ms=lambda: base.config.replica_lag_time_max_ms,
        broker_epoch=lambda: parts.metadata.broker_epoch,
        chance=base.world.chance,
        quota_windows=config.replication_quota_window_num,
        quota_window_seconds=config.replication_quota_window_size_seconds,
        on_fetch_woken=gathered.gather_until_answered,
    )
    base.tasks.start(_measure(base.leader_load, replicas))
    base.dir_offline.connect(went_offline)
    for log_dir in manager.dirs:
        if not log_dir.is_online:  # it failed before the listener was connected
            went_offline((log_dir, []))
    base.memory_uses.count_by(
        "fetch_sessions",
        lambda: replicas.all_sessions_bytes,
        lambda: base.memory.fetch_sessions,
    )
    base.cut_off.connect(lambda is_cut_off: replicas.fence() if is_cut_off else replicas.unfence())
    return replicas


async def _measure(load: LeaderLoad, replicas: ReplicaManager) -> None:
    """Measure the bytes per second that this node serves as a leader, until cancelled."""
    loop = asyncio.get_running_loop()
    load.begin(await take_turns(steps_to_total(replicas.counters.values())))
    measured_at = loop.time()
    while True:
        await asyncio.sleep(MEASURED_EACH_S)
        total, now = await take_turns(steps_to_total(replicas.counters.values())), loop.time()
        load.note(total, now - measured_at)
        measured_at = now
