"""The rights that commands need, checked by the controller on the image on which it decides.

The broker that received the request has checked already, on the image that it had then. The controller checks
again in the order of the log: a command that ACLs earlier in the log do not allow is rejected, even if the
image of that broker was older than these ACLs. A node's own commands, which name no client, are not checked.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import CLUSTER_NAME, AclOperation, ResourceType
from ottla.metadata_raft.acl_set import AuthorizerSettings, ClientIdentity
from ottla.metadata_raft.commands import (
    AddRaftVoter,
    AllocateProducerIds,
    AlterClientQuotas,
    AlterConfigs,
    AlterPartition,
    AlterPartitionReassignments,
    AlterUserScramCredentials,
    AssignReplicasToDirs,
    BrokerConnectionLost,
    BrokerHeartbeat,
    Command,
    CreateAcls,
    CreatePartitions,
    CreateTopics,
    DeleteAcls,
    DeleteTopics,
    ElectLeaders,
    RegisterBroker,
    RemoveRaftVoter,
    ReportOfflineLogDirs,
    ResourceChanges,
    TopicReference,
    UnregisterBroker,
    UpdateFeatures,
)
from ottla.metadata_raft.image import MetadataImage, TopicsImage
from ottla.metadata_raft.records import ConfigResourceType

# The error of a command whose client lacks a right on a resource of the type.
_AUTHORIZATION_ERRORS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}


class Right(NamedTuple):
    """An operation on one resource."""

    operation: AclOperation
    resource_type: ResourceType
    name: str


# Rights of which one is sufficient; the error names the last one.
OneOf: TypeAlias = tuple[Right, ...]


def rights_needed(command: Command, topics: TopicsImage) -> Iterator[OneOf]:
    """Yield the rights that a client needs for a command, in Kafka's order; one of each tuple suffices."""
    match command:
        case CreateTopics():
            for topic in command.topics:
                yield _cluster_right(AclOperation.CREATE), _topic_right(AclOperation.CREATE, topic.name)
        case DeleteTopics():
            yield from _rights_to_delete(command.topics, topics)
        case CreatePartitions():
            for grown in command.topics:
                yield (_topic_right(AclOperation.ALTER, grown.name),)
        case AlterConfigs():
            yield from map(_rights_to_alter_configs, command.resources)
        case AlterClientQuotas():
            yield (_cluster_right(AclOperation.ALTER_CONFIGS),)
        case (
            UnregisterBroker()
            | ElectLeaders()
            | AlterPartitionReassignments()
            | UpdateFeatures()
            | AddRaftVoter()
            | RemoveRaftVoter()
            | CreateAcls()
            | DeleteAcls()
            | AlterUserScramCredentials()
        ):
            yield (_cluster_right(AclOperation.ALTER),)
        case (
            RegisterBroker()
            | BrokerHeartbeat()
            | BrokerConnectionLost()
            | ReportOfflineLogDirs()
            | AssignReplicasToDirs()
            | AllocateProducerIds()
            | AlterPartition()
        ):
            yield (_cluster_right(AclOperation.CLUSTER_ACTION),)


def check_command(
    image: MetadataImage, command: Command, client: ClientIdentity, settings: AuthorizerSettings
) -> None:
    """Raise the error of authorization unless the client has all rights that a command needs."""
    decided: dict[Right, bool] = {}  # the right on the cluster is checked for each topic

    def has_right(right: Right) -> bool:
        known = decided.get(right)
        if known is None:
            known = decided[right] = image.acls.decide(client, *right, settings).is_allowed
        return known

    for one_of in rights_needed(command, image.topics):
        if not any(map(has_right, one_of)):
            missing = one_of[-1]
            named = "" if missing.resource_type is ResourceType.CLUSTER else f" {missing.name!r}"
            raise KafkaError(
                _AUTHORIZATION_ERRORS[missing.resource_type],
                f"The controller rejected this command: {client.principal} from {client.host} needs "
                f"{missing.operation.name} permission on {missing.resource_type.name}{named}.",
            )


def _cluster_right(operation: AclOperation) -> Right:
    return Right(operation, ResourceType.CLUSTER, CLUSTER_NAME)


def _topic_right(operation: AclOperation, name: str) -> Right:
    return Right(operation, ResourceType.TOPIC, name)


def _rights_to_delete(references: Iterable[TopicReference], topics: TopicsImage) -> Iterator[OneOf]:
    every = _cluster_right(AclOperation.DELETE)
    for one in references:
        topic = topics.by_id.get(one.topic_id) if one.name is None else None
        name = one.name if topic is None else topic.name
        if name is not None:  # an unknown id needs no right: it reveals nothing
            yield every, _topic_right(AclOperation.DELETE, name)


def _rights_to_alter_configs(resource: ResourceChanges) -> OneOf:
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            return (_topic_right(AclOperation.ALTER_CONFIGS, resource.resource_name),)
        case ConfigResourceType.GROUP:
            return (Right(AclOperation.ALTER_CONFIGS, ResourceType.GROUP, resource.resource_name),)
        case _:
            return (_cluster_right(AclOperation.ALTER_CONFIGS),)
