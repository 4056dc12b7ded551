"""Copies topics of the source to the target: new ones, more partitions, settings.

Nothing is ever deleted in the target. `follow` is quick if nothing is new, for it runs before each batch: no
row may go to a topic or a partition that the target does not have yet.
"""

import re
from collections.abc import Mapping
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.pipeline.client.answers import to_error
from ottla.pipeline.client.metadata import Cluster
from ottla.pipeline.client.topic_admin import (
    NewTopic,
    alter_configs,
    create_partitions,
    create_topics,
    describe_configs,
)
from ottla.pipeline.mirror.mirror_options import MirrorOptions
from ottla.pipeline.mirror.topic_changes import Configs, TopicChanges, config_changes, partition_changes

# Each new driver reads the syncs topic from its beginning, so overwritten records should be compacted soon.
_SYNCS_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.ms": "3600000",
    "min.cleanable.dirty.ratio": "0.1",
}


class TopicFollower:
    """Keeps the target's topics like those of the source."""

    def __init__(self, source: Cluster, target: Cluster, options: MirrorOptions) -> None:
        self._source = source
        self._target = target
        self._options = options
        self._pattern = re.compile(options.topics.pattern())
        # number of partitions by the target's name; None: look again
        self._followed: dict[str, int] | None = None

    def prepare(self) -> None:
        """Create the topic for the map of offsets."""
        name = self._options.policy.offset_syncs_topic()
        if name not in self._target.topics([name]):
            topic = NewTopic(
                name=name,
                partitions_count=1,
                replication_factor=self._options.replication_factor,
                configs=_SYNCS_CONFIGS,
            )
            self._change(TopicChanges(created=(topic,)))
            self._wait_for({name: 1})

    def source_topics(self) -> dict[str, str]:
        """Return the topics that are mirrored, as they are now, with their names in the target."""
        return {
            name: self._options.policy.remote_topic(name)
            for name in sorted(self._source.topics_matching(self._pattern))
        }

    def follow(self, *, checks_target: bool = False) -> TopicChanges:
        """Create missing topics and partitions, and return the changes.

        Raises KafkaError, with the topic, for a rejected change. Without `checks_target` the target is asked
        only if the source has changed since the last time.
        """
        policy = self._options.policy
        topics = self._source.topics_matching(self._pattern)
        names = {policy.remote_topic(name): name for name in topics}
        counts = {remote: len(topics[name].leaders) for remote, name in names.items()}
        if counts == self._followed and not checks_target:
            return TopicChanges()
        existing = {name: len(topic.leaders) for name, topic in self._target.topics([*counts]).items()}
        changes = partition_changes(
            counts,
            existing,
            self._source_configs({remote: names[remote] for remote in counts if remote not in existing}),
            excluded=self._options.excluded_configs,
            replication_factor=self._options.replication_factor,
        )
        self._change(changes)
        self._wait_for({topic.name: topic.partitions_count for topic in changes.created} | {**changes.grown})
        self._followed = counts
        return changes

    def sync_configs(self) -> TopicChanges:
        """Copy settings of topics that are in both; a refusal is raised after all others are set."""
        names = {remote: name for name, remote in self.source_topics().items()}
        changes = config_changes(
            self._source_configs(names),
            describe_configs(self._target, [*names]),
            excluded=self._options.excluded_configs,
        )
        self._change(changes)
        return changes

    def _source_configs(self, names: Mapping[str, str]) -> dict[str, Configs]:
        """Return the settings by the target's names; a topic deleted just now is absent."""
        found = describe_configs(self._source, [*names.values()])
        return {remote: found[name] for remote, name in names.items() if name in found}

    def _change(self, changes: TopicChanges) -> None:
        outcomes = [
            # Another process has created it, or this one and the answer was lost; a wrong number of
            # partitions is found later.
            *_refusals(create_topics(self._target, changes.created), ErrorCode.TOPIC_ALREADY_EXISTS),
            *_refusals(create_partitions(self._target, changes.grown), ErrorCode.INVALID_PARTITIONS),
            *_refusals(alter_configs(self._target, changes.altered)),
        ]
        if outcomes:
            raise outcomes[0]

    def _wait_for(self, counts: Mapping[str, int]) -> None:
        """Wait until the asked node knows of them: it may learn of a change later than the controller."""

        def attempt() -> None:
            existing = self._target.topics([*counts])
            for name, count in counts.items():
                if name not in existing or len(existing[name].leaders) < count:
                    raise to_error(ErrorCode.LEADER_NOT_AVAILABLE, f"{count} partitions of topic {name}")

        if counts:
            self._target.retry(attempt)


def _refusals(outcomes: Mapping[str, KafkaError | None], *ignored: ErrorCode) -> list[KafkaError]:
    return [error for error in outcomes.values() if error is not None and error.code not in ignored]
