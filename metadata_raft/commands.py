"""The commands of the controller and their replies, in the notation of messages.

A command is created on any node and decided on the leader of the quorum, so commands and replies are sent
between nodes: `command_codec` encodes and decodes them. Names of commands and fields are those of Kafka's
requests where Kafka has one. A command carries everything that its decision needs beside the image: the
sender creates ids, so that deciding is a pure function. Each command becomes one batch of records, all or
nothing. If a command names several topics or resources, each of them has its own result, in the order of the
command. Ids of topics, directories and incarnations have 16 bytes, and are zero if none is given; an
`error_code` is an ErrorCode.

A command and its reply have the same number (`api_key`), which is never used for another command.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from ottla.logstore.words import schema
from ottla.logstore.words.schema import ZERO_UUID, message, struct
from ottla.metadata_raft.records import BrokerEndpoint, BrokerFeature, QuotaEntityPart

USE_DEFAULT: Final = -1  # partitions or replication factor: the default of the cluster's settings

# ---- topics ------------------------------------------------------------------------------------------------


@struct
class ReplicaAssignment:
    """The brokers of one partition of a new topic, preferred leader first."""

    partition_index: int = schema.int32()
    broker_ids: Sequence[int] = schema.array(schema.int32)


@struct
class NewTopicConfig:
    """One setting of a new topic; a null value is rejected when the command is decided."""

    name: str = schema.string()
    value: str | None = schema.string(nullable_since=0)


@struct
class NewTopic:
    """A topic to create. `topic_id` is a new random uuid, which also seeds the placement of replicas.

    With `assignments`, both counts are -1.
    """

    name: str = schema.string()
    topic_id: bytes = schema.uuid()
    num_partitions: int = schema.int32(default=USE_DEFAULT)
    replication_factor: int = schema.int16(default=USE_DEFAULT)
    assignments: Sequence[ReplicaAssignment] = schema.array(ReplicaAssignment)
    configs: Sequence[NewTopicConfig] = schema.array(NewTopicConfig)


@struct
class MutationPayer:
    """The client whose quota is charged for a command; without a principal no quota is charged.

    Requests beyond the quota are rejected in newer versions of the protocol (`is_strict`); in older ones they
    are served and throttled.
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
    """The result of one NewTopic; its counts are -1 if it failed."""

    name: str = schema.string()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    topic_id: bytes = schema.uuid()
    num_partitions: int = schema.int32(default=-1)
    replication_factor: int = schema.int16(default=-1)
    # The settings in the command.
    configs: Sequence[NewTopicConfig] | None = schema.array(NewTopicConfig, nullable_since=0, default=None)


@message(api_key=1, versions=(0, 0), flexible_since=0)
class CreateTopicsReply:
    topics: Sequence[TopicCreation] = schema.array(TopicCreation)
    throttle_time_ms: int = schema.int32(tag=0)


@struct
class TopicReference:
    """A topic, given by either its name or its id."""

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
    """A topic that gets `count` partitions in all; `assignments` has the brokers of each new one."""

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
    """The operation of IncrementalAlterConfigs on a setting (int8)."""

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
    """The changes of one resource; `replace_all` removes all other settings, as AlterConfigs does."""

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
    """The registration of a new run of a broker (KIP-631), fenced until a heartbeat shows that it caught up.

    A second registration of an incarnation changes the first one and keeps the broker epoch.
    """

    broker_id: int = schema.int32()
    incarnation_id: bytes = schema.uuid()
    listeners: Sequence[BrokerEndpoint] = schema.array(BrokerEndpoint)
    features: Sequence[BrokerFeature] = schema.array(BrokerFeature)
    rack: str | None = schema.string(nullable_since=0, default=None)
    log_dirs: Sequence[bytes] = schema.array(schema.uuid)
    # Both show whether the broker still has everything that it wrote: -1 after an unclean shutdown (KIP-966),
    # zeros if it is unknown whether its host restarted since.
    previous_broker_epoch: int = schema.int64(default=-1)
    page_cache_id: bytes = schema.uuid()
    peer_listener: str = schema.string(tag=0, default="")  # the listener at which it serves other nodes
    controller_listeners: Sequence[BrokerEndpoint] = schema.array(BrokerEndpoint, tag=1)


