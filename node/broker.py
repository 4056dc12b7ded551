"""The broker: one node, with all of its parts; how it stops, and what its handlers ask of it.

`broker_start` has the order in which it starts. Stop: others take over what this node leads, nobody new is
let in, what waits is answered, logs are flushed and closed with the mark of a clean shutdown. A part that
fails ends the node.
"""

import asyncio
import gc
import inspect
import logging
import os
import random
import resource
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

import uvloop

from groupcoord.member_bytes import NodeMembers
from logstore import record_walk
from logstore.disk import Disk, OsDisk
from logstore.errors import ErrorCode, KafkaError
from logstore.log_config import VALIDATE_RECORDS, LogConfig
from logstore.log_dir import LogDir
from logstore.log_manager import LogManager
from logstore.partition_log import PartitionLog
from logstore.recovery import RECORDS_ARE_LOST
from logstore.topic_partition import ZERO_UUID, TopicPartition
from logstore.volume import DirectoryLock
from metadata_raft.cluster_features import SUPPORTED_FEATURES
from metadata_raft.commands import CreateTopics, NewTopic
from metadata_raft.delta import MetadataChanges
from metadata_raft.image import Endpoint, MetadataImage
from metadata_raft.quorum import Quorum
from node import broker_start
from node.broker_settings import DEDUPE_BUFFER, MIN_DEDUPE_BUFFER_BYTES
from node.broker_start import connection_limits
from node.clock import Clock, SystemClock
from node.cluster_settings import ANYWHERE
from node.config import BrokerConfig
from node.counters.election_counters import ElectionCounters
from node.kafka_api.dispatch import Dispatcher
from node.kafka_api.served_apis import served_by
from node.memory_budget import divide
from node.memory_limit import memory_limit_bytes
from node.net.connection_quota import ConnectionQuota
from node.net.listener import Listener
from node.net.peer_handshake import PeerGate, PeerIdentity
from node.net.peer_network import PeerNetwork
from node.net.receive_memory import ReceiveMemory
from node.net.receive_windows import ReceiveWindows, widest_bytes
from node.net.send_buffers import SendBuffers
from node.net.unsent_answers import UnsentAnswers
from node.node_state import NodeState
from node.replica.replica_manager import ReplicaManager
from node.replica.replication import Replication
from node.rest_api.probes import state_of
from node.rest_api.readiness import STILL_STARTING, problem_of
from node.rest_api.server_thread import RestServer
from node.runtime.administrators import Administrators
from node.runtime.assignments_manager import AssignmentsManager
from node.runtime.broker_lifecycle import BrokerLifecycle
from node.runtime.command_sender import HEARTBEAT_PURPOSE
from node.runtime.fair_pool import FairPool
from node.runtime.group_lag import GroupLag
from node.runtime.group_runtime import GroupRuntime
from node.runtime.group_topics import topics_changed
from node.runtime.large_requests import LargeRequests
from node.runtime.log_maintenance import LogMaintenance
from node.runtime.marker_sender import MarkerSender
from node.runtime.marker_writer import MarkerWriter
from node.runtime.metadata_feed import MetadataFeed
from node.runtime.metadata_publisher import controller_config, log_config_of
from node.runtime.metadata_runtime import MetadataRuntime
from node.runtime.producer_ids import ProducerIds
from node.runtime.stop_signals import received_signals, stop_signals
from node.runtime.topic_creation import offsets_topic, transactions_topic
from node.runtime.txn_gate import TxnGate
from node.runtime.txn_runtime import TxnRuntime

WANTED_OPEN_FILES = 1_048_576  # three a partition, one a connection; the kernel's hard limit may be less
# A dying process closes its sockets one after the other, so its port may still take the first connection.
GONE_PROBES: Final = 4
GONE_PROBE_PAUSE_S: Final = 0.05
# A node that waits for a quorum, or reads its logs again, tells so by its REST API meanwhile.
REST_PATIENCE_S: Final = 2.0
STILL_STARTING_S: Final = 10.0  # how often a node that starts says what it waits for
STOP_GRACE_SECONDS = 5.0  # for answers that are still in the sockets when the node stops

