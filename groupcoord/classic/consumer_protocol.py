"""The subscriptions and assignments that consumers of a classic group exchange through their leader.

Apache Kafka's ConsumerProtocolSubscription and -Assignment, versions 0 to 3. A newer version is read as the
newest known one: it can only have added fields at the end.
"""

import struct as binary
from collections.abc import Sequence
from typing import TypeVar

from ottla.logstore.words import schema, schema_compiler
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import message, struct

CONSUMER_PROTOCOL_TYPE = "consumer"
NEWEST_VERSION = 3

T = TypeVar("T")


@struct
class OwnedTopic:
    topic: str = schema.string()
    partitions: Sequence[int] = schema.array(schema.int32)


@message(versions=(0, NEWEST_VERSION))
class Subscription:
    topics: Sequence[str] = schema.array(schema.string)
    user_data: bytes | None = schema.bytes_(nullable_since=0, default=None)
    owned_partitions: Sequence[OwnedTopic] = schema.array(OwnedTopic, since=1)
    generation_id: int = schema.int32(since=2, default=-1)
    rack_id: str | None = schema.string(since=3, nullable_since=3, default=None)


@message(versions=(0, NEWEST_VERSION))
class AssignedPartitions:
    assigned_partitions: Sequence[OwnedTopic] = schema.array(OwnedTopic)
    user_data: bytes | None = schema.bytes_(nullable_since=0, default=None)


def decode_subscription(metadata: bytes) -> Subscription:
    """Return the subscription in these bytes; UNKNOWN_SERVER_ERROR for other bytes, as in Kafka."""
    return _decode(Subscription, metadata)


def decode_assignment(assignment: bytes) -> AssignedPartitions:
    """Return the assignment in these bytes; UNKNOWN_SERVER_ERROR for other bytes."""
    return _decode(AssignedPartitions, assignment)


def encode_assignment(version: int, topics: Sequence[tuple[str, Sequence[int]]]) -> bytes:
    """Return an assignment in the version of a member's subscription, or the newest version known here."""
    assigned = [OwnedTopic(topic=topic, partitions=partitions) for topic, partitions in topics]
    value = AssignedPartitions(assigned_partitions=assigned)
    return schema_compiler.encode_versioned(value, max(min(version, NEWEST_VERSION), 0))


def version_of(metadata: bytes) -> int:
    """Return the version of a subscription; 0 for bytes without one."""
    return int(binary.unpack_from(">h", metadata)[0]) if len(metadata) >= 2 else 0


def _decode(cls: type[T], content: bytes) -> T:
    try:
        version = version_of(content) if len(content) >= 2 else -1
        value, _ = schema_compiler.decoder(cls, min(version, NEWEST_VERSION))(content, 2)
    except KafkaError as error:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"malformed embedded consumer protocol: {error.detail}"
        ) from error
    return value


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """Return the topics in a consumer's subscription, or None if the bytes are not one.

    Layout since version 0: int16 version, int32 count of topics, each an int16 length and UTF-8; later
    versions have more fields behind. Users' own assignors may send anything, so bytes that are no
    subscription are no error (D11).
    """
    size = len(metadata)
    if size < 6 or int.from_bytes(metadata[:2], signed=True) < 0:
        return None
    count, position = int.from_bytes(metadata[2:6], signed=True), 6
    if not 0 <= count <= (size - 6) // 2:
        return None
    topics = []
    for _ in range(count):
        end = position + 2
        length = int.from_bytes(metadata[position:end], signed=True)
        if end > size or length < 0 or end + length > size:
            return None
        try:
            topics.append(metadata[end : end + length].decode())
        except UnicodeDecodeError:
            return None
        position = end + length
    return topics
