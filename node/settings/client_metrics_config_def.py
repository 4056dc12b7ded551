"""The settings of subscriptions to client metrics (ConfigResource CLIENT_METRICS, KIP-714).

Names, defaults, errors and the limits of interval.ms are Apache Kafka 4.3.1's. The expressions of `match` are
Java's in Kafka and RE2's here: RE2 takes a bounded time, but has neither look-ahead nor backreferences.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.groupcoord.topic_regex import TopicRegex
from ottla.logstore.words.config_def import ConfigDef, ConfigScope
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.setting import INT, LIST, setting

ALL_METRICS: Final = "*"
DEFAULT_INTERVAL_MS: Final = 300_000
MIN_INTERVAL_MS: Final = 100
MAX_INTERVAL_MS: Final = 3_600_000
# Our limits on `match`: compiling an expression takes up to a millisecond and 100 KiB.
MAX_MATCH_ENTRIES: Final = 20
MAX_MATCH_CHARS: Final = 4_096

CLIENT_INSTANCE_ID: Final = "client_instance_id"
CLIENT_ID: Final = "client_id"
SOFTWARE_NAME: Final = "client_software_name"
SOFTWARE_VERSION: Final = "client_software_version"
SOURCE_ADDRESS: Final = "client_source_address"
SOURCE_PORT: Final = "client_source_port"
MATCH_PARAMETERS: Final = frozenset(
    {CLIENT_INSTANCE_ID, CLIENT_ID, SOFTWARE_NAME, SOFTWARE_VERSION, SOURCE_ADDRESS, SOURCE_PORT}
)

CLIENT_METRICS_CONFIG_DEF: Final = ConfigDef(
    "client metrics",
    (
        setting(
            "metrics",
            LIST,
            (),
            "The metrics that clients push: prefixes of their names, or * for all of them.",
            scope=ConfigScope.CLUSTER_WIDE,
        ),
        setting(
            "interval.ms",
            INT,
            DEFAULT_INTERVAL_MS,
            "How often a client pushes its metrics, in milliseconds: 100 to 3,600,000.",
            scope=ConfigScope.CLUSTER_WIDE,
        ),
        setting(
            "match",
            LIST,
            (),
            "The clients that push, as NAME=EXPRESSION pairs that all have to match: client_instance_id, "
            "client_id, client_software_name, client_software_version, client_source_address, "
            "client_source_port. Every client if empty.",
            scope=ConfigScope.CLUSTER_WIDE,
        ),
    ),
)


class ClientMetricsConfig(NamedTuple):
    """One subscription: the metrics that clients push, the interval, and the clients that it is for."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: Sequence[tuple[str, str]]  # one of MATCH_PARAMETERS, and an expression for the whole value


def parse_client_metrics_config(texts: Mapping[str, str]) -> ClientMetricsConfig:
    """Return the subscription with these settings; INVALID_CONFIG or INVALID_REQUEST as from Kafka."""
    for name in texts:
        if name not in CLIENT_METRICS_CONFIG_DEF:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name[:200]}")
    for name in ("metrics", "match"):
        if _has_empty_entry(texts.get(name, "")):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Configuration '{name}' values must not be empty.")
    values = CLIENT_METRICS_CONFIG_DEF.parse_all(texts)
    metrics, interval_ms, match = values["metrics"], values["interval.ms"], values["match"]
    assert isinstance(metrics, tuple) and isinstance(interval_ms, int) and isinstance(match, tuple)
    if not MIN_INTERVAL_MS <= interval_ms <= MAX_INTERVAL_MS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval_ms} for interval.ms, interval must be between {MIN_INTERVAL_MS} and "
            f"{MAX_INTERVAL_MS} (1 hour)",
        )
    if len(match) > MAX_MATCH_ENTRIES or sum(map(len, match)) > MAX_MATCH_CHARS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Configuration 'match' may have at most {MAX_MATCH_ENTRIES} values and {MAX_MATCH_CHARS} "
            "characters.",
        )
    return ClientMetricsConfig(metrics, interval_ms, tuple(map(_parse_match, match)))


def check_client_metrics_configs(texts: Mapping[str, str]) -> None:
    """Raise INVALID_CONFIG or INVALID_REQUEST unless a subscription may have these settings."""
    for _, pattern in parse_client_metrics_config(texts).match:
        compile_pattern(pattern)


def compile_pattern(pattern: str) -> TopicRegex:
    """Return an expression of `match`, compiled; INVALID_CONFIG if it is not valid or too large."""
    try:
        return TopicRegex.compile(pattern)
    except KafkaError as error:
        reason = error.__cause__.detail if isinstance(error.__cause__, KafkaError) else error.detail
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pattern[:200]} ({reason})"
        ) from None


def _has_empty_entry(text: str) -> bool:
    """Return True if a list has an empty entry.

    Duplicates are allowed: the parser keeps one of them, as in Kafka.
    """
    trimmed = text.strip()
    return bool(trimmed) and not all(entry.strip() for entry in trimmed.split(","))


def _parse_match(entry: str) -> tuple[str, str]:
    parts = re.sub("=+$", "", entry).split("=")  # Java's split drops empty parts at the end
    if len(parts) != 2 or parts[0].strip() not in MATCH_PARAMETERS:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {entry[:200]}")
    return parts[0].strip(), parts[1].strip()
