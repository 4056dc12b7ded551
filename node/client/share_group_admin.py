"""Share groups (KIP-932): their start offsets and lags.

Share groups are deleted, listed and configured like other groups.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.cluster_client import Client, check, only
from ottla.node.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from ottla.node.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from ottla.node.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseTopic,
)
from ottla.node.wire.messages.describe_share_partitions import InFlightState

SHARE: Final = "share"
UNKNOWN: Final = -1  # a start offset or a lag


class ShareStart(NamedTuple):
    """The start offset of a share group in a partition: no record before `offset` is delivered again.

    `lag` counts the records from there to the end that are neither acknowledged nor archived; None if the
    server does not return it. Both are None while the group has not read the partition yet. `in_flight` is
    the state at the leader; None while no member reads, and from other servers than Ottla.
    """

    offset: int | None
    leader_epoch: int
    lag: int | None
    in_flight: InFlightState | None = None


async def share_starts(
    client: Client, group_id: str, *, with_in_flight: bool = False
) -> dict[TopicPartition, ShareStart]:
    """Return the start offset of a share group in each partition that it has read, sorted."""
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)],
        include_in_flight=with_in_flight,
    )

    async def attempt() -> dict[TopicPartition, ShareStart]:
        connection = await client.coordinator(group_id)
        response = await connection.request(
            request, DescribeShareGroupOffsetsResponse, timeout_s=client.remaining_s
        )
        group = only(response.groups, f"group {group_id}")
        check(group.error_code, group.error_message, f"the offsets of group {group_id}")
        found: dict[TopicPartition, ShareStart] = {}
        for topic in group.topics:
            for one in topic.partitions:
                partition = TopicPartition(topic.topic_name, one.partition_index)
                check(one.error_code, one.error_message, f"the offset of {partition}")
                found[partition] = ShareStart(
                    None if one.start_offset <= UNKNOWN else one.start_offset,
                    one.leader_epoch,
                    None if one.lag <= UNKNOWN else one.lag,
                    one.in_flight,
                )
        return dict(sorted(found.items()))

    return await client.retry(attempt)


async def set_share_starts(client: Client, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Set the start offsets of a share group without members; NON_EMPTY_GROUP if it has some."""
    by_topic: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for (name, number), offset in offsets.items():
        one = AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=offset)
        by_topic.setdefault(name, []).append(one)
    request = AlterShareGroupOffsetsRequest(
        group_id=group_id,
        topics=[
            AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)
            for name, partitions in by_topic.items()
        ],
    )

    async def attempt() -> None:
        connection = await client.coordinator(group_id)
        response = await connection.request(
            request, AlterShareGroupOffsetsResponse, timeout_s=client.remaining_s
        )
        check(response.error_code, response.error_message, f"group {group_id}")
        for topic in response.responses:
            for one in topic.partitions:
                subject = f"the offset of {topic.topic_name}-{one.partition_index}"
                check(one.error_code, one.error_message, subject)

    await client.retry(attempt)


async def delete_share_starts(
    client: Client, group_id: str, topics: Iterable[str]
) -> dict[str, tuple[int, str | None]]:
    """Delete a share group's state in these topics; return the error code (0: none) and message of each."""
    request = DeleteShareGroupOffsetsRequest(
        group_id=group_id, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=one) for one in topics]
    )

    async def attempt() -> dict[str, tuple[int, str | None]]:
        connection = await client.coordinator(group_id)
        response = await connection.request(
            request, DeleteShareGroupOffsetsResponse, timeout_s=client.remaining_s
        )
        check(response.error_code, response.error_message, f"group {group_id}")
        return {one.topic_name: (one.error_code, one.error_message) for one in response.responses}

    return await client.retry(attempt)


async def share_lags(
    client: Client, coordinator_id: int, group_ids: Sequence[str]
) -> dict[str, dict[str, int | None]]:
    """Return the lag of share groups of one coordinator by topic, without a retry; None if it is unknown."""
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=one, topics=None) for one in group_ids]
    )
    connection = await client.node(coordinator_id)
    response = await connection.request(
        request, DescribeShareGroupOffsetsResponse, timeout_s=client.remaining_s
    )
    return {
        one.group_id: {topic.topic_name: _lag_in(topic) for topic in one.topics}
        for one in response.groups
        if not one.error_code
    }


def _lag_in(topic: DescribeShareGroupOffsetsResponseTopic) -> int | None:
    lags = [one.lag for one in topic.partitions if not one.error_code and one.lag > UNKNOWN]
    return sum(lags) if lags else None
