"""Topics, partitions and brokers in Confluent's v2, and producing records to topics."""

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import topic_admin
from ottla.node.client.cluster_admin import describe_cluster
from ottla.node.client.config_admin import describe_resources
from ottla.node.client.exact_json import load_json
from ottla.node.client.record_batches import Delivery
from ottla.node.client.topic_admin import EARLIEST, LATEST, config_of_topic
from ottla.node.rest_api.json_schema import Json, Schema
from ottla.node.rest_api.operation_words import listed, record
from ottla.node.rest_api.record_json import parse_record
from ottla.node.rest_api.resource import Data
from ottla.node.rest_api.rest_error import (
    AUTHENTICATION_FAILED,
    AUTHORIZATION_FAILED,
    PARTITION_NOT_FOUND,
    RestError,
    bad_request,
    invalid_payload,
    rest_error_of,
)
from ottla.node.rest_api.route import (
    BOOLEAN,
    INT32,
    INT64,
    NAME,
    STRING,
    TIME_LIMIT,
    Answer,
    Handler,
    Response,
    RestContext,
    RestRequest,
    Route,
)
from ottla.node.rest_api.v2_errors import INVALID_PAYLOAD, TOPIC_NOT_FOUND
from ottla.node.rest_api.v2_words import (
    ANY_VALUE,
    MEDIA_TYPES,
    SCHEMA_MEDIA_TYPES,
    TAG,
    TYPES,
    V2,
    format_of,
)
from ottla.node.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

MAX_RECORDS: Final = 10_000  # in one request, as in a batch of v3

# Clients send these fields for every format; values that need a schema are rejected.
_OF_SCHEMAS: Final = ("key_schema", "key_schema_id", "value_schema", "value_schema_id")
_NULL_INTEGER: Final[Schema] = {"type": ["integer", "null"]}
_PARTITION: Final = record(
    {
        "partition": INT32,
        "leader": {"type": "integer"},
        "replicas": listed(
            record({"broker": INT32, "leader": BOOLEAN, "in_sync": BOOLEAN}, title="V2Replica")
        ),
    },
    title="V2PartitionState",
)
_TOPIC: Final = record(
    {
        "name": STRING,
        "configs": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
        "partitions": listed(_PARTITION),
    },
    title="V2Topic",
)
_PRODUCE: Final[Schema] = {
    "title": "V2ProduceRequest",
    "type": "object",
    "properties": {
        "records": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_RECORDS,
            "items": {
                "title": "V2ProduceRecord",
                "type": "object",
                "properties": {
                    "key": ANY_VALUE,
                    "value": ANY_VALUE,
                    "partition": {"type": ["integer", "null"], "minimum": 0, "maximum": 2**31 - 1},
                },
                "additionalProperties": False,
            },
        },
        **{name: {"type": "null"} for name in _OF_SCHEMAS},
    },
    "required": ["records"],
    "additionalProperties": False,
}
_PRODUCED: Final = record(
    {
        "offsets": listed(
            record(
                {
                    "partition": _NULL_INTEGER,
                    "offset": _NULL_INTEGER,
                    "error_code": _NULL_INTEGER,
                    "error": {"type": ["string", "null"]},
                },
                title="V2PartitionOffset",
            )
        ),
        "key_schema_id": {"type": "null"},
        "value_schema_id": {"type": "null"},
    },
    title="V2ProduceResponse",
)


# ---- topics ------------------------------------------------------------------------------------------------


async def list_topics(context: RestContext, request: RestRequest) -> Answer:
    topics = await topic_admin.describe_topics(context.client, None)
    return Answer(body=[one.name for one in topics if not one.is_internal], content_type=V2)


async def get_topic(context: RestContext, request: RestRequest) -> Answer:
    topic = await _topic(context, request)
    resource = config_of_topic(request.path["topic_name"])
    settings = (await describe_resources(context.client, [resource]))[resource]
    return Answer(
        body={
            "name": topic.name,
            "configs": {one.name: one.value for one in settings},
            "partitions": _partitions(topic),
        },
        content_type=V2,
    )


async def list_partitions(context: RestContext, request: RestRequest) -> Answer:
    return Answer(body=_partitions(await _topic(context, request)), content_type=V2)


