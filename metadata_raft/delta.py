"""Applies records to an image, and lists the changes that a broker must act on.

`replay(record)` is the only place where durable metadata changes. A delta collects the changes of any number
of batches over an image, and makes the next image from all of them: of one batch in a running cluster, of the
whole log at start. Only dicts that change are copied, shallowly and once per delta; unchanged partitions and
topics are shared.
"""

from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AccessControlEntry
from ottla.metadata_raft.image import (
    BrokerImage,
    ConfigsImage,
    Endpoint,
    MetadataImage,
    PartitionImage,
    QuotaEntity,
    RequestTable,
    ScramCredential,
    ScramKey,
    TopicImage,
    TopicsImage,
    VoterImage,
    endpoints_by_name,
    normalized_name,
)
from ottla.metadata_raft.record_codec import MetadataBatch
from ottla.metadata_raft.records import (
    MIGRATING_DIRECTORY,
    NO_LEADER,
    NO_LEADER_CHANGE,
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    ConfigResourceType,
    FeatureLevelRecord,
    FencingChange,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RaftVotersRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    RequestRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    Voter,
)

K = TypeVar("K")
V = TypeVar("V")


RECORDS_PER_STEP: Final = 16  # some 20 us


class ChangedTopic(NamedTuple):
    """A topic before and after; None where it did not exist."""

    before: TopicImage | None
    after: TopicImage | None


class MetadataChanges(NamedTuple):
    """The differences between two images."""

    topics: tuple[ChangedTopic, ...]  # a topic that was deleted and created again is listed twice, in order
    configs: frozenset[tuple[int, str]]  # (ConfigResourceType, resource name)
    brokers: frozenset[int]
    features: bool
    voters: bool = False
    acls: bool = False
    client_quotas: frozenset[QuotaEntity] = frozenset()
    scram_credentials: frozenset[ScramKey] = frozenset()


