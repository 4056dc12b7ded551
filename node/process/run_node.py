"""Runs one node until a signal stops it."""

import asyncio
import logging
import signal
from collections.abc import Callable

import uvloop

from ottla.node.broker import Broker
from ottla.node.process.garbage import freeze
from ottla.node.process.open_files import raise_open_file_limit
from ottla.node.process.stop_signals import received_signals, stop_signals
from ottla.node.settings.config import BrokerConfig

log = logging.getLogger(__name__)


def run(config: BrokerConfig, *, ready: Callable[[Broker], None] | None = None) -> None:
    """Run a node until SIGTERM, SIGINT or SIGHUP; `ready` is called when it serves. Blocks.

    The node hands over its leadership before it stops; a second signal stops it without that. A node that is
    still starting stops at once, since it may be waiting for nodes that never come. On SIGUSR1 a node hands
    over its leadership and keeps running, so that it can be stopped a little later.

    KafkaError or OSError with one sentence if it cannot start.
    """
    uvloop.run(_run(config, ready))


async def _run(config: BrokerConfig, ready: Callable[[Broker], None] | None) -> None:
    raise_open_file_limit()
    broker = Broker(config)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    this_task = asyncio.current_task()
    assert this_task is not None

    def begin_stop(number: signal.Signals, sender: str) -> None:
        """Stop the node: a second signal skips the handover, and a node that still starts is cancelled."""
        if stop.is_set():
            broker.skip_hand_over()
            log.info(
                "Received %s again, from %s: the node exits without handing over leadership.",
                number.name,
                sender,
            )
        elif is_up:
            log.info(
                "Received %s from %s: the node hands over leadership and shuts down.", number.name, sender
            )
        else:
            log.info(
                "Received %s from %s: the node exits, as it is still starting.",
                number.name,
                sender,
            )
            this_task.cancel()
        stop.set()

    def begin_hand_over(sender: str) -> None:
        """Hand over leadership. A starting node leads nothing yet, and a stopping one does it anyway."""
        if is_up and not stop.is_set():
            log.info("Received SIGUSR1 from %s: the node hands over leadership and keeps running.", sender)
            broker.base.tasks.start(broker.hand_over())

    def received(number: signal.Signals, sender: str) -> None:
        if number is signal.SIGUSR1:
            loop.call_soon_threadsafe(begin_hand_over, sender)
        else:
            loop.call_soon_threadsafe(begin_stop, number, sender)

    is_up = False
    with received_signals((*stop_signals(), signal.SIGUSR1), received):
        try:
            await broker.start(when_loaded=lambda: freeze(broker.base.memory_max_bytes))
        except asyncio.CancelledError:
            if not stop.is_set():
                raise
            return
        is_up = True
        try:
            if ready is not None:
                ready(broker)
            await stop.wait()
        finally:
            await broker.stop()
            log.info("The node has stopped.")
