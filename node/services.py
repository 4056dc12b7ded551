"""The finished parts of a node, as request handlers, metrics and the REST API use them.

A node serves its peers before it serves clients: they need its metadata to start, as it needs theirs. So
there are two records, and a handler takes the one that it needs: `QuorumServices` is made first, `Services`
once the logs are open and the coordinators exist.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ottla.logstore.log_manager import LogManager
from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.image import Endpoint, MetadataImage
from ottla.metadata_raft.quorum import Quorum
from ottla.node.audit.audit_log import AuditLog
from ottla.node.client_metrics.client_instances import ClientInstances
from ottla.node.clock import Clock
from ottla.node.coordinators.group_lag import GroupLag
from ottla.node.coordinators.group_runtime import GroupRuntime
from ottla.node.coordinators.group_topics import topics_changed
from ottla.node.coordinators.marker_sender import MarkerSender
from ottla.node.coordinators.marker_writer import MarkerWriter
from ottla.node.coordinators.share_persister import SharePersister
from ottla.node.coordinators.share_state_runtime import ShareStateRuntime
from ottla.node.coordinators.txn_gate import TxnGate
from ottla.node.coordinators.txn_runtime import TxnRuntime
from ottla.node.counters.election_counters import ElectionCounters
from ottla.node.counters.history import History
from ottla.node.counters.refused_requests import RefusedRequests
from ottla.node.counters.request_counters import AllRequestCounters
from ottla.node.handing_over import InThread, StartTask
from ottla.node.log_care.log_maintenance import LogMaintenance
from ottla.node.memory.memory_uses import MemoryUses
from ottla.node.metadata.assignments_manager import AssignmentsManager
from ottla.node.metadata.broker_lifecycle import BrokerLifecycle
from ottla.node.metadata.controller_lifecycle import ControllerLifecycle
from ottla.node.metadata.metadata_feed import MetadataFeed
from ottla.node.metadata.metadata_runtime import MetadataRuntime
from ottla.node.metadata.producer_ids import ProducerIds
from ottla.node.net.connection_info import ConnectionInfo
from ottla.node.net.listener import Listener
from ottla.node.net.peer_network import PeerNetwork
from ottla.node.net.receive_memory import ReceiveMemory
from ottla.node.net.unsent_answers import UnsentAnswers
from ottla.node.node_state import NodeState
from ottla.node.quota.client_quotas import ClientQuotas
from ottla.node.replica.replica_manager import ReplicaManager
from ottla.node.replica.replication import Replication
from ottla.node.security.administrators import Administrators
from ottla.node.security.security_reload import SecurityReload
from ottla.node.security.token_verifiers import TokenVerifiers
from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.group_settings import CONSUMER
from ottla.node.share.share_partition_manager import SharePartitionManager
from ottla.node.share.share_views import ShareViews
from ottla.node.wire.api_keys import ApiKey
from ottla.node.work.fair_pool import FairPool
from ottla.node.work.opened_batches import OpenedBatches

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumServices:
    """The parts that serve peers, before clients are served: metadata and membership in the cluster."""

    state: NodeState
    served_apis: Mapping[ApiKey, tuple[int, int]]
    supported_features: Mapping[str, tuple[int, int]]
    quorum: Quorum
    metadata: MetadataRuntime
    metadata_feed: MetadataFeed | None  # of a voter, for the observers
    lifecycle: BrokerLifecycle | ControllerLifecycle
    assignments: AssignmentsManager
    producer_ids: ProducerIds
    elections: ElectionCounters

    @property
    def config(self) -> BrokerConfig:
        """The current settings."""
        return self.state.config

    @property
    def image(self) -> MetadataImage:
        """The latest metadata that this node knows."""
        return self.metadata.image


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts that serve clients."""

    state: NodeState
    clock: Clock
    unique: Callable[[int], bytes]  # returns n unpredictable bytes
    in_thread: InThread
    start_task: StartTask
    memory_uses: MemoryUses
    memory_max_bytes: int  # of the whole process
    quorum: Quorum
    metadata: MetadataRuntime
    elections: ElectionCounters
    peers: PeerNetwork
    listeners: Sequence[Listener]
    administrators: Administrators
    audit: AuditLog
    listener_tls: SecurityReload
    token_verifiers: TokenVerifiers
    request_counters: AllRequestCounters
    refused_requests: RefusedRequests
    receive_memory: ReceiveMemory
    unsent: UnsentAnswers
    batch_pool: FairPool  # opens batches of clients
    time_pool: FairPool  # finds offsets by time
    pattern_pool: FairPool  # matches ids against expressions
    opened_batches: OpenedBatches  # that are to be appended
    log_manager: LogManager
    maintenance: LogMaintenance
    replica_manager: ReplicaManager
    replication: Replication
    producer_ids: ProducerIds
    groups: GroupRuntime
    group_lag: GroupLag
    marker_writer: MarkerWriter
    marker_sender: MarkerSender
    share_states: ShareStateRuntime
    share_persister: SharePersister
    shares: SharePartitionManager
    share_views: ShareViews
    txns: TxnRuntime
    txn_gate: TxnGate
    client_metrics: ClientInstances
    history: History
    client_quotas: ClientQuotas

    @property
    def config(self) -> BrokerConfig:
        """The current settings."""
        return self.state.config

    @property
    def is_cut_off(self) -> bool:
        """True if others may already lead partitions that this node believes it leads."""
        return self.state.is_cut_off

    @property
    def cut_off_since_ms(self) -> int | None:
        """The time (ms) of the last contact to a leader of the quorum if this node is cut off, else None."""
        return self.state.cut_off_since_ms

    @property
    def quorum_leader_id(self) -> int:
        """The leader of the metadata quorum, or -1 if there is none or this node is cut off."""
        return self.metadata.controller_id if self.cut_off_since_ms is None else -1

    @property
    def serves_consumer_groups(self) -> bool:
        """True if groups may use the consumer protocol (KIP-848)."""
        is_enabled = CONSUMER in self.config.group_coordinator_rebalance_protocols
        return is_enabled and self.metadata.image.group_version >= 1

    @property
    def serves_share_groups(self) -> bool:
        """True if there may be share groups (KIP-932)."""
        return self.metadata.image.share_version >= 1

    @property
    def has_authorizer(self) -> bool:
        """True if there is an authorizer."""
        return self.config.authorizer is not None

    def close(self) -> None:
        """Answer the waiting requests, and accept no more work."""
        self.groups.close()
        self.shares.close()
        self.share_persister.close()
        self.share_states.close()
        self.txns.close()
        self.txn_gate.close()
        self.marker_sender.close()
        self.batch_pool.close()
        self.time_pool.close()
        self.pattern_pool.close()
        self.replica_manager.answer_waiting()

    def update_coordinators(self, image: MetadataImage, changes: MetadataChanges) -> None:
        """Apply a change of the metadata to the coordinators and to subscriptions to client metrics."""
        self.groups.refresh()
        self.share_states.refresh()
        self.share_persister.refresh()
        if image.share_version < 1:
            self.shares.disable()
        self.txns.refresh()
        self.marker_sender.refresh()
        self.txn_gate.refresh()
        self.client_metrics.subscriptions.update(image, changes.configs)
        deleted = [one.before for one in changes.topics if one.before is not None and one.after is None]
        if deleted:
            self.groups.forget_topics([topic.name for topic in deleted])
            self.share_states.forget_topics([topic.topic_id for topic in deleted])
        changed = topics_changed(image, changes)
        if changed is not None:
            self.groups.change_topics(changed)

    def endpoint_of(self, broker_id: int, connection: ConnectionInfo) -> Endpoint | None:
        """Return the endpoint at which the client of this connection reaches a node; None if it cannot."""
        config = self.config
        if broker_id == config.node_id:
            return advertised_endpoint(config, connection)
        broker = self.metadata.image.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return None
        return broker.listeners.get(connection.listener_name)


def advertised_endpoint(config: BrokerConfig, connection: ConnectionInfo) -> Endpoint:
    """Return the endpoint of this node for a client: the advertised one, else the one it connected to."""
    for one in config.advertised_listeners:
        if one.name == connection.listener_name:
            return Endpoint(one.host, one.port, one.security_protocol_id)
    return Endpoint(connection.local_host, connection.local_port)
