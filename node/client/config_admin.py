"""The settings of topics, brokers and groups, many resources at a time, with the source of each value."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.client.cluster_client import Client, check
from ottla.node.client.topic_admin import ConfigResource
from ottla.node.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from ottla.node.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

SET, DELETE, APPEND, SUBTRACT = range(4)  # operations of IncrementalAlterConfigs
BROKER: Final = 4  # type of a resource of DescribeConfigs
MAX_RESOURCES: Final = 500  # per request: the response has some megabytes

Settings = Sequence[DescribeConfigsResourceResult]


class ConfigChange(NamedTuple):
    """A setting with its new value, one that is reset, or a list that gets or loses entries."""

    name: str
    operation: int
    value: str | None = None


def config_of_broker(broker_id: int) -> ConfigResource:
    """Return the resource of one broker: all its settings, whatever their source."""
    return ConfigResource(BROKER, "broker", str(broker_id))


def config_of_all_brokers() -> ConfigResource:
    """Return the resource of the dynamic default settings of all brokers."""
    return ConfigResource(BROKER, "broker", "")


async def describe_resources(
    client: Client,
    resources: Sequence[ConfigResource],
    *,
    with_documentation: bool = False,
    may_be_gone: bool = False,
) -> dict[ConfigResource, Settings]:
    """Return the settings of each resource, sorted by name, with their synonyms. A broker is asked for its
    own.

    KafkaError of the first resource that has one; a missing topic is an error unless it `may_be_gone`.
    """
    found: dict[ConfigResource, Settings] = {}
    by_node: dict[int | None, list[ConfigResource]] = {}
    for one in resources:
        by_node.setdefault(_node_of(one), []).append(one)
    for node_id, mine in by_node.items():
        for begin in range(0, len(mine), MAX_RESOURCES):
            some = mine[begin : begin + MAX_RESOURCES]
            found |= await _describe(client, node_id, some, with_documentation, may_be_gone)
    return found


def _node_of(resource: ConfigResource) -> int | None:
    """Return the node that must be asked about a resource; None: any node."""
    return int(resource.name) if resource.kind == BROKER and resource.name else None


async def _describe(
    client: Client,
    node_id: int | None,
    resources: Sequence[ConfigResource],
    with_documentation: bool,
    may_be_gone: bool,
) -> dict[ConfigResource, Settings]:
    by_name = {(one.kind, one.name): one for one in resources}
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
            for kind, name in by_name
        ],
        include_synonyms=True,
        include_documentation=with_documentation,
    )

    async def attempt() -> DescribeConfigsResponse:
        # The controller has every acknowledged change; other nodes apply it a moment later.
        connection = await (client.controller() if node_id is None else client.node(node_id))
        response = await connection.request(request, DescribeConfigsResponse, timeout_s=client.remaining_s)
        for one in response.results:
            if may_be_gone and one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            check(one.error_code, one.error_message, f"{by_name[one.resource_type, one.resource_name]}")
        return response

    response = await client.retry(attempt)
    return {
        by_name[one.resource_type, one.resource_name]: sorted(one.configs, key=lambda config: config.name)
        for one in response.results
        if not one.error_code
    }


async def change_configs(
    client: Client, changes: Mapping[ConfigResource, Sequence[ConfigChange]], *, only_check: bool
) -> dict[ConfigResource, KafkaError]:
    """Change settings, all or none per resource. Return the resources whose changes were rejected, with the
    errors.

    The changes of one broker are sent to it: only it can validate them.
    """
    refused: dict[ConfigResource, KafkaError] = {}
    by_node: dict[int | None, dict[ConfigResource, Sequence[ConfigChange]]] = {}
    for one, mine in changes.items():
        by_node.setdefault(_node_of(one), {})[one] = mine
    for node_id, together in by_node.items():
        refused |= await _change(client, node_id, together, only_check)
    return refused


async def _change(
    client: Client,
    node_id: int | None,
    changes: Mapping[ConfigResource, Sequence[ConfigChange]],
    only_check: bool,
) -> dict[ConfigResource, KafkaError]:
    by_name = {(one.kind, one.name): one for one in changes}
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=one.kind,
                resource_name=one.name,
                configs=[
                    AlterableConfig(name=change.name, config_operation=change.operation, value=change.value)
                    for change in mine
                ],
            )
            for one, mine in changes.items()
        ],
        validate_only=only_check,
    )

    async def attempt() -> IncrementalAlterConfigsResponse:
        connection = await (client.controller() if node_id is None else client.node(node_id))
        response = await connection.request(
            request, IncrementalAlterConfigsResponse, timeout_s=client.remaining_s
        )
        for one in response.responses:
            if one.error_code == ErrorCode.NOT_CONTROLLER:
                check(one.error_code, one.error_message, "the settings")
        return response

    response = await client.retry(attempt)
    refused: dict[ConfigResource, KafkaError] = {}
    for one in response.responses:
        resource = by_name[one.resource_type, one.resource_name]
        try:
            check(one.error_code, one.error_message, str(resource))
        except KafkaError as error:
            refused[resource] = error
    return refused


async def change_config(
    client: Client, resource: ConfigResource, changes: Sequence[ConfigChange], *, only_check: bool = False
) -> None:
    """Change the settings of one resource; KafkaError if the changes are rejected."""
    for error in (await change_configs(client, {resource: changes}, only_check=only_check)).values():
        raise error
