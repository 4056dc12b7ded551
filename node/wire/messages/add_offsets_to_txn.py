"""AddOffsetsToTxn (key 25): the offsets of a group become part of a transaction."""

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message


@message(api_key=25, versions=(0, 4), flexible_since=3)
class AddOffsetsToTxnRequest:
    transactional_id: str = schema.string()
    producer_id: int = schema.int64()
    producer_epoch: int = schema.int16()
    group_id: str = schema.string()


@message(api_key=25, versions=(0, 4), flexible_since=3)
class AddOffsetsToTxnResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
