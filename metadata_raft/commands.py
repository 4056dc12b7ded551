"""What the controller can be asked, and what it answers, in the notation of messages.

A command is made on any node and decided on the one that leads, so both travel: `command_codec` turns them
into bytes and back. Names of commands and fields are those of Kafka's requests where it has one. A command
carries everything that its decision needs beside the image: ids are made by the sender, so that deciding is a
pure function. Each command becomes one batch of records, all or nothing; where a command names several topics
or resources, each of them has its own result, in the order of the command. Ids of topics, directories and
incarnations are 16 bytes, zero where none is named; an `error_code` is an ErrorCode.

The number of a command (its `api_key`) is also that of its reply and never given to another one.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from ottla.logstore.words import schema
from ottla.logstore.words.schema import ZERO_UUID, message, struct
from ottla.metadata_raft.records import BrokerEndpoint, BrokerFeature, QuotaEntityPart

USE_DEFAULT: Final = -1  # partitions or replication factor as the cluster's settings say

# ---- topics ------------------------------------------------------------------------------------------------


@struct
class ReplicaAssignment:
    """The brokers of one partition of a new topic, leader first."""

    partition_index: int = schema.int32()
    broker_ids: Sequence[int] = schema.array(schema.int32)


@struct
class NewTopicConfig:
    """One setting of a new topic; null is refused, but has to be told."""

    name: str = schema.string()
    value: str | None = schema.string(nullable_since=0)


@struct
class NewTopic:
    """One topic to create. `topic_id` is a fresh random uuid, from which placement takes its chance too.

    With `assignments` both counts are -1.
    """

    name: str = schema.string()
    topic_id: bytes = schema.uuid()
    num_partitions: int = schema.int32(default=USE_DEFAULT)
    replication_factor: int = schema.int16(default=USE_DEFAULT)
    assignments: Sequence[ReplicaAssignment] = schema.array(ReplicaAssignment)
    configs: Sequence[NewTopicConfig] = schema.array(NewTopicConfig)


@struct
class MutationPayer:
    """The client for whose quota a command counts; without a principal it counts for none.

    Clients of newer versions are refused what is beyond the quota, others are served and have to wait.
    """

    principal: str = schema.string(default="")
    client_id: str | None = schema.string(nullable_since=0, default=None)
    is_strict: bool = schema.boolean()


@message(api_key=1, versions=(0, 0), flexible_since=0)
class CreateTopics:
    topics: Sequence[NewTopic] = schema.array(NewTopic)
    validate_only: bool = schema.boolean()
    payer: MutationPayer = schema.struct_(MutationPayer, tag=0)


@struct
class TopicCreation:
    """What became of one NewTopic; counts are -1 when it failed."""

    name: str = schema.string()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    topic_id: bytes = schema.uuid()
    num_partitions: int = schema.int32(default=-1)
    replication_factor: int = schema.int16(default=-1)
    # Those that were given.
    configs: Sequence[NewTopicConfig] | None = schema.array(NewTopicConfig, nullable_since=0, default=None)


@message(api_key=1, versions=(0, 0), flexible_since=0)
class CreateTopicsReply:
    topics: Sequence[TopicCreation] = schema.array(TopicCreation)
    throttle_time_ms: int = schema.int32(tag=0)


@struct
class TopicReference:
    """A topic named by exactly one of its name and its id."""

    name: str | None = schema.string(nullable_since=0, default=None)
    topic_id: bytes = schema.uuid()


@message(api_key=2, versions=(0, 0), flexible_since=0)
class DeleteTopics:
    topics: Sequence[TopicReference] = schema.array(TopicReference)
    payer: MutationPayer = schema.struct_(MutationPayer, tag=0)


@struct
class TopicDeletion:
    name: str | None = schema.string(nullable_since=0)
    topic_id: bytes = schema.uuid()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)


@message(api_key=2, versions=(0, 0), flexible_since=0)
class DeleteTopicsReply:
    topics: Sequence[TopicDeletion] = schema.array(TopicDeletion)
    throttle_time_ms: int = schema.int32(tag=0)


@struct
class NewPartitionAssignment:
    broker_ids: Sequence[int] = schema.array(schema.int32)


@struct
class NewPartitions:
    """A topic that shall have `count` partitions; `assignments` has the brokers of each new one."""

    name: str = schema.string()
    count: int = schema.int32()
    assignments: Sequence[NewPartitionAssignment] | None = schema.array(
        NewPartitionAssignment, nullable_since=0, default=None
    )


@message(api_key=3, versions=(0, 0), flexible_since=0)
class CreatePartitions:
    topics: Sequence[NewPartitions] = schema.array(NewPartitions)
    validate_only: bool = schema.boolean()
    payer: MutationPayer = schema.struct_(MutationPayer, tag=0)


@struct
class NamedResult:
    name: str = schema.string()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)


@message(api_key=3, versions=(0, 0), flexible_since=0)
class CreatePartitionsReply:
    topics: Sequence[NamedResult] = schema.array(NamedResult)
    throttle_time_ms: int = schema.int32(tag=0)


# ---- configs -----------------------------------------------------------------------------------------------


class ConfigOperation(IntEnum):
    """What IncrementalAlterConfigs does to a setting (int8)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@struct
