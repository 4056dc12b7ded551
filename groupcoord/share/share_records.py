"""Records of share groups (KIP-932) in `__consumer_offsets`, in Apache Kafka 4.3's own schemas.

10 ShareGroupMemberMetadata            a member's identity and subscription
11 ShareGroupMetadata                  the group epoch, and a hash of the topics it was made for
12 ShareGroupTargetAssignmentMetadata  the epoch of the target assignment
13 ShareGroupTargetAssignmentMember    the target of a member
14 ShareGroupCurrentMemberAssignment   the partitions of a member, and its epochs
15 ShareGroupStatePartitionMetadata    share-partitions that have state, or are to get or to lose it
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

from ottla.groupcoord.record_layout import (
    Kind,
    Layout,
    Layouts,
    decode_by_layout,
    encode_key_of,
    encode_value_of,
)
from ottla.logstore.words import schema
from ottla.logstore.words.schema import Buffer, message, struct


@message(versions=(0, 0))
class ShareGroupKey:
    group_id: str = schema.string()


@message(versions=(0, 0))
class ShareGroupMemberKey:
    group_id: str = schema.string()
    member_id: str = schema.string()


@message(versions=(0, 0), flexible_since=0)
class ShareGroupMemberMetadataValue:
    rack_id: str | None = schema.string(nullable_since=0)
    client_id: str = schema.string()
    client_host: str = schema.string()
    subscribed_topic_names: Sequence[str] = schema.array(schema.string)


@message(versions=(0, 0), flexible_since=0)
class ShareGroupMetadataValue:
    epoch: int = schema.int32()
    metadata_hash: int = schema.int64()


@message(versions=(0, 0), flexible_since=0)
class ShareGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = schema.int32()
    assignment_timestamp: int = schema.int64(tag=0)  # milliseconds, 0: not known


@struct
class ShareTopicPartitions:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[int] = schema.array(schema.int32)


@message(versions=(0, 0), flexible_since=0)
class ShareGroupTargetAssignmentMemberValue:
    topic_partitions: Sequence[ShareTopicPartitions] = schema.array(ShareTopicPartitions)


@message(versions=(0, 0), flexible_since=0)
class ShareGroupCurrentMemberAssignmentValue:
    member_epoch: int = schema.int32()
    previous_member_epoch: int = schema.int32()
    state: int = schema.int8()
    assigned_partitions: Sequence[ShareTopicPartitions] = schema.array(ShareTopicPartitions)


@struct
class ShareTopicPartitionsInfo:
    topic_id: bytes = schema.uuid()
    topic_name: str = schema.string()
    partitions: Sequence[int] = schema.array(schema.int32)


@struct
class ShareTopicInfo:
    topic_id: bytes = schema.uuid()
    topic_name: str = schema.string()


@message(versions=(0, 0), flexible_since=0)
class ShareGroupStatePartitionMetadataValue:
    initializing_topics: Sequence[ShareTopicPartitionsInfo] = schema.array(ShareTopicPartitionsInfo)
    initialized_topics: Sequence[ShareTopicPartitionsInfo] = schema.array(ShareTopicPartitionsInfo)
    deleting_topics: Sequence[ShareTopicInfo] = schema.array(ShareTopicInfo)


# ---- records -----------------------------------------------------------------------------------------------


class ShareGroupMemberMetadataRecord(NamedTuple):
    group_id: str
    member_id: str
    value: ShareGroupMemberMetadataValue | None


class ShareGroupMetadataRecord(NamedTuple):
    group_id: str
    value: ShareGroupMetadataValue | None


class ShareGroupTargetAssignmentMetadataRecord(NamedTuple):
    group_id: str
    value: ShareGroupTargetAssignmentMetadataValue | None


class ShareGroupTargetAssignmentMemberRecord(NamedTuple):
    group_id: str
    member_id: str
    value: ShareGroupTargetAssignmentMemberValue | None


class ShareGroupCurrentMemberAssignmentRecord(NamedTuple):
    group_id: str
    member_id: str
    value: ShareGroupCurrentMemberAssignmentValue | None


class ShareGroupStatePartitionMetadataRecord(NamedTuple):
    group_id: str
    value: ShareGroupStatePartitionMetadataValue | None


ShareGroupRecord: TypeAlias = (
    ShareGroupMemberMetadataRecord
    | ShareGroupMetadataRecord
    | ShareGroupTargetAssignmentMetadataRecord
    | ShareGroupTargetAssignmentMemberRecord
    | ShareGroupCurrentMemberAssignmentRecord
    | ShareGroupStatePartitionMetadataRecord
)

SHARE_LAYOUTS: Layouts = {
    ShareGroupMemberMetadataRecord: Layout(10, ShareGroupMemberKey, ShareGroupMemberMetadataValue),
    ShareGroupMetadataRecord: Layout(11, ShareGroupKey, ShareGroupMetadataValue),
    ShareGroupTargetAssignmentMetadataRecord: Layout(
        12, ShareGroupKey, ShareGroupTargetAssignmentMetadataValue
    ),
    ShareGroupTargetAssignmentMemberRecord: Layout(
        13, ShareGroupMemberKey, ShareGroupTargetAssignmentMemberValue
    ),
    ShareGroupCurrentMemberAssignmentRecord: Layout(
        14, ShareGroupMemberKey, ShareGroupCurrentMemberAssignmentValue
    ),
    ShareGroupStatePartitionMetadataRecord: Layout(15, ShareGroupKey, ShareGroupStatePartitionMetadataValue),
}
SHARE_RECORDS: Mapping[int, Kind] = {layout.kind: record for record, layout in SHARE_LAYOUTS.items()}


def encode_share_key(record: ShareGroupRecord) -> bytes:
    return encode_key_of(record, SHARE_LAYOUTS[type(record)])


def encode_share_value(record: ShareGroupRecord) -> bytes | None:
    return encode_value_of(record)


def decode_share_record(kind: int, key: Buffer, value: Buffer | None) -> ShareGroupRecord:
    """Return a record of one of the kinds in `SHARE_RECORDS`; KafkaError for other bytes."""
    return cast(ShareGroupRecord, decode_by_layout(SHARE_LAYOUTS, SHARE_RECORDS[kind], key, value))


def share_record_size_bytes(record: ShareGroupRecord) -> int:
    """Return an upper bound of a record's bytes in a batch; cheap, since each append asks for it."""
    overhead = 64  # record header, key and value prefixes, and the numbers
    size = overhead + 3 * sum(map(len, record[:-1]))
    match record:
        case ShareGroupMemberMetadataRecord(value=ShareGroupMemberMetadataValue() as value):
            texts = (value.rack_id, value.client_id, value.client_host, *value.subscribed_topic_names)
            size += sum(5 + 3 * len(text or "") for text in texts)
        case ShareGroupTargetAssignmentMemberRecord(value=ShareGroupTargetAssignmentMemberValue() as value):
            size += _size_of_partitions(value.topic_partitions)
        case ShareGroupCurrentMemberAssignmentRecord(value=ShareGroupCurrentMemberAssignmentValue() as value):
            size += _size_of_partitions(value.assigned_partitions)
        case ShareGroupStatePartitionMetadataRecord(value=ShareGroupStatePartitionMetadataValue() as value):
            for topic in (*value.initializing_topics, *value.initialized_topics):
                size += 32 + 3 * len(topic.topic_name) + 4 * len(topic.partitions)
            size += sum(32 + 3 * len(topic.topic_name) for topic in value.deleting_topics)
        case _:
            pass  # epochs: in the overhead
    return size


def _size_of_partitions(topics: Sequence[ShareTopicPartitions]) -> int:
    return sum(32 + 4 * len(topic.partitions) for topic in topics)
