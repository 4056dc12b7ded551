"""The counters of each node and their history, over the Kafka protocol: no other address is needed."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from ottla.logstore.words.errors import KafkaError
from ottla.node.client.cluster_client import Client
from ottla.node.counters.history import BUCKETS, SLOTS, Kind, Samples, unpacked
from ottla.node.counters.node_counts import NodeCounts
from ottla.node.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

ANSWER_TIMEOUT_S: Final = 2.0  # a node that takes longer is left out
AT_ONCE: Final = 16  # nodes asked at the same time

T = TypeVar("T")


async def node_counts(client: Client, broker_ids: Iterable[int]) -> dict[int, NodeCounts]:
    """Return the counters by node; nodes that do not answer or have none (Apache Kafka) are left out."""
    return await _ask_each(client, broker_ids, DescribeClusterRequest(include_counts=True), _counts)


async def node_histories(
    client: Client, broker_ids: Iterable[int], kind: Kind, name: str = ""
) -> dict[int, Samples]:
    """Return by node the samples of the last hour, of the node itself or of the topic or group `name`.

    Nodes that do not answer or keep none are left out.
    """
    request = DescribeClusterRequest(history_kind=kind, history_name=name)
    return await _ask_each(client, broker_ids, request, _samples)


async def _ask_each(
    client: Client,
    broker_ids: Iterable[int],
    request: DescribeClusterRequest,
    read: Callable[[DescribeClusterResponse], T | None],
) -> dict[int, T]:
    """Send one request to each of these nodes at once, and return what `read` makes of the responses."""
    places = asyncio.Semaphore(AT_ONCE)

    async def ask(broker_id: int) -> T | None:
        async with places:
            try:
                mine = client.until(client.deadline.within(ANSWER_TIMEOUT_S))
                connection = await mine.node(broker_id)
                return read(
                    await connection.request(request, DescribeClusterResponse, timeout_s=mine.remaining_s)
                )
            except KafkaError:
                return None

    async with asyncio.TaskGroup() as group:
        requests = {broker_id: group.create_task(ask(broker_id)) for broker_id in broker_ids}
    return {broker_id: count for broker_id, task in requests.items() if (count := task.result()) is not None}


def _counts(response: DescribeClusterResponse) -> NodeCounts | None:
    if not response.meters:
        return None
    return NodeCounts(
        meters={one.name: one.count for one in response.meters},
        requests={one.api: one.count for one in response.requests},
        # A node of another version may sort times into other buckets, which cannot be added.
        latencies={one.api: one.latencies for one in response.requests if len(one.latencies) == BUCKETS},
    )


def _samples(response: DescribeClusterResponse) -> Samples | None:
    """Return the samples in a response; None from a node that keeps no history, or is too old for it."""
    history = response.history
    if history.interval_ms <= 0 or not history.columns:
        return None
    values = unpacked(history.values)
    width = len(history.columns)
    rows = min(len(values) // width, SLOTS)
    return Samples(history.columns, values[len(values) - rows * width :], history.end_ms, history.interval_ms)
