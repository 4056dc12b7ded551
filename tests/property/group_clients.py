"""Consumers of both protocols, which behave as real ones: they join, follow their answers, and rejoin.

A consumer sends at most one request at a time and looks for its response when it is its turn. The partitions
that it believes to own are the input of a model of owners.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ottla.groupcoord.assignment import TopicPartitions
from ottla.groupcoord.classic.member_commands import Heartbeat, JoinGroup, Protocol, SyncGroup
from ottla.groupcoord.classic.member_results import HeartbeatResult, JoinGroupResult, SyncGroupResult
from ottla.groupcoord.consumer.consumer_commands import ConsumerGroupHeartbeat
from ottla.groupcoord.consumer.consumer_results import ConsumerGroupHeartbeatResult
from ottla.groupcoord.effects import Refuse, Result
from ottla.logstore.words.errors import ErrorCode
from tests.unit.groupcoord.consumer.consumer_world import ConsumerWorld
from tests.unit.groupcoord.offsets.test_offsets import subscription
from tests.unit.groupcoord.topic_ids import topic_id, topic_name

SESSION_MS = 10_000
REBALANCE_MS = 20_000
Place: TypeAlias = tuple[str, int]  # topic, partition
Answer: TypeAlias = Result | Refuse
RETRY = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
NOT_A_MEMBER = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID}


def subscription_topics(data: bytes) -> list[str]:
    (count,) = struct.unpack_from(">i", data, 2)
    topics, at = [], 6
    for _ in range(count):
        (size,) = struct.unpack_from(">h", data, at)
        topics.append(data[at + 2 : at + 2 + size].decode())
        at += 2 + size
    return topics


def assignment_bytes(places: Sequence[Place]) -> bytes:
    """Return a ConsumerProtocolAssignment, version 0."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        by_topic.setdefault(topic, []).append(partition)
    topics = b"".join(
        struct.pack(">h", len(topic))
        + topic.encode()
        + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for topic, numbers in by_topic.items()
    )
    return struct.pack(">hi", 0, len(by_topic)) + topics + struct.pack(">i", -1)


def assigned_places(data: bytes) -> list[Place]:
    if not data:
        return []
    (count,) = struct.unpack_from(">i", data, 2)
    places, at = [], 6
    for _ in range(count):
        (size,) = struct.unpack_from(">h", data, at)
        topic = data[at + 2 : at + 2 + size].decode()
        at += 2 + size
        (numbers,) = struct.unpack_from(">i", data, at)
        places += [(topic, one) for one in struct.unpack_from(f">{numbers}i", data, at + 4)]
        at += 4 + 4 * numbers
    return places


@dataclass(slots=True)
class Consumer:
    """The state of a consumer of either protocol: its identity, and its last response."""

    name: str
    group_id: str
    instance: str | None
    topics: Sequence[str]
    member_id: str = ""
    epoch: int = -1  # its generation, or member epoch; negative: none
    owned: set[Place] = field(default_factory=set)
    token: int | None = None
    is_slow: bool = False  # it does not release partitions when it should

    def subscribe(self, topics: Sequence[str]) -> None:
        """Read these topics from now on."""
        raise NotImplementedError

    def lose_answer(self) -> None:
        """Lose the response to the last request."""
        self.token = None

    def step(self, world: ConsumerWorld) -> None:
        """Send the next request, or read the response to the last one."""
        raise NotImplementedError

    @property
    def identity(self) -> str:
        """The id by which it keeps its partitions over a restart: the instance, if it has one."""
        return self.instance or self.member_id

    def take_answer(self, world: ConsumerWorld) -> Answer | None:
        if self.token is None:
            return None
        answer = world.groups.answers.get(self.token)
        if answer is not None:
            self.token = None
        return answer


