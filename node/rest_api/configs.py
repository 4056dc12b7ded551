"""Settings as resources: the parts that the settings of topics, brokers and the cluster have in common."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from ottla.node.client.cluster_client import Client
from ottla.node.client.config_admin import (
    DELETE,
    SET,
    ConfigChange,
    Settings,
    change_config,
    describe_resources,
)
from ottla.node.client.topic_admin import ConfigResource
from ottla.node.rest_api.json_schema import Json, Schema
from ottla.node.rest_api.resource import Data, collection, collection_schema, resource, resource_schema
from ottla.node.rest_api.rest_error import not_found
from ottla.node.rest_api.route import (
    BOOLEAN,
    NAME,
    STRING,
    Answer,
    QueryParameter,
    Response,
    RestContext,
    RestRequest,
    Route,
)
from ottla.node.wire.messages.describe_configs import DescribeConfigsResourceResult

TAG: Final = "Configs (v3)"
MAX_CHANGES: Final = 1_000  # in one request; a broker has some 250 settings
DEFAULT_CONFIG: Final = 5
# The source of a value: its number in DescribeConfigs, and its name in Java's admin client.
SOURCES: Final[Mapping[int, str]] = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
TYPES: Final = (
    "UNKNOWN",
    "BOOLEAN",
    "STRING",
    "INT",
    "SHORT",
    "LONG",
    "DOUBLE",
    "LIST",
    "CLASS",
    "PASSWORD",
)

# A number or a boolean counts as its text.
VALUE: Final[Schema] = {"type": ["string", "number", "boolean", "null"]}
_TEXT_OR_NULL: Final[Schema] = {"type": ["string", "null"]}
_SYNONYM: Final[Schema] = {
    "title": "ConfigSynonymData",
    "type": "object",
    "properties": {"name": STRING, "value": _TEXT_OR_NULL, "source": STRING},
    "required": ["name", "source"],
}
UPDATE: Final[Schema] = {
    "title": "UpdateConfigRequestData",
    "type": "object",
    "properties": {"value": VALUE},
}
_CHANGES: Final[Schema] = {
    "type": "array",
    "maxItems": MAX_CHANGES,
    "items": {
        "type": "object",
        "properties": {
            "name": NAME,
            "value": VALUE,
            "operation": {"type": ["string", "null"], "enum": ["SET", "DELETE", None]},
        },
        "required": ["name"],
    },
}
ALTER: Final[Schema] = {
    "title": "AlterConfigBatchRequestData",
    "type": "object",
    "properties": {"data": _CHANGES, "validate_only": {"type": ["boolean", "null"]}},
    "required": ["data"],
}
WITH_DOCUMENTATION: Final = QueryParameter(
    name="include_documentation",
    schema=BOOLEAN,
    description="Include the type and the documentation of each setting.",
)
CHANGED: Final = {204: Response(description="The new value is in effect.")}


def config_schema(title: str, kind: str, owner: Mapping[str, Schema]) -> Schema:
    """Return the schema of `config_data`."""
    fields = {
        "cluster_id": STRING,
        **owner,
        "name": STRING,
        "value": _TEXT_OR_NULL,
        "is_default": BOOLEAN,
        "is_read_only": BOOLEAN,
        "is_sensitive": BOOLEAN,
        "source": STRING,
        "synonyms": {"type": "array", "items": _SYNONYM},
        "type": STRING,
        "documentation": _TEXT_OR_NULL,
    }
    return resource_schema(title, kind, fields, optional=["value", "type", "documentation"])


def config_data(
    kind: str,
    link: str,
    name: str,
    owner: Mapping[str, Any],
    config: DescribeConfigsResourceResult,
    request: RestRequest,
) -> Data:
    """Return one setting as a resource; `owner` has the fields that identify its owner."""
    data = resource(kind, link, name, **owner)
    data |= {
        "name": config.name,
        "value": config.value,
        "is_default": config.config_source == DEFAULT_CONFIG,
        "is_read_only": config.read_only,
        "is_sensitive": config.is_sensitive,
        "source": SOURCES.get(config.config_source, "UNKNOWN"),
        "synonyms": [
            {"name": one.name, "value": one.value, "source": SOURCES.get(one.source, "UNKNOWN")}
            for one in config.synonyms
        ],
    }
    if wants_documentation(request):
        is_known = 0 <= config.config_type < len(TYPES)
        data["type"] = TYPES[config.config_type] if is_known else "UNKNOWN"
        data["documentation"] = config.documentation
    return data


def changes_of(entries: Sequence[Mapping[str, Json]]) -> list[ConfigChange]:
    """Return the changes of an `:alter` request; an entry without an operation is SET."""
    return [
        ConfigChange(entry["name"], DELETE)
        if entry.get("operation") == "DELETE"
        else ConfigChange(entry["name"], SET, text_of(entry.get("value")))
        for entry in entries
    ]


def text_of(value: Json) -> str | None:
    """Return a value as the text that Kafka takes."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class Owner(NamedTuple):
    """A kind of resource with settings: the path of its list, and the format of one setting."""

    path: str  # of the list
    name: str  # in the names of operations: getKafka{name}Config
    noun: str
    schema: Schema  # of one setting
    alter_id: str  # Confluent's operation ids for it follow no rule
    # RestError 404 if it is not there
    resource_of: Callable[[RestContext, RestRequest], Awaitable[ConfigResource]]
    data: Callable[[RestContext, RestRequest, ConfigResource, DescribeConfigsResourceResult], Data]
    list_link: Callable[[RestContext, RestRequest], str]
    is_for_administrators: bool = False  # True: these settings belong to the cluster itself
    shows_all: bool = True  # False: only settings that were set are listed, and any may be set

    @property
    def list_schema(self) -> Schema:
        return collection_schema(f"{self.name}ConfigDataList", f"Kafka{self.name}ConfigList", self.schema)


