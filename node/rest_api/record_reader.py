"""Records out of partitions in rounds, with the place behind each: what a page and a live tail are made of.

The records of a round come by time across partitions, and in the order of the log within one. The place is
told after each record, so that a reader who stops anywhere goes on there.
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
    """A record and where it was."""

    partition: TopicPartition
    record: Record


def in_short_rounds(client: Client, *, read_committed: bool) -> Consumer:
    """Return a consumer for a `RecordReader`: a round is short, and goes on where partitions are away."""
    return Consumer(client, read_committed=read_committed, limits=SHORT_ROUNDS, gives_up=False)


class RecordReader:
    """`places` says where each partition goes on, after every record that was taken."""

    def __init__(self, consumer: Consumer, places: Mapping[TopicPartition, int]) -> None:
        self.places = dict(places)
        self._consumer = consumer

    async def round(
        self, ends: Mapping[TopicPartition, int] | None = None, deadline: Deadline | None = None
    ) -> Iterator[Found]:
        """The next records, those before `ends` alone; KafkaError as of Consumer.

        Of partitions that have reached their end nothing is asked. When all of the round was taken, `places`
        is behind it, also where it had nothing to show, as markers of transactions; never behind an end.
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
        # As they are taken: a round of many partitions is no work of one turn.
        each = [map(partial(Found, one), records) for one, records in fetched.items()]
        for found in heapq.merge(*each, key=lambda one: one.record.timestamp):
            partition, record = found
            if ends is None or record.offset < ends[partition]:
                self.places[partition] = record.offset + 1
                yield found
        # What came meanwhile behind an end was not shown, and is for whoever goes on there.
        self.places |= {
            one: place if ends is None else min(place, ends[one]) for one, place in positions.items()
        }

    @property
    def problems(self) -> Mapping[TopicPartition, KafkaError]:
        """Why the last round had nothing of these partitions; it is tried again in the next."""
        return self._consumer.problems

    def skip_to(self, first: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
        """Pass over what was deleted before it was read; from and to, of each that was behind."""
        skipped = {
            one: (place, first[one]) for one, place in self.places.items() if place < first.get(one, 0)
        }
        self.places |= {one: to for one, (_, to) in skipped.items()}
        return skipped
