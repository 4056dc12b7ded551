"""DescribeCluster (key 60): the brokers or controllers of a cluster (KIP-700)."""

from collections.abc import Sequence

from logstore import schema
from logstore.schema import message, struct


@message(api_key=60, versions=(0, 2), flexible_since=0)
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = schema.boolean()
    endpoint_type: int = schema.int8(since=1, default=1)
    include_fenced_brokers: bool = schema.boolean(since=2)


@struct
class DescribeClusterBroker:
    broker_id: int = schema.int32()
    host: str = schema.string()
    port: int = schema.int32()
    rack: str | None = schema.string(nullable_since=0, default=None)
    is_fenced: bool = schema.boolean(since=2)


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
