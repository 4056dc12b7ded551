"""The rows of one range as batches of columns, and the handling of their loss."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from ottla.pipeline.client.metadata import Cluster, TopicGone
from ottla.pipeline.client.offset_range import OffsetRange
from ottla.pipeline.client.partition_fetcher import OutOfRange, PartitionFetcher, TopicReplaced
from ottla.pipeline.columns.fetched_batches import KEY_AND_VALUE
from ottla.pipeline.columns.record_columns import to_record_batch, with_timestamps_in
from ottla.pipeline.source.data_loss import LossPolicy
from ottla.pipeline.source.integer_ranges import ALL, IntegerRanges


def read_rows(
    cluster: Cluster,
    split: OffsetRange,
    fields: Sequence[str],
    policy: LossPolicy,
    timestamps_ms: IntegerRanges = ALL,
) -> Iterator[pa.RecordBatch]:
    """Yield the columns `fields` of the visible records with these timestamps, fetch by fetch.

    If records are gone, it raises DataLossError or, as `policy` says, yields those that are left. KafkaError
    if all attempts failed.
    """
    fetcher = PartitionFetcher(
        cluster, with_headers="headers" in fields, wanted=KEY_AND_VALUE.intersection(fields)
    )
    position = split.start
    while position < split.end:
        try:
            for fetched in fetcher.batches(replace(split, start=position)):
                assert fetched.columns is not None, "what is not visible is passed over"
                position = fetched.next_offset
                columns = fetched.columns
                if not timestamps_ms.is_all:
                    columns = with_timestamps_in(columns, timestamps_ms.ranges)
                if len(columns):
                    yield to_record_batch(columns, split.partition, fields)
            return
        except OutOfRange as lost:
            policy.report([str(lost)])
            if lost.log_start <= position:
                return  # the log was cut before the range: nothing of it is left
            position = lost.log_start
        except (TopicGone, TopicReplaced) as lost:
            policy.report([str(lost)])
            return
