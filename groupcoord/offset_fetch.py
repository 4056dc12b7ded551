"""OffsetFetch: the committed offsets of a group, all or some. A group or partition without one is no error:
offset -1.
"""

from collections.abc import Mapping

from groupcoord.effects import Effect, Reply
from groupcoord.offset_commands import OffsetFetch
from groupcoord.offset_results import FetchedOffset, OffsetFetchResult
from groupcoord.offset_values import read_offset_value
from groupcoord.shard import Shard
from logstore.errors import ErrorCode

NO_OFFSET = -1


def fetch_offsets(shard: Shard, command: OffsetFetch) -> list[Effect]:
    known = shard.offsets.topics_of(command.group_id)
    if command.topics is None:
        topics = [
            (topic, [_fetched(partitions, partition) for partition in partitions])
            for topic, partitions in known.items()
        ]
    else:
        topics = [
            (topic, [_fetched(known.get(topic, {}), partition) for partition in partitions])
            for topic, partitions in command.topics
        ]
    return [Reply(command.token, OffsetFetchResult(topics=topics), shows_state=True)]


def _fetched(partitions: Mapping[int, bytes], partition: int) -> FetchedOffset:
    content = partitions.get(partition)
    if content is None:
        return FetchedOffset(partition, NO_OFFSET, -1, "", ErrorCode.NONE)
    value = read_offset_value(content)
    return FetchedOffset(partition, value.offset, value.leader_epoch, value.metadata, ErrorCode.NONE)
