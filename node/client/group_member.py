"""A member of a consumer group, in the classic protocol: join, sync, heartbeat, commit, leave.

It sends requests only when it is called: the caller heartbeats between its fetches, so a command that no
longer prints (its reader stopped) loses its membership, as a consumer must. It supports the range and the
round-robin assignor: every client library offers one of the two, so the group may have members of any
library.
"""

import asyncio
import struct
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.cluster_client import RETRY_PAUSE_S, Client, check
from ottla.node.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.node.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from ottla.node.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.node.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.node.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.node.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

SESSION_TIMEOUT_MS: Final = 45_000  # Kafka's session.timeout.ms
REBALANCE_TIMEOUT_MS: Final = 60_000
HEARTBEAT_S: Final = 3.0  # Kafka's heartbeat.interval.ms
PROTOCOL_TYPE: Final = "consumer"
RANGE, ROUND_ROBIN = "range", "roundrobin"
MAX_COMMIT_VERSION: Final = 9  # later versions have topic ids without names
MAX_ITEMS: Final = 1_000_000  # of an array in the bytes of a member
# The group has rebalanced without this member: join again.
REJOIN: Final = {
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.MEMBER_ID_REQUIRED,
}


class OffsetAndMetadata(NamedTuple):
    """The committed offset of a partition, -1 for none, with the metadata that was committed with it."""

    offset: int
    leader_epoch: int
    metadata: str = ""


