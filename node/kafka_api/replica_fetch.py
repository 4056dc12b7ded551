"""Fetch requests of followers, which read up to the log end offset and report their own log end offset.

Only a node that has proven to be that broker is served. An error, a diverging log (KIP-595) or records are
answered at once; otherwise the fetch waits for them. A new high watermark alone waits a little for records to
go with it. A request that ends a session but names no partitions (epoch -1) completes the waiting fetch of
that session: the follower has changes for it, such as a partition that this node now leads.
"""

from collections.abc import Sequence

from ottla.logstore.log_reader import ColdRead
from ottla.logstore.partition_log import FetchIsolation
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation
from ottla.node.kafka_api.fetch_answer import FetchAnswer, Located, bounds, failure, slice_of
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Delayed, Result
from ottla.node.replica.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchItem
from ottla.node.replica.follower_session import FollowerSession, SessionPartition
from ottla.node.replica.partition import Partition
from ottla.node.services import Services
from ottla.node.wire.messages.fetch import (
    LEADER_SENT_DAMAGE,
    OWN_LOG_IS_DAMAGED,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.node.work.turns import Steps, in_turns

# A follower may ask for partitions that were just created, whose logs the fetch creates. If there are more of
# them, the request shares the loop with others.
MADE_AT_ONCE = 4


def handle(
    services: Services, context: RequestContext, request: FetchRequest, replica_id: int
) -> Result[FetchResponse]:
    if context.connection.peer_id != replica_id:
        return _refuse(context, request)
    by_id = context.api_version >= 13
    items = [
        FetchItem(topic.topic_id if by_id else topic.topic, wanted)
        for topic in request.topics
        for wanted in topic.partitions
    ]
    sessions = services.replica_manager.follower_sessions
    is_full = request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)
    if request.session_epoch == FINAL_EPOCH and request.session_id != NO_SESSION and not items:
        return _wake(services, request.session_id, replica_id)
    try:
        if not is_full:
            session = sessions.resume(
                request.session_id, request.session_epoch, replica_id=replica_id, uses_topic_ids=by_id
            )
        elif request.session_epoch == FINAL_EPOCH:
            session = FollowerSession(NO_SESSION, replica_id, uses_topic_ids=by_id)
        else:
            if sessions.find(request.session_id, replica_id) is not None:
                sessions.remove(request.session_id)
            session = sessions.create(replica_id, uses_topic_ids=by_id)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    session.broker_epoch = request.replica_state.replica_epoch if context.api_version >= 15 else -1
    changed = session.update(items, request.forgotten_topics_data)
    fetch = ReplicaFetch(services, context, request, session)
    makes_logs = services.replica_manager.is_behind and len(changed) > MADE_AT_ONCE
    return in_turns(fetch.begin(changed), is_large=context.is_large or makes_logs)


