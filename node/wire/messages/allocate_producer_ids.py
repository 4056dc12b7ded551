"""AllocateProducerIds (key 67): a broker asks the controller for a block of producer ids (KIP-730)."""

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message


@message(api_key=67, versions=(0, 0), flexible_since=0)
class AllocateProducerIdsRequest:
    broker_id: int = schema.int32()
    broker_epoch: int = schema.int64(default=-1)


@message(api_key=67, versions=(0, 0), flexible_since=0)
class AllocateProducerIdsResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    producer_id_start: int = schema.int64()
    producer_id_len: int = schema.int32()
