"""Requests about partitions to their leaders, one request per leader for all of its partitions.

Partitions whose leader does not answer are retried until the deadline of the client. Those that remain are
returned with their errors beside the answers for the others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.cluster_client import (
    CUT_OFF_RETRY_S,
    MAX_RETRY_PAUSE_S,
    RETRY_PAUSE_S,
    Client,
    check,
    leader_in,
)

# A partition that loses its leader has another one within this time, or none for long; a request that can do
# without some partitions waits no longer.
ELECTION_S: Final = 3.0
R = TypeVar("R")
# Asks one node about its partitions. If it raises, none of them has an answer.
Ask = Callable[[int, Sequence[TopicPartition]], Awaitable[Mapping[TopicPartition, R | KafkaError]]]
_NAMED: Final = 5  # partitions that an error names


@dataclass(frozen=True, slots=True)
class Answers(Generic[R]):
    """The answers of the leaders by partition, and the errors of the partitions that have none."""

    found: Mapping[TopicPartition, R]
    problems: Mapping[TopicPartition, KafkaError]

    def all(self) -> dict[TopicPartition, R]:
        """Return the answers; KafkaError if a partition has none."""
        if self.problems:
            raise error_of(self.problems)
        return dict(self.found)


def for_lookup(client: Client) -> Client:
    """Return the client for a look-up that may miss partitions; half of the time is left for what follows."""
    return client.until(client.deadline.share(2).within(ELECTION_S))


def error_of(problems: Mapping[TopicPartition, KafkaError]) -> KafkaError:
    """Return one error that names all these partitions; errors that are not retried come first."""
    ordered = sorted(problems.items())
    partition, error = next((one for one in ordered if not may_pass(one[1])), ordered[0])
    others = [str(one) for one, _ in ordered if one != partition]
    detail = error.detail or str(partition)
    if partition.topic not in detail:
        detail = f"{partition}: {detail}"
    if others:
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        detail = f"{detail.rstrip('.')}; also without an answer: {', '.join(others[:_NAMED])}{more}"
    return KafkaError(error.code, detail)


async def ask_leaders(client: Client, partitions: Iterable[TopicPartition], ask: Ask[R]) -> Answers[R]:
    """Ask until each leader has answered for its partitions, or the deadline of the client is over.

    An error that cannot pass ends the wait for the other partitions, too.
    """
    missing = set(partitions)
    found: dict[TopicPartition, R] = {}
    problems: dict[TopicPartition, KafkaError] = {}
    pause_s = RETRY_PAUSE_S
    deadline = client.deadline
    if client.cut_off_since_ms is not None:  # no leader is elected
        deadline = deadline.within(CUT_OFF_RETRY_S)
    while missing:
        answers = await _round(client, missing, ask)
        for partition, answer in answers.items():
            if isinstance(answer, KafkaError):
                problems[partition] = answer
            else:
                found[partition] = answer
                problems.pop(partition, None)
        again = {one for one in missing - found.keys() if may_pass(problems[one])}
        if not again or again != missing - found.keys() or not deadline.allows(pause_s):
            break  # an error that stays for one partition ends the wait for the others
        missing = again
        for name in {one.topic for one in again}:
            client.forget(name)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, MAX_RETRY_PAUSE_S)
    return Answers(found, problems)


def may_pass(error: KafkaError) -> bool:
    """Return True if the error comes from the state of the cluster, so that a later request may succeed."""
    return error.code.retriable and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _round(
    client: Client, partitions: Collection[TopicPartition], ask: Ask[R]
) -> dict[TopicPartition, R | KafkaError]:
    """Return each partition with the answer of its leader, or with the error that took its place."""
    results: dict[TopicPartition, R | KafkaError] = {}
    by_leader: dict[int, list[TopicPartition]] = {}
    for partition, leader in (await find_leaders(client, partitions)).items():
        if isinstance(leader, KafkaError):
            results[partition] = leader
        else:
            by_leader.setdefault(leader, []).append(partition)

    async def of_leader(leader: int, mine: Sequence[TopicPartition]) -> None:
        try:
            answers = await ask(leader, mine)
        except KafkaError as error:
            results.update(dict.fromkeys(mine, error))
            return
        silent = KafkaError(
            ErrorCode.INVALID_REQUEST, f"node {leader} left out a partition that it was asked for"
        )
        results.update({one: answers.get(one, silent) for one in mine})

    async with asyncio.TaskGroup() as tasks:
        for leader, mine in by_leader.items():
            tasks.create_task(of_leader(leader, mine))
    return results


async def find_leaders(
    client: Client, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int | KafkaError]:
    """Return the leader of each partition, or an error; refresh the metadata once if a leader is unknown.

    KafkaError if no node of the cluster ever answered, or if a retry would get the same answer.
    """
    partitions = sorted(partitions)
    leaders = {one: _leader(client, one, None) for one in partitions}
    unknown = sorted({one.topic for one, leader in leaders.items() if isinstance(leader, KafkaError)})
    if not unknown:
        return leaders
    failure: KafkaError | None = None
    codes: dict[str | None, int] = {}
    try:
        codes = {topic.name: topic.error_code for topic in (await client.refresh(unknown)).topics}
    except KafkaError as error:
        if not error.code.retriable or not client.has_answered:
            raise
        failure = error
    for partition in partitions:
        error_code = codes.get(partition.topic, 0)
        try:
            check(error_code, None, f"topic {partition.topic}")
            leaders[partition] = _leader(client, partition, failure)
        except KafkaError as error:
            leaders[partition] = error
    return leaders


def _leader(client: Client, partition: TopicPartition, failure: KafkaError | None) -> int | KafkaError:
    topic = client.topics.get(partition.topic)
    try:
        if topic is None:
            raise failure or KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader at the moment"
            )
        return leader_in(topic, partition)
    except KafkaError as error:
        return error
