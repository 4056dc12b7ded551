"""Settings as resources: what those of topics, of brokers and of all brokers have in common."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from node.client.cluster_client import Client
from node.client.config_admin import (
    DELETE,
    SET,
    ConfigChange,
    Settings,
    change_config,
    describe_resources,
)
from node.client.topic_admin import ConfigResource
from node.rest_api.json_schema import Json, Schema
from node.rest_api.resource import Data, resource, resource_schema
from node.rest_api.rest_error import not_found
from node.rest_api.route import BOOLEAN, NAME, STRING, QueryParameter, Response
from node.wire.messages.describe_configs import DescribeConfigsResourceResult

TAG: Final = "Configs (v3)"
MAX_CHANGES: Final = 1_000  # of one request; a broker has some 250 settings
DEFAULT_CONFIG: Final = 5
# Where a value comes from, as DescribeConfigs numbers it and Java's admin client calls it.
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

# Numbers and booleans are taken for the texts that they are written with.
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
    description="Whether to tell the type and the words of each setting, too.",
)
CHANGED: Final = {204: Response(description="It holds now.")}


def config_schema(title: str, kind: str, owner: Mapping[str, Schema]) -> Schema:
    """The schema of `config_data`."""
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
    *,
    with_documentation: bool = False,
) -> Data:
    """One setting of somebody; `owner` are the fields that say whose."""
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
    if with_documentation:
        is_known = 0 <= config.config_type < len(TYPES)
        data["type"] = TYPES[config.config_type] if is_known else "UNKNOWN"
        data["documentation"] = config.documentation
    return data


def changes_of(entries: Sequence[Mapping[str, Json]]) -> list[ConfigChange]:
    """The changes of an `:alter`; an entry without an operation sets."""
    return [
        ConfigChange(entry["name"], DELETE)
        if entry.get("operation") == "DELETE"
        else ConfigChange(entry["name"], SET, text_of(entry.get("value")))
        for entry in entries
    ]


def text_of(value: Json) -> str | None:
    """A value as the text that Kafka takes."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


async def settings_of(client: Client, of: ConfigResource, *, with_documentation: bool = False) -> Settings:
    return (await describe_resources(client, [of], with_documentation=with_documentation))[of]


async def setting_of(client: Client, of: ConfigResource, name: str) -> DescribeConfigsResourceResult:
    """One setting; RestError 404 if there is none of that name."""
    for config in await settings_of(client, of):
        if config.name == name:
            return config
    raise not_found()


async def change_known(
    client: Client,
    of: ConfigResource,
    changes: Sequence[ConfigChange],
    cluster_id: str,
    *,
    only_check: bool = False,
) -> None:
    """Change settings that are there; RestError 404 for another name, as Confluent's looks before."""
    check_known(await settings_of(client, of), of, changes, cluster_id)
    await change_config(client, of, changes, only_check=only_check)


def check_known(
    settings: Settings, of: ConfigResource, changes: Sequence[ConfigChange], cluster_id: str
) -> None:
    known = {config.name for config in settings}
    for change in changes:
        if change.name not in known:
            whose = f"{of.noun.upper()} {of.name}"
            raise not_found(
                f"Config {change.name[:200]} cannot be found for {whose} in cluster {cluster_id}."
            )
