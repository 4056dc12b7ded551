"""Leaders of partitions are asked concurrently: this node directly, others as far as they answer."""

import asyncio
from collections.abc import Sequence

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.work.each_leader import ask_each_leader

HERE, THERE, REFUSES, HANGS = 1, 2, 3, 4


def test_each_leader_is_asked_for_all_its_partitions_and_a_silent_one_returns_none() -> None:
    requests: list[tuple[int, list[str]]] = []
    leaders = {"a": HERE, "b": THERE, "c": HERE, "d": REFUSES, "e": HANGS, "f": None, "g": -1}

    async def here(mine: Sequence[str]) -> dict[str, int]:
        requests.append((HERE, list(mine)))
        return dict.fromkeys(mine, HERE)

    async def there(leader: int, mine: Sequence[str]) -> dict[str, int]:
        requests.append((leader, list(mine)))
        if leader == REFUSES:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION)
        if leader == HANGS:
            await asyncio.Event().wait()
        return dict.fromkeys(mine, leader)

    async def ask() -> dict[str, int]:
        return await ask_each_leader(
            [*leaders, "a"],
            leader_of=leaders.__getitem__,
            node_id=HERE,
            here=here,
            there=there,
            deadline=asyncio.get_running_loop().time() + 0.05,
        )

    assert asyncio.run(ask()) == {"a": HERE, "b": THERE, "c": HERE}
    assert requests == [(HERE, ["a", "c"]), (THERE, ["b"]), (REFUSES, ["d"]), (HANGS, ["e"])]
