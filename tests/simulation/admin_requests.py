"""The requests of an administrator, one function each; all may raise KafkaError."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.image import METADATA_TOPIC
from ottla.node.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from ottla.node.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.node.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from ottla.node.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.node.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.node.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.node.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.node.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from ottla.node.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.node.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionDataRequest,
    TopicDataRequest,
)
from ottla.node.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.node.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.node.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from tests.simulation.sim_client import SimClient, check
from tests.simulation.world import CONTROLLER_PORT

TIMEOUT_MS: Final = 2_000
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
GROUP_RESOURCE: Final = 32
SET, DELETE = 0, 1
PREFERRED: Final = 0
CONTROLLER_LISTENER: Final = "CONTROLLER"


class QuorumMembers(NamedTuple):
    """The voters and the observers: directory id by node."""

    voters: dict[int, bytes]
    observers: dict[int, bytes]


# ---- topics ------------------------------------------------------------------------------------------------


async def create_topic(
    client: SimClient,
    name: str,
    partitions: int,
    replication_factor: int,
    configs: dict[str, str],
    assignments: Sequence[Sequence[int]] = (),
) -> None:
    """Create a topic; with `assignments` the counts of partitions and replicas must be -1."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=replication_factor,
                assignments=[
                    CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
                    for index, replicas in enumerate(assignments)
                ],
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
            )
        ],
        timeout_ms=TIMEOUT_MS,
    )
    response = await client.ask(client.any_endpoint(), request, CreateTopicsResponse)
    check(response.topics[0].error_code, response.topics[0].error_message)


async def create_partitions(client: SimClient, name: str, count: int) -> None:
    """Increase the number of a topic's partitions to `count`."""
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=count, assignments=None)], timeout_ms=TIMEOUT_MS
    )
    response = await client.ask(client.any_endpoint(), request, CreatePartitionsResponse)
    check(response.results[0].error_code, response.results[0].error_message)


async def delete_topic(client: SimClient, name: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=TIMEOUT_MS)
    response = await client.ask(client.any_endpoint(), request, DeleteTopicsResponse)
    check(response.responses[0].error_code, response.responses[0].error_message)


async def set_topic_config(client: SimClient, topic: str, name: str, value: str) -> None:
    await _set_config(client, TOPIC_RESOURCE, topic, {name: value})


async def set_group_configs(client: SimClient, group: str, configs: Mapping[str, str]) -> None:
    """Set configs of a group."""
    await _set_config(client, GROUP_RESOURCE, group, configs)


async def set_broker_config(client: SimClient, name: str, value: str | None) -> None:
    """Set a config of all brokers; None deletes it."""
    await _set_config(client, BROKER_RESOURCE, "", {name: value})


async def _set_config(
    client: SimClient, resource_type: int, resource: str, configs: Mapping[str, str | None]
) -> None:
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=resource_type,
                resource_name=resource,
                configs=[
                    AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
                    for name, value in configs.items()
                ],
            )
        ]
    )
    response = await client.ask(client.any_endpoint(), request, IncrementalAlterConfigsResponse)
    check(response.responses[0].error_code, response.responses[0].error_message)


# ---- partitions --------------------------------------------------------------------------------------------


async def reassign(client: SimClient, partition: TopicPartition, replicas: Sequence[int] | None) -> None:
    """Reassign a partition to these replicas; None cancels its reassignment."""
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS,
        topics=[
            ReassignableTopic(
                name=partition.topic,
                partitions=[ReassignablePartition(partition_index=partition.partition, replicas=replicas)],
            )
        ],
    )
    response = await client.ask(client.any_endpoint(), request, AlterPartitionReassignmentsResponse)
    check(response.error_code, response.error_message)
    one = response.responses[0].partitions[0]
    check(one.error_code, one.error_message)


