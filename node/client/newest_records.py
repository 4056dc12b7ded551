"""Where the newest N records of partitions begin, counting only what a reader sees.

An offset is no record where a marker of a transaction, an aborted record or a compacted gap lies. So the
search reads backwards from the end in windows that grow, until it has counted N in each partition, has met
the start of the log, or has no time left. Whoever asks is told of each partition where it fell short.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.cluster_client import Client
from ottla.node.client.consumer import SHORT_ROUNDS, Consumer

# Records of each partition. Of more than these, offsets are counted: reading them twice takes long.
MAX_COUNTED: Final = 10_000
GROWTH: Final = 4  # of a window that had too few
ROUND_S: Final = 5.0  # for a leader to answer: meanwhile a member of a group is not heard


class Span(NamedTuple):
    """The offsets of a partition: its first, and the one behind its last."""

    first: int
    end: int


class Shortfall(Enum):
    """Why there may be fewer than N records from a place on, though the log has more."""

    DEADLINE = "deadline"  # the search had no more time
    COUNTED = "counted"  # N is above MAX_COUNTED, so offsets were counted
    UNAVAILABLE = "unavailable"  # the partition could not be read


class Newest(NamedTuple):
    """From which offset the newest records of a partition are read."""

    offset: int
    shortfall: Shortfall | None


class _Search:
    """How far one partition was searched."""

    __slots__ = ("first", "found", "place", "searched_to", "shortfall", "wanted", "window")

    def __init__(self, span: Span, count: int) -> None:
        self.first = span.first
        self.wanted = count
        self.window = count
        self.searched_to = span.end  # all from here to the end was counted
        self.place = max(span.first, span.end - count)  # where there is no time to look
        self.found: deque[int] = deque(maxlen=count)  # offsets in the window under way, the newest of them
        self.shortfall: Shortfall | None = None

    @property
    def is_done(self) -> bool:
        return not self.wanted or self.searched_to <= self.first

    @property
    def window_start(self) -> int:
        return max(self.first, self.searched_to - self.window)

    def end_window(self) -> None:
        """Take over what a whole window had."""
        self.wanted -= len(self.found)
        self.searched_to = self.window_start
        self.place = self.found[0] if not self.wanted else self.searched_to
        self.window *= GROWTH
        self.found = deque(maxlen=self.wanted)

    def outcome(self, shortfall: Shortfall) -> Newest:
        """Return the place; `shortfall` is why a search that is not done has ended."""
        is_short = not self.is_done and self.place > self.first
        return Newest(self.place, (self.shortfall or shortfall) if is_short else None)


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
    """Return from where each partition has its newest `count` records, or all that it has.

    What may have fewer than that says why: the deadline of the client was over, or `goes_on`, which is
    awaited after each round of fetches, said no. KafkaError as of Consumer.
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
    """Read one window of each that can be read; False if there is no time for all of it."""
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
            # An election may take all the time that the others need.
            del consumer.positions[one]
            searches[one].shortfall = Shortfall.UNAVAILABLE
        for one in [one for one, position in consumer.positions.items() if position >= ends[one]]:
            del consumer.positions[one]
            searches[one].end_window()
    return True
