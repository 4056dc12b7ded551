"""Brokers: registration and fencing; finalized features."""

from logstore.errors import ErrorCode, KafkaError
from metadata_raft.commands import (
    AssignReplicasToDirs,
    AssignReplicasToDirsReply,
    RegisterBroker,
    RegisterBrokerReply,
    ReportOfflineLogDirs,
    ReportOfflineLogDirsReply,
    UnfenceBroker,
    UnfenceBrokerReply,
    UpdateFeatures,
    UpdateFeaturesReply,
)
from metadata_raft.decision import Decision
from metadata_raft.image import BrokerImage, MetadataImage
from metadata_raft.partition_control import (
    leaders_after_assignment,
    leaders_after_fence,
    leaders_after_offline_log_dirs,
    leaders_after_unfence,
)
from metadata_raft.records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    FencingChange,
    MetadataRecord,
    RegisterBrokerRecord,
)


def register_broker(image: MetadataImage, command: RegisterBroker) -> Decision:
    """A new process of a broker: its old reign ends first, so that every leader epoch it had is over."""
    known = image.brokers.get(command.broker_id)
    if known is not None and known.incarnation_id == command.incarnation_id:
        return Decision(reply=RegisterBrokerReply(broker_epoch=known.broker_epoch))
    records: list[MetadataRecord] = []
    if known is not None and not known.fenced:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=known.broker_id, broker_epoch=known.broker_epoch, fenced=FencingChange.FENCE
            )
        )
        records.extend(leaders_after_fence(image, known.broker_id))
    broker_epoch = image.version + 1 + len(records)
    records.append(
        RegisterBrokerRecord(
            broker_id=command.broker_id,
            incarnation_id=command.incarnation_id,
            broker_epoch=broker_epoch,
            end_points=[
                BrokerEndpoint(
                    name=name,
                    host=point.host,
                    port=point.port,
                    security_protocol=point.security_protocol,
                )
                for name, point in sorted(command.listeners.items())
            ],
            features=[
                BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in sorted(command.features.items())
            ],
            rack=command.rack,
            fenced=True,
            log_dirs=list(command.log_dirs),
        )
    )
    return Decision(records=records, reply=RegisterBrokerReply(broker_epoch=broker_epoch))


def unfence_broker(image: MetadataImage, command: UnfenceBroker) -> Decision:
    """A broker may lead from now on; STALE_BROKER_EPOCH from a process that was replaced."""
    broker = _living_broker(image, command.broker_id, command.broker_epoch)
    if not broker.fenced:
        return Decision(reply=UnfenceBrokerReply(led_partitions=0))
    changes = list(leaders_after_unfence(image, command.broker_id))
    unfence = BrokerRegistrationChangeRecord(
        broker_id=command.broker_id, broker_epoch=command.broker_epoch, fenced=FencingChange.UNFENCE
    )
    return Decision(records=[unfence, *changes], reply=UnfenceBrokerReply(led_partitions=len(changes)))


def report_offline_log_dirs(image: MetadataImage, command: ReportOfflineLogDirs) -> Decision:
    """Replicas on a failed log directory leave their ISRs; STALE_BROKER_EPOCH from a replaced process."""
    broker = _living_broker(image, command.broker_id, command.broker_epoch)
    failed = frozenset(command.log_dirs) & frozenset(broker.log_dirs)
    if not failed:
        return Decision(reply=ReportOfflineLogDirsReply(changed_partitions=0))
    changes = list(leaders_after_offline_log_dirs(image, command.broker_id, failed))
    remaining = BrokerRegistrationChangeRecord(
        broker_id=command.broker_id,
        broker_epoch=command.broker_epoch,
        log_dirs=[log_dir for log_dir in broker.log_dirs if log_dir not in failed],
    )
    return Decision(
        records=[*changes, remaining], reply=ReportOfflineLogDirsReply(changed_partitions=len(changes))
    )


def assign_replicas_to_dirs(image: MetadataImage, command: AssignReplicasToDirs) -> Decision:
    """Note where replicas lie; STALE_BROKER_EPOCH from a replaced process. What is gone is passed over."""
    _living_broker(image, command.broker_id, command.broker_epoch)
    changes: list[MetadataRecord] = []
    for topic_id, index, directory in command.assignments:
        topic = image.topics.by_id.get(topic_id)
        if topic is not None and 0 <= index < len(topic.partitions):
            changes.extend(
                leaders_after_assignment(
                    image, topic_id, topic.partitions[index], command.broker_id, directory
                )
            )
    return Decision(records=changes, reply=AssignReplicasToDirsReply(changed_partitions=len(changes)))


def _living_broker(image: MetadataImage, broker_id: int, broker_epoch: int) -> BrokerImage:
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {broker_id} is not registered.")
    if broker.broker_epoch != broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Broker {broker_id} is at epoch {broker.broker_epoch}, not {broker_epoch}.",
        )
    return broker


def update_features(image: MetadataImage, command: UpdateFeatures) -> Decision:
    """INVALID_UPDATE_VERSION for a level that a registered broker does not support."""
    for name, level in sorted(command.levels.items()):
        for broker in image.brokers.values():
            low, high = broker.features.get(name, (0, 0))
            if level and not low <= level <= high:
                raise KafkaError(
                    ErrorCode.INVALID_UPDATE_VERSION,
                    f"Broker {broker.broker_id} does not support level {level} of {name}.",
                )
    return Decision(
        records=[
            FeatureLevelRecord(name=name, feature_level=level)
            for name, level in sorted(command.levels.items())
            if image.features.get(name, 0) != level
        ],
        reply=UpdateFeaturesReply(),
    )
