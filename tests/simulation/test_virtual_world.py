"""Tests of the simulated world: the guarantees of its network, disk and processes, and their limits."""

import asyncio
import gc
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.virtual_disk import VirtualDisk, VirtualStorage
from tests.simulation.virtual_loop import Process, SimulationError
from tests.simulation.world import World

ROOT = Path(__file__).parents[2]


class Collector(asyncio.Protocol):
    """A protocol that records all that it receives."""

    def __init__(self) -> None:
        self.received = b""
        self.ended: list[str] = []
        self.is_blocked = False
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> None:
        self.ended.append("end")

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.append(type(exc).__name__ if exc else "closed")

    def pause_writing(self) -> None:
        self.is_blocked = True

    def resume_writing(self) -> None:
        self.is_blocked = False


class Pair:
    """Two hosts, `a` connected to a server on `b`."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.a, self.b = (self.world.add_client(name) for name in "ab")
        self.near, self.far = Collector(), Collector()

    @property
    def network(self) -> Any:
        return self.world.network

    def host(self, process: Process) -> Any:
        return self.network.hosts[process.name]

    def play(self, scenario: Coroutine[Any, Any, None]) -> None:
        async def main() -> None:
            await self.world.spawn(self.b, self._serve())
            await self.world.spawn(self.a, self._connect())
            await self.world.spawn(self.a, scenario)

        self.world.loop.run(main(), limit_s=1_000)
        self.world.close()

    async def _serve(self) -> None:
        await asyncio.get_running_loop().create_server(lambda: self.far, "b", 9)

    async def _connect(self) -> None:
        await asyncio.get_running_loop().create_connection(lambda: self.near, "b", 9)


def test_bytes_arrive_in_order_however_they_are_split() -> None:
    pair = Pair()
    sent = random.Random(0).randbytes(100_000)

    async def scenario() -> None:
        for start in range(0, len(sent), 777):
            pair.near.transport.write(sent[start : start + 777])
        await asyncio.sleep(1)

    pair.play(scenario())

    assert pair.far.received == sent


def test_a_cut_in_one_direction_holds_up_only_that_direction() -> None:
    pair = Pair()

    async def scenario() -> None:
        pair.network.cut(pair.host(pair.a), pair.host(pair.b))
        pair.near.transport.write(b"held")
        pair.far.transport.write(b"through")
        await asyncio.sleep(5)
        assert (pair.far.received, pair.near.received) == (b"", b"through")

        pair.network.heal(pair.host(pair.a), pair.host(pair.b))
        await asyncio.sleep(5)
        assert pair.far.received == b"held"

    pair.play(scenario())


def test_a_paused_peer_blocks_the_writer_until_it_is_resumed() -> None:
    pair = Pair()

    async def scenario() -> None:
        await asyncio.sleep(0.1)
        pair.world.loop.pause(pair.b)
        pair.near.transport.write(bytes(1_000_000))
        await asyncio.sleep(5)
        assert pair.near.is_blocked and pair.far.received == b""

        pair.world.loop.resume(pair.b)
        await asyncio.sleep(5)
        assert not pair.near.is_blocked and len(pair.far.received) == 1_000_000

    pair.play(scenario())


def test_a_peer_notices_the_death_of_a_process_but_not_of_a_host() -> None:
    process_pair, host_pair = Pair(), Pair()

    async def process_dies() -> None:
        process_pair.network.end_process(process_pair.b, is_silent=False)
        await asyncio.sleep(1)
        assert process_pair.near.ended == ["end", "closed"]

    async def host_dies() -> None:
        host = host_pair.host(host_pair.b)
        host.is_up = False
        host_pair.network.end_process(host_pair.b, is_silent=True)
        host_pair.near.transport.write(b"hello?")
        await asyncio.sleep(100)
        assert host_pair.near.ended == []

        host_pair.network.host_returns(host)
        await asyncio.sleep(1)
        assert host_pair.near.ended == ["ConnectionResetError"]

    process_pair.play(process_dies())
    host_pair.play(host_dies())


def test_a_connection_without_a_listener_is_refused_and_one_to_a_dead_host_waits() -> None:
    pair = Pair()

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Collector, "b", 10)
        pair.host(pair.b).is_up = False
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await loop.create_connection(Collector, "b", 9)

    pair.play(scenario())


def test_a_dead_process_does_nothing_more() -> None:
    world = World(1)
    process, seen = world.add_client("a"), []

    async def work() -> None:
        try:
            while True:
                await asyncio.sleep(1)
                seen.append(world.loop.now_s)
        finally:
            await asyncio.sleep(1)  # a killed coroutine does not get beyond this
            seen.append(-1)

    async def main() -> None:
        world.spawn(process, work())
        await asyncio.sleep(3.5)
        world.loop.kill(process)
        await asyncio.sleep(10)

    world.loop.run(main(), limit_s=100)

    assert seen == [1, 2, 3]


def test_a_run_without_callbacks_raises() -> None:
    world = World(1)

    async def main() -> None:
        await world.loop.create_future()

    with pytest.raises(SimulationError, match="nothing will ever happen"):
        world.loop.run(main(), limit_s=100)
    world.close()


def test_a_failed_run_leaves_nothing_to_the_garbage_collector() -> None:
    """Python warns of a coroutine that was never awaited when it is collected, perhaps in another test."""
    world, seen = World(1), list[str]()
    process = world.add_client("a")

    async def never() -> None: ...

    def in_a_circle() -> Coroutine[Any, Any, None]:
        """Return a coroutine that only the garbage collector finds."""
        circle: list[Any] = [never()]
        circle.append(circle)
        made: Coroutine[Any, Any, None] = circle[0]
        return made

    async def waits_for(what: Coroutine[Any, Any, None]) -> None:
        await what

    async def stands(name: str) -> None:
        try:
            await world.loop.create_future()
        finally:
            seen.append(name)

    async def main() -> None:
        world.loop.create_task(stands("a task"))
        world.spawn(process, stands("a task of a process"))
        await asyncio.sleep(1)
        world.loop.pause(process)
        world.spawn(process, waits_for(in_a_circle()))  # it does not start
        world.loop.failures.append(SimulationError("it has failed"))
        await stands("the run")

    gc.collect()  # garbage of earlier tests
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(SimulationError, match="it has failed"):
            world.loop.run(main(), limit_s=100)
        world.close()
        assert sorted(seen) == ["a task", "a task of a process", "the run"]
        gc.collect()

    assert not warned


# ---- disk --------------------------------------------------------------------------------------------------


def disk(seed: int = 0) -> tuple[VirtualStorage, VirtualDisk]:
    storage = VirtualStorage(random.Random(seed), now_ms=lambda: 0)
    made = VirtualDisk(storage, Process("a"))
    made.make_directory(Path("/d"))
    made.sync_directory(Path("/d"))
    return storage, made


@pytest.mark.parametrize("seed", range(30))
def test_synced_bytes_survive_and_others_may(seed: int) -> None:
    storage, made = disk(seed)
    file = made.open(Path("/d/f"), create=True)
    file.write_at(0, [b"a" * 5_000])
    file.sync()
    made.sync_directory(Path("/d"))
    file.write_at(5_000, [b"b" * 5_000])

    storage.lose_power()

    content = made.read_file(Path("/d/f"))
    assert content[:5_000] == b"a" * 5_000
    assert set(content[5_000:]) <= {0, ord("b")}


def test_a_power_failure_tears_writes_differently_by_seed() -> None:
    contents = set()
    for seed in range(40):
        storage, made = disk(seed)
        file = made.open(Path("/d/f"), create=True)
        made.sync_directory(Path("/d"))
        file.write_at(0, [b"x" * 10_000])
        storage.lose_power()
        contents.add(made.read_file(Path("/d/f")))

    assert len(contents) > 5
    assert b"" in contents and b"x" * 10_000 in contents


def test_changes_of_names_survive_up_to_the_first_that_is_lost() -> None:
    left = set()
    for seed in range(60):
        storage, made = disk(seed)
        for name in ("one", "two", "three"):
            made.open(Path("/d") / name, create=True)
        made.rename(Path("/d/one"), Path("/d/four"))
        storage.lose_power()
        left.add(tuple(made.list_directory(Path("/d"))))

    assert left == {(), ("one",), ("one", "two"), ("one", "three", "two"), ("four", "three", "two")}


def test_a_lost_truncation_also_loses_later_writes() -> None:
    outcomes = set()
    for seed in range(60):
        storage, made = disk(seed)
        file = made.open(Path("/d/f"), create=True)
        file.write_at(0, [b"old old old"])
        file.sync()
        made.sync_directory(Path("/d"))
        file.truncate(4)
        file.write_at(4, [b"new"])
        storage.lose_power()
        outcomes.add(made.read_file(Path("/d/f")).rstrip(b"\0"))

    assert b"old old old" in outcomes and b"old new" in outcomes
    assert not any(b"new old" in one or one.endswith(b"newold") for one in outcomes)


def test_a_dead_process_changes_nothing_on_its_disk() -> None:
    storage, made = disk()
    file = made.open(Path("/d/f"), create=True)
    made._process.is_dead = True

    with pytest.raises(OSError, match="dead"):
        file.write_at(0, [b"late"])
    assert storage.find("/d/f").content == b""


# ---- seeds -------------------------------------------------------------------------------------------------

_DIGESTS = """
from tests.simulation.simulation import *
print(*(run_seed(3, Options(nodes=nodes, seconds=3.0, transactions=2)).digest for nodes in (1, 3)))
"""


@pytest.mark.slow
def test_a_seed_gives_the_same_run_in_every_process() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", _DIGESTS],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for hash_seed in ("1", "2")
    }

    assert len(digests) == 1 and digests != {""}
