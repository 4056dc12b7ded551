"""The order in which a node starts: each step stands on those before it.

Sockets are bound; log directories locked and claimed for a cluster; the metadata log is read, or a voter
found who tells what is in it; peers are let in, clients not yet. The broker registers, which also proves that
its metadata have caught up; its logs are opened while heartbeats keep its registration alive; it is unfenced;
what the metadata say is applied to its partitions; and only then are clients served.
"""

import asyncio
import hmac
import logging
import socket
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

from groupcoord.coordinator_config import CoordinatorConfig, MigrationPolicy
from groupcoord.transactions.transaction_config import TransactionConfig
from logstore.checkpoint import LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from logstore.compression import Compression
from logstore.errors import ErrorCode, KafkaError
from logstore.topic_partition import ZERO_UUID, TopicPartition, uuid_to_text
from metadata_raft.delta import ChangedTopic, MetadataChanges
from metadata_raft.image import METADATA_TOPIC, Endpoint, MetadataImage
from metadata_raft.raft_check import damage_in
from node.config import BrokerConfig
from node.group_settings import assignor_names
from node.net.connection_quota import ConnectionLimits
from node.net.gathered_answers import GatheredAnswers
from node.net.listener import Listener, ListenerLimits
from node.quorum_start import FoundQuorum, check_cluster, find_quorum, join_quorum, open_quorum
from node.replica.follower_fetcher import FetcherSettings, FetcherWorld
from node.replica.follower_state import FetchBounds
from node.replica.partition import Partition
from node.replica.replication import Replication
from node.runtime.broker_lifecycle import BrokerLifecycle, Registration
from node.runtime.command_sender import CommandSender
from node.runtime.damaged_replicas import DamagedReplicas
from node.runtime.encoded_answers import EncodedAnswers
from node.runtime.group_configs import GroupConfigs
from node.runtime.group_lag import GroupLag
from node.runtime.group_runtime import GroupRuntime
from node.runtime.log_maintenance import LogMaintenance
from node.runtime.marker_sender import MarkerSender
from node.runtime.marker_writer import MarkerWriter
from node.runtime.metadata_feed import MetadataFeed
from node.runtime.metadata_publisher import (
    MetadataPublisher,
    controller_config,
    dynamic_config,
    log_config_of,
)
from node.runtime.metadata_runtime import MetadataRuntime
from node.runtime.producer_ids import ProducerIds
from node.runtime.segment_repair import SegmentRepair
from node.runtime.txn_gate import TxnGate
from node.runtime.txn_runtime import TxnRuntime
from node.services import QuorumServices, Services
from node.wire.messages.fetch_metadata import VoterAddress

if TYPE_CHECKING:
    from node.broker import Broker

T = TypeVar("T")

_CLUSTER_ID_LABEL: Final = b"ottla cluster id 1:"

log = logging.getLogger(__name__)


# ---- sockets -----------------------------------------------------------------------------------------------


async def open_listeners(broker: "Broker") -> None:
    """Bind all addresses, so that a port that is taken shows before anything is written."""
    config = broker.config
    limits = ListenerLimits(
        socket_request_max_bytes=config.socket_request_max_bytes,
        connections_max_idle_ms=config.connections_max_idle_ms,
        socket_listen_backlog_size=config.socket_listen_backlog_size,
        socket_send_buffer_bytes=config.socket_send_buffer_bytes,
    )
    gathered = GatheredAnswers(asyncio.get_running_loop())
    broker.replica_manager.on_fetch_woken = gathered.news
    try:
        for address in config.listeners:
            listener = Listener(
                name=address.name,
                security_protocol=address.security_protocol,
                service=broker.dispatcher.service,
                memory=broker.receive_memory,
                quota=broker.connection_quota,
                limits=limits,
                start_task=broker.start_task,
                gathered=gathered,
                on_peer_lost=broker.peer_lost,
                must_rest=broker.disk.is_behind,
                is_for_peers=address.name == config.inter_broker_listener_name,
                unsent=broker.unsent,
                receive_windows=broker.receive_windows,
                send_buffers=broker.send_buffers,
            )
            broker.listeners.append(listener)
            try:
                await listener.bind(address.host, address.port)
            except OSError as error:
                error.add_note(f"{address.name}://{address.host}:{address.port}")
                raise
        broker.rest.bind()
    except BaseException:  # a port that is taken, or the start is given up
        for listener in broker.listeners:
            listener.stop_accepting()
        raise


