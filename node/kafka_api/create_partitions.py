"""CreatePartitions: topics grow (KIP-195)."""

from collections.abc import Sequence

from logstore.errors import KafkaError
from metadata_raft.commands import CreatePartitions, NamedResult, NewPartitionAssignment, NewPartitions
from node.kafka_api.request_context import RequestContext
from node.kafka_api.request_timeout import command_timeout_ms
from node.services import Services
from node.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from node.work.turns import listed


async def handle(
    services: Services, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    wanted = (
        NewPartitions(
            name=topic.name,
            count=topic.count,
            assignments=None
            if topic.assignments is None
            else [NewPartitionAssignment(broker_ids=one.broker_ids) for one in topic.assignments],
        )
        for topic in request.topics
    )
    topics = await listed(wanted, is_large=context.is_large)
    command = CreatePartitions(topics=topics, validate_only=request.validate_only)
    results: Sequence[NamedResult]
    try:
        results = (await services.metadata.submit(command, command_timeout_ms(request.timeout_ms))).topics
    except KafkaError as error:
        refused = (
            NamedResult(name=topic.name, error_code=error.code, error_message=error.detail)
            for topic in request.topics
        )
        results = await listed(refused, is_large=context.is_large)
    answered = (
        CreatePartitionsTopicResult(
            name=result.name, error_code=result.error_code, error_message=result.error_message
        )
        for result in results
    )
    return CreatePartitionsResponse(results=await listed(answered, is_large=context.is_large))
