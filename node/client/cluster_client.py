"""The client of the command line and the REST API: connections, metadata, leaders, coordinators and retries.

A command is short, so nothing here runs in the background: metadata is requested when it is needed, and again
after an error that says it is stale. Retriable errors are retried until the deadline of the client, which is
that of the command or request it was made for; `until` returns the same cluster with another deadline. An
attempt never retries by itself: `retry` is called only where an operation begins.
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
from ottla.node.secure_client.dial_refusals import may_retry_once
from ottla.node.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.node.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

CLIENT_ID: Final = "ottla"
DEFAULT_PORT: Final = 9092
# Time that a response may take on the network: a node that waited for the whole timeout answers after it.
ANSWER_WAY_S: Final = 0.5
# A node that is up accepts a connection and returns its API versions within this time; then others are tried
# too.
CONNECT_S: Final = 2.0
# While the quorum has no leader, requests whose answer only a leader could change are not retried for longer.
CUT_OFF_RETRY_S: Final = 1.0
RETRY_PAUSE_S: Final = 0.1  # Kafka's retry.backoff.ms
MAX_RETRY_PAUSE_S: Final = 1.0
GROUP, TRANSACTION = 0, 1  # key types of FindCoordinator

R = TypeVar("R")


class Topic(NamedTuple):
    """The part of a topic's metadata that clients need."""

    name: str
    topic_id: bytes
    leaders: Mapping[int, int]  # partition -> node id


class _Shared:
    """The state that all clients of one cluster share."""

    __slots__ = ("controller_id", "cut_off_since_ms", "has_answered")

    def __init__(self) -> None:
        self.controller_id = -1  # the node that accepts changes of metadata; -1: unknown
        self.cut_off_since_ms: int | None = None
        self.has_answered = False


# Runs work that calls its argument every millisecond or so, as a pool does, and returns its result.
Opening = Callable[[Callable[[Callable[[], None]], bool]], Awaitable[bool]]


class Connect(Protocol):
    """A function that connects to a node, such as `PeerClient.connect`."""

    def __call__(
        self, host: str, port: int, *, client_id: str, timeout_s: float
    ) -> Awaitable[PeerClient]: ...


