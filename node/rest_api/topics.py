"""Topics: list, create, add partitions, delete. A list of any length takes one request to the cluster."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import check_topic_name
from ottla.metadata_raft.acl import KNOWN_OPERATIONS, ResourceType, operation_bits
from ottla.node.client import topic_admin
from ottla.node.rest_api.configs import VALUE, text_of
from ottla.node.rest_api.json_schema import Json, Schema
from ottla.node.rest_api.resource import (
    RELATED,
    Data,
    collection,
    collection_schema,
    quoted,
    related,
    resource,
    resource_name,
    resource_schema,
    url,
)
from ottla.node.rest_api.rest_error import bad_request, invalid_payload
from ottla.node.rest_api.route import (
    BOOLEAN,
    INT32,
    NAME,
    STRING,
    Answer,
    QueryParameter,
    Response,
    RestContext,
    RestRequest,
    Route,
)
from ottla.node.wire.messages.metadata import MetadataResponseTopic
from ottla.node.work.turns import listed

TAG: Final = "Topic (v3)"
PATH: Final = "/v3/clusters/{cluster_id}/topics"
MAX_ASSIGNMENTS: Final = 10_000  # partitions that the controller creates in one request
# Authorized operations are a bit set: bit n is the operation n of Kafka's AclOperation.
_TOPIC: Final = resource_schema(
    "TopicData",
    "KafkaTopic",
    {
        "cluster_id": STRING,
        "topic_name": STRING,
        "is_internal": BOOLEAN,
        "replication_factor": INT32,
        "partitions_count": INT32,
        "partitions": RELATED,
        "configs": RELATED,
        "partition_reassignments": RELATED,
        "authorized_operations": {"type": "array", "items": STRING},
    },
)
_TOPICS: Final = collection_schema("TopicDataList", "KafkaTopicList", _TOPIC)
_BROKER_IDS: Final[Schema] = {"type": "array", "items": INT32, "maxItems": 1_000}
_DEFAULT_OR: Final[Schema] = {"type": ["integer", "null"], "minimum": -1}
_CREATE: Final[Schema] = {
    "title": "CreateTopicRequestData",
    "type": "object",
    "properties": {
        "topic_name": STRING,
        "partitions_count": {**_DEFAULT_OR, "maximum": 2**31 - 1},
        "replication_factor": {**_DEFAULT_OR, "maximum": 2**15 - 1},
        "replicas_assignments": {
            "type": ["object", "array", "null"],
            "description": "The brokers of each partition, by partition number, with the "
            "preferred leader first. A list of them is accepted too, as "
            "Confluent's Go client sends it.",
            "additionalProperties": _BROKER_IDS,
            "items": {
                "type": "object",
                "properties": {"partition_id": INT32, "broker_ids": _BROKER_IDS},
                "required": ["partition_id", "broker_ids"],
            },
        },
        "configs": {
            "type": ["array", "null"],
            "maxItems": 1_000,
            "items": {
                "type": "object",
                "properties": {"name": NAME, "value": VALUE},
                "required": ["name"],
            },
        },
        "validate_only": {"type": ["boolean", "null"]},
    },
    "required": ["topic_name"],
}
_PARTITIONS_COUNT: Final[Schema] = {
    "title": "UpdatePartitionCountRequestData",
    "type": "object",
    "properties": {"partitions_count": INT32},
    "required": ["partitions_count"],
}


class _Topics(NamedTuple):
    """The base of the links and names of topics, computed once per list."""

    cluster_id: str
    link: str
    cluster_name: str

    @classmethod
    def of(cls, context: RestContext, request: RestRequest) -> "_Topics":
        cluster_id = context.cluster_id
        link = url(request.base_url, "clusters", cluster_id, "topics")
        return cls(cluster_id, link, resource_name(kafka=cluster_id))


def _data(
    topics: _Topics,
    name: str,
    *,
    partitions: int,
    replicas: int,
    is_internal: bool = False,
    operations: Sequence[str] = (),
) -> Data:
    segment = quoted(name)
    here = f"{topics.link}/{segment}"
    return resource(
        "KafkaTopic",
        here,
        f"{topics.cluster_name}/topic={segment}",
        cluster_id=topics.cluster_id,
        topic_name=name,
        is_internal=is_internal,
        replication_factor=replicas,
        partitions_count=partitions,
        partitions=related(f"{here}/partitions"),
        configs=related(f"{here}/configs"),
        partition_reassignments=related(f"{here}/partitions/-/reassignment"),
        authorized_operations=operations,
    )


def _described(topics: _Topics, topic: MetadataResponseTopic) -> Data:
    return _data(
        topics,
        topic.name or "",
        partitions=len(topic.partitions),
        replicas=len(topic.partitions[0].replica_nodes) if topic.partitions else 0,
        is_internal=topic.is_internal,
        operations=_words(max(topic.topic_authorized_operations, 0)),
    )


def _words(operations: int) -> list[str]:
    return [one.name for one in KNOWN_OPERATIONS[ResourceType.TOPIC] if operations >> one & 1]


async def list_topics(context: RestContext, request: RestRequest) -> Answer:
    """List topics, without an authorizer from the node's metadata image: it is immutable, so this thread may
    read it.

    Over the protocol, a thousand topics are 350 kB to decode and four switches of thread, each of which takes
    5 ms if the node is busy. With an authorizer the list comes over the protocol, which shows only what the
    caller may see.
    """
    if context.facts.services.has_authorizer:
        return await _visible_topics(context, request)
    topics = context.facts.services.metadata.image.topics.by_name
    with_internal = request.query.get("include_internal", False)
    operations = (
        _words(operation_bits(ResourceType.TOPIC)) if request.query.get("includeAuthorizedOperations") else ()
    )
    found = _Topics.of(context, request)
    data = await listed(
        (
            _data(
                found,
                name,
                partitions=len(topic.partitions),
                replicas=len(topic.partitions[0].replicas),
                is_internal=topic.is_internal,
                operations=operations,
            )
            for name, topic in sorted(topics.items())
            if with_internal or not topic.is_internal
        ),
        is_large=True,
    )
    return Answer(body=collection("KafkaTopicList", found.link, data))


async def _visible_topics(context: RestContext, request: RestRequest) -> Answer:
    with_operations = bool(request.query.get("includeAuthorizedOperations"))
    answer = await context.client.retry(lambda: context.client.refresh(None, with_operations=with_operations))
    with_internal = request.query.get("include_internal", False)
    found = _Topics.of(context, request)
    shown = sorted(
        (one for one in answer.topics if with_internal or not one.is_internal),
        key=lambda one: one.name or "",
    )
    data = await listed((_described(found, one) for one in shown), is_large=True)
    return Answer(body=collection("KafkaTopicList", found.link, data))


async def get_topic(context: RestContext, request: RestRequest) -> Answer:
    [topic] = await topic_admin.describe_topics(
        context.client,
        [request.path["topic_name"]],
        with_operations=request.query.get("include_authorized_operations", False),
    )
    return Answer(body=_described(_Topics.of(context, request), topic))


async def create_topic(context: RestContext, request: RestRequest) -> Answer:
    body: Mapping[str, Any] = request.body
    name = body["topic_name"]
    try:
        check_topic_name(name)
    except KafkaError as error:
        raise invalid_payload(f"Invalid topic name. {error.detail}") from None
    assignments = _assignments(body.get("replicas_assignments"))
    only_check = bool(body.get("validate_only"))
    made = await topic_admin.create_topic(
        context.client,
        name,
        partitions=-1 if assignments else _number(body.get("partitions_count")),
        replicas=-1 if assignments else _number(body.get("replication_factor")),
        configs={one["name"]: text_of(one.get("value")) for one in body.get("configs") or ()},
        only_check=only_check,
        assignments=assignments,
    )
    data = _data(
        _Topics.of(context, request),
        name,
        partitions=max(made.num_partitions, 0),
        replicas=max(made.replication_factor, 0),
    )
    if not only_check:
        await topic_admin.until_seen(context.client, name, is_there=True)
    link = data["metadata"]["self"]
    return Answer(status=200 if only_check else 201, body=data, headers={"Location": link})


def _number(value: int | None) -> int:
    return -1 if value is None else value


def _assignments(given: Json) -> dict[int, list[int]]:
    """Return the brokers of `replicas_assignments` by partition."""
    if not given:
        return {}
    if len(given) > MAX_ASSIGNMENTS:
        raise bad_request(f"replicas_assignments may name at most {MAX_ASSIGNMENTS} partitions.")
    if isinstance(given, list):
        listed = {one["partition_id"]: one["broker_ids"] for one in given}
        if len(listed) < len(given):
            raise bad_request("replicas_assignments names a partition twice.")
        return listed
    found: dict[int, list[int]] = {}
    for text, brokers in given.items():
        if not re.fullmatch(r"[0-9]{1,9}", text):
            raise bad_request(f"replicas_assignments names {text[:50]!r}, which is not a partition number.")
        found[int(text)] = brokers
    return found


async def update_partitions_count(context: RestContext, request: RestRequest) -> Answer:
    name, count = request.path["topic_name"], request.body["partitions_count"]
    await topic_admin.add_partitions(context.client, name, count, only_check=False)
    [topic] = await topic_admin.describe_topics(context.client, [name])
    # The node that answered may not know the new partitions for a moment.
    return Answer(body=_described(_Topics.of(context, request), topic) | {"partitions_count": count})


async def delete_topic(context: RestContext, request: RestRequest) -> Answer:
    name = request.path["topic_name"]
    await topic_admin.delete_topic(context.client, name)
    await topic_admin.until_seen(context.client, name, is_there=False)
    return Answer(status=204)


_INCLUDE_OPERATIONS: Final = "Include the operations that the client is authorized to do."

ROUTES: Final = (
    Route(
        method="GET",
        path=PATH,
        handler=list_topics,
        operation_id="listKafkaTopics",
        summary="List topics by name, without internal ones.",
        tag=TAG,
        query=(
            QueryParameter(
                name="includeAuthorizedOperations", schema=BOOLEAN, description=_INCLUDE_OPERATIONS
            ),
            QueryParameter(
                name="include_internal",
                schema=BOOLEAN,
                description="Include internal topics, which the cluster creates for itself.",
            ),
        ),
        responses={200: Response(description="The topics.", schema=_TOPICS)},
    ),
    Route(
        method="POST",
        path=PATH,
        handler=create_topic,
        operation_id="createKafkaTopic",
        summary="Create a topic.",
        description="With validate_only nothing is created, and status 200 means that it could be.",
        tag=TAG,
        request_schema=_CREATE,
        body_is_required=True,
        responses={
            200: Response(description="The topic could be created.", schema=_TOPIC),
            201: Response(description="The topic was created.", schema=_TOPIC),
        },
    ),
    Route(
        method="GET",
        path=PATH + "/{topic_name}",
        handler=get_topic,
        operation_id="getKafkaTopic",
        summary="One topic.",
        tag=TAG,
        query=(
            QueryParameter(
                name="include_authorized_operations", schema=BOOLEAN, description=_INCLUDE_OPERATIONS
            ),
        ),
        responses={200: Response(description="The topic.", schema=_TOPIC)},
    ),
    Route(
        method="PATCH",
        path=PATH + "/{topic_name}",
        handler=update_partitions_count,
        operation_id="updatePartitionCountKafkaTopic",
        summary="Add partitions to a topic.",
        tag=TAG,
        request_schema=_PARTITIONS_COUNT,
        body_is_required=True,
        responses={200: Response(description="The topic after the change.", schema=_TOPIC)},
    ),
    Route(
        method="DELETE",
        path=PATH + "/{topic_name}",
        handler=delete_topic,
        operation_id="deleteKafkaTopic",
        summary="Delete a topic with all its records.",
        tag=TAG,
        responses={204: Response(description="The topic was deleted.")},
    ),
)
