"""What every command needs of a cluster: connections by node, metadata, leaders and coordinators.

A command is short-lived, so nothing here runs in the background: metadata are asked when they are needed and
again after an error that says that they are stale. Retriable errors are tried until the deadline of the
client, which is that of the command or request it was made for; `until` gives the same cluster another one.
An attempt never tries again by itself: `retry` stands only where an operation begins.
"""

import asyncio
import copy
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, NamedTuple, Protocol, TypeVar

from ottla.logstore.words.error_words import sentence_of, subject_of
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition
from ottla.node.client.deadline import Deadline
from ottla.node.net.peer_client import PeerClient
from ottla.node.secure_client.dial_refusals import is_worth_a_second_try
from ottla.node.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.node.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

CLIENT_ID: Final = "ottla"
DEFAULT_PORT: Final = 9092
# How long an answer may be on its way: a node that waited for all of the given time answers after it.
ANSWER_WAY_S: Final = 0.5
# A node that is up has taken a connection and told its versions within this time; then others are tried, too.
CONNECT_S: Final = 2.0
# While there is no leader of the quorum, questions whose answer only one could change are asked no longer.
CUT_OFF_PATIENCE_S: Final = 1.0
RETRY_PAUSE_S: Final = 0.1  # Kafka's retry.backoff.ms
MAX_RETRY_PAUSE_S: Final = 1.0
GROUP, TRANSACTION = 0, 1  # what has a coordinator, as FindCoordinator numbers it

R = TypeVar("R")


class Topic(NamedTuple):
    """A topic as far as a client needs it."""

    name: str
    topic_id: bytes
    leaders: Mapping[int, int]  # partition -> node id


class _Shared:
    """State that all clients of one cluster share."""

    __slots__ = ("controller_id", "cut_off_since_ms", "has_answered")

    def __init__(self) -> None:
        self.controller_id = -1  # the node that takes changes of metadata; -1: not known
        self.cut_off_since_ms: int | None = None
        self.has_answered = False


# Gives the result of work that calls its argument every millisecond or so, as a pool does.
Opening = Callable[[Callable[[Callable[[], None]], bool]], Awaitable[bool]]


class Connect(Protocol):
    """Makes a connection to a node, as `PeerClient.connect` does."""

    def __call__(
        self, host: str, port: int, *, client_id: str, timeout_s: float
    ) -> Awaitable[PeerClient]: ...


