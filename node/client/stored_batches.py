"""Finds out if a batch whose response was lost is in the log; the leader of its partition knows (KIP-664)."""

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.ask_leaders import for_lookup
from ottla.node.client.cluster_client import Client
from ottla.node.client.txn_admin import find_producers


async def is_stored(
    client: Client, partition: TopicPartition, producer_id: int, epoch: int, last_sequence: int
) -> bool | None:
    """Return True if the last batch of this producer in the log ends with this sequence number.

    None if it is unknown: the leader does not answer, or the client may not read the topic.
    """
    try:
        answers = await find_producers(for_lookup(client), [partition])
    except KafkaError:
        return None
    if partition not in answers.found:
        return None
    wanted = (producer_id, epoch, last_sequence)
    return any(
        (one.producer_id, one.producer_epoch, one.last_sequence) == wanted for one in answers.found[partition]
    )
