"""The controller: commands become decisions, and the records of decisions the next image.

`decide` is pure: the same image, command and time give the same records and reply. `replay` is what makes
records true. The image of a controller runs ahead of what is committed, so that commands need not wait for
each other's commits; if an append fails, it is set back to the last committed image with `reset`.
"""

from logstore.errors import ErrorCode, KafkaError
from metadata_raft.cluster_control import (
    assign_replicas_to_dirs,
    broker_heartbeat,
    register_broker,
    report_offline_log_dirs,
    update_features,
)
from metadata_raft.commands import (
    AddRaftVoter,
    AllocateProducerIds,
    AlterConfigs,
    AlterPartition,
    AlterPartitionReassignments,
    AssignReplicasToDirs,
    BrokerConnectionLost,
    BrokerHeartbeat,
    Command,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    RegisterBroker,
    RemoveRaftVoter,
    ReportOfflineLogDirs,
    RequestId,
    UnregisterBroker,
    UpdateFeatures,
)
from metadata_raft.configuration_control import alter_configs
from metadata_raft.controller_config import MAX_RECORDS_PER_COMMAND, ControllerConfig
from metadata_raft.decision import Decision
from metadata_raft.delta import MetadataChanges, replay_batch
from metadata_raft.image import MetadataImage
from metadata_raft.producer_id_control import allocate_producer_ids
from metadata_raft.record_codec import MetadataBatch
from metadata_raft.request_control import known_reply, remembered
from metadata_raft.topic_control import create_partitions, create_topics, delete_topics


class Controller:
    """Decides over one image. Changed by its owner alone."""

    def __init__(self, image: MetadataImage, config: ControllerConfig) -> None:
        self.image = image
        self.config = config

    def decide(self, command: Command, now_ms: int, request: RequestId | None = None) -> Decision:
        """What `command` does to the image at `now_ms`; KafkaError if the whole of it is refused.

        `now_ms` is monotonic; no record has a time of its own. With `request`, a command that was carried out
        before is answered as it was then.
        """
        reply = None if request is None else known_reply(self.image, request)
        if reply is not None:
            return Decision(reply=reply)
        decision = self._decide(command, now_ms)
        return decision if request is None else remembered(command, request, decision)

    def _decide(self, command: Command, now_ms: int) -> Decision:
        del now_ms  # None of today's decisions depends on it.
        image, config = self.image, self.config
        _check_size(command)
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
            case BrokerHeartbeat():
                return broker_heartbeat(image, command)
            case ReportOfflineLogDirs():
                return report_offline_log_dirs(image, command)
            case AssignReplicasToDirs():
                return assign_replicas_to_dirs(image, command)
            case AllocateProducerIds():
                return allocate_producer_ids(image, command)
            case UpdateFeatures():
                return update_features(image, command)
            case (
                BrokerConnectionLost()
                | UnregisterBroker()
                | AlterPartition()
                | ElectLeaders()
                | AlterPartitionReassignments()
                | AddRaftVoter()
                | RemoveRaftVoter()
            ):
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION, f"A {type(command).__name__} is not decided by this node."
                )

    def replay(self, batch: MetadataBatch) -> MetadataChanges:
        """Make the records of one decision true."""
        assert batch.base_offset == self.image.version + 1, "a batch does not follow its image"
        self.image, changes = replay_batch(self.image, batch)
        return changes

    def reset(self, image: MetadataImage) -> None:
        """Forget what was decided after the committed `image`."""
        self.image = image


def _check_size(command: Command) -> None:
    """POLICY_VIOLATION before anything is looked at if a command names more than it may have records."""
    match command:
        case CreateTopics() | DeleteTopics() | CreatePartitions():
            named = len(command.topics)
        case AlterConfigs():
            named = len(command.resources)
        case _:
            return
    if named > MAX_RECORDS_PER_COMMAND:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"One request may name {MAX_RECORDS_PER_COMMAND} topics or resources at most.",
        )
