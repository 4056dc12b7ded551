"""Where the newest N records of partitions begin, counting only what a reader sees.

An offset is no record where a marker of a transaction, an aborted record or a compacted gap lies. So the
search reads backwards from the end in windows that grow, until it has counted N in each partition, has met
the start of the log, or has no time left.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from logstore.topic_partition import TopicPartition
from node.client.cluster_client import Client
from node.client.consumer import SHORT_ROUNDS, Consumer

# Records of each partition. Of more than these, offsets are counted: reading them twice takes long.
MAX_COUNTED: Final = 10_000
GROWTH: Final = 4  # of a window that had too few


class Span(NamedTuple):
    """The offsets of a partition: its first, and the one behind its last."""

    first: int
    end: int


class _Search:
    """How far one partition was searched."""

    __slots__ = ("first", "found", "place", "searched_to", "wanted", "window")

    def __init__(self, span: Span, count: int) -> None:
        self.first = span.first
        self.wanted = count
        self.window = count
        self.searched_to = span.end  # all from here to the end was counted
        self.place = max(span.first, span.end - count)  # where there is no time to look
        self.found: deque[int] = deque(maxlen=count)  # offsets in the window under way, the newest of them

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


async def newest_offsets(
    client: Client, spans: Mapping[TopicPartition, Span], count: int, *, read_committed: bool
) -> dict[TopicPartition, int]:
    """Return the offset from which each partition has its newest `count` records, or all that it has.

    With more than MAX_COUNTED, and where the deadline of the client ends the search, it is the offset from
    which they are at least looked for: some may be missing. KafkaError as of Consumer.
    """
    searches = {one: _Search(span, count) for one, span in spans.items()}
    if 0 < count <= MAX_COUNTED:
        consumer = Consumer(client, read_committed=read_committed, limits=SHORT_ROUNDS, gives_up=False)
        while open_ones := {one: search for one, search in searches.items() if not search.is_done}:
            if not await _read_windows(client, consumer, open_ones):
                break
    return {one: search.place for one, search in searches.items()}


async def _read_windows(
    client: Client, consumer: Consumer, searches: Mapping[TopicPartition, _Search]
) -> bool:
    """Read one window of each; False if a partition cannot be read, or there is no time for all of it."""
    ends = {one: search.searched_to for one, search in searches.items()}
    consumer.positions = {one: search.window_start for one, search in searches.items()}
    while consumer.positions:
        if client.deadline.is_over:
            return False
        for one, records in await consumer.fetch(client.deadline):
            searches[one].found.extend(record.offset for record in records if record.offset < ends[one])
        if consumer.problems:
            return False
        for one in [one for one, position in consumer.positions.items() if position >= ends[one]]:
            del consumer.positions[one]
            searches[one].end_window()
    return True
