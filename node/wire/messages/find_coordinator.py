"""FindCoordinator (key 10): find the broker that coordinates groups, transactional ids or share-partitions.

Several keys in one request since 4 (KIP-699).
"""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@message(api_key=10, versions=(0, 6), flexible_since=3)
class FindCoordinatorRequest:
    key: str = schema.string(until=3)
    key_type: int = schema.int8(since=1)
    coordinator_keys: Sequence[str] = schema.array(schema.string, since=4)


@struct
class Coordinator:
    key: str = schema.string()
    node_id: int = schema.int32()
    host: str = schema.string()
    port: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)


@message(api_key=10, versions=(0, 6), flexible_since=3)
class FindCoordinatorResponse:
    throttle_time_ms: int = schema.int32(since=1)
    error_code: int = schema.int16(until=3)
    error_message: str | None = schema.string(since=1, until=3, nullable_since=1)
    node_id: int = schema.int32(until=3)
    host: str = schema.string(until=3)
    port: int = schema.int32(until=3)
    coordinators: Sequence[Coordinator] = schema.array(Coordinator, since=4)
