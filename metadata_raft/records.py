"""The records that make up the cluster's metadata, in Apache Kafka's own schemas.

The durable state of the controller is a sequence of these records; `delta` applies each of them. Names,
fields, keys and tags are those of Kafka 4.3's metadata log (KIP-500 and the KIPs that each class names), so
`kafka-dump-log --cluster-metadata-decoder` reads ours. Ids of topics, incarnations and directories have 16
bytes.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, TypeAlias

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct

NO_LEADER: Final = -1
PAGE_CACHE_TAG: Final = 10_000
PEER_LISTENER_TAG: Final = 10_001
CONTROLLERS_TAG: Final = 10_002
NO_LEADER_CHANGE: Final = -2
# KIP-858's reserved directory ids. A record without directories leaves those of its replicas unknown
# (migrating); an unassigned replica lies where its broker will choose, a lost one in a directory that is not
# known any more.
MIGRATING_DIRECTORY: Final = bytes(16)
UNASSIGNED_DIRECTORY: Final = bytes(15) + b"\1"
LOST_DIRECTORY: Final = bytes(15) + b"\2"
LAST_RESERVED_DIRECTORY: Final = bytes(15) + b"\x63"  # ids of real directories are above it


class ConfigResourceType(IntEnum):
    """The type of the resource of a ConfigRecord, numbered as in the requests that alter configs (int8)."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class FencingChange(IntEnum):
    """The change of a broker's fencing in a BrokerRegistrationChangeRecord (int8)."""

    UNFENCE = -1
    NONE = 0
    FENCE = 1


@struct
class BrokerEndpoint:
    name: str = schema.string()
    host: str = schema.string()
    port: int = schema.uint16()
    security_protocol: int = schema.int16()


@struct
class BrokerFeature:
    name: str = schema.string()
    min_supported_version: int = schema.int16()
    max_supported_version: int = schema.int16()


@message(api_key=0, versions=(0, 4), flexible_since=0)
class RegisterBrokerRecord:
    """A broker registered; its broker epoch is the offset of this record."""

    broker_id: int = schema.int32()
    is_migrating_zk_broker: bool = schema.boolean(since=2)
    incarnation_id: bytes = schema.uuid()
    broker_epoch: int = schema.int64()
    end_points: Sequence[BrokerEndpoint] = schema.array(BrokerEndpoint)
    features: Sequence[BrokerFeature] = schema.array(BrokerFeature)
    rack: str | None = schema.string(nullable_since=0)
    fenced: bool = schema.boolean(default=True)
    in_controlled_shutdown: bool = schema.boolean(since=1)
    log_dirs: Sequence[bytes] = schema.array(schema.uuid, since=3, tag=0)
    cordoned_log_dirs: Sequence[bytes] | None = schema.array(
        schema.uuid, since=4, tag=1, nullable_since=4, default=None
    )
    # Not in Apache Kafka, whose tools skip tags that they do not know.
    page_cache_id: bytes = schema.uuid(tag=PAGE_CACHE_TAG)
    peer_listener: str = schema.string(tag=PEER_LISTENER_TAG, default="")
    controller_end_points: Sequence[BrokerEndpoint] = schema.array(BrokerEndpoint, tag=CONTROLLERS_TAG)


@message(api_key=1, versions=(0, 0), flexible_since=0)
class UnregisterBrokerRecord:
    """A broker was removed from the cluster."""

    broker_id: int = schema.int32()
    broker_epoch: int = schema.int64()


@message(api_key=2, versions=(0, 0), flexible_since=0)
class TopicRecord:
    """A topic was created; its partitions follow in the same batch."""

    name: str = schema.string()
    topic_id: bytes = schema.uuid()


