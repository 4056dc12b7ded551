"""CreatePartitions: topics grow (KIP-195)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from logstore.errors import KafkaError
from metadata_raft.commands import CreatePartitions, NamedResult, NewPartitions
from node.kafka_api.request_context import RequestContext
from node.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from node.broker import Broker


async def handle(
    broker: "Broker", context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    command = CreatePartitions(
        topics=[
            NewPartitions(
                name=topic.name,
                count=topic.count,
                assignments=None
                if topic.assignments is None
                else [assignment.broker_ids for assignment in topic.assignments],
            )
            for topic in request.topics
        ],
        validate_only=request.validate_only,
    )
    results: Sequence[NamedResult]
    try:
        results = (await broker.metadata.submit(command)).topics
    except KafkaError as error:
        results = [NamedResult(topic.name, error.code, error.detail) for topic in request.topics]
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=name, error_code=error, error_message=message)
            for name, error, message in results
        ]
    )
