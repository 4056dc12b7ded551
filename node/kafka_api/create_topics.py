"""CreateTopics: creates topics.

Since 4 the number -1 stands for the cluster's defaults; since 5 the response has the settings, since 7 the
topic ids. The response is sent when this node hosts the topic, so that a client finds it at once.
"""

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.metadata_raft.commands import (
    USE_DEFAULT,
    CreateTopics,
    NewTopic,
    NewTopicConfig,
    ReplicaAssignment,
    TopicCreation,
)
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.config_entries import source_for_new_topic, topic_entries
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.kafka_api.request_timeout import command_timeout_ms
from ottla.node.metadata.command_parts import submit_in_parts
from ottla.node.metadata.topic_creation import random_uuid
from ottla.node.net.answers import BuiltInThread
from ottla.node.services import Services
from ottla.node.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.node.wire.request_limits import MANY_CHANGED, NAME, TOPIC, VALUE, RequestLimits
from ottla.node.work.turns import listed

API: Final = ApiDescription(
    versions=(2, 7),
    asks=Asks(
        by_handler=(
            (AclOperation.CREATE, ResourceType.CLUSTER),
            (AclOperation.CREATE, ResourceType.TOPIC),
            (AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC),
        )
    ),
    limits=RequestLimits(
        MANY_CHANGED,
        {"topics.name": TOPIC, "topics.configs.name": NAME, "topics.configs.value": VALUE},
        ErrorCode.POLICY_VIOLATION,
    ),
    echoes=(Echo("topics", "topics", ("name",)),),
)

SHOWS_CONFIGS_SINCE = 5
KNOWS_QUOTAS_SINCE = 6  # KIP-599
RESULTS_AT_ONCE: Final = 4  # 0.4 ms each, with all settings of a topic
ENCODED_AT_ONCE: Final = 32  # 50 us each; more are encoded in a thread


async def handle(
    services: Services, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse | BuiltInThread[CreateTopicsResponse]:
    is_large = context.is_large
    topics = await listed((_new_topic(topic, services.unique) for topic in request.topics), is_large=is_large)
    access = context.access
    may_create_all = access.allows_of_cluster(AclOperation.CREATE, log_if_denied=False)
    checked = (
        may_create_all or access.allows(AclOperation.CREATE, ResourceType.TOPIC, one.name) for one in topics
    )
    may_create = await listed(checked, is_large=is_large)
    allowed = list(compress(topics, may_create))
    denied = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    refused = _refused(
        [one for one, is_allowed in zip(topics, may_create, strict=True) if not is_allowed], denied
    )
    known, config = services.metadata.image.topics.by_name, services.config

    def records_of(topic: NewTopic) -> int:
        if topic.name in known:
            return 0
        count = config.num_partitions if topic.num_partitions == USE_DEFAULT else max(topic.num_partitions, 0)
        return 1 + len(topic.configs) + (len(topic.assignments) or count)

    payer = context.mutation_payer(strict_since=KNOWS_QUOTAS_SINCE)
    throttle_ms = 0

    async def submit(part: list[NewTopic], timeout_ms: int) -> Sequence[TopicCreation]:
        nonlocal throttle_ms
        command = CreateTopics(topics=part, validate_only=request.validate_only, payer=payer)
        reply = await services.metadata.submit(command, timeout_ms, context.client)
        throttle_ms = max(throttle_ms, reply.throttle_time_ms)
        return reply.topics

    results = await submit_in_parts(
        allowed,
        records_of=records_of,
        key_of=lambda topic: topic.name,
        submit=submit,
        refused=_refused,
        timeout_ms=command_timeout_ms(request.timeout_ms),
    )
    answered = (_result(services, context, result) for result in (*results, *refused))
    # A result has all settings of its topic: it takes a hundred times as long as its part of the request.
    count = len(results) + len(refused)
    topics_answered = await listed(answered, is_large=is_large or count > RESULTS_AT_ONCE)
    response = CreateTopicsResponse(
        throttle_time_ms=context.note_mutation_throttle(throttle_ms), topics=topics_answered
    )
    return response if count <= ENCODED_AT_ONCE else BuiltInThread(lambda: response)


def _refused(topics: Sequence[NewTopic], error: KafkaError) -> Sequence[TopicCreation]:
    """Return the error for each name once, as the controller does."""
    names = dict.fromkeys(topic.name for topic in topics)
    return [TopicCreation(name=name, error_code=error.code, error_message=error.detail) for name in names]


def _new_topic(topic: CreatableTopic, unique: Callable[[int], bytes]) -> NewTopic:
    return NewTopic(
        name=topic.name,
        topic_id=random_uuid(unique),
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            ReplicaAssignment(partition_index=one.partition_index, broker_ids=one.broker_ids)
            for one in topic.assignments
        ],
        configs=[NewTopicConfig(name=config.name, value=config.value) for config in topic.configs],
    )


def _result(services: Services, context: RequestContext, result: TopicCreation) -> CreatableTopicResult:
    if result.configs is None:
        return CreatableTopicResult(
            name=result.name, error_code=result.error_code, error_message=result.error_message
        )
    if context.api_version >= SHOWS_CONFIGS_SINCE and not context.access.allows(
        AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, result.name, log_if_denied=False
    ):
        return CreatableTopicResult(
            name=result.name,
            topic_id=result.topic_id,
            error_message=None,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            num_partitions=-1,
            replication_factor=-1,
            configs=[],
        )
    configs: list[CreatableTopicConfigs] = []
    given = {config.name: config.value or "" for config in result.configs}
    if context.api_version >= SHOWS_CONFIGS_SINCE:
        configs = [
            CreatableTopicConfigs(
                name=entry.key.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=source_for_new_topic(services.config, entry),
                is_sensitive=entry.key.sensitive,
            )
            for entry in topic_entries(services.config, given)
        ]
    return CreatableTopicResult(
        name=result.name,
        topic_id=result.topic_id,
        error_message=None,
        num_partitions=result.num_partitions,
        replication_factor=result.replication_factor,
        configs=configs,
    )