async def elect_preferred_leader(client: SimClient, partition: TopicPartition) -> None:
    """Elect the preferred leader; it is no error if it leads already."""
    request = ElectLeadersRequest(
        election_type=PREFERRED,
        topic_partitions=[TopicPartitions(topic=partition.topic, partitions=[partition.partition])],
        timeout_ms=TIMEOUT_MS,
    )
    response = await client.ask(client.any_endpoint(), request, ElectLeadersResponse)
    check(response.error_code)
    for topic in response.replica_election_results:
        for one in topic.partition_result:
            if one.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                check(one.error_code, one.error_message)


async def delete_records(client: SimClient, partition: TopicPartition, offset: int) -> int:
    """Delete the records of a partition below `offset` and return its low watermark."""
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=partition.topic,
                partitions=[DeleteRecordsPartition(partition_index=partition.partition, offset=offset)],
            )
        ],
        timeout_ms=TIMEOUT_MS,
    )
    response = await client.ask(await client.leader(partition), request, DeleteRecordsResponse)
    one = response.topics[0].partitions[0]
    check(one.error_code)
    return one.low_watermark


# ---- share groups ------------------------------------------------------------------------------------------


async def alter_share_offset(client: SimClient, group: str, partition: TopicPartition, offset: int) -> None:
    """Set the start offset of a share group without members."""
    one = AlterShareGroupOffsetsRequestPartition(partition_index=partition.partition, start_offset=offset)
    topic = AlterShareGroupOffsetsRequestTopic(topic_name=partition.topic, partitions=[one])
    request = AlterShareGroupOffsetsRequest(group_id=group, topics=[topic])
    coordinator = await client.coordinator_of(group)
    answer = await client.ask(coordinator, request, AlterShareGroupOffsetsResponse)
    check(answer.error_code, answer.error_message)
    altered = answer.responses[0].partitions[0]
    check(altered.error_code, altered.error_message)


async def delete_share_offsets(client: SimClient, group: str, topic: str) -> None:
    """Delete a topic's offsets of a share group without members; it is no error if there are none."""
    request = DeleteShareGroupOffsetsRequest(
        group_id=group, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=topic)]
    )
    coordinator = await client.coordinator_of(group)
    answer = await client.ask(coordinator, request, DeleteShareGroupOffsetsResponse)
    check(answer.error_code, answer.error_message)
    check(answer.responses[0].error_code, answer.responses[0].error_message)


async def delete_group(client: SimClient, group: str) -> None:
    """Delete a group without members."""
    coordinator = await client.coordinator_of(group)
    answer = await client.ask(coordinator, DeleteGroupsRequest(groups_names=[group]), DeleteGroupsResponse)
    check(answer.results[0].error_code, answer.results[0].error_message)


# ---- quorum ------------------------------------------------------------------------------------------------


async def quorum_members(client: SimClient) -> QuorumMembers:
    """Return the voters of the metadata quorum and its observers."""
    request = DescribeQuorumRequest(
        topics=[
            TopicDataRequest(topic_name=METADATA_TOPIC, partitions=[PartitionDataRequest(partition_index=0)])
        ]
    )
    response = await client.ask(client.any_endpoint(), request, DescribeQuorumResponse)
    check(response.error_code, response.error_message)
    one = response.topics[0].partitions[0]
    check(one.error_code, one.error_message)
    if not one.current_voters:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    return QuorumMembers(
        {voter.replica_id: voter.replica_directory_id for voter in one.current_voters},
        {observer.replica_id: observer.replica_directory_id for observer in one.observers},
    )


async def add_voter(client: SimClient, node_id: int, directory_id: bytes) -> None:
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=TIMEOUT_MS,
        voter_id=node_id,
        voter_directory_id=directory_id,
        listeners=[Listener(name=CONTROLLER_LISTENER, host=f"node-{node_id}", port=CONTROLLER_PORT)],
    )
    response = await client.ask(client.any_endpoint(), request, AddRaftVoterResponse)
    check(response.error_code, response.error_message)


async def remove_voter(client: SimClient, node_id: int, directory_id: bytes) -> None:
    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=node_id, voter_directory_id=directory_id)
    response = await client.ask(client.any_endpoint(), request, RemoveRaftVoterResponse)
    check(response.error_code, response.error_message)
