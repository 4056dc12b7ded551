"""`ottla txn ...`: runs the commands and prints their results. Each returns the exit code."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli import txn_tables
from ottla.node.cli.answers import answer, print_json
from ottla.node.cli.failure import EXIT_FAILURE, EXIT_USAGE, CommandError, explain, print_broker_problems
from ottla.node.client import txn_admin, txn_as_json, txn_control
from ottla.node.client.cluster_client import Client
from ottla.node.client.group_reset import Topics, partitions_of
from ottla.node.client.txn_admin import TransactionView
from ottla.node.client.txn_as_json import StartOffsets
from ottla.node.doctor.finding import named

STATES = txn_admin.STATES  # options are accepted in any case


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """The options of `ottla txn list`; an empty filter matches all."""

    states: Sequence[str]
    producer_ids: Sequence[int]
    longer_than_ms: int | None
    pattern: str | None
    as_json: bool


async def list_all(client: Client, options: ListOptions) -> int:
    async with client:
        answers = await txn_admin.list_transactions(
            client,
            states=options.states,
            producer_ids=options.producer_ids,
            longer_than_ms=options.longer_than_ms,
            pattern=options.pattern,
        )
        found = answers.transactions
        views = await txn_admin.describe_open(client, found)
    now_ms = _now_ms()
    if options.as_json:
        print_json(txn_as_json.listed_as_json(found, views, now_ms))
    else:
        txn_tables.print_transactions(found, views, now_ms)
    return print_broker_problems(answers.problems, "transactions")


async def describe(client: Client, transactional_ids: Sequence[str], as_json: bool) -> int:
    """Print each id with its partitions, and its open transaction in each of them."""
    if not all(transactional_ids):
        raise CommandError(
            "A transactional id must not be empty; `ottla txn list` shows all of them.", EXIT_USAGE
        )
    found: list[tuple[TransactionView, StartOffsets]] = []
    async with client:
        for transactional_id in dict.fromkeys(transactional_ids):
            view = await txn_admin.describe_transaction(client, transactional_id)
            found.append((view, await txn_control.start_offsets(client, view)))
    now_ms = _now_ms()
    if as_json:
        print_json([txn_as_json.transaction_as_json(*one, now_ms) for one in found])
        return 0
    for number, one in enumerate(found):
        if number:
            print()
        txn_tables.print_transaction(*one, now_ms)
    return 0


async def producers(client: Client, topics: Topics, broker_id: int | None, as_json: bool) -> int:
    """Print the producers of each log; 1 if a leader did not answer."""
    problems: Mapping[TopicPartition, KafkaError] = {}
    async with client:
        partitions = await partitions_of(client, topics)
        if broker_id is not None:
            found = await txn_admin.describe_producers(client, partitions, broker_id=broker_id)
        else:
            answers = await txn_admin.find_producers(client, partitions)
            if not answers.found:
                answers.all()  # raises the reason
            found, problems = dict(sorted(answers.found.items())), answers.problems
    if as_json:
        print_json(txn_as_json.producers_as_json(found))
    else:
        txn_tables.print_producers(found)
    for _, error in sorted(problems.items()):
        print(f"ottla: {explain(error)}", file=sys.stderr)
    return EXIT_FAILURE if problems else 0


# ---- abort ---------------------------------------------------------------------------------------


async def abort(client: Client, transactional_id: str, *, as_json: bool) -> int:
    """Abort the open transaction of an id through its coordinator; its producer is fenced."""
    async with client:
        await txn_control.abort(client, transactional_id)
    answer(
        {"transactional_id": transactional_id, "aborted": True},
        f"aborted the transaction of {transactional_id} and fenced its producer",
        as_json=as_json,
    )
    return 0


async def abort_in_log(client: Client, topics: Topics, start_offset: int, *, as_json: bool) -> int:
    """Abort a hanging transaction in one log, where it starts at this offset."""
    partitions = [
        TopicPartition(name, number) for name, numbers in topics.items() for number in numbers or ()
    ]
    if len(partitions) != 1:
        raise CommandError("Name exactly one partition with --topic TOPIC:P.", EXIT_USAGE)
    (partition,) = partitions
    async with client:
        producer = await txn_control.abort_in_log(client, partition, start_offset)
    answer(
        {**partition._asdict(), "producer_id": producer.producer_id, "aborted": True},
        f"aborted the transaction of producer {producer.producer_id} in {partition}",
        as_json=as_json,
    )
    return 0


# ---- find-hanging --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingOptions:
    """The scope of a search: topics, the replicas of a broker, or (both None) all partitions."""

    topics: Topics | None
    broker_id: int | None
    longer_than_ms: int
    as_json: bool


async def find_hanging(client: Client, options: HangingOptions) -> int:
    """Print the hanging transactions; 1 if there are any, or a partition without a leader."""
    async with client:
        found, leaderless = await txn_control.find_hanging(
            client,
            topics=options.topics,
            broker_id=options.broker_id,
            longer_than_ms=options.longer_than_ms,
        )
    now_ms = _now_ms()
    if options.as_json:
        print_json(txn_as_json.hanging_as_json(found, now_ms))
    else:
        txn_tables.print_hanging(found, now_ms)
    if leaderless:
        print(
            f"ottla: not searched, because these partitions have no leader: {named(leaderless)}",
            file=sys.stderr,
        )
    return EXIT_FAILURE if found or leaderless else 0


def _now_ms() -> int:
    return int(time.time() * 1000)
