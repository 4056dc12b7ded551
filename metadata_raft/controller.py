"""The controller: commands become decisions, and the records of decisions the next image.

`decide` is pure: the same image, command and time give the same records and reply. `replay` is what makes
records true. The image of a controller runs ahead of what is committed, so that commands need not wait for
each other's commits; if an append fails, it is set back to the last committed image with `reset`.
"""

from metadata_raft.cluster_control import (
    assign_replicas_to_dirs,
    register_broker,
    report_offline_log_dirs,
    unfence_broker,
    update_features,
)
from metadata_raft.commands import (
    AllocateProducerIds,
    AlterConfigs,
    AssignReplicasToDirs,
    Command,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    RegisterBroker,
    ReportOfflineLogDirs,
    UnfenceBroker,
    UpdateFeatures,
)
from metadata_raft.configuration_control import alter_configs
from metadata_raft.controller_config import ControllerConfig
from metadata_raft.decision import Decision
from metadata_raft.delta import MetadataChanges, replay_batch
from metadata_raft.image import MetadataImage
from metadata_raft.producer_id_control import allocate_producer_ids
from metadata_raft.record_codec import MetadataBatch
from metadata_raft.topic_control import create_partitions, create_topics, delete_topics


class Controller:
    """Decides over one image. Changed by its owner alone."""

    def __init__(self, image: MetadataImage, config: ControllerConfig) -> None:
        self.image = image
        self.config = config

    def decide(self, command: Command, now_ms: int) -> Decision:
        """What `command` does to the image at `now_ms`; KafkaError if the whole of it is refused."""
        del now_ms  # The batch carries the time; none of today's records has one of its own.
        image, config = self.image, self.config
        match command:
            case CreateTopics():
                return create_topics(image, command, config)
            case DeleteTopics():
                return delete_topics(image, command, config)
            case CreatePartitions():
                return create_partitions(image, command)
            case AlterConfigs():
                return alter_configs(image, command, config)
            case RegisterBroker():
                return register_broker(image, command)
            case UnfenceBroker():
                return unfence_broker(image, command)
            case ReportOfflineLogDirs():
                return report_offline_log_dirs(image, command)
            case AssignReplicasToDirs():
                return assign_replicas_to_dirs(image, command)
            case AllocateProducerIds():
                return allocate_producer_ids(image, command)
            case UpdateFeatures():
                return update_features(image, command)

    def replay(self, batch: MetadataBatch) -> MetadataChanges:
        """Make the records of one decision true."""
        assert batch.base_offset == self.image.version + 1, "a batch does not follow its image"
        self.image, changes = replay_batch(self.image, batch)
        return changes

    def reset(self, image: MetadataImage) -> None:
        """Forget what was decided after the committed `image`."""
        self.image = image