class MetadataDelta:
    """The changes to the image `base`, which itself is not modified."""

    def __init__(self, base: MetadataImage) -> None:
        self.base = base
        self._topics: dict[bytes, _TopicDelta | None] = {}  # None: removed
        self._created_names: dict[str, bytes] = {}
        self._configs: dict[tuple[int, str], dict[str, str]] = {}
        self._brokers: dict[int, BrokerImage | None] = {}
        self._features: dict[str, int] | None = None
        self._next_producer_id = base.next_producer_id
        self._requests: dict[int, RequestTable] | None = None
        self._voters = base.voters
        self._acls: dict[bytes, AccessControlEntry | None] = {}  # None: removed
        self._acl_ids: dict[AccessControlEntry, bytes | None] = {}
        self._client_quotas: dict[QuotaEntity, dict[str, float]] = {}
        self._scram_credentials: dict[ScramKey, ScramCredential | None] = {}

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record; CORRUPT_MESSAGE if it contradicts the state before it."""
        match record:
            case PartitionRecord():
                self._topic(record.topic_id).put(_partition_image(record))
            case PartitionChangeRecord():
                self._topic(record.topic_id).change(record)
            case TopicRecord():
                self._create_topic(record)
            case RemoveTopicRecord():
                self._remove_topic(record.topic_id)
            case ConfigRecord():
                self._replay_config(record)
            case RegisterBrokerRecord():
                self._forget_requests(record.broker_id, but=record.broker_epoch)
                self._brokers[record.broker_id] = _broker_image(record)
            case BrokerRegistrationChangeRecord():
                self._change_broker(record)
            case UnregisterBrokerRecord():
                self._forget_requests(record.broker_id)
                self._brokers[record.broker_id] = None
            case FeatureLevelRecord():
                features = dict(self.base.features if self._features is None else self._features)
                self._features = features
                features[record.name] = record.feature_level
                if not record.feature_level:
                    del features[record.name]
            case ProducerIdsRecord():
                self._next_producer_id = record.next_producer_id
            case RequestRecord():
                self._replay_request(record)
            case RaftVotersRecord():
                self._voters = tuple(_voter_image(voter) for voter in record.voters)
            case AccessControlEntryRecord():
                self._add_acl(record)
            case RemoveAccessControlEntryRecord():
                self._remove_acl(record.id)
            case ClientQuotaRecord():
                self._replay_client_quota(record)
            case UserScramCredentialRecord():
                self._scram_credentials[ScramKey(record.name, record.mechanism)] = ScramCredential(
                    record.salt, record.stored_key, record.server_key, record.iterations
                )
            case RemoveUserScramCredentialRecord():
                self._remove_scram_credential(ScramKey(record.name, record.mechanism))
            case NoOpRecord():
                pass

    def changes(self) -> MetadataChanges:
        """Return the changes that a broker must act on, after all records were replayed."""
        topics = [
            ChangedTopic(self.base.topics.by_id.get(topic_id), None if topic is None else topic.image())
            for topic_id, topic in self._topics.items()
        ]
        return MetadataChanges(
            # A topic that was created and deleted within one delta is no change.
            topics=tuple(topic for topic in topics if topic.before is not topic.after),
            configs=frozenset(self._configs),
            brokers=frozenset(self._brokers),
            features=self._features is not None,
            voters=self._voters != self.base.voters,
            acls=bool(self._acls),
            client_quotas=frozenset(self._client_quotas),
            scram_credentials=frozenset(self._scram_credentials),
        )

    def apply(self, *, version: int, epoch: int, timestamp_ms: int) -> MetadataImage:
        """Return the image with all changes; its last record has the offset `version`."""
        base = self.base
        return replace(
            base,
            version=version,
            epoch=epoch,
            timestamp_ms=timestamp_ms,
            brokers=self._next_brokers(),
            topics=self._next_topics(),
            configs=self._next_configs(),
            features=base.features if self._features is None else MappingProxyType(self._features),
            next_producer_id=self._next_producer_id,
            requests=base.requests if self._requests is None else self._requests,
            voters=self._voters,
            acls=base.acls.changed(self._acls),
            client_quotas=_with_changes(base.client_quotas, self._client_quotas),
            scram_credentials=_with_changes(base.scram_credentials, self._scram_credentials),
        )

    # ---- topics ----------------------------------------------------------------------------------------

    def _topic(self, topic_id: bytes) -> "_TopicDelta":
        topic = self._topics.get(topic_id)
        if topic is None:
            image = None if topic_id in self._topics else self.base.topics.by_id.get(topic_id)
            if image is None:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"A metadata record names topic {topic_id.hex()}, which does not exist.",
                )
            topic = self._topics[topic_id] = _TopicDelta(image)
        return topic

    def _create_topic(self, record: TopicRecord) -> None:
        known = self._created_names.get(record.name)
        old = self.base.topics.by_name.get(record.name)
        if known is not None or (old is not None and self._topics.get(old.topic_id, old) is not None):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"A metadata record creates topic {record.name}, which already exists.",
            )
        self._created_names[record.name] = record.topic_id
        self._topics[record.topic_id] = _TopicDelta(TopicImage(record.name, record.topic_id, ()))

    def _remove_topic(self, topic_id: bytes) -> None:
        name = self._topic(topic_id).base.name
        if topic_id in self.base.topics.by_id:
            self._topics[topic_id] = None
        else:
            del self._topics[topic_id]
        self._created_names.pop(name, None)
        resource = (ConfigResourceType.TOPIC, name)
        if resource in self._configs or resource in self.base.configs.by_resource:
            self._configs[resource] = {}

    def _next_topics(self) -> TopicsImage:
        base = self.base.topics
        if not self._topics:
            return base
        by_name, by_id = dict(base.by_name), dict(base.by_id)
        collisions = dict(base.by_collision_name)
        count = base.partition_count
        leaders = Counter(base.leader_counts)
        for topic_id, topic in self._topics.items():
            old = base.by_id.get(topic_id)
            if old is not None:
                count -= len(old.partitions)
            if topic is None and old is not None:
                leaders.subtract(partition.leader for partition in old.partitions)
                del by_id[topic_id]
                # The name may already belong to a new topic with another id.
                if by_name[old.name].topic_id == topic_id:
                    del by_name[old.name]
                    _remove_colliding(collisions, old.name)
        for topic_id, topic in self._topics.items():
            if topic is None:
                continue
            image = topic.image()
            by_id[topic_id] = by_name[image.name] = image
            count += len(image.partitions)
            leaders.update(topic.leaders)
            collision = None if topic_id in base.by_id else normalized_name(image.name)
            if collision is not None:
                collisions[collision] = collisions.get(collision, frozenset()) | {image.name}
        leaders.pop(NO_LEADER, None)
        return TopicsImage(
            by_name=by_name,
            by_id=by_id,
            by_collision_name=collisions,
            partition_count=count,
            leader_counts=dict(+leaders),
        )

    # ---- configs ---------------------------------------------------------------------------

    def _replay_config(self, record: ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        configs = self._configs.get(resource)
        if configs is None:
            configs = self._configs[resource] = dict(self.base.configs.by_resource.get(resource, {}))
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value

    def _next_configs(self) -> ConfigsImage:
        if not self._configs:
            return self.base.configs
        return ConfigsImage(by_resource=_with_changes(self.base.configs.by_resource, self._configs))

    # ---- security --------------------------------------------------------------------------------------

    def _acl(self, entry_id: bytes) -> AccessControlEntry | None:
        return self._acls[entry_id] if entry_id in self._acls else self.base.acls.by_id.get(entry_id)

    def _add_acl(self, record: AccessControlEntryRecord) -> None:
        entry = AccessControlEntry(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )
        known = self._acl_ids[entry] if entry in self._acl_ids else self.base.acls.ids.get(entry)
        if known is not None or self._acl(record.id) is not None:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"A metadata record adds the access control entry {record.id.hex()}, which already exists.",
            )
        self._acls[record.id], self._acl_ids[entry] = entry, record.id

    def _remove_acl(self, entry_id: bytes) -> None:
        entry = self._acl(entry_id)
        if entry is None:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"A metadata record removes the access control entry {entry_id.hex()}, which does not exist.",
            )
        self._acls[entry_id] = self._acl_ids[entry] = None

    def _replay_client_quota(self, record: ClientQuotaRecord) -> None:
        parts = ((part.entity_type, part.entity_name) for part in record.entity)
        entity = tuple(sorted(parts, key=lambda part: part[0]))
        quotas = self._client_quotas.get(entity)
        if quotas is None:
            quotas = self._client_quotas[entity] = dict(self.base.client_quotas.get(entity, {}))
        if record.remove:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value

    def _remove_scram_credential(self, key: ScramKey) -> None:
        there = self._scram_credentials.get(key, self.base.scram_credentials.get(key))
        if there is None:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                "A metadata record removes a SCRAM credential of a user who has none of this mechanism.",
            )
        self._scram_credentials[key] = None

    # ---- brokers ---------------------------------------------------------------------------------------

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._brokers.get(record.broker_id, self.base.brokers.get(record.broker_id))
        if broker is None:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"A metadata record changes broker {record.broker_id}, which is not registered.",
            )
        if record.fenced != FencingChange.NONE:
            broker = broker._replace(fenced=record.fenced == FencingChange.FENCE)
        if record.in_controlled_shutdown:
            broker = broker._replace(in_controlled_shutdown=True)
        if record.log_dirs:
            broker = broker._replace(log_dirs=tuple(record.log_dirs))
        self._brokers[record.broker_id] = broker

    def _replay_request(self, record: RequestRecord) -> None:
        if self._requests is None:
            self._requests = dict(self.base.requests)
        requests = self._requests
        known = requests.get(record.broker_epoch)
        oldest = max(record.oldest_open_sequence, known.oldest_open_sequence if known else 0)
        replies = {record.sequence: record.reply}
        if known is not None:
            replies |= known.replies
        open_ones = {sequence: replies[sequence] for sequence in sorted(replies) if sequence >= oldest}
        requests.pop(record.broker_epoch, None)
        if open_ones:
            requests[record.broker_epoch] = RequestTable(oldest, open_ones)

    def _forget_requests(self, broker_id: int, *, but: int | None = None) -> None:
        """Remove the replies kept for a replaced run of a broker, which will not send its commands again."""
        broker = self._brokers.get(broker_id, self.base.brokers.get(broker_id))
        known = self.base.requests if self._requests is None else self._requests
        if broker is not None and broker.broker_epoch != but and broker.broker_epoch in known:
            self._requests = dict(known)
            del self._requests[broker.broker_epoch]

    def _next_brokers(self) -> MappingProxyType[int, BrokerImage] | dict[int, BrokerImage]:
        brokers = dict(self.base.brokers)
        for broker_id, broker in self._brokers.items():
            if broker is None:
                brokers.pop(broker_id, None)
            else:
                brokers[broker_id] = broker
        return brokers


def _with_changes(base: Mapping[K, V], changes: Mapping[K, V | None]) -> Mapping[K, V]:
    """Return `base` or a copy with the changes, if there are any; None or an empty value removes its key."""
    if not changes:
        return base
    after = dict(base)
    for key, value in changes.items():
        if value:
            after[key] = value
        else:
            after.pop(key, None)
    return after


class _TopicDelta:
    """A topic whose partitions change."""

    __slots__ = ("_image", "base", "leaders", "partitions")

    def __init__(self, base: TopicImage) -> None:
        self.base = base
        self.partitions = list(base.partitions)
        self.leaders: Counter[int] = Counter()  # broker -> change of the number of partitions that it leads
        self._image: TopicImage | None = None

    def put(self, partition: PartitionImage) -> None:
        self._image = None
        if partition.partition == len(self.partitions):
            self.partitions.append(partition)
            self.leaders[partition.leader] += 1
        elif 0 <= partition.partition < len(self.partitions):
            self._replace(partition)
        else:
            raise self._out_of_order(partition.partition)

    def change(self, record: PartitionChangeRecord) -> None:
        if not 0 <= record.partition_id < len(self.partitions):
            raise self._out_of_order(record.partition_id)
        self._image = None
        self._replace(changed_partition(self.partitions[record.partition_id], record))

    def _replace(self, partition: PartitionImage) -> None:
        old = self.partitions[partition.partition]
        if old.leader != partition.leader:
            self.leaders[old.leader] -= 1
            self.leaders[partition.leader] += 1
        self.partitions[partition.partition] = partition

    def image(self) -> TopicImage:
        if self._image is None:
            self._image = TopicImage(self.base.name, self.base.topic_id, tuple(self.partitions))
        return self._image

    def _out_of_order(self, partition: int) -> KafkaError:
        return KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"A metadata record names partition {partition} of {self.base.name}, "
            f"which has only {len(self.partitions)} partitions.",
        )


def _partition_image(record: PartitionRecord) -> PartitionImage:
    replicas = tuple(record.replicas)
    return PartitionImage(
        record.partition_id,
        replicas,
        tuple(record.isr),
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        tuple(record.directories) or (MIGRATING_DIRECTORY,) * len(replicas),
        tuple(record.adding_replicas),
        tuple(record.removing_replicas),
        record.leader_recovery_state,
        tuple(record.eligible_leader_replicas or ()),
        tuple(record.last_known_elr or ()),
    )


def changed_partition(old: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """Return the partition after this change."""
    # Written out for speed: a broker that fails changes thousands of partitions at once.
    has_leader = record.leader != NO_LEADER_CHANGE
    recovery_state = record.leader_recovery_state
    eligible, last_known = record.eligible_leader_replicas, record.last_known_elr
    return PartitionImage(
        old.partition,
        old.replicas if record.replicas is None else tuple(record.replicas),
        old.isr if record.isr is None else tuple(record.isr),
        # Naming the current leader again begins a new epoch, too: it may be another run of the broker.
        record.leader if has_leader else old.leader,
        old.leader_epoch + has_leader,
        old.partition_epoch + 1,
        old.directories if record.directories is None else tuple(record.directories),
        old.adding_replicas if record.adding_replicas is None else tuple(record.adding_replicas),
        old.removing_replicas if record.removing_replicas is None else tuple(record.removing_replicas),
        old.leader_recovery_state if recovery_state == -1 else recovery_state,
        old.eligible_leader_replicas if eligible is None else tuple(eligible),
        old.last_known_elr if last_known is None else tuple(last_known),
    )


def _remove_colliding(collisions: dict[str, frozenset[str]], name: str) -> None:
    collision = normalized_name(name)
    if collision is None:
        return
    left = collisions[collision] - {name}
    if left:
        collisions[collision] = left
    else:
        del collisions[collision]


def _broker_image(record: RegisterBrokerRecord) -> BrokerImage:
    return BrokerImage(
        broker_id=record.broker_id,
        broker_epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        listeners=endpoints_by_name(record.end_points),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=tuple(record.log_dirs),
        features={
            feature.name: (feature.min_supported_version, feature.max_supported_version)
            for feature in record.features
        },
        page_cache_id=record.page_cache_id,
        peer_listener=record.peer_listener,
        controllers=endpoints_by_name(record.controller_end_points),
    )


def _voter_image(voter: Voter) -> VoterImage:
    endpoints = {point.name: Endpoint(point.host, point.port) for point in voter.endpoints}
    return VoterImage(voter.voter_id, voter.voter_directory_id, endpoints)


def replay_batch(image: MetadataImage, batch: MetadataBatch) -> tuple[MetadataImage, MetadataChanges]:
    """Return the image after one more batch, and the changes."""
    delta = MetadataDelta(image)
    for record in batch.records:
        delta.replay(record)
    after = delta.apply(version=batch.last_offset, epoch=batch.epoch, timestamp_ms=batch.timestamp_ms)
    return after, delta.changes()


def replay_steps(
    image: MetadataImage, batch: MetadataBatch
) -> Generator[None, None, tuple[MetadataImage, MetadataChanges]]:
    """Do the work of `replay_batch` in small steps, between which other work may run.

    The changes become visible only in the image that is returned at the end.
    """
    delta = MetadataDelta(image)
    for number, record in enumerate(batch.records):
        delta.replay(record)
        if not number % RECORDS_PER_STEP:
            yield
    after = delta.apply(version=batch.last_offset, epoch=batch.epoch, timestamp_ms=batch.timestamp_ms)
    yield
    return after, delta.changes()
