"""Produce: append batches as the leader and tell where they stand.

3 to 13; 0 to 2 are advertised and close the connection. zstd needs 7; since 10 a wrong leader is answered
with the right one (KIP-951); since 11 a client knows TRANSACTION_ABORTABLE; since 12 partitions join their
transaction (`transactional_produce`); since 13 topics go by id.
acks=0 is never answered: an error closes the connection, so that the client notices.
"""

from collections.abc import Sequence
from typing import Any

from ottla.logstore.batch_validator import (
    ATTRIBUTES_POSITION,
    MAGIC_POSITION,
)
from ottla.logstore.errors import ErrorCode, KafkaError
from ottla.logstore.log_config import LogConfig
from ottla.logstore.record_batch import MAGIC, TRANSACTIONAL_BIT
from ottla.logstore.schema import Buffer
from ottla.node.kafka_api import transactional_produce
from ottla.node.kafka_api.produce_append import ProduceAppend
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Delayed
from ottla.node.services import Services
from ottla.node.wire.messages.produce import (
    ProduceRequest,
    TopicProduceResponse,
)
from ottla.node.work.turns import Steps, at_once, take_turns


def handle(services: Services, context: RequestContext, request: ProduceRequest) -> Any:
    append = ProduceAppend(services, context, request)
    if context.is_large:
        return _handle_large(services, context, request, append)
    to_open = at_once(append.steps_to_open(request))
    if not to_open:
        return _handle(services, context, request, append)
    if request.acks == 0:  # its client may be gone as soon as it has sent
        return _handle_opened(services, context, request, append, to_open)
    return Delayed(
        append.open_all(to_open),
        lambda _: _handle(services, context, request, append),
        ends_with_client=True,
    )


async def _handle_large(
    services: Services, context: RequestContext, request: ProduceRequest, append: ProduceAppend
) -> Any:
    to_open = await take_turns(append.steps_to_open(request))
    return await _handle_opened(services, context, request, append, to_open)


async def _handle_opened(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    append: ProduceAppend,
    to_open: Sequence[tuple[Buffer, LogConfig]],
) -> Any:
    """The same once batches were opened, and compressed anew, beside the loop: of 1 MB that takes 0.1 s."""
    await append.open_all(to_open)
    return _handle(services, context, request, append)


def _handle(
    services: Services, context: RequestContext, request: ProduceRequest, append: ProduceAppend
) -> Any:
    if request.transactional_id is not None:
        return transactional_produce.handle(services, context, request, append)
    if context.is_large:
        return take_turns(_handle_in_steps(request, append))
    if any(_is_transactional(data.records) for topic in request.topic_data for data in topic.partition_data):
        append.refuse_all(_no_id())
    responses = []
    for topic in request.topic_data:
        if not topic.partition_data:
            continue  # Kafka keeps partitions, so a topic without any is lost
        name = append.name_of(topic)
        responses.append(
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    append.partition(name, data.index, data.records) for data in topic.partition_data
                ],
            )
        )
    return append.answer(responses)


def _handle_in_steps(request: ProduceRequest, append: ProduceAppend) -> Steps[Any]:
    """The same for a request with so many partitions that others must have their turn meanwhile."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if _is_transactional(data.records):
                append.refuse_all(_no_id())
            yield
    responses = []
    for topic in request.topic_data:
        name = append.name_of(topic)
        partitions = []
        for data in topic.partition_data:
            partitions.append(append.partition(name, data.index, data.records))
            yield
        if partitions:
            responses.append(
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions)
            )
    return append.answer(responses)


def _is_transactional(records: Buffer | None) -> bool:
    if records is None or len(records) <= ATTRIBUTES_POSITION:
        return False
    # Older formats have something else there, and are refused for what they are.
    return records[MAGIC_POSITION] == MAGIC and records[ATTRIBUTES_POSITION] & TRANSACTIONAL_BIT != 0


def _no_id() -> KafkaError:
    """Nothing of such a request is appended, not even what belongs to no transaction."""
    return KafkaError(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "A batch is transactional and the request has no transactional id.",
    )
