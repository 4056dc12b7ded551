"""The settings that `ottla cluster up` applies to all its nodes, validated before a node is started."""

import re
import sys
from collections.abc import Sequence
from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.escaped_text import escape_controls
from ottla.node.cli.failure import CommandError
from ottla.node.settings.cluster_settings import NODES_PER_HOST
from ottla.node.settings.config import parse_config, parse_overrides, refuse_unknown
from ottla.node.settings.rest_settings import REST_LISTENERS

# Settings that differ between nodes or join them to one cluster, and the option that decides each.
_DECIDED_BY: Final = {
    "node.id": "--nodes",
    "broker.id": "--nodes",
    "process.roles": "--nodes",
    NODES_PER_HOST: "--nodes",
    "controller.quorum.voters": "--nodes",
    "controller.quorum.bootstrap.servers": "--nodes",
    "listeners": "--base-port",
    "advertised.listeners": "--base-port",
    "controller.listener.names": "--base-port",
    "inter.broker.listener.name": "--base-port",
    REST_LISTENERS: "--base-port",
    "ottla.rest.advertised.listener": "--base-port",
    "log.dirs": "--data",
    "log.dir": "--data",
    "metadata.log.dir": "--data",
    "pid.file": "--data",
    "ottla.secure.dir": "--data",
}
_SPECIAL: Final = re.compile(r"[\\\s=:#!]")


def check_overrides(overrides: Sequence[str]) -> None:
    """Print a warning for each setting without effect.

    CommandError for an invalid setting, as with `ottla start`, and for one that differs from node to node.
    """
    try:
        texts = parse_overrides(overrides)
        refuse_unknown(texts)
        warnings = parse_config(texts).warnings
    except KafkaError as error:
        raise CommandError(escape_controls(error.detail)) from None
    for name, value in texts.items():
        option = _DECIDED_BY.get(name)
        # An empty value, which turns the REST API off, is the same for all nodes.
        if option is not None and not (name == REST_LISTENERS and not value):
            raise CommandError(
                f"{name} differs from node to node, so `ottla cluster up` sets it itself; use "
                f"{option} instead."
            )
    for warning in warnings:
        print(f"ottla: {escape_controls(warning)}", file=sys.stderr)


def override_lines(overrides: Sequence[str]) -> list[str]:
    """Return the overrides as lines of a properties file, escaped so that any character keeps its meaning."""
    return [f"{_escaped(name)}={_escaped(value)}" for name, value in parse_overrides(overrides).items()]


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