# Threads for the two kinds of work of clients that may take long: opening batches and looking up times.
# 100 MiB of records of 7 bytes take 0.5 CPU s.
BATCH_THREADS: Final = 2
MAX_BATCH_CPU_S: Final = 10.0
TIME_THREADS: Final = 2
MAX_TIME_CPU_S: Final = 2.0

T = TypeVar("T")

log = logging.getLogger(__name__)


class Broker:
    """One node. `start`, use, `stop`; all three in the same task, which owns the node's tasks.

    Its world can be handed in, and a simulation does: the wall clock, the files, chance (of session ids and
    pauses), `unique(n)`, n bytes that nobody can guess, and what makes the loops of the threads of the voter
    and of the REST API. Time that passes, sockets and threads are those of the running loop.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        chance: random.Random | None = None,
        unique: Callable[[int], bytes] = os.urandom,
        voter_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.SelectorEventLoop,
        rest_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
    ) -> None:
        self.state = NodeState(config)
        max_bytes = config.ottla_memory_max_bytes
        self.memory_max_bytes = max_bytes if max_bytes > 0 else memory_limit_bytes()
        self.memory = memory = divide(self.memory_max_bytes)
        self.voter_loop = voter_loop
        self.chance = chance if chance is not None else random.SystemRandom()
        self.unique = unique
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.is_hurried = False  # it ends without waiting for others to take over
        self.supported_features: Mapping[str, tuple[int, int]] = SUPPORTED_FEATURES
        self.batch_pool = FairPool("batches", threads=BATCH_THREADS, max_cpu_s=MAX_BATCH_CPU_S)
        self.time_pool = FairPool("times", threads=TIME_THREADS, max_cpu_s=MAX_TIME_CPU_S)
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
        self.group_members = NodeMembers(memory.group_members)
        self.replica_manager = ReplicaManager(
            broker_id=config.node_id,
            log_manager=self.log_manager,
            image=lambda: self.metadata.image,
            log_config=self._log_config,
            on_placed=self._replica_placed,
            session_slots=config.max_incremental_fetch_session_cache_slots,
            session_bytes=memory.fetch_sessions,
            is_open=lambda number: self.connection_quota.is_open(number),
            monotonic_ms=lambda: int(asyncio.get_running_loop().time() * 1000),
            max_lag_ms=lambda: self.config.replica_lag_time_max_ms,
            broker_epoch=lambda: self.metadata.broker_epoch,
            chance=self.chance,
            quota_windows=config.replication_quota_window_num,
            quota_window_seconds=config.replication_quota_window_size_seconds,
        )
        asked_bytes = config.queued_max_request_bytes
        self.receive_memory = ReceiveMemory(asked_bytes if asked_bytes > 0 else memory.receive_buffers)
        self.unsent = UnsentAnswers(memory.unsent_answers)
        self.large_requests = LargeRequests(memory.large_requests)
        self.receive_windows = ReceiveWindows(widest_bytes(), memory.receive_windows)
        self.send_buffers = SendBuffers(config.socket_send_buffer_bytes, memory.send_buffers)
        self.peer_gate: PeerGate | None = None
        if config.cluster_secret is not None:
            self.peer_gate = PeerGate(config.cluster_secret.encode(), self.identity, unique)
        self.peers = PeerNetwork(
            gate=self.peer_gate,
            node_id=config.node_id,
            endpoint_of=self.peer_endpoint,
            chance=self.chance,
            on_lost=self._peer_connection_lost,
        )
        self.served_apis = served_by(config)
        self.dispatcher = Dispatcher(
            self.state,
            served_apis=self.served_apis,
            large_requests=self.large_requests,
            peer_gate=self.peer_gate,
        )
        self.elections = ElectionCounters(lambda: self.metadata.is_controller)
        self.connection_quota = ConnectionQuota(connection_limits(config))
        self.administrators = Administrators(
            self._host_names, lambda: self.config.ottla_anonymous_administrators == ANYWHERE
        )
        self.listeners: list[Listener] = []
        self.rest = RestServer(self, rest_loop)
        self.quorum: Quorum
        self.joins_quorum = False  # whether this voter began with an empty disk
        self.metadata: MetadataRuntime
        self.metadata_feed: MetadataFeed | None = None  # of a voter, for nodes that are none
        self.lifecycle: BrokerLifecycle
        self.producer_ids: ProducerIds
        self.groups: GroupRuntime
        self.marker_writer: MarkerWriter
        self.marker_sender: MarkerSender
        self.txns: TxnRuntime
        self.txn_gate: TxnGate
        self.group_lag: GroupLag
        self.replication: Replication
        self.maintenance: LogMaintenance
        self.tasks: asyncio.TaskGroup | None = None
        self.metadata_task: asyncio.Task[None] | None = None
        self._reminder: asyncio.TimerHandle
        self._running: dict[asyncio.Task[Any], None] = {}

    # ---- start -----------------------------------------------------------------------------------

    async def start(self, *, when_loaded: Callable[[], None] = lambda: None) -> None:
        """Serve; returns when clients are let in.

        `when_loaded` is called when most of what stays in memory is there and nobody waits for this node yet.

        KafkaError with one sentence if the configuration or a log directory forbids it, OSError if an
        address is taken.
        """
        raise_open_file_limit()
        self.state.contact.begin(asyncio.get_running_loop().time(), self.clock.now_ms())
        for warning in self.config.warnings:
            log.warning("%s", warning)
        if self.config.values.get(VALIDATE_RECORDS, True) and not record_walk.IS_COMPILED:
            log.info("%s", record_walk.NOT_COMPILED)
        await broker_start.open_listeners(self)
        loop = asyncio.get_running_loop()
        patience = loop.call_later(REST_PATIENCE_S, self.rest.start)
        self._reminder = loop.call_later(STILL_STARTING_S, self._say_what_it_waits_for)
        try:
            await broker_start.start_parts(self, when_loaded)
        except BaseException as error:
            await self._abandon_start(error)
            raise
        finally:
            patience.cancel()
            self._reminder.cancel()
        self.state.is_serving = self.state.has_started = True
        self.rest.start()

    def _say_what_it_waits_for(self) -> None:
        """Log why the node does not serve yet, again and again."""
        self._reminder = asyncio.get_running_loop().call_later(STILL_STARTING_S, self._say_what_it_waits_for)
        problem = problem_of(state_of(self), has_caught_up=False)
        log.warning("%s%s", STILL_STARTING, problem or "Its listeners open.")

    async def _abandon_start(self, error: BaseException) -> None:
        """Raises what a part failed with, where that is why the start was given up."""
        for listener in self.listeners:
            listener.stop_accepting()
            listener.abort_connections()
        await self.rest.stop()
        self.peers.close()
        try:
            if self.tasks is not None:
                if self.metadata_task is not None:
                    self.metadata_task.cancel()
                await self._end_tasks()
        except BaseExceptionGroup as group:
            if isinstance(error, asyncio.CancelledError):
                raise _cause_of(group) from None
        finally:
            self.log_manager.release()

    # ---- among other nodes -----------------------------------------------------------------------

    def identity(self) -> PeerIdentity:
        """Who this node is to its peers; the directory is that of its metadata."""
        config, dirs = self.config, self.log_manager.dirs
        directory = next((one for one in dirs if one.path == config.metadata_log_dir), dirs[0])
        return PeerIdentity(config.node_id, self.state.cluster_id, directory.directory_id or ZERO_UUID)

    def peer_endpoint(self, node_id: int) -> Endpoint | None:
        """Where this node reaches another: as it registered, or as a voter told the quorum."""
        broker = self.metadata.image.brokers.get(node_id)
        registered = broker and broker.listeners.get(self.config.inter_broker_listener_name)
        if broker is not None and registered is not None and not broker.fenced:
            return registered
        return self.quorum.endpoint_of(node_id) or registered

    def set_cut_off(self, is_cut_off: bool) -> None:
        """Whether nothing was heard of the controller for a whole session: then this node takes nothing."""
        self.state.is_cut_off = is_cut_off
        self.metadata.encoded_answers.clear()  # they name the controller, which is unknown then
        if is_cut_off:
            self.replica_manager.fence()
        else:
            self.replica_manager.unfence()

    @property
    def config(self) -> BrokerConfig:
        """The settings that are valid now."""
        return self.state.config

    @property
    def is_serving(self) -> bool:
        """Return whether clients are let in."""
        return self.state.is_serving

    @property
    def cut_off_since_ms(self) -> int | None:
        """The time (ms) of the last contact to a leader of the quorum if this node is cut off, else None."""
        return self.state.cut_off_since_ms

    @property
    def quorum_leader_id(self) -> int:
        """The node that leads the metadata quorum as far as this one can know, else -1."""
        return self.metadata.controller_id if self.cut_off_since_ms is None else -1

    def peer_lost(self, node_id: int) -> None:
        """A peer's last connection to this node ended."""
        if self.tasks is None:
            return
        self.metadata.peer_lost(node_id)
        self._look_for(node_id)

    def meet_brokers(self, image: MetadataImage, changes: MetadataChanges) -> None:
        """Who has registered anew is another process."""
        for broker_id in changes.brokers - {self.config.node_id}:
            if broker_id in image.brokers:
                self.peers.registered(broker_id, image.brokers[broker_id].broker_epoch)

    def look_for_peers(self) -> None:
        """Another node leads the quorum; if it is this one, brokers without a connection here may be gone."""
        if self.metadata.is_controller:
            for broker_id in sorted(self.metadata.image.brokers):
                if broker_id != self.config.node_id and not self.has_peer(broker_id):
                    self._look_for(broker_id)

    def _look_for(self, node_id: int) -> None:
        broker = self.metadata.image.brokers.get(node_id)
        if broker is not None and not broker.fenced and self.metadata_feed is not None:
            self.start_task(self._look_whether_gone(node_id, broker.broker_epoch))

    async def _look_whether_gone(self, node_id: int, broker_epoch: int) -> None:
        """A process that died is known by its port, which is refused; one that is cut off has its grace."""
        for _ in range(GONE_PROBES):
            if self.has_peer(node_id):
                return
            if await self.peers.is_refused(node_id):
                self.metadata.peer_is_gone(node_id, broker_epoch)
                return
            await asyncio.sleep(GONE_PROBE_PAUSE_S)

    async def is_quorum_gone(self, voter_ids: Sequence[int]) -> bool:
        """Whether nobody can lead these voters any more: too many of their processes have ended."""
        left = len(voter_ids)
        for voter_id in voter_ids:
            if voter_id != self.config.node_id and await self.peers.is_refused(voter_id):
                left -= 1
            if left <= len(voter_ids) // 2:
                return True
        return False

    def _peer_connection_lost(self, purpose: str) -> None:
        """A connection to a peer ended; the controller may take the end of that for heartbeats for ours."""
        if purpose == HEARTBEAT_PURPOSE and self.tasks is not None:
            self.metadata.encoded_answers.clear()  # they may name a controller that is gone
            self.lifecycle.controller_changed()

    def has_peer(self, node_id: int) -> bool:
        """Whether a peer has a connection to this node."""
        return any(listener.has_peer(node_id) for listener in self.listeners)

    async def create_offsets_topic(self) -> None:
        await self._create_topic(offsets_topic(self.metadata.image, self.config, self.unique))

    async def create_transactions_topic(self) -> None:
        await self._create_topic(transactions_topic(self.metadata.image, self.config, self.unique))

    async def _create_topic(self, topic: NewTopic) -> None:
        reply = await self.metadata.submit(CreateTopics(topics=[topic]))
        for created in reply.topics:
            if created.error_code != ErrorCode.NONE:
                raise KafkaError(ErrorCode(created.error_code), created.error_message or "")

    async def run_metadata(self) -> None:
        """Keep the quorum at work; a disk that fails ends the node with one sentence."""
        try:
            await self.metadata.run()
        except BaseExceptionGroup as group:
            failed, rest = group.split(OSError)
            if failed is None or rest is not None:
                raise
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The metadata log in {self.config.metadata_log_dir} cannot be written, so the node ends:"
                f" {_cause_of(failed)}.",
            ) from group

    # ---- stop ------------------------------------------------------------------------------------

    async def stop(self, *, hands_over: bool = True) -> None:
        """Answer what waits, flush and close the logs, leave the mark of a clean shutdown.

        Not to hand over what it leads is for the end of a whole cluster, where nobody is left to take it.
        Raises the error of a part whose failure ended the node.
        """
        if self.tasks is None:
            return
        self.state.is_serving = False
        if hands_over:
            await self.hand_over()
        await self.rest.stop()
        for listener in self.listeners:
            listener.stop_accepting()
        self.groups.close()
        self.txns.close()
        self.txn_gate.close()
        self.marker_sender.close()
        self.batch_pool.close()
        self.time_pool.close()
        self.replica_manager.answer_waiting()
        if self.metadata_feed is not None:
            self.metadata_feed.close()
        await self._close_connections()
        self.lifecycle.stop()
        self.peers.close()
        self.metadata.close()
        failure: BaseException | None = None
        try:
            await self._end_tasks()
        except BaseException as error:
            failure = error
        await asyncio.to_thread(self.log_manager.close, broker_epoch=self.metadata.broker_epoch)
        self.log_notes()
        if failure is not None:
            raise failure

    async def hand_over(self) -> None:
        """Have others lead what this node leads while it still serves, so that no request fails.

        It leads nothing more then; what is left to do with it is to stop it.
        """
        others = [one for one in self.metadata.image.active_brokers() if one.broker_id != self.config.node_id]
        may_wait = self.config.controlled_shutdown_enable and not self.is_hurried
        if others and may_wait and sys.exc_info()[0] is None:
            await self.lifecycle.shut_down(gives_up=lambda: self.is_hurried)
            if self.quorum.is_leader:
                self.quorum.hand_over()

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
        tasks, self.tasks = self.tasks, None
        assert tasks is not None
        for task in tuple(self._running):
            if task is not self.metadata_task:
                task.cancel()
        await tasks.__aexit__(*sys.exc_info())

    async def abandon(self) -> None:
        """End as a kill would: nothing is handed over, flushed or marked, and peers see connections break."""
        self.state.is_serving = False
        for listener in self.listeners:
            listener.stop_accepting()
            listener.abort_connections()
        await self.rest.stop()
        self.peers.close()
        if self.metadata_task is not None:
            self.metadata_task.cancel()
        try:
            if self.tasks is not None:
                await self._end_tasks()
        finally:
            self.log_manager.release()

    # ---- while it runs ---------------------------------------------------------------------------

    def start_task(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Begin something that ends with the node at the latest.

        It ends after its first step where the node is about to end: that still applies what is committed.
        """
        loop = asyncio.get_running_loop()
        try:
            task = self.tasks.create_task(work) if self.tasks is not None else None
        except RuntimeError:  # a part has failed
            task = None
        if task is None:
            # From Python 3.13 on a group closes what it refuses. Else it is ended later than it is begun: a
            # coroutine that never began would be warned of.
            is_closed = inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
            task = loop.create_task(_never() if is_closed else work)
            loop.call_soon(task.cancel)
            return task
        self._running[task] = None
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: "asyncio.Task[Any]") -> None:
        """Log which part failed: the error of any task ends the node, and may be one of many by then."""
        self._running.pop(task, None)
        if task.cancelled() or (error := task.exception()) is None:
            return
        coroutine = task.get_coro()
        part = getattr(coroutine, "__qualname__", None) or task.get_name()
        cause = _cause_of(error) if isinstance(error, BaseExceptionGroup) else error
        reason = str(cause) or type(cause).__name__
        log.error("The node ends, because a part of it failed (%s): %s", part, reason)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do what may wait for a disk without holding up the event loop."""
        return await asyncio.to_thread(work)

    def cleaner_key_bytes(self) -> int:
        """Return the memory for keys of logs that are compacted: as set, or this part of the budget."""
        config = self.config
        wanted = config.log_cleaner_dedupe_buffer_size
        if config.is_set(DEDUPE_BUFFER):
            return wanted
        return min(wanted, max(self.memory.cleaners, config.log_cleaner_threads * MIN_DEDUPE_BUFFER_BYTES))

    @property
    def id_bytes(self) -> int:
        """Return the bytes of the groups and transactional ids that this node coordinates."""
        return self.groups.used_bytes + self.txns.used_bytes

    def has_room_for_ids(self) -> bool:
        """Return whether there is memory for one more group or transactional id."""
        return self.id_bytes < self.memory.groups_and_ids

    def memory_uses(self) -> dict[str, tuple[int, int]]:
        """Return what each part of the budget uses now, and the most that it may."""
        memory, replicas = self.memory, self.replica_manager
        members = self.group_members
        answers = self.metadata.encoded_answers
        sessions_bytes = replicas.sessions.used_bytes + replicas.follower_sessions.used_bytes
        return {
            "receive_buffers": (self.receive_memory.used_bytes, self.receive_memory.limit_bytes),
            "large_requests": (self.large_requests.used_bytes, self.large_requests.limit_bytes),
            "unsent_answers": (self.unsent.used_bytes, self.unsent.limit_bytes),
            "receive_windows": (self.receive_windows.used_bytes, self.receive_windows.limit_bytes),
            "send_buffers": (self.send_buffers.used_bytes, self.send_buffers.limit_bytes),
            "fetch_sessions": (sessions_bytes, memory.fetch_sessions),
            "groups_and_ids": (self.id_bytes, memory.groups_and_ids),
            "group_members": (members.used_bytes, members.limit_bytes),
            "cleaners": (self.maintenance.used_key_bytes, self.cleaner_key_bytes()),
            "encoded_answers": (answers.used_bytes, answers.limit_bytes),
            "rest_bodies": (self.rest.body_bytes, memory.rest_bodies),
            "rest_answers": (self.rest.answer_bytes, memory.rest_answers),
        }

    def _log_config(self, image: MetadataImage, topic: str) -> LogConfig:
        return log_config_of(self.config, image, topic)

    def set_config(self, config: BrokerConfig) -> None:
        self.state.config = config
        self.replica_manager.quotas.configure(
            leader_bytes_per_second=config.leader_replication_throttled_rate,
            follower_bytes_per_second=config.follower_replication_throttled_rate,
        )
        self.connection_quota.limits = connection_limits(config)
        self.metadata.reconfigure(controller_config(config))

    def _host_names(self) -> list[str]:
        """Return the names by which the nodes of the cluster are registered."""
        brokers = self.metadata.image.brokers.values()
        return [endpoint.host for one in brokers for endpoint in one.listeners.values()]

    def tell_groups(self, image: MetadataImage, changes: MetadataChanges) -> None:
        self.log_notes()
        self.groups.refresh()
        self.txns.refresh()
        self.marker_sender.refresh()
        self.txn_gate.refresh()
        if any(broker_id != self.config.node_id for broker_id in changes.brokers):
            self.lifecycle.report_soon()
        deleted = [one.before.name for one in changes.topics if one.before is not None and one.after is None]
        if deleted:
            self.groups.forget_topics(deleted)
        changed = topics_changed(image, changes)
        if changed is not None:
            self.groups.change_topics(changed)

    def _dir_went_offline(self, log_dir: LogDir, lost: list[TopicPartition]) -> None:
        log.error(
            "The log directory %s is offline: %s. It served %d partitions.",
            log_dir.path,
            log_dir.offline_reason,
            len(lost),
        )
        self.replica_manager.take_offline(lost)
        if log_dir.directory_id is not None:
            self.assignments.dir_failed(log_dir.directory_id)

    def _replica_placed(self, topic_partition: TopicPartition, partition_log: PartitionLog | None) -> None:
        directory_id = None if partition_log is None else self.log_manager.directory_id_of(partition_log)
        self.assignments.assign(topic_partition, directory_id)

    def log_notes(self) -> None:
        """What the log directories have to say."""
        manager = self.log_manager
        notes, manager.notes = manager.notes, []
        for note in notes:
            log.log(logging.WARNING if note.endswith(RECORDS_ARE_LOST) else logging.INFO, "%s", note)
        warnings, manager.warnings = manager.warnings, []
        for warning in warnings:
            log.warning("%s", warning)


async def _never() -> Any:
    """Waits until it is cancelled."""
    await asyncio.get_running_loop().create_future()


def _cause_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What a group is about, where that is one thing."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def raise_open_file_limit() -> None:
    """Allow as many open files as the kernel lets this process have: three a partition, one a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, WANTED_OPEN_FILES)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def run(config: BrokerConfig, *, ready: Callable[[Broker], None] | None = None) -> None:
    """Run a node until SIGTERM, SIGINT or SIGHUP; `ready` is called when it serves. Blocks.

    It hands over what it leads before it ends; a second signal has it end without. One that still starts ends
    at once: it may wait for others that never come. SIGUSR1 has it hand over and serve on, for who wants to
    stop it a little later.

    KafkaError or OSError with one sentence if it cannot start.
    """
    uvloop.run(_run(config, ready))


# Net allocations until the youngest objects are looked at, and then of the next older ones so many times. All
# objects are looked at a hundred times less often than Python does by itself.
_COLLECTION_THRESHOLDS = (700, 10, 1_000)


def _freeze() -> None:
    """What is there now stays: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTION_THRESHOLDS)


