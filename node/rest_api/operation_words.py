"""Parts that the operations under /v1 share: partitions, bounded lists of them, and names in paths."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.rest_api.json_schema import Schema
from ottla.node.rest_api.route import INT32, INT64, STRING

# Items in a list of an answer; there may be tens of thousands, whose number is in a field of its own.
MAX_LISTED: Final = 1_000
MAX_GIVEN: Final = 1_000  # partitions in one request, as one AlterPartitionReassignments takes

NULL_INT64: Final[Schema] = {"type": ["integer", "null"], "format": "int64"}
NULL_STRING: Final[Schema] = {"type": ["string", "null"]}
NULL_NUMBER: Final[Schema] = {"type": ["number", "null"]}
BROKER_IDS: Final[Schema] = {"type": "array", "items": INT32, "maxItems": MAX_GIVEN}
GROUP_ID: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 32_767}
TOPIC: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 249}


def record(fields: Mapping[str, Schema], *, title: str | None = None, optional: Iterable[str] = ()) -> Schema:
    """Return the schema of an object with these fields and no others."""
    left_out = set(optional)
    schema: dict[str, Any] = {} if title is None else {"title": title}
    required = [name for name in fields if name not in left_out]
    schema |= {"type": "object", "properties": dict(fields), "additionalProperties": False}
    return schema | ({"required": required} if required else {})


def listed(items: Schema) -> Schema:
    return {"type": "array", "items": items}


PARTITION: Final = record({"topic": STRING, "partition": INT32}, title="TopicPartition")
GIVEN_PARTITION: Final = record({"topic": TOPIC, "partition": INT32}, title="GivenPartition")
GIVEN_PARTITIONS: Final[Schema] = {
    "type": "array",
    "items": GIVEN_PARTITION,
    "minItems": 1,
    "maxItems": MAX_GIVEN,
}
PARTITIONS: Final = record(
    {"count": INT64, "partitions": {**listed(PARTITION), "maxItems": MAX_LISTED}},
    title="CountedPartitions",
)
GIVEN_TOPICS: Final[Schema] = {
    "type": "array",
    "minItems": 1,
    "maxItems": MAX_GIVEN,
    "items": record(
        {"topic": TOPIC, "partitions": {"type": "array", "items": INT32, "minItems": 1}},
        title="GivenTopic",
        optional=["partitions"],
    ),
}


def place(one: TopicPartition) -> dict[str, Any]:
    return {"topic": one.topic, "partition": one.partition}


def counted(partitions: Sequence[TopicPartition], limit: int = MAX_LISTED) -> dict[str, Any]:
    """Return the number of partitions, and the first of them."""
    return {"count": len(partitions), "partitions": [place(one) for one in partitions[:limit]]}


def places_of(given: Iterable[Mapping[str, Any]]) -> list[TopicPartition]:
    """Return the distinct partitions of a value of `GIVEN_PARTITIONS`."""
    return sorted({TopicPartition(one["topic"], one["partition"]) for one in given})


def topics_of(given: Iterable[Mapping[str, Any]] | None) -> dict[str, list[int] | None] | None:
    """Return the partitions of a `GIVEN_TOPICS` by topic, with None for all; None without a value."""
    if given is None:
        return None
    topics: dict[str, list[int] | None] = {}
    for one in given:
        before, numbers = topics.get(one["topic"], []), one.get("partitions")
        topics[one["topic"]] = None if numbers is None or before is None else sorted({*before, *numbers})
    return topics


MISSING: Final = listed(
    record({"broker_id": INT32, "error_code": STRING, "message": STRING}, title="MissingBroker")
)
MISSING_DESCRIPTION: Final = " `missing` lists the brokers that did not answer, whose part is left out."


def missing_brokers(problems: Mapping[int, KafkaError]) -> list[dict[str, Any]]:
    """Return the brokers whose part of an answer is missing, each with its error, as `MISSING` has it."""
    return [{"broker_id": one, **error_words(error)} for one, error in sorted(problems.items())]


def error_words(error: KafkaError) -> dict[str, Any]:
    """Return an error within an answer: Kafka's name for it, and a sentence."""
    return {"error_code": error.code.name, "message": error.detail or error.code.name}
