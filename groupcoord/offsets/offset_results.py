"""The results of commands over committed offsets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.logstore.words.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResult:
    errors: Sequence[ErrorCode]  # one for each offset of the command, in its order


class FetchedOffset(NamedTuple):
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResult:
    topics: Sequence[tuple[str, Sequence[FetchedOffset]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResult:
    topics: Sequence[tuple[str, Sequence[tuple[int, ErrorCode]]]]
