"""Serves committed metadata to nodes without a vote: batches from memory, or a snapshot in pieces.

A batch is encoded once for all nodes, and responses from the same offset share their bytes. A node that asks
for batches that are no longer in memory gets the name of a snapshot, which is encoded in a thread; the last
ones are kept for nodes that still fetch them. Commits in short succession are sent in one response: with a
hundred nodes waiting, every commit would otherwise be a hundred responses.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer
from ottla.logstore.words.schema_compiler import encoder
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.record_codec import MetadataBatch, encode_batch
from ottla.metadata_raft.snapshot import encode_snapshot
from ottla.node.net.answers import Delayed, EncodedBody, Result
from ottla.node.wire.messages.fetch_metadata import FetchMetadataRequest, FetchMetadataResponse, VoterAddress
from ottla.node.wire.messages.fetch_metadata_snapshot import (
    FetchMetadataSnapshotRequest,
    FetchMetadataSnapshotResponse,
)

MAX_RECORDS: Final = 50_000  # in memory, some 30 MB; a node that is further behind fetches a snapshot
MAX_ANSWER_BYTES: Final = 1024 * 1024
MAX_WAIT_MS: Final = 30_000
MAX_WAITING: Final = 10_000  # nodes; the largest clusters of Apache Kafka have a few hundred
# The least time between two rounds of responses, for each waiting node: a hundred nodes get one per 100 ms.
GAP_S_FOR_EACH: Final = 0.001
# Responses in a turn of the loop; at some 30 us each, clients wait 0.5 ms for them.
ANSWERED_PER_TURN: Final = 16
SNAPSHOTS_KEPT: Final = 2
LOOK_S: Final = 0.5  # how often this voter checks that it still receives all commits


class _Entry:
    """A committed batch, and its encoded bytes once a node has fetched them."""

    __slots__ = ("_encoded", "base_offset", "batch", "epoch")

    def __init__(self, batch: MetadataBatch) -> None:
        self.base_offset = batch.base_offset
        self.epoch = batch.epoch
        self.batch = batch
        self._encoded: bytes | None = None

    @property
    def encoded(self) -> bytes:
        if self._encoded is None:
            self._encoded = bytes(encode_batch(self.batch))
        return self._encoded


class _Snapshot(NamedTuple):
    offset: int
    epoch: int
    content: bytes


def _encoded(key: tuple[int, int], image: MetadataImage) -> _Snapshot:
    return _Snapshot(*key, b"".join(encode_snapshot(image)))


class MetadataFeed:
    """The voter's side of FetchMetadata. Used on the node's event loop only."""

    def __init__(
        self,
        image: MetadataImage,
        *,
        leader: Callable[[], tuple[int, int]],
        voters: Callable[[], Sequence[VoterAddress]],
        hears_all: Callable[[], bool],
    ) -> None:
        self._image = image
        self._leader = leader  # its id and epoch
        self._voters = voters
        self._hears_all = hears_all  # True while this node has a vote and knows a leader
        self._entries: list[_Entry] = []
        self._records = 0
        self._waiting: dict[asyncio.Future[None], asyncio.TimerHandle] = {}
        self._to_answer: list[asyncio.Future[None]] = []  # to be answered in the next turns, from the end on
        self._answered_at = 0.0
        self._answering: asyncio.TimerHandle | None = None
        self._looking: asyncio.TimerHandle | None = None
        # The last response: most nodes fetch from the same offset.
        self._answered_key: tuple[int, ...] = ()
        self._answered: list[Buffer] = []
        self._snapshots: dict[tuple[int, int], asyncio.Future[_Snapshot]] = {}

    # ---- commits -------------------------------------------------------------------------------------------

    def add(self, batch: MetadataBatch | None, image: MetadataImage) -> None:
        """Add a committed batch, which results in `image`; None after a snapshot: its batches are unknown."""
        self._image = image
        if batch is None:
            self._entries, self._records = [], 0
        else:
            self._entries.append(_Entry(batch._replace(metadata_version=image.metadata_version)))
            self._records += len(batch.records)
            if self._records > MAX_RECORDS:
                # Half of the entries at once: removing the first of a list moves all others.
                self._entries = self._entries[len(self._entries) // 2 + 1 :]
                self._records = sum(len(entry.batch.records) for entry in self._entries)
        self._wake()

    def _wake(self) -> None:
        if not self._waiting or self._answering is not None:
            return
        loop = asyncio.get_running_loop()
        delay_s = self._answered_at + len(self._waiting) * GAP_S_FOR_EACH - loop.time()
        if delay_s <= 0:
            self._answer_waiting()
        else:
            self._answering = loop.call_later(delay_s, self._answer_waiting)

    def _answer_waiting(self) -> None:
        self._answering = None
        self._answered_at = asyncio.get_running_loop().time()
        waiting, self._waiting = self._waiting, {}
        for timer in waiting.values():
            timer.cancel()
        self._to_answer = [*reversed(waiting), *self._to_answer]
        self._answer_some()

    def _answer_some(self) -> None:
        for _ in range(min(ANSWERED_PER_TURN, len(self._to_answer))):
            _finish(self._to_answer.pop())
        if self._to_answer:
            asyncio.get_running_loop().call_soon(self._answer_some)

    def close(self) -> None:
        """Answer all waiting requests with the present metadata."""
        for timer in (self._answering, self._looking):
            if timer is not None:
                timer.cancel()
        self._answer_waiting()
        while self._to_answer:
            _finish(self._to_answer.pop())

    def _look(self) -> None:
        """Answer the waiting requests, with an error, if this node has lost its vote or its leader."""
        self._looking = None
        if not self._waiting:
            return
        if self._hears_all():
            self._looking = asyncio.get_running_loop().call_later(LOOK_S, self._look)
        else:
            self._answer_waiting()

    # ---- requests ------------------------------------------------------------------------------------------

    def fetch(self, request: FetchMetadataRequest, version: int) -> Result[FetchMetadataResponse]:
        """Return the batches from an offset on, or a response that waits for them.

        NOT_LEADER_OR_FOLLOWER, with the known voters, if this node may miss commits: nodes without a vote
        that fetch from each other would never receive a commit again.
        """
        if request.fetch_offset > self._image.version and request.max_wait_ms > 0:
            return Delayed(self._wait(request.max_wait_ms), lambda _: self._answer(request, version))
        return self._answer(request, version)

    def _wait(self, timeout_ms: int) -> "asyncio.Future[None]":
        if len(self._waiting) >= MAX_WAITING:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "Too many nodes are waiting for metadata.")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting[future] = loop.call_later(min(timeout_ms, MAX_WAIT_MS) / 1000, self._give_up, future)
        if self._looking is None:
            self._looking = loop.call_later(LOOK_S, self._look)
        return future

    def _give_up(self, future: "asyncio.Future[None]") -> None:
        self._waiting.pop(future, None)
        _finish(future)

    def _answer(self, request: FetchMetadataRequest, version: int) -> Result[FetchMetadataResponse]:
        if not self._hears_all():
            return FetchMetadataResponse(
                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, voters=list(self._voters())
            )
        asked = (request.fetch_offset, request.last_epoch, request.max_bytes, version)
        key = (*asked, self._image.version, *self._leader())
        if key == self._answered_key:
            return EncodedBody(self._answered)
        found = self._entries_from(request.fetch_offset, request.last_epoch)
        if found is None:
            return self._name_snapshot()
        response = self._response(batches=self._join(found, min(request.max_bytes, MAX_ANSWER_BYTES)))
        self._answered_key = key
        self._answered = encoder(FetchMetadataResponse, version)(response, bytearray())
        return EncodedBody(self._answered)

    def _entries_from(self, offset: int, last_epoch: int) -> tuple[int, int] | None:
        """Return the range (first, stop) of the entries to send; None if a snapshot is needed."""
        entries = self._entries
        if offset > self._image.version:
            # Nothing follows yet. A node that is ahead of this voter waits until the voter has caught up.
            is_known = offset > self._image.version + 1 or last_epoch == self._image.epoch
            return (len(entries), len(entries)) if is_known else None
        index = bisect_right(entries, offset, key=lambda entry: entry.base_offset) - 1
        if index < 0 or entries[index].base_offset != offset:
            return None
        before = entries[index - 1].epoch if index else last_epoch
        return (index, len(entries)) if before == last_epoch <= entries[index].epoch else None

    def _join(self, found: tuple[int, int], max_bytes: int) -> bytes:
        first, stop = found
        if first == stop:
            return b""
        taken = [self._entries[first].encoded]  # at least one, or a batch above the limit would never be sent
        size = len(taken[0])
        for entry in self._entries[first + 1 : stop]:
            size += len(entry.encoded)
            if size > max_bytes:
                break
            taken.append(entry.encoded)
        return taken[0] if len(taken) == 1 else b"".join(taken)

    def _response(self, *, batches: bytes = b"", snapshot: _Snapshot | None = None) -> FetchMetadataResponse:
        leader_id, epoch = self._leader()
        response = FetchMetadataResponse(
            leader_id=leader_id,
            epoch=epoch,
            end_offset=self._image.version + 1,
            snapshot_offset=-1 if snapshot is None else snapshot.offset,
            snapshot_epoch=-1 if snapshot is None else snapshot.epoch,
            snapshot_bytes=-1 if snapshot is None else len(snapshot.content),
            voters=list(self._voters()),
            batches=batches,
        )
        return response

    # ---- snapshots -----------------------------------------------------------------------------------------

    async def _name_snapshot(self) -> FetchMetadataResponse:
        first_offset = self._entries[0].base_offset if self._entries else self._image.version + 1
        for (offset, _), made in reversed(self._snapshots.items()):
            # A snapshot whose next batch is still in memory serves every node, without encoding another.
            if offset >= first_offset:
                return self._response(snapshot=await asyncio.shield(made))
        return self._response(snapshot=await self._make_snapshot(self._image))

    async def _make_snapshot(self, image: MetadataImage) -> _Snapshot:
        key = (image.version + 1, image.epoch)
        made = self._snapshots.get(key)
        if made is None:
            # It goes on for other nodes if the one that asked first disconnects.
            made = asyncio.get_running_loop().run_in_executor(None, _encoded, key, image)
            made.add_done_callback(partial(self._forget_failed, key))
            self._snapshots[key] = made
            while len(self._snapshots) > SNAPSHOTS_KEPT:
                del self._snapshots[next(iter(self._snapshots))]
        return await asyncio.shield(made)

    def _forget_failed(self, key: tuple[int, int], made: asyncio.Future[_Snapshot]) -> None:
        if made.cancelled() or made.exception() is not None:
            self._snapshots.pop(key, None)

    async def snapshot_piece(self, request: FetchMetadataSnapshotRequest) -> FetchMetadataSnapshotResponse:
        """Return a piece of a snapshot that `fetch` named.

        SNAPSHOT_NOT_FOUND if it is no longer kept, POSITION_OUT_OF_RANGE if the position is not within it.
        """
        made = self._snapshots.get((request.snapshot_offset, request.snapshot_epoch))
        if made is None:
            raise KafkaError(ErrorCode.SNAPSHOT_NOT_FOUND, "That snapshot of the metadata no longer exists.")
        content = (await asyncio.shield(made)).content
        if not 0 <= request.position <= len(content):
            raise KafkaError(ErrorCode.POSITION_OUT_OF_RANGE, "The position is not within the snapshot.")
        stop = request.position + max(0, min(request.max_bytes, MAX_ANSWER_BYTES))
        return FetchMetadataSnapshotResponse(
            snapshot_bytes=len(content), content=content[request.position : stop]
        )


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