async def _run(config: BrokerConfig, ready: Callable[[Broker], None] | None) -> None:
    broker = Broker(config)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    this_task = asyncio.current_task()
    assert this_task is not None

    def stop_asked(number: signal.Signals, sender: str) -> None:
        """Whoever asks a second time does not want to wait until others have taken over."""
        broker.is_hurried = stop.is_set()
        if broker.is_hurried:
            log.info("%s again, from %s: the node ends without handing over.", number.name, sender)
        elif is_up:
            log.info("%s from %s: the node hands over what it leads and stops.", number.name, sender)
        else:
            log.info("Told to stop while it started (%s from %s), the node ends.", number.name, sender)
            this_task.cancel()
        stop.set()

    def hand_over_asked(sender: str) -> None:
        """A node that starts leads nothing yet, and one that ends hands over by itself."""
        if is_up and not stop.is_set():
            log.info("SIGUSR1 from %s: the node hands over what it leads and serves on.", sender)
            broker.start_task(broker.hand_over())

    def received(number: signal.Signals, sender: str) -> None:
        if number is signal.SIGUSR1:
            loop.call_soon_threadsafe(hand_over_asked, sender)
        else:
            loop.call_soon_threadsafe(stop_asked, number, sender)

    is_up = False
    with received_signals((*stop_signals(), signal.SIGUSR1), received):
        try:
            await broker.start(when_loaded=_freeze)
        except asyncio.CancelledError:
            if not stop.is_set():
                raise
            return
        is_up = True
        try:
            if ready is not None:
                ready(broker)
            await stop.wait()
        finally:
            await broker.stop()
            log.info("The node has stopped.")
