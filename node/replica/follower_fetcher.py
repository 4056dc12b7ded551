"""Fetches from one leader the partitions that this node follows: one task, connection and fetch at a time.

A fetch names only changed partitions and may wait at the leader for news. If this node itself has news (a
partition to follow, or one whose pause is over), a request over another connection makes the leader answer
the waiting fetch. Records are written from the buffer in which they were received. A partition that fails is
left out for a while and does not stop the others.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar, cast

from ottla.logstore.leader_epoch_cache import EpochEndOffset
from ottla.logstore.partition_log import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.handing_over import StartTask
from ottla.node.replica.fetch_session import NO_SESSION
from ottla.node.replica.follower_state import (
    FetchBounds,
    FollowedPartition,
    FollowerFetches,
    Key,
    Phase,
    Range,
    Step,
    reset_for,
    step_for,
    truncation_offset,
)
from ottla.node.replica.partition import Partition
from ottla.node.replica.replication_quota import ReplicationQuotas
from ottla.node.wire.messages.fetch import FetchResponse, PartitionData
from ottla.node.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

THROTTLED_PAUSE_MS: Final = 100  # the pause of a throttled partition
DAMAGE_REPORT_FAILURE: Final = 5  # after this many in a row the leader's own data is wrong, not the network
# A fetcher whose last fetch took this much waits while the disk is behind, and checks again after this time.
MIN_REST_BYTES: Final = 256 * 1024
REST_S: Final = 0.01
TAKEN_AT_ONCE: Final = 256  # partitions of a response; without records each takes 5 to 30 us
LOST_PAUSE_S: Final = 0.02  # after a lost connection; dialling has its own back-off

log = logging.getLogger(__name__)
R = TypeVar("R")


class Peer(Protocol):
    """The client side of a connection to another node."""

    async def request(self, message: object, response_type: type[R], *, timeout_s: float = ...) -> R: ...


@dataclass(slots=True, kw_only=True)
class FetcherSettings:
    """The settings of a fetcher, read again for each request."""

    bounds: FetchBounds
    backoff_ms: int  # replica.fetch.backoff.ms
    socket_timeout_ms: int


@dataclass(slots=True, kw_only=True)
class FetcherWorld:
    """The functions and values that all fetchers of a node share."""

    broker_id: int
    broker_epoch: Callable[[], int]
    connect: Callable[[int, str], Awaitable[Peer]]  # (node, purpose) -> an authenticated connection
    settings: Callable[[], FetcherSettings]
    quotas: ReplicationQuotas
    now_ms: Callable[[], int]  # the wall clock, for timestamps in the log
    chance: random.Random
    start_task: StartTask
    until_safe: Callable[[Partition], Awaitable[None]]  # waits until no flush of its log is due
    keep_log_starts: Callable[[], Awaitable[None]]  # writes the checkpoint of log starts, to survive a kill
    keep_recovery_points: Callable[[], Awaitable[None]]
    must_pause: Callable[[], bool]  # returns True while the disk is behind


def _timeout_s(settings: FetcherSettings) -> float:
    return (settings.socket_timeout_ms + settings.bounds.max_wait_ms) / 1000


class _Failures:
    """Failed partitions, with one log line for all with the same error, such as those of a deleted topic."""

    def __init__(self) -> None:
        self._by_error: dict[tuple[bool, str], tuple[TopicPartition, int]] = {}  # the first, how many others

    def add(self, name: TopicPartition, error: KafkaError, *, is_first: bool) -> None:
        key = is_first, str(error)
        first, others = self._by_error.get(key, (name, -1))
        self._by_error[key] = first, others + 1

    def log(self) -> None:
        """Log the failures."""
        for (is_first, error), (name, others) in self._by_error.items():
            log.log(
                logging.WARNING if is_first else logging.INFO,
                "%s%s cannot be fetched: %s",
                name,
                f" and {others} other partitions" if others else "",
                error,
            )


class FollowerFetcher:
    """The fetches from one leader over one connection; `run` is its task."""

    def __init__(self, leader_id: int, fetcher_id: int, world: FetcherWorld) -> None:
        self.leader_id = leader_id
        self._purpose = f"replica-{fetcher_id}"
        self._world = world
        self._fetches = FollowerFetches()
        self._has_changes = asyncio.Event()
        self._is_waiting = False  # one of our fetches is at the leader
        self._is_waking = False
        self._retry: asyncio.TimerHandle | None = None
        self._unsafe: dict[Partition, None] = {}  # wait for a flush: a fetch would acknowledge their records
        self._was_durable = False  # a cut reached flushed records, so written recovery points may be ahead
        self._taken_bytes = 0  # by the last fetch
        self._moved_starts: dict[FollowedPartition, None] = {}  # not written to the checkpoint yet
        self._is_keeping = False
        self._is_lost = False  # so that a lost connection is logged once, not with each attempt

    def __len__(self) -> int:
        return len(self._fetches)

    # ---- changes by the metadata -----------------------------------------------------------------

    def add(self, partition: Partition) -> None:
        """Follow a partition that this fetcher's leader leads now."""
        log_ = partition.log
        if log_.latest_epoch < 0 and log_.log_end_offset > log_.high_watermark:
            # Nothing shows in which leader epoch this was written, so only committed records can stay.
            self._cut(partition, log_.high_watermark)
        if log_.flush_due_from is not None:
            self._unsafe[partition] = None
        if self._fetches.add(partition):
            self._wake_fetch()

    def remove(self, key: Key) -> None:
        """Stop following a partition: another node leads it, or this node no longer follows it."""
        self._fetches.remove(key)

    def report_again(self, key: Key) -> None:
        """Report the state of this replica to the leader with the next fetch."""
        if self._fetches.touch_key(key):
            self._wake_fetch()

    def _wake_fetch(self) -> None:
        """Note that the next fetch has news, and have the fetch at the leader answered."""
        self._has_changes.set()
        if self._is_waiting and not self._is_waking:
            self._is_waking = True
            self._world.start_task(self._wake())

    async def _wake(self) -> None:
        """Have the leader answer the fetch that waits there."""
        world = self._world
        try:
            await asyncio.sleep(0)  # news tends to come in bursts
            request = self._fetches.wake_request(
                replica_id=world.broker_id, broker_epoch=world.broker_epoch()
            )
            if self._is_waiting and request is not None:
                peer = await world.connect(self.leader_id, "wake")
                await peer.request(request, FetchResponse, timeout_s=_timeout_s(world.settings()))
        except KafkaError as error:
            log.debug("The fetch from node %d has to wait: %s", self.leader_id, error)
        finally:
            self._is_waking = False

    # ---- the task --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Fetch for as long as the node runs."""
        while True:
            await self.fetch()

    async def fetch(self) -> None:
        """Fetch once, or wait until there is something to fetch."""
        world, fetches = self._world, self._fetches
        settings = world.settings()
        await self._until_safe()
        await self._rest()
        self._has_changes.clear()
        now_ms = self._monotonic_ms()
        request = fetches.next_request(
            replica_id=world.broker_id,
            broker_epoch=world.broker_epoch(),
            bounds=settings.bounds,
            now_ms=now_ms,
            must_wait=self._must_wait,
        )
        self._schedule_retry(now_ms)
        if request is None:
            await self._wait_for_changes(THROTTLED_PAUSE_MS / 1000 if len(fetches) else None)
            return
        try:
            peer = await world.connect(self.leader_id, self._purpose)
            self._is_waiting = True
            if self._has_changes.is_set():
                self._wake_fetch()
            try:
                response = await peer.request(request, FetchResponse, timeout_s=_timeout_s(settings))
            finally:
                self._is_waiting = False
            self._is_lost = False
            diverging = await self._take(response)
            if diverging:
                await self._ask_offsets(peer, diverging)
        except KafkaError as error:
            if not self._is_lost:
                self._is_lost = True
                log.warning("Cannot fetch from node %d: %s", self.leader_id, error)
            fetches.restart()
            await asyncio.sleep(LOST_PAUSE_S * (0.5 + world.chance.random() / 2))

    async def _until_safe(self) -> None:
        """Wait until the disk agrees with what the next fetch reports.

        Records are flushed first as `flush.messages` asks. If flushed records were cut, the recovery points
        are written before other records take their place.
        """
        if self._was_durable:
            self._was_durable = False
            await self._world.keep_recovery_points()
        while self._unsafe:
            partition = next(iter(self._unsafe))
            await self._world.until_safe(partition)
            self._unsafe.pop(partition, None)

    async def _rest(self) -> None:
        """Wait while the disk is behind if the last fetch took much, or the kernel would stop the node."""
        taken_bytes, self._taken_bytes = self._taken_bytes, 0
        if taken_bytes >= MIN_REST_BYTES:
            while self._world.must_pause():
                await asyncio.sleep(REST_S)

    async def _wait_for_changes(self, timeout_s: float | None) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._has_changes.wait()
        except TimeoutError:
            pass

    def _monotonic_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def _schedule_retry(self, now_ms: int) -> None:
        """Set a timer for the next delayed partition, since a fetch may wait at the leader when it is due."""
        if self._retry is not None:
            self._retry.cancel()
        due_ms = self._fetches.next_retry_ms()
        self._retry = None
        if due_ms is not None:
            loop = asyncio.get_running_loop()
            self._retry = loop.call_later(max(1, due_ms - now_ms) / 1000, self._wake_fetch)

    def _must_wait(self, followed: FollowedPartition) -> bool:
        quotas = self._world.quotas
        return quotas.limits_fetches and quotas.follower_must_wait(
            followed.partition, is_in_sync=followed.is_in_sync, now_ms=self._monotonic_ms()
        )

    # ---- answers ---------------------------------------------------------------------------------

    async def _take(self, response: FetchResponse) -> list[FollowedPartition]:
        """Carry out the leader's response; return the partitions for which the leader's range must be asked.

        A response with very many partitions is carried out in turns with the loop.
        """
        fetches = self._fetches
        if not fetches.answered(response):
            code = ErrorCode(response.error_code)
            if code not in (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH):
                raise KafkaError(code, f"Node {self.leader_id} rejected the whole fetch request.")
            return []
        diverging = []
        failures = _Failures()
        count = 0
        for topic in response.responses:
            for data in topic.partitions:
                count += 1
                if not count % TAKEN_AT_ONCE:
                    await asyncio.sleep(0)
                followed = fetches.find((topic.topic_id, data.partition_index))
                if followed is None:
                    continue  # it has changed since the request
                try:
                    if self._carry_out(followed, data):
                        diverging.append(followed)
                except KafkaError as error:
                    self._failed(followed, error, failures)
        failures.log()
        if response.session_id == NO_SESSION:
            fetches.restart()
        return diverging

    def _carry_out(self, followed: FollowedPartition, data: PartitionData) -> bool:
        """Carry out the response for one partition; return True if the leader's range must be asked."""
        step = step_for(data)
        if step is Step.APPEND:
            self._append(followed, data)
        elif step is Step.TRUNCATE:
            self._truncate(followed, data)
        elif step is Step.ASK_OFFSETS:
            self._fetches.set_phase(followed, Phase.LISTING_OFFSETS)
        elif step is Step.FAIL:
            log.info("%s: its leader has a newer epoch.", followed.partition.topic_partition)
            self._fetches.set_phase(followed, Phase.FAILED)
        else:
            raise KafkaError(ErrorCode(data.error_code), f"answered by node {self.leader_id}")
        return step is Step.ASK_OFFSETS

    def _append(self, followed: FollowedPartition, data: PartitionData) -> None:
        partition, wanted = followed.partition, followed.wanted
        assert wanted is not None, "a partition in a response was requested"
        records = cast(Buffer, data.records or b"")  # as received, in one piece
        partition.append_as_follower(
            records,
            high_watermark=data.high_watermark,
            log_start_offset=data.log_start_offset,
            now_ms=self._world.now_ms(),
        )
        followed.failures = 0
        had_damage, followed.got_damage = followed.got_damage, False
        self._taken_bytes += len(records)
        log_ = partition.log
        if log_.flush_due_from is not None:
            self._unsafe[partition] = None
        followed.is_in_sync = log_.log_end_offset >= data.high_watermark
        if partition.durable_log_start < log_.log_start_offset:
            self._keep_log_start(followed)
        is_moved = log_.log_end_offset != wanted.fetch_offset
        if is_moved or had_damage or partition.durable_log_start != wanted.log_start_offset:
            self._fetches.touch(followed)
        quotas = self._world.quotas
        if records and quotas.limits_fetches:
            now_ms = self._monotonic_ms()
            quotas.follower_received(partition, len(records), now_ms=now_ms)
            if quotas.follower_must_wait(partition, is_in_sync=followed.is_in_sync, now_ms=now_ms):
                self._fetches.delay(followed, now_ms + THROTTLED_PAUSE_MS)

    def _keep_log_start(self, followed: FollowedPartition) -> None:
        """Write the log start to the checkpoint: the leader must learn the one that survives a kill."""
        self._moved_starts[followed] = None
        if not self._is_keeping:
            self._is_keeping = True
            self._world.start_task(self._keep_log_starts())

    async def _keep_log_starts(self) -> None:
        try:
            while self._moved_starts:
                moved = [(one, one.partition.log.log_start_offset) for one in self._moved_starts]
                self._moved_starts.clear()
                await self._world.keep_log_starts()
                for followed, log_start_offset in moved:
                    if followed.partition.log.failure is not None:
                        continue
                    followed.partition.log_start_checkpointed(log_start_offset)
                    if self._fetches.holds(followed):
                        self._fetches.touch(followed)
                        self._wake_fetch()
        finally:
            self._is_keeping = False

    def _truncate(self, followed: FollowedPartition, data: PartitionData) -> None:
        partition, log_ = followed.partition, followed.partition.log
        before = log_.log_end_offset, log_.latest_epoch
        leader = EpochEndOffset(data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
        offset = truncation_offset(
            leader,
            log_.end_offset_for_epoch(leader.leader_epoch),
            log_end_offset=log_.log_end_offset,
            high_watermark=log_.high_watermark,
        )
        log.info(
            "%s is truncated from offset %d to %d: in the leader's log, epoch %d ends at %d.",
            partition.topic_partition,
            log_.log_end_offset,
            offset,
            leader.leader_epoch,
            leader.end_offset,
        )
        self._cut(partition, offset)
        if (log_.log_end_offset, log_.latest_epoch) == before:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, f"the logs diverge at {offset}, but nothing can be cut"
            )
        self._fetches.touch(followed)

    def _cut(self, partition: Partition, offset: int, *, starts_empty: bool = False) -> None:
        log_, now_ms = partition.log, self._world.now_ms()
        recovery_point = log_.recovery_point
        if starts_empty:
            partition.start_again_at(offset, now_ms=now_ms)
        else:
            partition.truncate_to(offset, now_ms=now_ms)
        self._was_durable |= log_.recovery_point < recovery_point

    def _failed(self, followed: FollowedPartition, error: KafkaError, failures: "_Failures") -> None:
        """Leave the partition out for a while, or for good if its own disk has failed."""
        name = followed.partition.topic_partition
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR and followed.partition.log.failure is not None:
            log.error("%s is no longer followed: %s", name, error)
            self._fetches.set_phase(followed, Phase.FAILED)
            return
        followed.got_damage = error.code is ErrorCode.CORRUPT_MESSAGE
        if error.code is ErrorCode.CORRUPT_MESSAGE and followed.failures == DAMAGE_REPORT_FAILURE:
            # Damage on the way would have been repaired by a repeated fetch by now.
            log.error(
                "The replica of %s on node %d, its leader, is damaged at or after "
                "offset %d: it sent data without a whole batch %d times (%s). This "
                "replica is intact up to there. That node was asked to check its log: "
                "it will give up leadership to another in-sync replica, and be "
                "repaired from it.",
                name,
                self.leader_id,
                followed.partition.log.log_end_offset,
                followed.failures + 1,
                error.detail or error.code.name,
            )
        if followed.failures in (0, 8):
            failures.add(name, error, is_first=not followed.failures)
        else:
            log.debug("%s cannot be fetched: %s", name, error)
        pause_ms = followed.backoff_ms(self._world.settings().backoff_ms, self._world.chance.random())
        self._fetches.delay(followed, self._monotonic_ms() + pause_ms)

    # ---- out of range ----------------------------------------------------------------------------

    async def _ask_offsets(self, peer: Peer, diverging: Sequence[FollowedPartition]) -> None:
        """Ask for the leader's offsets, and adjust our logs to them."""
        failures = _Failures()
        ends = await self._offsets(peer, diverging, LATEST_TIMESTAMP)
        starts = await self._offsets(peer, diverging, EARLIEST_TIMESTAMP)
        for followed in diverging:
            if followed.phase is not Phase.LISTING_OFFSETS or not self._fetches.holds(followed):
                continue  # the metadata have changed it meanwhile
            name = followed.partition.topic_partition
            end, start = ends.get(name), starts.get(name)
            try:
                if end is None or start is None:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST,
                        f"node {self.leader_id} left the partition out of its response",
                    )
                for one in (end, start):
                    if one.error_code:
                        raise KafkaError(ErrorCode(one.error_code), f"answered by node {self.leader_id}")
                self._reset(followed, Range(start.offset, end.offset))
            except KafkaError as error:
                self._failed(followed, error, failures)
        failures.log()

    def _reset(self, followed: FollowedPartition, leader: Range) -> None:
        partition, log_ = followed.partition, followed.partition.log
        reset = reset_for(leader, log_.log_end_offset)
        log.warning(
            "%s has offsets %d to %d, but its leader has %d to %d: replication continues at offset %d.",
            partition.topic_partition,
            log_.log_start_offset,
            log_.log_end_offset,
            leader.start_offset,
            leader.end_offset,
            reset.offset,
        )
        self._cut(partition, reset.offset, starts_empty=reset.starts_empty)
        self._fetches.set_phase(followed, Phase.FETCHING)

    async def _offsets(
        self, peer: Peer, diverging: Sequence[FollowedPartition], timestamp: int
    ) -> dict[tuple[str, int], ListOffsetsPartitionResponse]:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for followed in diverging:
            name = followed.partition.topic_partition
            topics.setdefault(name.topic, []).append(
                ListOffsetsPartition(
                    partition_index=name.partition,
                    current_leader_epoch=followed.leader_epoch,
                    timestamp=timestamp,
                )
            )
        request = ListOffsetsRequest(
            replica_id=self._world.broker_id,
            topics=[ListOffsetsTopic(name=name, partitions=those) for name, those in topics.items()],
        )
        timeout_s = _timeout_s(self._world.settings())
        response = await peer.request(request, ListOffsetsResponse, timeout_s=timeout_s)
        return {
            (topic.name, one.partition_index): one for topic in response.topics for one in topic.partitions
        }
