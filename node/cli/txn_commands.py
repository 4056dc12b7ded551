"""`ottla txn ...`: what the commands do and print. Each returns the exit code."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from logstore.errors import ErrorCode, KafkaError
from logstore.topic_partition import TopicPartition
from node.cli import hanging_transactions, txn_admin, txn_tables
from node.cli.client import Client
from node.cli.failure import EXIT_FAILURE, EXIT_USAGE, CommandError
from node.cli.group_commands import Topics
from node.cli.hanging_transactions import OpenTransaction
from node.cli.txn_admin import DECIDED, ONGOING, TransactionView
from node.cli.txn_tables import StartOffsets

# As Apache Kafka writes them; words of users are taken in any case.
STATES = ("Empty", ONGOING, *DECIDED, "CompleteCommit", "CompleteAbort", "PrepareEpochFence", "Dead")
NOTHING_OPEN = "{} has no transaction open ({})."
IS_DECIDED = "The transaction of {} is decided ({}): its markers are on their way."


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """What `ottla txn list` was told; nothing in a filter lets all pass."""

    states: Sequence[str]
    producer_ids: Sequence[int]
    longer_than_ms: int | None
    pattern: str | None
    as_json: bool


async def list_all(client: Client, options: ListOptions) -> int:
    async with client:
        found = await txn_admin.list_transactions(
            client,
            states=options.states,
            producer_ids=options.producer_ids,
            longer_than_ms=options.longer_than_ms,
            pattern=options.pattern,
        )
    if options.as_json:
        print(json.dumps(txn_tables.transactions_as_json(found)))
    else:
        txn_tables.print_transactions(found)
    return 0


async def describe(client: Client, transactional_ids: Sequence[str], as_json: bool) -> int:
    """Each id with its partitions, and what their leaders have open of it."""
    found: list[tuple[TransactionView, StartOffsets]] = []
    async with client:
        for transactional_id in dict.fromkeys(transactional_ids):
            view = await txn_admin.describe_transaction(client, transactional_id)
            found.append((view, await _start_offsets(client, view)))
    now_ms = _now_ms()
    if as_json:
        print(json.dumps([txn_tables.transaction_as_json(*one, now_ms) for one in found]))
        return 0
    for number, one in enumerate(found):
        if number:
            print()
        txn_tables.print_transaction(*one, now_ms)
    return 0


async def _start_offsets(client: Client, view: TransactionView) -> StartOffsets:
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


async def producers(client: Client, topics: Topics, broker_id: int | None, as_json: bool) -> int:
    async with client:
        partitions = await _partitions_of(client, topics)
        found = await txn_admin.describe_producers(client, partitions, broker_id=broker_id)
    if as_json:
        print(json.dumps(txn_tables.producers_as_json(found)))
    else:
        txn_tables.print_producers(found)
    return 0


async def _partitions_of(client: Client, topics: Topics) -> list[TopicPartition]:
    """The partitions that were named; UNKNOWN_TOPIC_OR_PARTITION for one that is not there."""
    named: list[TopicPartition] = []
    for name, numbers in topics.items():
        there = (await client.topic(name)).leaders
        named += [TopicPartition(name, number) for number in (there if numbers is None else numbers)]
    for partition in named:
        await client.leader_id(partition)
    return sorted(named)


# ---- abort ---------------------------------------------------------------------------------------


async def abort(client: Client, transactional_id: str) -> int:
    """Abort what an id has open, through its coordinator; its producer is fenced.

    An id without an open transaction is an error: it has a producer, perhaps, and that did nothing wrong.
    """
    async with client:
        view = await txn_admin.describe_transaction(client, transactional_id)
        if view.state in DECIDED:
            raise CommandError(IS_DECIDED.format(transactional_id, view.state))
        if view.state != ONGOING:
            raise CommandError(NOTHING_OPEN.format(transactional_id, view.state))
        await txn_admin.fence(client, transactional_id)
    print(f"aborted the transaction of {transactional_id}; its producer is fenced")
    return 0


async def abort_in_log(client: Client, topics: Topics, start_offset: int) -> int:
    """Abort a hanging transaction in the one log that has it open from this offset."""
    partitions = [
        TopicPartition(name, number) for name, numbers in topics.items() for number in numbers or ()
    ]
    if len(partitions) != 1:
        raise CommandError("Where? Name one partition: --topic TOPIC:P.", EXIT_USAGE)
    (partition,) = partitions
    async with client:
        views = (await txn_admin.describe_producers(client, partitions))[partition]
        producer = next((one for one in views if one.start_offset == start_offset), None)
        if producer is None:
            raise CommandError(f"{partition} has no transaction open from offset {start_offset}.")
        await txn_admin.write_abort_marker(client, partition, producer)
    print(f"aborted the transaction of producer {producer.producer_id} in {partition}")
    return 0


# ---- find-hanging --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingOptions:
    """Where to search: in topics, in the replicas of a broker, or (both None) everywhere."""

    topics: Topics | None
    broker_id: int | None
    longer_than_ms: int
    as_json: bool


async def find_hanging(client: Client, options: HangingOptions) -> int:
    """Print the transactions that nobody will end; 1 if there are any."""
    async with client:
        found = await _find_hanging(client, options)
    now_ms = _now_ms()
    if options.as_json:
        print(json.dumps(txn_tables.hanging_as_json(found, now_ms)))
    else:
        txn_tables.print_hanging(found, now_ms)
    return EXIT_FAILURE if found else 0


async def _find_hanging(client: Client, options: HangingOptions) -> list[OpenTransaction]:
    if options.topics is not None:
        partitions = await _partitions_of(client, options.topics)
    else:
        partitions = await txn_admin.partitions_to_search(client, options.broker_id)
    producers = await txn_admin.describe_producers(client, partitions, broker_id=options.broker_id)
    found = hanging_transactions.open_for_long(
        producers, now_ms=_now_ms(), longer_than_ms=options.longer_than_ms
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
    again = await txn_admin.describe_producers(
        client, {one.partition for one in found}, broker_id=options.broker_id
    )
    return hanging_transactions.still_open(found, again)


def _now_ms() -> int:
    return int(time.time() * 1000)
