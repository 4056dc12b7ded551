"""Decides the state of brokers: registration, heartbeats, fencing, controlled shutdown, log directories.

    FENCED ──caught up──▶ UNFENCED ──wants to stop, leads──▶ CONTROLLED_SHUTDOWN ──leads nothing any more──▶
      ▲ silent, restarted │ wants to stop, leads nothing                            ▼
      └───────────────────┴──────────────────────────────────────────────▶ SHUTDOWN_NOW (is fenced)

A broker that shuts down first hands over its leaderships, and may stop when every active broker has applied
that.
"""

from collections.abc import Mapping, Set
from enum import Enum
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID
from ottla.metadata_raft.broker_sessions import RECONNECT_GRACE_MS, BrokerSessions
from ottla.metadata_raft.commands import (
    AssignReplicasToDirs,
    AssignReplicasToDirsReply,
    BrokerConnectionLost,
    BrokerConnectionLostReply,
    BrokerHeartbeat,
    BrokerHeartbeatReply,
    RegisterBroker,
    RegisterBrokerReply,
    ReportOfflineLogDirs,
    ReportOfflineLogDirsReply,
    UnregisterBroker,
    UnregisterBrokerReply,
)
from ottla.metadata_raft.controller_config import ControllerConfig
from ottla.metadata_raft.decision import Decision
from ottla.metadata_raft.feature_control import check_supported
from ottla.metadata_raft.image import BrokerImage, MetadataImage, endpoints_by_name
from ottla.metadata_raft.partition_control import (
    NO_LOADS,
    changes_after_directory_assignment,
    leaders_after_fence,
    leaders_after_offline_log_dirs,
    leaders_after_unfence,
    leads_any,
)
from ottla.metadata_raft.records import (
    LAST_RESERVED_DIRECTORY,
    BrokerRegistrationChangeRecord,
    FencingChange,
    MetadataRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)

MAX_BROKERS: Final = 1_000  # ten times the number a cluster is designed for; each costs memory on every node
MAX_LISTENERS: Final = 100
MAX_LOG_DIRS: Final = 1_000
MAX_FEATURES: Final = 100