@message(api_key=3, versions=(0, 2), flexible_since=0)
class PartitionRecord:
    """The complete state of one partition."""

    partition_id: int = schema.int32(default=-1)
    topic_id: bytes = schema.uuid()
    replicas: Sequence[int] = schema.array(schema.int32)
    isr: Sequence[int] = schema.array(schema.int32)
    removing_replicas: Sequence[int] = schema.array(schema.int32)
    adding_replicas: Sequence[int] = schema.array(schema.int32)
    leader: int = schema.int32(default=NO_LEADER)
    leader_recovery_state: int = schema.int8(tag=0)
    leader_epoch: int = schema.int32(default=-1)
    partition_epoch: int = schema.int32(default=-1)
    directories: Sequence[bytes] = schema.array(schema.uuid, since=1)
    eligible_leader_replicas: Sequence[int] | None = schema.array(
        schema.int32, since=2, tag=1, nullable_since=2, default=None
    )
    last_known_elr: Sequence[int] | None = schema.array(
        schema.int32, since=2, tag=2, nullable_since=2, default=None
    )


@message(api_key=4, versions=(0, 0), flexible_since=0)
class ConfigRecord:
    """One setting of one resource; a null value removes it."""

    resource_type: int = schema.int8()
    resource_name: str = schema.string()
    name: str = schema.string()
    value: str | None = schema.string(nullable_since=0)


@message(api_key=5, versions=(0, 2), flexible_since=0)
class PartitionChangeRecord:
    """The changed fields of one partition.

    The partition epoch increases by one; so does the leader epoch if the record names a leader.
    """

    partition_id: int = schema.int32(default=-1)
    topic_id: bytes = schema.uuid()
    isr: Sequence[int] | None = schema.array(schema.int32, tag=0, nullable_since=0, default=None)
    leader: int = schema.int32(tag=1, default=NO_LEADER_CHANGE)
    replicas: Sequence[int] | None = schema.array(schema.int32, tag=2, nullable_since=0, default=None)
    removing_replicas: Sequence[int] | None = schema.array(
        schema.int32, tag=3, nullable_since=0, default=None
    )
    adding_replicas: Sequence[int] | None = schema.array(schema.int32, tag=4, nullable_since=0, default=None)
    leader_recovery_state: int = schema.int8(tag=5, default=-1)
    directories: Sequence[bytes] | None = schema.array(
        schema.uuid, since=1, tag=8, nullable_since=1, default=None
    )
    eligible_leader_replicas: Sequence[int] | None = schema.array(
        schema.int32, since=2, tag=6, nullable_since=2, default=None
    )
    last_known_elr: Sequence[int] | None = schema.array(
        schema.int32, since=2, tag=7, nullable_since=2, default=None
    )


@message(api_key=9, versions=(0, 0), flexible_since=0)
class RemoveTopicRecord:
    """A topic was deleted, with its partitions and its configs."""

    topic_id: bytes = schema.uuid()


@message(api_key=11, versions=(0, 0), flexible_since=0)
class UserScramCredentialRecord:
    """The SCRAM credential of a user for one mechanism (KIP-554); it replaces the previous one."""

    name: str = schema.string()
    mechanism: int = schema.int8()  # a ScramMechanism
    salt: bytes = schema.secret()
    stored_key: bytes = schema.secret()
    server_key: bytes = schema.secret()
    iterations: int = schema.int32()


@message(api_key=12, versions=(0, 0), flexible_since=0)
class FeatureLevelRecord:
    """The finalized level of a feature (KIP-584); 0 removes it."""

    name: str = schema.string()
    feature_level: int = schema.int16()


@struct
class QuotaEntityPart:
    """One part of a quota's entity: a user, client id or address; null is the default of its type."""

    entity_type: str = schema.string()
    entity_name: str | None = schema.string(nullable_since=0)


@message(api_key=14, versions=(0, 0), flexible_since=0)
class ClientQuotaRecord:
    """One quota of one entity was set or removed (KIP-546)."""

    entity: Sequence[QuotaEntityPart] = schema.array(QuotaEntityPart)
    key: str = schema.string()
    value: float = schema.float64()
    remove: bool = schema.boolean()


