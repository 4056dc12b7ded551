"""The routes of consumers in Confluent's v2: create, subscribe, read, commit and delete."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Final
from uuid import uuid4

from ottla.groupcoord.topic_regex import MAX_PATTERN_CHARS, TopicRegex
from ottla.logstore.record import Record
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.topic_admin import EARLIEST, LATEST
from ottla.node.rest_api.json_schema import Json, Schema
from ottla.node.rest_api.operation_words import TOPIC, listed, record
from ottla.node.rest_api.record_json import parse_timestamp
from ottla.node.rest_api.resource import Data, quoted
from ottla.node.rest_api.rest_error import RestError, bad_request
from ottla.node.rest_api.route import (
    NAME,
    STRING,
    Answer,
    Handler,
    QueryParameter,
    Response,
    RestContext,
    RestRequest,
    Route,
)
from ottla.node.rest_api.v2_errors import CONFIG_CONSTRAINT, FORMAT_MISMATCH, INVALID_CONSUMER_CONFIG
from ottla.node.rest_api.v2_instances import RESETS, Instance, InstanceConfig
from ottla.node.rest_api.v2_words import (
    BODIES,
    CONSUMED,
    MAX_PLACES,
    MEDIA_TYPES,
    OFFSETS,
    PLACES,
    POSITIONS,
    SCHEMA_MEDIA_TYPES,
    TAG,
    V2,
    format_of,
    record_as_json,
)

REQUEST_TIMEOUT_MS: Final = 1_000  # Confluent's consumer.request.timeout.ms
MAX_TIMEOUT_MS: Final = 10_000  # of one request for records; a client then asks again
MAX_BYTES: Final = 4 * 1024 * 1024  # of records in one answer
MAX_MIN_BYTES: Final = 10_000_000  # the maximum of fetch.min.bytes in Confluent's

_WORD: Final[Schema] = {"type": ["string", "null"], "maxLength": 249}
_NUMBER: Final[Schema] = {"type": ["string", "integer", "null"]}
_CREATE: Final[Schema] = {
    "title": "V2CreateConsumer",
    "type": ["object", "null"],
    "properties": {
        "id": _WORD,
        "name": _WORD,
        "format": _WORD,
        "auto.offset.reset": _WORD,
        "auto.commit.enable": {"type": ["string", "boolean", "null"]},
        "fetch.min.bytes": _NUMBER,
        "consumer.request.timeout.ms": _NUMBER,
    },
    "additionalProperties": False,
}
_CREATED: Final = record({"instance_id": STRING, "base_uri": STRING}, title="V2Consumer")
_TOPICS: Final = record({"topics": listed(STRING)}, title="V2Subscription")
_SUBSCRIBE: Final = record(
    {
        "topics": {"type": ["array", "null"], "items": TOPIC, "minItems": 1, "maxItems": MAX_PLACES},
        "topic_pattern": {
            "type": ["string", "null"],
            "minLength": 1,
            "maxLength": MAX_PATTERN_CHARS,
            "description": "A regular expression in the syntax of RE2 that whole names match.",
        },
    },
    title="V2Subscribe",
    optional=["topics", "topic_pattern"],
)
_INSTANCE: Final = "/consumers/{group_name}/instances/{instance}"


# ---- create and delete -------------------------------------------------------------------------------------


async def create(context: RestContext, request: RestRequest) -> Answer:
    given = request.body or {}
    group = request.path["group_name"]
    name = given.get("id") or given.get("name") or f"rest-consumer-{uuid4()}"
    context.consumers.create(group, name, context.caller, context.share, _config(given))
    uri = f"{request.base_url}/consumers/{quoted(group)}/instances/{quoted(name)}"
    return Answer(body={"instance_id": name, "base_uri": uri}, content_type=V2)


def _config(given: Mapping[str, Json]) -> InstanceConfig:
    form = (given.get("format") or "binary").lower()
    if form in SCHEMA_MEDIA_TYPES:
        raise _invalid_config(f"the format {form} needs a schema registry, and there is none")
    if form not in MEDIA_TYPES:
        raise RestError(422, 422, f"Invalid format type: it must be {' or '.join(MEDIA_TYPES)}.")
    reset = given.get("auto.offset.reset") or "latest"
    if reset not in (*RESETS, "none"):
        raise _invalid_config("auto.offset.reset must be earliest, latest or none")
    commits = given.get("auto.commit.enable")
    if str(commits).lower() not in ("true", "false", "none"):
        raise _invalid_config("auto.commit.enable must be true or false")
    return InstanceConfig(
        form=form,
        reset=reset,
        commits_alone=str(commits).lower() != "false",
        min_bytes=_number(given, "fetch.min.bytes", 1, MAX_MIN_BYTES, CONFIG_CONSTRAINT),
        request_timeout_ms=_number(given, "consumer.request.timeout.ms", REQUEST_TIMEOUT_MS, MAX_TIMEOUT_MS),
    )


def _number(
    given: Mapping[str, Json], name: str, default: int, most: int, code: int = INVALID_CONSUMER_CONFIG
) -> int:
    """Return a number that may be given as a string, or the default for -1; an error has this `code`."""
    text = given.get(name)
    if text is None or str(text) == "-1":
        return default
    if not str(text).isdecimal() or int(text) > most:
        raise _invalid_config(f"{name} must be a number from 0 to {most}", code)
    return int(text)


def _invalid_config(problem: str, code: int = INVALID_CONSUMER_CONFIG) -> RestError:
    return RestError(422, code, f"Invalid consumer configuration: {problem}.")


async def delete(context: RestContext, request: RestRequest) -> Answer:
    async with _instance(context, request) as one:
        await context.consumers.delete(one)
    return Answer(status=204)


def _instance(context: RestContext, request: RestRequest) -> AbstractAsyncContextManager[Instance]:
    return context.consumers.use(
        request.path["group_name"], request.path["instance"], context.caller, context.deadline
    )


# ---- read --------------------------------------------------------------------------------------------------


async def subscribe(context: RestContext, request: RestRequest) -> Answer:
    topics, pattern = request.body.get("topics"), request.body.get("topic_pattern")
    if (topics is None) == (pattern is None):
        raise bad_request("The body must have either topics or topic_pattern.")
    async with _instance(context, request) as one:
        if pattern is None:
            await one.subscribe(sorted(set(topics)))
        else:
            await one.subscribe_to_pattern(TopicRegex.compile(pattern, "topic_pattern"))
    return Answer(status=204)


async def get_subscription(context: RestContext, request: RestRequest) -> Answer:
    async with _instance(context, request) as one:
        return Answer(body={"topics": one.topics}, content_type=V2)


async def unsubscribe(context: RestContext, request: RestRequest) -> Answer:
    async with _instance(context, request) as one:
        await one.unsubscribe()
    return Answer(status=204)


async def assign(context: RestContext, request: RestRequest) -> Answer:
    async with _instance(context, request) as one:
        await one.assign(_places(request.body["partitions"]))
    return Answer(status=204)


async def get_assignments(context: RestContext, request: RestRequest) -> Answer:
    async with _instance(context, request) as one:
        rows = [{"topic": place.topic, "partition": place.partition} for place in one.assigned]
    return Answer(body={"partitions": rows}, content_type=V2)


async def seek(context: RestContext, request: RestRequest) -> Answer:
    offsets = _offsets(request.body.get("offsets") or ())
    times = {
        place: parse_timestamp(given["timestamp"])
        for given in request.body.get("timestamps") or ()
        for place in _places([given])
    }
    async with _instance(context, request) as one:
        one.seek(offsets | await one.offsets_at(times))
    return Answer(status=204)


async def seek_to_beginning(context: RestContext, request: RestRequest) -> Answer:
    async with _instance(context, request) as one:
        await one.seek_to(_places(request.body["partitions"]), EARLIEST)
    return Answer(status=204)


async def seek_to_end(context: RestContext, request: RestRequest) -> Answer:
    async with _instance(context, request) as one:
        await one.seek_to(_places(request.body["partitions"]), LATEST)
    return Answer(status=204)


async def read_records(context: RestContext, request: RestRequest) -> Answer:
    async with _instance(context, request) as one:
        form = _format_for(request, one)
        given_ms = request.query.get("timeout", -1)
        timeout_ms = one.config.request_timeout_ms if given_ms < 0 else min(given_ms, MAX_TIMEOUT_MS)
        given = request.query.get("max_bytes", -1)
        max_bytes = MAX_BYTES if given <= 0 else min(given, MAX_BYTES)
        request.answer_part.hold(max_bytes)

        def as_json(place: TopicPartition, found: Record) -> Data:
            return record_as_json(place.topic, place.partition, found, form)

        records = await one.read(context.deadline.within(timeout_ms / 1000), max_bytes, as_json)
    return Answer(body=records, content_type=MEDIA_TYPES[form])


def _format_for(request: RestRequest, one: Instance) -> str:
    """Return the requested format; RestError 406 if it is not that of the consumer."""
    formats = {form for kind in request.headers.get("Accept", "").split(",") if (form := format_of(kind))}
    if formats and one.config.form not in formats:
        raise RestError(
            406,
            FORMAT_MISMATCH,
            "The requested embedded data format does not match the deserializer for this consumer instance, "
            f"which was created with the format {one.config.form}.",
        )
    return one.config.form


# ---- commit ------------------------------------------------------------------------------------------------


async def commit(context: RestContext, request: RestRequest) -> Answer:
    async with _instance(context, request) as one:
        if request.body is None:
            await one.commit()
        else:
            given = request.body["offsets"]
            metadata = [offset.get("metadata") or "" for offset in given]
            await one.commit(
                # A client gives the offset of the last record processed, and a group stores the next one.
                {place: at + 1 for place, at in _offsets(given).items()},
                dict(zip(_places(given), metadata, strict=True)),
            )
    return Answer(body={"offsets": []}, content_type=V2)


async def get_committed(context: RestContext, request: RestRequest) -> Answer:
    async with _instance(context, request) as one:
        found = await one.member.committed(_places(request.body["partitions"]))
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "offset": committed.offset,
            "metadata": committed.metadata,
        }
        for place, committed in sorted(found.items())
        if committed.offset >= 0
    ]
    return Answer(body={"offsets": rows}, content_type=V2)


def _places(given: Sequence[Mapping[str, Json]]) -> list[TopicPartition]:
    return [TopicPartition(one["topic"], one["partition"]) for one in given]


def _offsets(given: Sequence[Mapping[str, Json]]) -> dict[TopicPartition, int]:
    return {TopicPartition(one["topic"], one["partition"]): one["offset"] for one in given}


_DONE: Final = {204: Response(description="Done.")}


def _route(
    method: str, path: str, handler: Handler, name: str, summary: str, responses: Mapping[int, Response]
) -> Route:
    return Route(
        method=method,
        path=path,
        handler=handler,
        operation_id=name,
        summary=summary,
        tag=TAG,
        path_parameters={"group_name": NAME, "instance": NAME},
        request_media_types=BODIES,
        uses_cluster=False,  # a consumer has its own client
        responses=responses,
    )


def _with_body(route: Route, schema: Schema, *, is_required: bool = True) -> Route:
    return replace(route, request_schema=schema, body_is_required=is_required)


def _ok(schema: Schema, description: str) -> Mapping[int, Response]:
    return {200: Response(description=description, schema=schema, media_type=V2)}


ROUTES: Final = (
    _with_body(
        replace(
            _route(
                "POST",
                "/consumers/{group_name}",
                create,
                "createConsumerV2",
                "Create a consumer in a group, on this node.",
                _ok(_CREATED, "Its name, and its URL."),
            ),
            description="It ends when it is deleted, or after ottla.rest.consumers.timeout.ms without a "
            "request. Requests must go to this node, and come from the caller that created it.",
        ),
        _CREATE,
        is_required=False,
    ),
    _route("DELETE", _INSTANCE, delete, "deleteConsumerV2", "End a consumer: it leaves its group.", _DONE),
    _with_body(
        _route(
            "POST",
            f"{_INSTANCE}/subscription",
            subscribe,
            "subscribeV2",
            "Subscribe to topics, or to all whose names match a pattern.",
            _DONE,
        ),
        _SUBSCRIBE,
    ),
    _route(
        "GET",
        f"{_INSTANCE}/subscription",
        get_subscription,
        "getSubscriptionV2",
        "The topics to which a consumer is subscribed.",
        _ok(_TOPICS, "Empty if partitions were assigned by hand."),
    ),
    _route("DELETE", f"{_INSTANCE}/subscription", unsubscribe, "unsubscribeV2", "End a subscription.", _DONE),
    _with_body(
        _route("POST", f"{_INSTANCE}/assignments", assign, "assignV2", "Assign partitions by hand.", _DONE),
        PLACES,
    ),
    _route(
        "GET",
        f"{_INSTANCE}/assignments",
        get_assignments,
        "getAssignmentsV2",
        "The partitions that a consumer reads.",
        _ok(PLACES, "Empty until the group has assigned some."),
    ),
    _with_body(
        _route("POST", f"{_INSTANCE}/positions", seek, "seekV2", "Continue from offsets or times.", _DONE),
        POSITIONS,
    ),
    _with_body(
        _route(
            "POST",
            f"{_INSTANCE}/positions/beginning",
            seek_to_beginning,
            "seekToBeginningV2",
            "Continue from the first offset of partitions.",
            _DONE,
        ),
        PLACES,
    ),
    _with_body(
        _route(
            "POST",
            f"{_INSTANCE}/positions/end",
            seek_to_end,
            "seekToEndV2",
            "Continue after the last record of partitions.",
            _DONE,
        ),
        PLACES,
    ),
    replace(
        _route(
            "GET",
            f"{_INSTANCE}/records",
            read_records,
            "readRecordsV2",
            "The next records of a consumer.",
            {
                200: Response(
                    description="Empty if no record came in time.",
                    schema=listed(CONSUMED),
                    media_type=MEDIA_TYPES["json"],
                    other_media_types=(MEDIA_TYPES["binary"],),
                )
            },
        ),
        description="Answers when there are fetch.min.bytes of records (1 by default), or after the timeout.",
        query=(
            QueryParameter(
                name="timeout",
                schema={"type": "integer", "minimum": -1},
                description="The maximum time to wait for records in ms, at most "
                f"{MAX_TIMEOUT_MS}. The default is the consumer's consumer.request.timeout.ms.",
            ),
            QueryParameter(
                name="max_bytes",
                schema={"type": "integer", "minimum": -1},
                description=f"The maximum size of keys and values in bytes, at most {MAX_BYTES}. A single "
                "record is returned whatever its size.",
            ),
        ),
    ),
    _with_body(
        _route(
            "POST",
            f"{_INSTANCE}/offsets",
            commit,
            "commitOffsetsV2",
            "Commit the offsets of processed records; without a body, of all that were returned.",
            _ok(OFFSETS, "Committed."),
        ),
        {"anyOf": [OFFSETS, {"type": "null"}]},
        is_required=False,
    ),
    _with_body(
        _route(
            "GET",
            f"{_INSTANCE}/offsets",
            get_committed,
            "getCommittedV2",
            "The committed offsets of the partitions in the body.",
            _ok(OFFSETS, "Only partitions with a committed offset."),
        ),
        PLACES,
    ),
)
