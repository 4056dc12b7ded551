"""The broker: builds the parts of a node, starts them in order, and stops them in the reverse.

Start: sockets are bound, log directories locked and claimed, the metadata log is read, then the logs of the
partitions; the broker registers, and only then clients are let in. Stop: nobody new is let in, what waits is
answered, logs are flushed and closed with the mark of a clean shutdown. A part that fails ends the node.
"""

import asyncio
import gc
import logging
import os
import random
import resource
import signal
import socket
import sys
import uuid
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import uvloop

from groupcoord.coordinator_config import CoordinatorConfig
from logstore.compression import Compression
from logstore.disk import Disk, OsDisk
from logstore.errors import ErrorCode, KafkaError
from logstore.log_config import LogConfig
from logstore.log_dir import LogDir
from logstore.log_manager import LogManager
from logstore.partition_log import PartitionLog
from logstore.topic_partition import ZERO_UUID, TopicPartition, uuid_to_text
from logstore.volume import DirectoryLock
from metadata_raft.commands import CreateTopics
from metadata_raft.delta import ChangedTopic, MetadataChanges
from metadata_raft.image import METADATA_TOPIC, Endpoint, MetadataImage
from metadata_raft.quorum_local import JournalConfig, LocalQuorum
from node.clock import Clock, SystemClock
from node.config import BrokerConfig
from node.kafka_api.dispatch import Dispatcher
from node.kafka_api.request_context import ConnectionInfo
from node.net.connection_quota import ConnectionLimits, ConnectionQuota
from node.net.listener import Listener, ListenerLimits
from node.net.peer_handshake import PeerGate, PeerIdentity
from node.net.receive_memory import DEFAULT_LIMIT_BYTES, ReceiveMemory
from node.replica.replica_manager import ReplicaManager
from node.runtime.assignments_manager import AssignmentsManager
from node.runtime.group_runtime import GroupRuntime
from node.runtime.log_maintenance import LogMaintenance
from node.runtime.metadata_publisher import (
    MetadataPublisher,
    controller_config,
    dynamic_config,
    log_config_of,
)
from node.runtime.metadata_runtime import MetadataRuntime
from node.runtime.topic_creation import offsets_topic

WANTED_OPEN_FILES = 1_048_576  # three a partition, one a connection; the kernel's hard limit may be less
STOP_GRACE_SECONDS = 5.0  # for answers that are still in the sockets when the node stops

T = TypeVar("T")

log = logging.getLogger(__name__)


