"""CreatePartitions: adds partitions to topics (KIP-195)."""

from collections.abc import Sequence
from itertools import compress
from typing import Final

from ottla.logstore.words.errors import ErrorCode
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.metadata_raft.commands import CreatePartitions, NamedResult, NewPartitionAssignment, NewPartitions
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.kafka_api.request_timeout import command_timeout_ms
from ottla.node.metadata.command_parts import submit_in_parts
from ottla.node.services import Services
from ottla.node.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ottla.node.wire.request_limits import MANY_CHANGED, TOPIC, RequestLimits
from ottla.node.work.turns import listed

API: Final = ApiDescription(
    versions=(0, 3),
    asks=Asks(by_handler=((AclOperation.ALTER, ResourceType.TOPIC),)),
    limits=RequestLimits(MANY_CHANGED, {"topics.name": TOPIC}, ErrorCode.POLICY_VIOLATION),
    echoes=(Echo("topics", "results", ("name",)),),
)

KNOWS_QUOTAS_SINCE: Final = 3  # KIP-599


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
    names = [topic.name for topic in topics]
    allowed = context.access.allows_each(AclOperation.ALTER, ResourceType.TOPIC, names)
    may_alter = await listed(allowed, is_large=context.is_large)
    denied = [topic.name for topic, is_allowed in zip(topics, may_alter, strict=True) if not is_allowed]
    known = services.metadata.image.topics.by_name

    def records_of(topic: NewPartitions) -> int:
        there = known.get(topic.name)
        return 0 if there is None else max(topic.count - len(there.partitions), 0)

    payer = context.mutation_payer(strict_since=KNOWS_QUOTAS_SINCE)
    throttle_ms = 0

    async def submit(part: list[NewPartitions], timeout_ms: int) -> Sequence[NamedResult]:
        nonlocal throttle_ms
        command = CreatePartitions(topics=part, validate_only=request.validate_only, payer=payer)
        reply = await services.metadata.submit(command, timeout_ms, context.client)
        throttle_ms = max(throttle_ms, reply.throttle_time_ms)
        return reply.topics

    results = await submit_in_parts(
        list(compress(topics, may_alter)),
        records_of=records_of,
        key_of=lambda topic: topic.name,
        submit=submit,
        refused=lambda part, error: [
            NamedResult(name=one.name, error_code=error.code, error_message=error.detail) for one in part
        ],
        timeout_ms=command_timeout_ms(request.timeout_ms),
    )
    refusals = [
        NamedResult(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=None)
        for name in dict.fromkeys(denied)
    ]
    answered = (
        CreatePartitionsTopicResult(
            name=result.name, error_code=result.error_code, error_message=result.error_message
        )
        for result in (*results, *refusals)
    )
    results_answered = await listed(answered, is_large=context.is_large)
    return CreatePartitionsResponse(
        throttle_time_ms=context.note_mutation_throttle(throttle_ms), results=results_answered
    )
