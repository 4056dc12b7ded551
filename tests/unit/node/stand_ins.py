"""Small parts that stand in for those of a node, for tests of what uses little of them."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.image import MetadataImage
from ottla.node.counters.topic_counters import TopicCounters
from ottla.node.metadata.encoded_answers import EncodedAnswers
from ottla.node.metadata.suspected_brokers import SuspectedBrokers
from ottla.node.net.connection import Connection
from ottla.node.net.connection_info import ConnectionInfo
from ottla.node.net.peer_client import PeerClient
from ottla.node.node_state import NodeState
from ottla.node.services import Services
from ottla.node.settings.config import BrokerConfig


def services_of(config: BrokerConfig | None = None, **parts: Any) -> Services:
    """Return a node's services with these parts alone: to use another one fails, and to name one that no node
    has fails here.
    """
    services = object.__new__(Services)
    if config is not None:
        object.__setattr__(services, "state", NodeState(config))
    for name, part in parts.items():
        object.__setattr__(services, name, part)
    return services


@dataclass
class Asker:
    """A connection as the dispatcher knows it: who asks."""

    info: ConnectionInfo


def connection_of(info: ConnectionInfo) -> Connection:
    """Return a connection that does nothing but ask."""
    return cast(Connection, Asker(info))


@dataclass
class Metadata:
    """The metadata as a test has them."""

    image: MetadataImage
    encoded_versions: EncodedAnswers = field(default_factory=EncodedAnswers)
    suspects: SuspectedBrokers = field(default_factory=SuspectedBrokers)


class Scrub:
    """Keeps what it is asked to look at."""

    def __init__(self) -> None:
        self.told: list[tuple[TopicPartition, int | None]] = []

    def soon(self, name: TopicPartition, offset: int | None = None) -> None:
        self.told.append((name, offset))


class Maintenance:
    """Care of logs that does nothing."""

    def __init__(self) -> None:
        self.scrub = Scrub()

    async def checkpoint(self, *names: str) -> None: ...


class Gate:
    """A gate of transactions that asks a function."""

    def __init__(self, admit: Callable[..., Any]) -> None:
        self.admit = admit


class Ids:
    """Gives ids of producers by a function."""

    def __init__(self, give: Callable[[], Any]) -> None:
        self.next = give


class Groups:
    """A group coordinator that knows where a group is."""

    def __init__(self, partition: int) -> None:
        self._partition = partition

    def partition_for(self, group_id: str) -> int:
        return self._partition


class Counted:
    """Holds what was counted by topic."""

    def __init__(self, counters: Mapping[str, TopicCounters]) -> None:
        self.counters = counters


class Lag:
    """Measures lag by a function."""

    def __init__(self, measure: Callable[..., Any]) -> None:
        self.measure = measure


class Asked:
    """A peer that a function answers for."""

    def __init__(self, answer: Callable[..., Any]) -> None:
        self.request = answer


def peer_of(answer: Callable[..., Any]) -> PeerClient:
    """Return a client of a peer whose requests this function answers."""
    return cast(PeerClient, Asked(answer))


class Timer:
    """A call that is due when the test says so."""

    def __init__(self, run: Callable[[], Any], forget: "Callable[[Timer], None]") -> None:
        self.run = run
        self._forget = forget

    def cancel(self) -> None:
        self._forget(self)


class Timers:
    """A loop whose timers are due when the test says so, and which calls nothing soon."""

    def __init__(self) -> None:
        self.pending: list[Timer] = []

    def call_later(self, seconds: float, call: Callable[..., Any], *arguments: Any) -> Timer:
        timer = Timer(lambda: call(*arguments), self.pending.remove)
        self.pending.append(timer)
        return timer

    def call_soon(self, call: Callable[..., Any], *arguments: Any) -> None: ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return cast(asyncio.AbstractEventLoop, self)
