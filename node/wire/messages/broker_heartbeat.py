"""BrokerHeartbeat (key 63): a broker is alive, wants to be unfenced or to shut down (KIP-631)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message


@message(api_key=63, versions=(0, 2), flexible_since=0)
class BrokerHeartbeatRequest:
    broker_id: int = schema.int32()
    broker_epoch: int = schema.int64(default=-1)
    current_metadata_offset: int = schema.int64()
    want_fence: bool = schema.boolean()
    want_shut_down: bool = schema.boolean()
    offline_log_dirs: Sequence[bytes] = schema.array(schema.uuid, tag=0, since=1)
    cordoned_log_dirs: Sequence[bytes] | None = schema.array(
        schema.uuid, tag=1, since=2, nullable_since=2, default=None
    )


@message(api_key=63, versions=(0, 2), flexible_since=0)
class BrokerHeartbeatResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    is_caught_up: bool = schema.boolean()
    is_fenced: bool = schema.boolean(default=True)
    should_shut_down: bool = schema.boolean()
