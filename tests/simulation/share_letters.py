"""The dead letters of a share group at the end of a run, compared with the actions of members and leaders.

A record whose rejection was answered has one dead letter, and so has a record that a leader archived with
one. No record has two, and none has one without a rejection or the last possible delivery. After a reset of
its offsets, a group may reject a record again.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.logstore.record import Record
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.wire.dead_letter_headers import DELIVERY_COUNT, GROUP, MESSAGE, OFFSET, PARTITION, TOPIC
from tests.simulation.share_history import REJECT, ShareHistory
from tests.simulation.share_traits import Traits
from tests.simulation.sim_client import EARLIEST, SimClient, pause
from tests.simulation.virtual_loop import SimulationError
from tests.simulation.world import World

REJECTED: Final = b"Offset rejected by client."
LIMIT_REACHED: Final = b"Offset delivery count exceeded the threshold."


class Letter(NamedTuple):
    """A dead letter, as its headers describe it."""

    partition: TopicPartition
    offset: int
    group: str
    delivery_count: int
    message: bytes
    value: bytes | None


async def read_letters(
    world: World, client: SimClient, chance: random.Random, partition: TopicPartition, *, limit_s: float
) -> list[Letter]:
    """Return all dead letters in a partition of their topic."""
    deadline_s = world.loop.now_s + limit_s
    letters: list[Letter] = []
    offset = -1
    while True:
        try:
            if offset < 0:
                offset = await client.list_offset(partition, EARLIEST)
            fetched = await client.fetch(partition, offset, max_wait_ms=0)
        except KafkaError as error:
            if world.loop.now_s > deadline_s:
                raise SimulationError(f"{partition} cannot be read after recovery: {error}") from error
            client.forget_leader(partition)
            await pause(chance)
            continue
        for record in fetched.records:
            letters.append(_letter(record))
            offset = record.offset + 1
        if offset >= fetched.high_watermark:
            return letters
        if world.loop.now_s > deadline_s:
            raise SimulationError(f"{partition} returns no records at {offset} of {fetched.high_watermark}")


def _letter(record: Record) -> Letter:
    headers = {name: value or b"" for name, value in record.headers}
    return Letter(
        TopicPartition(headers[TOPIC].decode(), int(headers[PARTITION])),
        int(headers[OFFSET]),
        headers[GROUP].decode(),
        int(headers[DELIVERY_COUNT]),
        headers[MESSAGE],
        record.value,
    )


def check_letters(
    history: ShareHistory,
    traits: Traits,
    letters: Sequence[Letter],
    contents: Mapping[TopicPartition, Mapping[int, bytes]],
) -> None:
    """Compare with the rejected, spent and archived records; `contents` are the records that are left."""
    for letter in letters:
        _check_letter(history, traits, letter, contents)
    found = Counter((one.partition, one.offset) for one in letters)
    for (partition, offset), count in found.items():
        if count > 1 + history.generation_of(partition):
            raise SimulationError(f"{offset} of {partition} has {count} dead letters")
        if history.is_accepted(partition, offset) and not history.generation_of(partition):
            raise SimulationError(f"{offset} of {partition} was accepted, and has a dead letter")
    for partition, values in contents.items():
        owed = history.owed_letters(partition)
        missing = sorted(at for at in owed if at in values and not found[partition, at])
        if missing:
            raise SimulationError(f"{missing[:9]} of {partition} have no dead letters, {len(missing)} in all")


def _check_letter(
    history: ShareHistory,
    traits: Traits,
    letter: Letter,
    contents: Mapping[TopicPartition, Mapping[int, bytes]],
) -> None:
    partition, offset = letter.partition, letter.offset
    is_rejected = history.was_sent(partition, offset, REJECT)
    is_limit_reached = history.was_last_delivery(partition, offset)
    if letter.group != history.group or partition not in contents:
        raise SimulationError(f"{letter} belongs to no record of {history.group}")
    if not (
        is_rejected if letter.message == REJECTED else is_limit_reached and letter.message == LIMIT_REACHED
    ):
        raise SimulationError(
            f"{letter}: rejected: {is_rejected}, delivered for the last time: {is_limit_reached}"
        )
    value = contents[partition].get(offset)
    # A letter has no copy if its record was deleted, or compacted away inside its batch.
    if letter.value is not None and (not traits.copies_records or value not in (None, letter.value)):
        raise SimulationError(f"{letter} is a copy of {value!r}")
