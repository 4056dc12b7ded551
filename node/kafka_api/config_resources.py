"""The common part of AlterConfigs and IncrementalAlterConfigs: one command for many resources."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeGuard, TypeVar

from ottla.logstore.words.errors import ErrorCode, KafkaError, kept
from ottla.metadata_raft.acl import CLUSTER_NAME, AclOperation, ResourceType
from ottla.metadata_raft.acl_set import ClientIdentity
from ottla.metadata_raft.commands import (
    AlterConfigs,
    ConfigChange,
    ConfigOperation,
    ResourceChanges,
    ResourceResult,
)
from ottla.metadata_raft.image import EVERY_BROKER
from ottla.metadata_raft.records import ConfigResourceType
from ottla.node import loggers
from ottla.node.authorization.access import REFUSALS, Access
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.metadata.command_parts import submit_in_parts
from ottla.node.metadata.metadata_runtime import DEFAULT_TIMEOUT_MS
from ottla.node.services import Services
from ottla.node.settings.broker_settings import listener_setting
from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.sasl_settings import ENABLED_MECHANISMS
from ottla.node.settings.security_settings import LISTENER_SETTINGS
from ottla.node.work.turns import at_once, distinct, listed, take_turns


def checked_resource_type(services: Services, number: int, name: str) -> ConfigResourceType:
    """Return the type of a resource that this broker may change; INVALID_REQUEST for any other.

    Each broker checks its own settings, so those of another broker are rejected.
    """
    try:
        kind = ConfigResourceType(number)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {number}") from None
    if kind is ConfigResourceType.BROKER_LOGGER or (
        kind is ConfigResourceType.BROKER and name != EVERY_BROKER
    ):
        if not (name.isascii() and name.lstrip("-").isdigit() and len(name) <= 11):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name[:100]}"
            )
        if int(name) != services.config.node_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {services.config.node_id}, but received {name}",
            )
    return kind


def check_resource(access: Access, operation: AclOperation, number: int, name: str) -> None:
    """Raise an authorization error unless the client may do the operation on the settings of a resource.

    `number` is a ConfigResourceType; the settings of brokers, loggers and client metrics belong to the
    cluster.
    """
    match number:
        case ConfigResourceType.TOPIC:
            resource_type, name = ResourceType.TOPIC, name
        case ConfigResourceType.GROUP:
            resource_type, name = ResourceType.GROUP, name
        case _:
            resource_type, name = ResourceType.CLUSTER, CLUSTER_NAME
    if not access.allows(operation, resource_type, name):
        raise KafkaError(REFUSALS[resource_type], "Authorization failed.")


# Resources that only administrators may change: one request could stop a node.
OF_BROKERS: Final = frozenset({ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER})

log = logging.getLogger(__name__)


class Resource(Protocol):
    """The type and name of a resource, as each request that changes resources has them."""

    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...


R = TypeVar("R", bound=Resource)
A = TypeVar("A")


async def alter_resources(
    services: Services,
    context: RequestContext,
    resources: Sequence[R],
    changes_of: Callable[[R], Sequence[ConfigChange] | KafkaError],
    answer: Callable[..., A],
    *,
    replace_all: bool,
    validate_only: bool,
) -> list[A]:
    """Change the resources; return the answer for each, in order.

    Rejected resources are not sent to the controller.
    """
    named = ((one.resource_type, one.resource_name) for one in resources)
    _, repeated = await take_turns(distinct(named)) if context.is_large else at_once(distinct(named))
    refusal = await _refusal_of_brokers(services, context, resources)

    broker_changes: list[ResourceChanges] = []

    def checked(resource: R) -> ResourceChanges | ResourceResult:
        number, name = resource.resource_type, resource.resource_name
        try:
            changes = changes_of(resource)
            if isinstance(changes, KafkaError):
                raise changes
            if (number, name) in repeated:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            check_resource(context.access, AclOperation.ALTER_CONFIGS, number, name)
            kind = checked_resource_type(services, number, name)
            if refusal is not None and kind in OF_BROKERS:
                raise refusal
            wanted = ResourceChanges(
                resource_type=kind, resource_name=name, changes=changes, replace_all=replace_all
            )
            if kind is ConfigResourceType.BROKER:
                _check_resizes(services.config, wanted)
                broker_changes.append(wanted)
        except KafkaError as error:
            return ResourceResult(error_code=error.code, error_message=error.detail)
        return wanted

    outcomes = [
        _alter_loggers(one, validate_only=validate_only) if _is_of_loggers(one) else one
        for one in await listed(map(checked, resources), is_large=context.is_large)
    ]
    for changes in broker_changes:
        if (problem := await _stores_problem(services, changes)) is not None:
            outcomes[outcomes.index(changes)] = problem
    accepted = [one for one in outcomes if isinstance(one, ResourceChanges)]
    results = iter(await _submit(services, context.client, accepted, validate_only=validate_only))

    def answered(resource: R, outcome: ResourceChanges | ResourceResult) -> A:
        result = outcome if isinstance(outcome, ResourceResult) else next(results)
        return answer(
            error_code=result.error_code,
            error_message=result.error_message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )

    return await listed(map(answered, resources, outcomes), is_large=context.is_large)


async def _refusal_of_brokers(
    services: Services, context: RequestContext, resources: Sequence[Resource]
) -> KafkaError | None:
    """Return the reason why this client may not change brokers, or None if it may or does not try to."""
    if any(one.resource_type in OF_BROKERS for one in resources):
        try:
            await services.administrators.check(
                context.connection, AclOperation.ALTER_CONFIGS, access=context.access, api=context.api_name
            )
        except KafkaError as error:
            return kept(error)
    return None


async def _stores_problem(services: Services, changes: ResourceChanges) -> ResourceResult | None:
    """Return the reason why this node could not use new keys, certificates or mechanisms; None if it could.

    Only the broker itself checks its own; if the new ones are invalid it keeps what it has.
    """
    config = services.config
    if changes.resource_name != str(config.node_id):
        return None
    after = _texts_after(config, changes)
    if _file_settings(after) == _file_settings(config.broker_texts):
        return None
    changed = config.with_dynamic(config.cluster_texts, after)
    try:
        await services.listener_tls.check(changed.listener_security)
        await services.token_verifiers.check(changed.listener_sasl)
    except KafkaError as error:
        return ResourceResult(error_code=ErrorCode.INVALID_REQUEST, error_message=error.detail)
    return None


def _file_settings(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the settings among these for which single listeners read files: keys and certificates."""
    return {
        name: text
        for name, text in texts.items()
        if (found := listener_setting(name)) is not None
        and found[1] in (*LISTENER_SETTINGS, ENABLED_MECHANISMS)
    }


