"""The rights that commands need, checked by the controller on the image on which it decides.

The broker that received the request has checked already, on the image that it had then. The controller checks
again in the order of the log: a command that an earlier entry forbids is not carried out, however old the
image of that broker was. A node's own commands, which name no client, are not checked.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import CLUSTER_NAME, AclOperation, ResourceType
from ottla.metadata_raft.acl_set import Asker, AuthorizerSettings
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

# The error of a command that lacks a right on a resource of the type.
_REFUSALS: Final = {
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


def rights_asked(command: Command, topics: TopicsImage) -> Iterator[OneOf]:
    """Yield all rights that a client needs for a command, in Kafka's order."""
    match command:
        case CreateTopics():
            for topic in command.topics:
                yield _of_cluster(AclOperation.CREATE), _of_topic(AclOperation.CREATE, topic.name)
        case DeleteTopics():
            yield from _of_deletions(command.topics, topics)
        case CreatePartitions():
            for grown in command.topics:
                yield (_of_topic(AclOperation.ALTER, grown.name),)
        case AlterConfigs():
            yield from map(_of_configs, command.resources)
        case AlterClientQuotas():
            yield (_of_cluster(AclOperation.ALTER_CONFIGS),)
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
            yield (_of_cluster(AclOperation.ALTER),)
        case (
            RegisterBroker()
            | BrokerHeartbeat()
            | BrokerConnectionLost()
            | ReportOfflineLogDirs()
            | AssignReplicasToDirs()
            | AllocateProducerIds()
            | AlterPartition()
        ):
            yield (_of_cluster(AclOperation.CLUSTER_ACTION),)


def check_command(
    image: MetadataImage, command: Command, client: Asker, settings: AuthorizerSettings
) -> None:
    """Raise the error of authorization unless the client has all rights that a command needs."""
    decided: dict[Right, bool] = {}  # the right on the cluster is checked for each topic

    def may(right: Right) -> bool:
        known = decided.get(right)
        if known is None:
            known = decided[right] = image.acls.decide(client, *right, settings).is_allowed
        return known

    for one_of in rights_asked(command, image.topics):
        if not any(map(may, one_of)):
            refused = one_of[-1]
            named = "" if refused.resource_type is ResourceType.CLUSTER else f" {refused.name!r}"
            raise KafkaError(
                _REFUSALS[refused.resource_type],
                f"The controller rejected this command: {client.principal} from {client.host} needs "
                f"{refused.operation.name} permission on {refused.resource_type.name}{named}.",
            )


def _of_cluster(operation: AclOperation) -> Right:
    return Right(operation, ResourceType.CLUSTER, CLUSTER_NAME)


def _of_topic(operation: AclOperation, name: str) -> Right:
    return Right(operation, ResourceType.TOPIC, name)


def _of_deletions(references: Iterable[TopicReference], topics: TopicsImage) -> Iterator[OneOf]:
    every = _of_cluster(AclOperation.DELETE)
    for one in references:
        topic = topics.by_id.get(one.topic_id) if one.name is None else None
        name = one.name if topic is None else topic.name
        if name is not None:  # an unknown id needs no right: it reveals nothing
            yield every, _of_topic(AclOperation.DELETE, name)


def _of_configs(resource: ResourceChanges) -> OneOf:
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            return (_of_topic(AclOperation.ALTER_CONFIGS, resource.resource_name),)
        case ConfigResourceType.GROUP:
            return (Right(AclOperation.ALTER_CONFIGS, ResourceType.GROUP, resource.resource_name),)
        case _:
            return (_of_cluster(AclOperation.ALTER_CONFIGS),)
