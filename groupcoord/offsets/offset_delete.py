"""Deletes offsets: by OffsetDelete, or because the topic that they were committed for is gone."""

from collections.abc import Sequence, Set

from ottla.groupcoord.effects import Effect, Reply
from ottla.groupcoord.group_records import OffsetRecord
from ottla.groupcoord.offsets.offset_commands import ForgetOffsets, ForgetTopics, OffsetDelete
from ottla.groupcoord.offsets.offset_results import OffsetDeleteResult
from ottla.groupcoord.offsets.offset_values import topic_id_in
from ottla.groupcoord.offsets.pending_offsets import OffsetKey
from ottla.groupcoord.record_codec import GroupRecord
from ottla.groupcoord.shard import GroupShard, appends
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import ZERO_UUID


def delete_offsets(shard: GroupShard, command: OffsetDelete) -> list[Effect]:
    """Decide an OffsetDelete (KIP-496): offsets of topics that the group's consumers read stay."""
    if not command.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    group = shard.group(command.group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "the group does not exist")
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


def readers_of_topics(shard: GroupShard, topics: Set[str]) -> list[str]:
    """Return the groups that have offsets of one of these topics, committed or pending."""
    # There may be a hundred thousand groups, of which few have read one of the topics.
    group_ids: set[str] = set().union(*(shard.offsets.readers_of(topic) for topic in topics))
    for group_id in shard.pending.groups():
        if any(key.topic in topics for key in shard.pending.keys_of(group_id)):
            group_ids.add(group_id)
    return sorted(group_ids)


def forget_topics(shard: GroupShard, command: ForgetTopics) -> list[Effect]:
    """Remove the offsets of deleted topics: they would be wrong for another topic that gets the name."""
    group_ids = command.group_ids
    if group_ids is None:
        group_ids = readers_of_topics(shard, command.topics)
    records: list[GroupRecord] = []
    for group_id in group_ids:
        for key in _offsets_to_forget(shard, group_id, command):
            records.append(OffsetRecord(*key, None))
    return list(appends(records, shard.config.max_batch_bytes))


def _offsets_to_forget(shard: GroupShard, group_id: str, command: ForgetTopics) -> dict[OffsetKey, None]:
    keys: dict[OffsetKey, None] = {}
    known = shard.offsets.topics_of(group_id)
    for topic in sorted(command.topics & known.keys()):
        now = shard.topics.by_name(topic) if command.is_late else None
        for partition, value in known[topic].items():
            if now is None or topic_id_in(value) not in (ZERO_UUID, now.topic_id):
                keys[OffsetKey(group_id, topic, partition)] = None
    for key in shard.pending.keys_of(group_id):
        is_again = command.is_late and shard.topics.by_name(key.topic) is not None
        if key.topic in command.topics and not is_again:
            keys[key] = None
    return keys


def forget_offsets(shard: GroupShard, command: ForgetOffsets) -> list[Effect]:
    """Remove the offsets that a load found stale, unless another one was committed since."""
    records: list[GroupRecord] = [
        OffsetRecord(group_id, topic, partition, None)
        for group_id, topic, partition, value in command.offsets
        if shard.offsets.topics_of(group_id).get(topic, {}).get(partition) == value
    ]
    return list(appends(records, shard.config.max_batch_bytes))
