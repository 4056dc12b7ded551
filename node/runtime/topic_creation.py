"""Topics that come into being because somebody needs them: auto-created and internal ones."""

import uuid
from collections.abc import Callable, Sequence

from metadata_raft.commands import USE_DEFAULT, CreateTopics, NewTopic, NewTopicConfig
from metadata_raft.image import MetadataImage
from node.config import BrokerConfig

OFFSETS_TOPIC = "__consumer_offsets"


def random_uuid(unique: Callable[[int], bytes]) -> bytes:
    """A fresh id whose text does not begin with '-', which tools would take for an option."""
    while True:
        made = uuid.UUID(bytes=unique(16), version=4).bytes
        if made[0] >> 2 != 62:  # what base64url writes as '-'
            return made


def auto_created(
    names: Sequence[str], image: MetadataImage, config: BrokerConfig, unique: Callable[[int], bytes]
) -> CreateTopics:
    """The command that creates the topics that a client asked for by name."""
    return CreateTopics(topics=[_auto_created(name, image, config, unique) for name in names])


def _auto_created(
    name: str, image: MetadataImage, config: BrokerConfig, unique: Callable[[int], bytes]
) -> NewTopic:
    if name == OFFSETS_TOPIC:
        return offsets_topic(image, config, unique)
    return NewTopic(
        name=name, topic_id=random_uuid(unique), num_partitions=USE_DEFAULT, replication_factor=USE_DEFAULT
    )


def offsets_topic(image: MetadataImage, config: BrokerConfig, unique: Callable[[int], bytes]) -> NewTopic:
    """`__consumer_offsets` as `offsets.topic.*` want it, with at most a replica for each node."""
    return NewTopic(
        name=OFFSETS_TOPIC,
        topic_id=random_uuid(unique),
        num_partitions=config.offsets_topic_num_partitions,
        replication_factor=_replicas_of_offsets(image, config),
        configs=[
            NewTopicConfig(name="cleanup.policy", value="compact"),
            NewTopicConfig(name="segment.bytes", value=str(config.offsets_topic_segment_bytes)),
            # The codec of offsets.topic.compression.codec is the coordinator's, batch by batch.
            NewTopicConfig(name="compression.type", value="producer"),
        ],
    )


def _replicas_of_offsets(image: MetadataImage, config: BrokerConfig) -> int:
    """Apache Kafka refuses to create the topic while there are fewer brokers than
    offsets.topic.replication.factor, whose default is 3; then a node without configuration could never serve
    a group. So a small cluster has fewer replicas; but brokers that are known and not up yet are waited for,
    or a cluster that starts would have too few for ever.
    """
    voters = len(image.voters) or len(config.controller_quorum_voters)
    return max(1, min(config.offsets_topic_replication_factor, max(len(image.brokers), voters)))
