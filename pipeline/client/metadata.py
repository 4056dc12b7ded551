"""A cluster as a client sees it: topics, leaders and coordinators, asked when needed and kept for a while.

Metadata is advice. A caller that meets an error which says that it is stale forgets it and asks again;
nothing runs in the background.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition
from ottla.node.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.node.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from ottla.pipeline.client.answers import check, to_error
from ottla.pipeline.client.client_settings import ClientSettings
from ottla.pipeline.client.clock import monotonic_ms
from ottla.pipeline.client.connection import BrokerConnection
from ottla.pipeline.client.connections import BrokerConnections, Purpose
from ottla.pipeline.client.retries import Retries, is_retriable

R = TypeVar("R")

NO_NODE: Final = -1
# A new topic or partition is not known to every node at once. Java's client asks until its time is up, so a
# reader of a deleted topic would wait for a minute to learn of it.
ATTEMPTS_BEFORE_UNKNOWN: Final = 4
MAX_NAMES_PER_REQUEST: Final = 10_000
# After these errors another node may be the coordinator; others, such as CONCURRENT_TRANSACTIONS, come from
# it.
MOVED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.LEADER_NOT_AVAILABLE,  # the node is not in the cluster now
        # a coordinator that is cut off waits for a marker that goes to another one
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)


class CoordinatorType(IntEnum):
    """The kinds of keys that have a coordinator, with FindCoordinator's numbers."""

    GROUP = 0
    TRANSACTION = 1


_COORDINATOR_TOPICS: Final = {
    CoordinatorType.GROUP: "__consumer_offsets",
    CoordinatorType.TRANSACTION: "__transaction_state",
}


class Leader(NamedTuple):
    """The leader of a partition (NO_NODE: none now), and its leader epoch (-1: not reported)."""

    node_id: int
    epoch: int