def config_routes(owner: Owner) -> tuple[Route, ...]:
    """Return the routes for the list of an owner's settings, for one setting, and for changes."""
    name, noun = f"Kafka{owner.name}Config", owner.noun
    return (
        Route(
            method="GET",
            path=owner.path,
            handler=partial(_list_configs, owner),
            operation_id=f"list{name}s",
            summary=f"List the settings of {noun}.",
            tag=TAG,
            query=(WITH_DOCUMENTATION,),
            responses={200: Response(description="The settings.", schema=owner.list_schema)},
        ),
        Route(
            method="GET",
            path=owner.path + "/{name}",
            handler=partial(_get_config, owner),
            operation_id=f"get{name}",
            summary=f"One setting of {noun}.",
            tag=TAG,
            responses={200: Response(description="The setting.", schema=owner.schema)},
        ),
        Route(
            method="PUT",
            path=owner.path + "/{name}",
            handler=partial(_update_config, owner),
            operation_id=f"update{name}",
            is_for_administrators=owner.is_for_administrators,
            summary=f"Set one setting of {noun}.",
            tag=TAG,
            request_schema=UPDATE,
            body_is_required=True,
            responses=CHANGED,
        ),
        Route(
            method="DELETE",
            path=owner.path + "/{name}",
            handler=partial(_reset_config, owner),
            operation_id=f"delete{name}",
            is_for_administrators=owner.is_for_administrators,
            summary=f"Return one setting of {noun} to its default.",
            tag=TAG,
            responses=CHANGED,
        ),
        Route(
            method="POST",
            path=owner.path + ":alter",
            handler=partial(_alter_configs, owner),
            operation_id=owner.alter_id,
            is_for_administrators=owner.is_for_administrators,
            summary=f"Change several settings of {noun}, all or none.",
            tag=TAG,
            request_schema=ALTER,
            body_is_required=True,
            responses=CHANGED,
        ),
    )


async def _list_configs(owner: Owner, context: RestContext, request: RestRequest) -> Answer:
    resource = await owner.resource_of(context, request)
    settings = await _settings(context.client, resource, documented=wants_documentation(request))
    data = [owner.data(context, request, resource, one) for one in settings]
    link = owner.list_link(context, request)
    return Answer(body=collection(f"Kafka{owner.name}ConfigList", link, data))


async def _get_config(owner: Owner, context: RestContext, request: RestRequest) -> Answer:
    resource = await owner.resource_of(context, request)
    for config in await _settings(context.client, resource):
        if config.name == request.path["name"]:
            return Answer(body=owner.data(context, request, resource, config))
    raise not_found(f"There is no setting {request.path['name'][:100]}.")


async def _update_config(owner: Owner, context: RestContext, request: RestRequest) -> Answer:
    value = text_of(request.body.get("value"))
    change = ConfigChange(request.path["name"], SET, value)
    return await _change(owner, context, request, [change], must_be_listed=owner.shows_all)


async def _reset_config(owner: Owner, context: RestContext, request: RestRequest) -> Answer:
    change = ConfigChange(request.path["name"], DELETE)
    return await _change(owner, context, request, [change], must_be_listed=True)


async def _alter_configs(owner: Owner, context: RestContext, request: RestRequest) -> Answer:
    changes = changes_of(request.body["data"])
    only_check = bool(request.body.get("validate_only"))
    return await _change(
        owner, context, request, changes, must_be_listed=owner.shows_all, only_check=only_check
    )


async def _change(
    owner: Owner,
    context: RestContext,
    request: RestRequest,
    changes: Sequence[ConfigChange],
    *,
    must_be_listed: bool,
    only_check: bool = False,
) -> Answer:
    """Apply changes; RestError 404 if a setting must be listed and is not, which Confluent's checks first."""
    resource = await owner.resource_of(context, request)
    if must_be_listed:
        check_known(await _settings(context.client, resource), resource, changes, context.cluster_id)
    await change_config(context.client, resource, changes, only_check=only_check)
    return Answer(status=204)


async def _settings(client: Client, resource: ConfigResource, *, documented: bool = False) -> Settings:
    return (await describe_resources(client, [resource], with_documentation=documented))[resource]


def wants_documentation(request: RestRequest) -> bool:
    wanted: bool = request.query.get("include_documentation", False)
    return wanted


def check_known(
    settings: Settings, resource: ConfigResource, changes: Sequence[ConfigChange], cluster_id: str
) -> None:
    """Raise RestError 404 if a setting does not exist."""
    known = {config.name for config in settings}
    for change in changes:
        if change.name not in known:
            owner = f"{resource.noun.upper()} {resource.name}"
            raise not_found(
                f"Config {change.name[:200]} cannot be found for {owner} in cluster {cluster_id}."
            )
