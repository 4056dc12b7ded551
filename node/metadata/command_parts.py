"""A change of very many topics is sent to the controller in parts.

A command is decided, committed, applied and published as a whole, on the loops of all nodes, and each step
takes as long as the command is large. Kafka promises nothing of the topics of one request together, so those
of a large one go one part after another: between two of them the controller hears heartbeats, and others are
served.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.controller_config import MAX_RECORDS_PER_COMMAND
from ottla.node.work.turns import Steps, give_way, take_turns

# Of a part: to decide on a topic takes some 60 us, to apply and publish a record some 20 us.
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
    """Return the results of all items, part by part, in the order in which their keys come first.

    `submit` sends some of them within so many milliseconds, `refused` gives the results where that fails.
    Items of one key are in one part, since the controller compares them. POLICY_VIOLATION for all where they
    need more records than one request may make.
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
            await give_way()  # a part that is refused as a whole waits for nothing
        left_ms = max(1, round((deadline - loop.time()) * 1000))
        try:
            results += await submit(part, left_ms)
        except KafkaError as error:
            results += refused(part, error)
    return results


def grouped(
    items: Sequence[Item], records_of: Callable[[Item], int], key_of: Callable[[Item], Hashable]
) -> Steps[tuple[int, list[list[Item]]]]:
    """Return how many records all items need, or how many items there are if these are more; and the items,
    those of one key together.
    """
    by_key: dict[Hashable, list[Item]] = {}
    records = 0
    for item in items:
        by_key.setdefault(key_of(item), []).append(item)
        records += records_of(item)
        yield
    return max(len(items), records), list(by_key.values())


def parts_of(groups: Iterable[list[Item]], records_of: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Split the groups, each as a whole; there is one part at least."""
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
