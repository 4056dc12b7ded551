"""Heartbeats of a thousand groups of ten members: their latency, and the CPU that they cost a server.

Each member has a connection of its own, as real members have, and a moment of its own in the period for its
heartbeat. The latency counts from that moment, so a server that stops answering for a while is charged for
all heartbeats that came due meanwhile. The requests name no client software, so no server delays the
responses.
"""

import heapq
import select
import socket
import statistics
import struct
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import clients, groups, load
from benchmarks.servers import Server
from benchmarks.workload import Figures, Plan
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.node.wire.messages.heartbeat import HeartbeatRequest
from ottla.node.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.node.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

GROUPS, MEMBERS = 1_000, 10
PERIOD_S, PERIODS = 3.0, 3  # Java's default of heartbeat.interval.ms
SESSION_MS = 300_000
SETUP_S = 180.0
AGAIN_S = 1.0  # between the requests of a member while its group is not complete
REBALANCE_IN_PROGRESS, COORDINATOR_BEGINS = 27, {14, 15, 16}
VERSIONS = {
    ApiKey.JOIN_GROUP: 3,
    ApiKey.SYNC_GROUP: 2,
    ApiKey.HEARTBEAT: 2,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 1,
}


class _Member:
    """A member and its connection; `frame` is the heartbeat that it repeats."""

    __slots__ = ("api", "epoch", "frame", "group", "is_waiting", "member_id", "owned", "received", "socket")

    def __init__(self, group: str, connection: socket.socket) -> None:
        self.group = group
        self.socket = connection
        self.received = b""
        self.is_waiting = False  # for a response
        self.api = ApiKey.JOIN_GROUP
        self.member_id = ""
        self.epoch = -1  # or generation
        self.owned: list[tuple[bytes, tuple[int, ...]]] = []
        self.frame = b""

    def send(self, api: ApiKey, request: object) -> None:
        self.api, self.is_waiting = api, True
        self.socket.sendall(encoded(api, request))

    def answer(self) -> Any:
        """Receive bytes; return the response once it is complete, and None before."""
        self.received += self.socket.recv(1 << 16)
        if len(self.received) < 4 or len(self.received) < 4 + struct.unpack_from(">i", self.received)[0]:
            return None
        frame, self.received, self.is_waiting = self.received[4:], b"", False
        return codec.decode_response(self.api, VERSIONS[self.api], frame)[1]


def encoded(api: ApiKey, request: object) -> bytes:
    return b"".join(codec.encode_request(api, VERSIONS[api], 0, "bench", request))


# ---- the classic protocol --------------------------------------------------------------------------


class _Classic:
    """Forms classic groups: members join and sync until all have an assignment of one generation."""

    error_at = 4 + 4 + 4  # in the response to a heartbeat, size prefix included

    def __init__(self, topic: str) -> None:
        self.complete: set[str] = set()
        self._synced: dict[tuple[str, int], int] = {}  # members that have an assignment, by generation

    def begin(self, member: _Member) -> None:
        self._join(member)

    def _join(self, member: _Member) -> None:
        request = JoinGroupRequest(
            group_id=member.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=member.member_id,
            protocol_type="bench",
            protocols=[JoinGroupRequestProtocol(name="any", metadata=b"")],
        )
        member.send(ApiKey.JOIN_GROUP, request)

    def answered(self, member: _Member, answer: Any) -> float | None:
        """Handle a response; return the seconds until `again` is due, or None if it is not needed."""
        if answer.error_code in COORDINATOR_BEGINS:
            return AGAIN_S
        if member.api == ApiKey.JOIN_GROUP:
            if answer.error_code:
                raise RuntimeError(f"JoinGroup got error {answer.error_code}")
            member.member_id, member.epoch = answer.member_id, answer.generation_id
            members = [each.member_id for each in answer.members]
            request = SyncGroupRequest(
                group_id=member.group,
                generation_id=member.epoch,
                member_id=member.member_id,
                assignments=[SyncGroupRequestAssignment(member_id=each, assignment=b"x") for each in members],
            )
            member.send(ApiKey.SYNC_GROUP, request)
        elif member.api == ApiKey.SYNC_GROUP and not answer.error_code:
            generation = member.group, member.epoch
            self._synced[generation] = self._synced.get(generation, 0) + 1
            if self._synced[generation] < MEMBERS:
                return AGAIN_S
            self.complete.add(member.group)
        elif answer.error_code == REBALANCE_IN_PROGRESS:
            self._join(member)
        elif answer.error_code:
            raise RuntimeError(f"{member.api.name} got error {answer.error_code}")
        else:
            return AGAIN_S
        return None

    def again(self, member: _Member) -> None:
        if member.epoch < 0:
            self._join(member)
        else:
            member.send(ApiKey.HEARTBEAT, self.heartbeat(member))

    def heartbeat(self, member: _Member) -> object:
        return HeartbeatRequest(group_id=member.group, generation_id=member.epoch, member_id=member.member_id)

    api = ApiKey.HEARTBEAT


# ---- the consumer protocol -------------------------------------------------------------------------


