"""A stream of records into a topic: documents in and reports out, in the same order, at the same time.

A report is sent as soon as its outcome and those before it are known. If a client does not read the reports,
or sends faster than the cluster stores, reading from it pauses: the number of records under way is bounded.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final

import orjson

from ottla.logstore.words.errors import KafkaError
from ottla.node.client.deadline import Deadline
from ottla.node.client.record_batches import Delivery
from ottla.node.client.record_sender import RecordSender, TopicInfo
from ottla.node.rest_api.body_room import BodyPart
from ottla.node.rest_api.json_stream import JsonStream
from ottla.node.rest_api.loop_turns import Worker
from ottla.node.rest_api.record_json import ParsedRecord, delivery_report, parse_record, report_place
from ottla.node.rest_api.rest_error import PARTITION_NOT_FOUND, RestError, invalid_payload, rest_error_of

MAX_UNDER_WAY: Final = 10_000  # records of one stream without a report
MAX_REPORTS: Final = 2_000  # in one piece of the answer
SEPARATOR: Final = "\r\n"  # Confluent's


class Accepted:
    """A record that was given to the sender."""

    __slots__ = ("delivery", "parsed")

    def __init__(self, parsed: ParsedRecord, delivery: Delivery) -> None:
        self.parsed = parsed
        self.delivery = delivery

    @property
    def is_known(self) -> bool:
        return self.delivery.batch.done.is_set()

    def report(self, place: str) -> str:
        """Return the outcome in the format of `delivery_report`; RestError if the record is not stored."""
        delivery = self.delivery
        outcome = delivery.outcome
        if isinstance(outcome, KafkaError):
            raise rest_error_of(outcome)
        number = delivery.batch.partition.partition
        return delivery_report(self.parsed, place, number, outcome, delivery.timestamp)


def accept(
    sender: RecordSender, info: TopicInfo, document: Any, deadline: Deadline | None = None
) -> Accepted:
    """Send the record of a document; RestError if it has no valid record."""
    parsed = parse_record(document)
    number = parsed.record.partition
    if number is not None and number not in info.topic.leaders:
        raise RestError(404, PARTITION_NOT_FOUND, "Partition not found.")
    try:
        return Accepted(parsed, sender.add(info, parsed.record, deadline))
    except KafkaError as error:
        raise rest_error_of(error) from None


def failed_report(error: RestError) -> bytes:
    """Return the report that ends a stream which cannot continue."""
    return (_failed(error) + SEPARATOR).encode()


def _failed(error: RestError) -> str:
    return orjson.dumps({"error_code": error.error_code, "message": error.message}).decode()


class RecordStream:
    """One stream; `reports` yields the answer piece by piece while `chunks` arrive."""

    def __init__(
        self,
        sender: RecordSender,
        info: TopicInfo,
        cluster_id: str,
        *,
        worker: Worker,
        max_document_bytes: int,
        body_part: BodyPart,
        record_limit_s: float | None = None,
    ) -> None:
        """Limit the time of each record to `record_limit_s`, or else to the sender's own limit."""
        self._record_limit_s = record_limit_s
        self._sender = sender
        self._info = info
        self._place = report_place(cluster_id, info.topic.name)
        self._worker = worker
        self._documents = JsonStream(max_document_bytes)
        self._body_part = body_part
        self._under_way: deque[Accepted | RestError] = deque()
        self._has_ended = False
        self._has_more = asyncio.Event()
        self._has_room = asyncio.Event()

    async def reports(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Yield reports, each a line."""
        tasks = asyncio.TaskGroup()
        await tasks.__aenter__()
        reader = tasks.create_task(self._read(chunks))
        try:
            while True:
                self._has_more.clear()
                if self._under_way:
                    first = self._under_way[0]
                    if isinstance(first, Accepted):
                        await first.delivery.batch.done.wait()
                    yield self._known_reports()
                elif self._has_ended:
                    return
                else:
                    await self._has_more.wait()
        finally:
            # Not `async with`: it treats the closing of a generator as a failure.
            reader.cancel()
            await tasks.__aexit__(None, None, None)

    def _known_reports(self) -> bytes:
        pieces: list[str] = []
        waiting = self._under_way
        while waiting and len(pieces) < MAX_REPORTS:
            first = waiting[0]
            if isinstance(first, Accepted) and not first.is_known:
                break
            waiting.popleft()
            pieces.append(self._report(first))
        if len(waiting) < MAX_UNDER_WAY:
            self._has_room.set()
        pieces.append("")
        return SEPARATOR.join(pieces).encode()

    def _report(self, one: Accepted | RestError) -> str:
        if isinstance(one, Accepted):
            try:
                return f'{{"error_code":200,{one.report(self._place)}}}'
            except RestError as error:
                one = error
        return _failed(one)

    # ---- in --------------------------------------------------------------------------------------

    async def _read(self, chunks: AsyncIterator[bytes]) -> None:
        is_empty = True
        try:
            async for chunk in chunks:
                await self._wait_for_room()
                async for document in self._worker.each(self._documents.feed(chunk)):
                    is_empty = False
                    self._under_way.append(self._accept(document))
                    self._has_more.set()
                    if len(self._under_way) >= MAX_UNDER_WAY:
                        await self._wait_for_room()
                if self._documents.problem is not None:
                    break
                self._body_part.hold(self._documents.held_bytes)
            self._documents.end()
            if self._documents.problem is not None:
                message = f"Bad Request: Error processing message: {self._documents.problem}"
                self._under_way.append(RestError(400, 400, message))
            elif is_empty:  # only whitespace
                self._under_way.append(invalid_payload("Request body is empty. Data is required."))
        except RestError as error:  # the body stalled, or there is no memory for more of it
            self._under_way.append(error)
        except ConnectionError:  # the client has gone; its records are stored
            pass
        finally:
            self._has_ended = True
            self._has_more.set()

    async def _wait_for_room(self) -> None:
        await self._sender.wait_for_room()
        while len(self._under_way) >= MAX_UNDER_WAY:
            self._has_room.clear()
            await self._has_room.wait()

    def _accept(self, document: Any) -> Accepted | RestError:
        try:
            limit_s = self._record_limit_s
            deadline = None if limit_s is None else Deadline.after(limit_s)
            return accept(self._sender, self._info, document, deadline)
        except RestError as error:
            return error
