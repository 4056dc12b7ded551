"""The commands over committed offsets: OffsetCommit, OffsetFetch, OffsetDelete, deleted topics."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.groupcoord.request_token import Token
from ottla.logstore.verification import Guard

_POSITION = struct.Struct(">qi")


class OffsetToCommit(NamedTuple):
    """The position in one partition that a member or an administrator commits."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: bytes = bytes(16)


class PackedOffsets(NamedTuple):
    """Positions in one topic without metadata, as nearly every commit has them, in the bytes of the request.

    A position is the offset (int64) and the leader epoch (int32), big-endian (D36).
    """

    topic: str
    topic_id: bytes
    partitions: Sequence[int]
    positions: Sequence[bytes]

    def opened(self) -> Iterator[OffsetToCommit]:
        """Yield each offset by itself."""
        for partition, position in zip(self.partitions, self.positions, strict=True):
            offset, leader_epoch = _POSITION.unpack(position)
            yield OffsetToCommit(self.topic, partition, offset, leader_epoch, "", self.topic_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommit:
    token: Token
    group_id: str
    generation_id: int  # -1 from a client that is not a member
    member_id: str
    group_instance_id: str | None = None
    retention_time_ms: int = -1  # versions 2 to 4: the offset's own retention
    offsets: Sequence[OffsetToCommit | PackedOffsets]
    unknown_group_is_illegal_generation: bool = False  # before version 9


class Producer(NamedTuple):
    """The producer of a transaction."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommit:
    """Offsets that count when the producer's transaction is committed (KIP-98, KIP-447)."""

    token: Token
    group_id: str
    generation_id: int  # -1 if the producer does not know its consumer
    member_id: str
    group_instance_id: str | None = None
    offsets: Sequence[OffsetToCommit]
    producer: Producer
    guard: Guard | None = None  # for the first batch of the transaction; handed back with its records
    all_is_illegal_generation: bool = False  # before version 6: for an unknown group and a stale epoch, too


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """The end of a transaction: its marker was appended to the shard's partition."""

    producer_id: int
    committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetch:
    token: Token
    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]] | None  # topic, partitions; None: all of the group
    require_stable: bool = False  # KIP-447: not while a transaction may still change the offset
    member_id: str | None = None  # None, with an epoch of -1: from a client that is not a member
    member_epoch: int = -1  # of a consumer group; not checked in others
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)  # name -> id, if the request names ids


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDelete:
    token: Token
    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]]


class StaleOffset(NamedTuple):
    """An offset, with the bytes of its value, that was committed for a topic that is gone."""

    group_id: str
    topic: str
    partition: int
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetOffsets:
    """The removal of offsets of topics that were deleted while no coordinator of their groups was loaded."""

    offsets: Sequence[StaleOffset]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetTopics:
    """The removal of the offsets of deleted topics, in these groups, or in all.

    With `is_late`, other topics may have these names by now: offsets of those stay.
    """

    topics: frozenset[str]
    group_ids: Sequence[str] | None = None
    is_late: bool = False
