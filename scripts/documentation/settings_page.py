"""The reference of settings, from the tables that the node itself reads."""

from collections.abc import Iterable

from logstore.config_def import ConfigKey, ConfigScope, value_to_text
from logstore.log_config import TOPIC_CONFIG_DEF
from node.settings.broker_settings import BROKER_CONFIG_DEF
from node.settings.group_config_def import GROUP_CONFIG_DEF
from node.settings.settings_not_honoured import NOT_HONOURED

CHANGED = {
    ConfigScope.READ_ONLY: "at start",
    ConfigScope.PER_BROKER: "any time",
    ConfigScope.CLUSTER_WIDE: "any time",
}
HEAD = """# Settings reference

Generated from the tables of settings of this version. [Settings](../settings.md) says where they are set.

- **Type and default**: a default of `-` means that nothing is set.
- **Changed**: `at start` settings take effect when the node starts. `any time` settings can be changed while
  it runs, for one broker or for all of them.

"""
NOT_HONOURED_HEAD = """## Not honoured

These settings of Apache Kafka have no effect here. A node names them with a warning when it starts. The ones
that would restrict who may do what stop the start.

"""


def settings_page() -> str:
    """Return the page."""
    return "".join(
        [
            HEAD,
            "## Brokers\n\n",
            *_table(BROKER_CONFIG_DEF, is_broker=True),
            "\n## Topics\n\nSet when a topic is created, and at any time by `ottla topic config`.\n\n",
            *_table(TOPIC_CONFIG_DEF, is_broker=False),
            "\n## Groups\n\nSet at any time by `ottla group config`.\n\n",
            *_table(GROUP_CONFIG_DEF, is_broker=False),
            "\n",
            NOT_HONOURED_HEAD,
            *(f"- `{name}`\n" for name in sorted(NOT_HONOURED)),
        ]
    )


def _table(keys: Iterable[ConfigKey], *, is_broker: bool) -> Iterable[str]:
    changed = " changed |" if is_broker else ""
    yield f"| setting | type and default |{changed} |\n|---|---|{'---|' if is_broker else ''}---|\n"
    for key in sorted(keys, key=lambda key: key.name):
        default = "-" if key.sensitive else value_to_text(key.default)
        shown = "-" if default in (None, "") else default
        words = _cell(key.documentation)
        if key.validator is not None:
            words += f" Allowed: `{_cell(key.validator.allowed)}`."
        scope = f" {CHANGED[key.scope]} |" if is_broker else ""
        yield f"| `{key.name}` | {key.type.name.lower()}, `{_cell(shown)}` |{scope} {words} |\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
