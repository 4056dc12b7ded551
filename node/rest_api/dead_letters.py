"""Dead letters of a share group (KIP-1191): the content of its dead-letter topic, and their redelivery.

A letter is redelivered as a new record in its origin, with the rights of the caller, and stays where it is.
The headers of a letter are whatever its producer wrote, so the caller names the topic that letters go back
to.
"""

from typing import Final, NamedTuple

from ottla.logstore.record import Headers, Record
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import group_admin
from ottla.node.client.dead_letters import (
    DeadLetter,
    DeadLetterSettings,
    dead_letter_of,
    dead_letter_settings,
    has_copy,
    own_headers,
)
from ottla.node.client.producer import ProducerRecord
from ottla.node.client.record_batches import Delivery
from ottla.node.client.share_group_admin import SHARE
from ottla.node.rest_api.one_record import read_one
from ottla.node.rest_api.operation_words import (
    GROUP_ID,
    NULL_INT64,
    NULL_STRING,
    TOPIC,
    error_words,
    listed,
    place,
    record,
)
from ottla.node.rest_api.read_records import (
    PAGE_PLACES,
    PAGE_QUERY,
    RECORD_FIELDS,
    read_page,
    read_request_of,
)
from ottla.node.rest_api.record_json import AUTO, FORMATS, shown_record
from ottla.node.rest_api.record_reader import Found
from ottla.node.rest_api.resource import Data
from ottla.node.rest_api.rest_error import RestError, not_found
from ottla.node.rest_api.route import (
    BOOLEAN,
    INT32,
    INT64,
    STRING,
    Answer,
    QueryParameter,
    Response,
    RestContext,
    RestRequest,
    Route,
)

TAG: Final = "Operations: groups"
MAX_LETTERS: Final = 100  # redelivered by one request: each is read, and perhaps its origin, too
LETTER, ORIGIN, GONE = "letter", "origin", "gone"
NOTHING_LEFT: Final = (
    "The dead letter names only where its record was, and that partition no longer has a record at this "
    "offset: errors.deadletterqueue.copy.record.enable was false, or the record was too large or empty."
)


class _Sent(NamedTuple):
    """A record on its way back: only what the answer needs, for a hundred records may be large."""

    letter: DeadLetter
    content: str
    delivery: Delivery


class _Found(NamedTuple):
    """A letter with the record to redeliver, or None if that is gone."""

    record: Record
    letter: DeadLetter
    content: str
    origin: Record | None

    @property
    def key(self) -> bytes | None:
        return self.record.key if self.origin is None else self.origin.key

    @property
    def value(self) -> bytes | None:
        return self.record.value if self.origin is None else self.origin.value

    @property
    def headers(self) -> Headers:
        return own_headers(self.record.headers if self.origin is None else self.origin.headers)


# ---- looking -------------------------------------------------------------------------------------


async def list_dead_letters(context: RestContext, request: RestRequest) -> Answer:
    group_id = request.path["group_id"]
    settings = await _settings(context, request)
    body: Data = {
        "group_id": group_id,
        "topic": settings.topic,
        "copies_records": settings.copies_records,
    }
    if settings.topic is None:
        return Answer(body=body | _nothing())
    topic, form = settings.topic, request.query.get("format", AUTO)

    def shown(found: Found) -> Data:
        letter = dead_letter_of(found.record.headers)
        assert letter is not None
        return _shown(topic, found.partition.partition, found.record, letter, form)

    try:
        wanted = await read_request_of(context.client, request, topic, None, shown=shown)
    except KafkaError as error:
        # The brokers create it with the first letter, if they may.
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or "topic" in request.query:
            raise
        return Answer(body=body | _nothing())
    is_wanted = wanted.is_wanted

    def is_of_group(one: Record) -> bool:
        letter = dead_letter_of(one.headers)
        return letter is not None and letter.group_id == group_id and (is_wanted is None or is_wanted(one))

    page = await read_page(context, request, wanted._replace(is_wanted=is_of_group), "")
    return Answer(body=body | {"letters": page["data"]} | {name: page[name] for name in PAGE_PLACES})


def _nothing() -> Data:
    return {
        "letters": [],
        "begin": "",
        "is_start": True,
        "begins": [],
        "fell_short": False,
        "cursor": "",
        "is_end": True,
        "unavailable": [],
    }


