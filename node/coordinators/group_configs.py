"""What each group obeys: its own settings within the broker's limits, or the broker's (dynamic, too)."""

from collections.abc import Callable, Mapping

from ottla.groupcoord.coordinator_config import GroupConfig
from ottla.logstore.words.config_def import ConfigValue
from ottla.node.settings.group_config_def import group_config_of


class GroupConfigs:
    """Asked at every heartbeat. `values` are the settings of the broker now, `configs` those of one group."""

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
