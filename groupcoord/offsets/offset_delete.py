"""Offsets that are deleted by hand, or because what they were committed for is gone."""

from collections.abc import Sequence

from ottla.groupcoord.effects import Effect, Reply
from ottla.groupcoord.group_records import OffsetRecord
from ottla.groupcoord.offsets.offset_commands import ForgetOffsets, ForgetTopics, OffsetDelete
from ottla.groupcoord.offsets.offset_results import OffsetDeleteResult
from ottla.groupcoord.offsets.pending_offsets import OffsetKey
from ottla.groupcoord.record_codec import GroupRecord
from ottla.groupcoord.shard import Shard, appends
from ottla.logstore.words.errors import ErrorCode, KafkaError


def delete_offsets(shard: Shard, command: OffsetDelete) -> list[Effect]:
    """OffsetDelete (KIP-496): not those of a topic that the group's consumers read."""
    if not command.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    group = shard.group(command.group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "there is no such group")
    group.check_delete_offsets()
    records: list[GroupRecord] = []
    topics: list[tuple[str, Sequence[tuple[int, ErrorCode]]]] = []
    for topic, partitions in command.topics:
        if group.is_subscribed_to(topic):
            topics.append((topic, [(each, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC) for each in partitions]))
            continue
        topics.append((topic, [(each, ErrorCode.NONE) for each in partitions]))
        for partition in partitions:
            if shard.has_offset(OffsetKey(command.group_id, topic, partition)):
                records.append(OffsetRecord(command.group_id, topic, partition, None))
    reply = Reply(command.token, OffsetDeleteResult(topics=topics), shows_state=True)
    return [*appends(records, shard.config.max_batch_bytes), reply]


def forget_topics(shard: Shard, command: ForgetTopics) -> list[Effect]:
    """A topic was deleted; another one may get its name, and its offsets would be wrong there."""
    deleted = command.topics
    # There may be a hundred thousand groups, of which few have read the topic.
    group_ids = [
        group_id
        for group_id in shard.offsets.groups()
        if not deleted.isdisjoint(shard.offsets.topics_of(group_id))
    ]
    records: list[GroupRecord] = []
    for group_id in dict.fromkeys((*group_ids, *shard.pending.groups())):
        records += (each for each in shard.offset_tombstones(group_id) if each.topic in deleted)
    return list(appends(records, shard.config.max_batch_bytes))


def forget_offsets(shard: Shard, command: ForgetOffsets) -> list[Effect]:
    """What a load found to be of topics that are gone; a commit may have come since, and stays."""
    records: list[GroupRecord] = [
        OffsetRecord(group_id, topic, partition, None)
        for group_id, topic, partition, value in command.offsets
        if shard.offsets.topics_of(group_id).get(topic, {}).get(partition) == value
    ]
    return list(appends(records, shard.config.max_batch_bytes))