def _refuse(context: RequestContext, request: FetchRequest) -> FetchResponse:
    """Reject the fetch of a client that has not proven to be a node: it may read committed records only.

    Without the CLUSTER_ACTION right each partition gets TOPIC_AUTHORIZATION_FAILED, as in Kafka. With it the
    response has CLUSTER_AUTHORIZATION_FAILED, before version 7 in each partition.
    """
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if not context.access.allows_of_cluster(AclOperation.CLUSTER_ACTION):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif context.api_version >= 7:
        return FetchResponse(error_code=code)
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[failure(one.partition, code) for one in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _wake(services: Services, session_id: int, replica_id: int) -> FetchResponse:
    session = services.replica_manager.follower_sessions.find(session_id, replica_id)
    if session is not None and session.on_change is not None:
        session.on_change(True)
    return FetchResponse()


class ReplicaFetch:
    """One fetch of a follower while it is served."""

    __slots__ = ("_context", "_max_bytes", "_min_bytes", "_request", "_services", "_session")

    def __init__(
        self,
        services: Services,
        context: RequestContext,
        request: FetchRequest,
        session: FollowerSession,
    ) -> None:
        self._services = services
        self._context = context
        self._request = request
        self._session = session
        self._max_bytes, self._min_bytes = bounds(services, request)

    def begin(self, changed: Sequence[SessionPartition]) -> Steps[Result[FetchResponse]]:
        """Record the follower's offsets, and answer the fetch or let it wait."""
        session = self._session
        for followed in changed:
            self._acknowledge(followed)
            yield
        session.last_fetch_ms = self._services.replica_manager.context.now_ms()
        if self._min_bytes > 0 and self._request.max_wait_ms > 0 and all(map(_has_whole_log, session.dirty)):
            return self._wait(has_offsets=self._watch_all())
        located, has_changes = self._gather()
        if has_changes or self._request.max_wait_ms <= 0:
            return self._answer(located)
        return self._wait(has_offsets=bool(located))

    def _watch_all(self) -> bool:
        """Watch each log, all of which the follower has in full; return True if an offset has changed."""
        dirty, has_offsets = self._session.dirty, False
        for followed in tuple(dirty):
            followed.watch()
            if followed.partition is not None and self._has_offset_changes(followed, followed.partition):
                has_offsets = True
            else:
                del dirty[followed]
        return has_offsets

    def _acknowledge(self, followed: SessionPartition) -> None:
        """Record that the follower has everything below its fetch offset."""
        session, wanted = self._session, followed.item.wanted
        try:
            partition = self._partition(followed)
            if self._diverging(partition, followed) is None:
                partition.check_offset(wanted.fetch_offset)
                partition.follower_fetched(
                    session.replica_id,
                    wanted.fetch_offset,
                    log_start_offset=wanted.log_start_offset,
                    broker_epoch=session.broker_epoch,
                    is_damaged=bool(wanted.damage & OWN_LOG_IS_DAMAGED),
                )
                if wanted.damage & LEADER_SENT_DAMAGE:
                    self._services.maintenance.scrub.soon(partition.topic_partition, wanted.fetch_offset)
                followed.known_to = partition.isr
        except KafkaError:
            pass  # `_locate` answers with the error.

    def _partition(self, followed: SessionPartition) -> Partition:
        """Return the partition, which this node must lead in the epoch that the follower knows."""
        topic, wanted = followed.item
        partition = followed.partition
        if partition is None or not partition.is_leader:
            followed.leave()
            followed.partition = None
            name = self._name_of(topic) if isinstance(topic, bytes) else topic
            partition = self._services.replica_manager.partition((name, wanted.partition))
            if isinstance(topic, bytes) and partition.topic_id != topic:
                raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
            followed.partition = partition
        partition.check_leader(wanted.current_leader_epoch)
        partition.check_follower(self._session.replica_id, self._session.broker_epoch)
        return partition

    def _name_of(self, topic_id: bytes) -> str:
        topic = self._services.metadata.image.topics.by_id.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        return topic.name

    def _diverging(self, partition: Partition, followed: SessionPartition) -> EpochEndOffset | None:
        wanted = followed.item.wanted
        epoch, offset = wanted.last_fetched_epoch, wanted.fetch_offset
        if epoch < 0 or (epoch == partition.leader_epoch and offset <= partition.log.log_end_offset):
            return None  # the follower's last batch was written in this epoch, by this leader
        found = partition.diverging_epoch(offset, epoch)
        return (
            None if found is None else EpochEndOffset(epoch=found.leader_epoch, end_offset=found.end_offset)
        )

    # ---- the contents of a response --------------------------------------------------------------

    def _gather(self) -> tuple[list[Located], bool]:
        """Return the partitions with something to send, and True if they are worth a response at once."""
        remaining_bytes, minimum_one_batch = self._max_bytes, True
        total_bytes, has_failure = 0, False
        located: list[Located] = []
        for followed in tuple(self._session.dirty):
            one = self._locate(followed, remaining_bytes, minimum_one_batch)
            if one is None:
                continue
            located.append(one)
            if one.size_bytes > 0:
                minimum_one_batch = False
                total_bytes += one.size_bytes
                remaining_bytes = max(0, remaining_bytes - one.size_bytes)
                if not remaining_bytes:
                    break
            elif one.partition is None or one.data.diverging_epoch.epoch >= 0:
                has_failure = True
        return located, has_failure or 0 < self._min_bytes <= total_bytes or self._min_bytes <= 0

    def _locate(
        self, followed: SessionPartition, remaining_bytes: int, minimum_one_batch: bool
    ) -> Located | None:
        """Return the data to send for a partition, or None.

        If there are none, the partition is watched, or waits for its quota.
        """
        item = followed.item
        wanted = item.wanted
        try:
            partition = self._partition(followed)
            log = partition.log
            partition.counters.total_fetch_requests += 1
            diverging = self._diverging(partition, followed)
            found = None
            if diverging is None:
                partition.check_offset(wanted.fetch_offset)
                if partition.isr is not followed.known_to:
                    # This leader epoch began after the follower's request, and does not know its offset yet.
                    self._acknowledge(followed)
                if wanted.fetch_offset == log.log_end_offset:
                    followed.watch()
                elif self._must_wait(partition) or self._is_cold(followed, partition):
                    pass
                else:
                    found = partition.log.read(
                        wanted.fetch_offset,
                        max(0, min(remaining_bytes, wanted.partition_max_bytes)),
                        isolation=FetchIsolation.LOG_END,
                        minimum_one_batch=minimum_one_batch,
                    )
        except KafkaError as error:
            if error.code is ErrorCode.CORRUPT_MESSAGE and followed.partition is not None:
                self._services.maintenance.scrub.soon(followed.partition.topic_partition, wanted.fetch_offset)
            return Located(item, None, None, failure(wanted.partition, error.code), 0)
        size_bytes = 0 if found is None else found.readable_bytes
        if not size_bytes and diverging is None and not self._has_offset_changes(followed, partition):
            if followed.is_watching:
                self._session.dirty.pop(followed, None)
            return None
        data = PartitionData(
            partition_index=wanted.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        if diverging is not None:
            data.diverging_epoch = diverging  # type: ignore[misc]  # the response is ours until it is sent
        return Located(item, partition, found, data, size_bytes)

    def _is_cold(self, followed: SessionPartition, partition: Partition) -> bool:
        """Return True if indexes must be read from disk first; a thread does it and marks the partition."""
        cold = partition.log.cold_read(followed.item.wanted.fetch_offset, FetchIsolation.LOG_END)
        if cold is not None:
            self._services.start_task(self._warm(followed, cold))
        return cold is not None

    async def _warm(self, followed: SessionPartition, cold: ColdRead) -> None:
        await self._services.in_thread(cold.run)
        if self._session.partitions.get(followed.item.key) is followed:
            self._session.mark(followed, is_urgent=True)

    def _must_wait(self, partition: Partition) -> bool:
        manager = self._services.replica_manager
        return manager.quotas.leader.is_limited and manager.quotas.leader_must_wait(
            partition, self._session.replica_id, now_ms=manager.context.now_ms()
        )

    def _has_offset_changes(self, followed: SessionPartition, partition: Partition) -> bool:
        log = partition.log
        return (
            log.high_watermark != followed.sent_high_watermark
            or log.log_start_offset != followed.sent_log_start_offset
        )

    # ---- waiting and answering -------------------------------------------------------------------

    def _wait(self, *, has_offsets: bool) -> Delayed[Result[FetchResponse]]:
        """Wait until there are records to send, or a little while for a new high watermark."""
        future = self._services.replica_manager.delay_replica_fetch(
            self._session,
            max_wait_ms=self._request.max_wait_ms,
            has_offsets=has_offsets,
            is_enough=lambda: self._min_bytes <= 1 or self._gather()[1],
        )
        return Delayed(future, lambda _: self._answer(self._gather()[0]))

    def _answer(self, located: list[Located]) -> Result[FetchResponse]:
        session, manager = self._session, self._services.replica_manager
        for one in located:
            followed = session.partitions[one.item.key]
            if one.partition is None or one.data.diverging_epoch.epoch >= 0:
                continue  # repeated until the follower asks for something else
            session.note_sent(
                followed,
                high_watermark=one.data.high_watermark,
                log_start_offset=one.data.log_start_offset,
                has_more=not followed.is_watching,
            )
            if one.size_bytes:
                size_bytes = slice_of(one).size
                one.partition.counters.replication_bytes_out += size_bytes
                if manager.quotas.leader.is_limited:
                    now_ms = manager.context.now_ms()
                    manager.quotas.leader_sent(one.partition, size_bytes, now_ms=now_ms)
        if session.session_id == NO_SESSION:
            session.close()
        answer = FetchAnswer(
            self._services,
            self._context,
            self._request,
            session_id=session.session_id,
            limits=(self._max_bytes, self._min_bytes),
        )
        return answer.answer(located)


def _has_whole_log(followed: SessionPartition) -> bool:
    """Return True if the follower has reported, in this leader epoch, that it has the whole log."""
    partition, wanted = followed.partition, followed.item.wanted
    return (
        partition is not None
        and followed.known_to is not None
        and partition.isr is followed.known_to
        and partition.log.failure is None
        and wanted.fetch_offset == partition.log.log_end_offset
        and wanted.last_fetched_epoch == partition.leader_epoch == wanted.current_leader_epoch
    )
