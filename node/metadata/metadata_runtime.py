"""The metadata of this node: submits commands to the controller, and publishes committed images to listeners.

The leader of the quorum decides a command: this node, or another one to which the command is sent. Its reply
has the offset of its last record. `submit` returns when this node's image has reached that offset and has
been published to the listeners, so a client that received the reply finds the change on this node. If the
leader changes or the answer is lost, the command is sent again with the same id, by which the next leader
recognizes a command that was carried out already.
"""

import asyncio
import logging
import random
from asyncio import Future, get_running_loop
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, overload

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.latency import LatencyHistogram
from ottla.metadata_raft.acl_set import ClientIdentity
from ottla.metadata_raft.commands import (
    AddRaftVoter,
    AddRaftVoterReply,
    AllocateProducerIds,
    AllocateProducerIdsReply,
    AlterClientQuotas,
    AlterClientQuotasReply,
    AlterConfigs,
    AlterConfigsReply,
    AlterPartition,
    AlterPartitionReassignments,
    AlterPartitionReassignmentsReply,
    AlterPartitionReply,
    AlterUserScramCredentials,
    AlterUserScramCredentialsReply,
    AssignReplicasToDirs,
    AssignReplicasToDirsReply,
    BrokerConnectionLost,
    BrokerHeartbeat,
    BrokerHeartbeatReply,
    Command,
    CreateAcls,
    CreateAclsReply,
    CreatePartitions,
    CreatePartitionsReply,
    CreateTopics,
    CreateTopicsReply,
    DeleteAcls,
    DeleteAclsReply,
    DeleteTopics,
    DeleteTopicsReply,
    ElectLeaders,
    ElectLeadersReply,
    RegisterBroker,
    RegisterBrokerReply,
    RemoveRaftVoter,
    RemoveRaftVoterReply,
    Reply,
    ReportOfflineLogDirs,
    ReportOfflineLogDirsReply,
    RequestId,
    UnregisterBroker,
    UnregisterBrokerReply,
    UpdateFeatures,
    UpdateFeaturesReply,
)
from ottla.metadata_raft.controller_config import ControllerConfig
from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.mutation_charge import TakeMutations
from ottla.metadata_raft.quorum import Quorum, QuorumStatus
from ottla.metadata_raft.record_codec import MetadataBatch
from ottla.metadata_raft.request_control import REMEMBERED
from ottla.node.clock import Clock
from ottla.node.metadata.command_sender import CommandSender, Leader, RequestIds
from ottla.node.metadata.controller_runtime import ControllerRuntime, Decided
from ottla.node.metadata.encoded_answers import EncodedAnswers
from ottla.node.metadata.suspected_brokers import SuspectedBrokers
from ottla.node.work.pause import until_next, wait_at_most

# Acts on committed metadata: called with the image and its changes since the previous image.
Listener = Callable[[MetadataImage, MetadataChanges], None]

DEFAULT_TIMEOUT_MS: Final = 30_000  # as request.timeout.ms of Apache Kafka's clients
RETRY_S: Final = 0.1  # how often the controller tries work that is due but cannot be done yet
# How often a node checks for a new controller, beside the quorum's notices, and the controller for work that
# has become due earlier than it knew.
LOOK_S: Final = 0.5
# The time for a voter to connect to a new leader before its connection counts as lost.
FIRST_DIAL_S: Final = 0.5
MAX_BACKOFF_S: Final = 0.5
# A command that failed with one of these errors was not carried out, or may have been: it is sent again.
_RETRIED: Final = frozenset(
    {ErrorCode.NOT_CONTROLLER, ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT}
)

log = logging.getLogger(__name__)


