"""Produce: appends batches as the leader and returns their offsets.

Versions 3 to 13; 0 to 2 are advertised and close the connection. zstd needs 7; since 10 a wrong leader
returns the right one (KIP-951); since 11 a client knows TRANSACTION_ABORTABLE; since 12 partitions are added
to the transaction implicitly; since 13 topics have ids instead of names.

acks=0 is never answered: an error closes the connection, so that the client notices.

If the leader has just gone down, a request waits for the metadata: its client may know before this node that
this node is the next leader.

A request is served in three steps. Batches that take long to check are opened off the loop; in a
transaction the coordinator is asked if necessary (`transactional_produce`); then each batch is appended
(`produce_append`). Requests that begin like an earlier one bypass this module (`repeated_produce`), unless
they need one of the first two steps or are rejected.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Final

from ottla.logstore.log_config import LogConfig
from ottla.logstore.words.schema import Buffer
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.kafka_api import transactional_produce
from ottla.node.kafka_api.api_description import ANY_BYTES, ApiDescription, Asks, Echo
from ottla.node.kafka_api.produce_append import ProduceAppend, is_transactional
from ottla.node.kafka_api.repeated_produce import RepeatedProduces
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.kafka_api.transactional_produce import Verdict
from ottla.node.net.answers import Delayed, Result
from ottla.node.services import Services
from ottla.node.wire.messages.produce import ProduceRequest, ProduceResponse, TopicProduceResponse
from ottla.node.wire.request_limits import MANY_PARTITIONS, NAME, TOPIC, RequestLimits
from ottla.node.work.turns import Steps, in_turns

API: Final = ApiDescription(
    versions=(0, 13),
    asks=Asks(
        by_handler=(
            (AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID),
            (AclOperation.WRITE, ResourceType.TOPIC),
        )
    ),
    limits=RequestLimits(MANY_PARTITIONS, {"transactional_id": NAME, "topic_data.name": TOPIC}),
    echoes=(
        Echo(
            "topic_data",
            "responses",
            ("name", "topic_id"),
            Echo("partition_data", "partition_responses", ("index",)),
        ),
    ),
    small_bytes=ANY_BYTES,
    repeated_of=RepeatedProduces,
)

_NO_VERDICTS: Final[Mapping[int, Verdict]] = {}


def handle(services: Services, context: RequestContext, request: ProduceRequest) -> Result[ProduceResponse]:
    if not context.access.is_open and _is_transactional(request):
        transactional_id = request.transactional_id or ""
        context.access.check(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    suspects = services.metadata.suspects
    if suspects and not context.is_large:
        leads = partial(_is_led_by, services, context, request)
        if suspects.wait_s(leads) > 0:
            return Delayed(suspects.wait_while(leads), lambda _: _handle(services, context, request))
    return _handle(services, context, request)


def _is_led_by(
    services: Services, context: RequestContext, request: ProduceRequest, brokers: Collection[int]
) -> bool:
    """Return True if, by the metadata, one of these brokers leads a partition of the request."""
    topics = services.metadata.image.topics
    for topic in request.topic_data:
        known = (
            topics.by_name.get(topic.name) if context.api_version < 13 else topics.by_id.get(topic.topic_id)
        )
        partitions = known.partitions if known is not None else ()
        if any(
            0 <= data.index < len(partitions) and partitions[data.index].leader in brokers
            for data in topic.partition_data
        ):
            return True
    return False


def _handle(services: Services, context: RequestContext, request: ProduceRequest) -> Result[ProduceResponse]:
    append = ProduceAppend(services, context, request)
    return in_turns(_serve(services, context, request, append), is_large=context.is_large)


def _is_transactional(request: ProduceRequest) -> bool:
    parts = (data for topic in request.topic_data for data in topic.partition_data)
    return any(is_transactional(data.records) for data in parts)


def _serve(
    services: Services, context: RequestContext, request: ProduceRequest, append: ProduceAppend
) -> Steps[Result[ProduceResponse]]:
    to_open = yield from append.steps_to_open(request)
    if not to_open:
        return (yield from _verify_and_append(services, context, request, append))
    # With acks=0 the client may disconnect as soon as it has sent its request.
    if context.is_large or request.acks == 0:
        return _open_and_append(services, context, request, append, to_open)
    return Delayed(
        append.open_all(to_open),
        lambda _: in_turns(_verify_and_append(services, context, request, append), is_large=False),
        ends_with_client=True,
    )


async def _open_and_append(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    append: ProduceAppend,
    to_open: Sequence[tuple[Buffer, LogConfig]],
) -> Result[ProduceResponse]:
    """Open and recompress batches off the loop, which takes 0.1 s for 1 MB; then append them."""
    await append.open_all(to_open)
    return in_turns(_verify_and_append(services, context, request, append), is_large=context.is_large)


def _verify_and_append(
    services: Services, context: RequestContext, request: ProduceRequest, append: ProduceAppend
) -> Steps[Result[ProduceResponse]]:
    if request.transactional_id is None:
        return _append_each(request, append, _NO_VERDICTS)
    return _in_transaction(services, context, request, append, request.transactional_id)


def _in_transaction(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    append: ProduceAppend,
    transactional_id: str,
) -> Steps[Result[ProduceResponse]]:
    parts = yield from transactional_produce.prepare_parts(services, context, request, append)
    codes = transactional_produce.ask(services, context, transactional_id, parts)
    if codes is None:
        return (yield from _append_each(request, append, transactional_produce.verdicts(parts, {}, context)))
    return Delayed(
        codes,
        lambda codes: in_turns(
            _append_each(request, append, transactional_produce.verdicts(parts, codes, context)),
            is_large=context.is_large,
        ),
    )


def _append_each(
    request: ProduceRequest, append: ProduceAppend, verdicts: Mapping[int, Verdict]
) -> Steps[Result[ProduceResponse]]:
    """Append each batch; `verdicts` has the coordinator's verdict by the id() of a partition's data."""
    responses = []
    for topic in request.topic_data:
        if not topic.partition_data:
            continue  # Kafka collects partitions, so a topic without any is left out
        name = append.name_of(topic)
        partitions = []
        for data in topic.partition_data:
            verdict = verdicts.get(id(data)) if verdicts else None
            partitions.append(append.append_batch(name, data.index, data.records, verdict))
            yield
        responses.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions)
        )
    return append.answer(responses)
