"""Brokers whose connections to this node have ended while the metadata still name them as leaders.

A client whose connection to a leader ends requests metadata at once, before an election can be over. If the
response named the dead leader, the client would ask again only after a timer (a second in librdkafka). So a
request for partitions of a suspected broker waits a little for the metadata to change. If they do not, and
the broker's port refuses connections, the response says that these partitions have no leader.

A client may also reach the next leader before the metadata do: with records, or with a leader epoch that the
metadata do not have yet. Its request waits as well, because an error would cost it its backoff (half a second
in librdkafka).

Two more rules hold for a moment after the metadata know that a broker failed. Partitions may have no leader
until another broker is known to be up, so requests for them wait, too. And responses still name the failed
broker: librdkafka ends its thread of a broker that is no longer named, and with it the hand-over of a
partition to the new leader that the same response names; it would look again a second later.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Final

from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.records import NO_LEADER

WAIT_S: Final = 0.4  # for the metadata; an election takes a third of it unless the controller failed, too
GONE_S: Final = 3.0  # until a broker that is gone is named as a leader again, if no other is elected
TURNS: Final = 2  # of the loop, after which a transport has reported its end
MOST_LOOKED_FOR: Final = 4  # leaders that are probed for one request
LOOK_S: Final = 0.02  # the time that leaders have to answer a probe
LOOK_PAUSE_S: Final = 0.05  # between two probes
LEAST_WAIT_S: Final = 0.002  # longer than a timer may be early
NAMED_S: Final = 1.0  # for which responses still name a failed broker


class SuspectedBrokers:
    """The brokers that are suspected, gone or failed; false if there are none. Used on the node's loop."""

    __slots__ = (
        "_behind",
        "_changed",
        "_failed",
        "_gone",
        "_led_until_s",
        "_next_look_s",
        "_probe",
        "_suspected",
        "_up",
    )

    def __init__(self) -> None:
        # Times, by the loop's clock.
        self._suspected: dict[int, float] = {}  # until which requests wait for these brokers
        self._gone: dict[int, float] = {}  # until which these brokers count as gone
        self._failed: dict[int, float] = {}  # until which responses still name these brokers
        self._led_until_s = 0.0  # until which requests wait for partitions without a leader
        self._up: set[int] = set()  # brokers that were up in the last image
        self._changed = asyncio.Event()  # set and replaced when a broker is trusted or the metadata changed
        self._probe: Callable[[int], Awaitable[object]] | None = None
        self._next_look_s = 0.0
        self._behind = 0  # requests that wait for any change of the metadata

    def __bool__(self) -> bool:
        return bool(self._suspected or self._gone or self._failed)

    def suspect(self, broker_id: int) -> None:
        """Suspect a broker because a connection to it has ended: requests for its partitions wait."""
        if broker_id not in self._suspected:
            self._suspected[broker_id] = asyncio.get_running_loop().time() + WAIT_S

    def mark_gone(self, broker_id: int) -> None:
        """Record that the port of a suspected broker refuses connections."""
        if broker_id in self._suspected:
            self._gone[broker_id] = asyncio.get_running_loop().time() + GONE_S

    def probe_by(self, probe: Callable[[int], Awaitable[object]]) -> None:
        """Set the function that probes a broker, and suspects it if its connection ends instead."""
        self._probe = probe

    async def probe_leaders(self, leaders: Callable[[], Collection[int]]) -> None:
        """Detect leaders that failed a moment before a metadata request whose response would name `leaders`.

        A client whose leader is killed may send the request within a millisecond; after a response with the
        dead leader franz-go asks again only after 5 s. Connections that ended in the same turn of the loop
        are handled first. But a dying process closes its sockets one by one, the newest first, and clients
        run meanwhile, so their connections may end before those of this node. Therefore the leaders are
        probed, at most once in `LOOK_PAUSE_S`.
        """
        for _ in range(TURNS):
            await asyncio.sleep(0)
        now = asyncio.get_running_loop().time()
        if self or self._probe is None or now < self._next_look_s:
            return
        self._next_look_s = now + LOOK_PAUSE_S
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                for broker_id in leaders():
                    await self._probe(broker_id)

    def trust(self, broker_id: int) -> None:
        """Stop suspecting a broker: it has a connection to this node, or its port answers."""
        if (self._suspected.pop(broker_id, None), self._gone.pop(broker_id, None)) != (None, None):
            self._wake()

    def handle_metadata(self, image: MetadataImage, changes: MetadataChanges) -> None:
        """Apply the changed brokers of a new image: the metadata replace the suspicion of each."""
        for broker_id in changes.brokers:
            broker = image.brokers.get(broker_id)
            if broker is not None and not broker.fenced:
                self._up.add(broker_id)
                self._failed.pop(broker_id, None)
            elif broker_id in self._up:
                self._up.discard(broker_id)
                self._broker_failed(broker_id)
        if self:
            for broker_id in changes.brokers:
                self._suspected.pop(broker_id, None)
                self._gone.pop(broker_id, None)
        if self or self._behind:
            self._wake()

    def _broker_failed(self, broker_id: int) -> None:
        loop = asyncio.get_running_loop()
        self._failed[broker_id] = loop.time() + NAMED_S
        self._led_until_s = loop.time() + WAIT_S
        loop.call_later(NAMED_S, self.failed)

    def failed(self) -> Collection[int]:
        """Return the failed brokers that responses still name."""
        now = asyncio.get_running_loop().time()
        self._failed = {broker_id: until_s for broker_id, until_s in self._failed.items() if now < until_s}
        return self._failed

    def gone(self) -> Collection[int]:
        """Return the brokers that responses do not name as leaders: their ports refuse connections."""
        now = asyncio.get_running_loop().time()
        for broker_id, until_s in list(self._gone.items()):
            if now >= until_s:
                self.trust(broker_id)
        return self._gone

    async def wait_while(self, concerns: Callable[[Collection[int]], bool]) -> None:
        """Wait until a request concerns no suspected broker, or until the time for waiting is over.

        `concerns` returns True if the request concerns one of the given brokers. NO_LEADER is among them
        while partitions may be without a leader for a moment.
        """
        while (wait_s := self.wait_s(concerns)) > 0:
            # No shared timer: a loop that counts in milliseconds may fire it a little early.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s + LEAST_WAIT_S):
                    await self._changed.wait()

    async def wait_for_metadata(self, is_behind: Callable[[], bool], most_s: float = WAIT_S) -> None:
        """Wait while the metadata are behind what a client knows, for at most `most_s` and `WAIT_S`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(most_s, WAIT_S)
        self._behind += 1
        try:
            while is_behind() and (wait_s := deadline - loop.time()) > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s + LEAST_WAIT_S):
                        await self._changed.wait()
        finally:
            self._behind -= 1

    def wait_s(self, concerns: Callable[[Collection[int]], bool]) -> float:
        """Return how long `wait_while` would wait for the first of the brokers at most; 0 if it would not."""
        now = asyncio.get_running_loop().time()
        untils_s = {**self._suspected, NO_LEADER: self._led_until_s}
        waited_for = {one: until_s for one, until_s in untils_s.items() if now < until_s}
        return min(waited_for.values()) - now if waited_for and concerns(waited_for) else 0.0

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
