"""Members of a share group, which acquire records of their assigned partitions and acknowledge them.

A member accepts, releases, rejects, renews, or keeps records for too long; it falls silent and returns with
another id, leaves, or is sent away. It repeats requests with an old epoch of its session, and some of its
acknowledgements arrive twice. A `ShareHistory` records what it sends and receives.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.logstore.record import records_of
from ottla.logstore.record_batch import iterate_headers
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.wire.messages.share_acknowledge import AcknowledgementBatch as AckBatch
from ottla.node.wire.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from ottla.node.wire.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from ottla.node.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.simulation.share_history import ACCEPT, ENDS, GAP, REJECT, RELEASE, RENEW, ShareHistory
from tests.simulation.share_invariants import ShareInvariants
from tests.simulation.share_traits import Traits
from tests.simulation.sim_client import SimClient, check, pause
from tests.simulation.txn_clients import LatePath
from tests.simulation.virtual_loop import Process, SimulationError
from tests.simulation.workload import Workload

HEARTBEAT_S: Final = 0.4
CALM_PAUSE_S: Final = 0.05
REST_S: Final = 0.8
SLOW_S: Final = 3.0  # some work takes longer than a record lock
VERSION: Final = 2  # of ShareFetch and ShareAcknowledge
CLOSING, OPENING = -1, 0  # epochs of share sessions
NOT_A_MEMBER: Final = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH}
SESSION_OVER: Final = {
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED,
}
LATE_CHANCE: Final = 0.08
STRAY_CHANCE: Final = 0.15
KEEP: Final = -1  # not an acknowledgement type: the member keeps the record

Endpoint = tuple[str, int]
# Called for each record that a member received: partition, offset and value.
NoteRead = Callable[[TopicPartition, int, bytes], None]


class Batch(NamedTuple):
    """An acknowledgement of some offsets: one type for all, or one for each."""

    first: int
    last: int
    types: list[int]

    def each(self) -> list[int]:
        """Return one type for each offset."""
        return self.types * (self.last - self.first + 1) if len(self.types) == 1 else self.types


Acks = dict[TopicPartition, list[Batch]]


@dataclass(slots=True)
class Session:
    """The share session with one leader, as the member knows it."""

    epoch: int = OPENING
    partitions: set[TopicPartition] = field(default_factory=set)
    # The records of the member by partition: first, last, and the offsets that have a record.
    held: dict[TopicPartition, list[tuple[int, int, set[int]]]] = field(default_factory=dict)
    answered_request: ShareAcknowledgeRequest | None = None  # an acknowledgement that was answered
    has_all_answers: bool = True  # all its requests were answered

    def reopen(self) -> None:
        """Open a new session with the next request; the member keeps its records."""
        self.epoch, self.partitions, self.answered_request = OPENING, set(), None


class ShareMember:
    """A member of the share group, which joins, leaves and crashes again and again."""

    def __init__(
        self,
        workload: Workload,
        history: ShareHistory,
        name: str,
        topics: Sequence[str],
        *,
        note_read: NoteRead,
        invariants: ShareInvariants,
        pause_s: float,
        traits: Traits = Traits(),
    ) -> None:
        self.name = name
        self.assigned: set[TopicPartition] = set()
        self.is_calm = False  # it does not leave any more, and accepts all records
        self.is_stopped = False
        self.is_away = False  # it has to leave, and may not return yet
        self._traits = traits
        self._workload = workload
        self._history = history
        self._topics = topics
        self._note_read = note_read
        self._invariants = invariants
        self._pause_s = pause_s
        self._client: SimClient
        self._chance: random.Random
        self._process: Process
        self._client, self._chance, self._process = workload.client(name)
        self._late = LatePath(workload.world, workload.world.add_client(f"{name}-late"), self._chance)
        self._names: dict[bytes, str] = {}  # of topics
        self._ids: dict[str, bytes] = {}
        self._sessions: dict[Endpoint, Session] = {}
        self._incarnation = 0
        self._epoch = 0
        self._sends_all_fields = False
        self._is_silent = False
        self._works_longer = False
        self.tasks = [
            workload.world.spawn(self._process, work) for work in (self._run_heartbeats(), self._work())
        ]
        for task in self.tasks:
            task.add_done_callback(workload._ended)

    @property
    def member_id(self) -> str:
        return f"{self.name}.{self._incarnation}"

    @property
    def is_joined(self) -> bool:
        return self._epoch > 0 and not self._is_silent

    @property
    def has_no_records(self) -> bool:
        """Return True if the member has acknowledged all that it received."""
        return not any(one.held for one in self._sessions.values())

    # ---- group

    async def _run_heartbeats(self) -> None:
        while not self.is_stopped:
            try:
                if len(self._ids) < len(self._topics):
                    await self._fetch_topic_ids()
                elif not self._is_silent:
                    await self._heartbeat()
            except KafkaError as error:
                self._workload.check_error(error)
                self._workload.world.trace("share", f"{self.member_id} {error.code.name}")
                self._sends_all_fields = True
                if error.code in NOT_A_MEMBER:
                    self._epoch = 0
                self._client.forget_coordinator(self._history.group)
            await pause(self._chance, HEARTBEAT_S)
        self._client.close()

    async def _fetch_topic_ids(self) -> None:
        found = await self._client.refresh(self._topics)
        for one in found.topics:
            if one.name and one.partitions:
                self._names[bytes(one.topic_id)], self._ids[one.name] = one.name, bytes(one.topic_id)

    async def _heartbeat(self) -> None:
        incarnation = self._incarnation
        request = ShareGroupHeartbeatRequest(
            group_id=self._history.group,
            member_id=self.member_id,
            member_epoch=self._epoch,
            # After a lost answer the subscription is sent again, so that the assignment is answered again.
            subscribed_topic_names=list(self._topics) if not self._epoch or self._sends_all_fields else None,
        )
        coordinator = await self._client.coordinator_of(self._history.group)
        answer = await self._client.ask(coordinator, request, ShareGroupHeartbeatResponse)
        check(answer.error_code, answer.error_message)
        if incarnation != self._incarnation:
            return
        self._sends_all_fields = False
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = {
                TopicPartition(self._names[bytes(topic.topic_id)], number)
                for topic in answer.assignment.topic_partitions
                if bytes(topic.topic_id) in self._names
                for number in topic.partitions
            }
            self._workload.world.trace("assigned", f"{self.member_id} {sorted(self.assigned)}")

    async def _leave(self) -> None:
        """Leave the group, after closing some of the sessions; the other leaders do not learn of it."""
        for endpoint in sorted(self._sessions):
            if self._chance.random() < 0.7:
                await self._close_session(endpoint)
        request = ShareGroupHeartbeatRequest(
            group_id=self._history.group, member_id=self.member_id, member_epoch=-1
        )
        self._restart()
        try:
            coordinator = await self._client.coordinator_of(self._history.group)
            answer = await self._client.ask(coordinator, request, ShareGroupHeartbeatResponse)
            check(answer.error_code, answer.error_message)
        except KafkaError as error:
            self._workload.check_error(error)
            self._client.forget_coordinator(self._history.group)

    async def _crash(self) -> None:
        """Fall silent, with connections closed or left open, and return later with another id."""
        self._is_silent = True
        for endpoint in sorted(self._sessions):
            if self._chance.random() < 0.5:
                self._client.drop_connection(endpoint)
            else:
                self._client.end_connection(endpoint)
        self._restart()
        await asyncio.sleep(self._chance.choice((0.1, 1.0, 5.0)) * self._chance.random())
        self._is_silent = False

    async def _stay_away(self) -> None:
        """Leave, or fall silent, until the member may return."""
        self._is_silent = True
        if self._chance.random() < 0.05:
            await self._crash()
            self._is_silent = True
        else:
            await self._leave()
        while self.is_away:
            await asyncio.sleep(CALM_PAUSE_S)
        self._is_silent = False

    def _restart(self) -> None:
        self._incarnation += 1
        self._epoch = 0
        self.assigned = set()
        self._sessions.clear()

    # ---- records

    async def _work(self) -> None:
        while not self.is_stopped:
            await pause(self._chance, min(self._pause_s, CALM_PAUSE_S) if self.is_calm else self._pause_s)
            chance = self._chance
            dice = chance.random()
            try:
                if self.is_away:
                    await self._stay_away()
                elif self.is_calm or dice > 0.08:
                    await self._round()
                    if self._works_longer and not self.is_calm:
                        await asyncio.sleep(REST_S)  # it has renewed its locks, as if its work took longer
                    self._works_longer = False
                elif dice < 0.025:
                    await self._crash()
                elif dice < 0.045:
                    await self._leave()
                elif dice < 0.065:
                    self._reopen()
                else:
                    await asyncio.sleep(SLOW_S * chance.random())
            except KafkaError as error:
                self._workload.check_error(error)
                self._workload.world.trace("share", f"{self.member_id} {error.code.name}")
                await pause(self._chance)

    def _reopen(self) -> None:
        """Open a new session with some leader, which keeps the records of the session before."""
        if self._sessions:
            session = self._sessions[self._chance.choice(sorted(self._sessions))]
            session.reopen()

    async def _round(self) -> None:
        """Send something to each leader."""
        by_leader: dict[Endpoint, set[TopicPartition]] = {endpoint: set() for endpoint in self._sessions}
        for partition in sorted(self.assigned):
            try:
                by_leader.setdefault(await self._client.leader(partition), set()).add(partition)
            except KafkaError:
                self._client.forget_leader(partition)
        endpoints = sorted(by_leader)
        self._chance.shuffle(endpoints)
        for endpoint in endpoints:
            session = self._sessions.setdefault(endpoint, Session())
            try:
                await self._ask_leader(endpoint, session, by_leader[endpoint])
            except KafkaError as error:
                self._workload.check_error(error)
                self._workload.world.trace("share", f"{self.member_id} {endpoint[0]} {error.code.name}")
                self._reset_session(endpoint, session, error)

    def _reset_session(self, endpoint: Endpoint, session: Session, error: KafkaError) -> None:
        """Start a session again whose state is unknown, or give it up with its records."""
        for partition in session.partitions | self.assigned:
            self._client.forget_leader(partition)
        session.reopen()
        session.has_all_answers = session.has_all_answers and error.code in SESSION_OVER
        if not session.held or self._chance.random() < 0.5:
            self._sessions.pop(endpoint, None)

    async def _ask_leader(self, endpoint: Endpoint, session: Session, wanted: set[TopicPartition]) -> None:
        chance = self._chance
        if session.epoch == OPENING or not session.held or chance.random() < (0.9 if self.is_calm else 0.4):
            acknowledges = session.epoch != OPENING and (self.is_calm or chance.random() < 0.6)
            acks = self._choose_acks(session) if acknowledges else {}
            renews = any(RENEW in batch.types for batches in acks.values() for batch in batches)
            if not wanted and not session.partitions and session.epoch == OPENING:
                self._sessions.pop(endpoint, None)
                return
            await self._fetch(endpoint, session, wanted, acks, renews=renews)
        elif (
            not self.is_calm
            and session.answered_request is not None
            and session.has_all_answers
            and chance.random() < 0.1
        ):
            await self._repeat(endpoint, session.answered_request)
        else:
            await self._acknowledge(endpoint, session, self._choose_acks(session))

    # ---- acknowledgements

    def _choose_acks(self, session: Session) -> Acks:
        """Choose acknowledgements for some of the member's records, which it then holds no longer."""
        chance, acks = self._chance, Acks()
        has_renewals = not self.is_calm and chance.random() < 0.15
        self._works_longer = has_renewals
        for partition in sorted(session.held):
            kept: list[tuple[int, int, set[int]]] = []
            for first, last, existing in session.held[partition]:
                kind = ACCEPT if self.is_calm else chance.choice((ACCEPT, ACCEPT, RELEASE, REJECT, KEEP, GAP))
                if has_renewals:
                    kind = chance.choice((RENEW, KEEP))
                if kind == KEEP:
                    kept.append((first, last, existing))
                    continue
                if kind == RENEW:
                    kept.append((first, last, existing))
                    types = [RENEW] * (last - first + 1)
                elif kind == GAP or len(existing) <= last - first:
                    # A mixture of types; an offset without a record is acknowledged as a gap.
                    kinds = (ACCEPT,) if self.is_calm else (ACCEPT, RELEASE, REJECT)
                    types = [chance.choice(kinds) if at in existing else GAP for at in range(first, last + 1)]
                else:
                    types = [kind]
                acks.setdefault(partition, []).append(Batch(first, last, types))
            session.held[partition] = kept
            if not kept:
                del session.held[partition]
        for batches in acks.values():
            batches.sort()
        if not self.is_calm and not has_renewals and chance.random() < STRAY_CHANCE:
            self._add_stray_ack(session, acks)
        return acks

    def _add_stray_ack(self, session: Session, acks: Acks) -> None:
        """Add an acknowledgement of a record that another member holds."""
        partition = self._chance.choice([None, *sorted(session.partitions - acks.keys())])
        others = [] if partition is None else self._history.delivered_to_others(self.member_id, partition)
        if partition is not None and others:
            first = self._chance.choice(others)
            acks[partition] = [Batch(first, first, [self._chance.choice((ACCEPT, RELEASE, REJECT))])]

    def _note_acks(self, acks: Acks) -> None:
        for partition, batches in acks.items():
            for batch in batches:
                self._history.note_acknowledgement(self.member_id, partition, batch.first, batch.each())

    def _generations(self, acks: Acks) -> dict[TopicPartition, int]:
        return {partition: self._history.generation_of(partition) for partition in acks}

    def _answered(
        self,
        partition: TopicPartition,
        batches: Sequence[Batch],
        code: int,
        *,
        sent_s: float,
        generation: int,
    ) -> None:
        """Check an answer: accepted and rejected records are finished, renewed ones are locked again."""
        if code:
            self._client.forget_leader(partition)
            return
        for batch in batches:
            for offset, kind in enumerate(batch.each(), batch.first):
                if kind in ENDS:
                    self._history.answered += 1
                    if not self._invariants.is_done(partition, offset):
                        raise SimulationError(
                            f"{self.member_id} received that {offset} of {partition} is finished,"
                            " which the coordinator has not confirmed to any leader"
                        )
                    if kind == REJECT and self._traits.has_letters:
                        self._history.note_rejected(partition, offset, generation)
                elif kind == RENEW:
                    self._invariants.note_renewal(self.member_id, partition, offset, sent_s)

    async def _acknowledge(self, endpoint: Endpoint, session: Session, acks: Acks) -> None:
        if not acks:
            return
        self._note_acks(acks)
        request = ShareAcknowledgeRequest(
            group_id=self._history.group,
            member_id=self.member_id,
            share_session_epoch=session.epoch,
            is_renew_ack=any(RENEW in one.types for batches in acks.values() for one in batches),
            topics=[
                AcknowledgeTopic(
                    topic_id=self._ids[topic],
                    partitions=[
                        AcknowledgePartition(
                            partition_index=partition.partition,
                            acknowledgement_batches=[
                                AckBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                                for first, last, types in batches
                            ],
                        )
                        for partition, batches in acks.items()
                        if partition.topic == topic
                    ],
                )
                for topic in sorted({partition.topic for partition in acks})
            ],
        )
        if not self.is_calm and self._chance.random() < LATE_CHANCE:
            await self._late.send(self._client, endpoint, request, ShareAcknowledgeResponse, VERSION)
        sent_s, generations = self._workload.world.loop.now_s, self._generations(acks)
        try:
            answer = await self._client.ask(endpoint, request, ShareAcknowledgeResponse, max_version=VERSION)
        except KafkaError:
            session.has_all_answers = False
            raise
        check(answer.error_code, answer.error_message)
        self._workload.world.trace("said", f"{self.member_id} {endpoint[0]} {acks}")
        session.epoch += 1
        session.answered_request = request
        for topic in answer.responses:
            for one in topic.partitions:
                partition = TopicPartition(self._names[bytes(topic.topic_id)], one.partition_index)
                self._answered(
                    partition,
                    acks.get(partition, []),
                    one.error_code,
                    sent_s=sent_s,
                    generation=generations.get(partition, -1),
                )

    async def _repeat(self, endpoint: Endpoint, repeated: ShareAcknowledgeRequest) -> None:
        """Send an answered request again, as from a client that has slept; it must be rejected."""
        answer = await self._client.ask(endpoint, repeated, ShareAcknowledgeResponse, max_version=VERSION)
        if not answer.error_code:
            raise SimulationError(
                f"{endpoint[0]} accepts epoch {repeated.share_session_epoch} of the session"
                f" of {repeated.member_id} again"
            )
        if answer.error_code not in SESSION_OVER:
            check(answer.error_code, answer.error_message)

    async def _close_session(self, endpoint: Endpoint) -> None:
        session = self._sessions[endpoint]
        if session.epoch == OPENING:
            return
        acks = self._choose_acks(session) if self._chance.random() < 0.5 else {}
        if any(RENEW in batch.types for batches in acks.values() for batch in batches):
            acks = {}
        session.epoch = CLOSING
        try:
            await self._fetch(endpoint, session, set(), acks, renews=False)
        except KafkaError as error:
            self._workload.check_error(error)

    # ---- fetches

    async def _fetch(
        self,
        endpoint: Endpoint,
        session: Session,
        wanted: set[TopicPartition],
        acks: Acks,
        *,
        renews: bool,
    ) -> None:
        chance = self._chance
        added, forgotten = wanted - session.partitions, session.partitions - wanted
        if session.epoch in (OPENING, CLOSING) or renews:
            forgotten = set()
        named = sorted(added | acks.keys())
        self._note_acks(acks)
        fetches = session.epoch != CLOSING and not renews
        request = ShareFetchRequest(
            group_id=self._history.group,
            member_id=self.member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=self._traits.fetch_wait_ms if fetches else 0,
            min_bytes=1 if fetches else 0,
            max_bytes=100_000 if fetches else 0,
            max_records=chance.choice((500,) if self.is_calm else (1, 5, 30, 500)) if fetches else 0,
            batch_size=chance.choice((1, 10, 500)),
            share_acquire_mode=int(chance.random() < 0.3),
            is_renew_ack=renews,
            topics=[
                FetchTopic(
                    topic_id=self._ids[topic],
                    partitions=[
                        FetchPartition(
                            partition_index=one.partition,
                            acknowledgement_batches=[
                                AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=types
                                )
                                for first, last, types in acks.get(one, [])
                            ],
                        )
                        for one in named
                        if one.topic == topic
                    ],
                )
                for topic in sorted({one.topic for one in named})
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=self._ids[one.topic], partitions=[one.partition])
                for one in sorted(forgotten)
            ],
        )
        member_id, sent_s = self.member_id, self._workload.world.loop.now_s
        generations = self._generations(acks)
        try:
            answer = await self._client.ask(endpoint, request, ShareFetchResponse, max_version=VERSION)
        except KafkaError:
            session.has_all_answers = False
            raise
        check(answer.error_code, answer.error_message)
        if session.epoch != CLOSING:
            session.epoch += 1
            session.partitions = (session.partitions | added) - forgotten
        for topic in answer.responses:
            for one in topic.partitions:
                partition = TopicPartition(self._names[bytes(topic.topic_id)], one.partition_index)
                if partition in acks:
                    self._answered(
                        partition,
                        acks[partition],
                        one.acknowledge_error_code,
                        sent_s=sent_s,
                        generation=generations[partition],
                    )
                self._take(member_id, session, partition, one)

    def _take(self, member_id: str, session: Session, partition: TopicPartition, one: PartitionData) -> None:
        if one.error_code:
            self._client.forget_leader(partition)
            session.partitions.discard(partition)
            return
        content = bytes(one.records) if isinstance(one.records, bytes | bytearray | memoryview) else b""
        records = {
            record.offset: record
            for position, header in iterate_headers(content)
            for record in records_of([content[position : position + header.size_bytes]])
        }
        for each in one.acquired_records:
            first, last = each.first_offset, each.last_offset
            existing = {offset for offset in range(first, last + 1) if offset in records}
            self._workload.world.trace("got", f"{member_id} {partition} {first}-{last} {each.delivery_count}")
            for offset in range(first, last + 1):
                self._history.check_received(member_id, partition, offset, each.delivery_count)
            for offset in sorted(existing):
                self._note_read(partition, offset, records[offset].value or b"")
                due_ms = self._traits.due_ms(partition, records[offset])
                self._history.check_due(member_id, partition, offset, each.delivery_count, due_ms)
            others = [one for one in session.held.get(partition, []) if one[1] < first or one[0] > last]
            session.held[partition] = [*others, (first, last, existing)]
