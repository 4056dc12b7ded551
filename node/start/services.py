"""Makes the record of all services, and applies settings that change while they run."""

from collections.abc import Sequence

from ottla.node.client_metrics.client_instances import ClientInstances
from ottla.node.counters.history import History
from ottla.node.metadata.metadata_publisher import controller_config
from ottla.node.net.listener import Listener
from ottla.node.replica.replica_manager import ReplicaManager
from ottla.node.replica.replication_quota import UNLIMITED
from ottla.node.security.administrators import Administrators
from ottla.node.services import QuorumServices, Services
from ottla.node.settings.cluster_settings import ANYWHERE
from ottla.node.settings.config import BrokerConfig
from ottla.node.share.share_views import ShareViews
from ottla.node.start.care import make_care
from ottla.node.start.coordinators import make_coordinators
from ottla.node.start.foundation import Foundation
from ottla.node.start.node_tasks import in_thread
from ottla.node.start.part_settings import connection_limits, failure_allowance, rate_limits
from ottla.node.start.shares import make_shares


def apply_settings(
    config: BrokerConfig, base: Foundation, parts: QuorumServices, replicas: ReplicaManager
) -> None:
    """Apply new settings to the parts that do not read them at each use."""
    base.state.config = config
    replicas.quotas.configure(
        leader_bytes_per_second=config.leader_replication_throttled_rate,
        follower_bytes_per_second=config.follower_replication_throttled_rate,
        moved_bytes_per_second=config.ottla_balance_max_bytes_per_second
        if config.ottla_balance_enable or config.ottla_balance_requested
        else UNLIMITED,
    )
    base.connection_quota.limit(connection_limits(config))
    base.connection_quota.rates.limit(rate_limits(config))
    base.failed_logins.limit(failure_allowance(config))
    base.listener_tls.settings_changed()
    of_clients = {one.name for one in config.listeners} & config.listener_sasl.keys()
    base.token_verifiers.settings_changed(
        {name: config.listener_sasl[name] for name in sorted(of_clients)}, base.tasks.start
    )
    parts.metadata.reconfigure(controller_config(config, base.false_credentials.key))


def make_services(
    base: Foundation, parts: QuorumServices, replicas: ReplicaManager, listeners: Sequence[Listener]
) -> Services:
    """Make the services for clients, on open logs; nothing runs yet."""
    config, world = base.config, base.world
    coordinators = make_coordinators(base, parts, replicas)
    care = make_care(base, parts, replicas)
    shares = make_shares(base, parts, replicas, coordinators.share_persister)
    client_metrics = ClientInstances(
        max_bytes=base.memory.client_metrics,
        max_series=lambda: base.config.ottla_metrics_client_series_max,
        is_open=base.connection_quota.is_open,
        unique=world.unique,
    )
    base.memory_uses.count_by(
        "client_metrics", lambda: client_metrics.used_bytes, lambda: base.memory.client_metrics
    )
    history = History(limit_bytes=base.memory.history, interval_ms=config.ottla_history_interval_ms)
    base.memory_uses.count("history", history)
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
            base.audit.log_decision,
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
        pattern_pool=base.pattern_pool,
        opened_batches=base.opened_batches,
        log_manager=base.log_manager,
        maintenance=care.maintenance,
        replica_manager=replicas,
        replication=care.replication,
        producer_ids=parts.producer_ids,
        groups=coordinators.groups,
        group_lag=coordinators.group_lag,
        share_states=coordinators.share_states,
        share_persister=coordinators.share_persister,
        shares=shares,
        share_views=ShareViews(
            node_id=config.node_id,
            shares=shares,
            image=lambda: parts.image,
            connect=base.peers.client,
            start_task=base.tasks.start,
        ),
        marker_writer=coordinators.marker_writer,
        marker_sender=coordinators.marker_sender,
        txns=coordinators.txns,
        txn_gate=coordinators.txn_gate,
        client_quotas=base.dispatcher.quotas,
        client_metrics=client_metrics,
        history=history,
    )
