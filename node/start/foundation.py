"""Makes the parts of a node that need neither sockets nor metadata, before anything is opened."""

import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple

from ottla.logstore.log_dir import LogDir
from ottla.logstore.log_manager import LogManager
from ottla.logstore.volume import DirectoryLock
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition
from ottla.metadata_raft.raft_link import AcceptedLink
from ottla.node.audit.audit_file import AuditFile
from ottla.node.audit.audit_log import AuditLog
from ottla.node.authorization.access import Access
from ottla.node.authorization.authorizer import Authorizer
from ottla.node.clock import monotonic_s
from ottla.node.counters.leader_load import LeaderLoad
from ottla.node.kafka_api.dispatch import Dispatcher
from ottla.node.kafka_api.served_apis import Served, served_by
from ottla.node.memory.memory_budget import MemoryBudget, divide
from ottla.node.memory.memory_limit import memory_limit_bytes
from ottla.node.memory.memory_uses import MemoryUses
from ottla.node.net.act_for import ActingNode, ActingSecrets
from ottla.node.net.connection_info import network_of
from ottla.node.net.connection_quota import ConnectionQuota
from ottla.node.net.handshake_executor import HandshakeExecutor
from ottla.node.net.own_hosts import own_hosts
from ottla.node.net.peer_handshake import PeerGate, PeerIdentity
from ottla.node.net.peer_network import ControllerDoor, EndedConnection, PeerNetwork
from ottla.node.net.receive_memory import ReceiveMemory
from ottla.node.net.receive_windows import ReceiveWindows, widest_bytes
from ottla.node.net.send_buffers import SendBuffers
from ottla.node.net.unsent_answers import UnsentAnswers
from ottla.node.node_state import NodeState
from ottla.node.secure_client.client_security import SaslLogin
from ottla.node.security.certificate_problems import OwnNode
from ottla.node.security.cluster_key import cluster_key
from ottla.node.security.sasl.failed_logins import FailedLogins
from ottla.node.security.sasl.false_credentials import FalseCredentials
from ottla.node.security.security_reload import SecurityReload
from ottla.node.security.token_verifiers import TokenVerifiers
from ottla.node.settings.audit_settings import AUDIT_FILE
from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.sasl_settings import NodeLogin
from ottla.node.start.node_tasks import NodeTasks
from ottla.node.start.part_settings import (
    client_quotas,
    connection_limits,
    connection_rates,
    failure_allowance,
)
from ottla.node.start.peer_addresses import PeerAddresses
from ottla.node.start.signals import Signal
from ottla.node.start.world import World
from ottla.node.work.fair_pool import FairPool
from ottla.node.work.large_requests import LargeRequests
from ottla.node.work.opened_batches import OpenedBatches

# Threads for work of clients that may take long: decompressing batches, looking up timestamps, matching ids.
# 100 MiB of records of 7 bytes take 0.5 CPU s.
BATCH_THREADS: Final = 2
MAX_BATCH_CPU_S: Final = 10.0
TIME_THREADS: Final = 2
MAX_TIME_CPU_S: Final = 2.0
MAX_PATTERN_CPU_S: Final = 2.0  # enough for a million usual ids


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """The parts on which all later parts of a node depend."""

    world: World
    state: NodeState
    tasks: NodeTasks
    memory: MemoryBudget
    memory_max_bytes: int  # the limit of the process
    memory_uses: MemoryUses
    leader_load: LeaderLoad  # measured as soon as there are replicas
    receive_memory: ReceiveMemory
    unsent: UnsentAnswers
    large_requests: LargeRequests
    receive_windows: ReceiveWindows
    send_buffers: SendBuffers
    batch_pool: FairPool
    time_pool: FairPool
    pattern_pool: FairPool
    opened_batches: OpenedBatches
    log_manager: LogManager
    dir_offline: Signal[tuple[LogDir, list[TopicPartition]]]  # with the partitions in it
    peer_gate: PeerGate | None  # None without cluster.secret: then no node can prove its identity
    acting: ActingSecrets  # with which the REST API acts for its clients
    addresses: PeerAddresses
    peers: PeerNetwork
    peer_lost: Signal[int]  # the last connection of a node to this one has ended
    peer_connection_lost: Signal[EndedConnection]  # a connection of this node to another has ended
    cut_off: Signal[bool]  # True when other nodes may lead its partitions now, False when not
    connection_quota: ConnectionQuota
    handshakes: HandshakeExecutor
    failed_logins: FailedLogins
    false_credentials: FalseCredentials  # has a key after the log directories are claimed
    token_verifiers: TokenVerifiers
    link_accepted: Signal[AcceptedLink]  # at a listener that also serves Kafka's protocol
    background_work: list[Callable[[], Coroutine[Any, Any, None]]]  # to start with the node's tasks
    listener_tls: SecurityReload
    audit: AuditLog
    authorizer: Authorizer | None  # None: every client may do everything
    served_apis: Served
    dispatcher: Dispatcher

    @property
    def config(self) -> BrokerConfig:
        """The current settings."""
        return self.state.config

    def access_of(self, principal: str, host: str) -> Access:
        """Return what a principal ("TYPE:NAME") may do from an address."""
        return Access(principal, host) if self.authorizer is None else self.authorizer.access(principal, host)

    def identity(self) -> PeerIdentity:
        """Return the identity of this node for its peers, with the directory of its metadata."""
        return identity_of(self.state, self.log_manager)


