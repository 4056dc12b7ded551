"""The replicas of a node, their care, the coordinators, and the record of all that is served."""

import asyncio
import logging
import uuid
from collections.abc import Sequence
from typing import Final

from ottla.groupcoord.shard_bytes import NodeBytes
from ottla.logstore.checkpoint import LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from ottla.logstore.compression import Compression
from ottla.logstore.log_dir import LogDir
from ottla.logstore.log_manager import LogManager
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.recovery import RECORDS_ARE_LOST
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.cluster_features import DEAD_LETTERS_SINCE
from ottla.metadata_raft.image import METADATA_TOPIC
from ottla.metadata_raft.raft_check import damage_in
from ottla.node.client_metrics.client_instances import ClientInstances
from ottla.node.coordinators.group_configs import GroupConfigs
from ottla.node.coordinators.group_lag import GroupLag
from ottla.node.coordinators.group_runtime import GroupRuntime
from ottla.node.coordinators.marker_sender import MarkerSender
from ottla.node.coordinators.marker_writer import MarkerWriter
from ottla.node.coordinators.share_persister import SharePersister
from ottla.node.coordinators.share_state_runtime import ShareStateRuntime
from ottla.node.coordinators.txn_gate import TxnGate
from ottla.node.coordinators.txn_runtime import TxnRuntime
from ottla.node.log_care.damaged_replicas import DamagedReplicas
from ottla.node.log_care.log_maintenance import LogMaintenance
from ottla.node.log_care.segment_repair import SegmentRepair
from ottla.node.memory.freed_objects import FreedObjects
from ottla.node.metadata.metadata_publisher import controller_config, log_config_of
from ottla.node.metadata.topic_creation import (
    dead_letter_topic,
    offsets_topic,
    share_state_topic,
    transactions_topic,
)
from ottla.node.net.gathered_answers import GatheredAnswers
from ottla.node.net.listener import Listener
from ottla.node.replica.follower_fetcher import FetcherWorld
from ottla.node.replica.partition import Partition
from ottla.node.replica.replica_manager import ReplicaManager
from ottla.node.replica.replication import Replication
from ottla.node.security.administrators import Administrators
from ottla.node.services import QuorumServices, Services
from ottla.node.settings.broker_settings import DEDUPE_BUFFER, MIN_DEDUPE_BUFFER_BYTES
from ottla.node.settings.cluster_settings import ANYWHERE
from ottla.node.settings.config import BrokerConfig
from ottla.node.share.dead_letter_queue import DeadLetterWorld
from ottla.node.share.dead_letter_topic import Destination, TopicRules, find_destination
from ottla.node.share.initial_offset import InitialOffsets
from ottla.node.share.letter_producer import LetterProducer
from ottla.node.share.share_group_settings import DeadLetterSettings, ShareGroupConfigs
from ottla.node.share.share_partition_manager import SharePartitionManager
from ottla.node.share.share_views import ShareViews
from ottla.node.start.foundation import Foundation
from ottla.node.start.metadata import create_topic
from ottla.node.start.node_tasks import in_thread, monotonic_ms
from ottla.node.start.part_settings import (
    connection_limits,
    coordinator_config,
    failure_allowance,
    fetcher_settings,
    rate_limits,
    share_coordinator_config,
    transaction_config,
)

log = logging.getLogger(__name__)

# Of the memory for fetch sessions, share sessions may take this part, and share-partitions as much.
SHARE_SESSIONS_PART: Final = 4


def make_replicas(base: Foundation, parts: QuorumServices, gathered: GatheredAnswers) -> ReplicaManager:
    """Make the partitions of this node, none of which is open yet."""
    config, manager, assignments = base.config, base.log_manager, parts.assignments

    def placed(topic_partition: TopicPartition, partition_log: PartitionLog | None) -> None:
        directory_id = None if partition_log is None else manager.directory_id_of(partition_log)
        assignments.assign(topic_partition, directory_id)

    def went_offline(told: tuple[LogDir, list[TopicPartition]]) -> None:
        log_dir, lost = told
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
        monotonic_ms=monotonic_ms,
        max_lag_ms=lambda: base.config.replica_lag_time_max_ms,
        broker_epoch=lambda: parts.metadata.broker_epoch,
        chance=base.world.chance,
        quota_windows=config.replication_quota_window_num,
        quota_window_seconds=config.replication_quota_window_size_seconds,
    )
    replicas.on_fetch_woken = gathered.news
    base.dir_offline.connect(went_offline)
    for log_dir in manager.dirs:
        if not log_dir.is_online:  # it failed before anybody could be told
            went_offline((log_dir, []))
    base.memory_uses.count_by(
        "fetch_sessions",
        lambda: replicas.sessions.used_bytes + replicas.follower_sessions.used_bytes,
        lambda: base.memory.fetch_sessions,
    )
    base.cut_off.connect(lambda is_cut_off: replicas.fence() if is_cut_off else replicas.unfence())
    return replicas