def connection_limits(config: BrokerConfig) -> ConnectionLimits:
    """How many connections are let in."""
    return ConnectionLimits(
        max_connections=config.max_connections,
        listener_max_connections=config.listener_max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_per_ip_overrides=config.max_connections_per_ip_overrides,
    )


def registered_listeners(broker: "Broker") -> dict[str, Endpoint]:
    """Where other nodes reach this one; clients are told what they reached themselves."""
    advertised = {one.name: one for one in broker.config.advertised_listeners}
    return {
        one.name: Endpoint(
            advertised[one.name].host if one.name in advertised else one.host or socket.gethostname(),
            advertised[one.name].port if one.name in advertised else one.port,
        )
        for one in broker.listeners
    }


# ---- the parts, in their order -----------------------------------------------------------------------------


async def start_parts(broker: "Broker", when_loaded: Callable[[], None]) -> None:
    """From bound sockets to served clients."""
    found = await find_quorum(broker)
    await _in_thread(_claim_directories, broker, found)
    broker.tasks = asyncio.TaskGroup()
    await broker.tasks.__aenter__()
    endpoint = registered_listeners(broker)[broker.config.inter_broker_listener_name]
    image = await _in_thread(open_quorum, broker, found, endpoint)
    _make_metadata(broker, image)
    broker.dispatcher.serve_peers(_quorum_services(broker))
    broker.metadata_task = broker.start_task(broker.run_metadata())
    if broker.joins_quorum:
        broker.start_task(join_quorum(broker))
    if broker.peer_gate is not None:
        # Peers need what this node knows before it serves clients, and it needs them to start.
        await _inter_broker_listener(broker).start()
    await broker.lifecycle.register()
    broker.start_task(broker.lifecycle.run())
    image = broker.metadata.image
    config = dynamic_config(broker.config, image)
    broker.set_config(config)
    await _in_thread(_load_logs, broker, image)
    _make_runtimes(broker)
    # From here on leaders wait for what this node acknowledges, so whatever holds up the loop comes before.
    broker.dispatcher.load(_services(broker))
    when_loaded()
    # Nobody is let in yet, so the broker may call itself ready before its partitions are told to lead.
    broker.lifecycle.logs_are_open()
    await broker.lifecycle.until_unfenced()
    publish = MetadataPublisher(
        config=config,
        replicas=broker.replica_manager,
        set_config=broker.set_config,
        others=broker.tell_groups,
    )
    publish(broker.metadata.image, _everything(broker.metadata.image))
    broker.metadata.add_listener(publish)
    await broker.assignments.report()
    broker.log_notes()
    broker.groups.start(broker.start_task)
    broker.txn_gate.start(broker.start_task)
    broker.txns.start(broker.start_task)
    broker.start_task(broker.replica_manager.host_the_rest())
    broker.start_task(broker.replication.run())
    broker.start_task(broker.assignments.run())
    broker.start_task(broker.maintenance.run())
    for listener in broker.listeners:
        if broker.peer_gate is None or listener is not _inter_broker_listener(broker):
            await listener.start()
    broker.dispatcher.serve_clients()


def _quorum_services(broker: "Broker") -> QuorumServices:
    return QuorumServices(
        state=broker.state,
        served_apis=broker.served_apis,
        supported_features=broker.supported_features,
        metadata=broker.metadata,
        metadata_feed=broker.metadata_feed,
    )


def _services(broker: "Broker") -> Services:
    return Services(
        state=broker.state,
        clock=broker.clock,
        unique=broker.unique,
        in_thread=broker.in_thread,
        start_task=broker.start_task,
        metadata=broker.metadata,
        peers=broker.peers,
        administrators=broker.administrators,
        request_counters=broker.dispatcher.counters,
        unsent=broker.unsent,
        batch_pool=broker.batch_pool,
        time_pool=broker.time_pool,
        log_manager=broker.log_manager,
        maintenance=broker.maintenance,
        replica_manager=broker.replica_manager,
        producer_ids=broker.producer_ids,
        groups=broker.groups,
        group_lag=broker.group_lag,
        marker_writer=broker.marker_writer,
        txns=broker.txns,
        txn_gate=broker.txn_gate,
    )


def _inter_broker_listener(broker: "Broker") -> Listener:
    name = broker.config.inter_broker_listener_name
    return next(listener for listener in broker.listeners if listener.name == name)