def identity_of(state: NodeState, log_manager: LogManager) -> PeerIdentity:
    """Return the identity of a node for its peers, with the directory of its metadata."""
    config, dirs = state.config, log_manager.dirs
    directory = next((one for one in dirs if one.path == config.metadata_log_dir), dirs[0])
    return PeerIdentity(config.node_id, state.cluster_id, directory.directory_id or ZERO_UUID)


def make_foundation(config: BrokerConfig, world: World) -> Foundation:
    """Make the parts that need only settings; nothing is opened yet."""
    state, tasks = NodeState(config), NodeTasks()
    memory_max_bytes = config.ottla_memory_max_bytes
    if memory_max_bytes <= 0:
        memory_max_bytes = memory_limit_bytes()
    memory, uses = divide(memory_max_bytes), MemoryUses()
    dir_offline = Signal[tuple[LogDir, list[TopicPartition]]]()
    log_manager = _make_log_manager(config, world, memory, dir_offline)
    uses.count("producer_states", log_manager.producer_tally)
    buffers = _make_buffers(config, memory, uses)
    addresses, peer_connection_lost = PeerAddresses(state), Signal[EndedConnection]()
    key = None if config.cluster_secret is None else cluster_key(config.cluster_secret)
    peer_gate = _make_peer_gate(key, state, log_manager, world, addresses)
    acting = _make_acting(key, state, world)
    listener_tls = SecurityReload(
        lambda: state.config.listener_security,
        node=OwnNode(config.node_id, own_hosts(config)),
        now=lambda: datetime.fromtimestamp(world.clock.now_ms() / 1000, UTC),
    )
    served_apis = served_by(config) if world.served_apis is None else world.served_apis
    connection_quota = ConnectionQuota(connection_limits(config), connection_rates(config, _monotonic_ms))
    audit = _make_audit_log(config, world)
    dispatcher = Dispatcher(
        state,
        served_apis=served_apis,
        large_requests=buffers.large_requests,
        peer_gate=peer_gate,
        quotas=client_quotas(config, _monotonic_ms),
        audit=audit,
        acting=acting,
    )
    return Foundation(
        world=world,
        state=state,
        tasks=tasks,
        memory=memory,
        memory_max_bytes=memory_max_bytes,
        memory_uses=uses,
        leader_load=LeaderLoad(),
        receive_memory=buffers.receive_memory,
        unsent=buffers.unsent,
        large_requests=buffers.large_requests,
        receive_windows=buffers.receive_windows,
        send_buffers=buffers.send_buffers,
        batch_pool=FairPool(
            "batches",
            threads=BATCH_THREADS,
            max_cpu_s=MAX_BATCH_CPU_S,
            is_open=connection_quota.is_open,
        ),
        time_pool=FairPool(
            "times",
            threads=TIME_THREADS,
            max_cpu_s=MAX_TIME_CPU_S,
            is_open=connection_quota.is_open,
        ),
        pattern_pool=FairPool(
            "patterns",
            threads=1,
            max_cpu_s=MAX_PATTERN_CPU_S,
            is_open=connection_quota.is_open,
        ),
        opened_batches=buffers.opened_batches,
        log_manager=log_manager,
        dir_offline=dir_offline,
        peer_gate=peer_gate,
        acting=acting,
        addresses=addresses,
        peers=PeerNetwork(
            gate=peer_gate,
            node_id=config.node_id,
            endpoint_of=addresses.endpoint_of,
            chance=world.chance,
            tls=None
            if (own := config.peer_security) is None
            else partial(listener_tls.dialling, own.listener),
            login=lambda: node_login(state.config),
            on_lost=peer_connection_lost,
            controllers=ControllerDoor(
                is_controller_only=addresses.is_only_controller,
                tls=None
                if (of_controllers := config.controller_security) is None
                else partial(listener_tls.dialling, of_controllers.listener),
                login=lambda: _sasl_login(state.config.controller_login),
            ),
        ),
        peer_lost=Signal[int](),
        peer_connection_lost=peer_connection_lost,
        cut_off=Signal[bool](),
        connection_quota=connection_quota,
        handshakes=HandshakeExecutor(),
        failed_logins=FailedLogins(failure_allowance(config)),
        false_credentials=FalseCredentials(dispatcher.scram_credentials),
        token_verifiers=TokenVerifiers(world.clock.now_ms),
        link_accepted=Signal[AcceptedLink](),
        background_work=[],
        audit=audit,
        authorizer=None if config.authorizer is None else Authorizer(config.authorizer, audit.log_decision),
        listener_tls=listener_tls,
        served_apis=served_apis,
        dispatcher=dispatcher,
    )


