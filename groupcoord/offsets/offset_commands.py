"""What is asked of committed offsets, and that a topic is gone: OffsetCommit, OffsetFetch, OffsetDelete."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.groupcoord.request_token import Token
from ottla.logstore.verification import Guard

_POSITION = struct.Struct(">qi")


class OffsetToCommit(NamedTuple):
    """One partition's position, as a member or an administrator wants it kept."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: bytes = bytes(16)


class PackedOffsets(NamedTuple):
    """Positions in one topic, without metadata: what nearly every commit consists of, as it came.

    A position is the offset (int64) and the leader epoch (int32), big-endian.
    """

    topic: str
    topic_id: bytes
    partitions: Sequence[int]
    positions: Sequence[bytes]

    def opened(self) -> Iterator[OffsetToCommit]:
        """Each of them by itself."""
        for partition, position in zip(self.partitions, self.positions, strict=True):
            offset, leader_epoch = _POSITION.unpack(position)
            yield OffsetToCommit(self.topic, partition, offset, leader_epoch, "", self.topic_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommit:
    token: Token
    group_id: str
    generation_id: int  # -1 from outside the group's management
    member_id: str
    group_instance_id: str | None = None
    retention_time_ms: int = -1  # versions 2 to 4: the offset's own retention
    offsets: Sequence[OffsetToCommit | PackedOffsets]
    unknown_group_is_illegal_generation: bool = False  # before version 9


class Producer(NamedTuple):
    """Who writes in a transaction."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommit:
    """Offsets that count when the producer's transaction is committed (KIP-98, KIP-447)."""

    token: Token
    group_id: str
    generation_id: int  # -1 where the producer does not know its consumer
    member_id: str
    group_instance_id: str | None = None
    offsets: Sequence[OffsetToCommit]
    producer: Producer
    guard: Guard | None = None  # for the first batch of the transaction; handed back with its records
    all_is_illegal_generation: bool = False  # before version 6: an unknown group and a stale epoch, too


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """The marker of a transaction was appended to the shard's partition."""

    producer_id: int
    committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetch:
    token: Token
    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]] | None  # topic, partitions; None: all that the group has
    require_stable: bool = False  # KIP-447: not while a transaction may still change the offset
    member_id: str | None = None  # None, and an epoch of -1: from outside the group's management
    member_epoch: int = -1  # of a consumer group; others do not ask
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)  # where topics were named by id: name -> id


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDelete:
    token: Token
    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]]


class StaleOffset(NamedTuple):
    """An offset, with its value's bytes, that was committed for a topic that is gone."""

    group_id: str
    topic: str
    partition: int
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetOffsets:
    """These were committed for topics that were deleted while nobody coordinated their groups."""

    offsets: Sequence[StaleOffset]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetTopics:
    """These topics were deleted: their offsets go too, in these groups, or in all.

    Where it `is_late`, topics of these names may have been made since: their offsets stay.
    """

    topics: frozenset[str]
    group_ids: Sequence[str] | None = None
    is_late: bool = False