class ConfigChange:
    name: str = schema.string()
    operation: int = schema.int8()  # a ConfigOperation
    value: str | None = schema.string(nullable_since=0, default=None)


@struct
class ResourceChanges:
    """Changes of one resource; `replace_all` removes what is not named (the old AlterConfigs)."""

    resource_type: int = schema.int8()  # a ConfigResourceType
    resource_name: str = schema.string()
    changes: Sequence[ConfigChange] = schema.array(ConfigChange)
    replace_all: bool = schema.boolean()


@message(api_key=4, versions=(0, 0), flexible_since=0)
class AlterConfigs:
    resources: Sequence[ResourceChanges] = schema.array(ResourceChanges)
    validate_only: bool = schema.boolean()


@struct
class ResourceResult:
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)


@message(api_key=4, versions=(0, 0), flexible_since=0)
class AlterConfigsReply:
    """One result for each resource of the command, in its order."""

    resources: Sequence[ResourceResult] = schema.array(ResourceResult)


# ---- brokers -----------------------------------------------------------------------------------------------


@message(api_key=5, versions=(0, 0), flexible_since=0)
class RegisterBroker:
    """A broker process came up (KIP-631). It is fenced until a heartbeat shows that it has caught up.

    The same incarnation again changes its registration and keeps its epoch.
    """

    broker_id: int = schema.int32()
    incarnation_id: bytes = schema.uuid()
    listeners: Sequence[BrokerEndpoint] = schema.array(BrokerEndpoint)
    features: Sequence[BrokerFeature] = schema.array(BrokerFeature)
    rack: str | None = schema.string(nullable_since=0, default=None)
    log_dirs: Sequence[bytes] = schema.array(schema.uuid)
    # Both say what the broker still has of what it wrote: -1 after an unclean shutdown (KIP-966), zeros where
    # nobody can tell whether its host was restarted since.
    previous_broker_epoch: int = schema.int64(default=-1)
    page_cache_id: bytes = schema.uuid()
    peer_listener: str = schema.string(tag=0, default="")  # the listener at which it serves other nodes
    controller_listeners: Sequence[BrokerEndpoint] = schema.array(BrokerEndpoint, tag=1)


@message(api_key=5, versions=(0, 0), flexible_since=0)
class RegisterBrokerReply:
    broker_epoch: int = schema.int64()


@message(api_key=6, versions=(0, 0), flexible_since=0)
class BrokerHeartbeat:
    """A broker lives, has applied the metadata up to an offset, and may want to be fenced or to shut down.

    `leader_load` is what it serves as a leader (`LeaderLoad`), in bytes a second.
    """

    broker_id: int = schema.int32()
    broker_epoch: int = schema.int64()
    current_metadata_offset: int = schema.int64(default=-1)
    want_fence: bool = schema.boolean()
    want_shut_down: bool = schema.boolean()
    leader_load: int = schema.int64(tag=0, default=0)


@message(api_key=6, versions=(0, 0), flexible_since=0)
class BrokerHeartbeatReply:
    is_caught_up: bool = schema.boolean()
    is_fenced: bool = schema.boolean()
    is_in_controlled_shutdown: bool = schema.boolean()
    should_shut_down: bool = schema.boolean()


@message(api_key=7, versions=(0, 0), flexible_since=0)
class BrokerConnectionLost:
    """The controller's node lost its connection to a broker, which is fenced soon unless it heartbeats.

    Where nobody listens any more its process is gone, and there is nothing to wait for.
    """

    broker_id: int = schema.int32()
    broker_epoch: int = schema.int64()
    is_gone: bool = schema.boolean()


@message(api_key=7, versions=(0, 0), flexible_since=0)
class BrokerConnectionLostReply:
    pass


@message(api_key=8, versions=(0, 0), flexible_since=0)
class UnregisterBroker:
    """A broker leaves the cluster for good."""

    broker_id: int = schema.int32()


@message(api_key=8, versions=(0, 0), flexible_since=0)
class UnregisterBrokerReply:
    pass


@message(api_key=9, versions=(0, 0), flexible_since=0)
class AllocateProducerIds:
    """A broker wants the next block of producer ids (KIP-730)."""

    broker_id: int = schema.int32()
    broker_epoch: int = schema.int64()


@message(api_key=9, versions=(0, 0), flexible_since=0)
class AllocateProducerIdsReply:
    producer_id_start: int = schema.int64()
    producer_id_len: int = schema.int32()


# ---- partitions --------------------------------------------------------------------------------------------


@message(api_key=10, versions=(0, 0), flexible_since=0)
class ReportOfflineLogDirs:
    """Log directories of a broker have failed (KIP-112); Kafka's brokers say so in their heartbeats."""

    broker_id: int = schema.int32()
    broker_epoch: int = schema.int64()
    log_dirs: Sequence[bytes] = schema.array(schema.uuid)


@message(api_key=10, versions=(0, 0), flexible_since=0)
class ReportOfflineLogDirsReply:
    changed_partitions: int = schema.int32()


@struct
class BrokerState:
    """A replica that its leader wants in the ISR; broker_epoch -1 skips the check of it."""

    broker_id: int = schema.int32()
    broker_epoch: int = schema.int64(default=-1)


@struct
class AlteredPartition:
    partition_index: int = schema.int32()
    leader_epoch: int = schema.int32()
    new_isr_with_epochs: Sequence[BrokerState] = schema.array(BrokerState)
    leader_recovery_state: int = schema.int8()
    partition_epoch: int = schema.int32()
    # Of those that shall leave, the ones whose logs are damaged: they lack acknowledged records.
    damaged_replicas: Sequence[int] = schema.array(schema.int32, tag=0)


@struct
class AlteredTopic:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[AlteredPartition] = schema.array(AlteredPartition)


@message(api_key=11, versions=(0, 0), flexible_since=0)
class AlterPartition:
    """A leader changes the ISR of its partitions (KIP-497, KIP-704, KIP-841, KIP-903)."""

    broker_id: int = schema.int32()
    broker_epoch: int = schema.int64()
    topics: Sequence[AlteredTopic] = schema.array(AlteredTopic)


@struct
class AlterPartitionResult:
    """The state of the partition after the change; only the first two fields say something on an error."""

    partition_index: int = schema.int32()
    error_code: int = schema.int16()
    leader_id: int = schema.int32()
    leader_epoch: int = schema.int32()
    isr: Sequence[int] = schema.array(schema.int32)
    leader_recovery_state: int = schema.int8()
    partition_epoch: int = schema.int32()


@struct
class AlterPartitionTopicResult:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[AlterPartitionResult] = schema.array(AlterPartitionResult)


@message(api_key=11, versions=(0, 0), flexible_since=0)
class AlterPartitionReply:
    topics: Sequence[AlterPartitionTopicResult] = schema.array(AlterPartitionTopicResult)


class ElectionType(IntEnum):
    """What ElectLeaders asks for (int8)."""

    PREFERRED = 0
    UNCLEAN = 1


@struct
class TopicPartitions:
    topic: str = schema.string()
    partitions: Sequence[int] = schema.array(schema.int32)


@message(api_key=12, versions=(0, 0), flexible_since=0)
class ElectLeaders:
    """Elect the preferred replica, or any that lives where nobody leads; None means all partitions."""

    election_type: int = schema.int8()
    topic_partitions: Sequence[TopicPartitions] | None = schema.array(
        TopicPartitions, nullable_since=0, default=None
    )


@struct
class PartitionResult:
    partition_id: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)


@struct
class ReplicaElectionResult:
    topic: str = schema.string()
    partition_result: Sequence[PartitionResult] = schema.array(PartitionResult)


@message(api_key=12, versions=(0, 0), flexible_since=0)
class ElectLeadersReply:
    replica_election_results: Sequence[ReplicaElectionResult] = schema.array(ReplicaElectionResult)


@struct
class ReassignablePartition:
    """The brokers that shall hold a partition, preferred leader first; None cancels its reassignment."""

    partition_index: int = schema.int32()
    replicas: Sequence[int] | None = schema.array(schema.int32, nullable_since=0, default=None)


