"""The periodic work of a mirror beside the rows: copying topics, settings and groups (door).

A failed round is reported in the status and repeated after its interval; rows continue meanwhile. Rows need
their topic and partition, which are checked before each batch; a failure there stops the query.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from ottla.logstore.words.errors import KafkaError
from ottla.pipeline.client.clock import monotonic_ms, wall_ms
from ottla.pipeline.client.metadata import TopicGone
from ottla.pipeline.mirror.group_follower import GroupFollower
from ottla.pipeline.mirror.mirror_options import MirrorOptions
from ottla.pipeline.mirror.mirror_status import RoundsStatus, source_cluster, target_cluster
from ottla.pipeline.mirror.topic_follower import TopicFollower
from ottla.pipeline.words import OptionError

LONGEST_WAIT_S: Final = 60


class Progress(Protocol):
    """A batch's progress as Spark reports it."""

    @property
    def batchId(self) -> int: ...

    @property
    def numInputRows(self) -> int: ...


@dataclass(slots=True, kw_only=True)
class _Round:
    """Work that is repeated every `interval_ms`; `due_ms` is on the monotonic clock."""

    name: str
    run: Callable[[], None]
    interval_ms: int
    due_ms: int = 0


class MirrorRounds:
    """The rounds of one mirror, with clients of their own; only one thread at a time may run them."""

    def __init__(self, options: MirrorOptions) -> None:
        self._source = source_cluster(options)
        self._target = target_cluster(options)
        self._topics = TopicFollower(self._source, self._target, options)
        self._groups = GroupFollower(self._source, self._target, options)
        self._rounds: list[_Round] = []
        self.status = RoundsStatus()
        if options.refresh_topics:
            self._add("topics", self._follow_topics, options.refresh_topics_interval_s)
        if options.sync_topic_configs:
            self._add("configs", self._sync_configs, options.sync_topic_configs_interval_s)
        self._group_round: _Round | None = None
        if options.sync_group_offsets:
            self._group_round = self._add("groups", self._sync_groups, options.sync_group_offsets_interval_s)

    def run_due(self) -> None:
        """Run the rounds that are due."""
        for one in self._rounds:
            if monotonic_ms() >= one.due_ms:
                self._run(one)

    def run_groups(self) -> None:
        """Run the round of groups now."""
        if self._group_round is not None:
            self._run(self._group_round)

    def wait_s(self) -> int:
        """Return the time until a round is due in whole seconds, as Spark takes them: 1 to LONGEST_WAIT_S."""
        now_ms = monotonic_ms()
        due_ms = min((one.due_ms for one in self._rounds), default=now_ms + LONGEST_WAIT_S * 1000)
        return min(max((due_ms - now_ms) // 1000, 1), LONGEST_WAIT_S)

    def close(self) -> None:
        """Close all connections."""
        self._source.close()
        self._target.close()

    def _add(self, name: str, run: Callable[[], None], interval_s: int) -> _Round:
        made = _Round(name=name, run=run, interval_ms=interval_s * 1000)
        self._rounds.append(made)
        return made

    def _run(self, one: _Round) -> None:
        problems = {name: text for name, text in self.status.problems.items() if name != one.name}
        try:
            one.run()
        except (KafkaError, TopicGone, OptionError) as error:
            problems[one.name] = str(error)
        one.due_ms = monotonic_ms() + one.interval_ms
        self.status = replace(self.status, problems=problems)

    def _follow_topics(self) -> None:
        self._topics.follow(checks_target=True)
        self.status = replace(self.status, topics_followed_ms=wall_ms())

    def _sync_configs(self) -> None:
        self._topics.sync_configs()
        self.status = replace(self.status, configs_synced_ms=wall_ms())

    def _sync_groups(self) -> None:
        groups = tuple(self._groups.sync())
        self.status = replace(self.status, groups=groups, groups_synced_ms=wall_ms())


class RoundsThread:
    """A thread that runs rounds until `wait`, called with a number of seconds, returns True.

    Then it calls `at_end`, which closes the clients of the query, as that may have ended by itself.
    """

    def __init__(
        self, rounds: MirrorRounds, wait: Callable[[int], bool], *, at_end: Callable[[], None]
    ) -> None:
        self._rounds = rounds
        self._wait = wait
        self._at_end = at_end
        # The process may end without waiting for it: every round may be interrupted anywhere.
        self._thread = threading.Thread(target=self._keep, name="mirror-rounds", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for the end of the thread; it ends by itself."""
        self._thread.join()

    def _keep(self) -> None:
        try:
            while True:
                self._rounds.run_due()
                if self._wait(self._rounds.wait_s()):
                    break
            # Sync the groups once more, with the rows of the last batch.
            self._rounds.run_groups()
        finally:
            self._at_end()


class RowCount:
    """The number of rows of all batches of a query; Spark itself keeps only its last hundred batches.

    Any thread may call it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows = 0
        self._last_batch = -1

    def add(self, progresses: Iterable[Progress]) -> int:
        """Add the rows of batches that were not counted yet, and return the sum."""
        with self._lock:
            for progress in progresses:
                if progress.batchId > self._last_batch:
                    self._last_batch = progress.batchId
                    self._rows += progress.numInputRows
            return self._rows