async def get_partition(context: RestContext, request: RestRequest) -> Answer:
    return Answer(body=_partition(await _one_partition(context, request)), content_type=V2)


async def get_offsets(context: RestContext, request: RestRequest) -> Answer:
    one = await _one_partition(context, request)
    place = TopicPartition(request.path["topic_name"], one.partition_index)
    first = await topic_admin.list_offsets(context.client, {place: EARLIEST})
    last = await topic_admin.list_offsets(context.client, {place: LATEST})
    return Answer(
        body={"beginning_offset": first[place].offset, "end_offset": last[place].offset}, content_type=V2
    )


async def list_brokers(context: RestContext, request: RestRequest) -> Answer:
    brokers = (await describe_cluster(context.client)).brokers
    return Answer(
        body={"brokers": sorted(one.broker_id for one in brokers if not one.is_fenced)}, content_type=V2
    )


async def _topic(context: RestContext, request: RestRequest) -> MetadataResponseTopic:
    try:
        [topic] = await topic_admin.describe_topics(context.client, [request.path["topic_name"]])
    except KafkaError as error:
        raise _error_of_topic(error) from None
    return topic


async def _one_partition(context: RestContext, request: RestRequest) -> MetadataResponsePartition:
    topic = await _topic(context, request)
    for one in topic.partitions:
        if one.partition_index == request.path["partition_id"]:
            return one
    raise RestError(404, PARTITION_NOT_FOUND, "Partition not found.")


def _error_of_topic(error: KafkaError) -> RestError:
    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return RestError(404, TOPIC_NOT_FOUND, "Topic not found.")
    return rest_error_of(error)


def _partitions(topic: MetadataResponseTopic) -> list[Data]:
    return [_partition(one) for one in sorted(topic.partitions, key=lambda one: one.partition_index)]


def _partition(one: MetadataResponsePartition) -> Data:
    return {
        "partition": one.partition_index,
        "leader": one.leader_id,
        "replicas": [
            {"broker": broker, "leader": broker == one.leader_id, "in_sync": broker in one.isr_nodes}
            for broker in one.replica_nodes
        ],
    }


# ---- records -----------------------------------------------------------------------------------------------


async def produce(context: RestContext, request: RestRequest) -> Answer:
    form = format_of(request.headers.get("Content-Type", "")) or "binary"
    if form in SCHEMA_MEDIA_TYPES:
        raise RestError(
            422, INVALID_PAYLOAD, "Payload error. Schema Registry must be configured when using schemas."
        )
    kind = TYPES[form]
    number = request.path.get("partition_id")
    # All are parsed before the first is sent.
    worker = context.records.turns.worker()
    parsed = [
        parse_record(_as_in_v3(one, kind, number)).record
        async for one in worker.each(_records(request.raw_body))
    ]
    with context.sender() as sender:
        try:
            info = await sender.topic(request.path["topic_name"], context.deadline)
            await sender.wait_for_room(context.deadline)
        except KafkaError as error:
            raise _error_of_topic(error) from None
        for one in parsed:
            if one.partition is not None and one.partition not in info.topic.leaders:
                raise RestError(404, PARTITION_NOT_FOUND, "Partition not found.")
        deliveries: list[Delivery | KafkaError] = []
        async for one in worker.each(parsed):
            try:
                deliveries.append(sender.add(info, one, context.deadline))
            except KafkaError as error:
                deliveries.append(error)
        offsets: list[Data] = []
        async for delivery in worker.each(deliveries):
            if isinstance(delivery, KafkaError):
                offsets.append(_failed(delivery))
                continue
            await delivery.batch.done.wait()
            outcome = delivery.outcome
            if isinstance(outcome, KafkaError):
                offsets.append(_failed(outcome))
            else:
                where = delivery.batch.partition.partition
                offsets.append({"partition": where, "offset": outcome, "error_code": None, "error": None})
    body = {"offsets": offsets, "key_schema_id": None, "value_schema_id": None}
    return Answer(status=_status_of(offsets), body=body, content_type=V2)


