"""The settings of topics: of one topic, of all, and the defaults for a new one."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from ottla.logstore.words.errors import KafkaError
from ottla.node.client import topic_admin
from ottla.node.client.config_admin import ConfigChange, change_configs, describe_resources
from ottla.node.client.topic_admin import ConfigResource, config_of_topic
from ottla.node.rest_api.configs import (
    ALTER,
    CHANGED,
    MAX_CHANGES,
    TAG,
    WITH_DOCUMENTATION,
    Owner,
    changes_of,
    check_known,
    config_data,
    config_routes,
    config_schema,
    wants_documentation,
)
from ottla.node.rest_api.json_schema import Schema
from ottla.node.rest_api.resource import Data, DataPieces, collection, resource_name, url
from ottla.node.rest_api.rest_error import rest_error_of
from ottla.node.rest_api.route import NAME, STRING, Answer, Response, RestContext, RestRequest, Route
from ottla.node.wire.messages.describe_configs import DescribeConfigsResourceResult

KIND: Final = "KafkaTopicConfig"
TOPICS_AT_A_TIME: Final = 20  # some 20 ms of work; a topic has 40 settings
DEFAULTS_PATH: Final = "/v3/clusters/{cluster_id}/topics/{topic_name}/default-configs"
ALL_PATH: Final = "/v3/clusters/{cluster_id}/topics/-/configs"
_ALTER_MANY: Final[Schema] = {
    "title": "AlterMultipleTopicsConfigsBatchRequestData",
    "type": "object",
    "properties": {
        "data": {
            "type": "array",
            "maxItems": MAX_CHANGES,
            "items": {
                "type": "object",
                "properties": {"topic_name": NAME, "configs": ALTER["properties"]["data"]},
                "required": ["topic_name", "configs"],
            },
        },
        "validate_only": {"type": ["boolean", "null"]},
    },
    "required": ["data"],
}
_FAILURES: Final[Schema] = {
    "title": "AlterMultipleTopicsConfigsBatchResponseData",
    "type": "object",
    "properties": {
        "failures": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"topic_name": STRING, "error_code": {"type": "integer"}, "message": STRING},
                "required": ["topic_name", "error_code"],
            },
        }
    },
}


async def _topic_resource(context: RestContext, request: RestRequest) -> ConfigResource:
    return config_of_topic(request.path["topic_name"])


def _data(
    context: RestContext,
    request: RestRequest,
    resource: ConfigResource,
    config: DescribeConfigsResourceResult,
) -> Data:
    cluster_id = context.cluster_id
    return config_data(
        KIND,
        url(request.base_url, "clusters", cluster_id, "topics", resource.name, "configs", config.name),
        resource_name(kafka=cluster_id, topic=resource.name, config=config.name),
        {"cluster_id": cluster_id, "topic_name": resource.name},
        config,
        request,
    )


def _list_link(context: RestContext, request: RestRequest, segment: str = "configs") -> str:
    topic = request.path.get("topic_name", "-")
    return url(request.base_url, "clusters", context.cluster_id, "topics", topic, segment)


TOPIC: Final = Owner(
    path="/v3/clusters/{cluster_id}/topics/{topic_name}/configs",
    name="Topic",
    noun="a topic",
    schema=config_schema("TopicConfigData", KIND, {"topic_name": STRING}),
    alter_id="updateKafkaTopicConfigBatch",
    resource_of=_topic_resource,
    data=_data,
    list_link=_list_link,
)


async def list_default_configs(context: RestContext, request: RestRequest) -> Answer:
    """Return the settings that the controller would give a new topic, from a validate-only creation."""
    checked = await topic_admin.create_topic(
        context.client, f"default-configs-{uuid4()}", partitions=-1, replicas=-1, configs={}, only_check=True
    )
    settings = [
        DescribeConfigsResourceResult(
            name=one.name,
            value=one.value,
            read_only=one.read_only,
            config_source=one.config_source,
            is_sensitive=one.is_sensitive,
        )
        for one in checked.configs or ()
    ]
    # Links lead to the topic's settings: in Confluent's document too, defaults have no resource.
    resource = await _topic_resource(context, request)
    data = [_data(context, request, resource, one) for one in sorted(settings, key=lambda one: one.name)]
    link = _list_link(context, request, "default-configs")
    return Answer(body=collection("KafkaTopicConfigList", link, data))


async def list_all_topic_configs(context: RestContext, request: RestRequest) -> Answer:
    topics = await topic_admin.describe_topics(context.client, None)
    all_of_them = [config_of_topic(topic.name) for topic in topics if topic.name and not topic.is_internal]
    pieces = DataPieces(request.answer_part)
    # In parts, so that other requests get their turn on this loop in between.
    for begin in range(0, len(all_of_them), TOPICS_AT_A_TIME):
        found = await describe_resources(
            context.client,
            all_of_them[begin : begin + TOPICS_AT_A_TIME],
            with_documentation=wants_documentation(request),
            may_be_gone=True,
        )
        for resource, settings in sorted(found.items()):
            pieces.add([_data(context, request, resource, one) for one in settings])
    return Answer(body=collection("KafkaTopicConfigList", _list_link(context, request), pieces.whole()))


async def alter_configs_of_topics(context: RestContext, request: RestRequest) -> Answer:
    """Apply the changes of each topic together or not at all.

    A 207 answer lists the topics whose changes were rejected. A missing topic or setting fails the whole
    request.
    """
    changes: dict[ConfigResource, list[ConfigChange]] = {}
    for entry in request.body["data"]:
        changes.setdefault(config_of_topic(entry["topic_name"]), []).extend(changes_of(entry["configs"]))
    if not changes:
        return Answer(status=204)
    known = await describe_resources(context.client, list(changes))
    for resource, mine in changes.items():
        check_known(known[resource], resource, mine, context.cluster_id)
    only_check = bool(request.body.get("validate_only"))
    refused = await change_configs(context.client, changes, only_check=only_check)
    if not refused:
        return Answer(status=204)
    return Answer(status=207, body={"failures": _failures(refused)})


def _failures(refused: Mapping[ConfigResource, KafkaError]) -> list[dict[str, Any]]:
    errors = {resource.name: rest_error_of(error) for resource, error in refused.items()}
    return [
        {"topic_name": name, "error_code": error.error_code, "message": error.message}
        for name, error in sorted(errors.items())
    ]


ROUTES: Final = (
    *config_routes(TOPIC),
    Route(
        method="GET",
        path=DEFAULTS_PATH,
        handler=list_default_configs,
        operation_id="listKafkaDefaultTopicConfigs",
        summary="List the settings that a new topic of this name would have.",
        tag=TAG,
        responses={200: Response(description="All settings of topics.", schema=TOPIC.list_schema)},
    ),
    Route(
        method="GET",
        path=ALL_PATH,
        handler=list_all_topic_configs,
        operation_id="listKafkaAllTopicConfigs",
        summary="List the settings of all topics except internal ones.",
        tag=TAG,
        query=(WITH_DOCUMENTATION,),
        responses={
            200: Response(
                description="The settings of all topics except internal ones.", schema=TOPIC.list_schema
            )
        },
    ),
    Route(
        method="POST",
        path=ALL_PATH + ":alter",
        handler=alter_configs_of_topics,
        operation_id="updateKafkaConfigsOfTopics",
        summary="Change settings of several topics; the changes of each topic are applied together or not "
        "at all.",
        tag=TAG,
        request_schema=_ALTER_MANY,
        body_is_required=True,
        responses={
            **CHANGED,
            207: Response(description="The topics whose changes were rejected.", schema=_FAILURES),
        },
    ),
)
