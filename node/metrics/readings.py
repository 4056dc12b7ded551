"""The values that were read from a node at one moment, for use in another thread than the node's own."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.logstore.words.latency import LatencyHistogram
from ottla.node.client_metrics.client_instances import ClientReading
from ottla.node.coordinators.coordinator_runtime import ShardCounts
from ottla.node.counters.share_counters import ShareCoordinatorCounters, ShareCounters
from ottla.node.quota.client_quotas import QuotaReading
from ottla.node.quota.connection_rates import RateReadings


class PartitionReading(NamedTuple):
    """A replica on this node. Values that only a leader knows are 0 or False on a follower."""

    topic: str
    partition: int
    is_leader: bool
    leader_id: int
    replica_count: int
    in_sync_count: int
    is_preferred: bool
    is_under_replicated: bool
    is_under_min_isr: bool
    is_at_min_isr: bool
    is_reassigning: bool
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int
    size_bytes: int
    segment_count: int
    producer_id_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerReading:
    """The connections of one listener."""

    name: str
    connections: int
    accepted: int
    logins: Mapping[str, int]  # by the names of `LoginCounts`
    software: Mapping[tuple[str, str], int]  # (name, version) of clients -> connections


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirReading:
    """A log directory, with its path as it is configured."""

    path: str
    is_online: bool
    uncleanable_sizes: Sequence[int]  # bytes of each log in it that the cleaner cannot clean


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReading:
    """The metadata quorum as this node knows it."""

    is_voter: bool
    state: str  # leader, follower, observer, unattached
    leader_id: int
    epoch: int
    voted_id: int
    high_watermark: int
    log_end_offset: int
    voter_count: int
    observer_count: int
    applied_offset: int
    applied_timestamp_ms: int
    cut_off_since_ms: int | None = None


class CoordinatorReading(NamedTuple):
    """The shards of one coordinator on this node, and the times to load their logs."""

    name: str  # group or share
    shards: ShardCounts
    load_times: LatencyHistogram


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReading:
    """The state of a node without its partitions, groups, share-partitions and clients."""

    listeners: Sequence[ListenerReading]
    log_dirs: Sequence[LogDirReading]
    quorum: QuorumReading
    is_controller: bool
    offline_replicas: int
    waiting: Mapping[str, int]  # requests that wait, by kind
    receive_buffer_bytes: int
    unsent_bytes: int
    memory: dict[str, tuple[int, int]]  # part of the budget -> bytes in use, and their limit
    share_partition_states: int
    share_rebalances: int
    coordinators: Sequence[CoordinatorReading]
    share_writes: ShareCoordinatorCounters
    share_pruned_offsets: Sequence[tuple[int, int]]  # by partition of the share coordinator's topic
    transactional_ids: int
    open_transactions: int
    completing_transactions: int
    isr_expands: int
    isr_shrinks: int
    isr_update_failures: int
    tls_listeners: Sequence[str]
    refused_certificates: Collection[str]  # listeners that keep their old certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMetricsReading:
    """The metrics that clients pushed, and the number of pushes."""

    clients: Sequence[ClientReading]
    instances: int
    series: int
    pushes: Mapping[str, int]  # by result
    left_out: Mapping[str, int]  # points, by reason


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotasReading:
    """The measurements of the most recently seen clients with a quota, and of connections."""

    produced: Sequence[QuotaReading]
    fetched: Sequence[QuotaReading]
    requests: Sequence[QuotaReading]
    mutations: Sequence[QuotaReading]
    exempt_percentage: float
    connections: RateReadings


class SharePartitionReading(NamedTuple):
    """A share-partition: a partition that this node leads and that a share group reads."""

    group: str
    topic: str
    partition: int
    in_flight_count: int
    in_flight_batch_count: int
    lock_timeouts: int
    stalled_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareReading:
    """The share groups of partitions that this node leads. The counters are live: they keep counting."""

    counters: ShareCounters
    session_count: int
    session_partition_count: int
    evictions: int
    partitions: Sequence[SharePartitionReading]
    left_out: int  # share-partitions beyond the limit of those with samples of their own


class CommittedReading(NamedTuple):
    """The committed offset of a group in a partition, and its lag in records and in ms; None if unknown."""

    topic: str
    partition: int
    offset: int
    lag: int | None
    lag_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReading:
    """A group that this node coordinates."""

    group_id: str
    protocol: str  # classic, consumer or share
    state: str
    protocol_type: str
    protocol_name: str
    member_count: int
    committed: Sequence[CommittedReading] = ()
