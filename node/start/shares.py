"""Makes the leader's side of share groups, and their dead letter queue."""

import asyncio
from typing import Final

from ottla.metadata_raft.cluster_features import DEAD_LETTERS_SINCE
from ottla.node.coordinators.share_persister import SharePersister
from ottla.node.metadata.metadata_publisher import log_config_of
from ottla.node.metadata.topic_creation import dead_letter_topic
from ottla.node.replica.replica_manager import ReplicaManager
from ottla.node.services import QuorumServices
from ottla.node.share.dead_letter_queue import DeadLetterWorld
from ottla.node.share.dead_letter_topic import Destination, TopicRules, find_destination
from ottla.node.share.initial_offset import InitialOffsets
from ottla.node.share.letter_producer import LetterProducer
from ottla.node.share.share_group_settings import DeadLetterSettings, ShareGroupConfigs
from ottla.node.share.share_partition_manager import SharePartitionManager
from ottla.node.start.foundation import Foundation
from ottla.node.start.metadata import create_topic
from ottla.node.start.node_tasks import in_thread, monotonic_ms

# Share sessions may use 1/4 of the memory for fetch sessions, and share-partitions as much again.
SHARE_SESSIONS_PART: Final = 4


def make_shares(
    base: Foundation, parts: QuorumServices, replicas: ReplicaManager, persister: SharePersister
) -> SharePartitionManager:
    """Make the manager of the share-partitions that this node leads."""
    world = base.world
    began_ms, began_monotonic_ms = world.clock.now_ms(), monotonic_ms()
    share_settings = ShareGroupConfigs(
        lambda: base.config.values,
        lambda group_id: parts.image.configs.group(group_id),
        has_dead_letters=lambda: parts.image.share_version >= DEAD_LETTERS_SINCE,
        counts=lambda group: shares.counters.dead_letters_of(group),
        now_ms=world.clock.now_ms,
    )
    shares = SharePartitionManager(
        replicas=replicas,
        persister=persister,
        settings=share_settings,
        initial_offset=InitialOffsets(settings=share_settings, clock=world.clock, time_pool=base.time_pool),
        # Acquisition locks expire by this clock: it starts with the wall clock's time, and is never set.
        now_ms=lambda: began_ms + monotonic_ms() - began_monotonic_ms,
        wall_ms=world.clock.now_ms,
        in_thread=in_thread,
        start_task=base.tasks.start,
        max_sessions=lambda: base.config.group_share_max_share_sessions,
        limit_bytes=base.memory.fetch_sessions // SHARE_SESSIONS_PART,
        on_woken=replicas.on_fetch_woken,
        is_open=base.connection_quota.is_open,
        dead_letters=_dead_letter_world(base, parts, replicas),
    )
    base.connection_quota.on_close(shares.connection_closed)
    replicas.count_other_sessions(lambda: shares.used_bytes)
    return shares


def _dead_letter_world(base: Foundation, parts: QuorumServices, replicas: ReplicaManager) -> DeadLetterWorld:
    """Return what the dead letter queue needs: the destination of letters, and their producer."""
    config, world = base.config, base.world
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

    return DeadLetterWorld(
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
