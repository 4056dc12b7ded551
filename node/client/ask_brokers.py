"""Requests to every broker, for state that each of them alone has: its groups and transactions.

All brokers are asked at once. The result has the answers, and an error for each broker that did not answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ottla.logstore.words.errors import KafkaError
from ottla.node.client.cluster_client import CUT_OFF_RETRY_S, MAX_RETRY_PAUSE_S, RETRY_PAUSE_S, Client

AT_ONCE: Final = 16  # brokers asked at the same time
ANSWER_S: Final = 5.0  # a broker that takes longer is asked again: it may be fenced by then
R = TypeVar("R")
Ask = Callable[[Client, int], Awaitable[R]]


@dataclass(frozen=True, slots=True)
class BrokerAnswers(Generic[R]):
    """The answers of the brokers by id, and the errors of those that did not answer."""

    found: Mapping[int, R]
    problems: Mapping[int, KafkaError]


async def ask_brokers(
    client: Client, ask: Ask[R], broker_ids: Iterable[int] | None = None
) -> BrokerAnswers[R]:
    """Ask these brokers, or all that are up; repeat it for half of the time for those that do not answer.

    A broker that is fenced meanwhile is not missing: others took over its state. KafkaError if no broker
    answered, or if one returned an error that cannot be retried.
    """
    limit = client.deadline.share(2)
    if client.cut_off_since_ms is not None:  # no broker is fenced, and none takes over
        limit = client.deadline.within(CUT_OFF_RETRY_S)
    given = None if broker_ids is None else set(broker_ids)
    found: dict[int, R] = {}
    pause_s = RETRY_PAUSE_S
    while True:
        there = {one.node_id for one in (await client.retry(lambda: client.refresh([]))).brokers}
        missing = sorted((there if given is None else given) - found.keys())
        problems = await _round(client, ask, missing, found)
        if not problems or not limit.allows(pause_s):
            break
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, MAX_RETRY_PAUSE_S)
    if problems and not found:
        raise next(iter(problems.values()))
    return BrokerAnswers(found, problems)


async def _round(
    client: Client, ask: Ask[R], broker_ids: Iterable[int], found: dict[int, R]
) -> dict[int, KafkaError]:
    """Ask each broker once, add the answers to `found`, and return the errors of the others."""
    places = asyncio.Semaphore(AT_ONCE)
    problems: dict[int, KafkaError] = {}
    mine = client.until(client.deadline.share(2).within(ANSWER_S))

    async def one(broker_id: int) -> None:
        async with places:
            try:
                found[broker_id] = await ask(mine, broker_id)
            except KafkaError as error:
                problems[broker_id] = error

    async with asyncio.TaskGroup() as tasks:
        for broker_id in broker_ids:
            tasks.create_task(one(broker_id))
    final = next((error for error in problems.values() if not error.code.retriable), None)
    if final is not None:
        raise final
    return dict(sorted(problems.items()))