class Client:
    """The cluster behind some bootstrap addresses; an async context manager that closes its connections.

    What is known of the cluster, and the connections, are shared by all clients that `until` made of one.
    """

    def __init__(
        self,
        bootstrap: Sequence[tuple[str, int]],
        *,
        timeout_s: float,
        on_begin: "Callable[[Client], Awaitable[None]] | None" = None,
        on_end: "Callable[[Client], None] | None" = None,
        connect: Connect = PeerClient.connect,
    ) -> None:
        """The deadline is `timeout_s` from now. `on_begin` is awaited before anything is asked of it.

        `connect` makes its connections, with what they need of TLS.
        """
        self._dial = connect
        self._on_begin, self._on_end = on_begin, on_end
        self.timeout_s = timeout_s  # what each operation of something that goes on for long is given
        self.deadline = Deadline.after(timeout_s)
        self.topics: dict[str, Topic] = {}
        self.opening: Opening | None = None  # where records are opened; None: on the loop, in turns
        self.bootstrap = bootstrap
        self._endpoints: dict[int, tuple[str, int]] = {}
        self._shared = _Shared()
        self._connections: dict[tuple[str, int], PeerClient] = {}
        self._connecting: dict[tuple[str, int], asyncio.Lock] = {}  # two that ask at once share a connection
        self._silent: dict[tuple[str, int], KafkaError] = {}  # why there is no connection

    def until(self, deadline: Deadline) -> "Client":
        """Return this client for work that ends at another deadline."""
        other = copy.copy(self)
        other.deadline = deadline
        return other

    def renewed(self) -> "Client":
        """Return this client for one more step of work that goes on for long, with the whole time for it."""
        return self.until(Deadline.after(self.timeout_s))

    @property
    def has_answered(self) -> bool:
        """Return whether any node has answered, so that the cluster is there."""
        return self._shared.has_answered

    @property
    def cut_off_since_ms(self) -> int | None:
        """Since when the node that is asked hears no leader of the quorum, as `note_cut_off` was told."""
        return self._shared.cut_off_since_ms

    def note_cut_off(self, since_ms: int | None) -> None:
        """Remember that the node that is asked is cut off from the quorum since then, or is not (None).

        While it is, no leader, coordinator or broker comes or goes, so questions about them end soon.
        """
        self._shared.cut_off_since_ms = since_ms

    @property
    def silent_nodes(self) -> Mapping[str, KafkaError]:
        """The nodes that take no connection, by name and address, each with its first reason."""
        ids = {endpoint: node_id for node_id, endpoint in self._endpoints.items()}
        named = {
            f"node {ids[endpoint]} at {_address(endpoint)}" if endpoint in ids else _address(endpoint): error
            for endpoint, error in self._silent.items()
        }
        return dict(sorted(named.items()))

    @property
    def remaining_s(self) -> float:
        """How long a request may still take."""
        return self.deadline.remaining_s

    @property
    def remaining_ms(self) -> int:
        """Milliseconds that a request may still take, for its timeout field; at least 1.

        A little less than there is, so that the node's own word about what it waited for comes in time.
        """
        remaining_s = self.deadline.remaining_s
        return max(1, int((remaining_s - min(ANSWER_WAY_S, remaining_s / 10)) * 1000))

    async def __aenter__(self) -> "Client":
        if self._on_begin is not None:
            await self._on_begin(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connections = list(self._connections.values())
        self._connections.clear()
        for connection in connections:
            if kind is None:
                await connection.close()
            else:
                connection.abort()
        if self._on_end is not None:
            self._on_end(self)

    # ---- connections ------------------------------------------------------------------------------

    async def any_node(self) -> PeerClient:
        """A connection to whichever node answers first of all that are known."""
        for endpoint, connection in self._connections.items():
            if connection.is_open and (endpoint in self.bootstrap or endpoint in self._endpoints.values()):
                return connection
        failures: dict[tuple[str, int], KafkaError] = {}
        endpoints = list(dict.fromkeys((*self.bootstrap, *self._endpoints.values())))
        # One that is silent leaves the others their share of the time, and is asked again when all are.
        for limit_s in (CONNECT_S, self.deadline.remaining_s):
            asked = [one for one in endpoints if one not in failures or _is_of_time(failures[one])]
            for place, endpoint in enumerate(asked):
                try:
                    return await self._connect(
                        endpoint, self.deadline.share(len(asked) - place).within(limit_s)
                    )
                except KafkaError as error:
                    failures[endpoint] = error
        raise _nobody(failures)

    async def node(self, node_id: int) -> PeerClient:
        """A connection to one node of the cluster."""
        if node_id not in self._endpoints:
            await self.refresh([])
        if node_id not in self._endpoints:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"node {node_id} is not in the cluster at the moment"
            )
        return await self._connect(self._endpoints[node_id])

    async def controller(self) -> PeerClient:
        """A connection to the node that takes changes of metadata."""
        if self._shared.controller_id not in self._endpoints:
            await self.refresh([])
        if self._shared.controller_id not in self._endpoints:
            return await self.any_node()
        return await self._connect(self._endpoints[self._shared.controller_id])

    async def node_id_of(self, connection: PeerClient) -> int:
        """Which node a connection leads to; -1 for one that has left the cluster."""
        if not self._endpoints:
            await self.refresh([])
        named = ((f"{host}:{port}", node_id) for node_id, (host, port) in self._endpoints.items())
        return next((node_id for name, node_id in named if name == connection.peer), -1)

    async def coordinator(self, group_id: str) -> PeerClient:
        """A connection to the coordinator of a group."""
        return await self._coordinator(group_id, GROUP, f"group {group_id}")

    async def transaction_coordinator(self, transactional_id: str) -> PeerClient:
        """A connection to the coordinator of a transactional id."""
        subject = f"transactional id {transactional_id}"
        return await self._coordinator(transactional_id, TRANSACTION, subject)

    async def _coordinator(self, key: str, key_type: int, subject: str) -> PeerClient:
        return await self._connect(await self._find_coordinator(key, key_type, subject))

    async def _find_coordinator(self, key: str, key_type: int, subject: str) -> tuple[str, int]:
        request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
        connection = await self.any_node()
        # A node may make the internal topic first, which it cannot while there is no leader of the quorum.
        limit = self.deadline if self.cut_off_since_ms is None else self.deadline.within(CONNECT_S)
        response = await connection.request(request, FindCoordinatorResponse, timeout_s=limit.remaining_s)
        if not response.coordinators:  # before version 4
            check(response.error_code, response.error_message, subject)
            return response.host, response.port
        one = response.coordinators[0]
        check(one.error_code, one.error_message, subject)
        return one.host, one.port

    async def _connect(self, endpoint: tuple[str, int], deadline: Deadline | None = None) -> PeerClient:
        async with self._connecting.setdefault(endpoint, asyncio.Lock()):
            connection = self._connections.get(endpoint)
            if connection is None or not connection.is_open:
                if connection is not None:
                    connection.abort()
                try:
                    connection = await self._dial(
                        *endpoint, client_id=CLIENT_ID, timeout_s=(deadline or self.deadline).remaining_s
                    )
                except KafkaError as error:
                    self._silent.setdefault(endpoint, error)  # the last attempt may have had no time at all
                    raise
                self._silent.pop(endpoint, None)
                self._shared.has_answered = True
                self._connections[endpoint] = connection
            return connection

    # ---- metadata ---------------------------------------------------------------------------------

    async def refresh(
        self, names: Sequence[str] | None, *, may_create: bool = False, with_operations: bool = False
    ) -> MetadataResponse:
        """Ask for metadata of topics (None: all) and remember nodes and leaders."""
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(
            topics=topics,
            allow_auto_topic_creation=may_create,
            include_topic_authorized_operations=with_operations,
        )
        connection = await self.any_node()
        response = await connection.request(request, MetadataResponse, timeout_s=self.remaining_s)
        self.learn(response)
        return response

    def learn(self, response: MetadataResponse) -> None:
        """Remember the nodes of the cluster, and the leaders of the topics that are in the answer."""
        self._shared.has_answered = True
        self._endpoints.clear()  # in place: whoever has the same client with another deadline knows it, too
        self._endpoints |= {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        self._shared.controller_id = response.controller_id
        for topic in response.topics:
            if topic.name is not None:
                self._remember(topic.name, topic)

    def _remember(self, name: str, topic: MetadataResponseTopic) -> None:
        self.topics.pop(name, None)
        if not topic.error_code:
            leaders = {one.partition_index: one.leader_id for one in topic.partitions}
            self.topics[name] = Topic(name, topic.topic_id, leaders)

    async def topic(self, name: str, *, may_create: bool = False) -> Topic:
        """A topic of which some partition has a leader; waits for one that is just being made."""
        return await self.retry(lambda: self._topic(name, may_create))

    async def _topic(self, name: str, may_create: bool) -> Topic:
        known = self.topics.get(name)
        if known is not None and any(leader >= 0 for leader in known.leaders.values()):
            return known
        response = await self.refresh([name], may_create=may_create)
        found = next((topic for topic in response.topics if topic.name == name), None)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else found.error_code
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and may_create:
            code = ErrorCode.LEADER_NOT_AVAILABLE  # it is being made
        check(code, None, f"topic {name}")
        known = self.topics[name]
        if not known.leaders:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"topic '{name}' has no partitions at the moment"
            )
        if all(leader < 0 for leader in known.leaders.values()):
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"no partition of topic '{name}' has a leader at the moment"
            )
        return known

    async def topic_as_it_is(self, name: str) -> Topic:
        """A topic as of now, also where some partition has no leader (-1)."""
        return await self.retry(lambda: self.look_up_topic(name))

    async def look_up_topic(self, name: str) -> Topic:
        """The same, asked once: for an attempt that is tried again as a whole."""
        response = await self.refresh([name])
        found = next((topic for topic in response.topics if topic.name == name), None)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else found.error_code
        check(code, None, f"topic {name}")
        return self.topics[name]

    async def leader_id(self, partition: TopicPartition) -> int:
        """The node that leads a partition, asked once where none is known.

        LEADER_NOT_AVAILABLE if nobody does, UNKNOWN_TOPIC_OR_PARTITION if the topic has no such one. Other
        partitions of the topic may be without a leader.
        """
        known = self.topics.get(partition.topic)
        leader = -1 if known is None else known.leaders.get(partition.partition, -1)
        if leader >= 0:
            return leader
        topic = await self.look_up_topic(partition.topic)
        return leader_in(topic, partition)

    def forget(self, topic: str) -> None:
        """What is known of a topic is stale."""
        self.topics.pop(topic, None)

    def forget_all(self) -> None:
        """What is known of the cluster may be stale; connections stay."""
        self.topics.clear()
        self._endpoints.clear()
        self._shared.controller_id = -1

    def topic_name(self, name: str, topic_id: bytes) -> str:
        """The name in an answer that gives a name in old versions and an id in new ones."""
        if name or topic_id == ZERO_UUID:
            return name
        return next((topic.name for topic in self.topics.values() if topic.topic_id == topic_id), "")

    # ---- retries ----------------------------------------------------------------------------------

    async def retry(self, attempt: Callable[[], Awaitable[R]]) -> R:
        """The result of `attempt`, tried again after retriable errors until the deadline.

        A cluster that never answered is not waited for; one that did may be starting again. What a node
        that is cut off from the quorum shows stays as it is: what depends on it is not waited for either.
        """
        pause_s = RETRY_PAUSE_S
        begun = self.deadline.within(CUT_OFF_PATIENCE_S)
        had_second_try = False
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                if error.code in (ErrorCode.NOT_CONTROLLER, ErrorCode.NETWORK_EXCEPTION):
                    self._shared.controller_id = -1  # another node may be it by now
                if error.code is ErrorCode.NETWORK_EXCEPTION:
                    self.topics.clear()  # and others may lead what the one that is gone has led
                final = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                final = final or (error.code is ErrorCode.NETWORK_EXCEPTION and not self.has_answered)
                # A change needs the controller only: there may be one again at any time.
                stays = self.cut_off_since_ms is not None and error.code is not ErrorCode.NOT_CONTROLLER
                deadline = begun if stays else self.deadline
                is_retriable = error.code.retriable
                if not had_second_try and is_worth_a_second_try(error):
                    had_second_try = is_retriable = True
                if final or not is_retriable or not deadline.allows(pause_s):
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_RETRY_PAUSE_S)


