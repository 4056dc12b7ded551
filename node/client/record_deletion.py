"""The records before an offset are deleted (DeleteRecords, KIP-107): the start of a partition moves up."""

from collections.abc import Mapping, Sequence

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.ask_leaders import Answers, ask_leaders
from ottla.node.client.cluster_client import Client, check
from ottla.node.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)


async def delete_records(client: Client, before: Mapping[TopicPartition, int]) -> Answers[int]:
    """Delete the records before these offsets; return the first offset that each partition has now."""

    async def ask(leader: int, mine: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | KafkaError]:
        by_topic: dict[str, list[DeleteRecordsPartition]] = {}
        for one in mine:
            wanted = DeleteRecordsPartition(partition_index=one.partition, offset=before[one])
            by_topic.setdefault(one.topic, []).append(wanted)
        topics = [DeleteRecordsTopic(name=name, partitions=wanted) for name, wanted in by_topic.items()]
        request = DeleteRecordsRequest(topics=topics, timeout_ms=client.remaining_ms)
        connection = await client.node(leader)
        response = await connection.request(request, DeleteRecordsResponse, timeout_s=client.remaining_s)
        found: dict[TopicPartition, int | KafkaError] = {}
        for topic in response.topics:
            for answer in topic.partitions:
                place = TopicPartition(topic.name, answer.partition_index)
                try:
                    check(answer.error_code, None, str(place))
                    found[place] = answer.low_watermark
                except KafkaError as error:
                    found[place] = error
        return found

    return await ask_leaders(client, before, ask)