class BrokerControlState(Enum):
    """The state of a broker, as the replies to its heartbeats have it."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"


_FENCED, _UNFENCED = BrokerControlState.FENCED, BrokerControlState.UNFENCED
_LEAVING, _GONE = BrokerControlState.CONTROLLED_SHUTDOWN, BrokerControlState.SHUTDOWN_NOW
MOVES: Final = {
    _FENCED: {_FENCED, _UNFENCED, _GONE},
    _UNFENCED: {_FENCED, _UNFENCED, _LEAVING, _GONE},
    _LEAVING: {_LEAVING, _GONE},
}

# ---- registration ------------------------------------------------------------------------------------------


def register_broker(
    image: MetadataImage,
    command: RegisterBroker,
    config: ControllerConfig,
    sessions: BrokerSessions,
    now_ms: int,
) -> Decision:
    """Register a new run of a broker. The previous run is fenced first, so that its leader epochs end.

    DUPLICATE_BROKER_REGISTRATION if another run has a session and the new one has none of its log
    directories, INVALID_REGISTRATION for ids, directories or counts that are not possible, and
    UNSUPPORTED_VERSION if the broker does not support a feature of the cluster.
    """
    known = image.brokers.get(command.broker_id)
    _check_registration(image, command)
    check_supported(image, command.broker_id, list(command.features))
    if known is not None and known.incarnation_id == command.incarnation_id:
        return _amend(known, command)
    if known is not None and not known.fenced:
        # A process locks its directories, so a broker with one of the old directories proves that the process
        # that had it ended, even if its session has not expired.
        is_successor = not known.log_dirs or set(command.log_dirs) & set(known.log_dirs)
        timeout_ms = config.broker_session_timeout_ms
        if not is_successor and sessions.is_alive(image, known.broker_id, now_ms, timeout_ms):
            raise KafkaError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION, "Another broker is registered with that broker id."
            )
    records: list[MetadataRecord] = []
    if known is not None:
        # After a loss of power the broker may lack records that others in the ISR have. A silence of those is
        # no reason to doubt their logs: they may only have been disconnected.
        must_leave = not _remembers(known, command)
        timeout_ms = config.broker_session_timeout_ms
        unheard = (
            sessions.silent(image, now_ms, timeout_ms)
            if must_leave
            else sessions.absent(image, now_ms, timeout_ms)
        )
        records.extend(
            leaders_after_fence(
                image,
                known.broker_id,
                config,
                unheard,
                must_leave=must_leave,
                doubts_last=not known.fenced,
                loads=sessions.loads,
            )
        )
        if not known.fenced:
            records.append(_fence(known))
    broker_epoch = image.version + 1 + len(records)
    records.append(_registration(command, broker_epoch))
    return Decision(records=records, reply=RegisterBrokerReply(broker_epoch=broker_epoch))


def _remembers(known: BrokerImage, command: RegisterBroker) -> bool:
    """Return True if a broker still has everything that its last run wrote.

    It does if that run ended cleanly, or if the host did not restart.
    """
    has_ended_cleanly = command.previous_broker_epoch == known.broker_epoch
    host_ran_on = command.page_cache_id == known.page_cache_id != ZERO_UUID
    # A directory that failed and was added again may have lost anything.
    return (has_ended_cleanly or host_ran_on) and set(command.log_dirs) <= set(known.log_dirs)


def _check_registration(image: MetadataImage, command: RegisterBroker) -> None:
    log_dirs = command.log_dirs
    problem = None
    if command.broker_id < 0:
        problem = f"A broker cannot have the id {command.broker_id}."
    elif not log_dirs:
        problem = "No directories specified in request"
    elif any(log_dir <= LAST_RESERVED_DIRECTORY for log_dir in log_dirs):
        problem = "Reserved directory ID in request"
    elif len(set(log_dirs)) != len(log_dirs):
        problem = "Duplicate directory ID in request"
    elif (
        len(log_dirs) > MAX_LOG_DIRS
        or len(command.listeners) > MAX_LISTENERS
        or len(command.controller_listeners) > MAX_LISTENERS
        or len(command.features) > MAX_FEATURES
        or (command.broker_id not in image.brokers and len(image.brokers) >= MAX_BROKERS)
    ):
        problem = (
            f"A broker may have at most {MAX_LOG_DIRS} directories, {MAX_LISTENERS} listeners and "
            f"{MAX_FEATURES} features, and the cluster at most {MAX_BROKERS} brokers."
        )
    else:
        wanted = set(log_dirs)
        for broker_id, broker in sorted(image.brokers.items()):
            if broker_id != command.broker_id and wanted & set(broker.log_dirs):
                problem = f"Broker {broker_id} is already registered with one of the directories."
                break
    if problem:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, problem)


def _amend(known: BrokerImage, command: RegisterBroker) -> Decision:
    """Update the registration of an incarnation that registers again; its state and epoch stay."""
    reply = RegisterBrokerReply(broker_epoch=known.broker_epoch)
    listeners = endpoints_by_name(command.listeners)
    controllers = endpoints_by_name(command.controller_listeners)
    features = {one.name: (one.min_supported_version, one.max_supported_version) for one in command.features}
    log_dirs = tuple(command.log_dirs)
    said = (listeners, command.peer_listener, controllers, features, command.rack, log_dirs)
    was_said = (known.listeners, known.peer_listener, known.controllers, known.features, known.rack)
    if said == (*was_said, known.log_dirs):
        return Decision(reply=reply)
    record = _registration(
        command,
        known.broker_epoch,
        fenced=known.fenced,
        in_controlled_shutdown=known.in_controlled_shutdown,
    )
    return Decision(records=[record], reply=reply)


def _registration(
    command: RegisterBroker,
    broker_epoch: int,
    *,
    fenced: bool = True,
    in_controlled_shutdown: bool = False,
) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=command.broker_id,
        incarnation_id=command.incarnation_id,
        broker_epoch=broker_epoch,
        end_points=list(command.listeners),
        features=list(command.features),
        rack=command.rack,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
        log_dirs=list(command.log_dirs),
        page_cache_id=command.page_cache_id,
        peer_listener=command.peer_listener,
        controller_end_points=list(command.controller_listeners),
    )


def unregister_broker(
    image: MetadataImage, command: UnregisterBroker, config: ControllerConfig, sessions: BrokerSessions
) -> Decision:
    """Remove a broker; BROKER_ID_NOT_REGISTERED if it does not exist. Its replicas stay assigned to it."""
    broker = image.brokers.get(command.broker_id)
    if broker is None:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Broker ID {command.broker_id} is not currently registered",
        )
    records: list[MetadataRecord] = [
        *leaders_after_fence(image, broker.broker_id, config, must_leave=True, loads=sessions.loads),
        UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch),
    ]
    return Decision(records=records, reply=UnregisterBrokerReply())


# ---- sessions ----------------------------------------------------------------------------------------------


def broker_heartbeat(
    image: MetadataImage,
    command: BrokerHeartbeat,
    config: ControllerConfig,
    sessions: BrokerSessions,
    now_ms: int,
) -> Decision:
    """Renew a broker's session; there are records only if its state changes.

    STALE_BROKER_EPOCH from a replaced run of the broker.
    """
    broker = living_broker(image, command.broker_id, command.broker_epoch)
    session = sessions.touch(
        image,
        command.broker_id,
        command.current_metadata_offset,
        now_ms,
        config.broker_session_timeout_ms,
    )
    session.leader_load = command.leader_load
    current = _state_of(broker)
    if current is not _LEAVING:
        session.shutdown_offset = -1
    elif session.shutdown_offset < 0:
        # Another controller began its shutdown; the records of that are in this image.
        session.shutdown_offset = image.version
    following = _next_state(image, broker, command, sessions, now_ms)
    assert following in MOVES[current], f"{current} -> {following}"
    records: list[MetadataRecord] = []
    if following is not current:
        absent = sessions.absent(image, now_ms, config.broker_session_timeout_ms)
        records = _transition(image, broker, following, config, absent, sessions.loads)
    elif current is _UNFENCED and session.heard_since_ms == now_ms:
        absent = sessions.absent(image, now_ms, config.broker_session_timeout_ms)
        records = list(leaders_after_unfence(image, broker.broker_id, config, absent))
    if following is _LEAVING and current is not _LEAVING:
        session.shutdown_offset = image.version + len(records)
    reply = BrokerHeartbeatReply(
        is_caught_up=_is_caught_up(broker, command),
        is_fenced=following in (_FENCED, _GONE),
        is_in_controlled_shutdown=following is _LEAVING,
        should_shut_down=following is _GONE,
    )
    return Decision(records=records, reply=reply)


def broker_connection_lost(
    image: MetadataImage, command: BrokerConnectionLost, sessions: BrokerSessions, now_ms: int
) -> Decision:
    """Shorten the session of a broker whose connection was lost, unless another run has replaced it."""
    broker = image.brokers.get(command.broker_id)
    if broker is not None and broker.broker_epoch == command.broker_epoch:
        grace_ms = 0 if command.is_gone else RECONNECT_GRACE_MS
        sessions.connection_lost(image, command.broker_id, now_ms, grace_ms)
    return Decision(reply=BrokerConnectionLostReply())


def fence_records(
    image: MetadataImage,
    broker: BrokerImage,
    config: ControllerConfig,
    absent: Set[int] = frozenset(),
    *,
    doubts_last: bool = False,
    loads: Mapping[int, int] = NO_LOADS,
) -> list[MetadataRecord]:
    """Return records that fence a broker: it leads nothing, and leaves each ISR with another live replica."""
    changes = leaders_after_fence(
        image, broker.broker_id, config, absent, doubts_last=doubts_last, loads=loads
    )
    return [*changes, _fence(broker)]


def _fence(broker: BrokerImage) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, fenced=FencingChange.FENCE
    )


def living_broker(image: MetadataImage, broker_id: int, broker_epoch: int) -> BrokerImage:
    """Return the broker with this epoch; STALE_BROKER_EPOCH if it was replaced or is not registered."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}"
        )
    if broker.broker_epoch != broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {broker.broker_epoch}, but got broker epoch {broker_epoch}",
        )
    return broker


