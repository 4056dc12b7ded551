"""The changes that make the target's topics like those of the source."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.pipeline.client.topic_admin import ConfigSource, NewTopic, TopicConfig

Configs = Mapping[str, TopicConfig]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChanges:
    """Changes in the target, by its names; a setting that is None is removed."""

    created: tuple[NewTopic, ...] = ()
    grown: Mapping[str, int] = field(default_factory=dict)
    altered: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)


def partition_changes(
    source: Mapping[str, int],
    target: Mapping[str, int],
    configs: Mapping[str, Configs],
    *,
    excluded: re.Pattern[str],
    replication_factor: int,
) -> TopicChanges:
    """Return the topics that the target lacks, and those with too few partitions there.

    All are by the target's names, with numbers of partitions; `configs` are those of the source's topics. A
    topic with more partitions in the target is left alone: partitions cannot be removed.
    """
    return TopicChanges(
        created=tuple(
            NewTopic(
                name=name,
                partitions_count=count,
                replication_factor=replication_factor,
                configs=own_configs(configs.get(name, {}), excluded),
            )
            for name, count in sorted(source.items())
            if name not in target
        ),
        grown={name: count for name, count in sorted(source.items()) if target.get(name, count) < count},
    )


def config_changes(
    source: Mapping[str, Configs], target: Mapping[str, Configs], *, excluded: re.Pattern[str]
) -> TopicChanges:
    """Return the settings that differ in the target, for topics that are in both, by the target's names.

    Settings of the source's topic itself are set, and others are removed, so that a setting deleted in the
    source does not stay. The defaults of a cluster are its own.
    """
    altered: dict[str, Mapping[str, str | None]] = {}
    for name in sorted(source.keys() & target.keys()):
        wanted, there = own_configs(source[name], excluded), own_configs(target[name], excluded)
        changes: dict[str, str | None] = {
            key: value for key, value in sorted(wanted.items()) if there.get(key) != value
        }
        changes |= dict.fromkeys(sorted(there.keys() - wanted.keys()))
        if changes:
            altered[name] = changes
    return TopicChanges(altered=altered)


def own_configs(configs: Configs, excluded: re.Pattern[str]) -> dict[str, str]:
    """Return the settings that are set for the topic itself and may be copied."""
    return {
        name: one.value
        for name, one in configs.items()
        if one.source is ConfigSource.TOPIC
        and one.value is not None
        and not (one.is_read_only or one.is_sensitive or excluded.fullmatch(name))
    }
