"""The cluster's metadata as brokers see it at one offset of the log.

An image is immutable. `delta` makes the next one, which shares everything unchanged with the last, so an old
image may be kept for as long as it is needed. Ids of topics, directories and the cluster have 16 bytes;
offsets and epochs are Kafka's.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition
from ottla.metadata_raft import acl_set
from ottla.metadata_raft.acl_set import AclSet
from ottla.metadata_raft.cluster_features import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    GROUP_VERSION,
    SECURITY_VERSION,
    SHARE_VERSION,
    TRANSACTION_VERSION,
)
from ottla.metadata_raft.metadata_version import (
    LATEST_METADATA_VERSION,
    LOWEST_METADATA_VERSION,
    METADATA_VERSION,
)
from ottla.metadata_raft.records import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    BrokerEndpoint,
    ConfigResourceType,
)

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
METADATA_TOPIC: Final = "__cluster_metadata"
# The security protocol of a listener in records.
PLAINTEXT: Final = 0
SSL: Final = 1
SASL_PLAINTEXT: Final = 2
SASL_SSL: Final = 3
EVERY_BROKER: Final = ""  # the resource name of the cluster-wide defaults of brokers

_NOTHING: Mapping[str, str] = MappingProxyType({})


class PartitionImage(NamedTuple):
    """The state of one partition: its replicas, its leader, its ISR."""

    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int  # -1 for none
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    eligible_leader_replicas: tuple[int, ...] = ()  # not in sync, but with every acknowledged record
    last_known_elr: tuple[int, ...] = ()  # the last leader, while the partition has none

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    def directory(self, broker_id: int) -> bytes:
        """Return the id of the log directory of the replica on this broker."""
        return self.directories[self.replicas.index(broker_id)]


class TopicImage(NamedTuple):
    """One topic; `partitions[n].partition == n`."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionImage, ...]

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    def topic_partitions(self) -> Iterator[TopicPartition]:
        """Yield the name and index of each partition."""
        for index in range(len(self.partitions)):
            yield TopicPartition(self.name, index)


class Endpoint(NamedTuple):
    """The address of one listener of a broker."""

    host: str
    port: int
    security_protocol: int = PLAINTEXT


def endpoints_by_name(points: Sequence[BrokerEndpoint]) -> dict[str, Endpoint]:
    """Return the addresses of the listeners in a record, by name."""
    return {point.name: Endpoint(point.host, point.port, point.security_protocol) for point in points}


def endpoint_records(points: Mapping[str, Endpoint]) -> list[BrokerEndpoint]:
    """Return the addresses of listeners for a record, ordered by name."""
    return [
        BrokerEndpoint(name=name, host=point.host, port=point.port, security_protocol=point.security_protocol)
        for name, point in sorted(points.items())
    ]


class BrokerImage(NamedTuple):
    """One registered broker."""

    broker_id: int
    broker_epoch: int
    incarnation_id: bytes
    listeners: Mapping[str, Endpoint]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[bytes, ...]
    features: Mapping[str, tuple[int, int]]  # name -> lowest and highest level supported
    page_cache_id: bytes = ZERO_UUID  # of the page cache with its unsynced data; zeros if unknown
    peer_listener: str = ""  # the listener at which it serves other nodes; "" if not registered
    controllers: Mapping[str, Endpoint] = MappingProxyType({})  # its listeners for controllers

    @property
    def is_active(self) -> bool:
        """True if replicas may be placed on it, and may lead there."""
        return not (self.fenced or self.in_controlled_shutdown)

    def endpoint_for_peers(self, own_listener: str) -> Endpoint | None:
        """Return the address at which it serves other nodes.

        `own_listener` is the inter-broker listener of the calling node, used if the broker registered none.
        """
        return self.listeners.get(self.peer_listener or own_listener)

    def has_online_dir(self, directory: bytes) -> bool:
        """Return True if a replica in that directory can be served; an unknown directory counts as online."""
        if directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY):
            return True
        # A broker without directories registered before directories had ids.
        return directory != LOST_DIRECTORY and (not self.log_dirs or directory in self.log_dirs)


class RequestTable(NamedTuple):
    """The commands of one broker epoch that were carried out and may be sent again, with their replies."""

    oldest_open_sequence: int
    replies: Mapping[int, bytes]  # sequence -> encoded reply


class VoterImage(NamedTuple):
    """One voter of the metadata quorum; directory and endpoints are zero and empty until they are known."""

    voter_id: int
    directory_id: bytes
    endpoints: Mapping[str, Endpoint]


class ScramKey(NamedTuple):
    """The user and the mechanism of a SCRAM credential."""

    user: str
    mechanism: int