def _state_of(broker: BrokerImage) -> BrokerControlState:
    if broker.fenced:
        return _FENCED
    return _LEAVING if broker.in_controlled_shutdown else _UNFENCED


def _is_caught_up(broker: BrokerImage, command: BrokerHeartbeat) -> bool:
    # The epoch of a broker is the offset of its registration.
    return command.current_metadata_offset >= broker.broker_epoch


def _next_state(
    image: MetadataImage,
    broker: BrokerImage,
    command: BrokerHeartbeat,
    sessions: BrokerSessions,
    now_ms: int,
) -> BrokerControlState:
    match _state_of(broker):
        case BrokerControlState.FENCED:
            if command.want_shut_down:
                return _GONE
            # A run that has begun to shut down is not unfenced again; the next run registers.
            may_serve = not command.want_fence and not broker.in_controlled_shutdown
            # A broker whose metadata does not advance would not learn that it leads.
            is_stuck = sessions.session_of(image, broker.broker_id, now_ms).is_stuck
            may_serve = may_serve and _is_caught_up(broker, command) and not is_stuck
            return _UNFENCED if may_serve else _FENCED
        case BrokerControlState.UNFENCED:
            if command.want_fence:
                return _GONE if command.want_shut_down else _FENCED
            if not command.want_shut_down:
                return _UNFENCED
            return _LEAVING if leads_any(image, broker.broker_id) else _GONE
        case _:
            session = sessions.session_of(image, broker.broker_id, now_ms)
            is_known = session.shutdown_offset <= sessions.lowest_active_offset(image, now_ms)
            return _GONE if is_known and not leads_any(image, broker.broker_id) else _LEAVING


def _transition(
    image: MetadataImage,
    broker: BrokerImage,
    following: BrokerControlState,
    config: ControllerConfig,
    absent: Set[int],
    loads: Mapping[int, int],
) -> list[MetadataRecord]:
    match following:
        case BrokerControlState.UNFENCED:
            unfence = BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, fenced=FencingChange.UNFENCE
            )
            return [unfence, *leaders_after_unfence(image, broker.broker_id, config, absent)]
        case BrokerControlState.CONTROLLED_SHUTDOWN:
            leave = BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, in_controlled_shutdown=1
            )
            return [leave, *leaders_after_fence(image, broker.broker_id, config, absent, loads=loads)]
        case BrokerControlState.FENCED | BrokerControlState.SHUTDOWN_NOW:
            return [] if broker.fenced else fence_records(image, broker, config, absent, loads=loads)


# ---- log directories ---------------------------------------------------------------------------------------


def report_offline_log_dirs(
    image: MetadataImage,
    command: ReportOfflineLogDirs,
    config: ControllerConfig,
    loads: Mapping[int, int] = NO_LOADS,
) -> Decision:
    """Remove replicas in failed log directories from their ISRs; STALE_BROKER_EPOCH from a replaced run."""
    broker = living_broker(image, command.broker_id, command.broker_epoch)
    failed = frozenset(command.log_dirs) & frozenset(broker.log_dirs)
    if not failed:
        return Decision(reply=ReportOfflineLogDirsReply(changed_partitions=0))
    changes = list(leaders_after_offline_log_dirs(image, command.broker_id, failed, config, loads))
    remaining = BrokerRegistrationChangeRecord(
        broker_id=command.broker_id,
        broker_epoch=command.broker_epoch,
        log_dirs=[log_dir for log_dir in broker.log_dirs if log_dir not in failed],
    )
    return Decision(
        records=[*changes, remaining], reply=ReportOfflineLogDirsReply(changed_partitions=len(changes))
    )


def assign_replicas_to_dirs(
    image: MetadataImage, command: AssignReplicasToDirs, config: ControllerConfig
) -> Decision:
    """Record the directories of replicas; STALE_BROKER_EPOCH from a replaced run.

    Topics and partitions that do not exist any more are skipped.
    """
    living_broker(image, command.broker_id, command.broker_epoch)
    changes: list[MetadataRecord] = []
    for place in command.assignments:
        topic = image.topics.by_id.get(place.topic_id)
        if topic is not None and 0 <= place.partition_index < len(topic.partitions):
            partition = topic.partitions[place.partition_index]
            changes.extend(
                changes_after_directory_assignment(
                    image, topic, partition, command.broker_id, place.directory_id, config
                )
            )
    return Decision(records=changes, reply=AssignReplicasToDirsReply(changed_partitions=len(changes)))
