"""Writes the rows of one task to their partitions: Arrow batches into record batches, with five in flight."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ottla.logstore.record_batch import increment_sequence
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.batch_limits import max_batch_bytes
from ottla.pipeline.client.batch_sender import BatchSender
from ottla.pipeline.client.metadata import Cluster, TopicGone
from ottla.pipeline.client.offset_syncs import OffsetNotes, slot_of
from ottla.pipeline.columns.batch_encoder import encode_batches
from ottla.pipeline.columns.partitioner import Sticky
from ottla.pipeline.columns.producer_pair import ProducerPair
from ottla.pipeline.columns.row_columns import RowColumns, RowLayout, find_row_layout, rows_by_partition
from ottla.pipeline.sink.sink_options import SinkOptions
from ottla.pipeline.words import OptionError


@dataclass(slots=True, kw_only=True)
class Producer:
    """A producer as nodes know it; `sequences` has the next sequence number of each partition.

    Without a pair, nodes cannot tell a batch that is sent again from a new one.
    """

    pair: ProducerPair | None
    transactional_id: str | None = None
    sequences: dict[TopicPartition, int] = field(default_factory=dict)


class RowWriter:
    """The writer of one task.

    `join` is called with partitions before the first batch goes to them. `begin_at` is any number that
    differs from task to task (`Sticky`). `batch_id` is the stream's, for offset syncs.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: SinkOptions,
        producer: Producer,
        *,
        begin_at: int,
        now_ms: Callable[[], int],
        join: Callable[[Sequence[TopicPartition]], None] = lambda _partitions: None,
        batch_id: int = 0,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._producer = producer
        self._now_ms = now_ms
        self._join = join
        self._joined: set[TopicPartition] = set()
        self._sticky = Sticky(begin_at)
        self._sender = BatchSender(cluster, producer.transactional_id)
        self._layout: RowLayout | None = None
        self._notes: OffsetNotes | None = None
        if options.offset_syncs_topic is not None:
            self._notes = OffsetNotes(slot=slot_of(batch_id), lag_max=options.offset_lag_max)

    def write(self, batch: pa.RecordBatch) -> None:
        """Send all rows of `batch`.

        Raises OptionError for rows that no topic takes; KafkaError, TopicGone.
        """
        if self._layout is None:
            with_offsets = self._notes is not None
            self._layout = find_row_layout(batch.schema, topic=self._options.topic, with_offsets=with_offsets)
        if not batch.num_rows:
            return
        self._send(self._parts(batch, self._layout), self._notes)

    def finish(self) -> None:
        """Wait until every row is in its log, and then write the offset syncs if the options name a topic."""
        placed = self._sender.flush()
        if self._notes is not None and (syncs := self._notes.rows(placed)) is not None:
            assert self._options.offset_syncs_topic is not None
            self._send([(TopicPartition(self._options.offset_syncs_topic, 0), syncs)], None)
            self._sender.flush()

    def _send(self, parts: Sequence[tuple[TopicPartition, RowColumns]], notes: OffsetNotes | None) -> None:
        new = [partition for partition, _ in parts if partition not in self._joined]
        if new:
            self._join(new)
            self._joined.update(new)
        now_ms = self._now_ms()
        settings, producer = self._options.client, self._producer
        for partition, rows in parts:
            sequence = producer.sequences.get(partition, 0)
            encoded = encode_batches(
                rows,
                compression=self._options.compression,
                level=settings.compression_level,
                producer=producer.pair,
                base_sequence=sequence,
                is_transactional=producer.transactional_id is not None,
                max_batch_bytes=min(settings.batch_size, max_batch_bytes(self._cluster, partition.topic)),
                max_row_bytes=settings.max_request_size,
                now_ms=now_ms,
            )
            producer.sequences[partition] = increment_sequence(sequence, len(rows))
            for one in encoded:
                self._sender.send(partition, one.data, records_count=one.records_count)
                if notes is not None and rows.offsets is not None:
                    notes.note(partition, rows.offsets[one.first_row : one.first_row + one.records_count])

    def _parts(self, batch: pa.RecordBatch, layout: RowLayout) -> list[tuple[TopicPartition, RowColumns]]:
        counts = self._partition_counts(batch, layout)
        try:
            return rows_by_partition(batch, layout, counts, self._sticky)
        except OptionError as refused:
            if refused.option != "partition":
                raise
        # Partitions may have been added since this process asked for the topic.
        for topic in counts:
            self._cluster.forget_topic(topic)
        return rows_by_partition(batch, layout, self._partition_counts(batch, layout), self._sticky)

    def _partition_counts(self, batch: pa.RecordBatch, layout: RowLayout) -> dict[str, int]:
        if layout.topic is None:
            assert layout.topic_of_all is not None
            topics = [layout.topic_of_all]
        else:
            topics = pc.unique(batch.column(layout.topic)).drop_null().to_pylist()
        try:
            return {topic: len(self._cluster.topic(topic).leaders) for topic in topics}
        except TopicGone as gone:
            raise OptionError("topic", f"{gone.topic} does not exist") from None
