"""What is done about transactions: looked into, aborted, and found where nobody will end them."""

import time

from logstore.errors import ErrorCode, KafkaError
from logstore.topic_partition import TopicPartition
from node.client import hanging_transactions, txn_admin
from node.client.cluster_client import Client
from node.client.group_reset import Topics, partitions_of
from node.client.hanging_transactions import OpenTransaction
from node.client.refusal import Refused
from node.client.txn_admin import DECIDED, ONGOING, ProducerView, TransactionView
from node.client.txn_as_json import StartOffsets

NOTHING_OPEN = "{} has no transaction open ({})."
IS_DECIDED = "The transaction of {} is decided ({}): its markers are on their way."


async def start_offsets(client: Client, view: TransactionView) -> StartOffsets:
    """Where each partition that is still there has it open from; None where it has not."""
    if not view.partitions:
        return {}
    await client.refresh(sorted({one.topic for one in view.partitions}))
    there = [
        one
        for one in view.partitions
        if one.topic in client.topics and one.partition in client.topics[one.topic].leaders
    ]
    producers = await txn_admin.describe_producers(client, there)
    return {
        partition: next((one.start_offset for one in views if one.producer_id == view.producer_id), None)
        for partition, views in producers.items()
    }


async def abort(client: Client, transactional_id: str) -> None:
    """Abort what an id has open, through its coordinator; its producer is fenced.

    An id without an open transaction is refused: it has a producer, perhaps, and that did nothing wrong.
    """
    view = await txn_admin.describe_transaction(client, transactional_id)
    if view.state in DECIDED:
        raise Refused(IS_DECIDED.format(transactional_id, view.state))
    if view.state != ONGOING:
        raise Refused(NOTHING_OPEN.format(transactional_id, view.state))
    await txn_admin.fence(client, transactional_id)


async def abort_in_log(client: Client, partition: TopicPartition, start_offset: int) -> ProducerView:
    """Abort a hanging transaction in the one log that has it open from this offset; whose it was."""
    views = (await txn_admin.describe_producers(client, [partition]))[partition]
    producer = next((one for one in views if one.start_offset == start_offset), None)
    if producer is None:
        raise Refused(f"{partition} has no transaction open from offset {start_offset}.")
    await txn_admin.write_abort_marker(client, partition, producer)
    return producer


async def find_hanging(
    client: Client, *, topics: Topics | None, broker_id: int | None, longer_than_ms: int
) -> list[OpenTransaction]:
    """Transactions that nobody will end: in topics, in the replicas of a broker, or everywhere (None)."""
    if topics is not None:
        partitions = await partitions_of(client, topics)
    else:
        partitions = await txn_admin.partitions_to_search(client, broker_id)
    producers = await txn_admin.describe_producers(client, partitions, broker_id=broker_id)
    found = hanging_transactions.open_for_long(
        producers, now_ms=int(time.time() * 1000), longer_than_ms=longer_than_ms
    )
    if not found:
        return []
    ids = sorted({one.producer.producer_id for one in found})
    transactions: dict[int, TransactionView] = {}
    for listed in await txn_admin.list_transactions(client, producer_ids=ids):
        try:
            view = await txn_admin.describe_transaction(client, listed.transactional_id)
        except KafkaError as error:
            if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:  # it expired meanwhile
                continue
            raise
        transactions[view.producer_id] = view
    found = hanging_transactions.without_coordinator(found, transactions)
    again = await txn_admin.describe_producers(client, {one.partition for one in found}, broker_id=broker_id)
    return hanging_transactions.still_open(found, again)
