"""A node inside the test process, on an event loop in its own thread, for tests that look inside it."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from ottla.node.broker import Broker
from ottla.node.settings.config import parse_config

T = TypeVar("T")
QUICK = {
    "log.initial.task.delay.ms": "3600000",  # else retention deletes records with old timestamps
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.delete.delay.ms": "1000",
    "ottla.rest.listeners": "",
}
THREAD_TIMEOUT_S = 60


@dataclass(slots=True)
class EmbeddedBroker:
    """A node on its own event loop; `call` runs a function there."""

    broker: Broker
    loop: asyncio.AbstractEventLoop
    stop: Callable[[], None]  # may be called more than once

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.broker.listeners[0].port}"

    def call(self, work: Callable[[Broker], T]) -> T:
        """Run `work` on the node's loop and return its result."""

        async def on_loop() -> T:
            return work(self.broker)

        return asyncio.run_coroutine_threadsafe(on_loop(), self.loop).result(THREAD_TIMEOUT_S)


def start_embedded(directory: Path, **settings: Any) -> EmbeddedBroker:
    """Start a node on a free port with its logs in `directory`; underscores in settings stand for dots."""
    texts = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(directory), **QUICK}
    texts |= {name.replace("_", "."): str(value) for name, value in settings.items()}
    return _start_in_thread(Broker(parse_config(texts)))


def _start_in_thread(broker: Broker) -> EmbeddedBroker:
    is_ready = threading.Event()
    problems: list[BaseException] = []
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def live() -> None:
        stopping = asyncio.Event()
        await broker.start()
        running.append((asyncio.get_running_loop(), stopping))
        is_ready.set()
        try:
            await stopping.wait()
        finally:
            await broker.stop()

    def run() -> None:
        try:
            uvloop.run(live())
        except BaseException as problem:  # the test, in another thread, raises it
            problems.append(problem)
        finally:
            is_ready.set()

    thread = threading.Thread(target=run, name="embedded-broker")
    thread.start()
    assert is_ready.wait(THREAD_TIMEOUT_S), "the node did not start"
    if not running:
        thread.join(THREAD_TIMEOUT_S)
        raise problems[0]
    loop, stopping = running[0]

    def stop() -> None:
        if thread.is_alive():
            loop.call_soon_threadsafe(stopping.set)
            thread.join(THREAD_TIMEOUT_S)
        assert not thread.is_alive(), "the node did not stop"
        if problems:
            raise problems.pop()

    return EmbeddedBroker(broker, loop, stop)
