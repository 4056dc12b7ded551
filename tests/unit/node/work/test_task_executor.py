"""Work of groups in slices: a hostile expression delays no honest one, and ends if it is abandoned."""

import asyncio
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from time import process_time, thread_time

import pytest

from ottla.groupcoord.consumer.consumer_commands import RegexesResolved
from ottla.groupcoord.consumer.executor_tasks import SLICE_CPU_S, ExecutorResult, ResolveRegexes
from ottla.groupcoord.topics_view import ListedTopics, TopicInfo
from ottla.node.work import task_executor
from ottla.node.work.task_executor import THREADS, TaskExecutor

# The slowest permitted expression: 2 ms a name.
HOSTILE = "[ab]*a[ab]{100}|(?:.?){350}"
HONEST = "orders-.*"
HOSTILE_GROUPS = 10


def names() -> list[str]:
    random = Random(1)
    return ["".join(random.choices("ab", k=249)) for _ in range(2_000)] + [f"orders-{n}" for n in range(100)]


TOPICS = ListedTopics([TopicInfo(name.encode(), name, 1) for name in names()], 1)


def work(group_id: str, regex: str, client_host: str = "/10.0.0.1") -> ResolveRegexes:
    return ResolveRegexes(
        group_id=group_id, client_host=client_host, regexes=(regex,), topics=TOPICS, began_ms=0
    )


@contextmanager
def opened(cpu_s: Callable[[], float] = thread_time) -> Iterator[TaskExecutor]:
    with ThreadPoolExecutor(THREADS) as executor:  # the test waits for it
        tasks = TaskExecutor(cpu_s=cpu_s, executor=executor)
        try:
            yield tasks
        finally:
            tasks.close()


def test_an_honest_expression_is_matched_while_hostile_ones_have_their_turns() -> None:
    ended: list[ExecutorResult | None] = []

    async def scenario() -> float:
        matched: asyncio.Future[ExecutorResult | None] = asyncio.get_running_loop().create_future()
        with opened() as tasks:
            for number in range(HOSTILE_GROUPS):
                tasks.run(work(f"hostile-{number}", HOSTILE), lambda: True, ended.append)
            began_s = process_time()
            tasks.run(work("honest", HONEST), lambda: True, matched.set_result)
            result = await matched
            took_s = process_time() - began_s
        assert isinstance(result, RegexesResolved)
        assert len(result.topics[HONEST]) == 100
        return took_s

    took_s = asyncio.run(scenario())

    assert not ended
    # It needs one slice, or some on a slow processor; each waits for one of every other group.
    assert took_s < 10 * HOSTILE_GROUPS * SLICE_CPU_S


def test_a_client_with_many_groups_has_the_turns_of_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices count, not time: the two clients use the thread alternately."""
    slices: list[str] = []

    def five_slices(
        piece: ResolveRegexes, cpu_s: Callable[[], float]
    ) -> Generator[None, None, ExecutorResult]:
        for _ in range(5):
            slices.append(piece.client_host)
            yield
        return RegexesResolved(group_id=piece.group_id, topics={}, version=0, began_ms=0)

    def one_slice(work: ResolveRegexes, cpu_s: Callable[[], float]) -> Generator[None, None, ExecutorResult]:
        yield from ()
        return RegexesResolved(group_id=work.group_id, topics={}, version=0, began_ms=0)

    async def scenario() -> None:
        honest: asyncio.Future[ExecutorResult | None] = asyncio.get_running_loop().create_future()
        with ThreadPoolExecutor(1) as executor:
            tasks = TaskExecutor(threads=1, executor=executor)
            # It holds the thread until the others wait: the loop handles its end in a later turn.
            monkeypatch.setattr(task_executor, "steps", one_slice)
            tasks.run(work("first", HONEST, "/10.0.0.9"), lambda: True, lambda result: None)
            monkeypatch.setattr(task_executor, "steps", five_slices)
            for number in range(HOSTILE_GROUPS):
                piece = work(f"hostile-{number}", HOSTILE, "/10.0.0.66")
                tasks.run(piece, lambda: True, lambda result: None)
            tasks.run(work("honest", HONEST, "/10.0.0.1"), lambda: True, honest.set_result)
            await honest
            tasks.close()

    asyncio.run(scenario())

    until = [at for at, name in enumerate(slices) if name == "/10.0.0.1"][-1]
    assert slices[: until + 1] == ["/10.0.0.66", "/10.0.0.1"] * 5


def test_a_hostile_expression_takes_one_cpu_second_and_is_given_up() -> None:
    async def scenario() -> ExecutorResult | None:
        ended: asyncio.Future[ExecutorResult | None] = asyncio.get_running_loop().create_future()
        with opened() as tasks:
            tasks.run(work("hostile", HOSTILE), lambda: True, ended.set_result)
            return await ended

    began_s = process_time()
    result = asyncio.run(scenario())

    assert isinstance(result, RegexesResolved)
    assert result.given_up == {HOSTILE} and result.topics == {}
    assert process_time() - began_s < 2.0


def test_unwanted_work_ends_with_its_slice() -> None:
    async def scenario() -> tuple[list[ExecutorResult | None], float]:
        wanted = True
        ended: list[ExecutorResult | None] = []
        began_s = process_time()
        with opened() as tasks:
            for number in range(THREADS + 1):
                tasks.run(work(f"hostile-{number}", HOSTILE), lambda: wanted, ended.append)
            wanted = False
            while len(ended) < THREADS + 1:
                await asyncio.sleep(0.001)
        return ended, process_time() - began_s

    ended, took_s = asyncio.run(scenario())

    assert ended == [None] * (THREADS + 1)
    assert took_s < 0.5


def test_only_running_slices_continue_after_the_stop() -> None:
    ended: list[ExecutorResult | None] = []

    async def scenario() -> float:
        executor = ThreadPoolExecutor(THREADS)
        tasks = TaskExecutor(executor=executor)
        for number in range(HOSTILE_GROUPS):
            tasks.run(work(f"hostile-{number}", HOSTILE), lambda: True, ended.append)
        await asyncio.sleep(0)
        tasks.close()
        began_s = process_time()
        executor.shutdown(wait=True)  # like the end of the process
        await asyncio.sleep(0)
        return process_time() - began_s

    assert asyncio.run(scenario()) < 0.3  # two slices; all would take ten seconds
    assert not ended
