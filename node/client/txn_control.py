"""Inspects and aborts transactions, and finds those that no coordinator will end."""

import time
from collections.abc import Mapping
from typing import NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import hanging_transactions, txn_admin
from ottla.node.client.ask_leaders import error_of, for_lookup, may_pass
from ottla.node.client.cluster_client import Client
from ottla.node.client.group_reset import Topics, partitions_of
from ottla.node.client.hanging_transactions import OpenTransaction
from ottla.node.client.refusal import Refused
from ottla.node.client.txn_admin import DECIDED, NO_LEADER, ONGOING, ProducerView, TransactionView
from ottla.node.client.txn_as_json import UNKNOWN, StartOffsets

NOTHING_OPEN = "{} has no open transaction ({})."
IS_DECIDED = "The outcome of the transaction of {} is decided ({}); it is being written to the partitions."


class Search(NamedTuple):
    """The hanging transactions, and the partitions whose leader did not answer."""

    found: list[OpenTransaction]
    leaderless: list[TopicPartition]


async def start_offsets(client: Client, view: TransactionView) -> StartOffsets:
    """Return the first offset of the open transaction in each of its partitions that exists.

    None if it is not open in the partition, `UNKNOWN` if no leader answered.
    """
    leaders = await txn_admin.leaders_of(client, view.partitions)
    led = [one for one, leader in leaders.items() if leader != NO_LEADER]
    starts: dict[TopicPartition, int | None] = dict.fromkeys(leaders, UNKNOWN)
    for partition, views in (await txn_admin.find_producers(for_lookup(client), led)).found.items():
        starts[partition] = next(
            (one.start_offset for one in views if one.producer_id == view.producer_id), None
        )
    return starts


async def abort(client: Client, transactional_id: str) -> None:
    """Abort the open transaction of an id through its coordinator; its producer is fenced.

    An id without an open transaction is rejected, because its producer would be fenced for no reason.
    """
    view = await txn_admin.describe_transaction(client, transactional_id)
    if view.state in DECIDED:
        raise Refused(IS_DECIDED.format(transactional_id, view.state))
    if view.state != ONGOING:
        raise Refused(NOTHING_OPEN.format(transactional_id, view.state))
    await txn_admin.fence(client, transactional_id)


async def abort_in_log(client: Client, partition: TopicPartition, start_offset: int) -> ProducerView:
    """Abort the hanging transaction that starts at this offset of a partition; return its producer."""
    views = (await txn_admin.describe_producers(client, [partition]))[partition]
    producer = next((one for one in views if one.start_offset == start_offset), None)
    if producer is None:
        raise Refused(f"{partition} has no open transaction that starts at offset {start_offset}.")
    await txn_admin.write_abort_marker(client, partition, producer)
    return producer


async def find_hanging(
    client: Client, *, topics: Topics | None, broker_id: int | None, longer_than_ms: int
) -> Search:
    """Find hanging transactions in topics, in the replicas of a broker, or everywhere if both are None."""
    leaderless: list[TopicPartition] = []
    if topics is not None:
        partitions = await partitions_of(client, topics)
    else:
        partitions = await txn_admin.partitions_to_search(client, broker_id)
    producers: Mapping[TopicPartition, list[ProducerView]]
    if broker_id is not None:
        producers = await txn_admin.describe_producers(client, partitions, broker_id=broker_id)
    else:
        leaders = await txn_admin.leaders_of(client, partitions)
        led = [one for one, leader in leaders.items() if leader != NO_LEADER]
        answers = await txn_admin.find_producers(for_lookup(client), led)
        final = {one: error for one, error in answers.problems.items() if not may_pass(error)}
        if final:
            raise error_of(final)
        producers, leaderless = answers.found, sorted(leaders.keys() - answers.found.keys())
    found = hanging_transactions.open_for_long(
        producers, now_ms=int(time.time() * 1000), longer_than_ms=longer_than_ms
    )
    if not found:
        return Search([], leaderless)
    ids = sorted({one.producer.producer_id for one in found})
    transactions: dict[int, TransactionView] = {}
    known = await txn_admin.list_transactions(client, producer_ids=ids)
    for error in known.problems.values():
        raise error  # a transaction of a coordinator that did not answer must not count as hanging
    for listed in known.transactions:
        try:
            view = await txn_admin.describe_transaction(client, listed.transactional_id)
        except KafkaError as error:
            if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:  # the id expired meanwhile
                continue
            raise
        transactions[view.producer_id] = view
    found = hanging_transactions.without_coordinator(found, transactions)
    suspected = {one.partition for one in found}
    if broker_id is not None:
        again = await txn_admin.describe_producers(client, suspected, broker_id=broker_id)
    else:
        again = dict((await txn_admin.find_producers(for_lookup(client), suspected)).found)
        leaderless = sorted({*leaderless, *(suspected - again.keys())})
    return Search(hanging_transactions.still_open(found, again), leaderless)