class MetadataRuntime:
    """The committed image of this node, its listeners and its commands. Used on the node's event loop."""

    def __init__(
        self,
        *,
        quorum: Quorum,
        image: MetadataImage,
        config: ControllerConfig,
        clock: Clock,
        broker_id: int = -1,
        sender: CommandSender | None = None,
        voters: Callable[[], Sequence[int]] = tuple,
        chance: random.Random | None = None,
        request_timeout_ms: int = 2_000,
        retry_backoff_ms: int = 20,
        is_connected: Callable[[int], bool] = lambda broker_id: False,
        encoded_answers: EncodedAnswers | None = None,
        before_image: Callable[[MetadataImage], None] = lambda image: None,
        take_mutations: TakeMutations | None = None,
    ) -> None:
        """`before_image` is called with each image before it is published, so that its ACLs apply first.

        `take_mutations` counts the mutations that this node decides as the controller for clients' quotas.
        """
        self._quorum = quorum
        self._controller = ControllerRuntime(
            quorum=quorum, image=image, config=config, clock=clock, take_mutations=take_mutations
        )
        self._image = image
        self._sender = sender
        self._voters = voters  # the nodes to ask while the leader is unknown
        self._chance = chance if chance is not None else random.Random(0)
        self._request_timeout_s = request_timeout_ms / 1000
        self._retry_backoff_s = retry_backoff_ms / 1000
        self._ids = RequestIds()
        self.suspects = SuspectedBrokers()
        self._listeners: list[Listener] = [self.suspects.handle_metadata]
        self._before_image = before_image
        self._commit_listeners: list[Callable[[MetadataBatch | None, MetadataImage], None]] = []
        self._awaited: list[tuple[int, int, Future[None]]] = []  # a heap by offset
        self._awaited_count = 0
        self._new_leader = asyncio.Event()  # set and replaced when the quorum has a new leader
        self.encoded_answers = encoded_answers or EncodedAnswers()
        self.encoded_versions = EncodedAnswers()  # responses of ApiVersions, one for each version
        self.broker_epoch = -1  # until this broker is registered
        self.broker_id = broker_id
        self._is_connected = is_connected
        self._gone: dict[int, int] = {}  # brokers whose process has ended, with their broker epochs
        self._lost_at_s: dict[int, float] = {}  # brokers whose last connection to this node ended, and when
        self._known_controller = -1
        self._controller_listeners: list[Callable[[], None]] = []
        self._ticks_now = asyncio.Event()
        quorum.attach(self)

    @property
    def image(self) -> MetadataImage:
        """The committed image that was last published."""
        return self._image

    @property
    def committed_image(self) -> MetadataImage:
        """The committed image, under the name that `QuorumListener` gives it."""
        return self._image

    @property
    def is_controller(self) -> bool:
        """True while this node leads the metadata quorum."""
        return self._quorum.is_leader

    @property
    def controller_id(self) -> int:
        """The node that leads the metadata quorum, -1 if none is known."""
        return self._quorum.leader_id

    @property
    def controller_epoch(self) -> int:
        """The epoch of that leader."""
        return self._quorum.epoch

    def quorum_status(self) -> QuorumStatus:
        """Return the voters and observers as this node knows them; only the leader knows their progress."""
        status = self._quorum.status()
        if not self._quorum.is_leader:
            return status
        members = {one.node_id for one in (*status.voters, *status.observers)}
        return status._replace(observers=(*status.observers, *self._controller.observers(members)))

    def controller_state(self) -> Mapping[str, object] | None:
        """Return the controller's state that no log has; None unless this node leads."""
        return self._controller.state() if self._quorum.is_leader else None

    @property
    def commit_times(self) -> LatencyHistogram:
        """The times from a decision of this node, as the controller, to its commit."""
        return self._controller.commit_times

    def add_listener(self, listener: Listener) -> None:
        """Call `listener` with each new image; it must not raise."""
        self._listeners.append(listener)

    def add_controller_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the quorum has another leader, or no known one."""
        self._controller_listeners.append(listener)

    def add_commit_listener(self, listener: Callable[[MetadataBatch | None, MetadataImage], None]) -> None:
        """Call `listener` with each committed batch and its image; without a batch after a snapshot."""
        self._commit_listeners.append(listener)

    def reconfigure(self, config: ControllerConfig) -> None:
        """Use other settings of the controller from now on."""
        self._controller.reconfigure(config)

    async def run(self) -> None:
        """Run the quorum and the ticks of the controller until `close`; an error is fatal to the node."""
        async with asyncio.TaskGroup() as tasks:
            ticking = tasks.create_task(self._tick_for_ever())
            try:
                await self._quorum.run()
            finally:
                ticking.cancel()

    async def _tick_for_ever(self) -> None:
        while True:
            await wait_at_most(self._ticks_now, self._pause_s())
            if self.controller_id != self._known_controller:
                self._known_controller = self.controller_id
                if self._known_controller != -1:
                    self._end_backoffs()
                for listener in self._controller_listeners:
                    listener()
            if self._quorum.is_leader:
                try:
                    self.tick()
                except KafkaError as error:
                    log.warning(
                        "The controller could not do the work that is due, and will try again soon: %s", error
                    )

    def _pause_s(self) -> float:
        """Return the seconds until the next tick, which is when the controller has work, so that it idles."""
        look_s = until_next(LOOK_S)
        if not self._quorum.is_leader:
            return look_s
        return min(look_s, self._controller.idle_s() or RETRY_S)

    def tick(self) -> None:
        """Do the work that is due by time, as `run` does regularly while this node leads."""
        self._controller.tick()

    def close(self) -> None:
        """Finish appended batches and let `run` return."""
        self._quorum.close()

    def peer_lost(self, broker_id: int) -> None:
        """Report to the controller that a broker's last connection to this node ended.

        While another node leads, the time is kept until this node leads.
        """
        broker = self._image.brokers.get(broker_id)
        if broker is None:
            return
        if not self._quorum.is_leader:
            # As the leader, this node need not wait for the broker's whole session.
            self._lost_at_s[broker_id] = get_running_loop().time()
            return
        try:
            self._controller.begin(
                BrokerConnectionLost(broker_id=broker_id, broker_epoch=broker.broker_epoch)
            )
            self._ticks_now.set()  # the broker may have to be fenced sooner now
        except KafkaError as error:
            log.info("The lost connection of broker %d is ignored: %s", broker_id, error)

    def peer_gone(self, broker_id: int, broker_epoch: int) -> None:
        """Report to the controller that a broker's process has ended: its port refuses connections.

        While another node leads, the report is kept until this node leads.
        """
        if not self._quorum.is_leader:
            self._gone[broker_id] = broker_epoch
            return
        try:
            self._controller.begin(
                BrokerConnectionLost(broker_id=broker_id, broker_epoch=broker_epoch, is_gone=True)
            )
            self._controller.tick()
        except KafkaError as error:
            log.info("The end of broker %d could not be reported to the controller: %s", broker_id, error)

    # ---- commands --------------------------------------------------------------------------------------

    @overload
    async def submit(
        self, command: CreateTopics, timeout_ms: int = ..., client: ClientIdentity | None = ...
    ) -> CreateTopicsReply: ...
    @overload
    async def submit(
        self, command: DeleteTopics, timeout_ms: int = ..., client: ClientIdentity | None = ...
    ) -> DeleteTopicsReply: ...
    @overload
    async def submit(
        self, command: CreatePartitions, timeout_ms: int = ..., client: ClientIdentity | None = ...
    ) -> CreatePartitionsReply: ...
    @overload
    async def submit(
        self, command: AlterConfigs, timeout_ms: int = ..., client: ClientIdentity | None = ...
    ) -> AlterConfigsReply: ...
    @overload
    async def submit(
        self, command: RegisterBroker, timeout_ms: int = ..., client: ClientIdentity | None = ...
    ) -> RegisterBrokerReply: ...
    @overload
    async def submit(
        self, command: BrokerHeartbeat, timeout_ms: int = ..., client: ClientIdentity | None = ...
    ) -> BrokerHeartbeatReply: ...
    @overload
    async def submit(
        self, command: UnregisterBroker, timeout_ms: int = ..., client: ClientIdentity | None = ...
    ) -> UnregisterBrokerReply: ...
    @overload
    async def submit(
        self, command: ReportOfflineLogDirs, timeout_ms: int = ..., client: ClientIdentity | None = ...
    ) -> ReportOfflineLogDirsReply: ...
    @overload
    async def submit(
        self, command: AssignReplicasToDirs, timeout_ms: int = ..., client: ClientIdentity | None = ...
    ) -> AssignReplicasToDirsReply: ...
    @overload
    async def submit(
        self, command: AlterPartition, timeout_ms: int = ..., client: ClientIdentity | None = ...
    ) -> AlterPartitionReply: ...
    @overload
    async def submit(
        self, command: ElectLeaders, timeout_ms: int = ..., client: ClientIdentity | None = ...
    ) -> ElectLeadersReply: ...
    @overload
    async def submit(
        self, command: AlterPartitionReassignments, timeout_ms: int = ..., client: ClientIdentity | None = ...
    ) -> AlterPartitionReassignmentsReply: ...
    @overload
    async def submit(
        self, command: AllocateProducerIds, timeout_ms: int = ..., client: ClientIdentity | None = ...
    ) -> AllocateProducerIdsReply: ...
    @overload
    async def submit(
        self, command: UpdateFeatures, timeout_ms: int = ..., client: ClientIdentity | None = ...
    ) -> UpdateFeaturesReply: ...
    @overload
    async def submit(
        self, command: AddRaftVoter, timeout_ms: int = ..., client: ClientIdentity | None = ...
    ) -> AddRaftVoterReply: ...
    @overload
    async def submit(
        self, command: RemoveRaftVoter, timeout_ms: int = ..., client: ClientIdentity | None = ...
    ) -> RemoveRaftVoterReply: ...
    @overload
    async def submit(
        self, command: CreateAcls, timeout_ms: int = ..., client: ClientIdentity | None = ...
    ) -> CreateAclsReply: ...
    @overload
    async def submit(
        self, command: DeleteAcls, timeout_ms: int = ..., client: ClientIdentity | None = ...
    ) -> DeleteAclsReply: ...
    @overload
    async def submit(
        self, command: AlterClientQuotas, timeout_ms: int = ..., client: ClientIdentity | None = ...
    ) -> AlterClientQuotasReply: ...
    @overload
    async def submit(
        self, command: AlterUserScramCredentials, timeout_ms: int = ..., client: ClientIdentity | None = ...
    ) -> AlterUserScramCredentialsReply: ...
    async def submit(
        self, command: Command, timeout_ms: int = DEFAULT_TIMEOUT_MS, client: ClientIdentity | None = None
    ) -> Reply:
        """Submit a command to the controller, and return its reply once this node has published the change.

        `client` is the client that asked for the command, and must be authorized for it; None if this node
        itself did. KafkaError if the whole command is rejected. After NOT_CONTROLLER or REQUEST_TIMED_OUT,
        when no controller answered in time, the command may or may not be carried out.
        """
        loop = get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        if not isinstance(command, REMEMBERED) or self.broker_epoch < 0:
            return await self._submit(command, None, deadline, client)
        with self._ids.open() as sequence:
            return await self._submit(command, sequence, deadline, client)

    async def _submit(
        self, command: Command, sequence: int | None, deadline: float, client: ClientIdentity | None
    ) -> Reply:
        loop = get_running_loop()
        backoff_s = self._retry_backoff_s
        broker_epoch, asked_last = self.broker_epoch, Leader(-1, -1)
        while True:
            request = None if sequence is None else self._ids.request(broker_epoch, sequence)
            new_leader = self._new_leader
            try:
                if self._quorum.is_leader:
                    return (await self._controller.decide(command, request, client)).reply
                asked_last = self._leader_to_ask(asked_last)
                decided = await self._ask(asked_last.node_id, command, request, deadline, client)
                await self._wait_for(decided.offset, deadline)
                return decided.reply
            except KafkaError as error:
                if error.code not in _RETRIED or loop.time() + backoff_s >= deadline:
                    raise _client_error(error) from None
            try:
                async with asyncio.timeout(backoff_s * (0.5 + self._chance.random() / 2)):
                    await new_leader.wait()
                backoff_s = self._retry_backoff_s
            except TimeoutError:
                backoff_s = min(2 * backoff_s, MAX_BACKOFF_S)

    def _end_backoffs(self) -> None:
        """End the backoff of commands that wait to be sent again: a heartbeat must not be late."""
        self._new_leader.set()
        self._new_leader = asyncio.Event()

    def _leader_to_ask(self, asked_last: Leader) -> Leader:
        """Return the known leader, or else another voter than the last one asked, with epoch -1: it may know.

        A leader that rejected a command in this epoch is not asked again in it; any other node is, since it
        may have become the leader meanwhile.
        """
        known = Leader(self._quorum.epoch, self._quorum.leader_id)
        if self._sender is not None and self._sender.hint.epoch > known.epoch:
            known = self._sender.hint
        refused = asked_last.node_id if known.epoch <= asked_last.epoch else -1
        if known.node_id not in (-1, self.broker_id, refused):
            return known
        others = [one for one in self._voters() if one not in (self.broker_id, asked_last.node_id)]
        return Leader(-1, self._chance.choice(others)) if others else known

    async def _ask(
        self,
        node_id: int,
        command: Command,
        request: RequestId | None,
        deadline: float,
        client: ClientIdentity | None,
    ) -> Decided:
        if self._sender is None or node_id in (-1, self.broker_id):
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "No node is known to lead the metadata quorum.")
        timeout_s = min(self._request_timeout_s, deadline - get_running_loop().time())
        return await self._sender.send(node_id, command, request, max(0.001, timeout_s), client)

    async def decide(
        self, command: Command, request: RequestId | None, client: ClientIdentity | None = None
    ) -> Decided:
        """Decide the command of a peer, for itself or for a client; NOT_CONTROLLER unless this node leads."""
        return await self._controller.decide(command, request, client)

    async def _wait_for(self, offset: int, deadline: float) -> None:
        if self._image.version >= offset:
            return
        reached: Future[None] = get_running_loop().create_future()
        self._awaited_count += 1
        heappush(self._awaited, (offset, self._awaited_count, reached))
        try:
            async with asyncio.timeout_at(deadline):
                await reached
        except TimeoutError:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, "The change was made, but this node has not received it yet."
            ) from None

    # ---- events of the quorum --------------------------------------------------------------------------

    def handle_commit(self, batch: MetadataBatch, image: MetadataImage, changes: MetadataChanges) -> None:
        """Publish a committed image, then let the command of its batch return."""
        committed = self._controller.handle_commit(batch, image)
        if changes.configs:
            self._ticks_now.set()  # topics may allow unclean elections now, or work be due earlier
        for listener in self._commit_listeners:
            listener(batch, image)
        self._publish(image, changes)
        if committed is not None and not committed.done():
            committed.set_result(None)

    def handle_snapshot(self, image: MetadataImage, changes: MetadataChanges) -> None:
        """Publish the image of a snapshot, which is ahead by any number of batches."""
        self._controller.handle_jump(image)
        for listener in self._commit_listeners:
            listener(None, image)
        self._publish(image, changes)

    def handle_leader_change(self) -> None:
        """Check for a new controller at once."""
        self._ticks_now.set()

    def handle_leadership(self, epoch: int) -> None:
        """Begin to decide commands; brokers that lost their connection to this node may have ended."""
        self._ticks_now.set()
        self._end_backoffs()
        # Voters learn of the new leader at once, so a voter without a connection to this node makes one now.
        dialling_until_s = get_running_loop().time() + FIRST_DIAL_S
        lost_at_s = dict.fromkeys(self._voters(), dialling_until_s) | self._lost_at_s
        self._lost_at_s = {}
        own = self._image.brokers.get(self.broker_id)
        is_registered = own is not None and own.broker_epoch == self.broker_epoch

        def is_here(node_id: int) -> bool:
            return is_registered if node_id == self.broker_id else self._is_connected(node_id)

        self._controller.lead({one: at_s for one, at_s in sorted(lost_at_s.items()) if not is_here(one)})
        gone, self._gone = self._gone, {}
        for broker_id, broker_epoch in gone.items():
            if not self._is_connected(broker_id):
                self.peer_gone(broker_id, broker_epoch)

    def handle_resignation(self, detail: str) -> None:
        """Fail the commands that are not committed; `submit` and other nodes send them to the next leader."""
        self._controller.resign(detail)

    def handle_peer_link(self, node_id: int, *, is_up: bool) -> None:
        """Report a voter as a lost broker if no connection to it is left: its process has probably ended."""
        if is_up:
            self._lost_at_s.pop(node_id, None)
        elif not self._is_connected(node_id):
            self.peer_lost(node_id)

    def _publish(self, image: MetadataImage, changes: MetadataChanges) -> None:
        self._before_image(image)
        self._image = image
        self.encoded_answers.clear()
        self.encoded_versions.clear()
        for listener in self._listeners:
            listener(image, changes)
        while self._awaited and self._awaited[0][0] <= image.version:
            reached = heappop(self._awaited)[2]
            if not reached.done():
                reached.set_result(None)


def _client_error(error: KafkaError) -> KafkaError:
    """Return the error for the caller: NETWORK_EXCEPTION becomes REQUEST_TIMED_OUT.

    A connection between nodes was lost, not that of the client.
    """
    if error.code is ErrorCode.NETWORK_EXCEPTION:
        return KafkaError(ErrorCode.REQUEST_TIMED_OUT, error.detail)
    return error