def apply_settings(
    config: BrokerConfig, base: Foundation, parts: QuorumServices, replicas: ReplicaManager
) -> None:
    """Have new settings hold in every part that does not look at them each time."""
    base.state.config = config
    replicas.quotas.configure(
        leader_bytes_per_second=config.leader_replication_throttled_rate,
        follower_bytes_per_second=config.follower_replication_throttled_rate,
    )
    base.connection_quota.limits = connection_limits(config)
    base.connection_quota.rates.limit(rate_limits(config))
    base.failed_logins.allowance = failure_allowance(config)
    base.listener_tls.settings_changed()
    of_clients = {one.name for one in config.listeners} & config.listener_sasl.keys()
    base.token_verifiers.settings_changed(
        {name: config.listener_sasl[name] for name in sorted(of_clients)}, base.tasks.start
    )
    parts.metadata.reconfigure(controller_config(config, base.false_credentials.key))


def make_services(
    base: Foundation, parts: QuorumServices, replicas: ReplicaManager, listeners: Sequence[Listener]
) -> Services:
    """Make what serves clients, on logs that are open; nothing runs yet."""
    config, world = base.config, base.world
    members, offsets = NodeBytes(base.memory.group_members), NodeBytes(base.memory.committed_offsets)

    def has_room_for_ids() -> bool:
        return groups.used_bytes + txns.used_bytes < base.memory.groups_and_ids

    share_state_bytes = NodeBytes(base.memory.share_states)
    share_states = ShareStateRuntime(
        config=share_coordinator_config(config),
        replicas=replicas,
        image=lambda: parts.image,
        create_topic=lambda: create_topic(
            parts.metadata, share_state_topic(parts.image, base.config, world.unique)
        ),
        clock=world.clock,
        num_partitions=config.share_coordinator_state_topic_num_partitions,
        commit_timeout_ms=config.share_coordinator_write_timeout_ms,
        compression=Compression(config.share_coordinator_state_topic_compression_codec),
        states=share_state_bytes,
    )
    share_persister = SharePersister(
        node_id=config.node_id,
        coordinators=share_states,
        connect=base.peers.client,
        request_timeout_ms=config.request_timeout_ms,
        chance=world.chance,
    )
    groups = GroupRuntime(
        config=coordinator_config(config),
        replicas=replicas,
        image=lambda: parts.image,
        create_offsets_topic=lambda: create_topic(
            parts.metadata, offsets_topic(parts.image, base.config, world.unique)
        ),
        clock=world.clock,
        new_uuid=lambda: str(uuid.UUID(bytes=world.unique(16), version=4)),
        group_config=GroupConfigs(
            lambda: base.config.values, lambda group_id: parts.image.configs.group(group_id)
        ),
        offsets_topic_num_partitions=config.offsets_topic_num_partitions,
        offsets_commit_timeout_ms=config.offsets_commit_timeout_ms,
        heartbeat_hold_ms=config.ottla_group_heartbeat_hold_ms,
        members=members,
        offsets=offsets,
        has_room=has_room_for_ids,
        offsets_topic_compression=Compression(config.offsets_topic_compression_codec),
        persister=share_persister,
    )
    marker_writer = MarkerWriter(
        replicas=replicas, groups=groups, is_cut_off=lambda: base.state.is_cut_off, clock=world.clock
    )
    txns = TxnRuntime(
        config=transaction_config(config),
        replicas=replicas,
        image=lambda: parts.image,
        create_topic=lambda: create_topic(
            parts.metadata, transactions_topic(parts.image, base.config, world.unique)
        ),
        clock=world.clock,
        has_room=has_room_for_ids,
        num_partitions=config.transaction_state_log_num_partitions,
        commit_timeout_ms=config.request_timeout_ms,
        next_producer_id=parts.producer_ids.next,
        send_markers=lambda index, job: marker_sender.send(index, job),
        drop_markers=lambda index: marker_sender.drop(index),
    )
    marker_sender = MarkerSender(
        node_id=config.node_id,
        broker_epoch=lambda: parts.metadata.broker_epoch,
        image=lambda: parts.image,
        connect=base.peers.client,
        writer=marker_writer,
        start_task=base.tasks.start,
        written=txns.tell,
        fenced=lambda index, job: txns.fail_shard(index, job.coordinator_epoch),
        chance=world.chance,
        timeout_ms=lambda: base.config.request_timeout_ms,
    )
    txn_gate = TxnGate(
        node_id=config.node_id,
        coordinators=txns,
        connect=base.peers.client,
        request_timeout_ms=config.request_timeout_ms,
        retry_backoff_ms=config.add_partitions_to_txn_retry_backoff_ms,
        retry_max_ms=config.add_partitions_to_txn_retry_backoff_max_ms,
    )
    group_lag = GroupLag(
        node_id=config.node_id,
        replicas=replicas,
        image=lambda: parts.image,
        connect=base.peers.client,
        in_thread=in_thread,
        clock=world.clock,
    )
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
            must_rest=world.disk.is_behind,
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
        replicas=DamagedReplicas(find=replicas.find, tell_leader=replication.tell_anew),
        metadata_damage=lambda: damage_in(config.metadata_log_dir / f"{METADATA_TOPIC}-0", world.disk),
        key_bytes=lambda: cleaner_key_bytes(base),
    )
    client_metrics = ClientInstances(
        max_bytes=base.memory.client_metrics,
        max_series=lambda: base.config.ottla_metrics_client_series_max,
        is_open=base.connection_quota.is_open,
        unique=world.unique,
    )
    _follow_roles(replicas, maintenance)
    base.memory_uses.count_by(
        "client_metrics", lambda: client_metrics.used_bytes, lambda: base.memory.client_metrics
    )
    base.memory_uses.count_by(
        "groups_and_ids",
        lambda: groups.used_bytes + txns.used_bytes,
        lambda: base.memory.groups_and_ids,
    )
    base.memory_uses.count("group_members", members)
    base.memory_uses.count("committed_offsets", offsets)
    base.memory_uses.count("share_states", share_state_bytes)
    began_ms, began_monotonic_ms = world.clock.now_ms(), monotonic_ms()
    share_settings = ShareGroupConfigs(
        lambda: base.config.values,
        lambda group_id: parts.image.configs.group(group_id),
        has_dead_letters=lambda: parts.image.share_version >= DEAD_LETTERS_SINCE,
    )
    produce_letters = LetterProducer(
        node_id=config.node_id,
        image=lambda: parts.image,
        replicas=replicas,
        ask=base.peers.ask,
        in_thread=in_thread,
        clock=world.clock,
        timeout_ms=lambda: base.config.request_timeout_ms,
        is_cut_off=lambda: base.state.is_cut_off,
    )

    def letter_destination(group: str, settings: DeadLetterSettings, partition: int) -> Destination | None:
        return find_destination(
            parts.image,
            lambda topic: log_config_of(base.config, parts.image, topic),
            TopicRules(
                base.config.errors_deadletterqueue_topic_name_prefix,
                base.config.errors_deadletterqueue_auto_create_topics_enable,
            ),
            group=group,
            topic=settings.topic,
            source_partition=partition,
        )

    def max_message_bytes(topic_id: bytes) -> int | None:
        topic = parts.image.topics.by_id.get(topic_id)
        return (
            None if topic is None else log_config_of(base.config, parts.image, topic.name).max_message_bytes
        )

    dead_letters = DeadLetterWorld(
        destination=letter_destination,
        max_message_bytes=max_message_bytes,
        create_topic=lambda name: create_topic(parts.metadata, dead_letter_topic(name, world.unique)),
        next_producer_id=parts.producer_ids.next,
        produce=produce_letters,
        clock=world.clock,
        in_thread=in_thread,
        sleep=asyncio.sleep,
        chance=world.chance.random,
    )
    shares = SharePartitionManager(
        replicas=replicas,
        persister=share_persister,
        settings=share_settings,
        initial_offset=InitialOffsets(settings=share_settings, clock=world.clock, time_pool=base.time_pool),
        # Locks end by it: it goes on as the wall clock would that nobody sets.
        now_ms=lambda: began_ms + monotonic_ms() - began_monotonic_ms,
        wall_ms=world.clock.now_ms,
        in_thread=in_thread,
        start_task=base.tasks.start,
        max_sessions=lambda: base.config.group_share_max_share_sessions,
        limit_bytes=base.memory.fetch_sessions // SHARE_SESSIONS_PART,
        on_woken=replicas.on_fetch_woken,
        is_open=base.connection_quota.is_open,
        dead_letters=dead_letters,
    )
    base.connection_quota.on_closed = shares.connection_closed
    replicas.other_sessions_bytes = lambda: shares.used_bytes
    base.memory_uses.count_by(
        "fetch_sessions",
        lambda: replicas.sessions.used_bytes + replicas.follower_sessions.used_bytes + shares.used_bytes,
        lambda: base.memory.fetch_sessions,
    )
    base.memory_uses.count_by("cleaners", lambda: maintenance.used_key_bytes, lambda: cleaner_key_bytes(base))
    return Services(
        state=base.state,
        clock=world.clock,
        unique=world.unique,
        in_thread=in_thread,
        start_task=base.tasks.start,
        memory_uses=base.memory_uses,
        memory_max_bytes=base.memory_max_bytes,
        quorum=parts.quorum,
        metadata=parts.metadata,
        elections=parts.elections,
        peers=base.peers,
        listeners=listeners,
        administrators=Administrators(
            base.addresses.host_names,
            lambda: base.config.ottla_anonymous_administrators == ANYWHERE,
            base.access_of,
            base.audit.judged,
        ),
        audit=base.audit,
        request_counters=base.dispatcher.counters,
        refused_requests=base.dispatcher.refused,
        receive_memory=base.receive_memory,
        unsent=base.unsent,
        batch_pool=base.batch_pool,
        listener_tls=base.listener_tls,
        token_verifiers=base.token_verifiers,
        time_pool=base.time_pool,
        opened_batches=base.opened_batches,
        log_manager=base.log_manager,
        maintenance=maintenance,
        replica_manager=replicas,
        replication=replication,
        producer_ids=parts.producer_ids,
        groups=groups,
        group_lag=group_lag,
        share_states=share_states,
        share_persister=share_persister,
        shares=shares,
        share_views=ShareViews(
            node_id=config.node_id,
            shares=shares,
            image=lambda: parts.image,
            connect=base.peers.client,
            start_task=base.tasks.start,
        ),
        marker_writer=marker_writer,
        marker_sender=marker_sender,
        txns=txns,
        txn_gate=txn_gate,
        client_quotas=base.dispatcher.quotas,
        client_metrics=client_metrics,
    )


def _follow_roles(replicas: ReplicaManager, maintenance: LogMaintenance) -> None:
    """Have the care of the logs know what the replicas tell."""
    role_changed = replicas.on_role

    def on_role(partition: Partition) -> None:
        role_changed(partition)
        if partition.is_leader:
            maintenance.scrub.leads(partition.topic_partition)

    replicas.on_role = on_role
    replicas.context.flush_soon = maintenance.flusher.flush_soon


def cleaner_key_bytes(base: Foundation) -> int:
    """Return the memory for keys of logs that are compacted: as set, or this part of the budget."""
    config = base.config
    wanted = config.log_cleaner_dedupe_buffer_size
    if config.is_set(DEDUPE_BUFFER):
        return wanted
    return min(wanted, max(base.memory.cleaners, config.log_cleaner_threads * MIN_DEDUPE_BUFFER_BYTES))


def log_notes(manager: LogManager) -> None:
    """Log what the log directories have to say."""
    notes, manager.notes = manager.notes, []
    for note in notes:
        log.log(logging.WARNING if note.endswith(RECORDS_ARE_LOST) else logging.INFO, "%s", note)
    warnings, manager.warnings = manager.warnings, []
    for warning in warnings:
        log.warning("%s", warning)
