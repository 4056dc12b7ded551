"""A consumer of partitions that fetches from all their leaders in rounds, for `ottla consume` and others.

A round asks every leader at once and waits until each has answered, at most `FETCH_WAIT_MS` if there are no
new records. Nothing runs between two rounds, so the caller may change the partitions or call a group there.
"""

import asyncio
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.logstore.compression import MAX_ZSTD_WINDOW_BYTES
from ottla.logstore.record import Record
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.ask_leaders import error_of, find_leaders, may_pass
from ottla.node.client.cluster_client import RETRY_PAUSE_S, Client, check
from ottla.node.client.deadline import Deadline
from ottla.node.client.record_cursor import RecordCursor
from ottla.node.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

FETCH_WAIT_MS: Final = 500  # Kafka's fetch.max.wait.ms
FETCH_MAX_BYTES: Final = 8 * 1024 * 1024
PARTITION_MAX_BYTES: Final = 1024 * 1024  # Kafka's max.partition.fetch.bytes
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
RECORDS_AT_ONCE: Final = 500  # records opened in one turn of the loop: some 2 ms


class FetchLimits(NamedTuple):
    """The limits of one round: what it takes from each leader, and how long it waits if there is nothing.

    It opens at most `max_records` of each partition, and stops when the records of all partitions reach
    `max_record_bytes`: the other partitions are returned by the next rounds.
    """

    wait_ms: int = FETCH_WAIT_MS
    max_bytes: int = FETCH_MAX_BYTES
    partition_max_bytes: int = PARTITION_MAX_BYTES
    max_records: int = 20_000
    max_record_bytes: int = 16 * 1024 * 1024
    max_window_bytes: int = MAX_ZSTD_WINDOW_BYTES


# For callers that open records on the loop that serves all clients: short rounds. Many of them may be in the
# middle of a batch at once; levels of zstd up to 19 need no larger window.
SHORT_ROUNDS: Final = FetchLimits(
    FETCH_WAIT_MS, 1024 * 1024, 256 * 1024, 2_000, 2 * 1024 * 1024, 8 * 1024 * 1024
)