class Client:
    """The cluster behind some bootstrap addresses; an async context manager that closes its connections.

    Connections and metadata are shared by all clients that `until` made from one.
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
        """Set the deadline to `timeout_s` from now. `on_begin` is awaited before the first request.

        `connect` opens connections, with their TLS settings.
        """
        self._dial = connect
        self._on_begin, self._on_end = on_begin, on_end
        self.timeout_s = timeout_s  # for each operation of work that runs for long
        self.deadline = Deadline.after(timeout_s)
        self.topics: dict[str, Topic] = {}
        # Runs the opening of records; None: they are opened on the loop, in turns.
        self.opening: Opening | None = None
        self.bootstrap = bootstrap
        self._endpoints: dict[int, tuple[str, int]] = {}
        self._shared = _Shared()
        self._connections: dict[tuple[str, int], PeerClient] = {}
        # Concurrent requests to one address share a connection.
        self._connecting: dict[tuple[str, int], asyncio.Lock] = {}
        self._silent: dict[tuple[str, int], KafkaError] = {}  # the error of each address without a connection

    def until(self, deadline: Deadline) -> "Client":
        """Return this client with another deadline."""
        other = copy.copy(self)
        other.deadline = deadline
        return other

    def renewed(self) -> "Client":
        """Return this client with a new deadline after the whole timeout, for one more step of long work."""
        return self.until(Deadline.after(self.timeout_s))

    @property
    def has_answered(self) -> bool:
        """Return True if any node has answered, so that the cluster exists."""
        return self._shared.has_answered

    @property
    def cut_off_since_ms(self) -> int | None:
        """Return when the node behind this client lost the leader of the quorum, as set by `note_cut_off`."""
        return self._shared.cut_off_since_ms

    def note_cut_off(self, since_ms: int | None) -> None:
        """Remember since when the node behind this client is cut off from the quorum; None if it is not.

        While it is, no leader, coordinator or broker changes, so requests about them are not retried for
        long.
        """
        self._shared.cut_off_since_ms = since_ms

    @property
    def silent_nodes(self) -> Mapping[str, KafkaError]:
        """Return the nodes that accept no connection, by name and address, each with its first error."""
        ids = {endpoint: node_id for node_id, endpoint in self._endpoints.items()}
        named = {
            f"node {ids[endpoint]} at {_address(endpoint)}" if endpoint in ids else _address(endpoint): error
            for endpoint, error in self._silent.items()
        }
        return dict(sorted(named.items()))

    @property
    def remaining_s(self) -> float:
        """Return the seconds that a request may still take."""
        return self.deadline.remaining_s

    @property
    def remaining_ms(self) -> int:
        """Return the milliseconds that a request may still take, for its timeout field; at least 1.

        It is a little less than the time left, so that the node's own response about its wait arrives in
        time.
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
        """Return a connection to the first known node that answers."""
        for endpoint, connection in self._connections.items():
            if connection.is_open and (endpoint in self.bootstrap or endpoint in self._endpoints.values()):
                return connection
        failures: dict[tuple[str, int], KafkaError] = {}
        endpoints = list(dict.fromkeys((*self.bootstrap, *self._endpoints.values())))
        # A node that does not answer leaves the others their share of the time; it is tried again when none
        # answered.
        for limit_s in (CONNECT_S, self.deadline.remaining_s):
            tried = [one for one in endpoints if one not in failures or _ran_out_of_time(failures[one])]
            for place, endpoint in enumerate(tried):
                try:
                    return await self._connect(
                        endpoint, self.deadline.share(len(tried) - place).within(limit_s)
                    )
                except KafkaError as error:
                    failures[endpoint] = error
        raise _unreachable(failures)

    async def node(self, node_id: int) -> PeerClient:
        """Return a connection to one node of the cluster."""
        if node_id not in self._endpoints:
            await self.refresh([])
        if node_id not in self._endpoints:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"node {node_id} is not in the cluster at the moment"
            )
        return await self._connect(self._endpoints[node_id])

    async def controller(self) -> PeerClient:
        """Return a connection to the node that accepts changes of metadata."""
        if self._shared.controller_id not in self._endpoints:
            await self.refresh([])
        if self._shared.controller_id not in self._endpoints:
            return await self.any_node()
        return await self._connect(self._endpoints[self._shared.controller_id])

    async def node_id_of(self, connection: PeerClient) -> int:
        """Return the id of the node that a connection leads to; -1 if it has left the cluster."""
        if not self._endpoints:
            await self.refresh([])
        named = ((f"{host}:{port}", node_id) for node_id, (host, port) in self._endpoints.items())
        return next((node_id for name, node_id in named if name == connection.peer), -1)

    async def coordinator(self, group_id: str) -> PeerClient:
        """Return a connection to the coordinator of a group."""
        return await self._coordinator(group_id, GROUP, f"group {group_id}")

    async def transaction_coordinator(self, transactional_id: str) -> PeerClient:
        """Return a connection to the coordinator of a transactional id."""
        subject = f"transactional id {transactional_id}"
        return await self._coordinator(transactional_id, TRANSACTION, subject)

    async def _coordinator(self, key: str, key_type: int, subject: str) -> PeerClient:
        return await self._connect(await self._find_coordinator(key, key_type, subject))

    async def _find_coordinator(self, key: str, key_type: int, subject: str) -> tuple[str, int]:
        request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
        connection = await self.any_node()
        # A node may create the internal topic first, which is impossible while the quorum has no leader.
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
                    # The first error says more: the last attempt may have had no time left.
                    self._silent.setdefault(endpoint, error)
                    raise
                self._silent.pop(endpoint, None)
                self._shared.has_answered = True
                self._connections[endpoint] = connection
            return connection

    # ---- metadata ---------------------------------------------------------------------------------

    async def refresh(
        self, names: Sequence[str] | None, *, may_create: bool = False, with_operations: bool = False
    ) -> MetadataResponse:
        """Request the metadata of topics (None: all), and remember nodes and leaders."""
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
        """Remember the nodes of the cluster, and the leaders of the topics in the response."""
        self._shared.has_answered = True
        self._endpoints.clear()  # in place: copies of this client with other deadlines share the dictionary
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
        """Return a topic with a leader for at least one partition; wait for one that is being created."""
        return await self.retry(lambda: self._topic(name, may_create))

    async def _topic(self, name: str, may_create: bool) -> Topic:
        known = self.topics.get(name)
        if known is not None and any(leader >= 0 for leader in known.leaders.values()):
            return known
        response = await self.refresh([name], may_create=may_create)
        found = next((topic for topic in response.topics if topic.name == name), None)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else found.error_code
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and may_create:
            code = ErrorCode.LEADER_NOT_AVAILABLE  # it is being created
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
        """Return the current metadata of a topic, even if some partitions have no leader (-1)."""
        return await self.retry(lambda: self.look_up_topic(name))

    async def look_up_topic(self, name: str) -> Topic:
        """Return the current metadata of a topic by one request, for attempts that are retried as a whole."""
        response = await self.refresh([name])
        found = next((topic for topic in response.topics if topic.name == name), None)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else found.error_code
        check(code, None, f"topic {name}")
        return self.topics[name]

    async def leader_id(self, partition: TopicPartition) -> int:
        """Return the leader of a partition; refresh the metadata once if it is unknown.

        LEADER_NOT_AVAILABLE if it has no leader, UNKNOWN_TOPIC_OR_PARTITION if the topic has no such
        partition. Other partitions of the topic may be without a leader.
        """
        known = self.topics.get(partition.topic)
        leader = -1 if known is None else known.leaders.get(partition.partition, -1)
        if leader >= 0:
            return leader
        topic = await self.look_up_topic(partition.topic)
        return leader_in(topic, partition)

    def forget(self, topic: str) -> None:
        """Drop the metadata of a topic, which is stale."""
        self.topics.pop(topic, None)

    def forget_all(self) -> None:
        """Drop all metadata, which may be stale; keep the connections."""
        self.topics.clear()
        self._endpoints.clear()
        self._shared.controller_id = -1

    def topic_name(self, name: str, topic_id: bytes) -> str:
        """Return the topic of a response that has a name in old versions and an id in new ones."""
        if name or topic_id == ZERO_UUID:
            return name
        return next((topic.name for topic in self.topics.values() if topic.topic_id == topic_id), "")

    # ---- retries ----------------------------------------------------------------------------------

    async def retry(self, attempt: Callable[[], Awaitable[R]]) -> R:
        """Return the result of `attempt`, which is retried after retriable errors until the deadline.

        A cluster that never answered is not waited for; one that did may be restarting. The metadata of a
        node that is cut off from the quorum does not change, so errors that depend on it are not retried for
        long either.
        """
        pause_s = RETRY_PAUSE_S
        begun = self.deadline.within(CUT_OFF_RETRY_S)
        was_retried = False
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                if error.code in (ErrorCode.NOT_CONTROLLER, ErrorCode.NETWORK_EXCEPTION):
                    self._shared.controller_id = -1  # another node may be the controller by now
                if error.code is ErrorCode.NETWORK_EXCEPTION:
                    self.topics.clear()  # and others may lead the partitions of the node that is gone
                final = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                final = final or (error.code is ErrorCode.NETWORK_EXCEPTION and not self.has_answered)
                # A change needs only the controller, which may be elected at any time.
                stays = self.cut_off_since_ms is not None and error.code is not ErrorCode.NOT_CONTROLLER
                deadline = begun if stays else self.deadline
                is_retriable = error.code.retriable
                if not was_retried and may_retry_once(error):
                    was_retried = is_retriable = True
                if final or not is_retriable or not deadline.allows(pause_s):
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_RETRY_PAUSE_S)


