"""Encodes an image as the records of a snapshot, and decodes it.

A snapshot is a sequence of record batches between a header and a footer batch (KIP-630). Replaying its
records on an empty image gives the image again, except for offset and epoch, which are in the name of its
file.
"""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from ottla.logstore.record import build_batch
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema_compiler import encode
from ottla.metadata_raft.control_records import (
    ControlKind,
    control_key,
    control_record,
)
from ottla.metadata_raft.delta import MetadataDelta
from ottla.metadata_raft.image import (
    BrokerImage,
    MetadataImage,
    PartitionImage,
    QuotaEntity,
    VoterImage,
    endpoint_records,
)
from ottla.metadata_raft.record_codec import (
    MetadataBatch,
    decode_batch,
    encode_batch,
)
from ottla.metadata_raft.records import (
    AccessControlEntryRecord,
    BrokerFeature,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntityPart,
    RaftVotersRecord,
    RegisterBrokerRecord,
    RequestRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    TopicRecord,
    UserScramCredentialRecord,
    Voter,
    VoterEndpoint,
)

RECORDS_PER_BATCH = 1_000  # small enough that the encoder can pause between batches


def image_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """Yield records that build `image` from an empty one, in a deterministic order."""
    for name, level in sorted(image.features.items()):
        yield FeatureLevelRecord(name=name, feature_level=level)
    for _, broker in sorted(image.brokers.items()):
        yield _broker_record(broker)
    for name, topic in sorted(image.topics.by_name.items()):
        yield TopicRecord(name=name, topic_id=topic.topic_id)
        for partition in topic.partitions:
            yield _partition_record(topic.topic_id, partition)
    for (kind, resource), configs in sorted(image.configs.by_resource.items()):
        for name, value in sorted(configs.items()):
            yield ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)
    for entry_id, entry in sorted(image.acls.by_id.items()):
        yield AccessControlEntryRecord(id=entry_id, **entry._asdict())
    for entity, quotas in sorted(image.client_quotas.items(), key=lambda item: _in_order(item[0])):
        parts = [QuotaEntityPart(entity_type=kind, entity_name=name) for kind, name in entity]
        for key, quota in sorted(quotas.items()):
            yield ClientQuotaRecord(entity=parts, key=key, value=quota)
    for (user, mechanism), credential in sorted(image.scram_credentials.items()):
        yield UserScramCredentialRecord(name=user, mechanism=mechanism, **credential._asdict())
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, next_producer_id=image.next_producer_id)
    for broker_epoch, table in sorted(image.requests.items()):
        for sequence, reply in table.replies.items():
            yield RequestRecord(
                broker_epoch=broker_epoch,
                sequence=sequence,
                oldest_open_sequence=table.oldest_open_sequence,
                reply=reply,
            )
    if image.voters:
        yield RaftVotersRecord(voters=[_voter(voter) for voter in image.voters])


class SnapshotContent(NamedTuple):
    """The content of a snapshot: the image, and the Raft index of the last entry in it."""

    image: MetadataImage
    raft_index: int  # -1 in a snapshot that was written before the quorum existed


def encode_snapshot(image: MetadataImage, *, index: int = -1) -> Iterator[bytearray]:
    """Yield the batches of a snapshot file.

    The Raft index of its last entry is the `producer_id` of the first batch, as it is in an entry's batch.
    """
    epoch, timestamp_ms = image.epoch, image.timestamp_ms
    header = encode(SnapshotHeaderRecord(last_contained_log_timestamp=timestamp_ms), 0)
    yield _control_batch(ControlKind.SNAPSHOT_HEADER, header, 0, image, index=index)
    offset = 1
    records = image_records(image)
    while batch := list(islice(records, RECORDS_PER_BATCH)):
        yield encode_batch(MetadataBatch(offset, epoch, timestamp_ms, batch, image.metadata_version))
        offset += len(batch)
    yield _control_batch(ControlKind.SNAPSHOT_FOOTER, encode(SnapshotFooterRecord(), 0), offset, image)


def _control_batch(
    kind: ControlKind, value: bytes, offset: int, image: MetadataImage, *, index: int = -1
) -> bytearray:
    return build_batch(
        [(control_key(kind), value, image.timestamp_ms, ())],
        base_offset=offset,
        partition_leader_epoch=image.epoch,
        producer_id=index,
        is_control=True,
    )


def decode_snapshot(buffer: bytes, *, empty: MetadataImage, version: int, epoch: int) -> MetadataImage:
    """Return the image of a snapshot that ends at the log offset `version`; CORRUPT_MESSAGE if incomplete."""
    return read_snapshot(buffer, empty=empty, version=version, epoch=epoch).image


def read_snapshot(buffer: bytes, *, empty: MetadataImage, version: int, epoch: int) -> SnapshotContent:
    """Return image and Raft index of a snapshot that ends at the log offset `version`.

    CORRUPT_MESSAGE or INVALID_RECORD if it is damaged.
    """
    delta = MetadataDelta(empty)
    position, expected_offset, timestamp_ms, index = 0, 0, -1, -1
    kinds: list[int] = []
    while position < len(buffer):
        batch, header = decode_batch(buffer, position)
        is_in_place = header.base_offset == expected_offset and header.partition_leader_epoch == epoch
        if not is_in_place or ControlKind.SNAPSHOT_FOOTER in kinds:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"A snapshot is damaged at position {position}.")
        if header.is_control:
            kind, _ = control_record(memoryview(buffer)[position : position + header.size_bytes])
            kinds.append(kind)
            if kind == ControlKind.SNAPSHOT_HEADER:
                index = header.producer_id
        for record in batch.records:
            delta.replay(record)
        timestamp_ms = batch.timestamp_ms
        position += header.size_bytes
        expected_offset = header.next_offset
    if kinds != [ControlKind.SNAPSHOT_HEADER, ControlKind.SNAPSHOT_FOOTER]:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "A snapshot has no header or no footer.")
    return SnapshotContent(delta.apply(version=version, epoch=epoch, timestamp_ms=timestamp_ms), index)


def _in_order(entity: QuotaEntity) -> list[tuple[str, bool, str]]:
    """Return the sort key of an entity: a part without a name comes first."""
    return [(kind, name is not None, name or "") for kind, name in entity]


def _broker_record(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.broker_epoch,
        end_points=endpoint_records(broker.listeners),
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in sorted(broker.features.items())
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
        page_cache_id=broker.page_cache_id,
        peer_listener=broker.peer_listener,
        controller_end_points=endpoint_records(broker.controllers),
    )


def _voter(voter: VoterImage) -> Voter:
    return Voter(
        voter_id=voter.voter_id,
        voter_directory_id=voter.directory_id,
        endpoints=[
            VoterEndpoint(name=name, host=point.host, port=point.port)
            for name, point in sorted(voter.endpoints.items())
        ],
    )


def _partition_record(topic_id: bytes, partition: PartitionImage) -> PartitionRecord:
    return PartitionRecord(
        partition_id=partition.partition,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        eligible_leader_replicas=partition.eligible_leader_replicas or None,
        last_known_elr=partition.last_known_elr or None,
    )