class ScramCredential(NamedTuple):
    """The keys that verify a user's password (RFC 5802); not printed, as weak passwords can be guessed."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


# The types of the parts of a quota's entity.
USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

# (type, name) of each part, sorted by type; None is the default of the type.
QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsImage:
    """All topics."""

    by_name: Mapping[str, TopicImage] = field(default_factory=dict)
    by_id: Mapping[bytes, TopicImage] = field(default_factory=dict)
    # Name with each '.' replaced by '_' -> the topics with '.' or '_' that share it. Several topics share one
    # only if one request created them.
    by_collision_name: Mapping[str, frozenset[str]] = field(default_factory=dict)
    partition_count: int = 0
    leader_counts: Mapping[int, int] = field(default_factory=dict)  # broker -> number of partitions it leads

    def partition(self, topic_partition: TopicPartition) -> PartitionImage | None:
        """Return a partition by name and index; None if it does not exist."""
        topic = self.by_name.get(topic_partition.topic)
        if topic is None or not 0 <= topic_partition.partition < len(topic.partitions):
            return None
        return topic.partitions[topic_partition.partition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigsImage:
    """The settings that were altered, by resource."""

    by_resource: Mapping[tuple[int, str], Mapping[str, str]] = field(default_factory=dict)

    def of(self, resource_type: ConfigResourceType, name: str) -> Mapping[str, str]:
        """Return the settings of a resource; empty if none were altered."""
        return self.by_resource.get((resource_type, name), _NOTHING)

    def topic(self, name: str) -> Mapping[str, str]:
        """Return the settings of a topic."""
        return self.of(ConfigResourceType.TOPIC, name)

    def broker(self, broker_id: int | None) -> Mapping[str, str]:
        """Return the settings of a broker, or with None the cluster-wide defaults."""
        return self.of(ConfigResourceType.BROKER, EVERY_BROKER if broker_id is None else str(broker_id))

    def group(self, group_id: str) -> Mapping[str, str]:
        """Return the settings of a group."""
        return self.of(ConfigResourceType.GROUP, group_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImage:
    """The state of the metadata at the offset `version` of its log."""

    version: int = -1  # the offset of the last record in it
    epoch: int = 0  # the quorum's epoch of that record
    timestamp_ms: int = -1  # when the controller decided it
    cluster_id: bytes = ZERO_UUID
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: ConfigsImage = field(default_factory=ConfigsImage)
    features: Mapping[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    requests: Mapping[int, RequestTable] = field(default_factory=dict)  # by broker epoch
    voters: tuple[VoterImage, ...] = ()  # empty: the voters of the configuration
    acls: AclSet = field(default_factory=AclSet)
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    scram_credentials: Mapping[ScramKey, ScramCredential] = field(default_factory=dict)

    @property
    def metadata_version(self) -> int:
        """The level at which records are written; the highest if none is finalized."""
        level = self.features.get(METADATA_VERSION, LATEST_METADATA_VERSION)
        return min(max(level, LOWEST_METADATA_VERSION), LATEST_METADATA_VERSION)

    @property
    def group_version(self) -> int:
        """1 if groups may use the consumer protocol (KIP-848), else 0."""
        return self.features.get(GROUP_VERSION, 0)

    @property
    def transaction_version(self) -> int:
        """The version of the transaction protocol: 0, 1 or 2."""
        return self.features.get(TRANSACTION_VERSION, 0)

    @property
    def share_version(self) -> int:
        """1 if share groups are allowed (KIP-932), 2 if they may have dead letters (KIP-1191), else 0."""
        return self.features.get(SHARE_VERSION, 0)

    @property
    def has_eligible_leader_replicas(self) -> bool:
        """True if replicas outside the ISR with every acknowledged record may lead (KIP-966)."""
        return self.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) >= 1

    @property
    def security_version(self) -> int:
        """1 if the metadata may hold access control entries, client quotas and SCRAM credentials, else 0."""
        return self.features.get(SECURITY_VERSION, 0)

    def active_brokers(self) -> list[BrokerImage]:
        """Return the active brokers, ordered by id."""
        return [broker for _, broker in sorted(self.brokers.items()) if broker.is_active]

    def offline_replicas(self, partition: PartitionImage) -> list[int]:
        """Return a partition's replicas on fenced or unknown brokers, or in offline directories."""
        brokers = self.brokers
        return [
            replica
            for replica, directory in zip(partition.replicas, partition.directories, strict=True)
            if (broker := brokers.get(replica)) is None
            or broker.fenced
            or not broker.has_online_dir(directory)
        ]


def normalized_name(name: str) -> str | None:
    """Return the name under which topic names with '.' or '_' collide; None if the name cannot collide."""
    return name.replace(".", "_") if "." in name or "_" in name else None


def check_invariants(image: MetadataImage) -> None:
    """Assert the invariants of an image; for tests."""
    topics = image.topics
    assert len(topics.by_name) == len(topics.by_id)
    colliding = sum(normalized_name(name) is not None for name in topics.by_name)
    assert sum(map(len, topics.by_collision_name.values())) == colliding
    assert topics.partition_count == sum(len(topic.partitions) for topic in topics.by_name.values())
    leaders = (partition.leader for topic in topics.by_name.values() for partition in topic.partitions)
    assert topics.leader_counts == Counter(leader for leader in leaders if leader != NO_LEADER)
    for name, topic in topics.by_name.items():
        assert topic.name == name and topics.by_id[topic.topic_id] is topic
        collision = normalized_name(name)
        assert collision is None or name in topics.by_collision_name[collision]
        assert topic.partitions, f"{name} has no partitions"
        for index, partition in enumerate(topic.partitions):
            assert partition.partition == index
            assert set(partition.isr) <= set(partition.replicas)
            eligible = set(partition.eligible_leader_replicas)
            assert eligible <= set(partition.replicas) - set(partition.isr)
            assert not (partition.has_leader and partition.last_known_elr)
            assert partition.leader == NO_LEADER or partition.leader in partition.isr
            assert len(partition.directories) == len(partition.replicas)
            assert len(set(partition.replicas)) == len(partition.replicas)
    acl_set.check_invariants(image.acls)
    for entity, quotas in image.client_quotas.items():
        assert entity and quotas, f"no quotas of {entity}"
        assert entity == tuple(sorted(entity, key=lambda part: part[0])), f"{entity} is not sorted"
    for (kind, name), configs in image.configs.by_resource.items():
        assert configs, f"empty configs of {name}"
        if kind == ConfigResourceType.TOPIC:
            assert name in topics.by_name, f"configs of the missing topic {name}"