def _make_log_manager(
    config: BrokerConfig,
    world: World,
    memory: MemoryBudget,
    dir_offline: Signal[tuple[LogDir, list[TopicPartition]]],
) -> LogManager:
    def went_offline(log_dir: LogDir, lost: list[TopicPartition]) -> None:
        log.error(
            "The log directory %s is offline: %s. It held %d partitions. Repair or replace its disk, then "
            "restart the node.",
            log_dir.path,
            log_dir.offline_reason,
            len(lost),
        )
        dir_offline((log_dir, lost))

    return LogManager(
        log_dirs=config.log_dirs,
        disk=world.disk,
        now_ms=world.clock.now_ms,
        unique=lambda: world.unique(16),
        lock=DirectoryLock if world.has_os_disk else None,
        producer_bytes=memory.producer_states,
        on_offline=went_offline,
    )


class _Buffers(NamedTuple):
    """The limits on the bytes of requests and responses in memory."""

    receive_memory: ReceiveMemory
    large_requests: LargeRequests
    unsent: UnsentAnswers
    receive_windows: ReceiveWindows
    send_buffers: SendBuffers
    opened_batches: OpenedBatches


def _make_buffers(config: BrokerConfig, memory: MemoryBudget, uses: MemoryUses) -> _Buffers:
    asked_bytes = config.queued_max_request_bytes
    made = _Buffers(
        receive_memory=ReceiveMemory(asked_bytes if asked_bytes > 0 else memory.receive_buffers),
        large_requests=LargeRequests(memory.large_requests),
        unsent=UnsentAnswers(memory.unsent_answers),
        receive_windows=ReceiveWindows(widest_bytes(), memory.receive_windows),
        send_buffers=SendBuffers(config.socket_send_buffer_bytes, memory.send_buffers),
        opened_batches=OpenedBatches(memory.opened_batches),
    )
    uses.count("receive_buffers", made.receive_memory)
    uses.count("large_requests", made.large_requests)
    uses.count("unsent_answers", made.unsent)
    uses.count("receive_windows", made.receive_windows)
    uses.count("send_buffers", made.send_buffers)
    uses.count("opened_batches", made.opened_batches)
    return made


def _make_peer_gate(
    key: bytes | None, state: NodeState, log_manager: LogManager, world: World, addresses: PeerAddresses
) -> PeerGate | None:
    """Return the gate that lets authenticated peers in; None without `cluster.secret`."""
    if key is None:
        return None
    return PeerGate(key, lambda: identity_of(state, log_manager), world.unique, addresses.hosts_of)


def _make_acting(key: bytes | None, state: NodeState, world: World) -> ActingSecrets:
    return ActingSecrets(
        own=world.unique(32),
        of_cluster=key,
        identity=lambda: ActingNode(state.node_id, state.cluster_id),
        unique=world.unique,
    )


def _monotonic_ms() -> int:
    return int(monotonic_s() * 1_000)


def open_audit_log(base: Foundation) -> None:
    """Open the file of the audit log; INVALID_CONFIG if it cannot be written."""
    try:
        base.audit.open()
    except OSError as error:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{AUDIT_FILE}={base.config.audit_file and base.config.audit_file.path}: the file cannot be "
            f"written: {error.strerror or error}.",
        ) from error


def _make_audit_log(config: BrokerConfig, world: World) -> AuditLog:
    """Make the audit log; its file is opened later."""
    wanted = config.audit_file
    file = None
    if wanted is not None:
        file = AuditFile(wanted.path, max_bytes=wanted.max_bytes, max_files=wanted.max_files)
    return AuditLog(
        node_id=config.node_id,
        file=file,
        now_ms=world.clock.now_ms,
        knows_clients=config.authorizer is not None or bool(config.listener_sasl),
        network_of=network_of,
    )


def node_login(config: BrokerConfig) -> SaslLogin | None:
    """Return the user by which this node logs in to other nodes; None without a login."""
    return _sasl_login(config.peer_login)


def _sasl_login(own: NodeLogin | None) -> SaslLogin | None:
    return None if own is None else SaslLogin(mechanism=own.mechanism, user=own.user, password=own.password)
