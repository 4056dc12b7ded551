"""Topics that come into being because somebody needs them: auto-created and internal ones."""

import uuid
from collections.abc import Callable, Sequence

from ottla.groupcoord.share_state.share_state_records import SHARE_STATE_TOPIC
from ottla.groupcoord.transactions.transaction_records import TRANSACTIONS_TOPIC
from ottla.metadata_raft.commands import USE_DEFAULT, CreateTopics, MutationPayer, NewTopic, NewTopicConfig
from ottla.metadata_raft.image import MetadataImage
from ottla.node.settings.config import BrokerConfig

OFFSETS_TOPIC = "__consumer_offsets"


def random_uuid(unique: Callable[[int], bytes]) -> bytes:
    """A fresh id whose text does not begin with '-', which tools would take for an option."""
    while True:
        made = uuid.UUID(bytes=unique(16), version=4).bytes
        if made[0] >> 2 != 62:  # what base64url writes as '-'
            return made


def auto_created(
    names: Sequence[str],
    image: MetadataImage,
    config: BrokerConfig,
    unique: Callable[[int], bytes],
    payer: MutationPayer | None = None,
) -> CreateTopics:
    """The command that creates the topics that a client, for whose quota they count, asked for by name."""
    topics = [_auto_created(name, image, config, unique) for name in names]
    return CreateTopics(topics=topics, payer=payer or MutationPayer())


def _auto_created(
    name: str, image: MetadataImage, config: BrokerConfig, unique: Callable[[int], bytes]
) -> NewTopic:
    if name == OFFSETS_TOPIC:
        return offsets_topic(image, config, unique)
    if name == TRANSACTIONS_TOPIC:
        return transactions_topic(image, config, unique)
    if name == SHARE_STATE_TOPIC:
        return share_state_topic(image, config, unique)
    return NewTopic(
        name=name, topic_id=random_uuid(unique), num_partitions=USE_DEFAULT, replication_factor=USE_DEFAULT
    )


def offsets_topic(image: MetadataImage, config: BrokerConfig, unique: Callable[[int], bytes]) -> NewTopic:
    """`__consumer_offsets` as `offsets.topic.*` want it, with at most a replica for each node."""
    return NewTopic(
        name=OFFSETS_TOPIC,
        topic_id=random_uuid(unique),
        num_partitions=config.offsets_topic_num_partitions,
        replication_factor=_replicas_of(config.offsets_topic_replication_factor, image, config),
        configs=[
            NewTopicConfig(name="cleanup.policy", value="compact"),
            NewTopicConfig(name="segment.bytes", value=str(config.offsets_topic_segment_bytes)),
            # The codec of offsets.topic.compression.codec is the coordinator's, batch by batch.
            NewTopicConfig(name="compression.type", value="producer"),
        ],
    )


def transactions_topic(
    image: MetadataImage, config: BrokerConfig, unique: Callable[[int], bytes]
) -> NewTopic:
    """`__transaction_state` as `transaction.state.log.*` want it, with at most a replica for each node, and
    no more of them to be in sync than there are.
    """
    replicas = _replicas_of(config.transaction_state_log_replication_factor, image, config)
    return NewTopic(
        name=TRANSACTIONS_TOPIC,
        topic_id=random_uuid(unique),
        num_partitions=config.transaction_state_log_num_partitions,
        replication_factor=replicas,
        configs=[
            NewTopicConfig(name="cleanup.policy", value="compact"),
            NewTopicConfig(name="compression.type", value="uncompressed"),
            NewTopicConfig(
                name="min.insync.replicas", value=str(min(config.transaction_state_log_min_isr, replicas))
            ),
            NewTopicConfig(name="segment.bytes", value=str(config.transaction_state_log_segment_bytes)),
            # A transaction that was committed must not be forgotten to have a leader sooner.
            NewTopicConfig(name="unclean.leader.election.enable", value="false"),
        ],
    )


def share_state_topic(image: MetadataImage, config: BrokerConfig, unique: Callable[[int], bytes]) -> NewTopic:
    """`__share_group_state` as `share.coordinator.state.topic.*` want it, with at most a replica for each
    node, and no more of them to be in sync than there are.
    """
    replicas = _replicas_of(config.share_coordinator_state_topic_replication_factor, image, config)
    min_isr = min(config.share_coordinator_state_topic_min_isr, replicas)
    return NewTopic(
        name=SHARE_STATE_TOPIC,
        topic_id=random_uuid(unique),
        num_partitions=config.share_coordinator_state_topic_num_partitions,
        replication_factor=replicas,
        configs=[
            # Its coordinator cuts it off where all is redundant that was said before; nothing else may go.
            NewTopicConfig(name="cleanup.policy", value="delete"),
            NewTopicConfig(name="retention.ms", value="-1"),
            # The codec is the coordinator's, batch by batch.
            NewTopicConfig(name="compression.type", value="producer"),
            NewTopicConfig(
                name="segment.bytes", value=str(config.share_coordinator_state_topic_segment_bytes)
            ),
            NewTopicConfig(name="min.insync.replicas", value=str(min_isr)),
        ],
    )


def dead_letter_topic(name: str, unique: Callable[[int], bytes]) -> NewTopic:
    """A topic for dead letters of share groups (KIP-1191), with the defaults for partitions and replicas."""
    return NewTopic(
        name=name,
        topic_id=random_uuid(unique),
        num_partitions=USE_DEFAULT,
        replication_factor=USE_DEFAULT,
        configs=[
            NewTopicConfig(name="errors.deadletterqueue.group.enable", value="true"),
            NewTopicConfig(name="message.timestamp.type", value="CreateTime"),
        ],
    )


def _replicas_of(wanted: int, image: MetadataImage, config: BrokerConfig) -> int:
    """Apache Kafka refuses to create an internal topic while there are fewer brokers than the replicas that
    are `wanted`, by default 3; then a node without configuration could never serve a group. So a small
    cluster has fewer replicas; but brokers that are known and not up yet are waited for, or a cluster that
    starts would have too few for ever.
    """
    voters = len(image.voters) or len(config.controller_quorum_voters)
    return max(1, min(wanted, max(len(image.brokers), voters)))
