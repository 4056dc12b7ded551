"""DescribeCluster (key 60): the brokers or controllers of a cluster (KIP-700).

Tags from 10000 on are Ottla's own: a client that sends them is also sent the answering node's counters, their
history, or its knowledge of the leader of the metadata quorum.
"""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@message(api_key=60, versions=(0, 2), flexible_since=0)
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = schema.boolean()
    endpoint_type: int = schema.int8(since=1, default=1)
    include_fenced_brokers: bool = schema.boolean(since=2)
    include_counts: bool = schema.boolean(tag=10_000)
    include_contact: bool = schema.boolean(tag=10_001)
    # A `counters.history.Kind` and the name of a topic or group, whose history the node is to send; -1: none.
    history_kind: int = schema.int8(tag=10_002, default=-1)
    history_name: str = schema.string(tag=10_003)


@struct
class DescribeClusterBroker:
    broker_id: int = schema.int32()
    host: str = schema.string()
    port: int = schema.int32()
    rack: str | None = schema.string(nullable_since=0, default=None)
    is_fenced: bool = schema.boolean(since=2)


@struct
class CountedMeter:
    name: str = schema.string()
    count: int = schema.int64()


@struct
class CountedRequests:
    api: str = schema.string()
    count: int = schema.int64()
    latencies: Sequence[int] = schema.array(schema.int64)  # number by duration, as in LatencyHistogram


@struct
class KeptHistory:
    """The samples of `counters.history.Samples`, packed; an interval of 0 stands for none."""

    end_ms: int = schema.int64()
    interval_ms: int = schema.int32()
    columns: Sequence[str] = schema.array(schema.string)
    values: bytes = schema.bytes_()


@message(api_key=60, versions=(0, 2), flexible_since=0)
class DescribeClusterResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    endpoint_type: int = schema.int8(since=1, default=1)
    cluster_id: str = schema.string()
    controller_id: int = schema.int32(default=-1)
    brokers: Sequence[DescribeClusterBroker] = schema.array(DescribeClusterBroker)
    cluster_authorized_operations: int = schema.int32(default=-(2**31))
    meters: Sequence[CountedMeter] = schema.array(CountedMeter, tag=10_000)
    requests: Sequence[CountedRequests] = schema.array(CountedRequests, tag=10_001)
    # The leader of the quorum, -1 if unknown, -2 if not sent; `controller_id` only names a node to ask.
    quorum_leader_id: int = schema.int32(tag=10_002, default=-2)
    # The time since when the answering node has had no contact to a leader; -1 if it has, or if not sent.
    cut_off_since_ms: int = schema.int64(tag=10_003, default=-1)
    history: KeptHistory = schema.struct_(KeptHistory, tag=10_004)
