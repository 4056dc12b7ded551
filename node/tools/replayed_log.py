"""Replays an internal log into its state, as a node does when it starts.

The replay of the metadata log begins with the newest snapshot at or below the wanted offset; that of a
coordinator's log begins at its start. Files are only read. Memory is bounded by the size of a segment and of
the state.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ottla.groupcoord import shard_load
from ottla.groupcoord.group_records import OFFSETS_TOPIC
from ottla.groupcoord.offsets.offset_log_scan import OffsetLogScan
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.share_state.share_state_records import SHARE_STATE_TOPIC
from ottla.groupcoord.share_state.share_state_scan import ShareStateScan
from ottla.groupcoord.share_state.share_state_shard import ShareStateShard
from ottla.groupcoord.transactions import transaction_scan
from ottla.groupcoord.transactions.transaction_records import TRANSACTIONS_TOPIC
from ottla.groupcoord.transactions.transaction_scan import TransactionScan
from ottla.groupcoord.transactions.transaction_shard import TransactionShard
from ottla.logstore.record_batch import check_batch
from ottla.logstore.words.errors import KafkaError
from ottla.metadata_raft.delta import MetadataDelta
from ottla.metadata_raft.image import METADATA_TOPIC, MetadataImage
from ottla.metadata_raft.record_codec import decode_batch
from ottla.metadata_raft.snapshot import decode_snapshot
from ottla.node.settings.config import BrokerConfig, parse_config
from ottla.node.settings.coordinator_configs import (
    coordinator_config,
    share_coordinator_config,
    transaction_config,
)

EVERYTHING: Final = 2**63 - 1
_SEGMENT = re.compile(r"\d{20}\.log")
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")

_TOPICS: Final = (METADATA_TOPIC, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC)

State = MetadataImage | GroupShard | TransactionShard | ShareStateShard


class Replayed(NamedTuple):
    """The state of a log up to `last_offset` (-1: no record), and the problem of the replay, if any."""

    state: State
    last_offset: int
    batches: int
    problem: str | None


class Batch(NamedTuple):
    """A complete batch and its offsets."""

    content: bytes
    base_offset: int
    last_offset: int


class UnreadableError(Exception):
    """A log cannot be read; the text names the file and the byte."""


def internal_topic_of(directory: Path) -> str:
    """Return the internal topic of a directory; UnreadableError if it belongs to none."""
    topic = directory.absolute().name.rpartition("-")[0]
    if topic not in _TOPICS:
        raise UnreadableError(
            f"{directory} is not the directory of a partition of {', '.join(_TOPICS[:-1])} or {_TOPICS[-1]}."
        )
    return topic


def replayed(directory: Path, *, until: int = EVERYTHING) -> Replayed:
    """Return the state after the batch with the offset `until`, or after the last readable one."""
    load = {
        METADATA_TOPIC: _metadata,
        OFFSETS_TOPIC: _groups,
        TRANSACTIONS_TOPIC: _transactions,
        SHARE_STATE_TOPIC: _share_states,
    }
    return load[internal_topic_of(directory)](directory, until)


def batches(directory: Path, *, begin: int = 0) -> Iterator[Batch]:
    """Yield the batches of a log from an offset on; UnreadableError at the first broken one."""
    segments = sorted(path for path in directory.iterdir() if _SEGMENT.fullmatch(path.name))
    for path in segments:
        content, position = path.read_bytes(), 0
        while position < len(content):
            try:
                header = check_batch(content, position)
            except KafkaError as error:
                raise UnreadableError(f"{path} is broken at byte {position}: {error.detail}") from None
            end = position + header.size_bytes
            if header.next_offset > begin:
                yield Batch(content[position:end], header.base_offset, header.next_offset - 1)
            position = end


# ---- metadata ------------------------------------------------------------------------------------


def _metadata(directory: Path, until: int) -> Replayed:
    image, count, problem = _snapshot(directory, until), 0, None
    try:
        for batch in batches(directory, begin=image.version + 1):
            if batch.base_offset > until:
                break
            if batch.base_offset != image.version + 1:
                raise UnreadableError(
                    f"Offset {batch.base_offset} comes after offset {image.version} in {directory}."
                )
            decoded, _ = decode_batch(batch.content)
            delta = MetadataDelta(image)
            for record in decoded.records:
                delta.replay(record)
            # A control batch also takes an offset, but changes nothing else.
            image = delta.apply(
                version=batch.last_offset, epoch=decoded.epoch, timestamp_ms=decoded.timestamp_ms
            )
            count += 1
    except UnreadableError as error:
        problem = str(error)
    except (KafkaError, AssertionError) as error:
        problem = f"The batch at offset {image.version + 1} cannot be replayed: {error}"
    return Replayed(image, image.version, count, problem)


def _snapshot(directory: Path, until: int) -> MetadataImage:
    """Return the newest valid snapshot at or below the offset `until`, or an empty image if there is none."""
    found = sorted(directory.iterdir(), reverse=True)
    for path in found:
        match = _SNAPSHOT.fullmatch(path.name)
        if match is None or int(match[1]) - 1 > until:
            continue
        try:
            return decode_snapshot(
                path.read_bytes(), empty=MetadataImage(), version=int(match[1]) - 1, epoch=int(match[2])
            )
        except KafkaError:
            continue  # as in a node: an older snapshot and more of the log give the same state
    return MetadataImage()


# ---- coordinators --------------------------------------------------------------------------------


def _groups(directory: Path, until: int) -> Replayed:
    scan = OffsetLogScan()
    scanned_log = _feed(directory, until, scan.feed)
    scanned = scan.finish()
    shard = GroupShard(coordinator_config(_defaults()), lambda: "")
    shard_load.load_shard(scanned, shard)
    return _checked(shard, scanned_log, scanned.unreadable.first)


def _transactions(directory: Path, until: int) -> Replayed:
    scan = TransactionScan()
    scanned_log = _feed(directory, until, scan.feed)
    scanned = scan.finish()
    shard = TransactionShard(transaction_config(_defaults()), level=2, coordinator_epoch=0)
    transaction_scan.load_shard(scanned, shard)
    return _checked(shard, scanned_log, scanned.unreadable.first)


def _share_states(directory: Path, until: int) -> Replayed:
    config = share_coordinator_config(_defaults())
    scan = ShareStateScan(ShareStateShard(config, partitions_of=lambda topic_id: 0))
    scanned_log = _feed(directory, until, scan.feed)
    shard, unreadable = scan.finish()
    return _checked(shard, scanned_log, unreadable.first)


class _Scanned(NamedTuple):
    last_offset: int
    batches: int
    problem: str | None


def _feed(directory: Path, until: int, feed: Callable[[bytes], int]) -> _Scanned:
    last_offset, count = -1, 0
    try:
        for batch in batches(directory):
            if batch.base_offset > until:
                break
            feed(batch.content)
            last_offset, count = batch.last_offset, count + 1
    except UnreadableError as error:
        return _Scanned(last_offset, count, str(error))
    except (KafkaError, AssertionError) as error:
        return _Scanned(
            last_offset, count, f"The batch after offset {last_offset} cannot be replayed: {error}"
        )
    return _Scanned(last_offset, count, None)


def _checked(
    shard: GroupShard | TransactionShard | ShareStateShard, scanned_log: _Scanned, unreadable: Sequence[str]
) -> Replayed:
    problem = scanned_log.problem or next(iter(unreadable), None)
    try:
        shard.check_invariants()
    except AssertionError as error:
        problem = problem or f"The replayed state contradicts itself: {error}"
    return Replayed(shard, scanned_log.last_offset, scanned_log.batches, problem)


def _defaults() -> BrokerConfig:
    """Return default settings: a state that is replayed from records does not depend on them."""
    return parse_config({"log.dirs": "unused"})
