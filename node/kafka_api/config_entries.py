"""Settings with their values, the sources of these and their synonyms, as DescribeConfigs returns them.

Synonyms are the values that would take effect if the ones before them were removed, in Kafka's order: the
value of the topic (or group) itself, then for each broker setting that it falls back to the dynamic value of
this broker, the dynamic value of all brokers, the static one, the default. Kafka lists them only from the
first broker setting's own entry on: a `log.retention.hours` without a `log.retention.ms` is honoured but not
shown as the source.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.logstore.log_config import BROKER_SYNONYMS, TOPIC_CONFIG_DEF, topic_defaults
from ottla.logstore.words.config_def import ConfigKey, ConfigType, ConfigValue, value_to_text
from ottla.node import loggers
from ottla.node.settings.broker_settings import BROKER_CONFIG_DEF, listener_setting
from ottla.node.settings.client_metrics_config_def import CLIENT_METRICS_CONFIG_DEF
from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.group_config_def import GROUP_CONFIG_DEF, broker_setting_of


class ConfigSource(IntEnum):
    """The source of a value (int8)."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One setting with its current value."""

    key: ConfigKey
    value: str | None  # None for a secret or a null value
    read_only: bool
    source: ConfigSource
    synonyms: Sequence[Synonym]


# The alternative names of a broker setting, highest precedence first.
_BROKER_ALTERNATIVES: dict[str, tuple[str, ...]] = {
    entries[0].name: tuple(entry.name for entry in entries)
    for entries in BROKER_SYNONYMS.values()
    if len(entries) > 1
}


def logger_entries() -> list[ConfigEntry]:
    """Return the level of each logger of this process; these have no type."""
    return [
        ConfigEntry(
            ConfigKey(name=name, type=ConfigType.UNKNOWN, default=None, documentation=""),
            level,
            False,
            ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            (),
        )
        for name, level in loggers.levels().items()
    ]


def topic_entries(config: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Return all settings of a topic with these overrides; internal settings only if they are overridden."""
    defaults = topic_defaults(config.values)
    entries = []
    for key in TOPIC_CONFIG_DEF:
        if key.internal and key.name not in overrides:
            continue
        behind = BROKER_SYNONYMS.get(key.name)
        synonyms = _broker_synonyms(config, behind[0].name, key.sensitive) if behind else []
        override = overrides.get(key.name)
        value = _shown(key, defaults[key.name] if override is None else key.parse(override))
        if override is not None:
            synonyms = [Synonym(key.name, value, ConfigSource.TOPIC_CONFIG), *synonyms]
        entries.append(_entry(key, value, synonyms, read_only=False))
    return entries


def source_for_new_topic(config: BrokerConfig, entry: ConfigEntry) -> ConfigSource:
    """Return the source of a value as CreateTopics reports it, where any name of a broker setting counts."""
    behind = BROKER_SYNONYMS.get(entry.key.name)
    if entry.source is ConfigSource.TOPIC_CONFIG or not behind:
        return entry.source
    return _set_under_any_name(config, behind[0].name)[0].source


def broker_entries(config: BrokerConfig) -> list[ConfigEntry]:
    """Return all settings of this broker."""
    return [
        _entry(
            key,
            _shown(key, config.values[key.name]),
            _broker_synonyms(config, key.name, key.sensitive),
            read_only=key.read_only,
        )
        for key in BROKER_CONFIG_DEF
        if not key.internal
    ] + [_listener_entry(config, name) for name in _listener_setting_names(config)]


def _listener_setting_names(config: BrokerConfig) -> list[str]:
    """Return the settings given for single listeners, such as `listener.name.inner.max.connections`."""
    texts = {**config.static_texts, **config.cluster_texts, **config.broker_texts}
    return sorted(name for name in texts if name not in BROKER_CONFIG_DEF.keys)


def _listener_entry(config: BrokerConfig, name: str) -> ConfigEntry:
    key = BROKER_CONFIG_DEF.key(name)
    texts = {**config.static_texts, **config.cluster_texts, **config.broker_texts}
    return _entry(
        key,
        _shown(key, key.parse(texts[name])),
        _broker_synonyms(config, name, key.sensitive),
        read_only=key.read_only,
    )


def cluster_entries(config: BrokerConfig) -> list[ConfigEntry]:
    """Return the settings that were changed for all brokers, and no others."""
    entries = []
    for name, text in sorted(config.cluster_texts.items()):
        key = BROKER_CONFIG_DEF.key(name)
        value = None if key.sensitive else text
        synonym = Synonym(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        entries.append(_entry(key, value, [synonym], read_only=key.read_only))
    return entries


def group_entries(config: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Return all settings of a group with these overrides, which may exceed the limits of this broker."""
    entries = []
    for key in GROUP_CONFIG_DEF:
        behind = broker_setting_of(key.name) or key.name
        if behind in BROKER_CONFIG_DEF:
            value = config.values[behind]
            synonyms = _broker_synonyms(config, behind, key.sensitive)
        else:
            value = key.default
            synonyms = [Synonym(behind, value_to_text(value), ConfigSource.DEFAULT_CONFIG)]
        override = overrides.get(key.name)
        shown = _shown(key, value if override is None else key.parse(override))
        if override is not None:
            synonyms = [Synonym(key.name, shown, ConfigSource.GROUP_CONFIG), *synonyms]
        entries.append(_entry(key, shown, synonyms, read_only=False))
    return entries


def client_metrics_entries(overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Return all settings of a client metrics subscription with these overrides."""
    entries = []
    for key in CLIENT_METRICS_CONFIG_DEF:
        text = overrides.get(key.name)
        shown = value_to_text(key.default if text is None else key.parse(text))
        own = [] if text is None else [Synonym(key.name, shown, ConfigSource.CLIENT_METRICS_CONFIG)]
        entries.append(_entry(key, shown, own, read_only=False))
    return entries


def _entry(key: ConfigKey, value: str | None, synonyms: Sequence[Synonym], *, read_only: bool) -> ConfigEntry:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    return ConfigEntry(key, value, read_only, source, synonyms)


def _broker_synonyms(config: BrokerConfig, name: str, is_sensitive: bool) -> list[Synonym]:
    found = _set_under_any_name(config, name)
    while found and found[0].name != name:
        del found[0]
    return [synonym._replace(value=None) for synonym in found] if is_sensitive else found


def _set_under_any_name(config: BrokerConfig, name: str) -> list[Synonym]:
    names = _alternatives_of(name)
    found: list[Synonym] = []
    for texts, source in (
        (config.broker_texts, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (config.cluster_texts, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (config.static_texts, ConfigSource.STATIC_BROKER_CONFIG),
    ):
        found.extend(Synonym(each, texts[each], source) for each in names if each in texts)
    for each in names:
        # A setting of one listener has no default of its own: it falls back to the setting of all listeners.
        key = BROKER_CONFIG_DEF.keys.get(each)
        default = None if key is None else value_to_text(key.default)
        if default is not None:
            found.append(Synonym(each, default, ConfigSource.DEFAULT_CONFIG))
    return found


def _alternatives_of(name: str) -> Sequence[str]:
    of_listener = listener_setting(name)
    if of_listener is not None:
        return (name, of_listener[1])
    for names in _BROKER_ALTERNATIVES.values():
        if name in names:
            return names
    return (name,)


def _shown(key: ConfigKey, value: ConfigValue) -> str | None:
    return None if key.sensitive or key.type is ConfigType.PASSWORD else value_to_text(value)
