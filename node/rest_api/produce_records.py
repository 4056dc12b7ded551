"""Produce records to a topic: one, a stream on one connection, or a batch with an id for each.

As with Confluent's, with two exceptions: a batch may have thousands of entries, and a missing topic is an
error at once and is not created.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

import orjson

from ottla.logstore.words.errors import KafkaError
from ottla.node.client.exact_json import load_json
from ottla.node.client.record_sender import DELIVERY_TIMEOUT_S, RecordSender, TopicInfo
from ottla.node.rest_api.json_schema import Json
from ottla.node.rest_api.record_json import report_place
from ottla.node.rest_api.record_stream import Accepted, RecordStream, accept, failed_report
from ottla.node.rest_api.resource import Data
from ottla.node.rest_api.rest_error import (
    ERROR,
    RestError,
    bad_request,
    invalid_payload,
    not_found,
    rest_error_of,
)
from ottla.node.rest_api.route import (
    INTEGER,
    NAME,
    STRING,
    TIME_LIMIT,
    TIMEOUT_MS,
    Answer,
    Response,
    RestContext,
    RestRequest,
    Route,
)

TAG: Final = "Records (v3)"
MAX_BATCH_ENTRIES: Final = 10_000  # Confluent's own default is 10
_ENTRY_ID: Final = re.compile(r"[0-9a-zA-Z_-]{1,80}", re.ASCII)

_DATA: Final = {
    "title": "ProduceRequestData",
    "type": ["object", "null"],
    "properties": {
        "type": {"type": "string", "enum": ["BINARY", "STRING", "JSON"]},
        "data": {"description": "base64, text, or any JSON value"},
    },
    "required": ["type"],
    "additionalProperties": False,
}
_RECORD_FIELDS: Final = {
    "partition_id": {"type": ["integer", "null"], "minimum": 0, "maximum": 2**31 - 1},
    "headers": {
        "type": ["array", "null"],
        "maxItems": 1000,
        "items": {
            "title": "ProduceRequestHeader",
            "type": "object",
            "properties": {
                "name": STRING,
                "value": {"type": ["string", "null"], "contentEncoding": "base64"},
            },
            "required": ["name"],
            "additionalProperties": False,
        },
    },
    "key": _DATA,
    "value": _DATA,
    "timestamp": {"type": ["string", "null"], "format": "date-time"},
}
_RECORD: Final = {
    "title": "ProduceRequest",
    "type": "object",
    "properties": _RECORD_FIELDS,
    "additionalProperties": False,
}
_ENTRY: Final = {
    "title": "ProduceBatchRequestEntry",
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9a-zA-Z_-]{1,80}$"},
        **_RECORD_FIELDS,
    },
    "required": ["id"],
    "additionalProperties": False,
}
_BATCH: Final = {
    "title": "ProduceBatchRequest",
    "type": "object",
    "properties": {
        "entries": {"type": "array", "minItems": 1, "maxItems": MAX_BATCH_ENTRIES, "items": _ENTRY}
    },
    "required": ["entries"],
    "additionalProperties": False,
}
_SIZE: Final = {
    "title": "ProduceResponseData",
    "type": "object",
    "properties": {"type": STRING, "size": INTEGER},
    "required": ["type", "size"],
}
_REPORT_FIELDS: Final = {
    "cluster_id": STRING,
    "topic_name": STRING,
    "partition_id": INTEGER,
    "offset": INTEGER,
    "timestamp": {"type": ["string", "null"], "format": "date-time"},
    "key": _SIZE,
    "value": _SIZE,
}
_REPORT: Final = {
    "title": "ProduceResponse",
    "type": "object",
    "properties": {"error_code": INTEGER, "message": STRING, **_REPORT_FIELDS},
    "required": ["error_code"],
}
_REPORTS: Final = {
    "title": "ProduceBatchResponse",
    "type": "object",
    "properties": {
        "successes": {
            "type": "array",
            "items": {
                "title": "ProduceBatchResponseSuccessEntry",
                "type": "object",
                "properties": {"id": STRING, **_REPORT_FIELDS},
                "required": ["id"],
            },
        },
        "failures": {
            "type": "array",
            "items": {
                "title": "ProduceBatchResponseFailureEntry",
                "type": "object",
                "properties": {"id": STRING, "error_code": INTEGER, "message": STRING},
                "required": ["id", "error_code"],
            },
        },
    },
    "required": ["successes", "failures"],
}


async def produce_records(context: RestContext, request: RestRequest) -> Answer:
    if request.chunks is None:
        raise invalid_payload("Request body is empty. Data is required.")
    with context.sender() as sender:
        info = await _topic(sender, context, request)
    return Answer(stream=_reports(context, request, request.chunks, info), failure=failed_report)


async def _reports(
    context: RestContext, request: RestRequest, chunks: AsyncIterator[bytes], info: TopicInfo
) -> AsyncGenerator[bytes, None]:
    with context.sender() as sender:
        stream = RecordStream(
            sender,
            info,
            context.cluster_id,
            worker=context.records.turns.worker(),
            max_document_bytes=context.request_max_bytes,
            body_part=request.body_part,
            record_limit_s=context.deadline.given_s if TIMEOUT_MS in request.query else None,
        )
        async with aclosing(stream.reports(chunks)) as reports:
            async for report in reports:
                yield report


async def produce_batch(context: RestContext, request: RestRequest) -> Answer:
    entries = _entries(request.raw_body)
    with context.sender() as sender:
        return await _produce(sender, entries, context, request)


async def _produce(
    sender: RecordSender, entries: Sequence[tuple[str, Json]], context: RestContext, request: RestRequest
) -> Answer:
    info = await _topic(sender, context, request)
    try:
        await sender.wait_for_room(context.deadline)
    except KafkaError as error:
        raise rest_error_of(error) from None
    accepted: list[tuple[str, Accepted | RestError]] = []
    worker = context.records.turns.worker()
    async for name, document in worker.each(entries):
        try:
            accepted.append((name, accept(sender, info, document, context.deadline)))
        except RestError as error:
            accepted.append((name, error))
    place = report_place(context.cluster_id, info.topic.name)
    successes: list[str] = []
    failures: list[Data] = []
    async for name, one in worker.each(accepted):
        try:
            if isinstance(one, RestError):
                raise one
            await one.delivery.batch.done.wait()
            successes.append(f'{{"id":"{name}",{one.report(place)}}}')
        except RestError as error:
            failures.append({"id": name, "error_code": error.error_code, "message": error.message})
    content = f'{{"successes":[{",".join(successes)}],"failures":{orjson.dumps(failures).decode()}}}'
    return Answer(status=207, content=content.encode())


def _entries(raw: bytes) -> list[tuple[str, Any]]:
    """Return the entries of a batch with their ids, which are removed from the entries."""
    if not raw:
        raise _bad_batch("Request body is empty. Data is required.")
    try:
        body = load_json(raw)
    except ValueError as error:
        raise bad_request(f"The body is not JSON that can be stored unchanged: {error}.") from None
    if not isinstance(body, dict) or body.keys() != {"entries"} or not isinstance(body["entries"], list):
        raise bad_request("The body must be an object with an array named entries.")
    entries = body["entries"]
    if not entries:
        raise _bad_batch("Empty batch.")
    if len(entries) > MAX_BATCH_ENTRIES:
        raise _bad_batch("Too many entries in batch.")
    found: dict[str, Any] = {}
    for entry in entries:
        name = entry.pop("id", None) if isinstance(entry, dict) else None
        if not isinstance(name, str) or not _ENTRY_ID.fullmatch(name):
            raise _bad_batch("Batch entry identifier is not a valid string.")
        if name in found:
            raise _bad_batch("Batch entry IDs are not distinct.")
        found[name] = entry
    return list(found.items())


def _bad_batch(message: str) -> RestError:
    return RestError(422, 422, f"Error: 42208 : {message}")  # inner codes are written like this


async def _topic(sender: RecordSender, context: RestContext, request: RestRequest) -> TopicInfo:
    cluster_id = request.path["cluster_id"]
    if cluster_id != context.cluster_id:
        raise not_found(f"Cluster {cluster_id[:100]} cannot be found.")
    try:
        return await sender.topic(request.path["topic_name"], context.deadline)
    except KafkaError as error:
        raise rest_error_of(error) from None


_PATH: Final = "/v3/clusters/{cluster_id}/topics/{topic_name}/records"
_EMPTY: Final = Response(description="The body is missing, or is not a batch.", schema=ERROR)

ROUTES: Final = (
    Route(
        method="POST",
        path=_PATH,
        handler=produce_records,
        operation_id="produceRecord",
        summary="Produce records: one, or a stream of them over one connection.",
        description=(
            "Records follow each other, optionally separated by white space. As soon as a record "
            "is stored, the server sends its report, in the order of the records; `error_code` "
            "is 200, or describes the error of this record. Data that is not JSON ends the "
            "stream."
        ),
        tag=TAG,
        path_parameters={"topic_name": NAME},
        request_schema=_RECORD,
        body_is_required=True,
        validates_body=False,
        streams_body=True,
        query=(
            replace(
                TIME_LIMIT,
                description="The maximum time for each record in ms; a record that takes longer "
                "is reported as not acknowledged. The default is "
                f"{DELIVERY_TIMEOUT_S:g} seconds.",
            ),
        ),
        uses_cluster=False,  # a stream may last for hours, and has its own producer
        responses={
            200: Response(description="One report per record.", schema=_REPORT),
            422: _EMPTY,
        },
    ),
    Route(
        method="POST",
        path=f"{_PATH}:batch",
        handler=produce_batch,
        operation_id="produceRecordsBatch",
        summary="Produce a batch of records, each with an id.",
        tag=TAG,
        path_parameters={"topic_name": NAME},
        request_schema=_BATCH,
        validates_body=False,
        body_is_required=True,
        query=(TIME_LIMIT,),
        uses_cluster=False,
        responses={
            207: Response(description="The result for each record.", schema=_REPORTS),
            422: _EMPTY,
        },
    ),
)
