"""Transactions that are open in a log and that no coordinator ends, so read_committed consumers wait.

A coordinator writes markers to the partitions of its transactions. If a log has a transaction open that the
coordinator does not know, the producer failed or a marker was lost, and no process will end it.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.txn_admin import ProducerView, TransactionView


class OpenTransaction(NamedTuple):
    """An open transaction of a producer in one log."""

    partition: TopicPartition
    producer: ProducerView


def open_for_long(
    producers: Mapping[TopicPartition, Iterable[ProducerView]], *, now_ms: int, longer_than_ms: int
) -> list[OpenTransaction]:
    """Return the transactions without a new record for longer than any coordinator allows."""
    return [
        OpenTransaction(partition, one)
        for partition, views in producers.items()
        for one in views
        if one.start_offset is not None and now_ms - one.last_timestamp_ms > longer_than_ms
    ]


def without_coordinator(
    open_transactions: Iterable[OpenTransaction], transactions: Mapping[int, TransactionView]
) -> list[OpenTransaction]:
    """Return those that are in no transaction (by producer id) of a coordinator."""
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
    """Return those that are open in newer views of the logs, too: the others were just being ended."""
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
