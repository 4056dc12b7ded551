"""The clients of a simulated cluster: readers, clients that commit offsets, and the base of all others."""

import asyncio
import random
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from tests.simulation.history import Content, History
from tests.simulation.sim_client import EARLIEST, SimClient, pause
from tests.simulation.virtual_loop import Process, SimulationError
from tests.simulation.world import World

# Errors that an idempotent producer receives only if the cluster lost acknowledged records.
LOST: Final = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
}
CALM_PAUSE_S: Final = 1.0
# Errors that no fault explains: a bug of the client or of the cluster.
UNEXPECTED: Final = {
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.UNSUPPORTED_VERSION,
}


class Workload:
    """The clients of one run."""

    def __init__(
        self, world: World, history: History, bootstrap: Sequence[tuple[str, int]], *, may_lose: bool = False
    ) -> None:
        self.world = world
        self.history = history
        self.may_lose = may_lose
        self.is_calm = False  # after all faults: clients work slowly, just to show that they can continue
        self.stopping = False
        self.produced = 0
        self.reads = 0
        self._bootstrap = bootstrap
        self.tasks: list[asyncio.Task[None]] = []

    def spawn(self, process: Process, work: Coroutine[Any, Any, None]) -> None:
        """Start a task of a client, for which `finish` waits."""
        task = self.world.spawn(process, work)
        task.add_done_callback(self._ended)
        self.tasks.append(task)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.world.loop.call_exception_handler({"message": "a client failed", "exception": _first(error)})

    def client(self, name: str) -> tuple[SimClient, random.Random, Process]:
        """Return a client on a host of its own, with its random numbers and its process."""
        process = self.world.add_client(name)
        chance = random.Random(f"{name} {self.world.seed}")
        return SimClient(self._bootstrap, chance), chance, process

    async def rest(self, seconds: float) -> None:
        """Pause a client between two operations."""
        await asyncio.sleep(max(seconds, CALM_PAUSE_S) if self.is_calm else seconds)

    def check_error(self, error: KafkaError) -> None:
        """Raise SimulationError if no fault explains the error."""
        if error.code in UNEXPECTED or (error.code in LOST and not self.may_lose):
            raise self.world.unexplained(error, "a client")

    # ---- readers -----------------------------------------------------------------------------------

    def add_reader(self, name: str, partitions: Sequence[TopicPartition]) -> None:
        """Add a client that reads all partitions from the start, and again from random offsets."""
        client, chance, process = self.client(name)
        self.spawn(process, self._read_all(client, chance, partitions))

    async def _read_all(
        self, client: SimClient, chance: random.Random, partitions: Sequence[TopicPartition]
    ) -> None:
        offsets = dict.fromkeys(partitions, 0)
        while not self.stopping:
            for partition in partitions:
                try:
                    fetched = await client.fetch(partition, offsets[partition], max_wait_ms=20)
                except KafkaError as error:
                    self.check_error(error)
                    client.forget_leader(partition)
                    if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                        offsets[partition] = self.history.of(partition).delete_requested
                    await pause(chance)
                    continue
                for record in fetched.records:
                    self.history.note_read(partition, record.offset, record.value or b"")
                    offsets[partition] = record.offset + 1
                    self.reads += 1
            await self.rest(0.2)
            if chance.random() < 0.05:
                offsets = {one: chance.randint(0, offset) for one, offset in offsets.items()}
        client.close()

    async def read_to_end(
        self, client: SimClient, chance: random.Random, partition: TopicPartition, *, limit_s: float
    ) -> Content:
        """Return all records of a partition, when the cluster has recovered."""
        deadline = self.world.loop.now_s + limit_s
        values: dict[int, bytes] = {}
        start = offset = -1
        while True:
            try:
                if offset < 0:
                    start = offset = await client.list_offset(partition, EARLIEST)
                fetched = await client.fetch(partition, offset, max_wait_ms=0)
            except KafkaError as error:
                self.check_error(error)
                if self.world.loop.now_s > deadline:
                    raise SimulationError(f"{partition} cannot be read after recovery: {error}") from error
                client.forget_leader(partition)
                await pause(chance)
                continue
            for record in fetched.records:
                values[record.offset] = record.value or b""
                offset = record.offset + 1
            if offset >= fetched.high_watermark:
                return Content(start, values)
            if not fetched.records and self.world.loop.now_s > deadline:
                raise SimulationError(f"{partition} returns nothing at {offset} of {fetched.high_watermark}")

    # ---- groups ------------------------------------------------------------------------------------

    def add_group(self, group: str, partition: TopicPartition, *, pause_s: float) -> None:
        """Add a client that commits rising offsets and checks that they are kept."""
        client, chance, process = self.client(f"group-{group}")
        self.spawn(process, self._commit(client, chance, group, partition, pause_s))

    async def _commit(
        self, client: SimClient, chance: random.Random, group: str, partition: TopicPartition, pause_s: float
    ) -> None:
        known = self.history.commit_of(group, partition)
        offset = 0
        while not self.stopping:
            await asyncio.sleep(pause_s * chance.random() * 2)
            try:
                if chance.random() < 0.6:
                    offset += 1
                    known.in_doubt.add(offset)
                    await client.commit(group, partition, offset)
                    known.acknowledged = offset
                    # Only this one: a commit that was given up earlier may still take effect, over its old
                    # connection.
                    known.in_doubt.discard(offset)
                else:
                    found = await client.committed(group, partition)
                    self.history.check_committed(group, partition, found)
            except KafkaError as error:
                if error.code in UNEXPECTED:
                    self.check_error(error)
                client.forget_coordinator(group)
                await pause(chance)
        client.close()

    # ---- end ---------------------------------------------------------------------------------------

    async def finish(self, *, limit_s: float) -> None:
        """Let all clients end, at most within `limit_s`."""
        self.stopping = True
        deadline = self.world.loop.now_s + limit_s
        for task in self.tasks:
            while not task.done():
                if self.world.loop.now_s > deadline:
                    raise SimulationError(f"{task.get_coro().__qualname__} does not end after recovery")  # type: ignore[union-attr]
                await asyncio.sleep(0.05)
            task.result()


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