def _address(endpoint: tuple[str, int]) -> str:
    host, port = endpoint
    return f"{host}:{port}"


def _is_of_time(error: KafkaError) -> bool:
    """Return whether more time might have helped: the connection was not refused."""
    return error.code is ErrorCode.REQUEST_TIMED_OUT or " within " in error.detail


def _nobody(failures: Mapping[tuple[str, int], KafkaError]) -> KafkaError:
    """Return one error for a cluster of which no node can be reached; it names all that were tried."""
    if not failures:
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, "no address of a node is known")
    first, *others = failures.items()
    if not others:
        return first[1]
    also = ", ".join(_address(endpoint) for endpoint, _ in others)
    return KafkaError(first[1].code, f"{first[1].detail}; other nodes cannot be reached either: {also}")


def leader_in(topic: Topic, partition: TopicPartition) -> int:
    """The leader of a partition as the metadata of its topic say; KafkaError if there is none."""
    leader = topic.leaders.get(partition.partition)
    if leader is None:
        raise unknown_partition(topic, partition.partition)
    if leader < 0:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader at the moment")
    return leader


def unknown_partition(topic: Topic, number: int) -> KafkaError:
    """The error for a partition that a topic does not have."""
    return KafkaError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"topic '{topic.name}' has no partition {number}; it has {len(topic.leaders)}, counted from 0",
    )


