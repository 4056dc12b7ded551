"""Offsets of share groups: lists share-partitions, sets their start offsets, and deletes their state.

AlterShareGroupOffsets initializes the state again, and DeleteShareGroupOffsets deletes it. Both are for
groups without members, and are answered when the share coordinators have answered.
"""

from collections.abc import Sequence

from ottla.groupcoord.checked_append import checked_append
from ottla.groupcoord.effects import Effect, Reply
from ottla.groupcoord.record_codec import GroupRecord
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.share.share_commands import (
    AlterShareGroupOffsets,
    DeleteShareGroupOffsets,
    ListSharePartitions,
    ShareStateInitialized,
)
from ottla.groupcoord.share.share_effects import DeleteShareState, InitializeShareState
from ottla.groupcoord.share.share_group import ShareGroup, ShareStates, states_record
from ottla.groupcoord.share.share_group_describe import named_partitions
from ottla.groupcoord.share.share_results import (
    AlteredPartition,
    AlteredTopic,
    AlterShareGroupOffsetsResult,
    DeletedTopic,
    DeleteShareGroupOffsetsResult,
    ListSharePartitionsResult,
)
from ottla.groupcoord.share.share_states import (
    UNKNOWN_TOPIC,
    Wanted,
    begin_states,
    initialize_requests,
    states_initialized,
)
from ottla.groupcoord.share_state.share_state_words import DeleteState, SharePartitionKey, StateResult
from ottla.logstore.words.errors import ErrorCode, KafkaError

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
UNKNOWN_TEXT = "This server does not host this topic-partition."
NOTHING_TEXT = "There is no offset information to delete."
NOT_EMPTY_TEXT = "The group is not empty."


def list_share_partitions(shard: GroupShard, command: ListSharePartitions) -> list[Effect]:
    """List the share-partitions that have state; none if the group does not exist, as in Kafka."""
    group = shard.share_group(command.group_id)
    states = ShareStates() if group is None or group.states is None else group.states
    partitions = {topic_id: one.partitions for topic_id, one in states.initialized.items()}
    result = ListSharePartitionsResult(topics=named_partitions(partitions, shard.topics))
    return [Reply(command.token, result, shows_state=True)]


# ---- alter -------------------------------------------------------------------------------------------------


def alter_share_group_offsets(shard: GroupShard, command: AlterShareGroupOffsets) -> list[Effect]:
    """Initialize the state of partitions with the requested start offsets; create the group if it is new."""
    group = shard.group(command.group_id)
    if group is None:
        shard.check_new_group()
        group = ShareGroup(command.group_id, {}, {})
    if not isinstance(group, ShareGroup):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {command.group_id} is not a share group.")
    if not group.is_empty:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, NOT_EMPTY_TEXT)
    wanted = _wanted(shard, command)
    if not wanted:
        return [Reply(command.token, _altered(shard, command, ()))]
    effects = checked_append(shard, begin_states(group, wanted))
    shard.awaiting_persister.add(command.token)
    requests = initialize_requests(group.group_id, group.group_epoch, wanted)
    job = shard.next_share_job()
    return [
        *effects,
        InitializeShareState(group_id=group.group_id, job=job, requests=requests, waiting_request=command),
    ]


def share_offsets_altered(
    shard: GroupShard, command: ShareStateInitialized, waiting_request: AlterShareGroupOffsets
) -> list[Effect]:
    """Apply the answer of the share coordinators, and answer the request that waits for it."""
    shard.awaiting_persister.discard(waiting_request.token)
    effects = states_initialized(shard, command)
    return [*effects, Reply(waiting_request.token, _altered(shard, waiting_request, command.results))]


def _wanted(shard: GroupShard, command: AlterShareGroupOffsets) -> list[Wanted]:
    wanted = []
    for name, starts in command.topics:
        topic = shard.topics.by_name(name)
        count = 0 if topic is None else topic.num_partitions
        known = {one.partition: one.start_offset for one in starts if 0 <= one.partition < count}
        if topic is not None and known:
            wanted.append(Wanted(topic.topic_id, name, known))
    return wanted


def _altered(
    shard: GroupShard, command: AlterShareGroupOffsets, results: Sequence[StateResult]
) -> AlterShareGroupOffsetsResult:
    """Return the answer in the order of the request.

    A partition without a result does not exist: no share coordinator was asked about it.
    """
    found = {(one.key.topic_id, one.key.partition): one for one in results}
    topics = []
    for name, starts in command.topics:
        topic = shard.topics.by_name(name)
        topic_id = bytes(16) if topic is None else topic.topic_id
        partitions = []
        for partition, _ in starts:
            result = found.get((topic_id, partition))
            if result is None:
                partitions.append(AlteredPartition(partition, _UNKNOWN, UNKNOWN_TEXT))
            else:
                detail = None if result.error is ErrorCode.NONE else result.message
                partitions.append(AlteredPartition(partition, result.error, detail))
        topics.append(AlteredTopic(name, topic_id, partitions))
    return AlterShareGroupOffsetsResult(topics=topics)


# ---- delete ------------------------------------------------------------------------------------------------


def delete_share_group_offsets(shard: GroupShard, command: DeleteShareGroupOffsets) -> list[Effect]:
    """Delete the state of all partitions of the requested topics."""
    group = shard.group(command.group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {command.group_id} not found.")
    if not isinstance(group, ShareGroup):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {command.group_id} is not a share group.")
    if not group.is_empty:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, NOT_EMPTY_TEXT)
    if group.states is None:
        return [Reply(command.token, DeleteShareGroupOffsetsResult(topics=()), shows_state=True)]
    initializing = dict(group.states.initializing)
    initialized, deleting = dict(group.states.initialized), dict(group.states.deleting)
    requests: dict[SharePartitionKey, DeleteState] = {}
    for name in command.topics:
        topic = shard.topics.by_name(name)
        if topic is None:
            continue
        partitions: Sequence[int] = ()
        ready = initialized.pop(topic.topic_id, None)
        if ready is not None:
            unfinished = initializing.pop(topic.topic_id, ready)
            partitions = sorted(ready.partitions | unfinished.partitions)
            deleting[topic.topic_id] = name
        elif topic.topic_id in deleting:
            partitions = range(topic.num_partitions)  # partitions that an earlier request may have left
        for partition in partitions:
            key = SharePartitionKey(command.group_id, topic.topic_id, partition)
            requests[key] = DeleteState(key)
    if not requests:
        result = DeleteShareGroupOffsetsResult(topics=_deleted(shard, command, ()))
        return [Reply(command.token, result, shows_state=True)]
    states = ShareStates(initializing, initialized, deleting)
    effects = checked_append(shard, [states_record(group.group_id, states)])
    shard.awaiting_persister.add(command.token)
    job = shard.next_share_job()
    return [*effects, DeleteShareState(job=job, requests=list(requests.values()), waiting_request=command)]


def share_offsets_deleted(
    shard: GroupShard, command: DeleteShareGroupOffsets, results: Sequence[StateResult]
) -> list[Effect]:
    """Apply the answer of the share coordinators: a topic is deleted if all of its partitions are."""
    shard.awaiting_persister.discard(command.token)
    topics = _deleted(shard, command, results)
    group = shard.share_group(command.group_id)
    records: list[GroupRecord] = []
    if group is not None and group.states is not None:
        failed = {one.key.topic_id for one in results if one.error is not ErrorCode.NONE}
        done = {one.key.topic_id for one in results} - failed
        left = {topic_id: name for topic_id, name in group.states.deleting.items() if topic_id not in done}
        if left != group.states.deleting:
            records.append(states_record(group.group_id, group.states._replace(deleting=left)))
    reply = Reply(command.token, DeleteShareGroupOffsetsResult(topics=topics), shows_state=True)
    return [*checked_append(shard, records), reply]


def _deleted(
    shard: GroupShard, command: DeleteShareGroupOffsets, results: Sequence[StateResult]
) -> list[DeletedTopic]:
    """Return the topics that were deleted, then those that failed or had nothing to delete."""
    by_topic: dict[bytes, StateResult] = {}
    for result in results:
        known = by_topic.get(result.key.topic_id)
        if known is None or known.error is ErrorCode.NONE:
            by_topic[result.key.topic_id] = result  # the first failure of a topic counts
    deleted: list[DeletedTopic] = []
    failed: list[DeletedTopic] = []
    names = set(command.topics)
    for topic_id, result in by_topic.items():
        topic = shard.topics.by_id(topic_id)
        name = UNKNOWN_TOPIC if topic is None else topic.name
        names.discard(name)
        detail = None if result.error is ErrorCode.NONE else result.message
        one = DeletedTopic(name, topic_id, result.error, detail)
        (deleted if result.error is ErrorCode.NONE else failed).append(one)
    for name in command.topics:
        if name in names:
            text = UNKNOWN_TEXT if shard.topics.by_name(name) is None else NOTHING_TEXT
            failed.append(DeletedTopic(name, error=_UNKNOWN, detail=text))
    return [*deleted, *failed]
