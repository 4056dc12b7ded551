"""The subscriptions in the metadata: the metrics that clients should push, and the interval (KIP-714)."""

import logging
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.groupcoord.topic_regex import TopicRegex
from ottla.logstore.words.errors import KafkaError
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.records import ConfigResourceType
from ottla.node.settings.client_metrics_config_def import (
    ALL_METRICS,
    DEFAULT_INTERVAL_MS,
    ClientMetricsConfig,
    compile_pattern,
    parse_client_metrics_config,
)

log = logging.getLogger(__name__)
_MASK: Final = 0xFFFF_FFFF
_MAX_NAMED: Final = 3  # in a line of the log
_MAX_CHARS: Final = 300


class Wanted(NamedTuple):
    """The subscription of one client: prefixes of metric names, `*` for all metrics, empty for none."""

    metrics: tuple[str, ...]
    interval_ms: int
    subscription_id: int


class Subscriptions:
    """The subscriptions of the cluster; `version` grows with each change."""

    def __init__(self) -> None:
        self.version = 0
        self._by_name: dict[str, ClientMetricsConfig] = {}
        self._expressions: dict[str, TopicRegex | None] = {}  # compiled on first use

    def update(self, image: MetadataImage, changed: Iterable[tuple[int, str]]) -> None:
        """Apply the changes of those `changed` resources that are subscriptions."""
        kind = ConfigResourceType.CLIENT_METRICS
        for name in [name for number, name in changed if number == kind]:
            self.version += 1
            texts = image.configs.of(kind, name)
            self._by_name.pop(name, None)
            if texts:
                try:
                    self._by_name[name] = parse_client_metrics_config(texts)
                except KafkaError as error:  # written by a release that allowed more
                    log.warning("The client metrics subscription %s is not used: %s", name, error.detail)
        used = {pattern for one in self._by_name.values() for _, pattern in one.match}
        self._expressions = {key: one for key, one in self._expressions.items() if key in used}

    def wanted_of(self, instance_id: bytes, client: Mapping[str, str | None]) -> Wanted:
        """Return the subscription of a client with these properties, which `match` is compared with."""
        matching = [one for one in self._by_name.values() if self._matches(one, client)]
        # Longer intervals than the default are honoured; Kafka uses at most the default of five minutes.
        interval_ms = min((one.interval_ms for one in matching), default=DEFAULT_INTERVAL_MS)
        metrics = {name for one in matching for name in one.metrics}
        if ALL_METRICS in metrics:
            metrics = {ALL_METRICS}
        names = tuple(sorted(metrics))
        return Wanted(names, interval_ms, _subscription_id(names, interval_ms, instance_id))

    def _matches(self, one: ClientMetricsConfig, client: Mapping[str, str | None]) -> bool:
        for name, pattern in dict(one.match).items():
            value, expression = client.get(name), self._expression(pattern)
            if value is None or expression is None or not expression.matches(value):
                return False
        return True

    def _expression(self, pattern: str) -> TopicRegex | None:
        if pattern not in self._expressions:
            try:
                self._expressions[pattern] = compile_pattern(pattern)
            except KafkaError as error:
                names = [name for name, one in self._by_name.items() if pattern in dict(one.match).values()]
                named = ", ".join(sorted(names)[:_MAX_NAMED])[:_MAX_CHARS]
                log.warning("The client metrics subscription %s matches no client: %s", named, error.detail)
                self._expressions[pattern] = None
        return self._expressions[pattern]


def _subscription_id(metrics: tuple[str, ...], interval_ms: int, instance_id: bytes) -> int:
    """Return KIP-714's subscription id, a checksum of metrics, interval and client.

    Every node computes the same one, so a client can continue at another node.
    """
    checksum: int = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode())
    mixed = int.from_bytes(instance_id[:8]) ^ int.from_bytes(instance_id[8:])
    number = checksum ^ (mixed >> 32) ^ (mixed & _MASK)  # Java's hash of a UUID
    return number - (1 << 32) if number >> 31 else number