def _make_metadata(broker: "Broker", image: MetadataImage) -> None:
    config = broker.config
    broker.metadata = MetadataRuntime(
        quorum=broker.quorum,
        image=image,
        config=controller_config(config),
        clock=broker.clock,
        broker_id=config.node_id,
        sender=CommandSender(broker.peers.client),
        voters=lambda: _voter_ids(broker),
        chance=broker.chance,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        is_connected=broker.has_peer,
        encoded_answers=EncodedAnswers(broker.memory.encoded_answers),
    )
    if config.is_voter or config.may_vote:
        broker.metadata_feed = MetadataFeed(
            image,
            leader=lambda: (broker.metadata.controller_id, broker.metadata.controller_epoch),
            voters=lambda: _voter_addresses(broker),
            hears_all=lambda: broker.quorum.hears_all,
        )
        broker.metadata.add_commit_listener(broker.metadata_feed.add)
    broker.lifecycle = BrokerLifecycle(
        metadata=broker.metadata,
        registration=Registration(
            broker_id=config.node_id,
            incarnation_id=broker.unique(16),
            listeners=registered_listeners(broker),
            rack=config.broker_rack,
            log_dirs=[one.directory_id for one in broker.log_manager.online_dirs if one.directory_id],
            features=broker.supported_features,
            previous_broker_epoch=broker.log_manager.clean_shutdown_epoch(),
            page_cache_id=broker.log_manager.disk.page_cache_id(),
        ),
        contact=broker.state.contact,
        clock=broker.clock,
        heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
        registration_timeout_ms=config.initial_broker_registration_timeout_ms,
        on_cut_off=broker.set_cut_off,
        is_quorum_gone=lambda: broker.is_quorum_gone(_voter_ids(broker)),
    )
    broker.meet_brokers(broker.metadata.image, _everything(broker.metadata.image))
    broker.metadata.add_listener(broker.meet_brokers)
    broker.metadata.add_listener(broker.elections.note)
    broker.metadata.add_controller_listener(broker.lifecycle.controller_changed)
    broker.metadata.add_controller_listener(broker.look_for_peers)
    broker.producer_ids = ProducerIds(broker.metadata)


def _voter_ids(broker: "Broker") -> Sequence[int]:
    voters = broker.metadata.image.voters
    if voters:
        return [voter.voter_id for voter in voters]
    return [voter.node_id for voter in broker.config.controller_quorum_voters]


def _voter_addresses(broker: "Broker") -> list[VoterAddress]:
    """Where nodes that are no voters find those that are."""
    own = registered_listeners(broker)[broker.config.inter_broker_listener_name]
    found: list[VoterAddress] = []
    for node_id in _voter_ids(broker):
        endpoint = own if node_id == broker.config.node_id else broker.peer_endpoint(node_id)
        if endpoint is not None:
            found.append(VoterAddress(node_id=node_id, host=endpoint.host, port=endpoint.port))
    return found


