"""Allocates producer ids to brokers in blocks (KIP-730), so that a new producer needs no commit."""

from ottla.logstore.words.config_def import LONG_MAX
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.commands import AllocateProducerIds, AllocateProducerIdsReply
from ottla.metadata_raft.controller_config import PRODUCER_ID_BLOCK_SIZE
from ottla.metadata_raft.decision import Decision
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.records import ProducerIdsRecord


def allocate_producer_ids(image: MetadataImage, command: AllocateProducerIds) -> Decision:
    """Return the next block for a broker; STALE_BROKER_EPOCH unless it is registered with this epoch."""
    broker = image.brokers.get(command.broker_id)
    if broker is None or broker.broker_epoch != command.broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Broker {command.broker_id} is not registered with epoch {command.broker_epoch}.",
        )
    first = image.next_producer_id
    if first > LONG_MAX - PRODUCER_ID_BLOCK_SIZE:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids have been used.")
    record = ProducerIdsRecord(
        broker_id=command.broker_id,
        broker_epoch=command.broker_epoch,
        next_producer_id=first + PRODUCER_ID_BLOCK_SIZE,
    )
    reply = AllocateProducerIdsReply(producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK_SIZE)
    return Decision(records=[record], reply=reply)
