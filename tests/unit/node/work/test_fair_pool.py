"""A fair pool: the client with the least CPU time is served next, and abandoned work ends."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.net.connection_info import ConnectionInfo
from ottla.node.work.fair_pool import Allowance, FairPool, GivenUp, Pause
from tests.unit.node.replica.replica_world import context

CONNECTION = context(0, 9).connection


def client(address: str, number: int) -> ConnectionInfo:
    return replace(CONNECTION, client_host=address, number=number)


def burn_cpu(cpu_s: float) -> None:
    end_s = time.thread_time() + cpu_s
    while time.thread_time() < end_s:
        pass


def served(asks: list[tuple[ConnectionInfo, float]]) -> list[ConnectionInfo]:
    """Return the order in which waiting jobs are served, each with this number of CPU seconds."""
    order: list[ConnectionInfo] = []

    def work(connection: ConnectionInfo, cpu_s: float, pause: Pause) -> None:
        order.append(connection)
        burn_cpu(cpu_s)

    async def ask_all() -> None:
        pool = FairPool("test", threads=1, max_cpu_s=60.0)
        try:
            await asyncio.gather(*(pool.submit(one, partial(work, one, cpu_s)) for one, cpu_s in asks))
        finally:
            pool.close()

    asyncio.run(ask_all())
    return order


def test_a_small_job_is_not_served_after_all_jobs_of_another_address() -> None:
    hostile = [client("10.0.0.1", number) for number in range(20)]
    honest = client("10.0.0.2", 99)

    order = served([*((one, 0.02) for one in hostile), (honest, 0.0), (honest, 0.0)])

    assert [place for place, one in enumerate(order) if one == honest] == [1, 2]


def test_the_addresses_of_one_host_have_one_share() -> None:
    hostile = [client(f"2001:db8::{number:x}", number) for number in range(1, 21)]
    honest = client("2001:db8:0:1::1", 99)

    order = served([*((one, 0.02) for one in hostile), (honest, 0.0), (honest, 0.0)])

    assert [place for place, one in enumerate(order) if one == honest] == [1, 2]


def test_connections_of_one_address_are_served_by_the_time_they_used() -> None:
    hostile, honest = client("10.0.0.1", 1), client("10.0.0.1", 2)

    order = served([*[(hostile, 0.02)] * 20, (honest, 0.0), (honest, 0.0)])

    assert [place for place, one in enumerate(order) if one == honest] == [1, 2]


def test_a_late_client_has_no_saved_time() -> None:
    early, late = client("10.0.0.1", 1), client("10.0.0.2", 2)

    async def ask_all() -> list[ConnectionInfo]:
        order: list[ConnectionInfo] = []

        def work(connection: ConnectionInfo, pause: Pause) -> None:
            order.append(connection)
            burn_cpu(0.02)

        pool = FairPool("test", threads=1, max_cpu_s=60.0)
        for _ in range(5):
            await pool.submit(early, partial(work, early))
        asks = [pool.submit(one, partial(work, one)) for one in (late, late, late, late, early, early)]
        await asyncio.gather(*asks)
        pool.close()
        return order[5:]

    order = asyncio.run(ask_all())

    assert early in order[:3]


def endless(began: threading.Event, ended: threading.Event) -> Callable[[Pause], None]:
    def work(pause: Pause) -> None:
        began.set()
        try:
            while True:
                pause()
        finally:
            ended.set()

    return work


async def _begun(began: threading.Event) -> None:
    await asyncio.to_thread(began.wait)


@pytest.mark.parametrize("how", ["the client goes", "the node ends"])
def test_abandoned_work_ends(how: str) -> None:
    began, ended = threading.Event(), threading.Event()

    async def ask() -> None:
        pool = FairPool("test", threads=1, max_cpu_s=600.0)
        submitted = pool.submit(client("10.0.0.1", 1), endless(began, ended))
        behind = pool.submit(client("10.0.0.2", 2), lambda pause: "served")
        await _begun(began)
        if how == "the client goes":
            submitted.cancel()
            assert await behind == "served"
        else:
            pool.close()
            assert behind.cancelled()
            assert pool.submit(client("10.0.0.1", 1), lambda pause: None).cancelled()
        await asyncio.to_thread(ended.wait)
        assert submitted.cancelled()

    asyncio.run(ask())


def test_waiting_work_that_is_cancelled_is_never_begun() -> None:
    async def ask() -> None:
        began, ended = threading.Event(), threading.Event()
        pool = FairPool("test", threads=1, max_cpu_s=600.0)
        first = pool.submit(client("10.0.0.1", 1), endless(began, ended))
        never = pool.submit(client("10.0.0.2", 2), lambda pause: pytest.fail("it was begun"))
        await _begun(began)
        never.cancel()
        first.cancel()
        assert await pool.submit(client("10.0.0.3", 3), lambda pause: 5) == 5
        pool.close()

    asyncio.run(ask())


def test_work_beyond_its_cpu_time_is_ended() -> None:
    async def ask() -> None:
        pool = FairPool("test", threads=1, max_cpu_s=0.05)
        try:
            await pool.submit(client("10.0.0.1", 1), endless(threading.Event(), threading.Event()))
        finally:
            pool.close()

    began_s = time.process_time()
    with pytest.raises(KafkaError) as refusal:
        asyncio.run(ask())

    assert refusal.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert time.process_time() - began_s < 2.0


def test_an_error_is_raised_in_the_caller() -> None:
    async def ask() -> None:
        pool = FairPool("test", threads=1, max_cpu_s=1.0)

        def fail(pause: Pause) -> None:
            raise KafkaError(ErrorCode.INVALID_RECORD)

        with pytest.raises(KafkaError):
            await pool.submit(client("10.0.0.1", 1), fail)
        pool.close()

    asyncio.run(ask())


def steps(count: int) -> Callable[[Pause], int]:
    def work(pause: Pause) -> int:
        for _ in range(count):
            pause()
        return count

    return work


def test_all_the_work_of_a_request_shares_its_allowance() -> None:
    async def ask() -> list[object]:
        pool = FairPool("test", threads=1, max_cpu_s=600.0)
        allowance = Allowance(cpu_s=600.0, steps=100)
        submitted = [
            pool.submit(client("10.0.0.1", 1), steps(40), allowance=allowance),
            pool.submit(client("10.0.0.1", 1), steps(70), allowance=allowance),
        ]
        first = await asyncio.gather(*submitted, return_exceptions=True)
        late = pool.submit(client("10.0.0.1", 1), steps(0), allowance=allowance)
        other = pool.submit(client("10.0.0.1", 1), steps(70), allowance=Allowance(cpu_s=1.0, steps=100))
        outcomes = [*first, *await asyncio.gather(late, other, return_exceptions=True)]
        pool.close()
        return outcomes

    first, second, late, other = asyncio.run(ask())

    assert (first, other) == (40, 70)
    for refused in (second, late):
        assert isinstance(refused, KafkaError) and refused.code is ErrorCode.REQUEST_TIMED_OUT


def test_the_cpu_time_of_a_request_is_used_up_by_all_its_work() -> None:
    async def ask() -> Allowance:
        pool = FairPool("test", threads=1, max_cpu_s=600.0)
        allowance = Allowance(cpu_s=0.06, steps=1_000)
        await pool.submit(client("10.0.0.1", 1), lambda pause: burn_cpu(0.05), allowance=allowance)
        with pytest.raises(KafkaError):
            endless_work = endless(threading.Event(), threading.Event())
            await pool.submit(client("10.0.0.1", 1), endless_work, allowance=allowance)
        pool.close()
        return allowance

    assert asyncio.run(ask()).is_used_up


def test_work_for_a_closed_connection_ends_unless_it_outlives_the_client() -> None:
    gone = client("10.0.0.1", 1)
    open_numbers = {1}

    async def ask() -> list[object]:
        began, ended = threading.Event(), threading.Event()
        pool = FairPool("test", threads=1, max_cpu_s=600.0, is_open=open_numbers.__contains__)
        running = pool.submit(gone, endless(began, ended))
        waiting = pool.submit(gone, lambda pause: pytest.fail("it was begun"))
        without_acks = pool.submit(gone, steps(3), outlives_client=True)
        await _begun(began)
        open_numbers.clear()
        outcomes = await asyncio.gather(running, waiting, without_acks, return_exceptions=True)
        pool.close()
        return outcomes

    running, waiting, without_acks = asyncio.run(ask())

    assert isinstance(running, GivenUp) and isinstance(waiting, GivenUp)
    assert without_acks == 3
