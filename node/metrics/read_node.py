"""Reads the state of a node on its loop, in steps, since it may have thousands of partitions."""

from collections import Counter
from itertools import islice
from typing import Final

from ottla.logstore.cleaner_manager import CleanerManager
from ottla.logstore.log_manager import LogManager
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.quorum import Quorum
from ottla.metadata_raft.quorum_raft import RaftQuorum
from ottla.node.metadata.member_quorum import MemberQuorum
from ottla.node.metrics.readings import (
    ClientMetricsReading,
    CoordinatorReading,
    ListenerReading,
    LogDirReading,
    NodeReading,
    PartitionReading,
    QuorumReading,
    QuotasReading,
    SharePartitionReading,
    ShareReading,
)
from ottla.node.net.listener import Listener
from ottla.node.replica.partition import Partition
from ottla.node.services import Services
from ottla.node.work.turns import Steps

# Distinct (name, version) pairs of client software with a series; clients may send any name and version.
MAX_SOFTWARE: Final = 20
OTHER_SOFTWARE: Final = ("other", "other")
UNKNOWN_SOFTWARE: Final = "unknown"

# For each kind of quota: clients may use any number of client ids and addresses. Reading one takes some 5 us.
MAX_QUOTA_SERIES: Final = 500


def read_partitions(services: Services) -> Steps[list[PartitionReading]]:
    """Read the replicas of this node, one in a step; one deleted meanwhile is read in its last state."""
    readings = []
    for partition in list(services.replica_manager):
        yield
        readings.append(_read_partition(partition, services.metadata.image))
    return readings


def _read_partition(partition: Partition, image: MetadataImage) -> PartitionReading:
    log, isr, assignment = partition.log, partition.isr, partition.assignment
    replicas = assignment.replicas
    in_sync = len(assignment.in_sync_replicas if isr is None else isr.committed)
    known = image.topics.partition(partition.topic_partition)
    adding = known.adding_replicas if known is not None else ()
    is_reassigning = bool(known is not None and (adding or known.removing_replicas))
    # As in Kafka, a replica that is being added does not count as missing.
    wanted = len([one for one in replicas if one not in adding])
    min_isr = min(log.config.min_insync_replicas, len(replicas))
    is_leader = isr is not None
    return PartitionReading(
        partition.topic_partition.topic,
        partition.topic_partition.partition,
        is_leader,
        assignment.leader_id,
        len(replicas),
        in_sync,
        bool(replicas) and assignment.leader_id == replicas[0],
        is_leader and in_sync < wanted,
        is_leader and in_sync < min_isr,
        is_leader and in_sync == min_isr,
        is_leader and is_reassigning,
        log.log_start_offset,
        log.log_end_offset,
        log.high_watermark,
        log.last_stable_offset,
        log.size_bytes,
        len(log.segments),
        log.producer_id_count,
    )


def read_node(services: Services) -> Steps[NodeReading]:
    """Read the state of this node without partitions and groups: a step per connection, then all the rest."""
    listeners = []
    for one in services.listeners:
        listeners.append((yield from _read_listener(one)))
    ids = [one.coordinator.shard for one in services.txns.shards.values() if one.coordinator is not None]
    updates = services.replication.isr_updates
    return NodeReading(
        listeners=listeners,
        log_dirs=read_log_dirs(services.log_manager, services.maintenance.cleaner),
        quorum=_read_quorum(services),
        is_controller=services.metadata.is_controller,
        offline_replicas=services.replica_manager.offline_count,
        waiting=services.replica_manager.waiting_counts() | {"ShareFetch": services.shares.waiting_count},
        receive_buffer_bytes=services.receive_memory.used_bytes,
        unsent_bytes=services.unsent.used_bytes,
        memory=services.memory_uses.read(),
        share_partition_states=sum(len(core.shard.states) for core in services.share_states.cores),
        share_rebalances=services.groups.share_rebalances,
        coordinators=[
            CoordinatorReading("group", services.groups.count_shards(), services.groups.load_times),
            CoordinatorReading(
                "share", services.share_states.count_shards(), services.share_states.load_times
            ),
        ],
        share_writes=services.share_states.counters,
        share_pruned_offsets=[
            (index, one.coordinator.shard.pruned_offset)
            for index, one in sorted(services.share_states.shards.items())
            if one.coordinator is not None
        ],
        transactional_ids=sum(len(shard.transactions) for shard in ids),
        open_transactions=sum(len(shard.ongoing) for shard in ids),
        completing_transactions=sum(len(shard.markers_left) for shard in ids),
        isr_expands=updates.expands,
        isr_shrinks=updates.shrinks,
        isr_update_failures=updates.failures,
        tls_listeners=services.listener_tls.listeners(),
        refused_certificates=services.listener_tls.refused().keys(),
    )