@dataclass(slots=True)
class ClassicConsumer(Consumer):
    """A consumer of the classic protocol. It is eager: it revokes all its partitions before it rejoins."""

    has_new_assignment: bool = False

    def subscribe(self, topics: Sequence[str]) -> None:
        self.topics, self.epoch = topics, -1

    def step(self, world: ConsumerWorld) -> None:
        """Read the response, if one is awaited; otherwise send a heartbeat, or join without a generation."""
        if self.token is not None:
            answer = self.take_answer(world)
            if answer is not None:
                self._receive(world, answer)
        elif self.epoch < 0:
            self._join(world)
        else:
            self.token = world.groups.token()
            world.groups.handle(
                Heartbeat(
                    token=self.token,
                    group_id=self.group_id,
                    generation_id=self.epoch,
                    member_id=self.member_id,
                    group_instance_id=self.instance,
                )
            )

    def _join(self, world: ConsumerWorld) -> None:
        self.owned = set()
        self.token = world.groups.token()
        world.groups.handle(
            JoinGroup(
                token=self.token,
                group_id=self.group_id,
                member_id=self.member_id,
                group_instance_id=self.instance,
                client_id=self.name,
                client_host="/127.0.0.1",
                protocol_type="consumer",
                protocols=[Protocol("range", subscription(*self.topics))],
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                member_id_required=self.instance is None,
                can_skip_assignment=True,
            )
        )

    def _receive(self, world: ConsumerWorld, answer: Answer) -> None:
        error = getattr(answer, "error", ErrorCode.NONE)
        match answer:
            case JoinGroupResult() if not error:
                self.member_id, self.epoch = answer.member_id, answer.generation_id
                self._sync(world, answer)
            case JoinGroupResult() if error is ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            case SyncGroupResult() if not error:
                self.owned = set(assigned_places(answer.assignment))
                self.has_new_assignment = True
            case HeartbeatResult() if not error:
                pass
            case _ if error in RETRY and isinstance(answer, Refuse | HeartbeatResult):
                pass  # its next request goes to the new coordinator
            case _:
                self.epoch, self.owned = -1, set()
                if error in NOT_A_MEMBER:
                    self.member_id = ""

    def _sync(self, world: ConsumerWorld, joined: JoinGroupResult) -> None:
        """Send a SyncGroup; the leader of the group assigns the partitions in turns."""
        shares: dict[str, list[Place]] = {}
        if joined.leader == self.member_id and not joined.skip_assignment:
            shares = {one.member_id: [] for one in joined.members}
            for topic, count in world.topics.items():
                readers = [
                    one.member_id for one in joined.members if topic in subscription_topics(one.metadata)
                ]
                for partition in range(count if readers else 0):
                    shares[readers[partition % len(readers)]].append((topic, partition))
        self.token = world.groups.token()
        world.groups.handle(
            SyncGroup(
                token=self.token,
                group_id=self.group_id,
                generation_id=self.epoch,
                member_id=self.member_id,
                group_instance_id=self.instance,
                protocol_type=None,
                protocol_name=None,
                assignments=[(member_id, assignment_bytes(share)) for member_id, share in shares.items()],
            )
        )


@dataclass(slots=True)
class ModernConsumer(Consumer):
    """A consumer of KIP-848. It owns its assignment, and partitions to revoke until it has reported them."""

    regex: str | None = None
    is_subscription_new: bool = True
    sends_all_fields: bool = True  # its next heartbeat has all fields, as after a lost response
    assigned: set[Place] = field(default_factory=set)

    def subscribe(self, topics: Sequence[str]) -> None:
        self.topics, self.regex, self.is_subscription_new = topics, None, True

    def step(self, world: ConsumerWorld) -> None:
        answer = self.take_answer(world)
        if answer is not None:
            self._receive(answer)
        if self.token is None:
            self._heartbeat(world)
            answer = self.take_answer(world)
            if answer is not None:
                self._receive(answer)

    def _heartbeat(self, world: ConsumerWorld) -> None:
        joins = self.epoch < 0
        if not self.is_slow:
            self.owned &= self.assigned
        owned: dict[str, list[int]] = {}
        for topic, partition in sorted(self.owned):
            owned.setdefault(topic, []).append(partition)
        sends_all_fields = joins or self.sends_all_fields
        sends_subscription = sends_all_fields or self.is_subscription_new
        self.token = world.groups.token()
        world.handle(
            ConsumerGroupHeartbeat(
                token=self.token,
                group_id=self.group_id,
                member_id=self.name,
                member_epoch=0 if joins else self.epoch,
                instance_id=self.instance,
                rebalance_timeout_ms=REBALANCE_MS if sends_all_fields else -1,
                subscribed_topic_names=list(self.topics) if sends_subscription else None,
                subscribed_topic_regex=(self.regex or "") if sends_subscription else None,
                owned=[] if joins else listed(owned),
                client_id=self.name,
                client_host="/127.0.0.1",
            )
        )
        self.member_id, self.is_subscription_new, self.sends_all_fields = self.name, False, False

    def lose_answer(self) -> None:
        self.token, self.sends_all_fields = None, True

    def _receive(self, answer: Answer) -> None:
        if isinstance(answer, ConsumerGroupHeartbeatResult):
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = {
                    (topic_name(topic), partition)
                    for topic, partitions in answer.assignment
                    for partition in partitions
                }
                self.owned |= self.assigned
            return
        assert isinstance(answer, Refuse)
        self.sends_all_fields = True  # the request may have been received, or not
        if answer.error not in RETRY:
            self.epoch, self.owned, self.assigned = -1, set(), set()


def listed(owned: Mapping[str, Sequence[int]]) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id(topic), list(numbers)) for topic, numbers in owned.items()]
