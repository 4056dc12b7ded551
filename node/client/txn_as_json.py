"""Transactions and producers as JSON objects, for the command line and the REST API."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.hanging_transactions import OpenTransaction
from ottla.node.client.txn_admin import DECIDED, ONGOING, ListedTransaction, ProducerView, TransactionView

# The first offset of the open transaction in each partition; None if there is none, UNKNOWN without a leader.
# Deleted partitions are missing.
StartOffsets = Mapping[TopicPartition, int | None]
UNKNOWN: Final = -1
NO_TIMEOUT_MS = 2**31 - 1  # of two-phase commit: only the client ends it


def transactions_as_json(transactions: Sequence[ListedTransaction]) -> list[dict[str, Any]]:
    return [
        {"id": one.transactional_id, "state": one.state, "producer": one[2], "coordinator": one[3]}
        for one in transactions
    ]


def listed_as_json(
    transactions: Sequence[ListedTransaction], views: Mapping[str, TransactionView], now_ms: int
) -> list[dict[str, Any]]:
    """Return the listed ids with the details of open transactions; the details are null for all others."""
    rows = transactions_as_json(transactions)
    for row in rows:
        view = views.get(row["id"])
        row["open_for_ms"] = None if view is None else open_for_ms(view, now_ms)
        row["timeout_ms"] = None if view is None or is_two_phase(view) else view.timeout_ms
        row["two_phase"] = None if view is None else is_two_phase(view)
    return rows


def is_two_phase(view: TransactionView) -> bool:
    """Return True if the transaction has no timeout (KIP-939)."""
    return view.timeout_ms == NO_TIMEOUT_MS


def transaction_as_json(view: TransactionView, starts: StartOffsets, now_ms: int) -> dict[str, Any]:
    age_ms = open_for_ms(view, now_ms)
    return {
        "id": view.transactional_id,
        "state": view.state,
        "producer": view.producer_id,
        "epoch": view.producer_epoch,
        "timeout_ms": None if is_two_phase(view) else view.timeout_ms,
        "two_phase": is_two_phase(view),
        "began_ms": view.start_ms,
        "open_for_ms": age_ms,
        "coordinator": view.coordinator,
        "partitions": [
            {
                "topic": one.topic,
                "partition": one.partition,
                "open_from": None if starts.get(one) == UNKNOWN else starts.get(one),
                "deleted": one not in starts,
                "leaderless": starts.get(one) == UNKNOWN,
            }
            for one in view.partitions
        ],
    }


def open_for_ms(view: TransactionView, now_ms: int) -> int | None:
    """Return the age of a transaction that has not ended everywhere, by this machine's clock; else None."""
    if view.state not in (ONGOING, *DECIDED) or view.start_ms is None:
        return None
    return max(now_ms - view.start_ms, 0)


def producers_as_json(producers: Mapping[TopicPartition, Sequence[ProducerView]]) -> list[dict[str, Any]]:
    return [producer_as_json(partition, one) for partition, views in producers.items() for one in views]


def producer_as_json(partition: TopicPartition, one: ProducerView) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "producer": one.producer_id,
        "epoch": one.producer_epoch,
        "last_sequence": one.last_sequence,
        "last_record_ms": one.last_timestamp_ms if one.last_timestamp_ms >= 0 else None,
        "coordinator_epoch": one.coordinator_epoch,
        "open_from": one.start_offset,
    }


def hanging_as_json(found: Sequence[OpenTransaction], now_ms: int) -> list[dict[str, Any]]:
    return [
        producer_as_json(partition, one) | {"silent_for_ms": now_ms - one.last_timestamp_ms}
        for partition, one in found
    ]
