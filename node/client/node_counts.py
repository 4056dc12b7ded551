"""What each node has counted, asked of it over the Kafka protocol: no other address of it has to be known."""

import asyncio
from collections.abc import Iterable
from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.latency import BOUNDS_S
from ottla.node.client.cluster_client import Client
from ottla.node.counters.node_counts import NodeCounts
from ottla.node.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

ANSWER_TIMEOUT_S: Final = 2.0  # a node that takes longer is told as one that is silent
BUCKETS: Final = len(BOUNDS_S) + 1
AT_ONCE: Final = 16  # nodes asked at the same time


async def node_counts(client: Client, broker_ids: Iterable[int]) -> dict[int, NodeCounts]:
    """By node; those that do not answer, or do not count so (Apache Kafka), are left out."""
    places = asyncio.Semaphore(AT_ONCE)

    async def ask(broker_id: int) -> NodeCounts | None:
        async with places:
            try:
                mine = client.until(client.deadline.within(ANSWER_TIMEOUT_S))
                return await _ask(mine, broker_id)
            except KafkaError:
                return None

    async with asyncio.TaskGroup() as group:
        asked = {broker_id: group.create_task(ask(broker_id)) for broker_id in broker_ids}
    return {broker_id: told for broker_id, task in asked.items() if (told := task.result()) is not None}


async def _ask(client: Client, broker_id: int) -> NodeCounts | None:
    connection = await client.node(broker_id)
    response = await connection.request(
        DescribeClusterRequest(include_counts=True), DescribeClusterResponse, timeout_s=client.remaining_s
    )
    if not response.meters:
        return None
    return NodeCounts(
        meters={one.name: one.count for one in response.meters},
        requests={one.api: one.count for one in response.requests},
        # Of a node of another version, whose times are sorted otherwise, nothing could be added.
        latencies={one.api: one.latencies for one in response.requests if len(one.latencies) == BUCKETS},
    )
