"""Records of the consumer protocol: the bytes of Apache Kafka 4.3.1's GroupCoordinatorRecordSerde."""

from random import Random
from typing import Any

import pytest

from ottla.groupcoord.consumer.consumer_records import (
    LAYOUTS,
    MANY_TOPICS,
    RECORDS,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentRecord,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataRecord,
    ConsumerGroupMetadataValue,
    ConsumerGroupRecord,
    ConsumerGroupRegularExpressionRecord,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberRecord,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataRecord,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    TargetTopicPartitions,
    consumer_record_size_bytes,
    decode_consumer_record,
    encode_consumer_key,
    encode_consumer_value,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import schema_of
from ottla.logstore.words.schema_compiler import encode
from tests.property.random_messages import random_message

TOPIC_ID = bytes(range(1, 17))

GOLDEN: dict[str, tuple[ConsumerGroupRecord, str, str | None]] = {
    "a group's epoch": (
        ConsumerGroupMetadataRecord("g", ConsumerGroupMetadataValue(epoch=3, metadata_hash=-2)),
        "0003000167",
        "000000000003010008fffffffffffffffe",
    ),
    "a group's end": (ConsumerGroupMetadataRecord("g", None), "0003000167", None),
    "a member": (
        ConsumerGroupMemberMetadataRecord(
            "g",
            "m",
            ConsumerGroupMemberMetadataValue(
                instance_id=None,
                rack_id="r",
                client_id="c",
                client_host="/h",
                subscribed_topic_names=["a", "b"],
                subscribed_topic_regex="",
                rebalance_timeout_ms=300_000,
                server_assignor=None,
                classic_member_metadata=None,
            ),
        ),
        "0005000167" + "00016d",
        # The null of the last field is written, not left out: without it the member would be a classic one.
        "0000"
        + "00"
        + "0272"
        + "0263"
        + "032f68"
        + "03"
        + "0261"
        + "0262"
        + "01"
        + "000493e0"
        + "00"
        + "01000100",
    ),
    "a member of the classic protocol": (
        ConsumerGroupMemberMetadataRecord(
            "g",
            "m",
            ConsumerGroupMemberMetadataValue(
                instance_id="i",
                rack_id=None,
                client_id="",
                client_host="",
                subscribed_topic_regex=None,
                server_assignor="range",
                classic_member_metadata=ClassicMemberMetadata(
                    session_timeout_ms=45_000,
                    supported_protocols=[ClassicProtocol(name="range", metadata=b"\1")],
                ),
            ),
        ),
        "0005000167" + "00016d",
        "0000" + "0269" + "00" + "01" + "01" + "01" + "00" + "ffffffff" + "0672616e6765"
        "0100" + "10" + "01" + "0000afc8" + "02" + "0672616e6765" + "0201" + "00" + "00",
    ),
    "the epoch of the target": (
        ConsumerGroupTargetAssignmentMetadataRecord(
            "g", ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=7, assignment_timestamp=1)
        ),
        "0006000167",
        "0000" + "00000007" + "010008" + "0000000000000001",
    ),
    "a member's target": (
        ConsumerGroupTargetAssignmentMemberRecord(
            "g",
            "m",
            ConsumerGroupTargetAssignmentMemberValue(
                topic_partitions=[TargetTopicPartitions(topic_id=TOPIC_ID, partitions=[0, 2])]
            ),
        ),
        "0007000167" + "00016d",
        "0000" + "02" + TOPIC_ID.hex() + "03" + "00000000" + "00000002" + "00" + "00",
    ),
    "what a member owns": (
        ConsumerGroupCurrentMemberAssignmentRecord(
            "g",
            "m",
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=4,
                previous_member_epoch=3,
                state=1,
                assigned_partitions=[
                    CurrentTopicPartitions(topic_id=TOPIC_ID, partitions=[1], assignment_epochs=[2])
                ],
            ),
        ),
        "0008000167" + "00016d",
        "0000"
        + "00000004"
        + "00000003"
        + "01"
        + ("02" + TOPIC_ID.hex() + "02" + "00000001" + "010005" + "0200000002")
        + "01"
        + "00",
    ),
    "a resolved expression": (
        ConsumerGroupRegularExpressionRecord(
            "g", "a.*", ConsumerGroupRegularExpressionValue(topics=["ab"], version=5, timestamp=6)
        ),
        "0010000167" + "0003612e2a",
        "0000" + "02" + "036162" + "0000000000000005" + "0000000000000006" + "00",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_records_are_apache_kafkas_bytes(name: str) -> None:
    record, key_hex, value_hex = GOLDEN[name]

    key, value = encode_consumer_key(record), encode_consumer_value(record)

    assert key.hex() == key_hex
    assert (value.hex() if value is not None else None) == value_hex


@pytest.mark.parametrize("kind", RECORDS)
def test_records_of_every_kind_are_read_back_and_fit_their_estimate(kind: int) -> None:
    random = Random(kind)
    record_class = RECORDS[kind]
    layout = LAYOUTS[record_class]
    for value in (None, layout.value(), *(random_message(layout.value, 0, random) for _ in range(20))):
        key = random_message(layout.key, 0, random)
        record: Any = record_class(
            *(getattr(key, field.name) for field in schema_of(layout.key).fields), value
        )

        key_bytes, value_bytes = encode_consumer_key(record), encode_consumer_value(record)

        assert decode_consumer_record(kind, key_bytes, value_bytes) == record
        assert consumer_record_size_bytes(record) >= len(key_bytes) + len(value_bytes or b"")


@pytest.mark.parametrize("value", ["", "00", "0001" + "00" * 20, "0000", "000000000003" + "0100"])
def test_bytes_that_are_no_record_raise_a_kafka_error(value: str) -> None:
    with pytest.raises(KafkaError) as raised:
        decode_consumer_record(3, bytes.fromhex("0003000167"), bytes.fromhex(value))

    assert raised.value.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize("seed", range(5))
def test_an_assignment_of_very_many_topics_has_the_bytes_of_its_schema(seed: int) -> None:
    chance = Random(seed)

    def some(count: int) -> list[CurrentTopicPartitions]:
        shapes: list[tuple[list[int], list[int] | None]] = [
            ([0], [3]),
            ([0], None),
            ([], []),
            ([0, 7], [3, 1 << 30]),
        ]
        return [
            CurrentTopicPartitions(
                topic_id=chance.randbytes(16), partitions=partitions, assignment_epochs=epochs
            )
            for partitions, epochs in chance.choices(shapes, k=count)
        ]

    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=chance.randrange(-2, 1 << 31),
        previous_member_epoch=chance.randrange(1 << 31),
        state=2,
        assigned_partitions=some(chance.choice([0, 127, 128, 20_000])),
        partitions_pending_revocation=some(MANY_TOPICS),
    )

    written = encode_consumer_value(ConsumerGroupCurrentMemberAssignmentRecord("g", "m", value))

    assert written == b"\0\0" + encode(value, 0)
