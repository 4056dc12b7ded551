"""DeleteTopics: deletes topics; since 5 with messages, since 6 also by topic id."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.metadata_raft.commands import DeleteTopics, TopicDeletion, TopicReference
from ottla.metadata_raft.image import TopicsImage
from ottla.node.authorization.access import Access
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.kafka_api.request_timeout import command_timeout_ms
from ottla.node.metadata.command_parts import submit_in_parts
from ottla.node.services import Services
from ottla.node.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from ottla.node.wire.request_limits import MANY_CHANGED, TOPIC, RequestLimits
from ottla.node.work.turns import Steps, listed, take_turns

API: Final = ApiDescription(
    versions=(1, 6),
    asks=Asks(
        by_handler=(
            (AclOperation.DELETE, ResourceType.CLUSTER),
            (AclOperation.DESCRIBE, ResourceType.TOPIC),
            (AclOperation.DELETE, ResourceType.TOPIC),
        )
    ),
    limits=RequestLimits(
        MANY_CHANGED, {"topics.name": TOPIC, "topic_names": TOPIC}, ErrorCode.POLICY_VIOLATION
    ),
    echoes=(
        Echo("topic_names", "responses", ("name",)),
        Echo("topics", "responses", ("name", "topic_id")),
    ),
)

BY_ID_SINCE = 6
DELETION_DISABLED_SINCE = 3
KNOWS_QUOTAS_SINCE = 5  # KIP-599


async def handle(
    services: Services, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    requested = await listed(_references(context, request), is_large=context.is_large)
    topics = services.metadata.image.topics
    known = topics.by_name
    references, denied = await take_turns(_split_by_rights(context.access, topics, requested))

    def key_of(reference: TopicReference) -> Hashable:
        """Return the same key for a topic given by its name and by its id."""
        if reference.name is None:
            return reference.topic_id
        topic = known.get(reference.name)
        return reference.name if topic is None else topic.topic_id

    payer = context.mutation_payer(strict_since=KNOWS_QUOTAS_SINCE)
    throttle_ms = 0

    async def submit(part: list[TopicReference], timeout_ms: int) -> Sequence[TopicDeletion]:
        nonlocal throttle_ms
        command = DeleteTopics(topics=part, payer=payer)
        reply = await services.metadata.submit(command, timeout_ms, context.client)
        throttle_ms = max(throttle_ms, reply.throttle_time_ms)
        return reply.topics

    def refused(part: Sequence[TopicReference], error: KafkaError) -> Iterable[TopicDeletion]:
        code = error.code
        if code is ErrorCode.TOPIC_DELETION_DISABLED and context.api_version < DELETION_DISABLED_SINCE:
            code = ErrorCode.INVALID_REQUEST
        return [
            TopicDeletion(name=one.name, topic_id=one.topic_id, error_code=code, error_message=error.detail)
            for one in part
        ]

    results = await submit_in_parts(
        references,
        records_of=lambda reference: 1,
        key_of=key_of,
        submit=submit,
        refused=refused,
        timeout_ms=command_timeout_ms(request.timeout_ms),
    )
    answered = (
        DeletableTopicResult(
            name=result.name if context.api_version >= BY_ID_SINCE else result.name or "",
            topic_id=result.topic_id,
            error_code=result.error_code,
            error_message=result.error_message,
        )
        for result in (*results, *denied)
    )
    responses = await listed(answered, is_large=context.is_large)
    return DeleteTopicsResponse(
        throttle_time_ms=context.note_mutation_throttle(throttle_ms), responses=responses
    )


def _split_by_rights(
    access: Access, topics: TopicsImage, requested: Sequence[TopicReference]
) -> Steps[tuple[Sequence[TopicReference], Sequence[TopicDeletion]]]:
    """Return the topics that the client may delete, and the results of those that it may not.

    The name of a topic given by its id is returned only to a client that may describe it.
    """
    if access.allows_of_cluster(AclOperation.DELETE, log_if_denied=False):
        return requested, ()
    allowed: list[TopicReference] = []
    denied: list[TopicDeletion] = []
    for one in requested:
        yield
        topic = topics.by_id.get(one.topic_id) if one.name is None else topics.by_name.get(one.name)
        name = one.name if topic is None else topic.name
        if name is None:
            allowed.append(one)  # the controller answers that the id is unknown
            continue
        if access.allows(AclOperation.DELETE, ResourceType.TOPIC, name):
            allowed.append(one)
            continue
        may_describe = access.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name)
        denied.append(
            TopicDeletion(
                name=name if may_describe else one.name,
                topic_id=one.topic_id,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message="Topic authorization failed.",
            )
        )
    return allowed, denied


def _references(context: RequestContext, request: DeleteTopicsRequest) -> Iterable[TopicReference]:
    if context.api_version < BY_ID_SINCE:
        return (TopicReference(name=name) for name in request.topic_names)
    return (TopicReference(name=topic.name, topic_id=topic.topic_id) for topic in request.topics)
