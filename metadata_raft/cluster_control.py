"""Brokers: registration and fencing; finalized features."""

from logstore.errors import ErrorCode, KafkaError
from metadata_raft.commands import (
    AssignReplicasToDirs,
    AssignReplicasToDirsReply,
    BrokerHeartbeat,
    BrokerHeartbeatReply,
    RegisterBroker,
    RegisterBrokerReply,
    ReportOfflineLogDirs,
    ReportOfflineLogDirsReply,
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
            end_points=list(command.listeners),
            features=list(command.features),
            rack=command.rack,
            fenced=True,
            log_dirs=list(command.log_dirs),
        )
    )
    return Decision(records=records, reply=RegisterBrokerReply(broker_epoch=broker_epoch))


def broker_heartbeat(image: MetadataImage, command: BrokerHeartbeat) -> Decision:
    """A broker that has caught up may lead; STALE_BROKER_EPOCH from a process that was replaced."""
    broker = _living_broker(image, command.broker_id, command.broker_epoch)
    is_caught_up = command.current_metadata_offset >= broker.broker_epoch
    if not broker.fenced or command.want_fence or not is_caught_up:
        return Decision(
            reply=BrokerHeartbeatReply(
                is_caught_up=is_caught_up,
                is_fenced=broker.fenced,
                is_in_controlled_shutdown=broker.in_controlled_shutdown,
            )
        )
    changes = list(leaders_after_unfence(image, command.broker_id))
    unfence = BrokerRegistrationChangeRecord(
        broker_id=command.broker_id, broker_epoch=command.broker_epoch, fenced=FencingChange.UNFENCE
    )
    return Decision(records=[unfence, *changes], reply=BrokerHeartbeatReply(is_caught_up=True))


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
    for place in command.assignments:
        topic_id, index = place.topic_id, place.partition_index
        topic = image.topics.by_id.get(topic_id)
        if topic is not None and 0 <= index < len(topic.partitions):
            changes.extend(
                leaders_after_assignment(
                    image, topic_id, topic.partitions[index], command.broker_id, place.directory_id
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
    levels = {update.feature: update.max_version_level for update in command.feature_updates}
    for name, level in sorted(levels.items()):
        for broker in image.brokers.values():
            low, high = broker.features.get(name, (0, 0))
            if level and not low <= level <= high:
                raise KafkaError(
                    ErrorCode.INVALID_UPDATE_VERSION,
                    f"Broker {broker.broker_id} does not support level {level} of {name}.",
                )
    records = [
        FeatureLevelRecord(name=name, feature_level=level)
        for name, level in sorted(levels.items())
        if image.features.get(name, 0) != level
    ]
    return Decision(records=[] if command.validate_only else records, reply=UpdateFeaturesReply())
