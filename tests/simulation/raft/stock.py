"""pysyncobj as it is shipped, on a virtual clock and network, to reproduce each finding without our parts.

Only the clock of the library is replaced; messages are copied instead of being sent over sockets.
"""

import copy
import random
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from pysyncobj import SyncObj, SyncObjConf, replicated
from pysyncobj.node import Node
from pysyncobj.transport import Transport

from ottla.metadata_raft import raft_node


class StockNetwork:
    """Directed links that keep the order; messages are delivered only on request."""

    def __init__(self) -> None:
        self.transports: dict[str, StockTransport] = {}
        self.queues: dict[tuple[str, str], deque[Any]] = defaultdict(deque)
        self.up: set[frozenset[str]] = set()
        self.held: set[tuple[str, str]] = set()

    def connect(self, one: str, other: str) -> None:
        if frozenset((one, other)) not in self.up:
            self.up.add(frozenset((one, other)))
            for source, target in ((one, other), (other, one)):
                if source in self.transports:
                    self.transports[source]._onNodeConnected(Node(target))

    def cut(self, one: str, other: str) -> None:
        if frozenset((one, other)) in self.up:
            self.up.discard(frozenset((one, other)))
            for source, target in ((one, other), (other, one)):
                self.queues[source, target].clear()
                if source in self.transports:
                    self.transports[source]._onNodeDisconnected(Node(target))

    def deliver(self, source: str, target: str, count: int = 1_000_000) -> None:
        queue = self.queues[source, target]
        while queue and count:
            count -= 1
            self.transports[target]._onMessageReceived(Node(source), queue.popleft())

    def pump(self) -> None:
        for source, target in sorted(self.queues):
            if (source, target) not in self.held and target in self.transports:
                self.deliver(source, target)


class StockTransport(Transport):  # type: ignore[misc]
    """The transport of one stock node, over the virtual network."""

    def __init__(self, network: StockNetwork, name: str) -> None:
        super().__init__(None, None, [])
        self.network, self.name = network, name
        network.transports[name] = self

    def send(self, node: Any, message: Any) -> bool:
        if frozenset((self.name, node.id)) not in self.network.up:
            return False
        self.network.queues[self.name, node.id].append(copy.deepcopy(message))
        return True


class StockNode(SyncObj):  # type: ignore[misc]
    """A replicated list."""

    def __init__(self, network: StockNetwork, name: str, names: str, **settings: Any) -> None:
        settings = {"autoTick": False, "logCompactionMinTime": 10**9, "useFork": False, **settings}
        others = [Node(other) for other in names if other != name]
        super().__init__(Node(name), others, SyncObjConf(**settings), transport=StockTransport(network, name))
        self.log: list[Any] = []

    @replicated
    def put(self, value: Any) -> None:
        self.log.append(value)

    @replicated
    def bad(self) -> None:
        raise ValueError


class StockWorld:
    """A cluster of stock nodes on a virtual clock."""

    def __init__(self, names: str = "ABC", *, make: Callable[..., Any] = StockNode, **settings: Any) -> None:
        random.seed(1)
        self.now = 1000.0
        raft_node.use_clock(lambda: self.now)
        self.names = list(names)
        self.network = StockNetwork()
        self.nodes = {name: make(self.network, name, names, **settings) for name in names}
        for one in names:
            for other in names:
                if one < other:
                    self.network.connect(one, other)

    def step(self, seconds: float = 0.02, only: str | None = None) -> None:
        self.now += seconds
        for name in only or self.names:
            if name in self.nodes:
                self.nodes[name].doTick(0.0)
        self.network.pump()

    def run(self, seconds: float, only: str | None = None, until: Callable[[], Any] | None = None) -> bool:
        end = self.now + seconds
        while self.now < end:
            self.step(only=only)
            if until is not None and until():
                return True
        return False

    @property
    def leaders(self) -> list[str]:
        return [name for name, node in self.nodes.items() if node._isLeader()]

    def elect(self, name: str, only: str | None = None) -> None:
        self.nodes[name]._SyncObj__raftElectionDeadline = 0
        for other in only or self.names:
            if other != name and other in self.nodes:
                self.nodes[other]._SyncObj__raftElectionDeadline = self.now + 1.4
        assert self.run(5, only, lambda: self.nodes[name]._isLeader())
        self.run(1, only)

    def kill(self, name: str) -> None:
        for other in self.names:
            self.network.cut(name, other)
        del self.nodes[name], self.network.transports[name]
        self.names.remove(name)
