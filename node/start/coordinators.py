"""Makes the coordinators of groups, transactions and share groups, and the clients of remote ones."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from ottla.groupcoord.shard_bytes import NodeBytes
from ottla.logstore.compression import Compression
from ottla.node.coordinators.group_configs import GroupConfigs
from ottla.node.coordinators.group_lag import GroupLag
from ottla.node.coordinators.group_runtime import GroupRuntime
from ottla.node.coordinators.marker_sender import MarkerSender
from ottla.node.coordinators.marker_writer import MarkerWriter
from ottla.node.coordinators.share_persister import SharePersister
from ottla.node.coordinators.share_state_runtime import ShareStateRuntime
from ottla.node.coordinators.txn_gate import TxnGate
from ottla.node.coordinators.txn_runtime import TxnRuntime
from ottla.node.metadata.topic_creation import offsets_topic, share_state_topic, transactions_topic
from ottla.node.replica.replica_manager import ReplicaManager
from ottla.node.services import QuorumServices
from ottla.node.settings.coordinator_configs import (
    coordinator_config,
    share_coordinator_config,
    transaction_config,
)
from ottla.node.start.foundation import Foundation
from ottla.node.start.metadata import create_topic
from ottla.node.start.node_tasks import in_thread


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinators:
    """The coordinators of this node, and the clients of those on other nodes."""

    groups: GroupRuntime
    group_lag: GroupLag
    share_states: ShareStateRuntime
    share_persister: SharePersister
    txns: TxnRuntime
    txn_gate: TxnGate
    marker_writer: MarkerWriter
    marker_sender: MarkerSender


def make_coordinators(base: Foundation, parts: QuorumServices, replicas: ReplicaManager) -> Coordinators:
    """Make the coordinators; they have loaded nothing yet."""

    def has_room_for_ids() -> bool:
        return groups.used_bytes + txns.used_bytes < base.memory.groups_and_ids

    share_states, share_persister = _make_share_coordinator(base, parts, replicas)
    groups = _make_groups(base, parts, replicas, share_persister, has_room_for_ids)
    marker_writer = MarkerWriter(
        replicas=replicas, groups=groups, is_cut_off=lambda: base.state.is_cut_off, clock=base.world.clock
    )
    txns, marker_sender = _make_transactions(base, parts, replicas, marker_writer, has_room_for_ids)
    base.memory_uses.count_by(
        "groups_and_ids",
        lambda: groups.used_bytes + txns.used_bytes,
        lambda: base.memory.groups_and_ids,
    )
    config = base.config
    return Coordinators(
        groups=groups,
        group_lag=GroupLag(
            node_id=config.node_id,
            replicas=replicas,
            image=lambda: parts.image,
            connect=base.peers.client,
            in_thread=in_thread,
            clock=base.world.clock,
        ),
        share_states=share_states,
        share_persister=share_persister,
        txns=txns,
        txn_gate=TxnGate(
            node_id=config.node_id,
            coordinators=txns,
            connect=base.peers.client,
            request_timeout_ms=config.request_timeout_ms,
            retry_backoff_ms=config.add_partitions_to_txn_retry_backoff_ms,
            retry_max_ms=config.add_partitions_to_txn_retry_backoff_max_ms,
        ),
        marker_writer=marker_writer,
        marker_sender=marker_sender,
    )


def _make_groups(
    base: Foundation,
    parts: QuorumServices,
    replicas: ReplicaManager,
    share_persister: SharePersister,
    has_room: Callable[[], bool],
) -> GroupRuntime:
    config, world = base.config, base.world
    members, offsets = NodeBytes(base.memory.group_members), NodeBytes(base.memory.committed_offsets)
    base.memory_uses.count("group_members", members)
    base.memory_uses.count("committed_offsets", offsets)
    return GroupRuntime(
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
        has_room=has_room,
        offsets_topic_compression=Compression(config.offsets_topic_compression_codec),
        persister=share_persister,
    )


def _make_share_coordinator(
    base: Foundation, parts: QuorumServices, replicas: ReplicaManager
) -> tuple[ShareStateRuntime, SharePersister]:
    """Return this node's share coordinator, and the persister, which sends requests to all of them."""
    config, world = base.config, base.world
    share_state_bytes = NodeBytes(base.memory.share_states)
    base.memory_uses.count("share_states", share_state_bytes)
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
    persister = SharePersister(
        node_id=config.node_id,
        coordinators=share_states,
        connect=base.peers.client,
        request_timeout_ms=config.request_timeout_ms,
        chance=world.chance,
    )
    return share_states, persister


def _make_transactions(
    base: Foundation,
    parts: QuorumServices,
    replicas: ReplicaManager,
    marker_writer: MarkerWriter,
    has_room: Callable[[], bool],
) -> tuple[TxnRuntime, MarkerSender]:
    """Return the transaction coordinator, and the sender of the markers that it decides on."""
    config, world = base.config, base.world
    txns = TxnRuntime(
        config=transaction_config(config),
        replicas=replicas,
        image=lambda: parts.image,
        create_topic=lambda: create_topic(
            parts.metadata, transactions_topic(parts.image, base.config, world.unique)
        ),
        clock=world.clock,
        has_room=has_room,
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
        written=txns.send,
        fenced=lambda index, job: txns.fail_shard(index, job.coordinator_epoch),
        chance=world.chance,
        timeout_ms=lambda: base.config.request_timeout_ms,
    )
    return txns, marker_sender
