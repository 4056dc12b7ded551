"""Writes a stream to a web hook, at least once and in the order of each partition.

A batch that is sent again has the same idempotency keys, so a server that remembers them takes each record
once. A record that the server will never take goes to the topic of dead letters, or stops the query if there
is no such topic.
While the server takes nothing at all the query stops, and its batch is sent again at the next start.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ottla.pipeline.columns.header_columns import HEADERS_TYPE
from ottla.pipeline.connect.http_client import Answer, HttpClient, HttpFailure
from ottla.pipeline.connect.http_options import HttpOptions
from ottla.pipeline.connect.http_requests import (
    HttpOutcome,
    RecordOrigin,
    content_type,
    idempotency_key,
    outcome_of_status,
    to_array,
    to_element,
)
from ottla.pipeline.query import QuerySettings
from ottla.pipeline.words import OptionError

ORIGIN_COLUMNS: Final = ("topic", "partition", "offset")
REFUSED_SCHEMA: Final = "key binary, value binary, headers array<struct<key: string, value: binary>>"
_REFUSED: Final = pa.schema(
    [pa.field("key", pa.binary()), pa.field("value", pa.binary()), pa.field("headers", HEADERS_TYPE)]
)
_QUERY_ID: Final = "sql.streaming.queryId"
_CONTEXT: Final = "__connect.errors."  # Kafka Connect's headers of dead letters


class Record(NamedTuple):
    """One record, with its element of a body."""

    origin: RecordOrigin
    key: bytes | None
    value: bytes | None
    headers: Sequence[dict[str, Any]] | None
    element: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The reason why a record was given up: the stage, in Kafka Connect's word, and the problem."""

    record: Record
    stage: str
    problem: str


def start(frame: DataFrame, given: Mapping[str, str], query: QuerySettings) -> StreamingQuery:
    """Start a query that sends the column `value`; `topic`, `partition` and `offset` keep the order.

    Raises OptionError for the first option that cannot be honoured.
    """
    options = HttpOptions.from_options(given)
    if query.output_mode == "complete":
        raise OptionError("outputMode", "is complete, which would send all rows again with each batch")
    return query.start(frame.writeStream.foreachBatch(_Batches(frame, options, query.name)))


class _Batches:
    """The function that Spark calls with every micro-batch of one query."""

    def __init__(self, frame: DataFrame, options: HttpOptions, name: str) -> None:
        self._options = options
        self._name = name
        self._columns = sendable_columns(frame)

    def __call__(self, rows: DataFrame, batch: int) -> None:
        query_id = rows.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        assert query_id, "Spark sets the id of the query within a batch"
        records = rows.select(*self._columns)
        if "topic" in records.columns:
            # All records of a partition in one task, whatever operations the rows went through.
            records = records.repartition("topic", "partition").sortWithinPartitions(*ORIGIN_COLUMNS)
        task = SendTask(self._options, self._name, query_id, batch)
        refused = records.mapInArrow(task, REFUSED_SCHEMA)
        dead_letters = self._options.dead_letters
        if dead_letters is None:
            refused.write.format("noop").mode("overwrite").save()
        else:
            writer = refused.write.format("ottla").options(**dead_letters.client)
            writer.option("topic", dead_letters.topic).mode("append").save()


def sendable_columns(frame: DataFrame) -> list[Column]:
    """Return the columns of a frame that are sent or reported; OptionError if there is no value."""
    if "value" not in frame.columns:
        raise OptionError("value", "is missing: it is a required column")
    found = [F.col(name).cast("binary").alias(name) for name in ("key", "value") if name in frame.columns]
    if "headers" in frame.columns:
        found.append(F.col("headers"))
    if all(name in frame.columns for name in ORIGIN_COLUMNS):
        found += [F.col("topic"), F.col("partition").cast("int"), F.col("offset").cast("long")]
    return found