class TopicGone(Exception):
    """A topic or partition that does not exist, according to several answers of its cluster.

    It is no KafkaError: it is a fact, which a retry would not change.
    """

    def __init__(self, topic: str, partition: int | None = None) -> None:
        super().__init__(topic, partition)
        self.topic = topic
        self.partition = partition

    def __str__(self) -> str:
        which = f"topic {self.topic}"
        return (
            f"{which} does not exist"
            if self.partition is None
            else f"{which} has no partition {self.partition}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as its cluster describes it; `topic_id` is all zeros if the cluster has no topic ids."""

    name: str
    topic_id: bytes
    leaders: Mapping[int, Leader]  # by partition
    is_internal: bool


class Cluster:
    """The metadata of one cluster, and the connections to its nodes."""

    def __init__(self, settings: ClientSettings, retries: Retries | None = None) -> None:
        self.settings = settings
        self.connections = BrokerConnections(settings)
        self.retries = retries or Retries(settings)
        self._topics: dict[str, tuple[Topic, int]] = {}  # with the time of the answer
        # The latest metadata ever received, kept also when stale: an answer with older epochs is not
        # believed.
        self._newest: dict[str, Topic] = {}
        self._coordinators: dict[tuple[CoordinatorType, str], int] = {}
        self.row_bytes: dict[str, float] = {}  # by topic, as last fetched: the size of the next fetch
        self.batch_bytes: dict[str, int] = {}  # by topic: the largest batch that it takes

    def close(self) -> None:
        """Close all connections; the cluster can be used again."""
        self.connections.close()

    # ---- topics -----------------------------------------------------------------------------------

    def topics(self, names: Sequence[str]) -> dict[str, Topic]:
        """Return the topics of these that exist now, by name; a partition may be without a leader."""
        found: dict[str, Topic] = {}
        for start in range(0, len(names), MAX_NAMES_PER_REQUEST):
            part = names[start : start + MAX_NAMES_PER_REQUEST]
            found |= self.retry(lambda part=part: self._fetch_topics(part))  # type: ignore[misc]
        return found

    def topics_matching(self, pattern: re.Pattern[str]) -> dict[str, Topic]:
        """Return all topics whose whole name matches; `exclude.internal.topics` applies to internal ones."""
        found = self.retry(lambda: self._fetch_topics(None))
        return {
            name: topic
            for name, topic in found.items()
            if pattern.fullmatch(name) and not (topic.is_internal and self.settings.exclude_internal_topics)
        }

    def topic(self, name: str) -> Topic:
        """Return one topic; raises TopicGone if nodes keep answering that it does not exist."""
        known = self._topics.get(name)
        if known is not None and monotonic_ms() - known[1] < self.settings.metadata_max_age_ms:
            return known[0]
        attempts = 0

        def attempt() -> Topic:
            nonlocal attempts
            found = self._fetch_topics([name])
            if name not in found:
                attempts += 1  # only attempts with this answer count
                raise to_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name}")
            return found[name]

        def may_appear(error: KafkaError) -> bool:
            is_unknown = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return attempts < ATTEMPTS_BEFORE_UNKNOWN if is_unknown else is_retriable(error)

        try:
            return self.retry(attempt, again=may_appear)
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise TopicGone(name) from None
            raise

    def leader(self, partition: TopicPartition) -> Leader:
        """Return the leader of a partition, after an election if there is none; TopicGone if it does not
        exist.
        """
        attempts = 0

        def find() -> Leader:
            leader = self.topic(partition.topic).leaders.get(partition.partition)
            if leader is None or leader.node_id == NO_NODE or not self.connections.knows(leader.node_id):
                # Partitions may have been added, and leaders elected, since the last answer.
                self.forget_topic(partition.topic)
                leader = self.topic(partition.topic).leaders.get(partition.partition)
            if leader is None:
                nonlocal attempts
                attempts += 1
                if attempts == ATTEMPTS_BEFORE_UNKNOWN:
                    raise TopicGone(partition.topic, partition.partition)
                raise to_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {partition}")
            if leader.node_id == NO_NODE:
                raise to_error(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition}")
            return leader

        return self.retry(find)

    def refresh_nodes(self) -> None:
        """Ask for the nodes of the cluster; one attempt, to be retried."""
        self._fetch_topics([])

    def forget_topic(self, name: str) -> None:
        """Drop what is known of the topic, as it is stale."""
        self._topics.pop(name, None)
        self.row_bytes.pop(name, None)
        self.batch_bytes.pop(name, None)

    def _fetch_topics(self, names: Sequence[str] | None) -> dict[str, Topic]:
        """Return those of the topics that exist; None asks for all."""
        response = self._request_topics(names, self.connections.to_any())
        self.connections.learn((one.node_id, one.host, one.port) for one in response.brokers)
        received_ms = monotonic_ms()
        found = {}
        for one in response.topics:
            name = one.name or ""
            self.forget_topic(name)
            if one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            check(one.error_code, f"topic {name}")
            topic = _topic(name, one)
            if name in self._newest and _is_older(topic, self._newest[name]):
                raise to_error(
                    ErrorCode.LEADER_NOT_AVAILABLE,
                    f"topic {name} (the metadata of this node is older than what was received before)",
                )
            found[name] = self._newest[name] = topic
            self._topics[name] = topic, received_ms
        if names is None:
            self._newest = dict(found)  # deleted topics are not remembered for ever
        return found

    def _request_topics(self, names: Sequence[str] | None, connection: BrokerConnection) -> MetadataResponse:
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(
            topics=wanted, allow_auto_topic_creation=self.settings.allow_auto_create_topics
        )
        response: MetadataResponse = connection.request(request)
        check(response.error_code, "metadata")
        return response

    # ---- coordinators -----------------------------------------------------------------------------

    def coordinator(self, kind: CoordinatorType, key: str) -> BrokerConnection:
        """Return a connection to a group's or transactional id's coordinator; one attempt, to be retried."""
        node_id = self._coordinators.get((kind, key))
        if node_id is None or not self.connections.knows(node_id):
            node_id = self._find_coordinator(kind, key, self.connections.to_any())
            self._coordinators[kind, key] = node_id
        return self.connections.to(node_id, Purpose.CONTROL)

    def rediscover_coordinator(self, kind: CoordinatorType, key: str) -> None:
        """Find the coordinator again, at the node with the newest metadata.

        A coordinator that was cut off still takes itself for the coordinator, and answers with the state of
        that time. A caller that must not read such a state calls this first. Raises KafkaError if no node
        answers.
        """
        name = _COORDINATOR_TOPICS[kind]

        def attempt() -> None:
            self.refresh_nodes()
            epochs: dict[int, int] = {}
            problem = KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the cluster reports no nodes")
            for node_id in self.connections.nodes():
                try:
                    response = self._request_topics([name], self.connections.to(node_id, Purpose.CONTROL))
                    # Metadata is one log: a node that has read more of it has no lower leader epoch.
                    epochs[node_id] = sum(
                        one.leader_epoch for topic in response.topics for one in topic.partitions
                    )
                except KafkaError as error:
                    problem = error
            if not epochs:
                raise problem
            newest = self.connections.to(max(epochs, key=epochs.__getitem__), Purpose.CONTROL)
            self._coordinators[kind, key] = self._find_coordinator(kind, key, newest)

        self.retry(attempt)

    def forget_coordinator(self, kind: CoordinatorType, key: str) -> None:
        """Drop what is known of the coordinator: it has moved, or its node cannot say."""
        self._coordinators.pop((kind, key), None)

    def retry_with_coordinator(
        self,
        kind: CoordinatorType,
        key: str,
        attempt: Callable[[BrokerConnection], R],
        *,
        timeout_ms: int | None = None,
    ) -> R:
        """Return the result of `attempt` on a connection to the coordinator, repeated when that moves."""
        return self.retry(
            lambda: attempt(self.coordinator(kind, key)),
            between=lambda error: self.forget_coordinator(kind, key) if error.code in MOVED else None,
            timeout_ms=timeout_ms,
        )

    def _find_coordinator(self, kind: CoordinatorType, key: str, connection: BrokerConnection) -> int:
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        response: FindCoordinatorResponse = connection.request(request)
        subject = (
            f"the coordinator of {'group' if kind is CoordinatorType.GROUP else 'transactional id'} {key}"
        )
        check(response.error_code, subject, response.error_message)
        node_id = response.node_id if response.host else NO_NODE  # before version 4
        for one in response.coordinators:
            check(one.error_code, subject, one.error_message)
            node_id = one.node_id
        if node_id == NO_NODE:
            raise to_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, subject)
        if not self.connections.knows(node_id):
            self.refresh_nodes()
        return node_id

    # ---- attempts ---------------------------------------------------------------------------------

    def retry(
        self,
        attempt: Callable[[], R],
        *,
        again: Callable[[KafkaError], bool] = is_retriable,
        between: Callable[[KafkaError], None] = lambda _error: None,
        timeout_ms: int | None = None,
    ) -> R:
        """Return the result of `attempt`, repeated for `timeout_ms` or `default.api.timeout.ms`.

        After a failure another node is asked for metadata: the last one may be cut off from the others.
        """

        def use_another_node(error: KafkaError) -> None:
            between(error)
            self.connections.pass_over()

        if timeout_ms is None:
            timeout_ms = self.settings.default_api_timeout_ms
        return self.retries.run(attempt, timeout_ms=timeout_ms, again=again, between=use_another_node)


def _topic(name: str, answer: MetadataResponseTopic) -> Topic:
    # A partition without a leader has LEADER_NOT_AVAILABLE and node -1; its other errors are about replicas.
    leaders = {one.partition_index: Leader(one.leader_id, one.leader_epoch) for one in answer.partitions}
    return Topic(name=name, topic_id=answer.topic_id, leaders=leaders, is_internal=answer.is_internal)


def _is_older(topic: Topic, earlier: Topic) -> bool:
    """Return True if a partition of the same topic is reported in an earlier leader epoch than before.

    The node that says so is cut off from the others. It may still lead the partition in its own view, with an
    end that lies before what others have read.
    """
    if topic.topic_id != earlier.topic_id or topic.topic_id == ZERO_UUID:
        return False
    before = earlier.leaders
    return any(
        0 <= leader.epoch < before[index].epoch for index, leader in topic.leaders.items() if index in before
    )
