"""Murmur2 of many keys at once, as Kafka's Java producer computes it: 32 bits, seed 0x9747b28c."""

import struct
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ottla.pipeline.columns.varints import Int64s

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MIX: Final = np.uint32(_MULTIPLIER)
_MASK: Final = 0xFFFFFFFF
_WORD: Final = struct.Struct("<I")
_WORD_BYTES: Final = _WORD.size
# A numpy step costs as much as a word of this many keys in a loop, so fewer long keys are hashed one by one.
_SCALAR_KEYS: Final = 16

UInt32s = NDArray[np.uint32]


def murmur2(keys: pa.BinaryArray) -> UInt32s:
    """Return the hash of each key; that of a null key has no meaning.

    One numpy step takes the next word of each key that has one; keys are sorted by falling length for that.
    """
    offsets = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys) + 1]
    lengths = np.diff(offsets).astype(np.int64)
    by_length = np.argsort(-lengths, kind="stable")
    starts, sizes = offsets[:-1][by_length].astype(np.int64), lengths[by_length]
    content = np.frombuffer(keys.buffers()[2] or b"\0", np.uint8)
    hashes = (sizes ^ _SEED).astype(np.uint32)
    words, rising = sizes // _WORD_BYTES, -(sizes // _WORD_BYTES)
    with np.errstate(over="ignore"):
        for index in range(int(words.max(initial=0))):
            going_on = int(np.searchsorted(rising, -index, side="left"))
            if going_on < _SCALAR_KEYS:
                for row in range(going_on):
                    start = int(starts[row])
                    rest = content[start + _WORD_BYTES * index : start + _WORD_BYTES * int(words[row])]
                    hashes[row] = _hash_on(int(hashes[row]), rest.tobytes())
                break
            word = _mixed(_words(content, starts[:going_on] + _WORD_BYTES * index)) * _MIX
            hashes[:going_on] = hashes[:going_on] * _MIX ^ word
        hashes = _with_tail(hashes, content, starts + _WORD_BYTES * words, sizes % _WORD_BYTES)
        hashes ^= hashes >> np.uint32(13)
        hashes *= _MIX
        hashes ^= hashes >> np.uint32(15)
    in_order = np.empty_like(hashes)
    in_order[by_length] = hashes
    return in_order


def _hash_on(hashed: int, words: bytes) -> int:
    for (word,) in _WORD.iter_unpack(words):
        word = word * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        hashed = hashed * _MULTIPLIER & _MASK ^ word
    return hashed


def _words(content: NDArray[np.uint8], at: Int64s) -> UInt32s:
    word = content.take(at, mode="clip").astype(np.uint32)
    for place in range(1, _WORD_BYTES):
        word |= content.take(at + place, mode="clip").astype(np.uint32) << np.uint32(8 * place)
    return word


def _mixed(word: UInt32s) -> UInt32s:
    word = word * _MIX
    return word ^ word >> np.uint32(24)


def _with_tail(hashes: UInt32s, content: NDArray[np.uint8], at: Int64s, left: Int64s) -> UInt32s:
    """Mix in the one to three bytes after the last word."""
    rows = np.flatnonzero(left)
    mask = (np.uint32(1) << (8 * left[rows]).astype(np.uint32)) - np.uint32(1)
    hashes[rows] = (hashes[rows] ^ (_words(content, at[rows]) & mask)) * _MIX
    return hashes
