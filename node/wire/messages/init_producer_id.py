"""InitProducerId (key 22): a producer id and epoch, for idempotence or for a transactional id.

Version 6 (two-phase commit, KIP-939) is not stable in Apache Kafka 4.4 and hidden there.
"""

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message


@message(api_key=22, versions=(0, 6), flexible_since=2)
class InitProducerIdRequest:
    transactional_id: str | None = schema.string(nullable_since=0)
    transaction_timeout_ms: int = schema.int32()
    producer_id: int = schema.int64(since=3, default=-1)
    producer_epoch: int = schema.int16(since=3, default=-1)
    enable2_pc: bool = schema.boolean(since=6)
    keep_prepared_txn: bool = schema.boolean(since=6)


@message(api_key=22, versions=(0, 6), flexible_since=2)
class InitProducerIdResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    producer_id: int = schema.int64(default=-1)
    producer_epoch: int = schema.int16()
    ongoing_txn_producer_id: int = schema.int64(since=6, default=-1)
    ongoing_txn_producer_epoch: int = schema.int16(since=6, default=-1)
