"""The reference of settings, from the tables that the node itself reads."""

from collections.abc import Iterable

from ottla.logstore.log_config import TOPIC_CONFIG_DEF
from ottla.logstore.words.config_def import ConfigKey, ConfigScope, value_to_text
from ottla.node.settings.broker_settings import BROKER_CONFIG_DEF
from ottla.node.settings.client_metrics_config_def import CLIENT_METRICS_CONFIG_DEF
from ottla.node.settings.group_config_def import GROUP_CONFIG_DEF
from ottla.node.settings.settings_not_honoured import NOT_HONOURED

CHANGED = {
    ConfigScope.READ_ONLY: "*at start*",
    ConfigScope.PER_BROKER: "*any time*",
    ConfigScope.CLUSTER_WIDE: "*any time*",
}
HEAD = """# Settings reference

Generated from the tables of settings of this version. [Settings](../settings.md) says where they are set.

Below each name are its type, its default (`-`: none), and for settings of brokers when it can be
changed: *at start* of the node only, or at *any time*, for one broker or for all of them.

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
            "\n## Client metrics\n\nSet at any time by `ottla client-metrics config`.\n\n",
            *_table(CLIENT_METRICS_CONFIG_DEF, is_broker=False),
            "\n",
            NOT_HONOURED_HEAD,
            *(f"- `{name}`\n" for name in sorted(NOT_HONOURED)),
        ]
    )


def _table(keys: Iterable[ConfigKey], *, is_broker: bool) -> Iterable[str]:
    yield "| setting, type, default | meaning |\n|---|---|\n"
    for key in sorted(keys, key=lambda key: key.name):
        default = "-" if key.sensitive else value_to_text(key.default)
        shown = "-" if default in (None, "") else _code(str(default))
        facts = f"{key.type.name.lower()}, `{shown}`" + (f", {CHANGED[key.scope]}" if is_broker else "")
        words = _cell(key.documentation)
        if key.validator is not None:
            words += f" Allowed: `{_code(key.validator.allowed)}`."
        yield f"| `{key.name}`<br>{facts} | {words} |\n"


def _cell(text: str) -> str:
    return _code(text).replace("<", "&lt;")


def _code(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
