"""The runtime of any coordinator, tested with a small one that adds up numbers."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import pytest

from ottla.groupcoord.coordinator_effects import Append, CancelTimer, Refuse, Reply, StartTimer, TimerKey
from ottla.groupcoord.group_records import OFFSETS_TOPIC
from ottla.groupcoord.log_scan import LogBatch, LogScan, Unreadable, iterate_batches, iterate_keys
from ottla.groupcoord.request_token import Token
from ottla.logstore.compression import Compression
from ottla.logstore.log_config import LogConfig
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.coordinators import coordinator_runtime, coordinator_shard
from ottla.node.coordinators.coordinator_log import Row
from ottla.node.coordinators.coordinator_runtime import CoordinatorRuntime
from ottla.node.coordinators.coordinator_shard import CoordinatorShard, Loaded, ShardParts
from ottla.node.coordinators.shard_loader import Pause, ShardLoader
from ottla.node.net.answers import Delayed
from ottla.node.replica.partition import Partition
from tests.unit.node.coordinators.group_node import NUM_PARTITIONS, GroupNode, too_few_replicas

# ---- a complete coordinator --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    """A client adds a number; the answer is the sum, or with `is_refused` an error."""

    token: Token
    amount: int
    is_refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A client asks for the sum; with `shows_state` the answer waits until the sum is committed."""

    token: Token
    shows_state: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A client waits for an event that never happens."""

    token: Token


@dataclass(frozen=True, slots=True, kw_only=True)
class AddLater:
    """A client starts a timer that adds a number; a delay below 0 cancels the timer."""

    token: Token
    amount: int
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """A client causes the effect `Bell`."""

    token: Token


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """A client hits a bug of the core."""

    token: Token


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """The command of a timer that has expired."""

    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """A command of the node: a number from `source`; None if the command will come again."""

    source: str | None
    amount: int


class Bell(NamedTuple):
    """An effect that only this coordinator has."""

    token: Token


Command: TypeAlias = Add | Read | Wait | AddLater | Ring | Fail | Due | Credit
Effect: TypeAlias = Append[int] | Reply[int] | Refuse | StartTimer[Due] | CancelTimer | Bell
LATER = TimerKey("later")


class Sum:
    """The pure core. Its records are sums, of which the last one counts."""

    def __init__(self, total: int = 0) -> None:
        self.total = total
        self.waiting: list[Token] = []

    def start(self, now_ms: int) -> list[Effect]:
        return []

    def handle(self, command: Command, now_ms: int) -> list[Effect]:
        match command:
            case Add(token=token, is_refused=True):
                return [self._more(command.amount), Refuse(token, ErrorCode.INVALID_REQUEST, "refused")]
            case Add(token=token):
                return [self._more(command.amount), Reply(token, self.total)]
            case Read(token=token):
                return [Reply(token, self.total, command.shows_state)]
            case Wait(token=token):
                self.waiting.append(token)
                return []
            case AddLater(token=token, delay_ms=delay_ms) if delay_ms < 0:
                return [CancelTimer(LATER), Reply(token, self.total)]
            case AddLater(token=token, delay_ms=delay_ms):
                return [StartTimer(LATER, delay_ms, Due(amount=command.amount)), Reply(token, self.total)]
            case Ring(token=token):
                return [Bell(token)]
            case Fail():
                raise AssertionError("a bug of the core")
            case Due() | Credit():
                return [self._more(command.amount)]

    def stop(self, error: ErrorCode) -> list[Effect]:
        return [Refuse(token, error, "stopped") for token in self.waiting]

    def _more(self, amount: int) -> Append[int]:
        self.total += amount
        return Append([self.total])


class SumScan(LogScan):
    """A scan of a log of sums, which keeps the last record."""

    def __init__(self, pause: Pause) -> None:
        self._pause = pause
        self.total = 0

    def feed(self, content: bytes, /) -> int:
        next_offset = -1
        for batch in iterate_batches(content):
            self._take_batch(content, batch)
            next_offset = batch.next_offset
        return next_offset

    def _take_batch(self, content: bytes, batch: LogBatch) -> None:
        for _, value in iterate_keys(content, batch, self._pause):
            self.total = int(value or b"0")


async def load(
    loader: ShardLoader, partition: Partition, is_closed: Callable[[], bool]
) -> Loaded[Sum, Command]:
    def make(scan: SumScan, pause: Pause) -> Loaded[Sum, Command]:
        return Loaded(Sum(scan.total), Unreadable())

    return await loader.load(partition, new_scan=SumScan, make=make, is_closed=is_closed)


def rows(_: Sum, totals: Sequence[int]) -> list[Row]:
    return [(b"sum", str(total).encode()) for total in totals]


# The least that a coordinator must have.
MINIMAL_PARTS: ShardParts[Sum, Command, int] = ShardParts(
    new_core=Sum, load=load, rows=rows, max_batch_bytes=10_000, moved="the sum has moved"
)


# ---- a node for it -----------------------------------------------------------------------------------------


class SumNode:
    """The parts of one broker that the runtime needs."""

    def __init__(
        self, parts: ShardParts[Sum, Command, int] = MINIMAL_PARTS, *, replicas: tuple[int, ...] = (1,)
    ) -> None:
        self.parts = parts
        self.node = GroupNode(replicas=replicas)
        self.sums = CoordinatorRuntime[Sum, Command, int](
            topic=OFFSETS_TOPIC,
            num_partitions=NUM_PARTITIONS,
            replicas=self.node.replicas,
            image=lambda: self.node.image,
            create_topic=self.node.create_offsets_topic,
            clock=self.node.clock,
            commit_timeout_ms=60_000,
            compression=Compression.NONE,
            parts=lambda index, partition: self.parts,
        )

    @property
    def partition(self) -> Partition:
        found = self.node.replicas.find(TopicPartition(OFFSETS_TOPIC, 0))
        assert found is not None
        return found

    @property
    def shard(self) -> CoordinatorShard[Sum, Command, int]:
        return self.sums.by_index[0]

    def elect(self, *, leader_epoch: int, leader: int = 1) -> None:
        self.node.host(leader_epoch=leader_epoch, leader=leader)
        self.sums.refresh()

    async def loaded(self) -> None:
        while not self.shard.is_loaded:
            await asyncio.sleep(0.001)

    def ask(self, make: Callable[[Token], Command]) -> Any:
        """Return the answer, or a future of it."""
        return self.sums.submit(0, make)

    async def total(self) -> Any:
        answer = self.ask(lambda token: Read(token=token))
        return await answer if isinstance(answer, asyncio.Future) else answer

    async def until(self, total: int) -> None:
        while await self.total() != total:
            await asyncio.sleep(0.001)


Scenario: TypeAlias = Callable[[SumNode], Coroutine[Any, Any, None]]


def play(scenario: Scenario, node: SumNode | None = None) -> None:
    node = node or SumNode()

    async def run() -> None:
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            node.sums.start(tasks.create_task)
            node.elect(leader_epoch=0)
            await scenario(node)
            node.sums.close()

    asyncio.run(run())


def add(amount: int, *, is_refused: bool = False) -> Callable[[Token], Command]:
    return lambda token: Add(token=token, amount=amount, is_refused=is_refused)


def later(amount: int, delay_ms: int) -> Callable[[Token], Command]:
    return lambda token: AddLater(token=token, amount=amount, delay_ms=delay_ms)


def code_of(answer: Any) -> ErrorCode:
    assert isinstance(answer, KafkaError), answer
    return answer.code


# ---- decide, append, replay, commit, reply -----------------------------------------------------------------


def test_an_answer_is_given_when_the_records_that_it_depends_on_are_committed() -> None:
    async def scenario(node: SumNode) -> None:
        first, second = node.ask(add(1)), node.ask(add(2))
        assert node.partition.log.log_end_offset == 0  # all records of a turn become one batch
        core = node.shard.coordinator
        assert core is not None and core.total == 3  # the core does not wait for the append
        await asyncio.sleep(0)
        assert node.partition.log.log_end_offset == 2 and not first.done()

        node.partition.follower_fetched(2, 1)
        await asyncio.sleep(0)
        assert not second.done()
        node.partition.follower_fetched(2, 2)

        assert await asyncio.gather(first, second) == [1, 3]

    play(scenario, SumNode(replicas=(1, 2)))


def test_an_answer_without_records_is_given_at_once_unless_it_shows_the_state() -> None:
    async def scenario(node: SumNode) -> None:
        adding = node.ask(add(1))
        reading = node.ask(lambda token: Read(token=token))
        dirty = node.ask(lambda token: Read(token=token, shows_state=False))

        assert dirty == 1 and not reading.done() and not adding.done()
        await asyncio.sleep(0)
        node.partition.follower_fetched(2, 1)
        assert await reading == 1

    play(scenario, SumNode(replicas=(1, 2)))


def test_a_refusal_with_records_waits_for_their_commit_too() -> None:
    async def scenario(node: SumNode) -> None:
        refused = node.ask(add(1, is_refused=True))
        await asyncio.sleep(0)
        assert not refused.done()

        node.partition.follower_fetched(2, 1)

        assert code_of(await refused) is ErrorCode.INVALID_REQUEST

    play(scenario, SumNode(replicas=(1, 2)))


def test_a_coordinator_carries_out_its_own_effects_and_an_unknown_effect_is_a_bug() -> None:
    rings: list[Bell] = []

    def carry_out(shard: CoordinatorShard[Sum, Command, int], effect: Effect) -> None:
        assert isinstance(effect, Bell)
        rings.append(effect)
        shard.answer(effect.token, 7)

    async def scenario(node: SumNode) -> None:
        assert node.ask(lambda token: Ring(token=token)) == 7 and len(rings) == 1

        node.parts = MINIMAL_PARTS
        node.elect(leader_epoch=1)
        with pytest.raises(AssertionError, match="Bell"):
            node.ask(lambda token: Ring(token=token))

    play(scenario, SumNode(replace(MINIMAL_PARTS, carry_out=carry_out)))


# ---- loading -----------------------------------------------------------------------------------------------


def test_a_shard_is_loaded_in_the_background_and_answers_after_that() -> None:
    stages: list[str] = []

    def after_load() -> list[Command]:
        stages.append("loaded")
        return [Credit(source=None, amount=10)]

    parts = replace(
        MINIMAL_PARTS,
        started=lambda shard, core: stages.append(f"started with {core.total}"),
        stopped=lambda shard, error: stages.append(error.detail),
        after_load=after_load,
    )

    async def scenario(node: SumNode) -> None:
        assert await node.ask(add(5)) == 5

        node.elect(leader_epoch=1)
        assert code_of(node.ask(add(1))) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await node.loaded()

        assert await node.total() == 15
        assert stages == (
            ["started with 0"] * NUM_PARTITIONS
            + ["the sum has moved"] * NUM_PARTITIONS
            + ["started with 0"] * (NUM_PARTITIONS - 1)  # the partitions that are still empty
            + ["started with 5", "loaded"]
        )

    play(scenario, SumNode(parts))


def test_a_load_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_runtime, "RELOAD_DELAY_MS", 1)
    failures = [KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk does not answer")] * 2

    async def load_after_failures(*arguments: Any) -> Loaded[Sum, Command]:
        if failures:
            raise failures.pop()
        return await load(*arguments)

    async def scenario(node: SumNode) -> None:
        await node.ask(add(5))
        node.elect(leader_epoch=1)
        while failures or not node.shard.is_open:
            assert code_of(node.ask(add(1))) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await asyncio.sleep(0.001)

        assert await node.total() == 5

    play(scenario, SumNode(replace(MINIMAL_PARTS, load=load_after_failures)))


# ---- timers ------------------------------------------------------------------------------------------------


def test_a_timer_comes_back_as_a_command_unless_it_is_moved_or_cancelled() -> None:
    async def scenario(node: SumNode) -> None:
        node.ask(later(1, 60_000))
        node.ask(later(2, 1))  # the same timer, moved

        await node.until(2)
        node.ask(later(4, 5))
        node.ask(later(0, -1))
        node.ask(later(8, 60_000))
        await asyncio.sleep(0.01)

        assert await node.total() == 2

    play(scenario)


def test_a_timer_runs_on_while_the_log_takes_no_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_shard, "WRITE_AGAIN_MS", 1)

    async def scenario(node: SumNode) -> None:
        node.ask(later(2, 1))
        with too_few_replicas():
            await asyncio.sleep(0.01)
            core = node.shard.coordinator
            assert core is not None and core.total == 0

        await node.until(2)

    play(scenario)


# ---- refusals ----------------------------------------------------------------------------------------------


def test_while_too_few_replicas_are_in_sync_the_core_gets_no_command_that_may_write() -> None:
    noticed: list[Command] = []

    def when_refused(core: Sum, command: Command) -> list[Effect]:
        noticed.append(command)
        return []

    parts = replace(MINIMAL_PARTS, read_only=frozenset([Read]), when_refused=when_refused)

    async def scenario(node: SumNode) -> None:
        await node.ask(add(1))
        shard = node.shard

        with too_few_replicas():
            assert code_of(node.ask(add(2))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert await node.total() == 1

        assert len(noticed) == 1 and node.shard is shard
        assert await node.ask(add(2)) == 3

    play(scenario, SumNode(parts))


def test_commands_of_the_node_are_kept_until_the_shard_is_loaded_and_its_log_takes_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coordinator_shard, "WRITE_AGAIN_MS", 1)

    def keep_as(command: Command) -> Hashable:
        assert isinstance(command, Credit)
        return command.source

    def merged(earlier: Command, later: Command) -> Command:
        assert isinstance(earlier, Credit) and isinstance(later, Credit)
        return Credit(source=later.source, amount=earlier.amount + later.amount)

    async def scenario(node: SumNode) -> None:
        await node.ask(add(1))
        credits = [Credit(source=source, amount=10) for source in ("anna", "anna", "bert", None)]

        node.elect(leader_epoch=1)
        for credit in credits:
            node.shard.send(credit)
        await node.loaded()
        assert await node.total() == 31  # without the one that comes again

        with too_few_replicas():
            for credit in credits:
                node.shard.send(credit)
            await asyncio.sleep(0.005)
        await node.until(61)

        node.elect(leader_epoch=2, leader=2)
        assert node.sums.by_index == {}

    play(scenario, SumNode(replace(MINIMAL_PARTS, keep_as=keep_as, merged=merged)))


def test_a_command_without_an_answer_that_is_not_kept_is_a_bug() -> None:
    async def scenario(node: SumNode) -> None:
        with too_few_replicas(), pytest.raises(AssertionError, match="must be kept"):
            node.shard.send(Credit(source="anna", amount=1))

    play(scenario)


# ---- failures ----------------------------------------------------------------------------------------------


def test_a_failed_append_is_answered_with_an_error_and_the_log_is_loaded_again() -> None:
    async def scenario(node: SumNode) -> None:
        waiting = node.ask(lambda token: Wait(token=token))
        await node.ask(add(1))
        shard, plain = node.shard, node.partition.log.config
        node.partition.log.update_config(LogConfig(cleanup_policy=("compact",), max_message_bytes=10))

        failing = [node.ask(add(2)), node.ask(lambda token: Read(token=token))]
        answers = await asyncio.gather(*failing, waiting)
        node.partition.log.update_config(plain)
        await node.loaded()

        assert [code_of(each) for each in answers] == [
            ErrorCode.UNKNOWN_SERVER_ERROR,
            ErrorCode.UNKNOWN_SERVER_ERROR,
            ErrorCode.NOT_COORDINATOR,
        ]
        assert node.shard is not shard and await node.total() == 1

    play(scenario)


def test_a_bug_of_the_core_is_reported_and_the_log_is_loaded_again() -> None:
    async def scenario(node: SumNode) -> None:
        assert await node.ask(add(1)) == 1
        waiting = node.ask(lambda token: Wait(token=token))
        shard = node.shard

        with pytest.raises(AssertionError, match="a bug of the core"):
            node.ask(lambda token: Fail(token=token))

        assert code_of(await waiting) is ErrorCode.NOT_COORDINATOR
        await node.loaded()
        assert shard.is_closed and await node.total() == 1

    play(scenario)


def test_when_leadership_ends_all_waiting_requests_are_answered_and_no_timer_fires() -> None:
    async def scenario(node: SumNode) -> None:
        adding = node.ask(add(1))
        await asyncio.sleep(0)  # ends the turn, which appends
        unwritten = node.ask(add(2))
        waiting = node.ask(lambda token: Wait(token=token))
        node.ask(later(4, 1))
        shard = node.shard

        node.elect(leader_epoch=1, leader=2)
        answers = await asyncio.gather(adding, unwritten, waiting)
        await asyncio.sleep(0.005)

        assert [code_of(each) for each in answers] == [ErrorCode.NOT_COORDINATOR] * 3
        assert code_of(node.ask(add(1))) is ErrorCode.NOT_COORDINATOR
        assert shard.coordinator is not None and shard.coordinator.total == 3
        assert node.partition.log.log_end_offset == 1

    play(scenario, SumNode(replicas=(1, 2)))


# ---- many commands -----------------------------------------------------------------------------------------


def test_all_shards_are_asked_in_their_order_and_take_turns_for_a_large_request() -> None:
    async def scenario(node: SumNode) -> None:
        node.sums.submit(1, add(5))

        def read(token: Token) -> Command:
            return Read(token=token, shows_state=False)

        assert node.sums.ask_all(read, list, is_large=False) == [0, 5, 0]
        in_turns = await node.sums.ask_all(read, list, is_large=True)
        assert in_turns.make() == [0, 5, 0]

    play(scenario)


def test_a_late_answer_is_built_when_it_comes() -> None:
    async def scenario(node: SumNode) -> None:
        key = next(str(each) for each in range(100) if node.sums.partition_for(str(each)) == 0)

        outcome = node.sums.ask(key, add(2), lambda answer: f"the sum is {answer}")

        assert isinstance(outcome, Delayed)
        assert outcome.answer(await outcome.future) == "the sum is 2"

    play(scenario)