def _texts_after(config: BrokerConfig, changes: ResourceChanges) -> dict[str, str]:
    """Return the dynamic settings that a broker, or all of them, will have after the changes."""
    before = config.cluster_texts if changes.resource_name == EVERY_BROKER else config.broker_texts
    after = {} if changes.replace_all else dict(before)
    for one in changes.changes:
        if one.operation == ConfigOperation.DELETE or one.value is None:
            after.pop(one.name, None)
        elif one.operation == ConfigOperation.SET:
            after[one.name] = one.value
    return after


def _check_resizes(config: BrokerConfig, changes: ResourceChanges) -> None:
    """Raise INVALID_REQUEST if a thread pool of this node would grow or shrink by too much at once."""
    is_default = changes.resource_name == EVERY_BROKER
    after = _texts_after(config, changes)
    if is_default:
        config.check_resizes(after, config.broker_texts)
    else:
        config.check_resizes(config.cluster_texts, after)


def _is_of_loggers(outcome: ResourceChanges | ResourceResult) -> TypeGuard[ResourceChanges]:
    return isinstance(outcome, ResourceChanges) and outcome.resource_type == ConfigResourceType.BROKER_LOGGER


def _alter_loggers(changes: ResourceChanges, *, validate_only: bool) -> ResourceResult:
    """Change levels of loggers, which belong to this process and are not in the metadata."""
    try:
        wanted: list[tuple[str, str | None]] = []
        for one in changes.changes:
            if one.operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
                operation = ConfigOperation(one.operation).name
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"{operation} operation is not allowed for the BROKER_LOGGER resource",
                )
            level = None if one.operation == ConfigOperation.DELETE else one.value or ""
            loggers.check_change(one.name, level)
            wanted.append((one.name, level))
    except KafkaError as error:
        return ResourceResult(error_code=error.code, error_message=error.detail)
    for name, level in wanted if not validate_only else ():
        loggers.change(name, level)
        log.info("The level of logger %s is now %s.", name, level or "its default")
    return ResourceResult(error_code=ErrorCode.NONE, error_message=None)


async def _submit(
    services: Services,
    client: ClientIdentity | None,
    accepted: Sequence[ResourceChanges],
    *,
    validate_only: bool,
) -> Sequence[ResourceResult]:
    if not accepted:
        return ()

    async def submit(part: list[ResourceChanges], timeout_ms: int) -> Sequence[ResourceResult]:
        command = AlterConfigs(resources=part, validate_only=validate_only)
        return (await services.metadata.submit(command, timeout_ms, client)).resources

    return await submit_in_parts(
        accepted,
        records_of=lambda resource: len(resource.changes),
        key_of=id,  # each resource is named once
        submit=submit,
        refused=lambda part, error: [
            ResourceResult(error_code=error.code, error_message=error.detail) for _ in part
        ],
        timeout_ms=DEFAULT_TIMEOUT_MS,  # the request has no timeout
    )
