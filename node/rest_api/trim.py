"""/v1/topics/{name}/trim: delete the oldest records of partitions (DeleteRecords, KIP-107)."""

from typing import Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import record_deletion, topic_admin
from ottla.node.client.record_deletion import Trim
from ottla.node.rest_api.operation_words import (
    MAX_GIVEN,
    NULL_INT64,
    error_words,
    listed,
    record,
)
from ottla.node.rest_api.rest_error import bad_request
from ottla.node.rest_api.route import (
    BOOLEAN,
    INT32,
    INT64,
    STRING,
    Answer,
    Response,
    RestContext,
    RestRequest,
    Route,
)

TAG: Final = "Operations: topics"
_LIMITS: Final = ("before_offset", "before_timestamp", "to_end")
_REQUEST: Final = record(
    {
        "before_offset": {**INT64, "description": "The first offset that stays."},
        "before_timestamp": {
            **INT64,
            "description": "The first record with this timestamp (ms since 1970) or a later one stays.",
        },
        "to_end": {**BOOLEAN, "description": "Delete all records."},
        "partitions": {
            "type": "array",
            "items": INT32,
            "minItems": 1,
            "maxItems": MAX_GIVEN,
            "description": "By default all partitions of the topic.",
        },
        "dry_run": {**BOOLEAN, "description": "Delete nothing, and answer what would be deleted."},
    },
    title="TrimRequest",
    optional=[*_LIMITS, "partitions", "dry_run"],
)
_TRIMMED: Final = record(
    {
        "partition": INT32,
        "first_offset": {**NULL_INT64, "description": "Null for an error."},
        "deleted_offsets": INT64,
        "error_code": STRING,
        "message": STRING,
    },
    title="TrimmedPartition",
    optional=["error_code", "message"],
)
_RESULT: Final = record({"dry_run": BOOLEAN, "partitions": listed(_TRIMMED)}, title="Trim")


async def trim_topic(context: RestContext, request: RestRequest) -> Answer:
    wanted = request.body
    # An offset of 0 counts as given; `to_end` may be false.
    if sum(wanted.get(one, False) is not False for one in _LIMITS) != 1:
        raise bad_request("Give one of before_offset, before_timestamp and to_end.")
    done = await record_deletion.trim(
        context.client,
        request.path["topic_name"],
        wanted.get("partitions", ()),
        before_offset=topic_admin.LATEST if wanted.get("to_end") else wanted.get("before_offset"),
        before_ms=wanted.get("before_timestamp"),
        dry_run=wanted.get("dry_run", False),
    )
    return Answer(
        body={
            "dry_run": wanted.get("dry_run", False),
            "partitions": [_as_json(done, one) for one in done.before],
        }
    )


def _as_json(done: Trim, one: TopicPartition) -> dict[str, object]:
    after = done.after.get(one)
    deleted = 0 if after is None else after - done.before[one]
    row = {"partition": one.partition, "first_offset": after, "deleted_offsets": deleted}
    return row | (error_words(done.problems[one]) if one in done.problems else {})


ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/topics/{topic_name}/trim",
        handler=trim_topic,
        operation_id="trimTopic",
        summary="Delete the oldest records of a topic's partitions.",
        description="The log start offset of each partition moves up. If a partition ends before "
        "`before_offset`, nothing is deleted.",
        tag=TAG,
        request_schema=_REQUEST,
        body_is_required=True,
        responses={200: Response(description="The first offset of each partition now.", schema=_RESULT)},
    ),
)
