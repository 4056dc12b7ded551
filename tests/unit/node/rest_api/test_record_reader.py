"""Rounds of records, and the offsets after them, with fake responses of the leaders."""

import asyncio
from collections.abc import Mapping
from typing import cast

from ottla.logstore.record import Record
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.consumer import Consumer
from ottla.node.client.deadline import Deadline
from ottla.node.rest_api.record_reader import RecordReader

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class FakeConsumer:
    """A consumer whose partitions hold records up to these ends, all of which it returns in one round."""

    def __init__(self, ends: Mapping[TopicPartition, int]) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self._ends = ends

    async def fetch(self, deadline: Deadline | None = None) -> list[tuple[TopicPartition, list[Record]]]:
        found = [
            (one, [Record(offset, offset, None, b"") for offset in range(place, self._ends[one])])
            for one, place in self.positions.items()
        ]
        self.positions = {one: self._ends[one] for one in self.positions}
        return found


def read(reader: RecordReader, ends: Mapping[TopicPartition, int] | None) -> list[tuple[int, int]]:
    """Return the partition and offset of each record of a round."""
    return [(one.partition.partition, one.record.offset) for one in asyncio.run(reader.round(ends))]


def reader_of(consumer: FakeConsumer, places: Mapping[TopicPartition, int]) -> RecordReader:
    return RecordReader(cast(Consumer, consumer), places)


def test_records_behind_the_end_are_left_for_the_next_read() -> None:
    reader = reader_of(FakeConsumer({A: 5, B: 2}), {A: 0, B: 0})

    first = read(reader, {A: 3, B: 1})

    assert first == [(0, 0), (1, 0), (0, 1), (0, 2)]
    assert reader.places == {A: 3, B: 1}
    assert read(reader, {A: 5, B: 2}) == [(1, 1), (0, 3), (0, 4)]


def test_a_tail_goes_on_behind_all_that_it_was_given() -> None:
    reader = reader_of(FakeConsumer({A: 5}), {A: 3})

    assert read(reader, None) == [(0, 3), (0, 4)]
    assert reader.places == {A: 5}
