"""EndTxn (key 26): commit or abort a transaction; since 5 the response has the next epoch (KIP-890)."""

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message


@message(api_key=26, versions=(0, 5), flexible_since=3)
class EndTxnRequest:
    transactional_id: str = schema.string()
    producer_id: int = schema.int64()
    producer_epoch: int = schema.int16()
    committed: bool = schema.boolean()


@message(api_key=26, versions=(0, 5), flexible_since=3)
class EndTxnResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    producer_id: int = schema.int64(since=5, default=-1)
    producer_epoch: int = schema.int16(since=5, default=-1)
