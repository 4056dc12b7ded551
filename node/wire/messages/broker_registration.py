"""BrokerRegistration (key 62): a broker enters the cluster (KIP-631)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class Listener:
    name: str = schema.string()
    host: str = schema.string()
    port: int = schema.uint16()
    security_protocol: int = schema.int16()


@struct
class Feature:
    name: str = schema.string()
    min_supported_version: int = schema.int16()
    max_supported_version: int = schema.int16()


@message(api_key=62, versions=(0, 4), flexible_since=0)
class BrokerRegistrationRequest:
    broker_id: int = schema.int32()
    cluster_id: str = schema.string()
    incarnation_id: bytes = schema.uuid()
    listeners: Sequence[Listener] = schema.array(Listener)
    features: Sequence[Feature] = schema.array(Feature)
    rack: str | None = schema.string(nullable_since=0)
    is_migrating_zk_broker: bool = schema.boolean(since=1)
    log_dirs: Sequence[bytes] = schema.array(schema.uuid, since=2)
    previous_broker_epoch: int = schema.int64(since=3, default=-1)


@message(api_key=62, versions=(0, 4), flexible_since=0)
class BrokerRegistrationResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    broker_epoch: int = schema.int64(default=-1)
