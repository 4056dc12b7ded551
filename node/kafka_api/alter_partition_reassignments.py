"""AlterPartitionReassignments: moves partitions to other brokers, or cancels such moves (KIP-455).

Since 1 a client may forbid a change of the number of replicas (KIP-860).
"""

from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.commands import AlterPartitionReassignments, ReassignablePartition, ReassignableTopic
from ottla.node.kafka_api.api_description import PARTITIONS, ApiDescription, Asks, Echo
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.kafka_api.request_timeout import command_timeout_ms
from ottla.node.services import Services
from ottla.node.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.node.wire.request_limits import MANY_MOVED, TOPIC, RequestLimits
from ottla.node.work.turns import listed

API: Final = ApiDescription(
    versions=(0, 1),
    asks=Asks(of_cluster=AclOperation.ALTER),
    limits=RequestLimits(MANY_MOVED, {"topics.name": TOPIC}),
    echoes=(Echo("topics", "responses", ("name",), PARTITIONS),),
)


async def handle(
    services: Services, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    is_large = context.is_large
    topics = []
    for topic in request.topics:
        wanted = (
            ReassignablePartition(partition_index=one.partition_index, replicas=one.replicas)
            for one in topic.partitions
        )
        topics.append(ReassignableTopic(name=topic.name, partitions=await listed(wanted, is_large=is_large)))
    command = AlterPartitionReassignments(
        topics=topics, allow_replication_factor_change=request.allow_replication_factor_change
    )
    try:
        reply = await services.metadata.submit(
            command, command_timeout_ms(request.timeout_ms), context.client
        )
    except KafkaError as error:
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_code=error.code,
            error_message=error.detail,
        )
    responses = []
    for result in reply.responses:
        answered = (
            ReassignablePartitionResponse(
                partition_index=one.partition_index,
                error_code=one.error_code,
                error_message=one.error_message,
            )
            for one in result.partitions
        )
        partitions = await listed(answered, is_large=is_large)
        responses.append(ReassignableTopicResponse(name=result.name, partitions=partitions))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )
