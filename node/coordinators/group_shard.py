"""The parts of a shard that only the group coordinator has.

They are transactions whose marker is in the shard's log, tasks for a thread, requests to share coordinators,
and the bytes of members and offsets.
"""

import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias, get_args

from ottla.groupcoord.commands import Command, ReadOnlyCommand
from ottla.groupcoord.consumer.consumer_commands import (
    ConsumerGroupHeartbeat,
    RegexesResolved,
    TargetComputed,
    TopicsChanged,
)
from ottla.groupcoord.consumer.executor_tasks import (
    MAX_REGEX_CPU_S,
    ExecutorResult,
    ExecutorTask,
    ResolveRegexes,
)
from ottla.groupcoord.consumer.regular_expressions import is_wanted
from ottla.groupcoord.coordinator import Coordinator
from ottla.groupcoord.effects import (
    AddTimelineEvent,
    Append,
    CancelTimer,
    ContinueWith,
    DeleteShareState,
    Effect,
    InitializeShareState,
    PersisterRequest,
    Refuse,
    Reply,
    Result,
    RunTask,
    StartTimer,
)
from ottla.groupcoord.offsets.offset_commands import (
    EndTransaction,
    ForgetOffsets,
    ForgetTopics,
    TxnOffsetCommit,
)
from ottla.groupcoord.offsets.offset_values import CommittedOffsets, pack_key_head, pack_key_tails
from ottla.groupcoord.record_codec import AppendedRecord, encode_key, encode_value, opened
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.shard_bytes import NodeBytes
from ottla.groupcoord.share.share_commands import (
    ShareGroupHeartbeat,
    ShareStateDeleted,
    ShareStateInitialized,
)
from ottla.groupcoord.timer_commands import AnswerHeldHeartbeat
from ottla.groupcoord.topics_view import TopicsView
from ottla.logstore.partition_log import AppendResult
from ottla.logstore.record import ControlType, EndTransactionMarker
from ottla.logstore.words.errors import KafkaError
from ottla.node.coordinators.coordinator_log import Row, RowsWithKeyHead
from ottla.node.coordinators.coordinator_shard import CoordinatorShard, ShardParts
from ottla.node.coordinators.group_loader import load_group_shard
from ottla.node.coordinators.persister_jobs import PersisterJobs
from ottla.node.work.task_executor import TaskExecutor

_READ_ONLY = frozenset(get_args(ReadOnlyCommand))

GroupAnswer: TypeAlias = Result
GroupCoordinatorShard: TypeAlias = CoordinatorShard[Coordinator, Command, GroupAnswer]

log = logging.getLogger(__name__)


def group_parts(
    *,
    new_shard: Callable[[], GroupShard],
    topic_id_of: Callable[[str], bytes | None],
    topics: Callable[[], TopicsView],
    executor: TaskExecutor,
    persister_jobs: PersisterJobs,
    members: NodeBytes,
    offsets: NodeBytes,
    max_batch_bytes: int,
    stopped: Callable[[GroupShard], None],
) -> ShardParts[Coordinator, Command, GroupAnswer]:
    """Return the parts of a shard of groups.

    `new_shard` and `topic_id_of` are called in a thread, too. `members` and `offsets` count the bytes of all
    shards of the node. `stopped` is called with each shard that stops serving.
    """

    def started(_: GroupCoordinatorShard, core: Coordinator) -> None:
        core.shard.member_bytes.attach(members)
        core.shard.offset_bytes.attach(offsets)

    def after_load() -> Sequence[Command]:
        # No names are needed: each group reads all its topics after a load.
        return [TopicsChanged(topics=topics(), has_new_topics=True, changed=frozenset())]

    return ShardParts(
        new_core=lambda: Coordinator(new_shard()),
        load=partial(load_group_shard, make_shard=new_shard, topic_id_of=topic_id_of),
        rows=_rows,
        max_batch_bytes=max_batch_bytes,
        moved="the coordinator of this group has moved",
        read_only=_READ_ONLY,
        in_transaction=frozenset([TxnOffsetCommit]),
        keep_as=_keep_as,
        merged=_merged,
        put_off=_put_off,
        when_refused=_when_refused,
        after_load=after_load,
        carry_out=partial(_carry_out, executor, persister_jobs),
        started=started,
        stopped=partial(_stopped, stopped),
    )


def end_transaction(
    shard: GroupCoordinatorShard,
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    transaction_version: int,
) -> AppendResult:
    """Append a marker, and commit or drop the offsets of its transaction.

    Answers that show these offsets wait until the marker is committed. Raises KafkaError if the marker is
    rejected.
    """
    shard.log.check()
    result = shard.log.append_marker(
        marker,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_version=transaction_version,
    )
    if not result.duplicate:
        is_commit = marker.control_type is ControlType.COMMIT
        shard.handle(EndTransaction(producer_id=producer_id, committed=is_commit))
    return result


