"""Slots for one kind of work, shared fairly among addresses, with a limit on running and on waiting work.

No address gets more than its share of the slots. Work without a slot waits for its turn. The next slot goes
to the address with the fewest slots, in turn among equals. Requests beyond the queue of an address, or of all
addresses, are answered with 429 at once, and those that waited for too long with 429 then. For a client that
is logged in, the principal counts as its address.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, NamedTuple

from ottla.node.counters.rest_work import RestWork
from ottla.node.rest_api.rest_error import RestError

RETRY_AFTER_S: Final = 2
# Work runs for at least this long before it gives way to another address.
LEAST_TURN_S: Final = 0.5
BY_ADDRESS, BY_NODE, BY_TIME = "address", "node", "time"


class Bounds(NamedTuple):
    """Limits of running and waiting work, for all addresses and for each."""

    most: int
    most_of_address: int
    waiting: int = 0
    waiting_of_address: int = 0


class FairSlots:
    """The slots of one kind of work, on one loop."""

    def __init__(self, kind: str, noun: str, bounds: Bounds) -> None:
        """Create free slots; `noun` ends an error's "Too many", for example "requests are in progress"."""
        self.kind = kind
        self._noun = noun
        self._bounds = bounds
        self._running: Counter[str] = Counter()
        self._running_in_all = 0
        # By address, in the order of their turns.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._waiting_in_all = 0
        self._rejected = dict.fromkeys((BY_ADDRESS, BY_NODE, BY_TIME), 0)

    @property
    def reading(self) -> RestWork:
        """The current numbers; may be read in any thread."""
        return RestWork(self.kind, self._running_in_all, self._waiting_in_all, dict(self._rejected))

    @asynccontextmanager
    async def slot(self, address: str, timeout_s: float) -> AsyncIterator[Callable[[], bool]]:
        """Take a slot, waiting at most this long; RestError 429 if none becomes free.

        It yields a function that returns True if the work should end early because addresses with fewer slots
        wait.
        """
        if not self._is_free_for(address):
            await self._wait(address, timeout_s)
        else:
            self._take(address)
        began_s = time.monotonic()
        try:
            yield lambda: time.monotonic() - began_s > LEAST_TURN_S and self._should_give_way(address)
        finally:
            self._release(address)

    @contextmanager
    def slot_now(self, address: str) -> Iterator[None]:
        """Take a slot without waiting; RestError 429 if there is none."""
        self.check(address)
        self._take(address)
        try:
            yield
        finally:
            self._release(address)

    def check(self, address: str) -> None:
        """Raise RestError 429 if there is no slot for this address now."""
        if not self._is_free_for(address):
            raise self._refusal(
                BY_ADDRESS if self._running[address] >= self._bounds.most_of_address else BY_NODE
            )

    def _is_free_for(self, address: str) -> bool:
        return (
            self._running_in_all < self._bounds.most and self._running[address] < self._bounds.most_of_address
        )

    def _take(self, address: str) -> None:
        self._running[address] += 1
        self._running_in_all += 1

    def _release(self, address: str) -> None:
        self._running_in_all -= 1
        self._running[address] -= 1
        if not self._running[address]:
            del self._running[address]
        self._grant()

    async def _wait(self, address: str, timeout_s: float) -> None:
        bounds, queue = self._bounds, self._waiting.get(address, ())
        if len(queue) >= bounds.waiting_of_address:
            raise self._refusal(BY_ADDRESS)
        if self._waiting_in_all >= bounds.waiting:
            raise self._refusal(BY_NODE)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, deque()).append(turn)
        self._waiting_in_all += 1
        try:
            async with asyncio.timeout(timeout_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._release(address)  # the slot was granted as the wait ended
            else:
                self._leave(address, turn)
            if isinstance(error, TimeoutError):
                raise self._refusal(BY_TIME) from None
            raise

    def _leave(self, address: str, turn: "asyncio.Future[None]") -> None:
        queue = self._waiting.get(address)
        if queue is None or turn not in queue:
            return  # `_grant` has removed it already
        queue.remove(turn)
        self._waiting_in_all -= 1
        if not queue:
            del self._waiting[address]

    def _grant(self) -> None:
        """Give free slots to waiting work."""
        while self._waiting:
            # The first of those with the fewest slots: an address that had a turn goes to the end of the
            # queue.
            address = min(self._waiting, key=lambda one: self._running[one])
            if not self._is_free_for(address):
                return
            queue = self._waiting.pop(address)
            turn = queue.popleft()
            self._waiting_in_all -= 1
            if queue:
                self._waiting[address] = queue
            if not turn.done():  # else the waiting task was cancelled and has not yet run
                self._take(address)
                turn.set_result(None)

    def _should_give_way(self, address: str) -> bool:
        if self._running_in_all < self._bounds.most:
            return False
        return any(self._running[one] < self._running[address] - 1 for one in self._waiting)

    def _refusal(self, reason: str) -> RestError:
        self._rejected[reason] += 1
        place = "for this client" if reason == BY_ADDRESS else "on this node"
        if reason == BY_TIME:
            message = f"The request waited too long for its turn: too many {self._noun}."
        else:
            message = f"Too many {self._noun} {place}."
        return RestError(429, 429, message, retry_after_s=RETRY_AFTER_S)
