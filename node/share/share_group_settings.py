"""The settings of a share group at the leaders of partitions: its own within the node's limits, or else the
node's.
"""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.logstore.partition_log import FetchIsolation
from ottla.logstore.words.config_def import ConfigValue
from ottla.node.counters.share_counters import DeadLetterCounts
from ottla.node.settings.group_config_def import (
    COPIES_RECORDS,
    DEAD_LETTER_TOPIC,
    GROUP_CONFIG_DEF,
    RETRY_BACKOFF,
    RETRY_BACKOFF_MAX,
)
from ottla.node.share.repeated_line import RepeatedLine
from ottla.node.share.share_words import ShareConfig

_EARLIEST: Final = "earliest"
_DURATION: Final = re.compile(
    r"by_duration:\+?P(?:\+?(\d+)D)?(?:T(?:\+?(\d+)H)?(?:\+?(\d+)M)?(?:\+?(\d+)(?:[.,](\d*))?S)?)?",
    re.IGNORECASE,
)
_SECONDS: Final = (86_400, 3_600, 60, 1)
# Groups whose settings are remembered, so that a lookup does not parse them again.
_MAX_REMEMBERED: Final = 1_000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetReset:
    """The start of a group in a partition that it has not read; by default the end of the log."""

    is_earliest: bool = False
    duration_ms: int | None = None  # the time before now from which it starts


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSettings:
    """The topic of a group's dead letters; with `copies_records` they have the contents of the records."""

    topic: str
    copies_records: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupSettings:
    """The settings of one group."""

    config: ShareConfig
    isolation: FetchIsolation
    offset_reset: OffsetReset
    dead_letters: DeadLetterSettings | None = None


class ShareGroupConfigs:
    """The settings of share groups: `configs` returns a group's own, `values` the node's for all others."""

    def __init__(
        self,
        values: Callable[[], Mapping[str, ConfigValue]],
        configs: Callable[[str], Mapping[str, str]],
        *,
        has_dead_letters: Callable[[], bool] = lambda: True,
        counts: Callable[[str], DeadLetterCounts] = lambda group: DeadLetterCounts(),
        now_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        """`has_dead_letters` returns True if all nodes of the cluster support dead letters. If not, no group
        has any, and `counts` of a group counts the records archived without the letters that it asks for.
        """
        self._values = values
        self._has_dead_letters = has_dead_letters
        self._had_dead_letters = has_dead_letters()
        self._configs = configs
        self._known: Mapping[str, ConfigValue] = values()
        self._settings: dict[str, tuple[Mapping[str, str], ShareGroupSettings]] = {}
        self._counts = counts
        self._now_ms = now_ms
        self._ignored = RepeatedLine()

    def __call__(self, group: str) -> ShareGroupSettings:
        values, own = self._values(), self._configs(group)
        has_dead_letters = self._has_dead_letters()
        if values is not self._known or has_dead_letters is not self._had_dead_letters:
            self._known, self._had_dead_letters, self._settings = values, has_dead_letters, {}
        name = group if own else ""
        found = self._settings.get(name)
        if found is None or found[0] is not own:
            if len(self._settings) >= _MAX_REMEMBERED:
                self._settings.clear()
            counts = None if has_dead_letters else self._counts(group)
            found = self._settings[name] = own, share_group_settings(values, own, ignored=counts)
        settings = found[1]
        if settings.config.ignored is not None and self._ignored.note(self._now_ms()):
            log.error(
                "Share group %r has %s, but dead letters need share.version 2, and the cluster has a lower "
                "one: %d of its records were archived without dead letters since this node started. When all "
                "nodes have been upgraded, raise it with kafka-features upgrade --feature share.version=2. "
                "`ottla doctor` names all such groups.",
                *(group[:100], DEAD_LETTER_TOPIC, settings.config.ignored.ignored),
            )
        return settings


def share_group_settings(
    node: Mapping[str, ConfigValue], own: Mapping[str, str], *, ignored: DeadLetterCounts | None = None
) -> ShareGroupSettings:
    """Return the effective settings of a group with its `own` settings at a node.

    If no group may have dead letters, `ignored` counts the records that should have some.
    """
    committed = _text(own, "share.isolation.level") == "read_committed"
    renews = GROUP_CONFIG_DEF.parse(
        "share.renew.acknowledge.enable", own.get("share.renew.acknowledge.enable", "true")
    )
    wanted = own.get(DEAD_LETTER_TOPIC, "").strip()
    topic = wanted if ignored is None else ""
    copies = GROUP_CONFIG_DEF.parse(COPIES_RECORDS, own.get(COPIES_RECORDS, "false")) is True
    backoff_ms, backoff_max_ms = _own_number(own, RETRY_BACKOFF), _own_number(own, RETRY_BACKOFF_MAX)
    return ShareGroupSettings(
        config=ShareConfig(
            record_lock_duration_ms=_number(node, own, "record.lock.duration.ms"),
            delivery_count_limit=_number(node, own, "delivery.count.limit"),
            partition_max_record_locks=_number(node, own, "partition.max.record.locks"),
            renew_acknowledge_enable=renews is True,
            # As in Kafka's clients, a maximum below the back-off limits the back-off.
            retry_backoff_ms=min(backoff_ms, backoff_max_ms),
            retry_backoff_max_ms=backoff_max_ms,
            sets_aside=bool(topic),
            ignored=ignored if wanted else None,
        ),
        isolation=FetchIsolation.TXN_COMMITTED if committed else FetchIsolation.HIGH_WATERMARK,
        offset_reset=parse_offset_reset(_text(own, "share.auto.offset.reset")),
        dead_letters=DeadLetterSettings(topic=topic, copies_records=copies) if topic else None,
    )


def parse_offset_reset(text: str) -> OffsetReset:
    """Parse the value of `share.auto.offset.reset`, which was checked when it was set."""
    if text == _EARLIEST:
        return OffsetReset(is_earliest=True)
    found = _DURATION.fullmatch(text)
    if found is None:
        return OffsetReset()
    *whole, fraction = found.groups()
    seconds = sum(int(part or 0) * size for part, size in zip(whole, _SECONDS, strict=True))
    return OffsetReset(duration_ms=seconds * 1_000 + int((fraction or "0")[:3].ljust(3, "0")))


def _text(own: Mapping[str, str], name: str) -> str:
    default = GROUP_CONFIG_DEF.key(name).default
    return own.get(name, default if isinstance(default, str) else "")


def _own_number(own: Mapping[str, str], name: str) -> int:
    """Return a number for which nodes have no setting."""
    default = GROUP_CONFIG_DEF.key(name).default
    value = GROUP_CONFIG_DEF.parse(name, own[name]) if name in own else default
    assert isinstance(value, int), name
    return value


def _number(node: Mapping[str, ConfigValue], own: Mapping[str, str], name: str) -> int:
    """Return a number within the node's limits, which may have moved since it was set for the group."""
    text = own.get(f"share.{name}")
    value = node[f"group.share.{name}"] if text is None else GROUP_CONFIG_DEF.parse(f"share.{name}", text)
    low, high = node[f"group.share.min.{name}"], node[f"group.share.max.{name}"]
    assert isinstance(value, int) and isinstance(low, int) and isinstance(high, int), name
    return min(max(value, low), high)
