"""One task of the sink in Spark's Python worker: its rows, its producer, and its report to the driver."""

from collections.abc import Iterator
from typing import Final
from uuid import UUID

import pyarrow as pa
from pyspark import TaskContext

from ottla.logstore.words.errors import KafkaError
from ottla.pipeline.client.clock import wall_ms
from ottla.pipeline.client.process_clusters import cluster_of
from ottla.pipeline.client.producer_ids import new_producer_pair
from ottla.pipeline.client.retries import is_retriable
from ottla.pipeline.sink.batch_messages import Begun
from ottla.pipeline.sink.decisions import BatchRun, WriteDecision, decide_batch
from ottla.pipeline.sink.gathered_rows import gather
from ottla.pipeline.sink.row_writer import Producer, RowWriter
from ottla.pipeline.sink.sink_cluster import Connect
from ottla.pipeline.sink.sink_options import SinkOptions
from ottla.pipeline.sink.slots import Names
from ottla.pipeline.sink.task_transaction import TaskTransaction
from ottla.pipeline.spark.task_message import TaskMessage
from ottla.pipeline.spark.worker_process import tune_memory
from ottla.pipeline.words import OptionError

# Spark's names of a task's properties about its query; they are internal, so tests check them.
BATCH_ID: Final = "streaming.sql.batchId"
QUERY_ID: Final = "sql.streaming.queryId"
JOB_GROUP: Final = "spark.jobGroup.id"  # the id of the run, unless a foreachBatch has set another
SPECULATION: Final = "spark.speculation"

# Nodes remember a producer for a day, in each of its partitions: a new one for each task would be a burden. A
# producer that failed is not used again, as it is unknown which of its batches were written.
_producers: dict[SinkOptions, Producer] = {}


def write_at_least_once(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
    """Write all rows of a task; each is in its log on return."""
    tune_memory()
    cluster = cluster_of(options.client)
    producer = _producers.pop(options, None)
    try:
        if producer is None:
            pair = new_producer_pair(cluster) if options.client.enable_idempotence else None
            producer = Producer(pair=pair)
        begin_at = _context().partitionId() + wall_ms()
        writer = RowWriter(cluster, options, producer, begin_at=begin_at, now_ms=wall_ms)
        for batch in gather(batches):
            writer.write(batch)
        writer.finish()
    except BaseException:
        cluster.close()  # answers under way must not reach the next task
        raise
    _producers[options] = producer
    return TaskMessage()


def write_exactly_once(
    options: SinkOptions, begun: Begun, connect: Connect, batches: Iterator[pa.RecordBatch]
) -> TaskMessage:
    """Write all rows of a task in a transaction that stays open, or none if they were written before."""
    tune_memory()
    run = _run_of_task()
    transaction = TaskTransaction(Names(options.transactional_id), begun, run, connect(options))
    if decide_batch(run, begun.record, takes_over=options.takes_over) is WriteDecision.DRAIN:
        for _ in batches:
            pass  # Spark requires all rows to be consumed
        return TaskMessage(transaction.report(is_drained=True))
    cluster = cluster_of(options.client)
    writer: RowWriter | None = None
    try:
        for batch in gather(batches):
            if writer is None:
                writer = _writer(options, transaction, run.batch_id)
            writer.write(batch)
        if writer is not None:
            writer.finish()
    except BaseException as error:
        if isinstance(error, Exception) and not (isinstance(error, KafkaError) and is_retriable(error)):
            _give_up(transaction)
        cluster.close()
        raise
    return TaskMessage(transaction.report())


def _writer(options: SinkOptions, transaction: TaskTransaction, batch_id: int) -> RowWriter:
    participant = transaction.take_slot()
    name = Names(options.transactional_id).id_of_slot(participant.slot)
    return RowWriter(
        cluster_of(options.client),
        options,
        Producer(pair=participant.pair, transactional_id=name),
        begin_at=participant.slot.number + wall_ms(),
        now_ms=wall_ms,
        join=transaction.join,
        batch_id=batch_id,
    )


def _give_up(transaction: TaskTransaction) -> None:
    try:
        transaction.give_up()
    except KafkaError:
        pass  # the user should see the error of the task itself


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "Spark calls write in a task"
    return context


def _run_of_task() -> BatchRun:
    """Return the query, run and batch that this task works for; OptionError if exactly_once cannot hold."""
    context = _context()
    batch_id, query_id = context.getLocalProperty(BATCH_ID), context.getLocalProperty(QUERY_ID)
    if batch_id is None or query_id is None:
        raise OptionError(
            "delivery.guarantee",
            "exactly_once is for streams (writeStream or foreachBatch), because a plain "
            "batch is not run again after a failure",
        )
    if (context.getLocalProperty(SPECULATION) or "false").lower() == "true":
        raise OptionError(SPECULATION, "must be false for a sink: otherwise each row could be written twice")
    try:
        run_id = UUID(context.getLocalProperty(JOB_GROUP) or "")
    except ValueError:
        raise OptionError(
            JOB_GROUP,
            "is not the id that Spark gives each run of a query, which exactly_once needs to tell a second "
            "write of a batch from a repeated one: do not set a job group in foreachBatch",
        ) from None
    return BatchRun(query_id=UUID(query_id), run_id=run_id, batch_id=int(batch_id))