def _records(raw: bytes) -> Sequence[Json]:
    if not raw:
        raise invalid_payload("Request body is empty. Data is required.")
    try:
        body = load_json(raw)
    except ValueError as error:
        raise bad_request(f"The body is not JSON that can be stored unchanged: {error}.") from None
    records = body.get("records") if isinstance(body, dict) else None
    if not isinstance(records, list) or not records:
        raise invalid_payload("The body must be an object with an array named records.")
    others = {name: one for name, one in body.items() if name != "records"}
    if not others.keys() <= set(_OF_SCHEMAS) or any(one is not None for one in others.values()):
        raise invalid_payload("The body must have records, and no schemas.")
    if len(records) > MAX_RECORDS:
        raise invalid_payload(f"A request may have at most {MAX_RECORDS} records.")
    return records


def _as_in_v3(one: Json, kind: str, number: int | None) -> Mapping[str, Json]:
    """Return a record in the format of v3; the partition in the path applies to records without one."""
    if not isinstance(one, dict) or not one.keys() <= {"key", "value", "partition"}:
        raise invalid_payload("a record must be an object with key, value and partition.")
    own = one.get("partition")
    return {
        "partition_id": number if own is None else own,
        "key": {"type": kind, "data": one.get("key")},
        "value": {"type": kind, "data": one.get("value")},
    }


def _failed(error: KafkaError) -> Data:
    rest_error = rest_error_of(error)
    return {
        "partition": None,
        "offset": None,
        "error_code": rest_error.error_code,
        "error": rest_error.message,
    }


def _status_of(offsets: Sequence[Data]) -> int:
    codes = {one["error_code"] for one in offsets}
    if AUTHENTICATION_FAILED in codes:
        return 401
    return 403 if AUTHORIZATION_FAILED in codes else 200


_NAMED: Final = {"topic_name": NAME}


def _get(path: str, handler: Handler, name: str, summary: str, schema: Schema) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=handler,
        operation_id=name,
        summary=summary,
        tag=TAG,
        path_parameters=_NAMED if "{topic_name}" in path else {},
        responses={200: Response(description="As in Confluent's v2.", schema=schema, media_type=V2)},
    )


def _produce(path: str, name: str, summary: str) -> Route:
    return Route(
        method="POST",
        path=path,
        handler=produce,
        operation_id=name,
        summary=summary,
        description="The media type says how keys and values are written, as base64 or as JSON; those that "
        "need a schema registry are rejected with 422. A record that could not be stored has an error_code "
        "instead of an offset.",
        tag=TAG,
        path_parameters=_NAMED,
        request_schema=_PRODUCE,
        request_media_types=(*MEDIA_TYPES.values(), *SCHEMA_MEDIA_TYPES.values()),
        validates_body=False,
        body_is_required=True,
        query=(TIME_LIMIT,),
        uses_cluster=False,
        responses={
            200: Response(description="The outcome of each record.", schema=_PRODUCED, media_type=V2),
        },
    )


ROUTES: Final = (
    _get(
        "/brokers",
        list_brokers,
        "listBrokersV2",
        "The ids of the running brokers.",
        record({"brokers": listed(INT32)}, title="V2Brokers"),
    ),
    _get("/topics", list_topics, "listTopicsV2", "The names of the topics.", listed(STRING)),
    _get(
        "/topics/{topic_name}", get_topic, "getTopicV2", "A topic, its settings and its partitions.", _TOPIC
    ),
    _get(
        "/topics/{topic_name}/partitions",
        list_partitions,
        "listPartitionsV2",
        "The partitions of a topic.",
        listed(_PARTITION),
    ),
    _get(
        "/topics/{topic_name}/partitions/{partition_id}",
        get_partition,
        "getPartitionV2",
        "A partition of a topic.",
        _PARTITION,
    ),
    _get(
        "/topics/{topic_name}/partitions/{partition_id}/offsets",
        get_offsets,
        "getOffsetsV2",
        "The first offset of a partition, and the one after its last record.",
        record({"beginning_offset": INT64, "end_offset": INT64}, title="V2Range"),
    ),
    _produce("/topics/{topic_name}", "produceRecordsV2", "Produce records to a topic."),
    _produce(
        "/topics/{topic_name}/partitions/{partition_id}",
        "produceRecordsToPartitionV2",
        "Produce records to a partition.",
    ),
)
