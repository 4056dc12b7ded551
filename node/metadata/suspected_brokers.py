"""Brokers whose connections to this node have ended while the metadata still name them as leaders.

A client whose leader breaks off asks at once who leads now, and that is sooner than an election. If it were
told of the dead one it would look again only when a timer ends (librdkafka's is a second). So whoever asks
for what a suspected broker leads waits a little for the metadata to change, and hears then that there is no
leader if the broker's port refuses connections.

So does a client that reaches the next leader before the metadata do, with records, or with a leader epoch
that they do not have yet: the error would cost it its backoff, of librdkafka half a second.

Two things are true for a moment after the metadata know of a broker's end. Partitions may have no leader
until another broker is heard of: who asks for them waits, too. And answers go on to name the broker.
librdkafka ends its thread of one that is not named any more, and with it the hand-over of a partition to the
new leader that the same answer names; it looks again a second later.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Final

from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.records import NO_LEADER

WAIT_S: Final = 0.4  # for the metadata; an election takes a third of it unless the controller fell, too
GONE_S: Final = 3.0  # until a broker that is gone is told as a leader again, should nobody be elected
TURNS: Final = 2  # after which a transport has told of its end
MOST_LOOKED_FOR: Final = 4  # leaders of one request
LOOK_S: Final = 0.02  # for which leaders are waited for
LOOK_PAUSE_S: Final = 0.05  # between two looks
LEAST_WAIT_S: Final = 0.002  # more than by which a timer may be early
NAMED_S: Final = 1.0  # for which a broker that has fallen is still named


class SuspectedBrokers:
    """The suspected brokers, on the loop of the node; false while there are none."""

    __slots__ = (
        "_behind",
        "_changed",
        "_fallen",
        "_gone",
        "_led_until_s",
        "_look",
        "_next_look_s",
        "_suspected",
        "_up",
    )

    def __init__(self) -> None:
        # By the loop's clock: until when is waited for a broker, and until when one is called gone.
        self._suspected: dict[int, float] = {}
        self._gone: dict[int, float] = {}
        self._fallen: dict[int, float] = {}  # until when they are named
        self._led_until_s = 0.0  # until when is waited for leaders of partitions that have none
        self._up: set[int] = set()  # as the metadata knew them last
        self._changed = asyncio.Event()  # set, and replaced, when somebody is trusted or the metadata changed
        self._look: Callable[[int], Awaitable[object]] | None = None
        self._next_look_s = 0.0
        self._behind = 0  # who waits for any change of the metadata

    def __bool__(self) -> bool:
        return bool(self._suspected or self._gone or self._fallen)

    def suspect(self, broker_id: int) -> None:
        """Let those wait who ask for what this broker leads: a connection to it has ended."""
        if broker_id not in self._suspected:
            self._suspected[broker_id] = asyncio.get_running_loop().time() + WAIT_S

    def is_gone(self, broker_id: int) -> None:
        """Take notice that nobody listens any more where a suspected broker did."""
        if broker_id in self._suspected:
            self._gone[broker_id] = asyncio.get_running_loop().time() + GONE_S

    def look_by(self, look: Callable[[int], Awaitable[object]]) -> None:
        """Have `look` ask a broker for a sign of life, and suspect it if its connection ends instead."""
        self._look = look

    async def hear(self, leaders: Callable[[], Collection[int]]) -> None:
        """Notice leaders that fell a moment before a request for metadata, which names these `leaders`.

        A client whose leader is killed may ask within a millisecond, and franz-go then asks again after 5 s.
        The ends of connections that came in the same turn of the loop are handled first. A dying process
        closes its sockets one by one, though, the newest first, and its clients may run meanwhile: their
        connections end before ours. So the leaders are asked for a sign of life, at most once in a while.
        """
        for _ in range(TURNS):
            await asyncio.sleep(0)
        now = asyncio.get_running_loop().time()
        if self or self._look is None or now < self._next_look_s:
            return
        self._next_look_s = now + LOOK_PAUSE_S
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                for broker_id in leaders():
                    await self._look(broker_id)

    def trust(self, broker_id: int) -> None:
        """Suspect a broker no longer: it has a connection to this node, or its port answers."""
        if (self._suspected.pop(broker_id, None), self._gone.pop(broker_id, None)) != (None, None):
            self._wake()

    def meet_metadata(self, image: MetadataImage, changes: MetadataChanges) -> None:
        """Follow the metadata, which know of a broker's end, or that it registered anew, now."""
        for broker_id in changes.brokers:
            broker = image.brokers.get(broker_id)
            if broker is not None and not broker.fenced:
                self._up.add(broker_id)
                self._fallen.pop(broker_id, None)
            elif broker_id in self._up:
                self._up.discard(broker_id)
                self._fell(broker_id)
        if self:
            for broker_id in changes.brokers:
                self._suspected.pop(broker_id, None)
                self._gone.pop(broker_id, None)
        if self or self._behind:
            self._wake()

    def _fell(self, broker_id: int) -> None:
        loop = asyncio.get_running_loop()
        self._fallen[broker_id] = loop.time() + NAMED_S
        self._led_until_s = loop.time() + WAIT_S
        loop.call_later(NAMED_S, self.fallen)

    def fallen(self) -> Collection[int]:
        """Return the brokers that are to be named though the metadata know of their end."""
        now = asyncio.get_running_loop().time()
        self._fallen = {broker_id: until_s for broker_id, until_s in self._fallen.items() if now < until_s}
        return self._fallen

    def gone(self) -> Collection[int]:
        """Return the brokers that are to be told as no leaders: their ports refuse connections."""
        now = asyncio.get_running_loop().time()
        for broker_id, until_s in list(self._gone.items()):
            if now >= until_s:
                self.trust(broker_id)
        return self._gone

    async def wait_while(self, concerns: Callable[[Collection[int]], bool]) -> None:
        """Return when what is asked for `concerns` none of the suspected brokers, or they were waited for.

        NO_LEADER is among them where partitions may be without a leader for a moment.
        """
        while (wait_s := self.wait_s(concerns)) > 0:
            # Not by a timer that wakes all: a loop that counts in milliseconds may be a little early.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s + LEAST_WAIT_S):
                    await self._changed.wait()

    async def wait_for_metadata(self, is_behind: Callable[[], bool], most_s: float = WAIT_S) -> None:
        """Return when the metadata know what a client knows, or were waited for; `most_s` bounds that."""
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
        """Return for how long `wait_while` would wait, at first, if nothing changed; 0 if not at all."""
        now = asyncio.get_running_loop().time()
        untils_s = {**self._suspected, NO_LEADER: self._led_until_s}
        waited_for = {one: until_s for one, until_s in untils_s.items() if now < until_s}
        return min(waited_for.values()) - now if waited_for and concerns(waited_for) else 0.0

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