def check(error_code: int, message: str | None, subject: str) -> None:
    """Raise what a field of an answer says, with the server's own words if there are any."""
    if error_code == 0:
        return
    try:
        code = ErrorCode(error_code)
    except ValueError:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"the server rejected {subject_of(subject)} with error {error_code}, which this "
            "client does not know",
        ) from None
    if not message:
        raise KafkaError(code, sentence_of(code, subject))
    # The server's sentence often leaves out what it speaks of.
    name = re.escape(subject.rpartition(" ")[2])
    is_named = re.search(rf"(?<![\w.-]){name}(?![\w-])", message) is not None
    raise KafkaError(code, message if is_named else f"{subject_of(subject)}: {message}")


def only(answers: Sequence[R], subject: str) -> R:
    """The one answer to what was asked about one thing; INVALID_REQUEST if there is none or more."""
    if len(answers) != 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"the server gave {len(answers)} answers about {subject_of(subject)} instead of one",
        )
    return answers[0]


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """`host:port,host,[::1]:port` as addresses; ValueError with a sentence."""
    addresses: list[tuple[str, int]] = []
    if "://" in text:
        scheme = text.partition("://")[0].rpartition(",")[2].strip()
        raise ValueError(
            f"{text!r} is a URL. Give the address of a Kafka listener without {scheme}://, as "
            f"host:{DEFAULT_PORT}; the REST API uses another port."
        )
    for part in filter(None, (part.strip() for part in text.split(","))):
        host, separator, port = part.rpartition(":")
        if not separator or part.endswith("]"):
            host, port = part, str(DEFAULT_PORT)
        host = host.strip("[]")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"{part!r} is not an address; write host:port.")
        addresses.append((host, int(port)))
    if not addresses:
        raise ValueError("No broker address was given; write host:port.")
    return addresses