class SendTask:
    """The function that Spark calls in a task with the rows of a partition; it yields the refused ones."""

    def __init__(self, options: HttpOptions, name: str, query_id: str, batch: int) -> None:
        self._options = options
        self._name = name
        self._query_id = query_id
        self._batch = batch

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        client = HttpClient(self._options)
        rows_before = 0
        try:
            for batch in batches:
                refused: list[Refusal] = []
                good: list[Record] = []
                for record in to_records(batch, rows_before):
                    try:
                        element = to_element(record.value, self._options.body_format)
                        good.append(record._replace(element=element))
                    except ValueError as error:
                        refused.append(
                            self._refuse(Refusal(record=record, stage="VALUE_CONVERTER", problem=str(error)))
                        )
                for group in groups_of(good, self._options.batch_max_size):
                    refused += self._send(client, task, group)
                rows_before += batch.num_rows
                if refused:
                    yield self._to_batch(refused, task)
        finally:
            client.close()

    def _send(self, client: HttpClient, task: int, group: Sequence[Record]) -> list[Refusal]:
        """Send records in one request; return those that were refused."""
        answer = self._request(client, task, group)
        match outcome_of_status(answer.status):
            case HttpOutcome.TAKEN:
                return []
            case HttpOutcome.STOP:
                raise HttpFailure(self._options.shown_url, f"answered {answer.status} {answer.text!r}")
            case HttpOutcome.REFUSED if len(group) > 1:
                # The answer does not say which of them are bad, so each is sent again by itself.
                return [one for record in group for one in self._send(client, task, [record])]
            case HttpOutcome.REFUSED:
                problem = f"{self._options.shown_url} answered {answer.status} {answer.text!r}"
                return [self._refuse(Refusal(record=group[0], stage="TASK_PUT", problem=problem))]

    def _request(self, client: HttpClient, task: int, group: Sequence[Record]) -> Answer:
        body_format, is_array = self._options.body_format, self._options.batch_max_size > 1
        elements = [record.element for record in group]
        body = to_array(elements, body_format) if is_array else elements[0]
        key = idempotency_key(self._query_id, self._batch, task, group[0].origin, group[-1].origin)
        return client.send(body, content_type(body_format, is_array), key)

    def _refuse(self, refusal: Refusal) -> Refusal:
        if self._options.dead_letters is None:
            raise HttpFailure(self._options.shown_url, f"{refusal.record.origin}: {refusal.problem}")
        return refusal

    def _to_batch(self, refused: Sequence[Refusal], task: int) -> pa.RecordBatch:
        dead_letters = self._options.dead_letters
        assert dead_letters is not None
        headers = []
        for one in refused:
            context = self._context(one, task) if dead_letters.with_headers else []
            headers.append([*(one.record.headers or ()), *context])
        columns = [[one.record.key for one in refused], [one.record.value for one in refused], headers]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _REFUSED, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_REFUSED)

    def _context(self, refusal: Refusal, task: int) -> list[dict[str, Any]]:
        origin = refusal.record.origin
        fields = {
            "topic": origin.topic,
            "partition": origin.partition,
            "offset": origin.offset if origin.topic is not None else None,
            "connector.name": self._name,
            "task.id": task,
            "stage": refusal.stage,
            "class.name": f"{type(self).__module__}.{type(self).__qualname__}",
            "exception.class.name": HttpFailure.__qualname__,
            "exception.message": refusal.problem,
        }
        return [
            {"key": _CONTEXT + name, "value": str(value).encode()}
            for name, value in fields.items()
            if value is not None
        ]


def to_records(batch: pa.RecordBatch, rows_before: int) -> Iterator[Record]:
    """Yield the rows of a batch one by one: each becomes a request, or a part of one."""
    names, count = batch.schema.names, batch.num_rows

    def column(name: str) -> Sequence[Any]:
        return batch.column(name).to_pylist() if name in names else [None] * count

    offsets = column("offset") if "offset" in names else range(rows_before, rows_before + count)
    rows = zip(
        *(column(name) for name in ("topic", "partition", "key", "value", "headers")), offsets, strict=True
    )
    for topic, partition, key, value, headers, offset in rows:
        yield Record(RecordOrigin(topic=topic, partition=partition, offset=offset), key, value, headers)


def groups_of(records: Sequence[Record], most: int) -> Iterator[Sequence[Record]]:
    """Yield records that may go in one request: at most `most` of one partition, in their order."""
    begun = 0
    for index in range(1, len(records) + 1):
        is_last = index == len(records)
        first = records[begun].origin
        if (
            is_last
            or index - begun == most
            or records[index].origin.partition != first.partition
            or (records[index].origin.topic != first.topic)
        ):
            yield records[begun:index]
            begun = index