class Consumer:
    """A consumer that reads partitions from given offsets; `positions` has the next offset of each."""

    def __init__(
        self,
        client: Client,
        *,
        read_committed: bool,
        limits: FetchLimits = FetchLimits(),
        gives_up: bool = True,
    ) -> None:
        """Create it. With `gives_up`, a partition that is unreadable for the timeout of the client is an
        error.
        """
        self.positions: dict[TopicPartition, int] = {}
        self._client = client
        self._gives_up = gives_up
        self._limits = limits
        self._isolation = READ_COMMITTED if read_committed else READ_UNCOMMITTED
        self.problems: dict[TopicPartition, KafkaError] = {}  # partitions that the last round could not read
        self._failing_since_s: dict[TopicPartition, float] = {}
        # Records that were fetched and not returned yet, valid while they begin at the partition's position.
        self._kept: dict[TopicPartition, RecordCursor] = {}

    async def fetch(self, deadline: Deadline | None = None) -> list[tuple[TopicPartition, list[Record]]]:
        """Return the next records of all partitions that have some, and move the positions behind them.

        Partitions that are unreadable now are in `problems`; the others are read. Without a deadline the
        round has the whole timeout of the client. The rest of a batch of very many records is returned by the
        next rounds, together with new records of the other partitions.
        """
        client = self._client.renewed() if deadline is None else self._client.until(deadline)
        kept = {
            one: cursor for one, cursor in self._kept.items() if self.positions.get(one) == cursor.position
        }
        self._kept = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        problems: dict[TopicPartition, KafkaError] = {}
        to_fetch = {one: place for one, place in self.positions.items() if one not in kept}
        leaders = await find_leaders(client, to_fetch) if to_fetch else {}
        for partition, leader in leaders.items():
            if isinstance(leader, KafkaError):
                problems[partition] = leader
            else:
                by_leader.setdefault(leader, []).append(partition)
        async with asyncio.TaskGroup() as tasks:
            fetches = {
                leader: tasks.create_task(self._fetch_from(client, leader, partitions, waits=not kept))
                for leader, partitions in sorted(by_leader.items())
            }
        fetched: list[tuple[TopicPartition, list[Record]]] = []
        room = _Room(self._limits.max_record_bytes)
        for partition, cursor in kept.items():
            try:
                fetched.append((partition, await self._take(partition, cursor, client.deadline, room)))
            except KafkaError as error:
                problems[partition] = error
        for leader, task in fetches.items():
            result = task.result()
            if isinstance(result, KafkaError):
                problems |= dict.fromkeys(by_leader[leader], result)
                continue
            is_empty = not any(records_in(data) for data in result.values())
            for partition, data in result.items():
                try:
                    cursor = self._cursor(partition, data)
                    fetched.append((partition, await self._take(partition, cursor, client.deadline, room)))
                    if is_empty:
                        await self._pass_hole(client, leader, partition, data)
                except KafkaError as error:
                    problems[partition] = error
        fetched = [one for one in fetched if one[1]]
        await self._handle_problems(problems, client.deadline, has_found=bool(fetched))
        return fetched

    def failing_for(self, seconds: float) -> dict[TopicPartition, KafkaError]:
        """Return the partitions that were unreadable for longer than this, with the last error of each."""
        now_s = time.monotonic()
        return {
            one: error for one, error in self.problems.items() if now_s - self._failing_since_s[one] > seconds
        }

    async def _handle_problems(
        self, problems: Mapping[TopicPartition, KafkaError], deadline: Deadline, *, has_found: bool
    ) -> None:
        """Refresh metadata after stale metadata and lost leaders; raise any other error."""
        now_s = time.monotonic()
        # An error that lasts for longer than the timeout is raised.
        self._failing_since_s = {one: self._failing_since_s.get(one, now_s) for one in problems}
        self.problems = dict(problems)
        final = {one: error for one, error in problems.items() if not may_pass(error)}
        if final:
            raise error_of(final)
        overdue = self.failing_for(self._client.timeout_s)
        if self._gives_up and overdue and not has_found:  # records that were found are returned first
            raise error_of(overdue)
        for partition in problems:
            self._client.forget(partition.topic)
        if problems and not has_found:
            await asyncio.sleep(min(RETRY_PAUSE_S, deadline.remaining_s))

    async def _fetch_from(
        self, client: Client, leader: int, partitions: Sequence[TopicPartition], *, waits: bool
    ) -> Mapping[TopicPartition, PartitionData] | KafkaError:
        positions = {partition: self.positions[partition] for partition in partitions}
        try:
            return await fetch_once(
                client,
                leader,
                positions,
                partition_max_bytes=self._limits.partition_max_bytes,
                max_bytes=self._limits.max_bytes,
                # Less than the time left, so that the answer arrives within it.
                wait_ms=min(self._limits.wait_ms, client.remaining_ms // 2) if waits else 0,
                isolation=self._isolation,
            )
        except KafkaError as error:
            return error

    def _cursor(self, partition: TopicPartition, data: PartitionData) -> RecordCursor:
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{partition} has no offset {self.positions[partition]}"
            )
        check(data.error_code, None, str(partition))
        return RecordCursor(
            records_in(data),
            data.aborted_transactions or (),
            self.positions[partition],
            self._limits.max_window_bytes,
        )

    async def _take(
        self, partition: TopicPartition, cursor: RecordCursor, deadline: Deadline, room: "_Room"
    ) -> list[Record]:
        """Return the next records of a cursor, up to the limits of a round; keep the rest for the next round.

        A partition that is read in part comes first in the next round, so that few of them hold opened
        records at a time. An error behind the first record is kept too: the next round meets it at its
        offset.
        """
        self._kept.pop(partition, None)
        if room.left_bytes <= 0:
            self._kept[partition] = cursor
            return []
        records: list[Record] = []
        steps = _record_steps(cursor, records, self._limits.max_records, room)
        opening = self._client.opening if cursor.has_bytes else None
        try:
            if opening is not None:
                is_left = await opening(lambda pause: _run_steps(steps, deadline, pause))
            else:
                is_left = True
                while True:
                    try:
                        next(steps)
                    except StopIteration as end:
                        is_left = bool(end.value)
                        break
                    if deadline.is_over:
                        break
                    await asyncio.sleep(0)
            if is_left:
                self._kept[partition] = cursor
        except KafkaError:
            if not records:
                raise
        self.positions[partition] = cursor.position
        return records

    async def _pass_hole(
        self, client: Client, leader: int, partition: TopicPartition, data: PartitionData
    ) -> None:
        """Skip offsets at the end of a log that have no record any more, as after compaction.

        Only a response without any bytes proves such a gap, since other partitions did not use up its size:
        its first batch is sent however large it is. Apache Kafka's response is also empty while old segments
        come from remote storage (KIP-405). The segments at the end are the leader's own, so it is asked for
        the last offset.
        """
        end = self._visible_end(data)
        if end <= self.positions[partition] or data.preferred_read_replica >= 0:
            return
        fetched = await fetch_once(client, leader, {partition: end - 1}, wait_ms=0, isolation=self._isolation)
        last = fetched.get(partition)
        if (
            last is not None
            and not last.error_code
            and not records_in(last)
            and self._visible_end(last) >= end
        ):
            self.positions[partition] = end

    def _visible_end(self, data: PartitionData) -> int:
        return data.last_stable_offset if self._isolation == READ_COMMITTED else data.high_watermark