class GroupMember:
    """The membership of this client in one group; call `join` whenever `must_rejoin` is true."""

    def __init__(self, client: Client, group_id: str, topics: Sequence[str]) -> None:
        self.must_rejoin = True
        self._client = client
        self._group_id = group_id
        self._topics = sorted(topics)
        self._member_id = ""
        self._generation = -1
        self._heartbeat_s = 0.0

    def subscribe(self, topics: Sequence[str]) -> None:
        """Set the topics of the next `join`, which is due at once."""
        self._topics = sorted(topics)
        self.must_rejoin = True

    async def join(self) -> list[TopicPartition]:
        """Take part in a rebalance; return the partitions that are assigned to this member."""
        while True:
            client = self._client.renewed()
            try:
                assigned = await client.retry(partial(self._join_once, client))
            except KafkaError as error:
                if error.code not in REJOIN:
                    raise
                if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
                    self._member_id = ""
                if error.code is not ErrorCode.MEMBER_ID_REQUIRED:
                    await asyncio.sleep(RETRY_PAUSE_S)
                continue
            self.must_rejoin = False
            self._heartbeat_s = time.monotonic()
            return assigned

    async def _join_once(self, client: Client) -> list[TopicPartition]:
        connection = await client.coordinator(self._group_id)
        subscription = encode_subscription(self._topics)
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=subscription) for name in (RANGE, ROUND_ROBIN)
            ],
        )
        rebalance_limit_s = REBALANCE_TIMEOUT_MS / 1000 + client.timeout_s
        joined = await connection.request(request, JoinGroupResponse, timeout_s=rebalance_limit_s)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:  # the id to join with (KIP-394)
            self._member_id = joined.member_id
        check(joined.error_code, None, f"the attempt to join group {self._group_id}")
        self._member_id, self._generation = joined.member_id, joined.generation_id
        assignments: list[SyncGroupRequestAssignment] = []
        if joined.leader == joined.member_id and not joined.skip_assignment:
            assignments = await self._assign(client, joined.protocol_name or RANGE, joined.members)
        sync = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name or RANGE,
            assignments=assignments,
        )
        synced = await connection.request(sync, SyncGroupResponse, timeout_s=rebalance_limit_s)
        check(synced.error_code, None, f"the assignment of group {self._group_id}")
        return decode_assignment(synced.assignment)

    async def _assign(
        self, client: Client, protocol: str, members: Sequence[JoinGroupResponseMember]
    ) -> list[SyncGroupRequestAssignment]:
        subscriptions = {member.member_id: decode_subscription(member.metadata) for member in members}
        counts: dict[str, int] = {}
        for name in sorted({topic for topics in subscriptions.values() for topic in topics}):
            try:
                counts[name] = len((await client.look_up_topic(name)).leaders)
            except KafkaError as error:
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
        dealt = (assign_round_robin if protocol == ROUND_ROBIN else assign_ranges)(subscriptions, counts)
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(partitions))
            for member, partitions in dealt.items()
        ]

    async def heartbeat(self) -> None:
        """Send a heartbeat if it is due; set `must_rejoin` if the group rebalances."""
        if time.monotonic() - self._heartbeat_s < HEARTBEAT_S:
            return
        request = HeartbeatRequest(
            group_id=self._group_id, generation_id=self._generation, member_id=self._member_id
        )

        client = self._client.renewed()

        async def attempt() -> int:
            connection = await client.coordinator(self._group_id)
            response = await connection.request(request, HeartbeatResponse, timeout_s=client.remaining_s)
            if response.error_code not in REJOIN:
                check(response.error_code, None, f"the membership in group {self._group_id}")
            return response.error_code

        self._note(await client.retry(attempt))
        self._heartbeat_s = time.monotonic()

    def _note(self, error_code: int) -> None:
        self.must_rejoin = self.must_rejoin or error_code in REJOIN
        if error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""

    async def committed(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of the group in these partitions."""
        by_topic: dict[str, list[int]] = {}
        for name, number in partitions:
            by_topic.setdefault(name, []).append(number)
        group = OffsetFetchRequestGroup(
            group_id=self._group_id,
            topics=[OffsetFetchRequestTopics(name=name, partition_indexes=n) for name, n in by_topic.items()],
        )
        old = [OffsetFetchRequestTopic(name=name, partition_indexes=n) for name, n in by_topic.items()]
        request = OffsetFetchRequest(group_id=self._group_id, topics=old, groups=[group], require_stable=True)

        client = self._client.renewed()

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata]:
            connection = await client.coordinator(self._group_id)
            response = await connection.request(
                request, OffsetFetchResponse, timeout_s=client.remaining_s, max_version=MAX_COMMIT_VERSION
            )
            answer = response.groups[0] if response.groups else response
            check(answer.error_code, None, f"the offsets of group {self._group_id}")
            found: dict[TopicPartition, OffsetAndMetadata] = {}
            for topic in answer.topics:
                for one in topic.partitions:
                    check(one.error_code, None, f"the offset of {topic.name}-{one.partition_index}")
                    partition = TopicPartition(topic.name, one.partition_index)
                    found[partition] = OffsetAndMetadata(
                        one.committed_offset, one.committed_leader_epoch, one.metadata or ""
                    )
            return found

        return await client.retry(attempt)

    async def commit(
        self, offsets: Mapping[TopicPartition, int], metadata: Mapping[TopicPartition, str] | None = None
    ) -> None:
        """Commit these offsets: all records before them are processed.

        `metadata` has texts that are stored with some of the offsets.
        """
        if not offsets:
            return
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        for partition, offset in offsets.items():
            one = OffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=offset,
                committed_metadata=(metadata or {}).get(partition, ""),
            )
            by_topic.setdefault(partition.topic, []).append(one)
        request = OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=[OffsetCommitRequestTopic(name=name, partitions=one) for name, one in by_topic.items()],
        )

        client = self._client.renewed()

        async def attempt() -> None:
            connection = await client.coordinator(self._group_id)
            response = await connection.request(
                request,
                OffsetCommitResponse,
                timeout_s=client.remaining_s,
                max_version=MAX_COMMIT_VERSION,
            )
            for topic in response.topics:
                for answer in topic.partitions:
                    if answer.error_code in REJOIN:
                        # The member that has the partition now will read the records again.
                        self._note(answer.error_code)
                    else:
                        check(answer.error_code, None, f"the offset of {topic.name}-{answer.partition_index}")

        await client.retry(attempt)

    async def leave(self) -> None:
        """Leave the group, so that the other members get the partitions at once."""
        if not self._member_id:
            return
        request = LeaveGroupRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            members=[MemberIdentity(member_id=self._member_id)],
        )
        client = self._client.renewed()

        async def attempt() -> None:
            connection = await client.coordinator(self._group_id)
            await connection.request(request, LeaveGroupResponse, timeout_s=client.remaining_s)

        await client.retry(attempt)
        self._member_id = ""


def assign_ranges(
    subscriptions: Mapping[str, Sequence[str]], counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Assign each topic's partitions in ranges to its subscribers, sorted by member id."""
    dealt: dict[str, list[TopicPartition]] = {member: [] for member in sorted(subscriptions)}
    for topic, count in sorted(counts.items()):
        members = [member for member in sorted(subscriptions) if topic in subscriptions[member]]
        if not members:
            continue
        share, extra = divmod(count, len(members))
        start = 0
        for number, member in enumerate(members):
            stop = start + share + (number < extra)
            dealt[member] += [TopicPartition(topic, partition) for partition in range(start, stop)]
            start = stop
    return dealt


def assign_round_robin(
    subscriptions: Mapping[str, Sequence[str]], counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Assign all partitions in turn, each to the next of its subscribers by member id."""
    members = sorted(subscriptions)
    dealt: dict[str, list[TopicPartition]] = {member: [] for member in members}
    turn = 0
    for topic, count in sorted(counts.items()):
        if not any(topic in topics for topics in subscriptions.values()):
            continue
        for partition in range(count):
            while topic not in subscriptions[members[turn % len(members)]]:
                turn += 1
            dealt[members[turn % len(members)]].append(TopicPartition(topic, partition))
            turn += 1
    return dealt


# ---- the members' own protocol: Kafka's ConsumerProtocol, version 0 ------------------------------


def encode_subscription(topics: Sequence[str]) -> bytes:
    return struct.pack(">hi", 0, len(topics)) + b"".join(map(_string, topics)) + struct.pack(">i", -1)


def decode_subscription(content: bytes) -> list[str]:
    """Return the topics of any version: later versions append fields. INVALID_REQUEST if malformed."""
    reader = _Reader(content, position=2)
    return [reader.string() for _ in range(reader.count())]


def encode_assignment(partitions: Sequence[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    content = bytearray(struct.pack(">hi", 0, len(by_topic)))
    for topic, numbers in by_topic.items():
        content += _string(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return bytes(content + struct.pack(">i", -1))


def decode_assignment(content: bytes) -> list[TopicPartition]:
    """Return the partitions in an assignment; none for empty bytes."""
    if not content:
        return []
    reader = _Reader(content, position=2)
    assigned: list[TopicPartition] = []
    for _ in range(reader.count()):
        topic = reader.string()
        assigned += [TopicPartition(topic, reader.integer(">i")) for _ in range(reader.count())]
    return assigned


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


class _Reader:
    """A reader of the bytes of members; INVALID_REQUEST if they are malformed."""

    def __init__(self, content: bytes, position: int) -> None:
        self._content = content
        self._position = position

    def integer(self, code: str) -> int:
        try:
            (number,) = struct.unpack_from(code, self._content, self._position)
        except struct.error:
            raise _malformed() from None
        self._position += struct.calcsize(code)
        return int(number)

    def count(self) -> int:
        number = self.integer(">i")
        if not 0 <= number <= min(MAX_ITEMS, len(self._content)):
            raise _malformed()
        return number

    def string(self) -> str:
        stop = self.integer(">h") + self._position
        if not self._position <= stop <= len(self._content):
            raise _malformed()
        text = self._content[self._position : stop]
        self._position = stop
        try:
            return str(text, "utf-8")
        except UnicodeDecodeError:
            raise _malformed() from None


def _malformed() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, "a member of the group sent an invalid subscription")