async def get_dead_letter(context: RestContext, request: RestRequest) -> Answer:
    topic = await _topic(context, request)
    number, offset = request.path["partition_id"], request.path["offset"]
    found = await _find(context, request.path["group_id"], TopicPartition(topic, number), offset)
    form = request.query.get("format", AUTO)
    # Counted as base64 and as JSON.
    request.answer_part.hold(3 * (len(found.key or b"") + len(found.value or b"")))
    shown = _shown(topic, number, found.record, found.letter, form)
    if found.origin is not None:
        of_origin = shown_record(topic, number, found.origin, form)
        shown |= {name: of_origin[name] for name in ("key", "value")}
        shown["headers"] = shown_record(topic, number, found.origin._replace(headers=found.headers), form)[
            "headers"
        ]
    message = NOTHING_LEFT if found.content == GONE else None
    return Answer(body={**shown, "content": found.content, "message": message})


async def _settings(context: RestContext, request: RestRequest) -> DeadLetterSettings:
    """Return the settings for the group's dead letters; a topic in the query overrides the configured one.

    Letters and settings stay when their group is deleted.
    """
    group_id, topic = request.path["group_id"], request.query.get("topic")
    absent: KafkaError | None = None
    try:
        group = await group_admin.describe_group(context.client, group_id)
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        absent = error
    else:
        if group.group_type != SHARE:
            raise not_found(f"Group {group_id[:100]} is not a share group.")
    settings = await dead_letter_settings(context.client, group_id)
    if topic is not None:
        settings = settings._replace(topic=topic)
    if absent is not None and settings.topic is None:
        raise absent
    return settings


async def _topic(context: RestContext, request: RestRequest) -> str:
    topic = (await _settings(context, request)).topic
    if topic is None:
        raise not_found(f"Group {request.path['group_id'][:100]} has no dead-letter topic.")
    return topic


async def _find(context: RestContext, group_id: str, where: TopicPartition, offset: int) -> _Found:
    """Return a letter with its record; RestError 404 if the offset has no letter of this group."""
    one = await read_one(context.client, where, offset, context.deadline)
    letter = None if one is None else dead_letter_of(one.headers)
    if one is None or letter is None or letter.group_id != group_id:
        raise not_found(f"{where} has no dead letter of group {group_id[:100]} at offset {offset}.")
    if has_copy(one):
        return _Found(one, letter, LETTER, None)
    origin = await read_one(context.client, letter.origin, letter.origin_offset, context.deadline)
    return _Found(one, letter, GONE if origin is None else ORIGIN, origin)


def _shown(topic: str, number: int, one: Record, letter: DeadLetter, form: str) -> Data:
    """Return a letter with its record's own headers; the headers of the dead letter become fields."""
    return {
        **shown_record(topic, number, one._replace(headers=own_headers(one.headers)), form),
        "origin": {**place(letter.origin), "offset": letter.origin_offset},
        "delivery_count": letter.delivery_count,
        "reason": letter.reason,
        "has_copy": has_copy(one),
    }


# ---- delivering again ----------------------------------------------------------------------------


async def deliver_again(context: RestContext, request: RestRequest) -> Answer:
    """If no letter is delivered, the first error answers the whole request."""
    wanted, group_id = request.body, request.path["group_id"]
    topic = await _topic(context, request)
    places = sorted({(one["partition"], one["offset"]) for one in wanted["letters"]})
    refused: dict[tuple[int, int], KafkaError] = {}
    sent: dict[tuple[int, int], _Sent] = {}
    with context.sender() as sender:
        info = await sender.topic(wanted["topic"], context.deadline)
        for number, offset in places:
            try:
                found = await _find(context, group_id, TopicPartition(topic, number), offset)
                to = found.letter.origin
                if to.topic != wanted["topic"]:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST,
                        f"the letter is of topic {to.topic}, not of {wanted['topic']}.",
                    )
                if found.content == GONE:
                    raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, NOTHING_LEFT)
                again = ProducerRecord(found.key, found.value, found.headers, to.partition, None)
                await sender.wait_for_room(context.deadline)
                delivery = sender.add(info, again, context.deadline)
                sent[number, offset] = _Sent(found.letter, found.content, delivery)
            except RestError as error:
                refused[number, offset] = KafkaError(ErrorCode.RESOURCE_NOT_FOUND, error.message)
            except KafkaError as error:
                refused[number, offset] = error
        delivered: list[Data] = []
        for at, one in sent.items():
            await one.delivery.batch.done.wait()
            outcome = one.delivery.outcome
            if isinstance(outcome, KafkaError):
                refused[at] = outcome
                continue
            went = {**place(one.letter.origin), "offset": outcome}
            delivered.append({"partition": at[0], "offset": at[1], "to": went, "content": one.content})
    if not delivered:
        raise next(iter(refused.values()))
    failed = [
        {"partition": number, "offset": offset, **error_words(error)}
        for (number, offset), error in sorted(refused.items())
    ]
    return Answer(body={"delivered": delivered, "failed": failed})


# ---- the table -----------------------------------------------------------------------------------

