"""The controller: turns commands into decisions, and the records of decisions into the next image.

`decide` is pure except for soft state: the same image, command and time give the same records and reply.
`replay` applies records. The image of a controller is ahead of the committed one, so that commands need not
wait for each other's commits; if an append fails, `reset` returns to the last committed image.

A new leader starts without the soft state: the sessions of brokers, the times of due elections, and the
replies to commands that changed nothing.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl_control import create_acls, delete_acls
from ottla.metadata_raft.acl_set import ClientIdentity
from ottla.metadata_raft.broker_sessions import BrokerSessions, Session
from ottla.metadata_raft.client_quota_control import alter_client_quotas
from ottla.metadata_raft.cluster_control import (
    assign_replicas_to_dirs,
    broker_connection_lost,
    broker_heartbeat,
    fence_records,
    register_broker,
    report_offline_log_dirs,
    unregister_broker,
)
from ottla.metadata_raft.command_access import check_command
from ottla.metadata_raft.commands import (
    AddRaftVoter,
    AllocateProducerIds,
    AlterClientQuotas,
    AlterConfigs,
    AlterPartition,
    AlterPartitionReassignments,
    AlterUserScramCredentials,
    AssignReplicasToDirs,
    BrokerConnectionLost,
    BrokerHeartbeat,
    Command,
    CreateAcls,
    CreatePartitions,
    CreateTopics,
    DeleteAcls,
    DeleteTopics,
    ElectLeaders,
    RegisterBroker,
    RemoveRaftVoter,
    ReportOfflineLogDirs,
    RequestId,
    UnregisterBroker,
    UpdateFeatures,
)
from ottla.metadata_raft.configuration_control import alter_configs
from ottla.metadata_raft.controller_config import (
    MAX_RECORDS_PER_COMMAND,
    MAX_VALUE_CHARS_PER_COMMAND,
    ControllerConfig,
)
from ottla.metadata_raft.decision import Decision
from ottla.metadata_raft.delta import MetadataChanges, replay_batch
from ottla.metadata_raft.due_elections import DueElections
from ottla.metadata_raft.election_control import elect_leaders
from ottla.metadata_raft.feature_control import first_features, update_features
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.isr_control import alter_partition
from ottla.metadata_raft.mutation_charge import MutationCharge
from ottla.metadata_raft.producer_id_control import allocate_producer_ids
from ottla.metadata_raft.reassignment_control import alter_partition_reassignments
from ottla.metadata_raft.record_codec import MetadataBatch
from ottla.metadata_raft.records import MetadataRecord
from ottla.metadata_raft.request_control import AnsweredRequests, add_reply_record, known_reply
from ottla.metadata_raft.scram_control import alter_user_scram_credentials
from ottla.metadata_raft.topic_control import create_partitions, create_topics, delete_topics
from ottla.metadata_raft.voter_control import add_raft_voter, remove_raft_voter


class Due(NamedTuple):
    """Records to append that no command asked for, such as the fencing of a silent broker."""

    records: list[MetadataRecord]


class Controller:
    """The controller of one image, changed only by its owner."""

    def __init__(self, image: MetadataImage, config: ControllerConfig) -> None:
        self.image = image
        self.config = config
        self._committed = image
        self._sessions = BrokerSessions()
        self._elections = DueElections()
        self._answered = AnsweredRequests()

    def activate(
        self,
        image: MetadataImage,
        now_ms: int,
        lost_at_ms: Mapping[int, int] | None = None,
    ) -> Due | None:
        """Begin to lead with the committed `image`, and give every broker a new session.

        `lost_at_ms` has the brokers that lost their connection to this node, with the time. Return the first
        records of a new cluster, None if the cluster has them.
        """
        self.image = self._committed = image
        self._sessions.grant_all(image, now_ms, lost_at_ms or {})
        self._elections.begin(now_ms)
        self._answered = AnsweredRequests()
        records = first_features(image, self.config)
        if not records:
            return None
        return Due([*records, *self.config.first_records(image.cluster_id)])

    def decide(
        self,
        command: Command,
        now_ms: int,
        request: RequestId | None = None,
        client: ClientIdentity | None = None,
        *,
        charge: MutationCharge | None = None,
    ) -> Decision:
        """Return the decision on `command` at `now_ms`; KafkaError if it is rejected as a whole.

        `now_ms` is monotonic; records contain no time. With `request`, a command that was carried out before
        gets its first reply again. `client` must have the rights that the command needs; None is a node's own
        command. `charge` counts mutations of topics for a quota; by default nothing is charged.
        """
        if request is None:
            return self._decide(command, now_ms, client, charge)
        reply = known_reply(self.image, request) or self._answered.recall(request)
        if reply is not None:
            return Decision(reply=reply)
        try:
            decision = self._decide(command, now_ms, client, charge)
        except KafkaError as refusal:
            self._answered.note(command, request, refusal)
            raise
        if decision.records:
            return add_reply_record(command, request, decision)
        self._answered.note(command, request, decision.reply)
        return Decision(reply=decision.reply)

    def check_client(self, command: Command, client: ClientIdentity | None) -> None:
        """Raise the error of authorization if a client lacks a right that the command needs."""
        if client is not None and self.config.authorizer is not None:
            check_command(self.image, command, client, self.config.authorizer)

    def tick(self, now_ms: int) -> Due | None:
        """Return records that are due by time: the fencing of a silent broker, or elections; else None.

        Brokers are fenced one at a time, so that each decision includes the effect of the last; call it again
        until it returns None.
        """
        timeout_ms = self.config.broker_session_timeout_ms
        stale = self._sessions.stale_broker(self.image, now_ms, timeout_ms)
        if stale is not None:
            absent = self._sessions.absent(self.image, now_ms, timeout_ms)
            broker = self.image.brokers[stale]
            loads = self._sessions.loads
            return Due(fence_records(self.image, broker, self.config, absent, doubts_last=True, loads=loads))
        records = self._elections.due(self.image, self.config, now_ms)
        return Due(records) if records else None

    def next_tick_ms(self) -> int:
        """Return the time from which `tick` has something to do, if no command arrives before."""
        timeout_ms = self.config.broker_session_timeout_ms
        return min(
            self._sessions.next_expiry_ms(self.image, timeout_ms), self._elections.next_ms(self.config)
        )

    def heard_of(self) -> Mapping[int, tuple[int, int]]:
        """Return the metadata offset of each broker, and the time of its last heartbeat."""
        return self._sessions.heard_of()

    @property
    def sessions(self) -> Mapping[int, Session]:
        """The current sessions of brokers, for reading; they are in no log."""
        return self._sessions.known()

    def replay(
        self, batch: MetadataBatch, replayed: tuple[MetadataImage, MetadataChanges] | None = None
    ) -> MetadataChanges:
        """Apply the records of one decision; `replayed` is the resulting image and changes, if known."""
        assert batch.base_offset == self.image.version + 1, "a batch does not follow its image"
        before = self.image.brokers
        self.image, changes = replay_batch(self.image, batch) if replayed is None else replayed
        for broker_id in changes.brokers & before.keys():
            broker = self.image.brokers.get(broker_id)
            if before[broker_id].is_active and (broker is None or broker.fenced):
                self._sessions.doubt_others(broker_id)
        if changes.configs:
            self._elections.settings_changed()
        return changes

    def commit(self, image: MetadataImage) -> None:
        """Note that `image` is committed; later decisions are still in progress."""
        self._committed = image

    def reset(self, image: MetadataImage) -> None:
        """Discard the decisions after `image`."""
        self.image = image

    def _decide(
        self, command: Command, now_ms: int, client: ClientIdentity | None, charge: MutationCharge | None
    ) -> Decision:
        image, config, sessions = self.image, self.config, self._sessions
        _check_size(command)
        self.check_client(command, client)
        match command:
            case CreateTopics():
                return create_topics(image, command, config, charge, sessions.loads)
            case DeleteTopics():
                return delete_topics(image, command, config, charge)
            case CreatePartitions():
                return create_partitions(image, command, charge, sessions.loads)
            case AlterConfigs():
                return alter_configs(image, command, config)
            case RegisterBroker():
                return register_broker(image, command, config, sessions, now_ms)
            case BrokerHeartbeat():
                return broker_heartbeat(image, command, config, sessions, now_ms)
            case BrokerConnectionLost():
                return broker_connection_lost(image, command, sessions, now_ms)
            case UnregisterBroker():
                return unregister_broker(image, command, config, sessions)
            case ReportOfflineLogDirs():
                return report_offline_log_dirs(image, command, config, sessions.loads)
            case AssignReplicasToDirs():
                return assign_replicas_to_dirs(image, command, config)
            case AllocateProducerIds():
                return allocate_producer_ids(image, command)
            case AlterPartition():
                return alter_partition(image, command, config)
            case ElectLeaders():
                return elect_leaders(image, command)
            case AlterPartitionReassignments():
                return alter_partition_reassignments(image, command, config)
            case UpdateFeatures():
                return update_features(image, command, config)
            case AddRaftVoter():
                return add_raft_voter(image, command, config, is_settled=self._voters_are_committed())
            case RemoveRaftVoter():
                return remove_raft_voter(image, command, config, is_settled=self._voters_are_committed())
            case CreateAcls():
                return create_acls(image, command)
            case DeleteAcls():
                return delete_acls(image, command)
            case AlterClientQuotas():
                return alter_client_quotas(image, command)
            case AlterUserScramCredentials():
                return alter_user_scram_credentials(image, command)

    def _voters_are_committed(self) -> bool:
        return self.image.voters == self._committed.voters


def _check_size(command: Command) -> None:
    """Raise POLICY_VIOLATION for a command that is too large to be decided.

    It names more items than it may have records, or its settings are too long to be checked at once.
    """
    value_chars = 0
    match command:
        case CreateTopics():
            named = len(command.topics)
            value_chars = sum(len(one.value or "") for topic in command.topics for one in topic.configs)
        case DeleteTopics() | CreatePartitions():
            named = len(command.topics)
        case AlterConfigs():
            named = len(command.resources)
            value_chars = sum(
                len(one.value or "") for resource in command.resources for one in resource.changes
            )
        case CreateAcls():
            named = len(command.creations)
        case DeleteAcls():
            named = len(command.filters)
        case AlterClientQuotas():
            named = sum(max(1, len(entry.changes)) for entry in command.entries)
        case AlterUserScramCredentials():
            named = len(command.deletions) + len(command.upsertions)
        case _:
            return
    if named > MAX_RECORDS_PER_COMMAND:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"One request may name at most {MAX_RECORDS_PER_COMMAND} topics, "
            "resources, ACLs, quotas or credentials: send several requests.",
        )
    if value_chars > MAX_VALUE_CHARS_PER_COMMAND:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            "The settings of one request may have at most "
            f"{MAX_VALUE_CHARS_PER_COMMAND} characters in all, but these have "
            f"{value_chars}: send fewer topics or resources in each request.",
        )
