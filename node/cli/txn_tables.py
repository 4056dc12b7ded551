"""Transactions and producers as tables of text."""

from collections.abc import Mapping, Sequence

from ottla.logstore.words.escaped_text import escape_controls
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli.group_tables import seconds_text
from ottla.node.cli.topic_commands import print_table
from ottla.node.client.hanging_transactions import OpenTransaction
from ottla.node.client.moments import moment_text
from ottla.node.client.txn_admin import ListedTransaction, ProducerView, TransactionView
from ottla.node.client.txn_as_json import UNKNOWN, StartOffsets, is_two_phase, open_for_ms


def print_transactions(
    transactions: Sequence[ListedTransaction], views: Mapping[str, TransactionView], now_ms: int
) -> None:
    """Print transactional ids; the open ones, in `views`, also with their age and timeout."""
    if transactions:
        print_table(
            ("id", "state", "producer", "coordinator", "open for", "timeout"),
            [(*one, *_open_time(views.get(one.transactional_id), now_ms)) for one in transactions],
        )


def _open_time(view: TransactionView | None, now_ms: int) -> tuple[str | None, str | None]:
    age_ms = None if view is None else open_for_ms(view, now_ms)
    if view is None or age_ms is None:
        return None, None
    return f"{seconds_text(age_ms)} s", _timeout(view)


def _timeout(view: TransactionView) -> str:
    return "none (two-phase)" if is_two_phase(view) else f"{view.timeout_ms / 1000:g} s"


# ---- one transaction -----------------------------------------------------------------------------


def print_transaction(view: TransactionView, starts: StartOffsets, now_ms: int) -> None:
    """Print the id in one line, then its partitions."""
    age_ms = open_for_ms(view, now_ms)
    age = "" if age_ms is None else f"  open for {seconds_text(age_ms)} s"
    print(
        f"id {escape_controls(view.transactional_id)}  {view.state}  producer {view.producer_id}"
        f"  epoch {view.producer_epoch}  timeout {_timeout(view)}{age}  coordinator {view.coordinator}"
    )
    if view.partitions:
        print_table(
            ("topic", "partition", "open from"),
            [(*one, _open_from(starts, one)) for one in view.partitions],
        )


def _open_from(starts: StartOffsets, partition: TopicPartition) -> str | int | None:
    found = starts.get(partition, "deleted")
    return "no leader" if found == UNKNOWN else found


# ---- producers of a log --------------------------------------------------------------------------


def print_producers(producers: Mapping[TopicPartition, Sequence[ProducerView]]) -> None:
    rows = [
        (*partition, *one[:3], _moment(one.last_timestamp_ms), one.coordinator_epoch, one.start_offset)
        for partition, views in producers.items()
        for one in views
    ]
    if rows:
        print_table(
            (
                "topic",
                "partition",
                "producer",
                "epoch",
                "sequence",
                "last record",
                "coordinator epoch",
                "open from",
            ),
            rows,
        )


def _moment(moment_ms: int) -> str | None:
    return None if moment_ms < 0 else moment_text(moment_ms)


# ---- hanging transactions ------------------------------------------------------------------------


def print_hanging(found: Sequence[OpenTransaction], now_ms: int) -> None:
    if found:
        print_table(
            ("topic", "partition", "producer", "epoch", "open from", "last record", "seconds"),
            [
                (
                    *partition,
                    one.producer_id,
                    one.producer_epoch,
                    one.start_offset,
                    _moment(one.last_timestamp_ms),
                    seconds_text(now_ms - one.last_timestamp_ms),
                )
                for partition, one in found
            ],
        )
