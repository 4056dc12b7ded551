"""DescribeProducers: the active producers of partitions, as this replica knows them (KIP-664). Version 0.

Followers answer, too: a transaction that hangs on one broker is found by asking that broker. A partition that
is named more than once is answered once: it may have very many producers.
"""

from typing import Final

from ottla.logstore.producer_state import ProducerEntry
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import check_topic_name
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.authorization.access import Access
from ottla.node.kafka_api.api_description import PARTITION_INDEXES, ApiDescription, Asks, Echo
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import BuiltInThread, Result
from ottla.node.services import Services
from ottla.node.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.node.wire.request_limits import MANY, TOPIC, RequestLimits
from ottla.node.work.turns import STEPS_PER_TURN, Steps, one_turn_at_once

API: Final = ApiDescription(
    versions=(0, 0),
    asks=Asks(by_handler=((AclOperation.READ, ResourceType.TOPIC),)),
    limits=RequestLimits(MANY, {"topics.name": TOPIC}),
    echoes=(Echo("topics", "topics", ("name",), PARTITION_INDEXES),),
    changes_nothing=True,
)


def handle(
    services: Services, context: RequestContext, request: DescribeProducersRequest
) -> Result[DescribeProducersResponse]:
    return one_turn_at_once(_answer(services, context.access, request))


def _answer(
    services: Services, access: Access, request: DescribeProducersRequest
) -> Steps[Result[DescribeProducersResponse]]:
    topics = []
    named: set[tuple[str, int]] = set()
    count = 0
    for topic in request.topics:
        partitions = []
        is_allowed = access.allows(AclOperation.READ, ResourceType.TOPIC, topic.name)
        for index in topic.partition_indexes:
            yield
            if not is_allowed:
                partitions.append(
                    PartitionResponse(
                        partition_index=index,
                        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                        error_message="Topic authorization failed.",
                    )
                )
            elif (topic.name, index) not in named:
                named.add((topic.name, index))
                partitions.append((yield from _describe(services, topic.name, index)))
                count += len(partitions[-1].active_producers)
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
    response = DescribeProducersResponse(topics=topics)
    return response if count < STEPS_PER_TURN else BuiltInThread(lambda: response)


def _describe(services: Services, topic: str, index: int) -> Steps[PartitionResponse]:
    try:
        check_topic_name(topic)
        partition = services.replica_manager.partition((topic, index))
    except KafkaError as error:
        return PartitionResponse(
            partition_index=index, error_code=error.code, error_message=error.detail or None
        )
    states = []
    for entry in list(partition.log.active_producers()):  # producers come and go between two turns
        states.append(_state(entry))
        yield
    return PartitionResponse(partition_index=index, active_producers=states)


def _state(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_txn_first_offset,
    )