def _make_runtimes(broker: "Broker") -> None:
    config = broker.config
    broker.groups = GroupRuntime(
        config=coordinator_config(config),
        replicas=broker.replica_manager,
        image=lambda: broker.metadata.image,
        create_offsets_topic=broker.create_offsets_topic,
        clock=broker.clock,
        new_uuid=lambda: str(uuid.UUID(bytes=broker.unique(16), version=4)),
        group_config=GroupConfigs(
            lambda: broker.config.values, lambda group_id: broker.metadata.image.configs.group(group_id)
        ),
        offsets_topic_num_partitions=config.offsets_topic_num_partitions,
        offsets_commit_timeout_ms=config.offsets_commit_timeout_ms,
        heartbeat_hold_ms=config.ottla_group_heartbeat_hold_ms,
        members=broker.group_members,
        has_room=broker.has_room_for_ids,
        offsets_topic_compression=Compression(config.offsets_topic_compression_codec),
    )
    broker.marker_writer = MarkerWriter(
        replicas=broker.replica_manager,
        groups=broker.groups,
        is_cut_off=lambda: broker.state.is_cut_off,
        clock=broker.clock,
    )
    _make_transactions(broker)
    broker.group_lag = GroupLag(
        node_id=config.node_id,
        replicas=broker.replica_manager,
        image=lambda: broker.metadata.image,
        connect=broker.peers.client,
        in_thread=broker.in_thread,
        clock=broker.clock,
    )
    broker.replication = Replication(
        replicas=broker.replica_manager,
        world=FetcherWorld(
            broker_id=config.node_id,
            broker_epoch=lambda: broker.metadata.broker_epoch,
            connect=broker.peers.client,
            settings=lambda: _fetcher_settings(broker.config),
            quotas=broker.replica_manager.quotas,
            now_ms=broker.clock.now_ms,
            chance=broker.chance,
            start_task=broker.start_task,
            until_safe=lambda partition: broker.maintenance.flusher.until_safe(partition),
            keep_log_starts=lambda: broker.maintenance.checkpoint(LOG_START_OFFSET_CHECKPOINT),
            keep_recovery_points=lambda: broker.maintenance.checkpoint(RECOVERY_POINT_CHECKPOINT),
            must_rest=broker.disk.is_behind,
        ),
        num_fetchers=lambda: broker.config.num_replica_fetchers,
        alter_partition=broker.metadata.submit,
    )
    broker.maintenance = LogMaintenance(
        log_manager=broker.log_manager,
        config=lambda: broker.config,
        clock=broker.clock,
        on_moved=broker.replica_manager.replace_log,
        on_flushed=broker.replica_manager.log_flushed,
        on_notes=broker.log_notes,
        repair=SegmentRepair(
            broker_id=config.node_id,
            disk=broker.disk,
            clock=broker.clock,
            find=broker.replica_manager.find,
            connect=broker.peers.client,
            quotas=broker.replica_manager.quotas,
            bytes_per_second=lambda: broker.config.ottla_log_scrub_bytes_per_second,
            refilling=lambda log, end_offset: broker.maintenance.refilling(log, end_offset),
        ),
        replicas=DamagedReplicas(find=broker.replica_manager.find, tell_leader=broker.replication.tell_anew),
        metadata_damage=lambda: damage_in(config.metadata_log_dir / f"{METADATA_TOPIC}-0", broker.disk),
        key_bytes=broker.cleaner_key_bytes,
    )
    role_changed = broker.replica_manager.on_role

    def on_role(partition: Partition) -> None:
        role_changed(partition)
        if partition.is_leader:
            broker.maintenance.scrub.leads(partition.topic_partition)

    broker.replica_manager.on_role = on_role
    broker.replica_manager.context.flush_soon = broker.maintenance.flusher.flush_soon


def _make_transactions(broker: "Broker") -> None:
    config = broker.config
    broker.txns = TxnRuntime(
        config=transaction_config(config),
        replicas=broker.replica_manager,
        image=lambda: broker.metadata.image,
        create_topic=broker.create_transactions_topic,
        clock=broker.clock,
        has_room=broker.has_room_for_ids,
        num_partitions=config.transaction_state_log_num_partitions,
        commit_timeout_ms=config.request_timeout_ms,
        next_producer_id=lambda: broker.producer_ids.next(),
        send_markers=lambda index, job: broker.marker_sender.send(index, job),
        drop_markers=lambda index: broker.marker_sender.drop(index),
    )
    broker.marker_sender = MarkerSender(
        node_id=config.node_id,
        broker_epoch=lambda: broker.metadata.broker_epoch,
        image=lambda: broker.metadata.image,
        connect=broker.peers.client,
        writer=broker.marker_writer,
        start_task=broker.start_task,
        written=broker.txns.tell,
        fenced=lambda index, job: broker.txns.fail_shard(index, job.coordinator_epoch),
        chance=broker.chance,
        timeout_ms=lambda: broker.config.request_timeout_ms,
    )
    broker.txn_gate = TxnGate(
        node_id=config.node_id,
        coordinators=broker.txns,
        connect=broker.peers.client,
        request_timeout_ms=config.request_timeout_ms,
        retry_backoff_ms=config.add_partitions_to_txn_retry_backoff_ms,
        retry_max_ms=config.add_partitions_to_txn_retry_backoff_max_ms,
    )


def _fetcher_settings(config: BrokerConfig) -> FetcherSettings:
    return FetcherSettings(
        bounds=FetchBounds(
            max_bytes=config.replica_fetch_response_max_bytes,
            min_bytes=config.replica_fetch_min_bytes,
            partition_max_bytes=config.replica_fetch_max_bytes,
            max_wait_ms=config.replica_fetch_wait_max_ms,
        ),
        backoff_ms=config.replica_fetch_backoff_ms,
        socket_timeout_ms=config.replica_socket_timeout_ms,
    )


