"""Records out of partitions: fetches from all their leaders in rounds, the consumer behind `ottla consume`.

A round asks every leader at once and waits until each has answered, at most `FETCH_WAIT_MS` with nothing new.
Between two rounds nothing runs, so the caller may change the partitions or speak to a group there.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from logstore.errors import ErrorCode, KafkaError
from logstore.record import Record, iterate_records
from logstore.record_batch import check_batch, iterate_headers
from logstore.topic_partition import TopicPartition
from node.client.ask_leaders import error_of, find_leaders, may_pass
from node.client.cluster_client import RETRY_PAUSE_S, Client, check
from node.client.deadline import Deadline
from node.wire.messages.fetch import (
    AbortedTransaction,
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
_ABORT_MARKER: Final = 0


class FetchLimits(NamedTuple):
    """How much one round takes of each leader, and how long it waits where there is nothing."""

    wait_ms: int = FETCH_WAIT_MS
    max_bytes: int = FETCH_MAX_BYTES
    partition_max_bytes: int = PARTITION_MAX_BYTES


# For callers that open record by record on the loop that answers everybody: short rounds.
SHORT_ROUNDS: Final = FetchLimits(FETCH_WAIT_MS, 1024 * 1024, 256 * 1024)


class Consumer:
    """Reads partitions from given offsets; `positions` says where each goes on."""

    def __init__(
        self,
        client: Client,
        *,
        read_committed: bool,
        limits: FetchLimits = FetchLimits(),
        gives_up: bool = True,
    ) -> None:
        """With `gives_up` a partition that cannot be read for the timeout of the client ends it."""
        self.positions: dict[TopicPartition, int] = {}
        self._client = client
        self._gives_up = gives_up
        self._limits = limits
        self._isolation = READ_COMMITTED if read_committed else READ_UNCOMMITTED
        self.problems: dict[TopicPartition, KafkaError] = {}  # why the last round had nothing of these
        self._failing_since_s: dict[TopicPartition, float] = {}

    async def fetch(self, deadline: Deadline | None = None) -> list[tuple[TopicPartition, list[Record]]]:
        """The next records of whatever partitions have some, with positions moved behind them.

        Partitions that cannot be read now stand in `problems`; the others are read. Without a deadline the
        round has the whole time of the client.
        """
        client = self._client.renewed() if deadline is None else self._client.until(deadline)
        by_leader: dict[int, list[TopicPartition]] = {}
        problems: dict[TopicPartition, KafkaError] = {}
        for partition, leader in (await find_leaders(client, self.positions)).items():
            if isinstance(leader, KafkaError):
                problems[partition] = leader
            else:
                by_leader.setdefault(leader, []).append(partition)
        async with asyncio.TaskGroup() as tasks:
            asked = {
                leader: tasks.create_task(self._fetch_from(client, leader, partitions))
                for leader, partitions in sorted(by_leader.items())
            }
        fetched: list[tuple[TopicPartition, list[Record]]] = []
        for leader, task in asked.items():
            result = task.result()
            if isinstance(result, KafkaError):
                problems |= dict.fromkeys(by_leader[leader], result)
                continue
            is_empty = not any(records_in(data) for data in result.values())
            for partition, data in result.items():
                try:
                    fetched.append((partition, self._take(partition, data)))
                    if is_empty:
                        await self._pass_hole(client, leader, partition, data)
                except KafkaError as error:
                    problems[partition] = error
        fetched = [one for one in fetched if one[1]]
        await self._bear(problems, client.deadline, has_found=bool(fetched))
        return fetched

    def lasting(self, seconds: float) -> dict[TopicPartition, KafkaError]:
        """Return the partitions that could not be read for longer than this, with the last reasons."""
        now_s = time.monotonic()
        return {
            one: error for one, error in self.problems.items() if now_s - self._failing_since_s[one] > seconds
        }

    async def _bear(
        self, problems: Mapping[TopicPartition, KafkaError], deadline: Deadline, *, has_found: bool
    ) -> None:
        """Stale metadata and lost leaders are asked again, other errors end it."""
        now_s = time.monotonic()
        # Since when each of them could not be read: what lasts for longer than the timeout ends it.
        self._failing_since_s = {one: self._failing_since_s.get(one, now_s) for one in problems}
        self.problems = dict(problems)
        final = {one: error for one, error in problems.items() if not may_pass(error)}
        if final:
            raise error_of(final)
        lasting = self.lasting(self._client.timeout_s)
        if self._gives_up and lasting and not has_found:  # what was found is given first
            raise error_of(lasting)
        for partition in problems:
            self._client.forget(partition.topic)
        if problems and not has_found:
            await asyncio.sleep(min(RETRY_PAUSE_S, deadline.remaining_s))

    async def _fetch_from(
        self, client: Client, leader: int, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionData] | KafkaError:
        positions = {partition: self.positions[partition] for partition in partitions}
        try:
            return await fetch_once(
                client,
                leader,
                positions,
                partition_max_bytes=self._limits.partition_max_bytes,
                max_bytes=self._limits.max_bytes,
                # The node answers when the time is nearly over, so that its answer still counts.
                wait_ms=min(self._limits.wait_ms, client.remaining_ms // 2),
                isolation=self._isolation,
            )
        except KafkaError as error:
            return error

    def _take(self, partition: TopicPartition, data: PartitionData) -> list[Record]:
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{partition} has no offset {self.positions[partition]}"
            )
        check(data.error_code, None, str(partition))
        view = records_in(data)
        position = self.positions[partition]
        records: list[Record] = []
        for record_or_end in _open(view, data.aborted_transactions or ()):
            if isinstance(record_or_end, int):
                position = max(position, record_or_end)
            elif record_or_end.offset >= self.positions[partition]:
                records.append(record_or_end)
        self.positions[partition] = position
        return records

    async def _pass_hole(
        self, client: Client, leader: int, partition: TopicPartition, data: PartitionData
    ) -> None:
        """Go on behind offsets at the end of a log that no record has any more, as after compaction.

        Only by an answer without any bytes, which others have not filled: the first batch of an answer leaves
        however large it is. Apache Kafka's is empty, too, while old segments come from elsewhere (KIP-405);
        those at the end are the leader's own, so it is asked for the last offset.
        """
        end = self._visible_end(data)
        if end <= self.positions[partition] or data.preferred_read_replica >= 0:
            return
        told = await fetch_once(client, leader, {partition: end - 1}, wait_ms=0, isolation=self._isolation)
        last = told.get(partition)
        if (
            last is not None
            and not last.error_code
            and not records_in(last)
            and self._visible_end(last) >= end
        ):
            self.positions[partition] = end

    def _visible_end(self, data: PartitionData) -> int:
        return data.last_stable_offset if self._isolation == READ_COMMITTED else data.high_watermark


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
    """What a node has for these partitions, from these offsets on; the errors inside are the caller's."""
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
    """The bytes of an answer's batches; the last one may be torn."""
    assert not isinstance(data.records, Sequence) or isinstance(data.records, bytes | memoryview)
    return memoryview(data.records or b"")


def _open(view: memoryview, aborted: Sequence[AbortedTransaction]) -> Iterator[Record | int]:
    """The data records of whole batches, and after each batch the offset that follows it.

    Batches of aborted transactions are left out: from the transaction's first offset to its marker.
    """
    waiting = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
    open_aborted: set[int] = set()
    for position, header in iterate_headers(view):
        check_batch(view, position)
        batch = view[position : position + header.size_bytes]
        while waiting and waiting[-1].first_offset <= header.last_offset:
            open_aborted.add(waiting.pop().producer_id)
        if header.is_control:
            marker = next(iterate_records(batch), None)
            kind = int.from_bytes((marker.key or b"")[2:4], "big") if marker is not None else -1
            if kind == _ABORT_MARKER:
                open_aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in open_aborted):
            yield from iterate_records(batch)
        yield header.next_offset
