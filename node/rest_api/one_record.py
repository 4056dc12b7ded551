"""One record by its offset, or the certainty that it no longer exists."""

from typing import Final

from ottla.logstore.record import Record
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.cluster_client import Client
from ottla.node.client.deadline import Deadline
from ottla.node.rest_api.offset_spec import spans
from ottla.node.rest_api.record_reader import RecordReader, in_short_rounds

_GONE: Final = {
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
}


async def read_one(client: Client, where: TopicPartition, offset: int, deadline: Deadline) -> Record | None:
    """Return a record, or None if the log has none at this offset, or the topic or partition does not exist.

    KafkaError if it cannot be read now, or if this client may not read it.
    """
    try:
        topic = await client.topic_as_it_is(where.topic)
        if where.partition not in topic.leaders:
            return None
        span = (await spans(client, [where], isolation_level=0)).found[where]
        if not span.first <= offset < span.end:
            return None
        reader = RecordReader(in_short_rounds(client, read_committed=False), {where: offset})
        while reader.places[where] <= offset:
            for found in await reader.round({where: offset + 1}, deadline):
                if found.record.offset == offset:
                    return found.record
            if deadline.is_over and reader.places[where] <= offset:
                silent = KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{where} was not read in time")
                raise reader.problems.get(where, silent)
    except KafkaError as error:
        if error.code not in _GONE:
            raise
    return None
