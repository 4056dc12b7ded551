"""OffsetFetch: the committed offsets of a group, all or some.

A group or partition without an offset is no error; its offset is -1.
"""

from collections.abc import Iterable, Mapping

from ottla.groupcoord.consumer.validate_offset_requests import check_fetcher
from ottla.groupcoord.effects import Effect, Reply
from ottla.groupcoord.offsets.offset_commands import OffsetFetch
from ottla.groupcoord.offsets.offset_results import FetchedOffset, OffsetFetchResult
from ottla.groupcoord.offsets.offset_values import read_offset_value, topic_id_in
from ottla.groupcoord.shard import GroupShard
from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.schema import ZERO_UUID

NO_OFFSET = -1
# KIP-447: a transaction may still change it, and the client wants the offset once it is settled.
_UNSTABLE = FetchedOffset(-1, NO_OFFSET, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)


def fetch_offsets(shard: GroupShard, command: OffsetFetch) -> list[Effect]:
    group = shard.consumer_group(command.group_id)
    if group is not None:
        check_fetcher(group, command)
    # A share group has none; offsets left by an older group of its name do not belong to it.
    known = {} if shard.share_group(command.group_id) else shard.offsets.topics_of(command.group_id)
    unstable = shard.pending.keys_of(command.group_id) if command.require_stable else ()
    requested: Iterable[tuple[str, Iterable[int]]] = (
        known.items() if command.topics is None else command.topics
    )
    topics = [
        (
            topic,
            [
                _UNSTABLE._replace(partition=partition)
                if unstable and (command.group_id, topic, partition) in unstable
                else _fetched(known.get(topic, {}), partition, command.topic_ids.get(topic, ZERO_UUID))
                for partition in partitions
            ],
        )
        for topic, partitions in requested
    ]
    return [Reply(command.token, OffsetFetchResult(topics=topics), shows_state=True)]


def _fetched(partitions: Mapping[int, bytes], partition: int, topic_id: bytes) -> FetchedOffset:
    """Return the offset of a partition; none if it was committed for another topic of the same name."""
    content = partitions.get(partition)
    if content is None or (topic_id != ZERO_UUID and topic_id_in(content) not in (topic_id, ZERO_UUID)):
        return FetchedOffset(partition, NO_OFFSET, -1, "", ErrorCode.NONE)
    value = read_offset_value(content)
    return FetchedOffset(partition, value.offset, value.leader_epoch, value.metadata, ErrorCode.NONE)
