"""Clients of the cluster, one for each request under way, so that no request waits behind another.

A Kafka connection answers in order: on a shared one a listing would wait for the creation of a topic. The
connections of a client have the rights of one caller, so a client that is returned is reused for that caller
alone.
"""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from ottla.node.client.cluster_client import Client, Opening
from ottla.node.client.deadline import Deadline
from ottla.node.net.act_for import Caller
from ottla.node.node_facts import NodeFacts
from ottla.node.rest_api.fair_slots import Bounds, FairSlots
from ottla.node.rest_api.rest_error import RestError
from ottla.node.work.fair_pool import FairPool

MAX_CLIENTS: Final = 64  # requests at work at a time; each may hold a connection to every node
MAX_IDLE: Final = 16  # of all callers; the least recently used one is closed first
STEP_TIMEOUT_S: Final = 15.0  # for each step of a long request, such as a live tail
TURN_TIMEOUT_S: Final = 15.0
OPENING_THREADS: Final = 2  # that open the records of all requests and tails
# Of one partition in one round: reaching a record deep in a batch of 15 million takes 0.4 s.
MAX_OPENING_CPU_S: Final = 5.0
MAX_WAITING: Final = 256  # for a client; each waiting request holds a body and a connection
# One address leaves a quarter of the clients and half of the queue to others.
BOUNDS: Final = Bounds(MAX_CLIENTS, MAX_CLIENTS - MAX_CLIENTS // 4, MAX_WAITING, MAX_WAITING // 2)


class ClientPool:
    """Lends clients; call `close` once all are returned."""

    def __init__(self, facts: NodeFacts) -> None:
        self._facts = facts
        self.turns = FairSlots("requests", "requests are in progress", BOUNDS)
        self._idle: list[tuple[Caller, Client]] = []
        self._numbers = itertools.count()
        self._opened = FairPool("rest-records", threads=OPENING_THREADS, max_cpu_s=MAX_OPENING_CPU_S)

    @asynccontextmanager
    async def lend(
        self, caller: Caller, deadline: Deadline | None = None, address: str = ""
    ) -> AsyncIterator[Client]:
        """Lend a client for one request of this caller, waiting until its deadline.

        `address` is the key of its fair share: a user or an address. RestError 429 if too many requests are
        at work, or if this one waited too long.
        """
        timeout_s = TURN_TIMEOUT_S if deadline is None else deadline.remaining_s
        async with self.turns.slot(address, timeout_s):
            client = self._idle_of(caller) or self.make(caller)
            client.forget_all()  # its metadata may be hours old
            client.note_cut_off(self._facts.cut_off_since_ms)
            client.opening = self._opening_for(address)
            try:
                yield client
            finally:
                # A connection that failed has closed itself; the others can be reused.
                self._idle.append((caller, client))
                if len(self._idle) > MAX_IDLE:
                    await _end(self._idle.pop(0)[1])

    def _idle_of(self, caller: Caller) -> Client | None:
        """Take this caller's most recently used client, if there is one."""
        for place in range(len(self._idle) - 1, -1, -1):
            if self._idle[place][0] == caller:
                return self._idle.pop(place)[1]
        return None

    def _opening_for(self, address: str) -> Opening:
        """Return the function that opens the records of one request in the pool, in turns with other
        requests.
        """
        number = next(self._numbers)
        return lambda work: self._opened.submit_for(address, number, work)

    @asynccontextmanager
    async def own(self, caller: Caller) -> AsyncIterator[Client]:
        """Yield a client outside the pool, for a long request."""
        client = self.make(caller)
        try:
            yield client
        finally:
            await _end(client)

    def make(self, caller: Caller) -> Client:
        """Return a client with the rights of this caller; the caller of `make` closes it."""
        connect = self._facts.connect_for(caller)
        return Client(self._facts.bootstrap(), timeout_s=STEP_TIMEOUT_S, connect=connect)

    def make_reader(self, caller: Caller, address: str) -> Client:
        """Return a client as `make` does, for long use, whose records are opened in the pool."""
        client = self.make(caller)
        client.opening = self._opening_for(address)
        return client

    async def close(self) -> None:
        """Close the idle clients, and stop the threads that open records."""
        self._opened.close()
        while self._idle:
            await _end(self._idle.pop()[1])


async def _end(client: Client) -> None:
    # As after a failure: no request waits for its answers.
    await client.__aexit__(RestError, None, None)