@message(api_key=5, versions=(0, 0), flexible_since=0)
class RegisterBrokerReply:
    broker_epoch: int = schema.int64()


@message(api_key=6, versions=(0, 0), flexible_since=0)
class BrokerHeartbeat:
    """The heartbeat of a broker, with its metadata offset and its wish to be fenced or to shut down.

    `leader_load` is the rate at which it serves as a leader (`LeaderLoad`), in bytes per second.
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
    """A report that the controller's node lost its connection to a broker.

    The broker is fenced soon unless it heartbeats. If nothing listens at its address (`is_gone`), its process
    has ended, and it is fenced at once.
    """

    broker_id: int = schema.int32()
    broker_epoch: int = schema.int64()
    is_gone: bool = schema.boolean()


@message(api_key=7, versions=(0, 0), flexible_since=0)
class BrokerConnectionLostReply:
    pass


@message(api_key=8, versions=(0, 0), flexible_since=0)
class UnregisterBroker:
    """The removal of a broker from the cluster."""

    broker_id: int = schema.int32()


@message(api_key=8, versions=(0, 0), flexible_since=0)
class UnregisterBrokerReply:
    pass


@message(api_key=9, versions=(0, 0), flexible_since=0)
class AllocateProducerIds:
    """A request for the next block of producer ids of a broker (KIP-730)."""

    broker_id: int = schema.int32()
    broker_epoch: int = schema.int64()


@message(api_key=9, versions=(0, 0), flexible_since=0)
class AllocateProducerIdsReply:
    producer_id_start: int = schema.int64()
    producer_id_len: int = schema.int32()


# ---- partitions --------------------------------------------------------------------------------------------


@message(api_key=10, versions=(0, 0), flexible_since=0)
class ReportOfflineLogDirs:
    """A report of a broker's failed log directories (KIP-112), which Kafka's brokers send in heartbeats."""

    broker_id: int = schema.int32()
    broker_epoch: int = schema.int64()
    log_dirs: Sequence[bytes] = schema.array(schema.uuid)


@message(api_key=10, versions=(0, 0), flexible_since=0)
class ReportOfflineLogDirsReply:
    changed_partitions: int = schema.int32()


@struct
class BrokerState:
    """A replica that its leader wants in the ISR; a `broker_epoch` of -1 is not checked."""

    broker_id: int = schema.int32()
    broker_epoch: int = schema.int64(default=-1)


@struct
class AlteredPartition:
    partition_index: int = schema.int32()
    leader_epoch: int = schema.int32()
    new_isr_with_epochs: Sequence[BrokerState] = schema.array(BrokerState)
    leader_recovery_state: int = schema.int8()
    partition_epoch: int = schema.int32()
    # The replicas to remove because their logs are damaged, so that they lack acknowledged records.
    damaged_replicas: Sequence[int] = schema.array(schema.int32, tag=0)


@struct
class AlteredTopic:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[AlteredPartition] = schema.array(AlteredPartition)


@message(api_key=11, versions=(0, 0), flexible_since=0)
class AlterPartition:
    """A change of the ISR of partitions by their leader (KIP-497, KIP-704, KIP-841, KIP-903)."""

    broker_id: int = schema.int32()
    broker_epoch: int = schema.int64()
    topics: Sequence[AlteredTopic] = schema.array(AlteredTopic)


@struct
class AlterPartitionResult:
    """The state of the partition after the change; with an error, only the first two fields are set."""

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
    """The type of election that ElectLeaders requests (int8)."""

    PREFERRED = 0
    UNCLEAN = 1


@struct
class TopicPartitions:
    topic: str = schema.string()
    partitions: Sequence[int] = schema.array(schema.int32)


@message(api_key=12, versions=(0, 0), flexible_since=0)
class ElectLeaders:
    """An election of preferred replicas, or of any live ones of leaderless partitions; None means all."""

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
    """The target replicas of a partition, preferred leader first; None cancels its reassignment."""

    partition_index: int = schema.int32()
    replicas: Sequence[int] | None = schema.array(schema.int32, nullable_since=0, default=None)


@struct
class ReassignableTopic:
    name: str = schema.string()
    partitions: Sequence[ReassignablePartition] = schema.array(ReassignablePartition)


@message(api_key=13, versions=(0, 0), flexible_since=0)
class AlterPartitionReassignments:
    """The start or the cancellation of moves of partitions to other brokers (KIP-455)."""

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
    """A report of the directories of a broker's replicas (KIP-858); replicas in offline ones have failed."""

    broker_id: int = schema.int32()
    broker_epoch: int = schema.int64()
    assignments: Sequence[ReplicaDirectory] = schema.array(ReplicaDirectory)


