"""Decides changes of settings of topics, brokers, groups and subscriptions to client metrics.

As in Kafka, the changes of one resource succeed or fail together, and each resource by itself. Errors and
their codes follow KIP-226 (dynamic broker settings) and KIP-339 (incremental changes).
"""

from collections.abc import Mapping, Sequence

from ottla.logstore.log_config import TOPIC_CONFIG_DEF, check_topic_configs, topic_defaults
from ottla.logstore.words.config_def import ConfigDef, ConfigKey, ConfigScope, ConfigType, value_to_text
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import check_topic_name
from ottla.metadata_raft.commands import (
    AlterConfigs,
    AlterConfigsReply,
    ConfigChange,
    ConfigOperation,
    NewTopicConfig,
    ResourceChanges,
    ResourceResult,
)
from ottla.metadata_raft.controller_config import (
    MAX_CLIENT_METRICS_SUBSCRIPTIONS,
    MAX_CONFIG_RESOURCES,
    MAX_CONFIGS_PER_RESOURCE,
    MAX_SUBSCRIPTIONS_PER_COMMAND,
    ControllerConfig,
)
from ottla.metadata_raft.decision import Decision
from ottla.metadata_raft.delta import MetadataDelta
from ottla.metadata_raft.eligible_replicas import MIN_IN_SYNC_REPLICAS, after_lower_min_in_sync_replicas
from ottla.metadata_raft.image import EVERY_BROKER, MetadataImage
from ottla.metadata_raft.records import ConfigRecord, ConfigResourceType, MetadataRecord

# Kafka appends only to lists of topics and brokers.
_NOTHING_TO_APPEND_TO = ConfigDef("client metrics", ())


def alter_configs(image: MetadataImage, command: AlterConfigs, config: ControllerConfig) -> Decision:
    """Decide changes of settings, each resource by itself; one that is named twice fails both times."""
    names = [(resource.resource_type, resource.resource_name) for resource in command.resources]
    twice = _repeated(names)
    records: list[MetadataRecord] = []
    results = []
    room = _room_for_subscriptions(image, names)
    for resource, name in zip(command.resources, names, strict=True):
        try:
            if name in twice:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            if resource.resource_type == ConfigResourceType.CLIENT_METRICS:
                room.take(resource.resource_name)
            records.extend(_alter_resource(image, resource, config))
            results.append(ResourceResult())
        except KafkaError as error:
            results.append(ResourceResult(error_code=error.code, error_message=error.detail))
    if command.validate_only:
        records = []
    if any(isinstance(one, ConfigRecord) and one.name == MIN_IN_SYNC_REPLICAS for one in records):
        delta = MetadataDelta(image)
        for record in records:
            delta.replay(record)
        after = delta.apply(version=image.version, epoch=image.epoch, timestamp_ms=image.timestamp_ms)
        records.extend(after_lower_min_in_sync_replicas(image, after))
    return Decision(records=records, reply=AlterConfigsReply(resources=results))


class _Room:
    """The number of subscriptions to client metrics that one command may still change."""

    def __init__(self, known: set[str]) -> None:
        self._known = known
        self._left = MAX_SUBSCRIPTIONS_PER_COMMAND

    def take(self, name: str) -> None:
        """Count one subscription; POLICY_VIOLATION beyond the limits."""
        self._known.add(name)
        self._left -= 1
        if self._left < 0:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"A request may change at most {MAX_SUBSCRIPTIONS_PER_COMMAND} client metrics subscriptions.",
            )
        if len(self._known) > MAX_CLIENT_METRICS_SUBSCRIPTIONS:
            self._known.discard(name)
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"There may be at most {MAX_CLIENT_METRICS_SUBSCRIPTIONS} client metrics subscriptions.",
            )


def _room_for_subscriptions(image: MetadataImage, names: Sequence[tuple[int, str]]) -> _Room:
    number = ConfigResourceType.CLIENT_METRICS
    if not any(kind == number for kind, _ in names):  # the search for known subscriptions is slow
        return _Room(set())
    return _Room({name for kind, name in image.configs.by_resource if kind == number})


def checked_topic_configs(configs: Sequence[NewTopicConfig], config: ControllerConfig) -> dict[str, str]:
    """Return the settings of a new topic; INVALID_CONFIG if they are not allowed."""
    without = [entry.name for entry in configs if entry.value is None]
    if without:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(without)}"
        )
    texts = {entry.name: entry.value for entry in configs if entry.value is not None}
    check_topic_configs(texts, config.broker_values)
    return texts


def _alter_resource(
    image: MetadataImage, resource: ResourceChanges, config: ControllerConfig
) -> list[ConfigRecord]:
    kind, name = _resource_type(resource.resource_type), resource.resource_name
    changes = resource.changes
    if _repeated([change.name for change in changes]):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [
        change.name
        for change in changes
        if change.value is None and change.operation != ConfigOperation.DELETE
    ]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    definitions = _definitions_of(image, kind, name, config)
    current = image.configs.of(kind, name)
    after = {} if resource.replace_all else dict(current)
    for change in changes:
        value = _value_after(change, current.get(change.name), definitions, config)
        if value is None:
            after.pop(change.name, None)
        else:
            after[change.name] = value
    _check_limits(image, kind, name, after)
    _check_values(kind, name, after, config)
    if kind is ConfigResourceType.BROKER and image.has_eligible_leader_replicas:
        _check_min_in_sync_replicas(name, current, after)
    touched = sorted({*(change.name for change in changes), *(current.keys() - after.keys())})
    return [
        ConfigRecord(resource_type=kind, resource_name=name, name=key, value=after.get(key))
        for key in touched
        # KAFKA-14136: setting a broker's value again makes the broker reload the file that the value names.
        if after.get(key) != current.get(key) or (kind is ConfigResourceType.BROKER and key in after)
    ]


