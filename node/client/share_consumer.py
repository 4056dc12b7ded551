"""A consumer of a share group: it acquires records from the leaders and acknowledges each of them (KIP-932).

The caller acknowledges the records of `poll` before it polls again, and `commit` sends the acknowledgements.
Each leader keeps a share session for this member. When its connection or its session ends, the leader
releases the records to other members, and acknowledgements that were not sent are lost: `commit` returns
these.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from ottla.logstore.words.error_words import sentence_of
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.acquired_records import (
    AcknowledgedRange,
    AcquiredCursor,
    SharedRecord,
    Unreadable,
    joined,
)
from ottla.node.client.cluster_client import RETRY_PAUSE_S, Client, check
from ottla.node.client.share_member import ShareMember
from ottla.node.net.peer_client import PeerClient
from ottla.node.wire.acknowledge_type import AcknowledgeType
from ottla.node.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from ottla.node.wire.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)

OPENING_EPOCH, CLOSING_EPOCH, MAX_EPOCH = 0, -1, 2**31 - 1  # of share sessions
RECORD_LIMIT: Final = 1  # the acquire mode that acquires no more records than requested
RENEWING_VERSION: Final = 2  # of ShareAcknowledge: the first that renews locks
DEFAULT_LOCK_MS: Final = 30_000  # Kafka's group.share.record.lock.duration.ms
LEAST_LOCK_MS, MAX_LOCK_MS = 1_000, 3_600_000
# The partition has another leader, or none now: the metadata must be refreshed.
_STALE: Final = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.KAFKA_STORAGE_ERROR,
}


# The leader does not have this member's session, or not in this state: the next fetch opens a new one.
_OF_SESSIONS: Final = {
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    ErrorCode.UNKNOWN_MEMBER_ID,
}


class ShareLimits(NamedTuple):
    """The most that one poll takes, and the time that it waits if there are no records."""

    max_records: int = 500  # Kafka's max.poll.records
    max_record_bytes: int = 16 * 1024 * 1024
    max_bytes: int = 8 * 1024 * 1024
    wait_ms: int = 500


class LostAcknowledgement(NamedTuple):
    """Records whose acknowledgement the leader did not accept; they may be delivered again."""

    partition: TopicPartition
    range: AcknowledgedRange
    error: KafkaError


class _OfLeader(Protocol):
    """The current leader of a partition in a response of ShareFetch or ShareAcknowledge."""

    @property
    def leader_id(self) -> int: ...


@dataclass(slots=True)
class _Session:
    """The share session with one leader."""

    epoch: int = OPENING_EPOCH
    partitions: frozenset[TopicPartition] = frozenset()  # those in the leader's session
    cursors: list[tuple[TopicPartition, AcquiredCursor]] = field(default_factory=list)  # with records left
    was_used: bool = False  # a request was sent, so the leader may hold records for this member
    # Returned to the caller, not acknowledged yet.
    given: dict[TopicPartition, set[int]] = field(default_factory=dict)
    pending: dict[TopicPartition, list[AcknowledgedRange]] = field(default_factory=dict)
    locked_s: float = 0.0  # when locks were last acquired or renewed

    def went_on(self) -> None:
        """Note that the leader has accepted a request in this session."""
        self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1


class ShareConsumer:
    """A member of a share group that reads its partitions; `close` releases the records that it holds."""

    def __init__(
        self,
        client: Client,
        group_id: str,
        topics: Sequence[str],
        *,
        limits: ShareLimits = ShareLimits(),
    ) -> None:
        self.member = ShareMember(client, group_id, topics)
        self.lock_ms = DEFAULT_LOCK_MS
        self.problems: dict[TopicPartition, KafkaError] = {}  # partitions that the last round could not read
        self._client = client
        self._group_id = group_id
        self._limits = limits
        self._sessions: dict[int, _Session] = {}
        self._hints: dict[TopicPartition, int] = {}  # current leaders named in responses
        self._unreadable: list[Unreadable] = []
        self._lost: list[LostAcknowledgement] = []

    # ---- records ----------------------------------------------------------------------------------

    async def poll(self, max_records: int | None = None) -> list[SharedRecord]:
        """Return the next records, at most `max_records`; an empty list after a wait without any."""
        wanted = min(max_records or self._limits.max_records, self._limits.max_records)
        await self.keep_alive()
        records = await self._open(wanted)
        if records:
            return records
        await self._flush_acknowledgements()  # gaps and rejected records, before more is acquired
        await self._fetch(wanted)
        return await self._open(wanted)

    def take_unreadable(self) -> list[Unreadable]:
        """Return the records that could not be opened since the last call; the next commit rejects them."""
        found, self._unreadable = self._unreadable, []
        return found

    async def _open(self, wanted: int) -> list[SharedRecord]:
        records: list[SharedRecord] = []
        room_bytes = self._limits.max_record_bytes
        for session in self._sessions.values():
            while session.cursors and len(records) < wanted and room_bytes > 0:
                partition, cursor = session.cursors[0]
                is_over = True
                for one in cursor:
                    if one is None:
                        await asyncio.sleep(0)
                        continue
                    records.append(one)
                    session.given.setdefault(partition, set()).add(one.record.offset)
                    room_bytes -= len(one.record.key or b"") + len(one.record.value or b"")
                    if len(records) >= wanted or room_bytes <= 0:
                        is_over = not cursor.rest
                        break
                if cursor.settled:
                    session.pending.setdefault(partition, []).extend(cursor.settled)
                    self._unreadable += cursor.unreadable
                    cursor.settled, cursor.unreadable = [], []
                if is_over:
                    session.cursors.pop(0)
        return records

    async def _fetch(self, wanted: int) -> None:
        client = self._client.renewed()
        by_leader = await self._by_leader(client)
        leaders = sorted(by_leader.keys() | {one for one, kept in self._sessions.items() if kept.partitions})
        if not leaders:
            await asyncio.sleep(self._limits.wait_ms / 1000)
            return
        names = {client.topics[one.topic].topic_id: one.topic for each in by_leader.values() for one in each}
        async with asyncio.TaskGroup() as tasks:
            fetches = [
                tasks.create_task(
                    self._fetch_from(client, leader, by_leader.get(leader, frozenset()), names, wanted)
                )
                for leader in leaders
            ]
        final = next((error for task in fetches if (error := task.result()) is not None), None)
        if final is not None:
            raise final
        if self.problems and not any(session.cursors for session in self._sessions.values()):
            await asyncio.sleep(RETRY_PAUSE_S)

    async def _by_leader(self, client: Client) -> dict[int, frozenset[TopicPartition]]:
        """Return the assigned partitions by leader; those without one are in `problems`."""
        self.problems = {}
        self._hints = {one: leader for one, leader in self._hints.items() if one in self.member.assigned}
        found: dict[int, set[TopicPartition]] = {}
        names = {one.topic for one in self.member.assigned if one.topic not in client.topics}
        if names:
            try:
                await client.refresh(sorted(names))
            except KafkaError as error:
                if not error.code.retriable:
                    raise
        for partition in self.member.assigned:
            topic = client.topics.get(partition.topic)
            leader = -1 if topic is None else topic.leaders.get(partition.partition, -1)
            leader = self._hints.get(partition, leader)
            if topic is None or leader < 0:
                self._note_stale(partition, _no_leader(partition))
            else:
                found.setdefault(leader, set()).add(partition)
        return {leader: frozenset(partitions) for leader, partitions in found.items()}

    async def _fetch_from(
        self,
        client: Client,
        leader: int,
        partitions: frozenset[TopicPartition],
        names: Mapping[bytes, str],
        wanted: int,
    ) -> KafkaError | None:
        """Fetch from one leader; note errors that can be retried, and return the first one that cannot."""
        session = self._sessions.setdefault(leader, _Session())
        if not partitions and session.epoch == OPENING_EPOCH:
            self._drop(leader, _session_is_over(leader))
            return None
        ids = {name: topic_id for topic_id, name in names.items()}
        session.was_used = True
        request = ShareFetchRequest(
            group_id=self._group_id,
            member_id=self.member.member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=min(self._limits.wait_ms, client.remaining_ms // 2),
            min_bytes=1,
            max_bytes=self._limits.max_bytes,
            max_records=wanted,
            batch_size=wanted,
            share_acquire_mode=RECORD_LIMIT,
            topics=[
                FetchTopic(
                    topic_id=ids[name],
                    partitions=[FetchPartition(partition_index=one) for one in numbers],
                )
                for name, numbers in _by_topic(partitions - session.partitions)
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=client.topics[name].topic_id, partitions=numbers)
                for name, numbers in _by_topic(session.partitions - partitions)
                if name in client.topics
            ],
        )
        began_s = time.monotonic()
        try:
            connection = await client.node(leader)
            response = await connection.request(request, ShareFetchResponse, timeout_s=client.remaining_s)
            check(response.error_code, response.error_message, f"share group {self._group_id}")
        except KafkaError as error:
            self._drop(leader, error)
            if not _passes(error):
                return error
            for partition in partitions:
                self._note_stale(partition, error)
            return None
        session.went_on()
        session.partitions = partitions
        if response.acquisition_lock_timeout_ms > 0:
            self.lock_ms = min(max(response.acquisition_lock_timeout_ms, LEAST_LOCK_MS), MAX_LOCK_MS)
        session.locked_s = max(session.locked_s, began_s)
        final: KafkaError | None = None
        for topic in response.responses:
            name = names.get(topic.topic_id, "")
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                try:
                    if partition in partitions:
                        self._take(session, partition, data)
                except KafkaError as error:
                    final = final or error
        return final

    def _take(self, session: _Session, partition: TopicPartition, data: PartitionData) -> None:
        """Keep the records of a partition from a response; KafkaError for an error that cannot be retried."""
        try:
            check(data.error_code, data.error_message, str(partition))
        except KafkaError as error:
            if not _passes(error):
                raise
            self._note_stale(partition, error, data.current_leader)
            return
        assert not isinstance(data.records, Sequence) or isinstance(data.records, bytes | memoryview)
        if data.acquired_records:
            view = memoryview(data.records or b"")
            session.cursors.append((partition, AcquiredCursor(partition, view, data.acquired_records)))

    def _note_stale(
        self, partition: TopicPartition, error: KafkaError, hint: _OfLeader | None = None
    ) -> None:
        self.problems[partition] = error
        if hint is not None and hint.leader_id >= 0 and error.code in _STALE:
            self._hints[partition] = hint.leader_id
        else:
            self._hints.pop(partition, None)
            self._client.forget(partition.topic)

    def _drop(self, leader: int, error: KafkaError) -> None:
        """End the session with a leader; the records acquired there are released to other members."""
        session = self._sessions.pop(leader, None)
        if session is None:
            return
        for partition, ranges in session.pending.items():
            self._lost += [LostAcknowledgement(partition, one, error) for one in joined(ranges)]

    # ---- acknowledgements -------------------------------------------------------------------------

    def acknowledge(self, shared: SharedRecord, kind: AcknowledgeType) -> None:
        """Acknowledge a record that `poll` returned; `commit` sends it to the leader."""
        offset = shared.record.offset
        for session in self._sessions.values():
            given = session.given.get(shared.partition)
            if given is not None and offset in given:
                given.discard(offset)
                ranges = session.pending.setdefault(shared.partition, [])
                ranges.append(AcknowledgedRange(offset, offset, kind))
                return
        error = KafkaError(
            ErrorCode.INVALID_RECORD_STATE,
            f"this member no longer holds offset {offset} of {shared.partition}",
        )
        self._lost.append(
            LostAcknowledgement(shared.partition, AcknowledgedRange(offset, offset, kind), error)
        )

    async def commit(self) -> list[LostAcknowledgement]:
        """Send all acknowledgements; return those that leaders did not accept since the last call."""
        await self._flush_acknowledgements()
        lost, self._lost = self._lost, []
        return lost

    async def _flush_acknowledgements(self) -> None:
        client = self._client.renewed()
        for leader, session in list(self._sessions.items()):
            if any(session.pending.values()):
                await self._flush_session(client, leader, session)

    async def _flush_session(self, client: Client, leader: int, session: _Session) -> None:
        pending = {one: joined(ranges) for one, ranges in session.pending.items() if ranges}
        try:
            answers = await self._send(client, leader, session, pending, is_renewal=False)
        except KafkaError as error:
            self._drop(leader, error)  # with its pending acknowledgements
            if not _passes(error):
                raise
            return
        session.pending.clear()
        for partition, refusal in answers.items():
            self._lost += [LostAcknowledgement(partition, one, refusal) for one in pending.get(partition, ())]

    async def _send(
        self,
        client: Client,
        leader: int,
        session: _Session,
        ranges: Mapping[TopicPartition, Sequence[AcknowledgedRange]],
        *,
        is_renewal: bool,
    ) -> dict[TopicPartition, KafkaError]:
        """Send one ShareAcknowledge; return the errors of partitions that have one."""
        ids = await self._topic_ids(client, ranges)
        topics = [
            AcknowledgeTopic(
                topic_id=ids[name],
                partitions=[
                    AcknowledgePartition(
                        partition_index=number,
                        acknowledgement_batches=[
                            AcknowledgementBatch(
                                first_offset=one.first, last_offset=one.last, acknowledge_types=[one.kind]
                            )
                            for one in ranges[TopicPartition(name, number)]
                        ],
                    )
                    for number in numbers
                ],
            )
            for name, numbers in _by_topic(ranges)
            if name in ids
        ]
        errors = {
            one: KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {one.topic} is gone")
            for one in ranges
            if one.topic not in ids
        }
        request = ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self.member.member_id,
            share_session_epoch=session.epoch,
            is_renew_ack=is_renewal,
            topics=topics,
        )
        connection = await client.node(leader)
        response = await connection.request(request, ShareAcknowledgeResponse, timeout_s=client.remaining_s)
        check(response.error_code, response.error_message, f"share group {self._group_id}")
        session.went_on()
        names = {topic_id: name for name, topic_id in ids.items()}
        for topic in response.responses:
            for data in topic.partitions:
                partition = TopicPartition(names.get(topic.topic_id, ""), data.partition_index)
                try:
                    check(data.error_code, data.error_message, str(partition))
                except KafkaError as error:
                    errors[partition] = error
                    if error.code in _STALE:
                        self._note_stale(partition, error, data.current_leader)
        return errors

    async def _topic_ids(self, client: Client, partitions: Iterable[TopicPartition]) -> dict[str, bytes]:
        names = {one.topic for one in partitions}
        if not names <= client.topics.keys():
            await client.refresh(sorted(names))
        return {name: client.topics[name].topic_id for name in names if name in client.topics}

    # ---- membership -------------------------------------------------------------------------------

    async def keep_alive(self) -> None:
        """Send a heartbeat, and renew the locks of held records, if due; to be called during long work."""
        await self.member.heartbeat()
        client = self._client.renewed()
        for leader, session in list(self._sessions.items()):
            held = dict(_held(session))
            if not held:
                continue
            began_s = time.monotonic()
            if began_s - session.locked_s < self.lock_ms / 2000:
                continue
            session.locked_s = began_s  # not again at once, even after an error
            try:
                connection = await client.node(leader)
                if not _renews(connection):
                    continue
                await self._send(client, leader, session, held, is_renewal=True)
            except KafkaError as error:
                self._drop(leader, error)
                if not _passes(error):
                    raise

    async def close(self) -> list[LostAcknowledgement]:
        """Send all acknowledgements, release the records that are held, and leave the group."""
        await self._flush_acknowledgements()
        client = self._client.renewed()
        for leader, session in list(self._sessions.items()):
            if session.was_used:
                session.epoch = CLOSING_EPOCH
                try:
                    await self._send(client, leader, session, {}, is_renewal=False)
                except KafkaError as error:
                    if not _passes(error):
                        raise
        self._sessions.clear()
        await self.member.leave()
        lost, self._lost = self._lost, []
        return lost


def _passes(error: KafkaError) -> bool:
    """Return True if a later request may succeed, in another session or at another leader."""
    return error.code.retriable or error.code in _OF_SESSIONS or error.code in _STALE


def _held(session: _Session) -> Iterator[tuple[TopicPartition, list[AcknowledgedRange]]]:
    """Yield the records that are locked in this session, as ranges to renew."""
    ranges: dict[TopicPartition, list[AcknowledgedRange]] = {}
    for partition, offsets in session.given.items():
        if offsets:
            ranges[partition] = [AcknowledgedRange(one, one, AcknowledgeType.RENEW) for one in offsets]
    for partition, cursor in session.cursors:
        rest = [AcknowledgedRange(*one, AcknowledgeType.RENEW) for one in cursor.rest]
        if rest:
            ranges.setdefault(partition, []).extend(rest)
    for partition, found in ranges.items():
        yield partition, joined(found)


def _renews(connection: PeerClient) -> bool:
    """Return True if the server can renew locks."""
    return connection.version_for(ShareAcknowledgeRequest) >= RENEWING_VERSION


def _by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {}
    for name, number in sorted(partitions):
        found.setdefault(name, []).append(number)
    return list(found.items())


def _no_leader(partition: TopicPartition) -> KafkaError:
    code = ErrorCode.LEADER_NOT_AVAILABLE
    return KafkaError(code, sentence_of(code, str(partition)))


def _session_is_over(leader: int) -> KafkaError:
    return KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND, f"node {leader} has no partition of this member")