def _address(endpoint: tuple[str, int]) -> str:
    host, port = endpoint
    return f"{host}:{port}"


def _ran_out_of_time(error: KafkaError) -> bool:
    """Return True if more time might have helped: the connection was not refused."""
    return error.code is ErrorCode.REQUEST_TIMED_OUT or " within " in error.detail


def _unreachable(failures: Mapping[tuple[str, int], KafkaError]) -> KafkaError:
    """Return one error for a cluster without a reachable node; it names every address that was tried."""
    if not failures:
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, "no address of a node is known")
    first, *others = failures.items()
    if not others:
        return first[1]
    also = ", ".join(_address(endpoint) for endpoint, _ in others)
    return KafkaError(first[1].code, f"{first[1].detail}; other nodes cannot be reached either: {also}")


def leader_in(topic: Topic, partition: TopicPartition) -> int:
    """Return the leader of a partition from the metadata of its topic; KafkaError if it has none."""
    leader = topic.leaders.get(partition.partition)
    if leader is None:
        raise unknown_partition(topic, partition.partition)
    if leader < 0:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader at the moment")
    return leader


def unknown_partition(topic: Topic, number: int) -> KafkaError:
    """Return the error for a partition that a topic does not have."""
    return KafkaError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"topic '{topic.name}' has no partition {number}; it has {len(topic.leaders)}, counted from 0",
    )


def check(error_code: int, message: str | None, subject: str) -> None:
    """Raise KafkaError for the error code of a response, with the server's message if it has one."""
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
    # The server's message often does not name its subject.
    name = re.escape(subject.rpartition(" ")[2])
    is_named = re.search(rf"(?<![\w.-]){name}(?![\w-])", message) is not None
    raise KafkaError(code, message if is_named else f"{subject_of(subject)}: {message}")


def only(answers: Sequence[R], subject: str) -> R:
    """Return the single answer to a request about one subject; INVALID_REQUEST if there is none or more."""
    if len(answers) != 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"the server returned {len(answers)} answers about {subject_of(subject)} instead of one",
        )
    return answers[0]


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """Parse `host:port,host,[::1]:port` into addresses; ValueError with a sentence."""
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
