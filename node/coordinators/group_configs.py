"""The settings of each group: its own within the broker's limits, or else the broker's, dynamic ones too."""

from collections.abc import Callable, Mapping

from ottla.groupcoord.coordinator_config import GroupConfig
from ottla.logstore.words.config_def import ConfigValue
from ottla.node.settings.group_config_def import group_config_of


class GroupConfigs:
    """Returns the settings of a group, at every heartbeat.

    `values` returns the current settings of the broker, `configs` the settings of one group.
    """

    def __init__(
        self,
        values: Callable[[], Mapping[str, ConfigValue]],
        configs: Callable[[str], Mapping[str, str]],
    ) -> None:
        self._values = values
        self._configs = configs
        self._known: Mapping[str, ConfigValue] = values()
        self._default = group_config_of(self._known, {})

    def __call__(self, group_id: str) -> GroupConfig:
        values, own = self._values(), self._configs(group_id)
        if own:
            return group_config_of(values, own)
        if values is not self._known:
            self._known, self._default = values, group_config_of(values, {})
        return self._default