class Broker:
    """One node. `start`, use, `stop`; all three in the same task, which owns the node's tasks.

    Its world can be handed in, and a simulation does: the wall clock, the files, chance (of session ids and
    pauses) and `unique(n)`, n bytes that nobody can guess. Time that passes, sockets and threads are those of
    the running loop.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        chance: random.Random | None = None,
        unique: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.config = config
        self.chance = chance if chance is not None else random.SystemRandom()
        self.unique = unique
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.cluster_id = ZERO_UUID
        self.supported_features: Mapping[str, tuple[int, int]] = {}
        self.disk: Disk = disk if disk is not None else OsDisk()
        self.log_manager = LogManager(
            log_dirs=config.log_dirs,
            disk=self.disk,
            now_ms=self.clock.now_ms,
            unique=lambda: self.unique(16),
            lock=DirectoryLock if disk is None else None,
        )
        self.log_manager.on_offline = self._dir_went_offline
        self.assignments = AssignmentsManager(lambda: self.metadata)
        self.replica_manager = ReplicaManager(
            broker_id=config.node_id,
            log_manager=self.log_manager,
            image=lambda: self.metadata.image,
            log_config=self._log_config,
            on_placed=self._replica_placed,
            session_slots=config.max_incremental_fetch_session_cache_slots,
            chance=self.chance,
        )
        limit_bytes = config.queued_max_request_bytes
        self.receive_memory = ReceiveMemory(limit_bytes if limit_bytes > 0 else DEFAULT_LIMIT_BYTES)
        self.peer_gate: PeerGate | None = None
        if config.cluster_secret is not None:
            self.peer_gate = PeerGate(config.cluster_secret.encode(), self._identity, unique)
        self.connection_quota = ConnectionQuota(_connection_limits(config))
        self.listeners: list[Listener] = []
        self.metadata: MetadataRuntime
        self.groups: GroupRuntime
        self.maintenance: LogMaintenance
        self._tasks: asyncio.TaskGroup | None = None
        self._running: set[asyncio.Task[Any]] = set()
        self._metadata_task: asyncio.Task[None] | None = None

    # ---- start -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Serve; returns when clients are let in.

        KafkaError with one sentence if the configuration or a log directory forbids it, OSError if an
        address is taken.
        """
        raise_open_file_limit()
        for warning in self.config.warnings:
            log.warning("%s", warning)
        await self._open_listeners()
        try:
            await self._start_parts()
        except BaseException:
            for listener in self.listeners:
                listener.stop_accepting()
            self.log_manager.release()
            raise

    async def _open_listeners(self) -> None:
        """Bind all addresses, so that a port that is taken shows before anything is written."""
        config = self.config
        limits = ListenerLimits(
            socket_request_max_bytes=config.socket_request_max_bytes,
            connections_max_idle_ms=config.connections_max_idle_ms,
            socket_listen_backlog_size=config.socket_listen_backlog_size,
        )
        service = Dispatcher(self).service
        try:
            for address in config.listeners:
                listener = Listener(
                    name=address.name,
                    security_protocol=address.security_protocol,
                    service=service,
                    memory=self.receive_memory,
                    quota=self.connection_quota,
                    limits=limits,
                    start_task=self.start_task,
                )
                self.listeners.append(listener)
                await listener.bind(address.host, address.port)
        except OSError:
            for listener in self.listeners:
                listener.stop_accepting()
            raise

    async def _start_parts(self) -> None:
        config = self.config
        quorum, image = await asyncio.to_thread(self._read_metadata)
        config = self.config = dynamic_config(config, image)
        self.connection_quota.limits = _connection_limits(config)
        await asyncio.to_thread(self._load_logs, image)
        self.metadata = MetadataRuntime(
            quorum=quorum, image=image, config=controller_config(config), clock=self.clock
        )
        self.groups = GroupRuntime(
            config=_coordinator_config(config),
            replicas=self.replica_manager,
            image=lambda: self.metadata.image,
            create_offsets_topic=self._create_offsets_topic,
            clock=self.clock,
            new_uuid=lambda: str(uuid.UUID(bytes=self.unique(16), version=4)),
            offsets_topic_num_partitions=config.offsets_topic_num_partitions,
            offsets_commit_timeout_ms=config.offsets_commit_timeout_ms,
            offsets_topic_compression=Compression(config.offsets_topic_compression_codec),
        )
        self.maintenance = LogMaintenance(
            log_manager=self.log_manager,
            config=lambda: self.config,
            clock=self.clock,
            on_moved=self.replica_manager.replace_log,
            on_notes=self._log_notes,
        )
        self._tasks = asyncio.TaskGroup()
        await self._tasks.__aenter__()
        self._metadata_task = self.start_task(self._run_metadata())
        # Nobody is let in yet, so the broker may call itself ready before its partitions are told to lead.
        await self.metadata.register(
            broker_id=config.node_id,
            incarnation_id=self.unique(16),
            listeners=self._registered_listeners(),
            rack=config.broker_rack,
            log_dirs=[one.directory_id for one in self.log_manager.online_dirs if one.directory_id],
            features=self.supported_features,
        )
        await self.metadata.unfence()
        publish = MetadataPublisher(
            config=config,
            replicas=self.replica_manager,
            set_config=self._set_config,
            others=self._tell_groups,
        )
        publish(self.metadata.image, _everything(self.metadata.image))
        self.metadata.add_listener(publish)
        await self.assignments.report()
        self._log_notes()
        self.groups.start(self._tasks)
        self.start_task(self.replica_manager.host_the_rest())
        self.start_task(self.assignments.run())
        self.start_task(self.maintenance.run())
        for listener in self.listeners:
            await listener.start()

    def _read_metadata(self) -> tuple[LocalQuorum, MetadataImage]:
        """Lock and claim the log directories and read the metadata log. Blocks."""
        config, manager = self.config, self.log_manager
        manager.acquire()
        owner = manager.identity()
        if owner is not None:
            self.cluster_id = owner.cluster_id
        else:
            self.cluster_id = config.cluster_id or self.unique(16)
        if config.cluster_id not in (None, self.cluster_id):
            raise KafkaError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"The log directories belong to the cluster {uuid_to_text(self.cluster_id)}, not to the one"
                " that cluster.id names: choose another log.dirs or take cluster.id out.",
            )
        manager.claim(cluster_id=self.cluster_id, node_id=config.node_id)
        quorum = LocalQuorum(
            config.metadata_log_dir / f"{METADATA_TOPIC}-0",
            self.disk,
            node_id=config.node_id,
            config=JournalConfig(
                max_record_bytes_between_snapshots=config.metadata_log_max_record_bytes_between_snapshots,
                max_snapshot_interval_ms=config.metadata_log_max_snapshot_interval_ms,
            ),
        )
        loaded = quorum.load(MetadataImage(cluster_id=self.cluster_id))
        if loaded.cut_bytes:
            log.warning(
                "%d bytes at the end of the metadata log were cut: a change that the node died in.",
                loaded.cut_bytes,
            )
        return quorum, loaded.image

    def _load_logs(self, image: MetadataImage) -> None:
        """Open all logs, reading again what an unclean shutdown left unsure. Blocks."""
        manager, config = self.log_manager, self.config
        threads = max(1, config.num_recovery_threads_per_data_dir * len(config.log_dirs))
        if threads == 1:
            manager.load(lambda topic: log_config_of(config, image, topic))
        else:
            with ThreadPoolExecutor(threads, thread_name_prefix="recovery") as pool:
                manager.load(lambda topic: log_config_of(config, image, topic), parallel=pool.map)
        if image.version < 0 and manager.logs:
            # To go on would set every partition apart as one that no topic has.
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"There are {len(manager.logs)} partitions in log.dirs, but the metadata log in"
                f" {config.metadata_log_dir} is missing or empty: restore it from a backup, or move the"
                " partitions away to begin anew.",
            )

        def is_known(name: TopicPartition, topic_id: bytes) -> bool:
            topic = image.topics.by_name.get(name.topic)
            return (
                topic is not None
                and topic_id in (topic.topic_id, ZERO_UUID)
                and name.partition < len(topic.partitions)
            )

        manager.set_strays_apart(is_known)

    def _identity(self) -> PeerIdentity:
        """Who this node is to its peers; the directory is that of its metadata."""
        config, dirs = self.config, self.log_manager.dirs
        directory = next((one for one in dirs if one.path == config.metadata_log_dir), dirs[0])
        return PeerIdentity(config.node_id, self.cluster_id, directory.directory_id or ZERO_UUID)

    async def _run_metadata(self) -> None:
        try:
            await self.metadata.run()
        except BaseExceptionGroup as group:
            failed, rest = group.split(OSError)
            if failed is None or rest is not None:
                raise
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The metadata log in {self.config.metadata_log_dir} cannot be written, so the node ends:"
                f" {failed.exceptions[0]}.",
            ) from group

    def _registered_listeners(self) -> dict[str, Endpoint]:
        """Where other nodes reach this one; clients are told what they reached themselves."""
        advertised = {one.name: one for one in self.config.advertised_listeners}
        return {
            one.name: Endpoint(
                advertised[one.name].host if one.name in advertised else one.host or socket.gethostname(),
                advertised[one.name].port if one.name in advertised else one.port,
            )
            for one in self.listeners
        }

    async def _create_offsets_topic(self) -> None:
        topic = offsets_topic(self.metadata.image, self.config, self.unique)
        reply = await self.metadata.submit(CreateTopics(topics=[topic]))
        for created in reply.topics:
            if created.error_code != ErrorCode.NONE:
                raise KafkaError(ErrorCode(created.error_code), created.error_message or "")

    # ---- stop ------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Answer what waits, flush and close the logs, leave the mark of a clean shutdown.

        Raises the error of a part whose failure ended the node.
        """
        for listener in self.listeners:
            listener.stop_accepting()
        if self._tasks is None:
            return
        self.groups.close()
        self.replica_manager.answer_waiting()
        await self._close_connections()
        self.metadata.close()
        failure: BaseException | None = None
        try:
            await self._end_tasks()
        except BaseException as error:
            failure = error
        await asyncio.to_thread(self.log_manager.close, broker_epoch=self.metadata.broker_epoch)
        self._log_notes()
        if failure is not None:
            raise failure

    async def _close_connections(self) -> None:
        await asyncio.sleep(0)  # The answers to those that waited are written by their callbacks.
        for listener in self.listeners:
            listener.close_connections()
        deadline = asyncio.get_running_loop().time() + STOP_GRACE_SECONDS
        while any(listener.connections for listener in self.listeners):
            if asyncio.get_running_loop().time() > deadline:
                for listener in self.listeners:
                    listener.abort_connections()
                break
            await asyncio.sleep(0.01)

    async def _end_tasks(self) -> None:
        """Let the metadata log finish, end the other tasks, and raise what ended any of them."""
        tasks, self._tasks = self._tasks, None
        assert tasks is not None
        for task in self._running:
            if task is not self._metadata_task:
                task.cancel()
        await tasks.__aexit__(*sys.exc_info())

    # ---- while it runs ---------------------------------------------------------------------------

    def start_task(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Begin something that ends with the node at the latest."""
        assert self._tasks is not None
        try:
            task = self._tasks.create_task(work)
        except RuntimeError:  # A part has failed and the node is about to end.
            loop = asyncio.get_running_loop()
            task = loop.create_task(work)
            loop.call_soon(
                task.cancel
            )  # after its first step: a coroutine that never began would be warned of
            return task
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do what may wait for a disk without holding up the event loop."""
        return await asyncio.to_thread(work)

    @property
    def unsent_bytes(self) -> int:
        """How much lies in memory for clients that do not read fast enough."""
        return sum(listener.unsent_bytes for listener in self.listeners)

    def advertised_endpoint(self, connection: ConnectionInfo) -> Endpoint:
        """Where the client of this connection reaches this node: what the listener advertises, else what it
        reached.
        """
        for one in self.config.advertised_listeners:
            if one.name == connection.listener_name:
                return Endpoint(one.host, one.port, one.security_protocol_id)
        return Endpoint(connection.local_host, connection.local_port)

    def endpoint_of(self, broker_id: int, connection: ConnectionInfo) -> Endpoint | None:
        """Where the client of this connection reaches a node; None if it cannot."""
        if broker_id == self.config.node_id:
            return self.advertised_endpoint(connection)
        broker = self.metadata.image.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return None
        return broker.listeners.get(connection.listener_name)

    def _log_config(self, image: MetadataImage, topic: str) -> LogConfig:
        return log_config_of(self.config, image, topic)

    def _set_config(self, config: BrokerConfig) -> None:
        self.config = config
        self.connection_quota.limits = _connection_limits(config)
        self.metadata.reconfigure(controller_config(config))

    def _tell_groups(self, image: MetadataImage, changes: MetadataChanges) -> None:
        self._log_notes()
        self.groups.refresh()
        deleted = [one.before.name for one in changes.topics if one.before is not None and one.after is None]
        if deleted:
            self.groups.forget_topics(deleted)

    def _dir_went_offline(self, log_dir: LogDir, lost: list[TopicPartition]) -> None:
        log.error("The log directory %s is offline: %s", log_dir.path, log_dir.offline_reason)
        self.replica_manager.take_offline(lost)
        if log_dir.directory_id is not None:
            self.assignments.dir_failed(log_dir.directory_id)

    def _replica_placed(self, topic_partition: TopicPartition, partition_log: PartitionLog | None) -> None:
        directory_id = None if partition_log is None else self.log_manager.directory_id_of(partition_log)
        self.assignments.assign(topic_partition, directory_id)

    def _log_notes(self) -> None:
        """What the log directories have to say."""
        manager = self.log_manager
        notes, manager.notes = manager.notes, []
        for note in notes:
            log.info("%s", note)
        warnings, manager.warnings = manager.warnings, []
        for warning in warnings:
            log.warning("%s", warning)


def _everything(image: MetadataImage) -> MetadataChanges:
    """The change from nothing to this image."""
    return MetadataChanges(
        topics=tuple(ChangedTopic(None, topic) for topic in image.topics.by_name.values()),
        configs=frozenset(),
        brokers=frozenset(image.brokers),
        features=True,
    )


def _connection_limits(config: BrokerConfig) -> ConnectionLimits:
    return ConnectionLimits(
        max_connections=config.max_connections,
        listener_max_connections=config.listener_max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_per_ip_overrides=config.max_connections_per_ip_overrides,
    )


def _coordinator_config(config: BrokerConfig) -> CoordinatorConfig:
    return CoordinatorConfig(
        group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        group_min_session_timeout_ms=config.group_min_session_timeout_ms,
        group_max_session_timeout_ms=config.group_max_session_timeout_ms,
        group_max_size=config.group_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        max_batch_bytes=config.message_max_bytes,
    )


def raise_open_file_limit() -> None:
    """Allow as many open files as the kernel lets this process have: three a partition, one a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, WANTED_OPEN_FILES)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def run(config: BrokerConfig, *, ready: Callable[[Broker], None] | None = None) -> None:
    """Run a node until SIGTERM or SIGINT; `ready` is called when it serves. Blocks.

    KafkaError or OSError with one sentence if it cannot start.
    """
    uvloop.run(_run(config, ready))


async def _run(config: BrokerConfig, ready: Callable[[Broker], None] | None) -> None:
    broker = Broker(config)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await broker.start()
    # What is there now stays: the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    try:
        if ready is not None:
            ready(broker)
        await stop.wait()
    finally:
        await broker.stop()