def read_shares(services: Services) -> Steps[ShareReading]:
    """Read the share-partitions that this node leads, one in a step."""
    shares, most = services.shares, services.config.ottla_metrics_partitions_max
    partitions = []
    for key, led in islice(list(shares.share_partitions.items()), most):
        yield
        partitions.append(
            SharePartitionReading(
                key.group,
                led.partition.topic_partition.topic,
                key.partition,
                led.core.in_flight_count,
                led.core.in_flight_batch_count,
                led.lock_timeouts,
                shares.stalled_ms(led),
            )
        )
    return ShareReading(
        counters=shares.counters,
        session_count=len(shares.sessions),
        session_partition_count=shares.sessions.partition_count,
        evictions=shares.sessions.evictions,
        partitions=partitions,
        left_out=max(0, len(shares) - most),
    )


def read_client_metrics(services: Services) -> Steps[ClientMetricsReading]:
    """Read the metrics that clients pushed, one client in a step."""
    metrics = services.client_metrics
    clients = []
    for one in metrics.read(services.clock.now_ms()):
        yield
        if one is not None:
            clients.append(one)
    return ClientMetricsReading(
        clients=clients,
        instances=len(metrics),
        series=metrics.series_count,
        pushes=dict(metrics.counts.pushes),
        left_out=dict(metrics.counts.left_out),
    )


def read_log_dirs(log_manager: LogManager, cleaner: CleanerManager) -> list[LogDirReading]:
    """Return the log directories, each with the sizes of the logs that the cleaner cannot clean."""
    uncleanable = [log for name in cleaner.uncleanable if (log := log_manager.logs.get(name)) is not None]
    return [
        LogDirReading(
            path=str(one.path),
            is_online=one.is_online,
            uncleanable_sizes=[log.size_bytes for log in uncleanable if log.directory.parent == one.path],
        )
        for one in log_manager.dirs
    ]


def read_quotas(services: Services) -> Steps[QuotasReading]:
    """Read the measurements of the most recently seen clients with a quota, one kind of quota in a step."""
    quotas = services.client_quotas
    produced = quotas.produced.readings(MAX_QUOTA_SERIES)
    yield
    fetched = quotas.fetched.readings(MAX_QUOTA_SERIES)
    yield
    requests = quotas.requests.readings(MAX_QUOTA_SERIES)
    yield
    mutations = quotas.mutations.readings(MAX_QUOTA_SERIES)
    yield
    return QuotasReading(
        produced=produced,
        fetched=fetched,
        requests=requests,
        mutations=mutations,
        exempt_percentage=quotas.exempt_percentage(),
        connections=services.listeners[0].quota.rates.readings(MAX_QUOTA_SERIES),
    )


def _read_listener(listener: Listener) -> Steps[ListenerReading]:
    software: Counter[tuple[str, str]] = Counter()
    for connection in list(listener.connections):
        yield
        info = connection.info
        name = (info.software_name or UNKNOWN_SOFTWARE, info.software_version or UNKNOWN_SOFTWARE)
        software[name if name in software or len(software) < MAX_SOFTWARE else OTHER_SOFTWARE] += 1
    return ListenerReading(
        name=listener.name,
        connections=len(listener.connections),
        accepted=listener.accepted,
        logins=listener.logins.by_name(),
        software=software,
    )


def voter_of(quorum: Quorum) -> RaftQuorum | None:
    """Return the voter of this node, also while it has no vote; None if it never has one."""
    if isinstance(quorum, MemberQuorum):
        return quorum.voter
    return quorum if isinstance(quorum, RaftQuorum) else None


def _read_quorum(services: Services) -> QuorumReading:
    quorum, metadata = services.quorum, services.metadata
    status, image, own_id = quorum.status(), metadata.image, services.config.node_id
    voter = voter_of(quorum)
    voter_ids = [one.voter_id for one in image.voters] or [
        one.node_id for one in services.config.controller_quorum_voters
    ]
    is_voter = own_id in voter_ids or not voter_ids
    own = next((one for one in status.voters if one.node_id == own_id), None)
    end = own.log_end_offset if own is not None and own.log_end_offset >= 0 else image.version + 1
    if quorum.is_leader:
        state = "leader"
    elif quorum.leader_id < 0:
        state = "unattached"
    else:
        state = "follower" if is_voter else "observer"
    return QuorumReading(
        is_voter=is_voter,
        state=state,
        leader_id=services.quorum_leader_id,
        epoch=quorum.epoch,
        voted_id=-1 if voter is None else voter.voted_id,
        high_watermark=max(status.high_watermark, image.version + 1),
        log_end_offset=max(end, image.version + 1),
        voter_count=len(voter_ids) or 1,
        observer_count=len(
            [one for one in image.brokers.values() if one.broker_id not in voter_ids and not one.fenced]
        ),
        applied_offset=image.version,
        applied_timestamp_ms=image.timestamp_ms,
        cut_off_since_ms=services.cut_off_since_ms,
    )
