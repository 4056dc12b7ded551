"""Guesses of where records begin in the middle of large batches, so that these are walked from many places.

A batch that was never compacted counts its records by their offset deltas. So where a record seems to begin,
followed by one with the next delta, the delta is the number of records before it. Values may look like
records: a place found here is a guess, and is proved as any other walk is (`record_walk`).
"""

from typing import Final

import numpy as np

from ottla.logstore.record import MIN_RECORD_BYTES
from ottla.logstore.words.errors import KafkaError
from ottla.pipeline.columns.varints import (
    NUMBER_OF_PAIR,
    SIZE_OF_PAIR,
    Bytes,
    Int64s,
    read_pairs,
    read_varints,
    read_varlongs,
)

_LANDMARK_INTERVAL: Final = 128
# One guess looks at the bytes of two records of average size; larger ones are few in a fetch anyway.
_MAX_RECORD_BYTES: Final = 2048
# Each zero may be the attributes of a record: with this many, a search costs more than the walk.
_MAX_ZEROS_PER_GUESS: Final = 64


def find_landmarks(content: Bytes, start: int, end: int, count: int) -> tuple[Int64s, Int64s]:
    """Find some of the `count` records from `start` to `end`, and how many precede each; often none.

    Returns their positions and these numbers.
    """
    nothing = np.empty(0, np.int64)
    guesses = count // _LANDMARK_INTERVAL
    average = (end - start) // max(count, 1)
    if guesses < 2 or average > _MAX_RECORD_BYTES:
        return nothing, nothing
    around = start + (end - start) * np.arange(1, guesses, dtype=np.int64) // guesses
    window = np.arange(2 * average + 16)
    guess, column = np.nonzero(content.take(around[:, None] + window, mode="clip") == 0)
    if len(guess) > _MAX_ZEROS_PER_GUESS * guesses:
        return nothing, nothing
    attributes = around[guess] + window[column]
    likely, positions = _with_right_lengths(content, attributes, end)
    try:
        before = _offset_delta(content, attributes[likely])
        after = _offset_delta(content, _following(content, attributes[likely], positions))
    except KafkaError:  # bytes that are no varint where one was expected
        return nothing, nothing
    is_right = (after == before + 1) & (positions > start) & (before > 0) & (before < count)
    _, first = np.unique(guess[likely][is_right], return_index=True)
    positions, before = positions[is_right][first], before[is_right][first]
    if (np.diff(positions) <= 0).any() or (np.diff(before) <= 0).any():
        return nothing, nothing
    return positions, before


def _with_right_lengths(content: Bytes, attributes: Int64s, end: int) -> tuple[Int64s, Int64s]:
    """Return the indices of places after a length that leads to other attributes, and its position."""
    has_long_length = content.take(attributes - 2, mode="clip") >= 0x80
    positions = attributes - 1 - has_long_length
    pairs = read_pairs(content, positions)
    lengths = NUMBER_OF_PAIR.take(pairs)
    is_likely = (positions + SIZE_OF_PAIR.take(pairs) == attributes) & (lengths >= MIN_RECORD_BYTES - 1)
    likely = np.flatnonzero(is_likely & (attributes + lengths < end))
    next_attributes = _following(content, attributes[likely], positions[likely])
    likely = likely[content.take(next_attributes, mode="clip") == 0]
    return likely, positions[likely]


def _following(content: Bytes, attributes: Int64s, positions: Int64s) -> Int64s:
    """Return the position of the next record's attributes, if its length takes one byte or two."""
    following = attributes + NUMBER_OF_PAIR.take(read_pairs(content, positions))
    return following + SIZE_OF_PAIR.take(read_pairs(content, following))


def _offset_delta(content: Bytes, attributes: Int64s) -> Int64s:
    _, after_timestamp = read_varlongs(content, attributes + 1)
    return read_varints(content, after_timestamp)[0]
