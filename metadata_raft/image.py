"""The cluster's metadata as brokers see it at one offset of the log.

An image never changes: `delta` makes the next one, which shares with the last whatever stayed the same, so an
old image may be held for as long as somebody needs it. Ids of topics, directories and the cluster are 16
bytes; offsets and epochs as in Kafka.
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
EVERY_BROKER: Final = ""  # the resource name under which the defaults of all brokers stand

_NOTHING: Mapping[str, str] = MappingProxyType({})


class PartitionImage(NamedTuple):
    """One partition: who holds it, who leads, who is in sync."""

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
    eligible_leader_replicas: tuple[int, ...] = ()  # not in sync, with every acknowledged record
    last_known_elr: tuple[int, ...] = ()  # the last leader, while there is none

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    def directory(self, broker_id: int) -> bytes:
        """The id of the log directory in which one of its replicas lies."""
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
        """The names of its partitions."""
        for index in range(len(self.partitions)):
            yield TopicPartition(self.name, index)


class Endpoint(NamedTuple):
    """Where a broker can be reached over one of its listeners."""

    host: str
    port: int
    security_protocol: int = PLAINTEXT


def endpoints_by_name(points: Sequence[BrokerEndpoint]) -> dict[str, Endpoint]:
    """Return the addresses of listeners as they stand in records."""
    return {point.name: Endpoint(point.host, point.port, point.security_protocol) for point in points}


def endpoint_records(points: Mapping[str, Endpoint]) -> list[BrokerEndpoint]:
    """Return the addresses of listeners for a record, in the order of their names."""
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
    page_cache_id: bytes = ZERO_UUID  # in which it keeps what it has not synced; zeros if it cannot tell
    peer_listener: str = ""  # the listener at which it serves other nodes; "" if it did not tell
    controllers: Mapping[str, Endpoint] = MappingProxyType({})  # where it listens for controllers

    @property
    def is_active(self) -> bool:
        """Whether replicas may be placed on it and lead."""
        return not (self.fenced or self.in_controlled_shutdown)

    def endpoint_for_peers(self, own_listener: str) -> Endpoint | None:
        """Return where it serves other nodes, of which the one that asks has its listener for them."""
        return self.listeners.get(self.peer_listener or own_listener)

    def has_online_dir(self, directory: bytes) -> bool:
        """Whether a replica in that directory can be served; one that lies somewhere is believed to."""
        if directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY):
            return True
        # A broker without directories is of the time before they were named.
        return directory != LOST_DIRECTORY and (not self.log_dirs or directory in self.log_dirs)


class RequestTable(NamedTuple):
    """The commands of one broker process that were carried out and whose replies may be asked for again."""

    oldest_open_sequence: int
    replies: Mapping[int, bytes]  # sequence -> encoded reply


class VoterImage(NamedTuple):
    """One voter of the metadata quorum; directory and endpoints are unknown (zero, empty) until it told."""

    voter_id: int
    directory_id: bytes
    endpoints: Mapping[str, Endpoint]


class ScramKey(NamedTuple):
    """The user and the mechanism of a SCRAM credential."""

    user: str
    mechanism: int


class ScramCredential(NamedTuple):
    """By what a user's password is checked (RFC 5802); shown nowhere: weak passwords are found by it."""

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

# Type and name of each part, by type; without a name: all that have no quota of their own.
QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsImage:
    """All topics."""

    by_name: Mapping[str, TopicImage] = field(default_factory=dict)
    by_id: Mapping[bytes, TopicImage] = field(default_factory=dict)
    # Names without '.' and '_' confusion -> the topics that have one of these characters. Two of them were
    # made by one request.
    by_collision_name: Mapping[str, frozenset[str]] = field(default_factory=dict)
    partition_count: int = 0
    leader_counts: Mapping[int, int] = field(default_factory=dict)  # broker -> partitions that it leads

    def partition(self, topic_partition: TopicPartition) -> PartitionImage | None:
        """One partition by name."""
        topic = self.by_name.get(topic_partition.topic)
        if topic is None or not 0 <= topic_partition.partition < len(topic.partitions):
            return None
        return topic.partitions[topic_partition.partition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigsImage:
    """The settings that were altered, by resource."""

    by_resource: Mapping[tuple[int, str], Mapping[str, str]] = field(default_factory=dict)

    def of(self, resource_type: ConfigResourceType, name: str) -> Mapping[str, str]:
        """What was set for one resource, empty if nothing."""
        return self.by_resource.get((resource_type, name), _NOTHING)

    def topic(self, name: str) -> Mapping[str, str]:
        """What was set for a topic."""
        return self.of(ConfigResourceType.TOPIC, name)

    def broker(self, broker_id: int | None) -> Mapping[str, str]:
        """What was set for one broker, or with None for all of them."""
        return self.of(ConfigResourceType.BROKER, EVERY_BROKER if broker_id is None else str(broker_id))

    def group(self, group_id: str) -> Mapping[str, str]:
        """What was set for a consumer group."""
        return self.of(ConfigResourceType.GROUP, group_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImage:
    """Everything that the metadata log says up to the offset `version`."""

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
    voters: tuple[VoterImage, ...] = ()  # empty: those of the configuration
    acls: AclSet = field(default_factory=AclSet)
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    scram_credentials: Mapping[ScramKey, ScramCredential] = field(default_factory=dict)

    @property
    def metadata_version(self) -> int:
        """The level in which records are written; the highest while none is finalized."""
        level = self.features.get(METADATA_VERSION, LATEST_METADATA_VERSION)
        return min(max(level, LOWEST_METADATA_VERSION), LATEST_METADATA_VERSION)

    @property
    def group_version(self) -> int:
        """1 if groups may speak the consumer protocol (KIP-848), else 0."""
        return self.features.get(GROUP_VERSION, 0)

    @property
    def transaction_version(self) -> int:
        """By which rules transactions are kept: 0, 1 or 2."""
        return self.features.get(TRANSACTION_VERSION, 0)

    @property
    def share_version(self) -> int:
        """1 if there may be share groups (KIP-932), 2 if they may have dead letters (KIP-1191), else 0."""
        return self.features.get(SHARE_VERSION, 0)

    @property
    def has_eligible_leader_replicas(self) -> bool:
        """Return whether replicas that left an ISR of too few may still lead (KIP-966)."""
        return self.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) >= 1

    @property
    def security_version(self) -> int:
        """1 if the metadata may hold access control entries, client quotas and SCRAM credentials, else 0."""
        return self.features.get(SECURITY_VERSION, 0)

    def active_brokers(self) -> list[BrokerImage]:
        """The brokers that are up, by id."""
        return [broker for _, broker in sorted(self.brokers.items()) if broker.is_active]

    def offline_replicas(self, partition: PartitionImage) -> list[int]:
        """The replicas of a partition whose broker is not up, or whose log directory is offline."""
        brokers = self.brokers
        return [
            replica
            for replica, directory in zip(partition.replicas, partition.directories, strict=True)
            if (broker := brokers.get(replica)) is None
            or broker.fenced
            or not broker.has_online_dir(directory)
        ]


def normalized_name(name: str) -> str | None:
    """What a topic name with '.' or '_' collides under, None for a name that cannot collide."""
    return name.replace(".", "_") if "." in name or "_" in name else None


def check_invariants(image: MetadataImage) -> None:
    """Assert what holds in every image; for tests."""
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