_PLACE: Final = record({"topic": STRING, "partition": INT32, "offset": INT64}, title="RecordPlace")
_LETTER_FIELDS: Final = {
    **RECORD_FIELDS,
    "origin": _PLACE,
    "delivery_count": {
        **NULL_INT64,
        "description": "How often the record was delivered; null if unknown.",
    },
    "reason": NULL_STRING,
    "has_copy": {
        **BOOLEAN,
        "description": "Whether the letter has key, value or headers of its record. If not, these are read "
        "from the origin, as long as it has them.",
    },
}
_LETTER: Final = record(_LETTER_FIELDS, title="DeadLetter")
_LETTERS: Final = record(
    {
        "group_id": STRING,
        "topic": {**NULL_STRING, "description": "The dead-letter topic; null if the group has none."},
        "copies_records": {
            **BOOLEAN,
            "description": "Whether new letters get a copy of their record, by the group's current settings.",
        },
        "letters": listed(_LETTER),
        **PAGE_PLACES,
    },
    title="DeadLetters",
)
_FOUND: Final = record(
    {
        **_LETTER_FIELDS,
        "content": {
            "type": "string",
            "enum": [LETTER, ORIGIN, GONE],
            "description": "Where key, value and headers were found: in the letter, or at its origin. "
            "`gone`: the letter has none of them, and the record is gone from its origin, too.",
        },
        "message": NULL_STRING,
    },
    title="FoundDeadLetter",
)
_WANTED: Final = record({"partition": INT32, "offset": INT64}, title="DeadLetterPlace")
_AGAIN: Final = record(
    {
        "topic": {**TOPIC, "description": "Where the letters go: the topic that all of them came from."},
        "letters": {**listed(_WANTED), "minItems": 1, "maxItems": MAX_LETTERS},
    },
    title="DeliverAgainRequest",
)
_OUTCOME: Final = record(
    {
        "delivered": listed(
            record(
                {"partition": INT32, "offset": INT64, "to": _PLACE, "content": STRING}, title="DeliveredAgain"
            )
        ),
        "failed": listed(
            record(
                {"partition": INT32, "offset": INT64, "error_code": STRING, "message": STRING},
                title="NotDeliveredAgain",
            )
        ),
    },
    title="DeliveredLetters",
)
_PATH: Final = "/v1/groups/{group_id}/dead-letters"
_NAMES: Final = {"group_id": GROUP_ID, "offset": INT64}
_TOPIC: Final = QueryParameter(
    name="topic",
    schema=TOPIC,
    description="Another topic with letters of the group, such as one from before its settings were changed.",
)
_FORMAT: Final = QueryParameter(
    name="format",
    schema={"type": "string", "enum": list(FORMATS), "default": AUTO},
    description="How to show key and value.",
)

ROUTES: Final = (
    Route(
        method="GET",
        path=_PATH,
        handler=list_dead_letters,
        operation_id="listDeadLetters",
        summary="List the dead letters of a share group, with the origin and the reason of each.",
        description="Read as records are: pages, cursors and filters are the same. A topic may have letters "
        "of several groups; those of others are skipped. Needs DESCRIBE and DESCRIBE_CONFIGS on the "
        "group and READ on the dead-letter topic.",
        tag=TAG,
        path_parameters=_NAMES,
        query=(_TOPIC, *PAGE_QUERY),
        reads_records=True,
        responses={200: Response(description="A page of letters.", schema=_LETTERS)},
    ),
    Route(
        method="GET",
        path=_PATH + "/{partition_id}/{offset}",
        handler=get_dead_letter,
        operation_id="getDeadLetter",
        summary="A dead letter with the record that it stands for, if that is still there.",
        description="If the letter has no copy of its record, the record is read from its origin, which "
        "needs READ on that topic.",
        tag=TAG,
        path_parameters=_NAMES,
        query=(_TOPIC, _FORMAT),
        reads_records=True,
        responses={200: Response(description="The letter.", schema=_FOUND)},
    ),
    Route(
        method="POST",
        path=_PATH + "/deliver",
        handler=deliver_again,
        operation_id="deliverAgain",
        summary="Deliver dead letters again: produce their records to the partitions that they came from.",
        description="Key, value and the record's own headers are written as a new record, which any group "
        "that reads the topic gets. The letters stay, so that the same letter can be delivered more than "
        "once. Needs WRITE on the topic. If no letter could be delivered, the answer is the error of the "
        "first.",
        tag=TAG,
        path_parameters=_NAMES,
        query=(_TOPIC,),
        request_schema=_AGAIN,
        body_is_required=True,
        reads_records=True,
        responses={200: Response(description="The new place of each record, or its error.", schema=_OUTCOME)},
    ),
)