class _Consumer:
    """Forms consumer groups: members send heartbeats until each owns one partition."""

    api = ApiKey.CONSUMER_GROUP_HEARTBEAT
    error_at = 4 + 4 + 1 + 4

    def __init__(self, topic: str) -> None:
        self.complete: set[str] = set()
        self._topic = topic
        self._epochs: dict[str, dict[str, int]] = {}  # of members that own one partition

    def begin(self, member: _Member) -> None:
        member.member_id = uuid.uuid4().hex
        self._join(member)

    def _join(self, member: _Member) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=member.group,
            member_id=member.member_id,
            member_epoch=0,
            rebalance_timeout_ms=SESSION_MS,
            subscribed_topic_names=[self._topic],
            topic_partitions=[],
        )
        member.send(self.api, request)

    def answered(self, member: _Member, answer: Any) -> float | None:
        if answer.error_code in COORDINATOR_BEGINS:
            return AGAIN_S
        if answer.error_code:
            raise RuntimeError(f"a heartbeat got error {answer.error_code}: {answer.error_message}")
        member.epoch = answer.member_epoch
        if answer.assignment is not None:
            owned = [(each.topic_id, tuple(each.partitions)) for each in answer.assignment.topic_partitions]
            if owned != member.owned:
                member.owned = owned
                partitions_owned = [TopicPartitions(topic_id=one, partitions=parts) for one, parts in owned]
                member.send(self.api, self.heartbeat(member, partitions_owned))
                return None
        of_group = self._epochs.setdefault(member.group, {})
        if sum(len(partitions) for _, partitions in member.owned) == 1:
            of_group[member.member_id] = member.epoch
        else:
            of_group.pop(member.member_id, None)
        if len(of_group) < MEMBERS or len(set(of_group.values())) > 1:
            return AGAIN_S
        self.complete.add(member.group)
        return None

    def again(self, member: _Member) -> None:
        if member.epoch < 0:
            self._join(member)
        else:
            member.send(self.api, self.heartbeat(member))

    def heartbeat(self, member: _Member, owned: Sequence[TopicPartitions] | None = None) -> object:
        return ConsumerGroupHeartbeatRequest(
            group_id=member.group,
            member_id=member.member_id,
            member_epoch=member.epoch,
            topic_partitions=owned,
        )


# ---- the run ---------------------------------------------------------------------------------------


def heartbeats(protocol: str, count: int = GROUPS) -> Callable[[Server, Plan], Figures]:
    """Return a workload of `count` groups of ten: latencies of heartbeats, and the server's CPU for each."""

    def run(server: Server, plan: Plan) -> Figures:
        topic = clients.create_topic(server.bootstrap, MEMBERS)
        run_id = uuid.uuid4().hex[:8]
        groups.make_offsets_topic(server, f"bench-{run_id}-0")
        side = _Consumer(topic) if protocol == "consumer" else _Classic(topic)
        members = [
            _Member(f"bench-{run_id}-{number // MEMBERS}", load.connect(server.port))
            for number in range(count * MEMBERS)
        ]
        try:
            _form(side, members, count)
            for member in members:
                member.frame = encoded(side.api, side.heartbeat(member))
            _beat(members, side.error_at, 1)
            before = server.cpu_seconds()
            waited_s = _beat(members, side.error_at, PERIODS)
            cpu = server.cpu_seconds() - before
        finally:
            for member in members:
                member.socket.close()
        clients.delete_topic(server.bootstrap, topic)
        percentiles = statistics.quantiles(waited_s, n=1000)
        return {
            "p50 ms": percentiles[499] * 1e3,
            "p99 ms": percentiles[989] * 1e3,
            "p99.9 ms": percentiles[998] * 1e3,
            "CPU us/heartbeat": cpu * 1e6 / len(waited_s),
        }

    return run


def _form(side: _Classic | _Consumer, members: list[_Member], count: int) -> None:
    """Form all groups, until each is complete and every request was answered."""
    by_number = {member.socket.fileno(): member for member in members}
    poll = select.epoll()
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    for member in members:
        side.begin(member)
    due: list[tuple[float, int]] = []
    deadline = time.monotonic() + SETUP_S
    while len(side.complete) < count or any(member.is_waiting for member in members):
        now = time.monotonic()
        if now > deadline:
            raise RuntimeError(f"{len(side.complete)} of {count} groups are complete after {SETUP_S:g} s")
        while due and due[0][0] <= now:
            member = by_number[heapq.heappop(due)[1]]
            if member.group not in side.complete:
                side.again(member)
        for number, _ in poll.poll(0.1):
            member = by_number[number]
            answer = member.answer()
            again_s = side.answered(member, answer) if answer is not None else None
            if again_s is not None:
                heapq.heappush(due, (now + again_s, number))
    poll.close()


def _beat(members: list[_Member], error_at: int, periods: int) -> list[float]:
    """Send the heartbeats of all members for some periods, evenly spread; return the latencies."""
    poll = select.epoll()
    by_number = {member.socket.fileno(): (place, member) for place, member in enumerate(members)}
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    step_s = PERIOD_S / len(members)
    due_s = [0.0] * len(members)
    waited_s: list[float] = []
    total = periods * len(members)
    began = time.perf_counter() + 0.05
    sent = 0
    while len(waited_s) < total:
        now = time.perf_counter()
        while sent < total and began + sent * step_s <= now:
            place = sent % len(members)
            due_s[place] = began + sent * step_s
            members[place].socket.sendall(members[place].frame)
            sent += 1
        left_s = began + sent * step_s - now if sent < total else 1.0
        for number, _ in poll.poll(max(left_s, 0.0)):
            place, member = by_number[number]
            answer = member.received + member.socket.recv(1 << 12)
            if len(answer) < 4 or len(answer) < 4 + struct.unpack_from(">i", answer)[0]:
                member.received = answer
                continue
            member.received = b""
            load.check(answer, error_at)
            waited_s.append(time.perf_counter() - due_s[place])
    poll.close()
    return waited_s