@message(api_key=15, versions=(0, 0), flexible_since=0)
class ProducerIdsRecord:
    """A broker was given a block of producer ids (KIP-730); `next_producer_id` begins the next block."""

    broker_id: int = schema.int32()
    broker_epoch: int = schema.int64(default=-1)
    next_producer_id: int = schema.int64()


@message(api_key=17, versions=(0, 3), flexible_since=0)
class BrokerRegistrationChangeRecord:
    """A broker was fenced or unfenced, or began a controlled shutdown, or lost log directories."""

    broker_id: int = schema.int32()
    broker_epoch: int = schema.int64()
    fenced: int = schema.int8(tag=0)
    in_controlled_shutdown: int = schema.int8(since=1, tag=1)
    log_dirs: Sequence[bytes] = schema.array(schema.uuid, since=2, tag=2)
    cordoned_log_dirs: Sequence[bytes] | None = schema.array(
        schema.uuid, since=3, tag=3, nullable_since=3, default=None
    )


@message(api_key=18, versions=(0, 0), flexible_since=0)
class AccessControlEntryRecord:
    """An access control entry was added (KIP-801); it is removed by its `id`."""

    id: bytes = schema.uuid()
    resource_type: int = schema.int8()
    resource_name: str = schema.string()
    pattern_type: int = schema.int8()
    principal: str = schema.string()
    host: str = schema.string()
    operation: int = schema.int8()
    permission_type: int = schema.int8()


@message(api_key=19, versions=(0, 0), flexible_since=0)
class RemoveAccessControlEntryRecord:
    """An access control entry was removed."""

    id: bytes = schema.uuid()


@message(api_key=20, versions=(0, 0), flexible_since=0)
class NoOpRecord:
    """A record without content, which advances the log."""


@message(api_key=22, versions=(0, 0), flexible_since=0)
class RemoveUserScramCredentialRecord:
    """The SCRAM credential of a user for one mechanism was removed."""

    name: str = schema.string()
    mechanism: int = schema.int8()


# ---- records of Ottla's own --------------------------------------------------------------------------------
# Their types are far above Kafka's, whose tools print the rest of a log that has them.


@message(api_key=30000, versions=(0, 0), flexible_since=0)
class RequestRecord:
    """The command `sequence` of a broker was carried out by this batch; its reply is kept for a retry.

    Replies to commands before `oldest_open_sequence` reached the broker and are removed.
    """

    broker_epoch: int = schema.int64()
    sequence: int = schema.int64()
    oldest_open_sequence: int = schema.int64()
    reply: bytes = schema.bytes_()


@struct
class VoterEndpoint:
    name: str = schema.string()
    host: str = schema.string()
    port: int = schema.uint16()


@struct
class Voter:
    voter_id: int = schema.int32()
    voter_directory_id: bytes = schema.uuid()
    endpoints: Sequence[VoterEndpoint] = schema.array(VoterEndpoint)


@message(api_key=30001, versions=(0, 0), flexible_since=0)
class RaftVotersRecord:
    """The complete set of voters of the metadata quorum, from this record on."""

    voters: Sequence[Voter] = schema.array(Voter)


MetadataRecord: TypeAlias = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | RemoveTopicRecord
    | UserScramCredentialRecord
    | FeatureLevelRecord
    | ClientQuotaRecord
    | ProducerIdsRecord
    | BrokerRegistrationChangeRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | NoOpRecord
    | RemoveUserScramCredentialRecord
    | RequestRecord
    | RaftVotersRecord
)

# ---- the frame of a snapshot of Kafka's --------------------------------------------------------------------


@message(versions=(0, 0), flexible_since=0)
class SnapshotHeaderRecord:
    """The first record of a snapshot (a control record of type 3)."""

    version: int = schema.int16()
    last_contained_log_timestamp: int = schema.int64()


@message(versions=(0, 0), flexible_since=0)
class SnapshotFooterRecord:
    """The last record of a snapshot (a control record of type 4); without it the snapshot is incomplete."""

    version: int = schema.int16()
