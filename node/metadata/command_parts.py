"""Splits a change of very many topics into several commands to the controller.

A command is decided, committed, applied and published as a whole, on the loop of every node, and each of
these steps takes time in proportion to its size. Kafka does not promise that the topics of one request change
together, so a large request is sent in parts, one after another. Between two parts the controller receives
heartbeats and serves other clients.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.controller_config import MAX_RECORDS_PER_COMMAND
from ottla.node.work.turns import Steps, give_way, take_turns

# Limits of a part: deciding on a topic takes some 60 us, applying and publishing a record some 20 us.
ITEMS_PER_PART: Final = 50
RECORDS_PER_PART: Final = 250

Item = TypeVar("Item")
Result = TypeVar("Result")


async def submit_in_parts(
    items: Sequence[Item],
    *,
    records_of: Callable[[Item], int],
    key_of: Callable[[Item], Hashable],
    submit: Callable[[list[Item], int], Awaitable[Iterable[Result]]],
    refused: Callable[[Sequence[Item], KafkaError], Iterable[Result]],
    timeout_ms: int,
) -> list[Result]:
    """Submit all items in parts and return their results, in the order in which each key first occurs.

    `submit` sends the given items within the given milliseconds; `refused` makes the results of items whose
    command failed. Items with the same key are in the same part, since the controller compares them. Every
    result is POLICY_VIOLATION if the items need more records than one request may make.
    """
    needed, groups = await take_turns(grouped(items, records_of, key_of))
    if needed > MAX_RECORDS_PER_COMMAND:
        error = KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"A request may change at most {MAX_RECORDS_PER_COMMAND} topics, partitions and "
            f"settings, but this one changes {needed}.",
        )
        return list(refused(items, error))
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    results: list[Result] = []
    for number, part in enumerate(parts_of(groups, records_of)):
        if number:
            await give_way()  # a part that is rejected as a whole does not wait, and would keep the loop
        left_ms = max(1, round((deadline - loop.time()) * 1000))
        try:
            results += await submit(part, left_ms)
        except KafkaError as error:
            results += refused(part, error)
    return results


def grouped(
    items: Sequence[Item], records_of: Callable[[Item], int], key_of: Callable[[Item], Hashable]
) -> Steps[tuple[int, list[list[Item]]]]:
    """Return the number of records that all items need, and the items grouped by key.

    The number is at least that of the items.
    """
    by_key: dict[Hashable, list[Item]] = {}
    records = 0
    for item in items:
        by_key.setdefault(key_of(item), []).append(item)
        records += records_of(item)
        yield
    return max(len(items), records), list(by_key.values())


def parts_of(groups: Iterable[list[Item]], records_of: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Yield parts made of whole groups; without groups, one empty part."""
    part: list[Item] = []
    records = 0
    for alike in groups:
        more = sum(map(records_of, alike))
        if part and (len(part) >= ITEMS_PER_PART or records + more > RECORDS_PER_PART):
            yield part
            part, records = [], 0
        part += alike
        records += more
    yield part
