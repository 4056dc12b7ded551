"""ElectLeaders: elects preferred replicas as leaders, or any live replica (KIP-183, KIP-460).

Version 0 has the preferred election only. Since 1 the response has an error of its own.
"""

from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.commands import ElectLeaders, ReplicaElectionResult, TopicPartitions
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.kafka_api.request_timeout import command_timeout_ms
from ottla.node.services import Services
from ottla.node.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
)
from ottla.node.wire.messages.elect_leaders import ReplicaElectionResult as TopicResult
from ottla.node.wire.request_limits import MANY_ELECTED, TOPIC, RequestLimits
from ottla.node.work.turns import STEPS_PER_TURN, give_way, listed

API: Final = ApiDescription(
    versions=(0, 2),
    asks=Asks(of_cluster=AclOperation.ALTER),
    limits=RequestLimits(MANY_ELECTED, {"topic_partitions.topic": TOPIC}),
    echoes=(
        Echo(
            "topic_partitions",
            "replica_election_results",
            ("topic",),
            Echo("partitions", "partition_result", ("partition_id",)),
        ),
    ),
)


async def handle(
    services: Services, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    requested = request.topic_partitions
    is_large = requested is not None and len(requested) > STEPS_PER_TURN
    named = None
    if requested is not None:
        topics = (TopicPartitions(topic=one.topic, partitions=one.partitions) for one in requested)
        named = await listed(topics, is_large=is_large)
    if is_large:
        await give_way()  # the rest takes a turn of its own
    command = ElectLeaders(election_type=request.election_type, topic_partitions=named)
    try:
        reply = await services.metadata.submit(
            command, command_timeout_ms(request.timeout_ms), context.client
        )
    except KafkaError as error:
        return ElectLeadersResponse(
            error_code=error.code,
            replica_election_results=[
                TopicResult(
                    topic=one.topic,
                    partition_result=[
                        PartitionResult(
                            partition_id=partition, error_code=error.code, error_message=error.detail
                        )
                        for partition in one.partitions
                    ],
                )
                for one in requested or ()
            ],
        )
    return ElectLeadersResponse(
        replica_election_results=await listed(map(_topic, reply.replica_election_results), is_large=is_large)
    )


def _topic(result: ReplicaElectionResult) -> TopicResult:
    return TopicResult(
        topic=result.topic,
        partition_result=[
            PartitionResult(
                partition_id=one.partition_id, error_code=one.error_code, error_message=one.error_message
            )
            for one in result.partition_result
        ],
    )