@struct
class ReassignableTopic:
    name: str = schema.string()
    partitions: Sequence[ReassignablePartition] = schema.array(ReassignablePartition)


@message(api_key=13, versions=(0, 0), flexible_since=0)
class AlterPartitionReassignments:
    """Move partitions to other brokers, or cancel that (KIP-455)."""

    topics: Sequence[ReassignableTopic] = schema.array(ReassignableTopic)
    allow_replication_factor_change: bool = schema.boolean(default=True)


@struct
class ReassignmentResult:
    partition_index: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)


@struct
class ReassignmentTopicResult:
    name: str = schema.string()
    partitions: Sequence[ReassignmentResult] = schema.array(ReassignmentResult)


@message(api_key=13, versions=(0, 0), flexible_since=0)
class AlterPartitionReassignmentsReply:
    responses: Sequence[ReassignmentTopicResult] = schema.array(ReassignmentTopicResult)


@struct
class ReplicaDirectory:
    topic_id: bytes = schema.uuid()
    partition_index: int = schema.int32()
    directory_id: bytes = schema.uuid()


@message(api_key=14, versions=(0, 0), flexible_since=0)
class AssignReplicasToDirs:
    """Where a broker keeps these replicas (KIP-858); one in a directory that is not online has failed."""

    broker_id: int = schema.int32()
    broker_epoch: int = schema.int64()
    assignments: Sequence[ReplicaDirectory] = schema.array(ReplicaDirectory)


@message(api_key=14, versions=(0, 0), flexible_since=0)
class AssignReplicasToDirsReply:
    changed_partitions: int = schema.int32()


# ---- features and voters -----------------------------------------------------------------------------------


