"""Schedules the elections that no command requests: soft state of the controller.

Every `leader.imbalance.check.interval.seconds` preferred replicas are elected, if
`auto.leader.rebalance.enable` is on. Every `unclean.leader.election.interval.ms`, and when settings change,
leaderless partitions get a leader if their topic allows an unclean election. Each call checks a limited
number of partitions, so that clients of the controller's node do not wait for it.
"""

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Final

from ottla.metadata_raft.broker_sessions import NEVER
from ottla.metadata_raft.controller_config import ControllerConfig
from ottla.metadata_raft.election_control import MAX_ELECTIONS_AT_ONCE, preferred_elections, unclean_elections
from ottla.metadata_raft.image import MetadataImage, TopicImage
from ottla.metadata_raft.records import MetadataRecord, PartitionChangeRecord

CHECKED_AT_ONCE: Final = 20_000  # partitions: a millisecond


class DueElections:
    """The next time of each kind of election. Changed only by its controller."""

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, now_ms: int) -> None:
        """Start the schedule of a new controller: leaderless partitions at once, others after an interval."""
        self._unclean_at_ms = now_ms
        self._balanced_at_ms = now_ms
        self._unclean = _TopicScan()
        self._preferred = _TopicScan()

    @property
    def is_scanning(self) -> bool:
        """True if a scan of all partitions has begun and is not complete."""
        return not (self._unclean.is_over and self._preferred.is_over)

    def settings_changed(self) -> None:
        """Check for unclean elections at once, since a topic may allow them now."""
        self._unclean_at_ms = 0
        self._unclean = _TopicScan()

    def next_ms(self, config: ControllerConfig) -> int:
        """Return the time from which `due` has something to check."""
        return min(self._unclean_at_ms, self._preferred_at_ms(config))

    def _preferred_at_ms(self, config: ControllerConfig) -> int:
        if not config.auto_leader_rebalance_enable:
            return NEVER
        return self._balanced_at_ms + config.leader_imbalance_check_interval_seconds * 1_000

    def due(self, image: MetadataImage, config: ControllerConfig, now_ms: int) -> list[MetadataRecord]:
        """Return due elections among the partitions that this call checks; later calls check the rest."""
        records: list[MetadataRecord] = []
        if now_ms >= self._unclean_at_ms:
            records += self._unclean.some(image, lambda topic: unclean_elections(image, topic, config))
            if self._unclean.is_over:
                self._unclean_at_ms = now_ms + config.unclean_leader_election_interval_ms
        if now_ms >= self._preferred_at_ms(config) and not records:
            records += self._preferred.some(image, lambda topic: preferred_elections(image, topic))
            if self._preferred.is_over:
                self._balanced_at_ms = now_ms
        return records


class _TopicScan:
    """A scan of all topics, some at a time; it starts again once it is complete."""

    def __init__(self) -> None:
        self._left: Iterator[str] = iter(())
        self.is_over = True

    def some(
        self, image: MetadataImage, elections: Callable[[TopicImage], Iterator[PartitionChangeRecord]]
    ) -> list[PartitionChangeRecord]:
        """Return the records of `elections` for the next topics, at most MAX_ELECTIONS_AT_ONCE."""
        if self.is_over:
            self._left, self.is_over = iter(image.topics.by_name), False
        records: list[PartitionChangeRecord] = []
        checked = 0
        for name in self._left:
            topic = image.topics.by_name.get(name)
            if topic is None:
                continue  # deleted meanwhile
            checked += len(topic.partitions)
            records += islice(elections(topic), MAX_ELECTIONS_AT_ONCE - len(records))
            if len(records) == MAX_ELECTIONS_AT_ONCE:
                self._left = chain([name], self._left)  # it may have more
                return records
            if checked >= CHECKED_AT_ONCE:
                return records
        self.is_over = True
        return records
