"""Makes the commands that create internal and auto-created topics."""

import uuid
from collections.abc import Callable, Sequence

from ottla.groupcoord.share_state.share_state_records import SHARE_STATE_TOPIC
from ottla.groupcoord.transactions.transaction_records import TRANSACTIONS_TOPIC
from ottla.metadata_raft.commands import USE_DEFAULT, CreateTopics, MutationPayer, NewTopic, NewTopicConfig
from ottla.metadata_raft.image import MetadataImage
from ottla.node.settings.config import BrokerConfig

OFFSETS_TOPIC = "__consumer_offsets"


def random_uuid(unique: Callable[[int], bytes]) -> bytes:
    """Return a random id whose text does not begin with '-', which tools would take for an option."""
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
    """Return the command that creates these topics; they count for the mutation quota of `payer`."""
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
    """Return `__consumer_offsets` by the settings `offsets.topic.*`, with at most one replica per node."""
    return NewTopic(
        name=OFFSETS_TOPIC,
        topic_id=random_uuid(unique),
        num_partitions=config.offsets_topic_num_partitions,
        replication_factor=_replicas_of(config.offsets_topic_replication_factor, image, config),
        configs=[
            NewTopicConfig(name="cleanup.policy", value="compact"),
            NewTopicConfig(name="segment.bytes", value=str(config.offsets_topic_segment_bytes)),
            # The coordinator compresses each batch with offsets.topic.compression.codec.
            NewTopicConfig(name="compression.type", value="producer"),
        ],
    )


def transactions_topic(
    image: MetadataImage, config: BrokerConfig, unique: Callable[[int], bytes]
) -> NewTopic:
    """Return `__transaction_state` by the settings `transaction.state.log.*`.

    It has at most one replica on each node, and a `min.insync.replicas` of at most its replicas.
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
            # An unclean leader could lose a committed transaction.
            NewTopicConfig(name="unclean.leader.election.enable", value="false"),
        ],
    )


def share_state_topic(image: MetadataImage, config: BrokerConfig, unique: Callable[[int], bytes]) -> NewTopic:
    """Return `__share_group_state` by the settings `share.coordinator.state.topic.*`.

    It has at most one replica on each node, and a `min.insync.replicas` of at most its replicas.
    """
    replicas = _replicas_of(config.share_coordinator_state_topic_replication_factor, image, config)
    min_isr = min(config.share_coordinator_state_topic_min_isr, replicas)
    return NewTopic(
        name=SHARE_STATE_TOPIC,
        topic_id=random_uuid(unique),
        num_partitions=config.share_coordinator_state_topic_num_partitions,
        replication_factor=replicas,
        configs=[
            # Only its coordinator deletes records: those before the first that is not redundant.
            NewTopicConfig(name="cleanup.policy", value="delete"),
            NewTopicConfig(name="retention.ms", value="-1"),
            # The coordinator chooses the codec of each batch.
            NewTopicConfig(name="compression.type", value="producer"),
            NewTopicConfig(
                name="segment.bytes", value=str(config.share_coordinator_state_topic_segment_bytes)
            ),
            NewTopicConfig(name="min.insync.replicas", value=str(min_isr)),
        ],
    )


def dead_letter_topic(name: str, unique: Callable[[int], bytes]) -> NewTopic:
    """Return a topic for dead letters of share groups (KIP-1191), with the default number of partitions."""
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
    """Return the replication factor of an internal topic: `wanted`, but at most the number of nodes.

    Apache Kafka does not create an internal topic while there are fewer brokers than its replicas, by default
    3; a single node without configuration could then never serve a group. Nodes that are known but not up yet
    count, or the topics of a starting cluster would have too few replicas for ever. Voters that are no
    brokers count with them: a cluster with fewer brokers than separate controllers needs the setting, as with
    Apache Kafka.
    """
    voters = len(image.voters) or len(config.controller_quorum_voters)
    return max(1, min(wanted, max(len(image.brokers), voters)))
