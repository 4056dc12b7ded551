"""Parts that the routes of records share: a producer for each caller, and slots for pages and tails."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ottla.node.client.cluster_client import Client
from ottla.node.client.record_sender import RecordSender
from ottla.node.net.act_for import Caller
from ottla.node.rest_api.fair_slots import FairSlots
from ottla.node.rest_api.loop_turns import LoopTurns
from ottla.node.rest_api.rest_error import TOO_MANY_REQUESTS, RestError

MAX_SENDERS: Final = 128  # each has its own connections, since brokers authorize each caller

log = logging.getLogger(__name__)


class _CallersSender:
    """The producer of one caller, and the number of requests that use it now."""

    def __init__(self, sender: RecordSender) -> None:
        self.sender = sender
        self.users = 0
        self.task: asyncio.Task[None] | None = None


class RecordService:
    """The producers and slots of one node; the server runs `run` as a task."""

    def __init__(self, make_client: Callable[[Caller], Client], tails: FairSlots, reads: FairSlots) -> None:
        self._make_client = make_client
        self._senders: OrderedDict[Caller, _CallersSender] = OrderedDict()  # the least recently used first
        self._tasks = asyncio.TaskGroup()
        # An idle tail asks the cluster twice a second, and holds a connection to each leader.
        self.tails = tails
        self.reads = reads
        self.turns = LoopTurns()  # of pages and tails, on the loop

    async def run(self) -> None:
        """Send until cancelled."""
        async with self._tasks:
            await asyncio.Event().wait()

    @contextmanager
    def sender(self, caller: Caller) -> Iterator[RecordSender]:
        """Lend the producer of a caller; RestError 429 if too many callers send records."""
        found = self._senders.get(caller)
        if found is None:
            self._make_room()
            found = self._senders[caller] = _CallersSender(RecordSender(self._make_client(caller)))
            found.task = self._tasks.create_task(self._send(caller, found))
        self._senders.move_to_end(caller)
        found.users += 1
        try:
            yield found.sender
        finally:
            found.users -= 1

    def _make_room(self) -> None:
        if len(self._senders) < MAX_SENDERS:
            return
        unused = next((caller for caller, one in self._senders.items() if not one.users), None)
        if unused is None:
            raise RestError(
                429,
                TOO_MANY_REQUESTS,
                "Too many clients send records to this node; try again later.",
                retry_after_s=2,
            )
        ended = self._senders.pop(unused)
        if ended.task is not None:
            ended.task.cancel()

    async def _send(self, caller: Caller, of_caller: _CallersSender) -> None:
        """Send until cancelled.

        A sender that fails has a bug, so all of its state is dropped: its waiting callers get an error, and
        the next request starts a new sender with new producer ids.
        """
        try:
            await of_caller.sender.run()
        except Exception:
            log.exception("A producer of the REST API failed; the next request starts a new one")
        finally:
            if self._senders.get(caller) is of_caller:
                del self._senders[caller]
