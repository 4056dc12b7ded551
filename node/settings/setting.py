"""Defines the broker settings of the tables: one call for each, with short names for types."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from ottla.logstore.words.config_def import (
    ConfigKey,
    ConfigScope,
    ConfigType,
    ConfigValue,
    Importance,
    Validator,
)

# The values of settings by attribute: the table, and not the type checker, knows the type of each.
Typed: TypeAlias = Mapping[str, Any]

BOOLEAN: Final = ConfigType.BOOLEAN
STRING: Final = ConfigType.STRING
INT: Final = ConfigType.INT
SHORT: Final = ConfigType.SHORT
LONG: Final = ConfigType.LONG
DOUBLE: Final = ConfigType.DOUBLE
LIST: Final = ConfigType.LIST
PASSWORD: Final = ConfigType.PASSWORD
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def setting(
    name: str,
    type_: ConfigType,
    default: ConfigValue,
    documentation: str,
    validator: Validator | None = None,
    *,
    importance: Importance = MEDIUM,
    scope: ConfigScope = ConfigScope.READ_ONLY,
    internal: bool = False,
    of_listener: ConfigScope | None = None,
) -> ConfigKey:
    """Return the definition of a broker setting.

    A PASSWORD is never shown. An `internal` setting is honoured, but hidden from DescribeConfigs, as in
    Apache Kafka. `of_listener` is the scope of the setting with the prefix of a listener.
    """
    return ConfigKey(
        name=name,
        type=type_,
        default=default,
        documentation=documentation,
        validator=validator,
        importance=importance,
        scope=scope,
        sensitive=type_ is ConfigType.PASSWORD,
        internal=internal,
        prefixed_scope=of_listener,
    )