def coordinator_config(config: BrokerConfig) -> CoordinatorConfig:
    """What the coordinators of groups need to know of the configuration."""
    return CoordinatorConfig(
        group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        group_min_session_timeout_ms=config.group_min_session_timeout_ms,
        group_max_session_timeout_ms=config.group_max_session_timeout_ms,
        group_max_size=config.group_max_size,
        group_consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        group_consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        group_consumer_assignment_interval_ms=config.group_consumer_assignment_interval_ms,
        group_consumer_max_size=config.group_consumer_max_size,
        group_consumer_migration_policy=MigrationPolicy(config.group_consumer_migration_policy.lower()),
        group_consumer_assignors=assignor_names(config.group_consumer_assignors),
        group_consumer_regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        max_batch_bytes=config.message_max_bytes,
    )


def transaction_config(config: BrokerConfig) -> TransactionConfig:
    """What the coordinators of transactions need to know of the configuration."""
    return TransactionConfig(
        transaction_max_timeout_ms=config.transaction_max_timeout_ms,
        transactional_id_expiration_ms=config.transactional_id_expiration_ms,
        transaction_abort_timed_out_transaction_cleanup_interval_ms=(
            config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        ),
        transaction_remove_expired_transaction_cleanup_interval_ms=(
            config.transaction_remove_expired_transaction_cleanup_interval_ms
        ),
        transaction_two_phase_commit_enable=config.transaction_two_phase_commit_enable,
        ottla_transaction_hold_ms=config.ottla_transaction_hold_ms,
        max_batch_bytes=config.message_max_bytes,
    )


def _everything(image: MetadataImage) -> MetadataChanges:
    """The change from nothing to this image."""
    return MetadataChanges(
        topics=tuple(ChangedTopic(None, topic) for topic in image.topics.by_name.values()),
        configs=frozenset(),
        brokers=frozenset(image.brokers),
        features=True,
    )


# ---- what lies on the disk, in threads ---------------------------------------------------------------------


async def _in_thread(work: Callable[..., T], *arguments: object) -> T:
    """What the work gives. A start that is given up waits for it, so that what it opens can be closed."""
    under_way = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(under_way)
    except asyncio.CancelledError:
        await asyncio.gather(under_way, return_exceptions=True)
        raise


def _claim_directories(broker: "Broker", found: FoundQuorum | None) -> None:
    """Lock the log directories and make sure that they are this node's. Blocks."""
    config, manager = broker.config, broker.log_manager
    manager.acquire()
    owner = manager.identity()
    if owner is not None:
        broker.state.cluster_id = owner.cluster_id
    else:
        broker.state.cluster_id = _new_cluster_id(broker) if found is None else found.cluster_id
    check_cluster(broker, found)
    if config.cluster_id not in (None, broker.state.cluster_id):
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"The log directories belong to the cluster {uuid_to_text(broker.state.cluster_id)}, not to the"
            " one that cluster.id names: choose another log.dirs or take cluster.id out.",
        )
    manager.claim(cluster_id=broker.state.cluster_id, node_id=config.node_id)


def _new_cluster_id(broker: "Broker") -> bytes:
    """The id of a new cluster: voters that share a secret and name each other find the same."""
    config = broker.config
    if config.cluster_id is not None:
        return config.cluster_id
    if not config.controller_quorum_voters or config.cluster_secret is None:
        return broker.unique(16)
    voters = ",".join(f"{one.node_id}@{one.host}:{one.port}" for one in config.controller_quorum_voters)
    made = bytearray(
        hmac.digest(config.cluster_secret.encode(), _CLUSTER_ID_LABEL + voters.encode(), "sha256")[:16]
    )
    made[0] &= 0x7F  # no '-' in front, which tools would take for an option
    return bytes(made)


def _load_logs(broker: "Broker", image: MetadataImage) -> None:
    """Open all logs, reading again what an unclean shutdown left unsure. Blocks."""
    manager, config = broker.log_manager, broker.config
    threads = max(1, config.num_recovery_threads_per_data_dir * len(config.log_dirs))
    if threads == 1:
        manager.load(lambda topic: log_config_of(config, image, topic))
    else:
        with ThreadPoolExecutor(threads, thread_name_prefix="recovery") as pool:
            manager.load(lambda topic: log_config_of(config, image, topic), parallel=pool.map)

    def is_known(name: TopicPartition, topic_id: bytes) -> bool:
        topic = image.topics.by_name.get(name.topic)
        return (
            topic is not None
            and topic_id in (topic.topic_id, ZERO_UUID)
            and name.partition < len(topic.partitions)
        )

    manager.set_strays_apart(is_known)