class UpgradeType(IntEnum):
    """Which way UpdateFeatures may move a feature (int8)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@struct
class FeatureUpdate:
    feature: str = schema.string()
    max_version_level: int = schema.int16()  # 0 removes the feature
    upgrade_type: int = schema.int8(default=UpgradeType.UPGRADE)


@message(api_key=15, versions=(0, 0), flexible_since=0)
class UpdateFeatures:
    """Set finalized feature levels (KIP-584), all of them or none."""

    feature_updates: Sequence[FeatureUpdate] = schema.array(FeatureUpdate)
    validate_only: bool = schema.boolean()


@message(api_key=15, versions=(0, 0), flexible_since=0)
class UpdateFeaturesReply:
    pass


@struct
class VoterListener:
    name: str = schema.string()
    host: str = schema.string()
    port: int = schema.uint16()


@message(api_key=16, versions=(0, 0), flexible_since=0)
class AddRaftVoter:
    """A node, told apart by id and directory, joins the metadata quorum as a voter (KIP-853)."""

    voter_id: int = schema.int32()
    voter_directory_id: bytes = schema.uuid(default=ZERO_UUID)
    listeners: Sequence[VoterListener] = schema.array(VoterListener)


@message(api_key=16, versions=(0, 0), flexible_since=0)
class AddRaftVoterReply:
    pass


@message(api_key=17, versions=(0, 0), flexible_since=0)
class RemoveRaftVoter:
    """A voter leaves the metadata quorum; the directory tells it from a successor of the same id."""

    voter_id: int = schema.int32()
    voter_directory_id: bytes = schema.uuid(default=ZERO_UUID)


@message(api_key=17, versions=(0, 0), flexible_since=0)
class RemoveRaftVoterReply:
    pass


# ---- security ----------------------------------------------------------------------------------------------


@struct
class NewAcl:
    """An access control entry to create; `id` is a fresh random uuid."""

    id: bytes = schema.uuid()
    resource_type: int = schema.int8()
    resource_name: str = schema.string()
    pattern_type: int = schema.int8()
    principal: str = schema.string()
    host: str = schema.string()
    operation: int = schema.int8()
    permission_type: int = schema.int8()


@message(api_key=18, versions=(0, 0), flexible_since=0)
class CreateAcls:
    creations: Sequence[NewAcl] = schema.array(NewAcl)


@message(api_key=18, versions=(0, 0), flexible_since=0)
class CreateAclsReply:
    """One result for each entry of the command, in its order."""

    results: Sequence[ResourceResult] = schema.array(ResourceResult)


@struct
class AclFilterFields:
    """A filter of DeleteAcls; a field that is null or ANY matches everything."""

    resource_type: int = schema.int8()
    resource_name: str | None = schema.string(nullable_since=0, default=None)
    pattern_type: int = schema.int8()
    principal: str | None = schema.string(nullable_since=0, default=None)
    host: str | None = schema.string(nullable_since=0, default=None)
    operation: int = schema.int8()
    permission_type: int = schema.int8()


@message(api_key=19, versions=(0, 0), flexible_since=0)
class DeleteAcls:
    filters: Sequence[AclFilterFields] = schema.array(AclFilterFields)


@struct
class AclFields:
    resource_type: int = schema.int8()
    resource_name: str = schema.string()
    pattern_type: int = schema.int8()
    principal: str = schema.string()
    host: str = schema.string()
    operation: int = schema.int8()
    permission_type: int = schema.int8()


@struct
class DeletedAcls:
    """The entries that one filter matched, which are removed."""

    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    matching: Sequence[AclFields] = schema.array(AclFields)


@message(api_key=19, versions=(0, 0), flexible_since=0)
class DeleteAclsReply:
    """One result for each filter of the command, in its order."""

    results: Sequence[DeletedAcls] = schema.array(DeletedAcls)


@struct
class QuotaChange:
    key: str = schema.string()
    value: float = schema.float64()
    remove: bool = schema.boolean()


@struct
class QuotaChanges:
    """Quotas of one entity that are set and removed."""

    entity: Sequence[QuotaEntityPart] = schema.array(QuotaEntityPart)
    changes: Sequence[QuotaChange] = schema.array(QuotaChange)


@message(api_key=20, versions=(0, 0), flexible_since=0)
class AlterClientQuotas:
    """Set and remove quotas (KIP-546)."""

    entries: Sequence[QuotaChanges] = schema.array(QuotaChanges)
    validate_only: bool = schema.boolean()


@message(api_key=20, versions=(0, 0), flexible_since=0)
class AlterClientQuotasReply:
    """One result for each entity of the command, in its order."""

    results: Sequence[ResourceResult] = schema.array(ResourceResult)


@struct
class ScramDeletion:
    name: str = schema.string()
    mechanism: int = schema.int8()


@struct
class ScramUpsertion:
    """A credential of a user. The sender makes the keys, so that the salted password goes no further."""

    name: str = schema.string()
    mechanism: int = schema.int8()
    iterations: int = schema.int32()
    salt: bytes = schema.secret()
    stored_key: bytes = schema.secret()
    server_key: bytes = schema.secret()


@message(api_key=21, versions=(0, 0), flexible_since=0)
class AlterUserScramCredentials:
    """Set and remove SCRAM credentials (KIP-554)."""

    deletions: Sequence[ScramDeletion] = schema.array(ScramDeletion)
    upsertions: Sequence[ScramUpsertion] = schema.array(ScramUpsertion)


@message(api_key=21, versions=(0, 0), flexible_since=0)
class AlterUserScramCredentialsReply:
    """One result for each user of the command."""

    results: Sequence[NamedResult] = schema.array(NamedResult)


class RequestId(NamedTuple):
    """What tells a command that is sent again from a new one: the process that sends it, and its count.

    The sender never asks again for what came before `oldest_open_sequence`.
    """

    broker_epoch: int
    sequence: int
    oldest_open_sequence: int


Command: TypeAlias = (
    CreateTopics
    | DeleteTopics
    | CreatePartitions
    | AlterConfigs
    | RegisterBroker
    | BrokerHeartbeat
    | BrokerConnectionLost
    | UnregisterBroker
    | AllocateProducerIds
    | ReportOfflineLogDirs
    | AlterPartition
    | ElectLeaders
    | AlterPartitionReassignments
    | AssignReplicasToDirs
    | UpdateFeatures
    | AddRaftVoter
    | RemoveRaftVoter
    | CreateAcls
    | DeleteAcls
    | AlterClientQuotas
    | AlterUserScramCredentials
)
Reply: TypeAlias = (
    CreateTopicsReply
    | DeleteTopicsReply
    | CreatePartitionsReply
    | AlterConfigsReply
    | RegisterBrokerReply
    | BrokerHeartbeatReply
    | BrokerConnectionLostReply
    | UnregisterBrokerReply
    | AllocateProducerIdsReply
    | ReportOfflineLogDirsReply
    | AlterPartitionReply
    | ElectLeadersReply
    | AlterPartitionReassignmentsReply
    | AssignReplicasToDirsReply
    | UpdateFeaturesReply
    | AddRaftVoterReply
    | RemoveRaftVoterReply
    | CreateAclsReply
    | DeleteAclsReply
    | AlterClientQuotasReply
    | AlterUserScramCredentialsReply
)
