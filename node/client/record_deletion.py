"""Deletes records before an offset (DeleteRecords, KIP-107), which moves up the log start offset."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import topic_admin
from ottla.node.client.ask_leaders import Answers, ask_leaders
from ottla.node.client.cluster_client import Client, check, unknown_partition
from ottla.node.client.refusal import Refused
from ottla.node.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)


class Trim(NamedTuple):
    """The result of a trim: the log start offsets before and after it, and the errors of partitions."""

    before: Mapping[TopicPartition, int]
    after: Mapping[TopicPartition, int]
    problems: Mapping[TopicPartition, KafkaError]


async def trim(
    client: Client,
    topic: str,
    partitions: Sequence[int] = (),
    *,
    before_offset: int | None = None,
    before_ms: int | None = None,
    dry_run: bool = False,
) -> Trim:
    """Delete the records of some partitions (by default all) before an offset or a timestamp.

    An offset of LATEST is the end of each partition. Refused if a partition ends before the offset, and
    UNKNOWN_TOPIC_OR_PARTITION for one that does not exist; then nothing is deleted. With `dry_run` nothing is
    deleted at all.
    """
    known = await client.topic_as_it_is(topic)
    for number in partitions:
        if number not in known.leaders:
            raise unknown_partition(known, number)
    places = [TopicPartition(topic, number) for number in sorted(set(partitions) or known.leaders)]
    starts = await topic_admin.list_offsets(client, dict.fromkeys(places, topic_admin.EARLIEST))
    ends = await topic_admin.list_offsets(client, dict.fromkeys(places, topic_admin.LATEST))
    if before_ms is not None:
        found = await topic_admin.list_offsets(client, dict.fromkeys(places, before_ms))
        limits = {one: ends[one].offset if each.offset < 0 else each.offset for one, each in found.items()}
    elif before_offset in (None, topic_admin.LATEST):
        limits = {one: ends[one].offset for one in places}
    else:
        assert before_offset is not None
        for one in places:
            if before_offset > ends[one].offset:
                raise Refused(
                    f"{one} ends at offset {ends[one].offset}, before {before_offset}; nothing was deleted. "
                    "Name the partitions that reach it, or delete up to their ends."
                )
        limits = dict.fromkeys(places, before_offset)
    before = {one: starts[one].offset for one in places}
    wanted = {one: max(limits[one], before[one]) for one in places}
    if dry_run:
        return Trim(before, wanted, {})
    answers = await delete_records(client, wanted)
    return Trim(before, dict(answers.found), dict(answers.problems))


async def delete_records(client: Client, before: Mapping[TopicPartition, int]) -> Answers[int]:
    """Delete the records before these offsets; return the new log start offset of each partition."""

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
                partition = TopicPartition(topic.name, answer.partition_index)
                try:
                    check(answer.error_code, None, str(partition))
                    found[partition] = answer.low_watermark
                except KafkaError as error:
                    found[partition] = error
        return found

    return await ask_leaders(client, before, ask)
