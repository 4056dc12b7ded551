"""Transactions that a log has open and nobody will end: readers of what is committed wait at them for ever.

A coordinator writes markers to the partitions that are in its transaction. What a log has open while the
coordinator does not know of it, its producer died over or a marker passed by: there is nobody to end it.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.txn_admin import ProducerView, TransactionView


class OpenTransaction(NamedTuple):
    """What one log has open of one producer."""

    partition: TopicPartition
    producer: ProducerView


def open_for_long(
    producers: Mapping[TopicPartition, Iterable[ProducerView]], *, now_ms: int, longer_than_ms: int
) -> list[OpenTransaction]:
    """Transactions whose last record is older than that: no coordinator lets them be open for so long."""
    return [
        OpenTransaction(partition, one)
        for partition, views in producers.items()
        for one in views
        if one.start_offset is not None and now_ms - one.last_timestamp_ms > longer_than_ms
    ]


def without_coordinator(
    open_transactions: Iterable[OpenTransaction], transactions: Mapping[int, TransactionView]
) -> list[OpenTransaction]:
    """Those which no transaction (by producer id) has among its partitions."""
    return [
        one
        for one in open_transactions
        if one.producer.producer_id not in transactions
        or one.partition not in transactions[one.producer.producer_id].partitions
    ]


def still_open(
    open_transactions: Iterable[OpenTransaction],
    producers: Mapping[TopicPartition, Iterable[ProducerView]],
) -> list[OpenTransaction]:
    """Those which the logs, asked again, have open as before: others were just being ended."""
    there = {
        (partition, one.producer_id, one.start_offset)
        for partition, views in producers.items()
        for one in views
    }
    return [
        one
        for one in open_transactions
        if (one.partition, one.producer.producer_id, one.producer.start_offset) in there
    ]
