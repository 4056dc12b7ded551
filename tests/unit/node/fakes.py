"""Fakes of the parts of a node, for tests of code that uses little of them."""

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
    """Return a node's services with only these parts.

    The use of any other part fails, and so does the name of a part that no node has.
    """
    services = object.__new__(Services)
    if config is not None:
        object.__setattr__(services, "state", NodeState(config))
    for name, part in parts.items():
        object.__setattr__(services, name, part)
    return services


@dataclass
class FakeConnection:
    """The part of a connection that the dispatcher uses."""

    info: ConnectionInfo


def connection_of(info: ConnectionInfo) -> Connection:
    """Return a connection of a client that only sends requests."""
    return cast(Connection, FakeConnection(info))


@dataclass
class Metadata:
    """The metadata of a test."""

    image: MetadataImage
    encoded_versions: EncodedAnswers = field(default_factory=EncodedAnswers)
    suspects: SuspectedBrokers = field(default_factory=SuspectedBrokers)


class Scrub:
    """A scrub that only records the logs it is asked to read."""

    def __init__(self) -> None:
        self.requested: list[tuple[TopicPartition, int | None]] = []

    def soon(self, name: TopicPartition, offset: int | None = None) -> None:
        self.requested.append((name, offset))


class Maintenance:
    """Log maintenance that does nothing."""

    def __init__(self) -> None:
        self.scrub = Scrub()

    async def checkpoint(self, *names: str) -> None: ...


class Gate:
    """A transaction gate that calls a function."""

    def __init__(self, add_or_verify: Callable[..., Any]) -> None:
        self.add_or_verify = add_or_verify


class Ids:
    """Producer ids from a function."""

    def __init__(self, give: Callable[[], Any]) -> None:
        self.next = give


class Groups:
    """A group coordinator that only finds the coordinator of a group."""

    def __init__(self, partition: int) -> None:
        self._partition = partition

    def partition_for(self, group_id: str) -> int:
        return self._partition


class Counted:
    """Replicas that have only counters, by topic."""

    def __init__(self, counters: Mapping[str, TopicCounters]) -> None:
        self.counters = counters


class Lag:
    """Lag from a function."""

    def __init__(self, measure: Callable[..., Any]) -> None:
        self.measure = measure


class FakePeer:
    """A peer whose responses come from a function."""

    def __init__(self, answer: Callable[..., Any]) -> None:
        self.request = answer


def peer_of(answer: Callable[..., Any]) -> PeerClient:
    """Return a client of a peer whose responses come from this function."""
    return cast(PeerClient, FakePeer(answer))


class Timer:
    """A call that runs when the test says so."""

    def __init__(self, run: Callable[[], Any], forget: "Callable[[Timer], None]") -> None:
        self.run = run
        self._forget = forget

    def cancel(self) -> None:
        self._forget(self)


class Timers:
    """A loop whose timers run when the test says so; `call_soon` is ignored."""

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
