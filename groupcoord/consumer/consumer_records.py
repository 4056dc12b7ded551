"""Records of the consumer protocol (KIP-848) in `__consumer_offsets`, in Apache Kafka 4.3's own schemas.

    3  ConsumerGroupMetadata                  the group epoch, and a hash of the topics it was made for
    4  ConsumerGroupPartitionMetadata         4.0's predecessor of the hash; read, but only ever removed
    5  ConsumerGroupMemberMetadata            a member's identity and subscription
    6  ConsumerGroupTargetAssignmentMetadata  the epoch of the target assignment
    7  ConsumerGroupTargetAssignmentMember    the target of a member
    8  ConsumerGroupCurrentMemberAssignment   the partitions of a member, and its epochs
    16 ConsumerGroupRegularExpression         the topics that a subscribed expression matched

A key is that number as int16 and its strings; a value is the int16 version of its schema (0) and its fields.
A record is the strings of its key and its value; None is a tombstone.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, cast

from ottla.groupcoord.record_layout import (
    Kind,
    Layout,
    Layouts,
    decode_by_layout,
    encode_key_of,
    encode_value_of,
)
from ottla.logstore.words import schema, schema_compiler
from ottla.logstore.words.schema import Buffer, message, struct
from ottla.logstore.words.schema_encode import checked_uuid, uvarint
from ottla.logstore.words.schema_source import UUID_BYTES

# ---- keys --------------------------------------------------------------------------------------------------


@message(versions=(0, 0))
class ConsumerGroupKey:
    group_id: str = schema.string()


@message(versions=(0, 0))
class ConsumerGroupMemberKey:
    group_id: str = schema.string()
    member_id: str = schema.string()


@message(versions=(0, 0))
class ConsumerGroupRegularExpressionKey:
    group_id: str = schema.string()
    regular_expression: str = schema.string()


# ---- values ------------------------------------------------------------------------------------------------


@message(versions=(0, 0), flexible_since=0)
class ConsumerGroupMetadataValue:
    epoch: int = schema.int32()
    metadata_hash: int = schema.int64(tag=0)


@struct
class PartitionRacks:
    partition: int = schema.int32()
    racks: Sequence[str] = schema.array(schema.string)


@struct
class TopicMetadata:
    topic_id: bytes = schema.uuid()
    topic_name: str = schema.string()
    num_partitions: int = schema.int32()
    partition_metadata: Sequence[PartitionRacks] = schema.array(PartitionRacks)


@message(versions=(0, 0), flexible_since=0)
class ConsumerGroupPartitionMetadataValue:
    topics: Sequence[TopicMetadata] = schema.array(TopicMetadata)


@struct
class ClassicProtocol:
    name: str = schema.string()
    metadata: bytes = schema.bytes_()


@struct
class ClassicMemberMetadata:
    session_timeout_ms: int = schema.int32()
    supported_protocols: Sequence[ClassicProtocol] = schema.array(ClassicProtocol)


@message(versions=(0, 0), flexible_since=0)
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = schema.string(nullable_since=0)
    rack_id: str | None = schema.string(nullable_since=0)
    client_id: str = schema.string()
    client_host: str = schema.string()
    subscribed_topic_names: Sequence[str] = schema.array(schema.string)
    subscribed_topic_regex: str | None = schema.string(nullable_since=0)
    rebalance_timeout_ms: int = schema.int32(default=-1)
    server_assignor: str | None = schema.string(nullable_since=0)
    # The declared default is null, yet Kafka's generated classes take a struct of defaults for it. So null is
    # always written, and a value without this tag would be read as a member of the classic protocol.
    classic_member_metadata: ClassicMemberMetadata | None = schema.struct_(
        ClassicMemberMetadata, tag=0, nullable_since=0
    )


@message(versions=(0, 0), flexible_since=0)
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = schema.int32()
    assignment_timestamp: int = schema.int64(tag=0)  # KIP-1263; milliseconds, 0: not known


@struct
class TargetTopicPartitions:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[int] = schema.array(schema.int32)


@message(versions=(0, 0), flexible_since=0)
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: Sequence[TargetTopicPartitions] = schema.array(TargetTopicPartitions)


@struct
class CurrentTopicPartitions:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[int] = schema.array(schema.int32)
    # KIP-1251: the epoch since which the member owns each of them, in the order of `partitions`; empty or
    # null before 4.3. Declared with default null, but Kafka's generated classes take an empty list for it.
    assignment_epochs: Sequence[int] | None = schema.array(schema.int32, tag=0, nullable_since=0)


@message(versions=(0, 0), flexible_since=0)
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int = schema.int32()
    previous_member_epoch: int = schema.int32()
    state: int = schema.int8()
    assigned_partitions: Sequence[CurrentTopicPartitions] = schema.array(CurrentTopicPartitions)
    partitions_pending_revocation: Sequence[CurrentTopicPartitions] = schema.array(CurrentTopicPartitions)


@message(versions=(0, 0), flexible_since=0)
class ConsumerGroupRegularExpressionValue:
    topics: Sequence[str] = schema.array(schema.string)
    version: int = schema.int64()  # of the cluster's metadata when they were matched
    timestamp: int = schema.int64()


# ---- records -----------------------------------------------------------------------------------------------


class ConsumerGroupMetadataRecord(NamedTuple):
    group_id: str
    value: ConsumerGroupMetadataValue | None


class ConsumerGroupPartitionMetadataRecord(NamedTuple):
    group_id: str
    value: ConsumerGroupPartitionMetadataValue | None


class ConsumerGroupMemberMetadataRecord(NamedTuple):
    group_id: str
    member_id: str
    value: ConsumerGroupMemberMetadataValue | None


class ConsumerGroupTargetAssignmentMetadataRecord(NamedTuple):
    group_id: str
    value: ConsumerGroupTargetAssignmentMetadataValue | None


class ConsumerGroupTargetAssignmentMemberRecord(NamedTuple):
    group_id: str
    member_id: str
    value: ConsumerGroupTargetAssignmentMemberValue | None


class ConsumerGroupCurrentMemberAssignmentRecord(NamedTuple):
    group_id: str
    member_id: str
    value: ConsumerGroupCurrentMemberAssignmentValue | None


class ConsumerGroupRegularExpressionRecord(NamedTuple):
    group_id: str
    regular_expression: str
    value: ConsumerGroupRegularExpressionValue | None


ConsumerGroupRecord: TypeAlias = (
    ConsumerGroupMetadataRecord
    | ConsumerGroupPartitionMetadataRecord
    | ConsumerGroupMemberMetadataRecord
    | ConsumerGroupTargetAssignmentMetadataRecord
    | ConsumerGroupTargetAssignmentMemberRecord
    | ConsumerGroupCurrentMemberAssignmentRecord
    | ConsumerGroupRegularExpressionRecord
)


LAYOUTS: Layouts = {
    ConsumerGroupMetadataRecord: Layout(3, ConsumerGroupKey, ConsumerGroupMetadataValue),
    ConsumerGroupPartitionMetadataRecord: Layout(4, ConsumerGroupKey, ConsumerGroupPartitionMetadataValue),
    ConsumerGroupMemberMetadataRecord: Layout(5, ConsumerGroupMemberKey, ConsumerGroupMemberMetadataValue),
    ConsumerGroupTargetAssignmentMetadataRecord: Layout(
        6, ConsumerGroupKey, ConsumerGroupTargetAssignmentMetadataValue
    ),
    ConsumerGroupTargetAssignmentMemberRecord: Layout(
        7, ConsumerGroupMemberKey, ConsumerGroupTargetAssignmentMemberValue
    ),
    ConsumerGroupCurrentMemberAssignmentRecord: Layout(
        8, ConsumerGroupMemberKey, ConsumerGroupCurrentMemberAssignmentValue
    ),
    ConsumerGroupRegularExpressionRecord: Layout(
        16, ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue
    ),
}
# An assignment of at least this many topics is encoded by shapes.
MANY_TOPICS: Final = 64
_EPOCHS_AND_STATE_BYTES: Final = 9  # at the start of an assignment
RECORDS: Mapping[int, Kind] = {layout.kind: record for record, layout in LAYOUTS.items()}


# ---- bytes -------------------------------------------------------------------------------------------------


def encode_consumer_key(record: ConsumerGroupRecord) -> bytes:
    return encode_key_of(record, LAYOUTS[type(record)])


def encode_consumer_value(record: ConsumerGroupRecord) -> bytes | None:
    value = record.value
    if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
        return b"\0\0" + _encode_current_assignment(value)
    return encode_value_of(record)


def _encode_current_assignment(value: ConsumerGroupCurrentMemberAssignmentValue) -> bytes:
    """Encode as the schema does, in a tenth of the time where a member has very many topics.

    Nearly all topics have the same bytes after their ids, so these are encoded once.
    """
    topics = (*value.assigned_partitions, *value.partitions_pending_revocation)
    if len(topics) < MANY_TOPICS:
        return schema_compiler.encode(value, 0)
    behind_id: dict[tuple[tuple[int, ...], tuple[int, ...] | None], bytes] = {}
    alone = schema.replace(value, assigned_partitions=(), partitions_pending_revocation=())
    parts = [schema_compiler.encode(alone, 0)[:_EPOCHS_AND_STATE_BYTES]]
    for some in (value.assigned_partitions, value.partitions_pending_revocation):
        parts.append(uvarint(len(some) + 1))
        for topic in some:
            epochs = topic.assignment_epochs
            shape = tuple(topic.partitions), None if epochs is None else tuple(epochs)
            tail = behind_id.get(shape)
            if tail is None:
                one = schema_compiler.encode(schema.replace(alone, assigned_partitions=(topic,)), 0)
                # The count of one stands before it; an empty array and no tags follow it.
                tail = behind_id[shape] = one[_EPOCHS_AND_STATE_BYTES + 1 + UUID_BYTES : -2]
            parts += (checked_uuid(topic.topic_id), tail)
    parts.append(uvarint(0))  # no tags
    return b"".join(parts)


def decode_consumer_record(kind: int, key: Buffer, value: Buffer | None) -> ConsumerGroupRecord:
    """Return a record of one of the kinds in `RECORDS`; KafkaError for other bytes."""
    return cast(ConsumerGroupRecord, decode_by_layout(LAYOUTS, RECORDS[kind], key, value))


def consumer_record_size_bytes(record: ConsumerGroupRecord) -> int:
    """Return an upper bound of a record's bytes in a batch; cheap, since each append asks for it."""
    overhead = 64  # record header, key and value prefixes, and the numbers
    size = overhead + 3 * sum(map(len, record[:-1]))
    match record:
        case ConsumerGroupMemberMetadataRecord(value=ConsumerGroupMemberMetadataValue() as value):
            texts = (
                value.instance_id,
                value.rack_id,
                value.client_id,
                value.client_host,
                value.subscribed_topic_regex,
                value.server_assignor,
                *value.subscribed_topic_names,
            )
            size += sum(5 + 3 * len(text or "") for text in texts)
            if value.classic_member_metadata is not None:
                for protocol in value.classic_member_metadata.supported_protocols:
                    size += 12 + 3 * len(protocol.name) + len(protocol.metadata)
        case ConsumerGroupTargetAssignmentMemberRecord(
            value=ConsumerGroupTargetAssignmentMemberValue() as value
        ):
            size += sum(32 + 4 * len(topic.partitions) for topic in value.topic_partitions)
        case ConsumerGroupCurrentMemberAssignmentRecord(
            value=ConsumerGroupCurrentMemberAssignmentValue() as value
        ):
            topics = (*value.assigned_partitions, *value.partitions_pending_revocation)
            size += sum(48 + 8 * len(topic.partitions) for topic in topics)
        case ConsumerGroupRegularExpressionRecord(value=ConsumerGroupRegularExpressionValue() as value):
            size += sum(5 + 3 * len(topic) for topic in value.topics)
        case ConsumerGroupPartitionMetadataRecord(value=ConsumerGroupPartitionMetadataValue() as value):
            for topic in value.topics:
                size += 48 + 3 * len(topic.topic_name)
                for racks in topic.partition_metadata:
                    size += 16 + sum(5 + 3 * len(rack) for rack in racks.racks)
        case _:
            pass  # epochs: in the overhead
    return size
