"""Sends the markers of ended transactions to the leaders of their partitions, until each partition has one.

Each leader gets one request at a time; decisions that come meanwhile go with the next one. The metadata name
the leader of a partition. They are read again when they change, and when a leader answers with an error. A
marker that was written but not acknowledged is written again, which does no harm. A late copy of an abandoned
request does no harm either: the leader drops requests with an older number, and partitions with another
leader epoch than its own.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ottla.groupcoord.transactions.transaction_commands import MarkersWritten
from ottla.groupcoord.transactions.transaction_effects import MarkerJob
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.image import MetadataImage, PartitionImage
from ottla.node.coordinators.marker_messages import (
    Answers,
    MarkedPartition,
    Marker,
    answers_of,
    from_response,
    to_wire,
)
from ottla.node.coordinators.marker_writer import PEER_WAIT_MS, MarkerWriter
from ottla.node.handing_over import StartTask
from ottla.node.net.answers import Delayed
from ottla.node.net.peer_client import PeerClient
from ottla.node.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.node.work.turns import take_turns

PURPOSE: Final = "markers"
# Limits of one request: its leader reads it and carries it out in one turn of its loop, some 10 ms. A request
# that is sent again after the connection was given up must not be carried out in between.
MAX_MARKERS: Final = 1_000
MAX_PARTITIONS: Final = 1_000
# The first and the longest pause before a leader that could not write a marker is asked again.
FIRST_PAUSE_MS: Final = 20
MAX_PAUSE_MS: Final = 500
# The pause before the leader of a partition without one is looked up again, if the metadata do not change.
PARKED_MS: Final = 1_000

# The transaction is over in this partition: written, written before, or followed by a newer one.
_DONE: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
_AGAIN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)

Key: TypeAlias = tuple[int, str]  # partition of __transaction_state, transactional id

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _UnwrittenMarkers:
    """The unwritten markers of one transaction. The next transaction of the same id replaces it."""

    key: Key
    job: MarkerJob
    left: set[TopicPartition]
    is_rejection_logged: bool = False  # an unexpected rejection was logged


@dataclass(slots=True, eq=False)
class _Line:
    """The markers for one leader."""

    leader: int
    waiting: dict[_UnwrittenMarkers, set[TopicPartition]] = field(default_factory=dict)
    under_way: dict[_UnwrittenMarkers, set[TopicPartition]] = field(default_factory=dict)
    again: dict[_UnwrittenMarkers, set[TopicPartition]] = field(
        default_factory=dict
    )  # to send again after a pause
    pause: asyncio.TimerHandle | None = None
    failures: int = 0  # in a row
    number: int = 0  # of the last request
    task: asyncio.Task[None] | None = None

    def parts(self) -> tuple[dict[_UnwrittenMarkers, set[TopicPartition]], ...]:
        return self.waiting, self.under_way, self.again


class MarkerSender:
    """Sends the markers of all transaction coordinators of this node. For the event loop only."""

    def __init__(
        self,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        image: Callable[[], MetadataImage],
        connect: Callable[[int, str], Awaitable[PeerClient]],
        writer: MarkerWriter,
        start_task: StartTask,
        written: Callable[[int, MarkersWritten], None],
        fenced: Callable[[int, MarkerJob], None],
        chance: random.Random,
        timeout_ms: Callable[[], int],
    ) -> None:
        """`written` is called with a partition of `__transaction_state` and the partitions that have their
        marker now; `fenced` when a newer coordinator has written a marker: this one knows less than the log.
        """
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._image = image
        self._connect = connect
        self._writer = writer
        self._start_task = start_task
        self._written = written
        self._fenced = fenced
        self._chance = chance
        self._timeout_ms = timeout_ms
        self._unwritten: dict[Key, _UnwrittenMarkers] = {}
        self._reloaded: dict[int, int] = {}  # shard -> the coordinator epoch in which it was found fenced
        self._lines: dict[int, _Line] = {}
        self._parked: dict[_UnwrittenMarkers, set[TopicPartition]] = {}  # have no leader at present
        self._looking: asyncio.TimerHandle | None = None
        self._is_closed = False

    # ---- called by the coordinators ------------------------------------------------------------------

    def send(self, index: int, job: MarkerJob) -> None:
        """Send a decision to all partitions of its transaction; `index` is that of the shard that decided."""
        key = (index, job.transactional_id)
        unwritten = self._unwritten[key] = _UnwrittenMarkers(key, job, set(job.partitions))
        self._route(unwritten, job.partitions)

    def drop(self, index: int) -> None:
        """Drop the markers of a shard that this node no longer leads, or that is loaded again."""
        for key in [each for each in self._unwritten if each[0] == index]:
            del self._unwritten[key]

    def refresh(self) -> None:
        """Send the markers of partitions whose leader has changed to their new leader."""
        topics = self._image().topics
        moved: list[tuple[_UnwrittenMarkers, set[TopicPartition]]] = []
        for line in self._lines.values():
            for part in line.parts():
                for unwritten, partitions in list(part.items()):
                    elsewhere = {
                        one
                        for one in partitions
                        if (at := topics.partition(one)) is None or at.leader != line.leader
                    }
                    if elsewhere:
                        _take_out(part, unwritten, elsewhere)
                        moved.append((unwritten, elsewhere))
        moved += self._parked.items()
        self._parked = {}
        for unwritten, partitions in moved:
            self._route(unwritten, partitions)

    def close(self) -> None:
        """Stop. The next coordinator sends the markers that are not written."""
        self._is_closed = True
        self._unwritten.clear()
        if self._looking is not None:
            self._looking.cancel()
        for line in self._lines.values():
            if line.pause is not None:
                line.pause.cancel()
            if line.task is not None:
                line.task.cancel()

    @property
    def left(self) -> int:
        """Return the number of transactions whose markers are not all written."""
        return len(self._unwritten)

    # ---- leaders of partitions -----------------------------------------------------------------------

    def _route(self, unwritten: _UnwrittenMarkers, partitions: Iterable[TopicPartition]) -> None:
        if self._unwritten.get(unwritten.key) is not unwritten or self._is_closed:
            return
        image = self._image()
        gone: set[TopicPartition] = set()
        for partition in partitions:
            found = image.topics.partition(partition)
            if found is None:
                gone.add(partition)  # deleted with its topic: there is nothing to end
            elif not self._can_reach(image, found):
                self._parked.setdefault(unwritten, set()).add(partition)
            else:
                line = self._lines.get(found.leader)
                if line is None:
                    line = self._lines[found.leader] = _Line(found.leader)
                line.waiting.setdefault(unwritten, set()).add(partition)
                if line.task is None:
                    line.task = self._start_task(self._send_all(line))
        if gone:
            # In a later turn: the caller may be a shard that has not carried out all effects of its decision.
            asyncio.get_running_loop().call_soon(self._report_written, unwritten, gone)
        if self._parked and self._looking is None:
            loop = asyncio.get_running_loop()
            self._looking = loop.call_later(PARKED_MS / 1000, self._look_at_parked)

    def _can_reach(self, image: MetadataImage, partition: PartitionImage) -> bool:
        leader = partition.leader
        return leader == self._node_id or (leader in image.brokers and not image.brokers[leader].fenced)

    def _look_at_parked(self) -> None:
        self._looking = None
        parked, self._parked = self._parked, {}
        for unwritten, partitions in parked.items():
            self._route(unwritten, partitions)

    # ---- one leader ----------------------------------------------------------------------------------

    async def _send_all(self, line: _Line) -> None:
        """Send request after request, until there is nothing left to send."""
        try:
            while self._take(line):
                try:
                    answers = await self._ask(line)
                except KafkaError as error:
                    self._failed(line, error)
                else:
                    self._settle(line, answers)
        finally:
            line.task = None

    def _take(self, line: _Line) -> bool:
        """Choose the markers of the next request; return False if there are none."""
        room = MAX_PARTITIONS
        line.under_way = {}
        for unwritten in list(line.waiting):
            if len(line.under_way) == MAX_MARKERS or not room:
                break
            partitions = line.waiting.pop(unwritten)
            if self._unwritten.get(unwritten.key) is not unwritten:
                continue
            if len(partitions) > room:
                later = set(sorted(partitions)[room:])
                line.waiting[unwritten] = later
                partitions -= later
            line.under_way[unwritten] = partitions
            room -= len(partitions)
        return bool(line.under_way)

    async def _ask(self, line: _Line) -> Answers:
        markers = [self._marker(unwritten, partitions) for unwritten, partitions in line.under_way.items()]
        if line.leader == self._node_id:
            return await self._write_here(markers)
        peer = await self._connect(line.leader, PURPOSE)
        line.number += 1
        request = WriteTxnMarkersRequest(
            markers=[to_wire(marker) for marker in markers],
            sender_epoch=self._broker_epoch(),
            number=line.number,
        )
        response = await peer.request(request, WriteTxnMarkersResponse, timeout_s=self._timeout_ms() / 1000)
        return from_response(response)

    async def _write_here(self, markers: Sequence[Marker]) -> Answers:
        codes = await take_turns(self._writer.write(markers, PEER_WAIT_MS))
        if isinstance(codes, Delayed):
            codes = codes.answer(await codes.future)
        return answers_of(markers, codes)

    def _marker(self, unwritten: _UnwrittenMarkers, partitions: Iterable[TopicPartition]) -> Marker:
        topics, job = self._image().topics, unwritten.job
        named: list[MarkedPartition] = []
        for topic, index in sorted(partitions):
            found = topics.partition(TopicPartition(topic, index))
            named.append(MarkedPartition(topic, index, -1 if found is None else found.leader_epoch))
        return Marker(
            producer_id=job.producer_id,
            producer_epoch=job.marker_epoch,
            is_commit=job.committed,
            coordinator_epoch=job.coordinator_epoch,
            transaction_version=job.transaction_version,
            partitions=named,
        )

    def _settle(self, line: _Line, answers: Answers) -> None:
        """Take the leader's answers: report the written markers at once, and send the others again."""
        under_way, line.under_way = line.under_way, {}
        line.failures = 0 if any(code in _DONE for code in answers.values()) else line.failures
        for unwritten, partitions in under_way.items():
            done: set[TopicPartition] = set()
            again: set[TopicPartition] = set()
            for partition in partitions:
                code = answers.get((unwritten.job.producer_id, partition), ErrorCode.UNKNOWN_SERVER_ERROR)
                if code in _DONE:
                    done.add(partition)
                    if code is not ErrorCode.NONE:
                        log.warning(
                            "%s has rejected a transaction marker of %s, and needs none: %s.",
                            partition,
                            _short(unwritten),
                            code.name,
                        )
                elif code is ErrorCode.TRANSACTION_COORDINATOR_FENCED and self._may_reload(unwritten):
                    self._report_fenced(unwritten, partition)
                    break
                else:
                    again.add(partition)
                    if code not in _AGAIN and not unwritten.is_rejection_logged:
                        unwritten.is_rejection_logged = True
                        log.error(
                            "%s has rejected a transaction marker of %s, which is sent again: %s.",
                            *(partition, _short(unwritten), code.name),
                        )
            else:
                if done:
                    self._report_written(unwritten, done)
                if again:
                    self._retry_later(line, unwritten, again)
        self._start_pause(line)

    def _failed(self, line: _Line, error: KafkaError) -> None:
        """Send the markers again after a request without a response: they may be written or not."""
        if not line.failures:
            log.warning("Transaction markers to node %d failed, and are sent again: %s", line.leader, error)
        under_way, line.under_way = line.under_way, {}
        for unwritten, partitions in under_way.items():
            self._retry_later(line, unwritten, partitions)
        self._start_pause(line)

    def _retry_later(
        self, line: _Line, unwritten: _UnwrittenMarkers, partitions: set[TopicPartition]
    ) -> None:
        if self._unwritten.get(unwritten.key) is unwritten:
            line.again.setdefault(unwritten, set()).update(partitions)

    def _start_pause(self, line: _Line) -> None:
        if not line.again or line.pause is not None or self._is_closed:
            return
        pause_ms = min(MAX_PAUSE_MS, FIRST_PAUSE_MS << min(line.failures, 10))
        line.failures += 1
        delay_s = pause_ms * (0.5 + self._chance.random() / 2) / 1000
        line.pause = asyncio.get_running_loop().call_later(delay_s, self._end_pause, line)

    def _end_pause(self, line: _Line) -> None:
        line.pause = None
        again, line.again = line.again, {}
        for unwritten, partitions in again.items():
            self._route(unwritten, partitions)

    # ---- results -------------------------------------------------------------------------------------

    def _report_written(self, unwritten: _UnwrittenMarkers, partitions: set[TopicPartition]) -> None:
        if self._unwritten.get(unwritten.key) is not unwritten:
            return
        fresh = partitions & unwritten.left
        if not fresh:
            return
        unwritten.left -= fresh
        if not unwritten.left:
            del self._unwritten[unwritten.key]
        job = unwritten.job
        self._written(
            unwritten.key[0],
            MarkersWritten(
                transactional_id=job.transactional_id,
                producer_id=job.producer_id,
                marker_epoch=job.marker_epoch,
                partitions=fresh,
            ),
        )

    def _may_reload(self, unwritten: _UnwrittenMarkers) -> bool:
        """Return False if the shard was already loaded again in this coordinator epoch for being fenced.

        Then another load would not help: an administrator has written a marker with an epoch that no
        coordinator has reached yet.
        """
        return self._reloaded.get(unwritten.key[0]) != unwritten.job.coordinator_epoch

    def _report_fenced(self, unwritten: _UnwrittenMarkers, partition: TopicPartition) -> None:
        if self._unwritten.get(unwritten.key) is not unwritten:
            return
        log.warning(
            "%s has a marker of a newer coordinator than that of %s, which is loaded again.",
            *(partition, _short(unwritten)),
        )
        self._reloaded[unwritten.key[0]] = unwritten.job.coordinator_epoch
        self.drop(unwritten.key[0])
        self._fenced(unwritten.key[0], unwritten.job)


def _take_out(
    part: dict[_UnwrittenMarkers, set[TopicPartition]],
    unwritten: _UnwrittenMarkers,
    gone: set[TopicPartition],
) -> None:
    part[unwritten] = part[unwritten] - gone
    if not part[unwritten]:
        del part[unwritten]


def _short(unwritten: _UnwrittenMarkers) -> str:
    """Return the transactional id, which may be 32 kB long, shortened for a line of the log."""
    return repr(unwritten.job.transactional_id[:100])