class _Room:
    """The bytes of records that one round may still take, over all partitions."""

    __slots__ = ("left_bytes",)

    def __init__(self, left_bytes: int) -> None:
        self.left_bytes = left_bytes


def _record_steps(
    cursor: RecordCursor, records: list[Record], max_records: int, room: _Room
) -> Generator[None, None, bool]:
    """Add the next records in steps of some milliseconds; the result is True if some may be left."""
    for work, record in enumerate(cursor, 1):
        if record is not None:
            records.append(record)
            room.left_bytes -= len(record.key or b"") + len(record.value or b"") + 32 * len(record.headers)
            if len(records) >= max_records or room.left_bytes <= 0:
                return True
        if record is None or not work % RECORDS_AT_ONCE:
            yield
    return False


def _run_steps(steps: Generator[None, None, bool], deadline: Deadline, pause: Callable[[], None]) -> bool:
    """Run the steps in a thread until the deadline; return True if some records may be left."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return bool(end.value)
        if deadline.is_over:
            return True
        pause()


async def fetch_once(
    client: Client,
    leader: int,
    positions: Mapping[TopicPartition, int],
    *,
    partition_max_bytes: int = PARTITION_MAX_BYTES,
    max_bytes: int = FETCH_MAX_BYTES,
    wait_ms: int = FETCH_WAIT_MS,
    isolation: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, PartitionData]:
    """Return a node's response for these partitions at these offsets; its errors are left to the caller."""
    by_topic: dict[str, list[FetchPartition]] = {}
    for (name, number), offset in positions.items():
        wanted = FetchPartition(
            partition=number, fetch_offset=offset, partition_max_bytes=partition_max_bytes
        )
        by_topic.setdefault(name, []).append(wanted)
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=isolation,
        topics=[
            FetchTopic(topic=name, topic_id=client.topics[name].topic_id, partitions=wanted)
            for name, wanted in by_topic.items()
        ],
    )
    connection = await client.node(leader)
    response = await connection.request(request, FetchResponse, timeout_s=client.remaining_s)
    check(response.error_code, None, f"the fetch from {connection.peer}")
    answers = {
        TopicPartition(client.topic_name(topic.topic, topic.topic_id), data.partition_index): data
        for topic in response.responses
        for data in topic.partitions
    }
    if not answers.keys() <= positions.keys():
        peer = connection.peer
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{peer} answered for other partitions than asked")
    return answers


def records_in(data: PartitionData) -> memoryview:
    """Return the bytes of the batches in a response; the last batch may be torn."""
    assert not isinstance(data.records, Sequence) or isinstance(data.records, bytes | memoryview)
    return memoryview(data.records or b"")