def _stopped(on_stop: Callable[[GroupShard], None], shard: GroupCoordinatorShard, _: KafkaError) -> None:
    if shard.coordinator is not None:
        on_stop(shard.coordinator.shard)
        shard.coordinator.shard.member_bytes.detach()
        shard.coordinator.shard.offset_bytes.detach()


# ---- while the log takes no records ------------------------------------------------------------------------


def _keep_as(command: Command) -> Hashable:
    match command:
        case ForgetTopics():
            return "forget-topics"
        case ForgetOffsets():
            return "forget-offsets"
        case RegexesResolved(group_id=group_id):
            return "regexes", group_id
        case TargetComputed(group_id=group_id):
            return "target", group_id
        case ShareStateInitialized(job=job) | ShareStateDeleted(job=job):
            return "share", job
        case TopicsChanged() | AnswerHeldHeartbeat():
            return None  # read-only, so the shard is loading, with current topics and no held heartbeats
        case _:
            raise AssertionError(f"{command} comes from a client or a timer")


def _merged(earlier: Command, later: Command) -> Command:
    if isinstance(earlier, ForgetTopics) and isinstance(later, ForgetTopics):
        # Without group_ids, so for all groups: the two commands may name different ones.
        return ForgetTopics(topics=earlier.topics | later.topics, is_late=earlier.is_late or later.is_late)
    return later


def _put_off(command: Command) -> Command:
    # Before it is carried out, topics of these names may be created and offsets committed for them.
    return replace(command, is_late=True) if isinstance(command, ForgetTopics) else command


def _when_refused(core: Coordinator, command: Command) -> list[Effect]:
    if isinstance(command, ConsumerGroupHeartbeat | ShareGroupHeartbeat):
        return core.extend_session(command)
    return []


# ---- tasks for a thread, and for other coordinators --------------------------------------------------------


def _carry_out(
    executor: TaskExecutor, persister_jobs: PersisterJobs, shard: GroupCoordinatorShard, effect: Effect
) -> None:
    match effect:
        case InitializeShareState() | DeleteShareState():
            shard.log.when_committed(partial(_begin_job, persister_jobs, shard, effect))
        case RunTask(task):
            executor.run(task, partial(_is_wanted, shard, task), partial(_deliver_result, shard, task))
        case ContinueWith() | AddTimelineEvent():
            raise AssertionError(f"{effect} must be handled by the core")
        case Append() | Reply() | Refuse() | StartTimer() | CancelTimer():
            raise AssertionError(f"{effect} must be handled by the runtime")


def _begin_job(
    persister_jobs: PersisterJobs,
    shard: GroupCoordinatorShard,
    job: PersisterRequest,
    error: KafkaError | None,
) -> None:
    """Begin a job once the records before it are committed; an error means that they never will be."""
    if error is None and not shard.is_closed:
        persister_jobs.begin(job, partial(_deliver_results, shard))


def _deliver_results(
    shard: GroupCoordinatorShard, command: ShareStateInitialized | ShareStateDeleted
) -> None:
    if not shard.is_closed:
        shard.handle(command)


def _is_wanted(shard: GroupCoordinatorShard, task: ExecutorTask) -> bool:
    """Return True if the result of a task is still of use, so that it gets its next slice."""
    if shard.is_closed or shard.coordinator is None:
        return False
    return not isinstance(task, ResolveRegexes) or is_wanted(shard.coordinator.shard, task)


def _deliver_result(shard: GroupCoordinatorShard, task: ExecutorTask, result: ExecutorResult | None) -> None:
    """Give the result of a task to the shard that asked for it, if that is still open."""
    if shard.is_closed:
        return
    if result is None:
        assert isinstance(task, ResolveRegexes)  # no member subscribes to these any more
        result = RegexesResolved(
            group_id=task.group_id, topics={}, version=task.topics.version, began_ms=task.began_ms
        )
    for regex in sorted(result.given_up) if isinstance(result, RegexesResolved) else ():
        log.warning(
            "The regular expression %.200r of group %r was stopped: matching it with "
            "the names of topics took more than %g s of CPU time. It is tried again "
            "at its next refresh.",
            regex,
            result.group_id,
            MAX_REGEX_CPU_S,
        )
    shard.handle(result)


# ---- records -----------------------------------------------------------------------------------------------


def _rows(_: Coordinator, records: Sequence[AppendedRecord]) -> list[Row]:
    rows: list[Row] = []
    for record in records:
        if isinstance(record, CommittedOffsets) and len(set(map(len, record.values))) == 1:
            key_head = pack_key_head(record.group_id, record.topic)
            rows.append(RowsWithKeyHead(key_head, pack_key_tails(record.partitions), record.values))
        else:
            rows += [(encode_key(each), encode_value(each)) for each in opened(record)]
    return rows
