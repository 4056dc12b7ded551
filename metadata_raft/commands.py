"""What the controller can be asked, and what it answers.

A command carries everything that its decision needs beside the image: ids are made by the sender, so that
deciding is a pure function. Each command becomes one batch of records, all or nothing; where a command names
several topics or resources, each of them has its own result, in the order of the command.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from logstore.errors import ErrorCode
from metadata_raft.image import Endpoint
from metadata_raft.records import ConfigResourceType

USE_DEFAULT = -1  # partitions or replication factor as the cluster's settings say

# ---- topics ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """One topic to create. `topic_id` is a fresh random uuid, from which placement takes its chance too."""

    name: str
    topic_id: bytes
    num_partitions: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()  # (partition, brokers); then the counts are -1
    configs: Sequence[tuple[str, str | None]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopics:
    topics: Sequence[NewTopic]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreation:
    """What became of one NewTopic; counts are -1 when it failed."""

    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: bytes = bytes(16)
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] | None = None  # those that were given


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsReply:
    topics: Sequence[TopicCreation]


class TopicReference(NamedTuple):
    """A topic named by exactly one of its name and its id."""

    name: str | None = None
    topic_id: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopics:
    topics: Sequence[TopicReference]


class TopicDeletion(NamedTuple):
    name: str | None
    topic_id: bytes
    error: ErrorCode
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsReply:
    topics: Sequence[TopicDeletion]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitions:
    """A topic that shall have `count` partitions; `assignments` has the brokers of each new one."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitions:
    topics: Sequence[NewPartitions]
    validate_only: bool = False


class NamedResult(NamedTuple):
    name: str
    error: ErrorCode
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsReply:
    topics: Sequence[NamedResult]


# ---- configs -----------------------------------------------------------------------------------------------


class ConfigOperation(IntEnum):
    """What IncrementalAlterConfigs does to a setting (int8)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    name: str
    operation: ConfigOperation
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceChanges:
    """Changes of one resource; `replace_all` removes what is not named (the old AlterConfigs)."""

    resource_type: ConfigResourceType
    resource_name: str
    changes: Sequence[ConfigChange]
    replace_all: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigs:
    resources: Sequence[ResourceChanges]
    validate_only: bool = False


class ResourceResult(NamedTuple):
    error: ErrorCode
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsReply:
    resources: Sequence[ResourceResult]  # one for each of the command, in its order


# ---- brokers, producer ids, features -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """A broker process came up. It is fenced until `UnfenceBroker`."""

    broker_id: int
    incarnation_id: bytes
    listeners: Mapping[str, Endpoint]
    rack: str | None = None
    log_dirs: Sequence[bytes] = ()
    features: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerReply:
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfenceBroker:
    """A broker has caught up with the metadata and can lead; its partitions without a leader get one."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfenceBrokerReply:
    led_partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOfflineLogDirs:
    """Log directories of a broker have failed (KIP-112); Kafka's brokers say so in their heartbeats."""

    broker_id: int
    broker_epoch: int
    log_dirs: Sequence[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOfflineLogDirsReply:
    changed_partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignReplicasToDirs:
    """Where a broker keeps these replicas (KIP-858); one in a directory that is not online has failed."""

    broker_id: int
    broker_epoch: int
    assignments: Sequence[tuple[bytes, int, bytes]]  # topic id, partition, directory id


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignReplicasToDirsReply:
    changed_partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIds:
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIdsReply:
    first_producer_id: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeatures:
    """Set finalized feature levels; 0 removes one."""

    levels: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesReply:
    pass


Command: TypeAlias = (
    CreateTopics
    | DeleteTopics
    | CreatePartitions
    | AlterConfigs
    | RegisterBroker
    | UnfenceBroker
    | ReportOfflineLogDirs
    | AssignReplicasToDirs
    | AllocateProducerIds
    | UpdateFeatures
)
Reply: TypeAlias = (
    CreateTopicsReply
    | DeleteTopicsReply
    | CreatePartitionsReply
    | AlterConfigsReply
    | RegisterBrokerReply
    | UnfenceBrokerReply
    | ReportOfflineLogDirsReply
    | AssignReplicasToDirsReply
    | AllocateProducerIdsReply
    | UpdateFeaturesReply
)