@message(api_key=14, versions=(0, 0), flexible_since=0)
class AssignReplicasToDirsReply:
    changed_partitions: int = schema.int32()


# ---- features and voters -----------------------------------------------------------------------------------


class UpgradeType(IntEnum):
    """The direction in which UpdateFeatures may change a feature (int8)."""

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
    """A change of finalized feature levels (KIP-584), of all of them or none."""

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
    """The addition of a node, identified by id and directory, to the voters of the quorum (KIP-853)."""

    voter_id: int = schema.int32()
    voter_directory_id: bytes = schema.uuid(default=ZERO_UUID)
    listeners: Sequence[VoterListener] = schema.array(VoterListener)


@message(api_key=16, versions=(0, 0), flexible_since=0)
class AddRaftVoterReply:
    pass


@message(api_key=17, versions=(0, 0), flexible_since=0)
class RemoveRaftVoter:
    """The removal of a voter; the directory distinguishes it from a successor with the same id."""

    voter_id: int = schema.int32()
    voter_directory_id: bytes = schema.uuid(default=ZERO_UUID)


@message(api_key=17, versions=(0, 0), flexible_since=0)
class RemoveRaftVoterReply:
    pass


# ---- security ----------------------------------------------------------------------------------------------


@struct
class NewAcl:
    """An access control entry to create; `id` is a new random uuid."""

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
    """The removed entries that one filter matched."""

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
    """The quotas of one entity to set or remove."""

    entity: Sequence[QuotaEntityPart] = schema.array(QuotaEntityPart)
    changes: Sequence[QuotaChange] = schema.array(QuotaChange)


@message(api_key=20, versions=(0, 0), flexible_since=0)
class AlterClientQuotas:
    """A change of client quotas (KIP-546)."""

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
    """A credential of a user. The sender computes the keys, so the salted password stays on that node."""

    name: str = schema.string()
    mechanism: int = schema.int8()
    iterations: int = schema.int32()
    salt: bytes = schema.secret()
    stored_key: bytes = schema.secret()
    server_key: bytes = schema.secret()


@message(api_key=21, versions=(0, 0), flexible_since=0)
class AlterUserScramCredentials:
    """A change of SCRAM credentials (KIP-554)."""

    deletions: Sequence[ScramDeletion] = schema.array(ScramDeletion)
    upsertions: Sequence[ScramUpsertion] = schema.array(ScramUpsertion)


@message(api_key=21, versions=(0, 0), flexible_since=0)
class AlterUserScramCredentialsReply:
    """One result for each user of the command."""

    results: Sequence[NamedResult] = schema.array(NamedResult)


class RequestId(NamedTuple):
    """The id of a command, by which a retry is recognised: the sender's broker epoch and a sequence number.

    The sender never retries commands before `oldest_open_sequence`.
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