def _check_min_in_sync_replicas(name: str, current: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Raise INVALID_CONFIG if brokers and the controller could use different values (KIP-966)."""
    if name != EVERY_BROKER and current.get(MIN_IN_SYNC_REPLICAS) != after.get(MIN_IN_SYNC_REPLICAS):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Broker-level {MIN_IN_SYNC_REPLICAS} cannot be altered while ELR is enabled.",
        )
    if name == EVERY_BROKER and MIN_IN_SYNC_REPLICAS not in after:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cluster-level {MIN_IN_SYNC_REPLICAS} cannot be removed while ELR is enabled.",
        )


def _definitions_of(
    image: MetadataImage, kind: ConfigResourceType, name: str, config: ControllerConfig
) -> ConfigDef:
    """Return the table of settings of a resource; an error if the resource may not have settings."""
    match kind:
        case ConfigResourceType.TOPIC:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
            check_topic_name(name)
            if name not in image.topics.by_name:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
            return TOPIC_CONFIG_DEF
        case ConfigResourceType.BROKER:
            if name != EVERY_BROKER and not (
                name.isascii() and name.isdigit() and int(name) in image.brokers
            ):
                raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {name[:50]} found.")
            return config.broker_config_def
        case ConfigResourceType.GROUP:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
            return config.group_config_def
        case ConfigResourceType.CLIENT_METRICS:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
            return _NOTHING_TO_APPEND_TO
        case ConfigResourceType.BROKER_LOGGER:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "The log levels of a broker are not part of the metadata: send this request to that broker.",
            )
        case ConfigResourceType.UNKNOWN:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown resource type.")


def _value_after(
    change: ConfigChange, current: str | None, definitions: ConfigDef, config: ControllerConfig
) -> str | None:
    operation = _operation(change.operation)
    match operation:
        case ConfigOperation.SET:
            return change.value
        case ConfigOperation.DELETE:
            return None
        case ConfigOperation.APPEND | ConfigOperation.SUBTRACT:
            key = definitions.keys.get(change.name)
            if key is None or key.type is not ConfigType.LIST:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG,
                    f"Can't {operation.name} to key {change.name} because its type is not LIST.",
                )
            text = current if current is not None else _default_text(key, definitions, config)
            entries, changed = [entry for entry in text.split(",") if entry], (change.value or "").split(",")
            if operation is ConfigOperation.SUBTRACT:
                gone = set(changed)
                return ",".join(entry for entry in entries if entry not in gone)
            known = set(entries)
            return ",".join((*entries, *(entry for entry in dict.fromkeys(changed) if entry not in known)))


def _resource_type(number: int) -> ConfigResourceType:
    try:
        return ConfigResourceType(number)
    except ValueError:
        return ConfigResourceType.UNKNOWN


def _operation(number: int) -> ConfigOperation:
    try:
        return ConfigOperation(number)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {number}") from None


def _default_text(key: ConfigKey, definitions: ConfigDef, config: ControllerConfig) -> str:
    """Return the default of a list setting, which is the broker's value."""
    values = topic_defaults(config.broker_values) if definitions is TOPIC_CONFIG_DEF else config.broker_values
    return value_to_text(values.get(key.name, key.default)) or ""


def _check_limits(
    image: MetadataImage, kind: ConfigResourceType, name: str, after: Mapping[str, str]
) -> None:
    known = image.configs.by_resource
    if len(after) > MAX_CONFIGS_PER_RESOURCE:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, f"A resource may have at most {MAX_CONFIGS_PER_RESOURCE} configs."
        )
    if (kind, name) not in known and len(known) >= MAX_CONFIG_RESOURCES + len(image.topics.by_name):
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"At most {MAX_CONFIG_RESOURCES} brokers, groups and client metrics subscriptions may have "
            "configs.",
        )


def _check_values(
    kind: ConfigResourceType, name: str, after: Mapping[str, str], config: ControllerConfig
) -> None:
    """Reject all settings of a resource if one is unknown, malformed or not allowed for it."""
    if kind is ConfigResourceType.TOPIC:
        check_topic_configs(after, config.broker_values)
        return
    if kind is ConfigResourceType.GROUP:
        config.group_config_def.parse_all(after)
        config.check_group_configs(after)
        return
    if kind is ConfigResourceType.CLIENT_METRICS:
        config.check_client_metrics_configs(after)
        return
    _check_broker_values(name, after, config)


def _check_broker_values(name: str, after: Mapping[str, str], config: ControllerConfig) -> None:
    """Check the settings of a broker; as in Kafka, INVALID_REQUEST (42) instead of INVALID_CONFIG (40).

    Kafka's tools depend on it (KAFKA-13609).
    """
    definitions = config.broker_config_def
    scopes = {key: definitions.key(key).scope for key in after}
    fixed = sorted(key for key, scope in scopes.items() if scope is ConfigScope.READ_ONLY)
    if fixed:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: {', '.join(fixed)}"
        )
    single = sorted(key for key, scope in scopes.items() if scope is ConfigScope.PER_BROKER)
    if single and name == EVERY_BROKER:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs at default cluster level, broker id must be specified:"
            f" {', '.join(single)}",
        )
    try:
        for key, text in after.items():
            definitions.parse(key, text)
        config.check_broker_configs(after)
    except KafkaError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, error.detail) from None


def _repeated(names: Sequence[object]) -> set[object]:
    seen: set[object] = set()
    return {name for name in names if name in seen or seen.add(name)}  # type: ignore[func-returns-value]
