"""Finds the offset from which a partition has its newest N records, counting only those a consumer sees.

Not every offset has a record: some have a marker of a transaction or an aborted record, or were compacted. So
the search reads backwards from the end in windows that grow, until it has counted N records in each
partition, reached the start of the log, or run out of time. If a partition may have fewer records from the
offset on, the caller gets the reason.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.cluster_client import Client
from ottla.node.client.consumer import SHORT_ROUNDS, Consumer

# Records per partition. For a larger N offsets are counted instead: reading so many records twice takes long.
MAX_COUNTED: Final = 10_000
GROWTH: Final = 4  # of a window that had too few records
ROUND_S: Final = 5.0  # for a leader to answer: a member of a group sends no heartbeat meanwhile


class Span(NamedTuple):
    """The first offset of a partition, and the offset after its last one."""

    first: int
    end: int


class Shortfall(Enum):
    """The reason why a partition may have fewer than N records from the result on, and more before it."""

    DEADLINE = "deadline"  # the deadline was over, or the caller ended the search
    COUNTED = "counted"  # N is above MAX_COUNTED, so offsets were counted
    UNAVAILABLE = "unavailable"  # the partition could not be read


class Newest(NamedTuple):
    """The offset from which the newest records of a partition are read."""

    offset: int
    shortfall: Shortfall | None


class _Search:
    """The progress of the search in one partition."""

    __slots__ = ("first", "found", "missing", "offset", "searched_to", "shortfall", "window")

    def __init__(self, span: Span, count: int) -> None:
        self.first = span.first
        self.missing = count  # records that are not found yet
        self.window = count
        self.searched_to = span.end  # the records from here to the end are counted
        self.offset = max(span.first, span.end - count)  # the result if the search ends now
        self.found: deque[int] = deque(maxlen=count)  # the newest offsets of the current window
        self.shortfall: Shortfall | None = None

    @property
    def is_done(self) -> bool:
        return not self.missing or self.searched_to <= self.first

    @property
    def window_start(self) -> int:
        return max(self.first, self.searched_to - self.window)

    def end_window(self) -> None:
        """Count the records of a window that was read to its end, and go on to the one before it."""
        self.missing -= len(self.found)
        self.searched_to = self.window_start
        self.offset = self.found[0] if not self.missing else self.searched_to
        self.window *= GROWTH
        self.found = deque(maxlen=self.missing)

    def outcome(self, shortfall: Shortfall) -> Newest:
        """Return the result so far; `shortfall` is the reason why the search ended, if it was not done."""
        is_short = not self.is_done and self.offset > self.first
        return Newest(self.offset, (self.shortfall or shortfall) if is_short else None)


async def _go_on() -> bool:
    return True


async def newest_offsets(
    client: Client,
    spans: Mapping[TopicPartition, Span],
    count: int,
    *,
    read_committed: bool,
    goes_on: Callable[[], Awaitable[bool]] = _go_on,
) -> dict[TopicPartition, Newest]:
    """Return the offset from which each partition has its newest `count` records, or all that it has.

    The search ends early at the deadline of the client, or when `goes_on`, which is awaited after each round
    of fetches, returns False. KafkaError as in `Consumer.fetch`.
    """
    searches = {one: _Search(span, count) for one, span in spans.items()}
    if count > MAX_COUNTED:
        return {one: search.outcome(Shortfall.COUNTED) for one, search in searches.items()}
    consumer = Consumer(client, read_committed=read_committed, limits=SHORT_ROUNDS, gives_up=False)
    while open_ones := {
        one: search for one, search in searches.items() if not search.is_done and search.shortfall is None
    }:
        if not await _read_windows(client, consumer, open_ones, goes_on):
            break
    return {one: search.outcome(Shortfall.DEADLINE) for one, search in searches.items()}


async def _read_windows(
    client: Client,
    consumer: Consumer,
    searches: Mapping[TopicPartition, _Search],
    goes_on: Callable[[], Awaitable[bool]],
) -> bool:
    """Read one window of each readable partition; return False if the search must end before that."""
    ends = {one: search.searched_to for one, search in searches.items()}
    consumer.positions = {one: search.window_start for one, search in searches.items()}
    while consumer.positions:
        if client.deadline.is_over:
            return False
        for one, records in await consumer.fetch(client.deadline.within(ROUND_S)):
            searches[one].found.extend(record.offset for record in records if record.offset < ends[one])
        if not await goes_on():
            return False
        for one in consumer.problems:
            # An election may take all the time that the other partitions need.
            del consumer.positions[one]
            searches[one].shortfall = Shortfall.UNAVAILABLE
        for one in [one for one, position in consumer.positions.items() if position >= ends[one]]:
            del consumer.positions[one]
            searches[one].end_window()
    return True
