"""Records of partitions in rounds, with the offset after each: the basis of pages and live tails.

The records of a round are ordered by time across partitions, and by offset within one. The offset is updated
after each record, so a reader that stops anywhere can continue there.
"""

import heapq
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from ottla.logstore.record import Record
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.cluster_client import Client
from ottla.node.client.consumer import SHORT_ROUNDS, Consumer
from ottla.node.client.deadline import Deadline


class Found(NamedTuple):
    """A record and its partition."""

    partition: TopicPartition
    record: Record


def in_short_rounds(client: Client, *, read_committed: bool) -> Consumer:
    """Return a consumer for a `RecordReader`: with short rounds, and without failing for unavailable
    partitions.
    """
    return Consumer(client, read_committed=read_committed, limits=SHORT_ROUNDS, gives_up=False)


class RecordReader:
    """Reads in rounds; `places` has the next offset of each partition, updated with every record taken."""

    def __init__(self, consumer: Consumer, places: Mapping[TopicPartition, int]) -> None:
        self.places = dict(places)
        self._consumer = consumer

    async def round(
        self, ends: Mapping[TopicPartition, int] | None = None, deadline: Deadline | None = None
    ) -> Iterator[Found]:
        """Return the next records, only those before `ends`; KafkaError as from Consumer.

        Partitions that have reached their end are not fetched. After all records of the round were taken,
        `places` is the end of the round, also past offsets without records to return, such as transaction
        markers, but not past `ends`.
        """
        consumer = self._consumer
        consumer.positions = {
            one: place for one, place in self.places.items() if ends is None or place < ends[one]
        }
        if not consumer.positions:
            return iter(())
        fetched = dict(await consumer.fetch(deadline))
        return self._taken(fetched, dict(consumer.positions), ends)

    def _taken(
        self,
        fetched: Mapping[TopicPartition, list[Record]],
        positions: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int] | None,
    ) -> Iterator[Found]:
        # Lazily: a round of many partitions is too much work for one turn.
        each = [map(partial(Found, one), records) for one, records in fetched.items()]
        for found in heapq.merge(*each, key=lambda one: one.record.timestamp):
            partition, record = found
            if ends is None or record.offset < ends[partition]:
                self.places[partition] = record.offset + 1
                yield found
        # Records beyond an end were not returned, and are left to a reader that continues there.
        self.places |= {
            one: place if ends is None else min(place, ends[one]) for one, place in positions.items()
        }

    @property
    def problems(self) -> Mapping[TopicPartition, KafkaError]:
        """The errors of partitions that the last round could not read; the next round tries them again."""
        return self._consumer.problems

    def skip_to(self, first: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
        """Skip records that were deleted before they were read; return the old and new offset of each
        partition.
        """
        skipped = {
            one: (place, first[one]) for one, place in self.places.items() if place < first.get(one, 0)
        }
        self.places |= {one: to for one, (_, to) in skipped.items()}
        return skipped
