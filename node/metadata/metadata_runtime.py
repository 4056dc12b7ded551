"""The metadata of this node: commands in, committed images out.

A command is decided where the quorum is led: here, or on the node to which it is sent. Its reply names the
offset at which its records stand, and `submit` returns when the image of this node has reached that and was
published to the listeners of this node. So whoever was told that a topic exists finds it here. While leaders
change, or answers are lost, it is sent again with the same id, by which the next leader knows whether it was
carried out.
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
from ottla.metadata_raft.acl_set import Asker
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
from ottla.node.work.pause import waits_at_most

# Who acts on committed metadata: (image, what changed since the image before).
Listener = Callable[[MetadataImage, MetadataChanges], None]

DEFAULT_TIMEOUT_MS: Final = 30_000  # as request.timeout.ms of Apache Kafka's clients
TICK_S: Final = 0.1  # how often the controller looks at what time alone changes
LOOK_S: Final = 0.5  # how often another node looks who the controller is, which it is told of
# What a voter may take to dial a new leader to which it has no connection, before that counts as broken.
FIRST_DIAL_S: Final = 0.5
MAX_BACKOFF_S: Final = 0.5
# After these nobody knows whether the command was carried out, or it was not: it is sent again.
_RETRIED: Final = frozenset(
    {ErrorCode.NOT_CONTROLLER, ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT}
)

log = logging.getLogger(__name__)


class MetadataRuntime:
    """All of its methods run on the event loop of the node."""

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
        """`before_image` gets each image before anybody sees it, so that clients are judged by its ACLs.
        `take_mutations` counts for the quotas of clients what this node decides while it leads.
        """
        self._quorum = quorum
        self._controller = ControllerRuntime(
            quorum=quorum, image=image, config=config, clock=clock, take_mutations=take_mutations
        )
        self._image = image
        self._sender = sender
        self._voters = voters  # whom to ask who leads, where that is not known
        self._chance = chance if chance is not None else random.Random(0)
        self._request_timeout_s = request_timeout_ms / 1000
        self._retry_backoff_s = retry_backoff_ms / 1000
        self._ids = RequestIds()
        self.suspects = SuspectedBrokers()
        self._listeners: list[Listener] = [self.suspects.meet_metadata]
        self._before_image = before_image
        self._commit_listeners: list[Callable[[MetadataBatch | None, MetadataImage], None]] = []
        self._awaited: list[tuple[int, int, Future[None]]] = []  # a heap by offset
        self._awaited_count = 0
        self._new_leader = asyncio.Event()  # set, and replaced, when a leader of the quorum is known anew
        self.encoded_answers = encoded_answers or EncodedAnswers()
        self.encoded_versions = EncodedAnswers()  # of ApiVersions: one for each of its versions
        self.broker_epoch = -1  # until this broker is registered
        self.broker_id = broker_id
        self._is_connected = is_connected
        self._gone: dict[int, int] = {}  # brokers whose process is known to have ended, by their epochs
        self._lost_at_s: dict[int, float] = {}  # brokers whose last connection to this node ended
        self._known_controller = -1
        self._controller_listeners: list[Callable[[], None]] = []
        self._ticks_now = asyncio.Event()
        quorum.attach(self)

    @property
    def image(self) -> MetadataImage:
        """The committed metadata, as all listeners know it."""
        return self._image

    @property
    def committed_image(self) -> MetadataImage:
        """The same, under the name by which the quorum asks for it."""
        return self._image

    @property
    def is_controller(self) -> bool:
        """Whether this node leads the metadata quorum."""
        return self._quorum.is_leader

    @property
    def controller_id(self) -> int:
        """The node that leads the metadata quorum, -1 if none is known."""
        return self._quorum.leader_id

    @property
    def controller_epoch(self) -> int:
        """The reign of that node."""
        return self._quorum.epoch

    def quorum_status(self) -> QuorumStatus:
        """Voters and observers as this node knows them; the leader knows most."""
        status = self._quorum.status()
        if not self._quorum.is_leader:
            return status
        members = {one.node_id for one in (*status.voters, *status.observers)}
        return status._replace(observers=(*status.observers, *self._controller.observers(members)))

    def controller_state(self) -> Mapping[str, object] | None:
        """What this node knows as the controller and no log has; None unless it leads."""
        return self._controller.state() if self._quorum.is_leader else None

    @property
    def commit_times(self) -> LatencyHistogram:
        """How long what this node decided as the controller took to be committed."""
        return self._controller.commit_times

    def add_listener(self, listener: Listener) -> None:
        """Call `listener` with each new image; it must not raise."""
        self._listeners.append(listener)

    def add_controller_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` when another node leads the quorum, or nobody is known to."""
        self._controller_listeners.append(listener)

    def add_commit_listener(self, listener: Callable[[MetadataBatch | None, MetadataImage], None]) -> None:
        """Call `listener` with each committed batch and its image; without a batch after a jump."""
        self._commit_listeners.append(listener)

    def reconfigure(self, config: ControllerConfig) -> None:
        """Decide by other settings from now on."""
        self._controller.reconfigure(config)

    async def run(self) -> None:
        """Keep the quorum at work until `close`; its failure is the node's."""
        async with asyncio.TaskGroup() as tasks:
            ticking = tasks.create_task(self._tick_for_ever())
            try:
                await self._quorum.run()
            finally:
                ticking.cancel()

    async def _tick_for_ever(self) -> None:
        while True:
            await waits_at_most(self._ticks_now, TICK_S if self._quorum.is_leader else LOOK_S)
            if self.controller_id != self._known_controller:
                self._known_controller = self.controller_id
                if self._known_controller != -1:
                    self._tell_new_leader()
                for listener in self._controller_listeners:
                    listener()
            if self._quorum.is_leader:
                try:
                    self.tick()
                except KafkaError as error:
                    log.warning(
                        "The controller could not do work that is due, and tries again soon: %s", error
                    )

    def tick(self) -> None:
        """Decide what is due as time goes by, as `run` does all the time while this node leads."""
        self._controller.tick()

    def close(self) -> None:
        """Finish what was begun, then let `run` return."""
        self._quorum.close()

    def peer_lost(self, broker_id: int) -> None:
        """The last connection of that broker to this node ended; the controller is told, if it is here."""
        broker = self._image.brokers.get(broker_id)
        if broker is None:
            return
        if not self._quorum.is_leader:
            # Should this node come to lead, it need not wait for that broker's whole session.
            self._lost_at_s[broker_id] = get_running_loop().time()
            return
        try:
            self._controller.begin(
                BrokerConnectionLost(broker_id=broker_id, broker_epoch=broker.broker_epoch)
            )
        except KafkaError as error:
            log.info("The lost connection of broker %d is ignored: %s", broker_id, error)

    def peer_is_gone(self, broker_id: int, broker_epoch: int) -> None:
        """Where that process of a broker listened nobody does: it need not be waited for."""
        if not self._quorum.is_leader:
            self._gone[broker_id] = broker_epoch
            return
        try:
            self._controller.begin(
                BrokerConnectionLost(broker_id=broker_id, broker_epoch=broker_epoch, is_gone=True)
            )
            self._controller.tick()
        except KafkaError as error:
            log.info("The controller could not be told now that broker %d has stopped: %s", broker_id, error)

    # ---- commands --------------------------------------------------------------------------------------

    @overload
    async def submit(
        self, command: CreateTopics, timeout_ms: int = ..., client: Asker | None = ...
    ) -> CreateTopicsReply: ...
    @overload
    async def submit(
        self, command: DeleteTopics, timeout_ms: int = ..., client: Asker | None = ...
    ) -> DeleteTopicsReply: ...
    @overload
    async def submit(
        self, command: CreatePartitions, timeout_ms: int = ..., client: Asker | None = ...
    ) -> CreatePartitionsReply: ...
    @overload
    async def submit(
        self, command: AlterConfigs, timeout_ms: int = ..., client: Asker | None = ...
    ) -> AlterConfigsReply: ...
    @overload
    async def submit(
        self, command: RegisterBroker, timeout_ms: int = ..., client: Asker | None = ...
    ) -> RegisterBrokerReply: ...
    @overload
    async def submit(
        self, command: BrokerHeartbeat, timeout_ms: int = ..., client: Asker | None = ...
    ) -> BrokerHeartbeatReply: ...
    @overload
    async def submit(
        self, command: UnregisterBroker, timeout_ms: int = ..., client: Asker | None = ...
    ) -> UnregisterBrokerReply: ...
    @overload
    async def submit(
        self, command: ReportOfflineLogDirs, timeout_ms: int = ..., client: Asker | None = ...
    ) -> ReportOfflineLogDirsReply: ...
    @overload
    async def submit(
        self, command: AssignReplicasToDirs, timeout_ms: int = ..., client: Asker | None = ...
    ) -> AssignReplicasToDirsReply: ...
    @overload
    async def submit(
        self, command: AlterPartition, timeout_ms: int = ..., client: Asker | None = ...
    ) -> AlterPartitionReply: ...
    @overload
    async def submit(
        self, command: ElectLeaders, timeout_ms: int = ..., client: Asker | None = ...
    ) -> ElectLeadersReply: ...
    @overload
    async def submit(
        self, command: AlterPartitionReassignments, timeout_ms: int = ..., client: Asker | None = ...
    ) -> AlterPartitionReassignmentsReply: ...
    @overload
    async def submit(
        self, command: AllocateProducerIds, timeout_ms: int = ..., client: Asker | None = ...
    ) -> AllocateProducerIdsReply: ...
    @overload
    async def submit(
        self, command: UpdateFeatures, timeout_ms: int = ..., client: Asker | None = ...
    ) -> UpdateFeaturesReply: ...
    @overload
    async def submit(
        self, command: AddRaftVoter, timeout_ms: int = ..., client: Asker | None = ...
    ) -> AddRaftVoterReply: ...
    @overload
    async def submit(
        self, command: RemoveRaftVoter, timeout_ms: int = ..., client: Asker | None = ...
    ) -> RemoveRaftVoterReply: ...
    @overload
    async def submit(
        self, command: CreateAcls, timeout_ms: int = ..., client: Asker | None = ...
    ) -> CreateAclsReply: ...
    @overload
    async def submit(
        self, command: DeleteAcls, timeout_ms: int = ..., client: Asker | None = ...
    ) -> DeleteAclsReply: ...
    @overload
    async def submit(
        self, command: AlterClientQuotas, timeout_ms: int = ..., client: Asker | None = ...
    ) -> AlterClientQuotasReply: ...
    @overload
    async def submit(
        self, command: AlterUserScramCredentials, timeout_ms: int = ..., client: Asker | None = ...
    ) -> AlterUserScramCredentialsReply: ...
    async def submit(
        self, command: Command, timeout_ms: int = DEFAULT_TIMEOUT_MS, client: Asker | None = None
    ) -> Reply:
        """Decide, commit and publish, wherever the controller is.

        `client` is who asked for it, and must have the right to; None where this node does it of itself.
        KafkaError if the whole command is refused; NOT_CONTROLLER or REQUEST_TIMED_OUT if nobody could decide
        it in time, and then it may or may not be carried out.
        """
        loop = get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        if not isinstance(command, REMEMBERED) or self.broker_epoch < 0:
            return await self._submit(command, None, deadline, client)
        with self._ids.open() as sequence:
            return await self._submit(command, sequence, deadline, client)

    async def _submit(
        self, command: Command, sequence: int | None, deadline: float, client: Asker | None
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
                asked_last = self._whom_to_ask(asked_last)
                decided = await self._ask(asked_last.node_id, command, request, deadline, client)
                await self._wait_for(decided.offset, deadline)
                return decided.reply
            except KafkaError as error:
                if error.code not in _RETRIED or loop.time() + backoff_s >= deadline:
                    raise _told(error) from None
            try:
                async with asyncio.timeout(backoff_s * (0.5 + self._chance.random() / 2)):
                    await new_leader.wait()
                backoff_s = self._retry_backoff_s
            except TimeoutError:
                backoff_s = min(2 * backoff_s, MAX_BACKOFF_S)

    def _tell_new_leader(self) -> None:
        """Commands that wait to be sent again wait no longer: a heartbeat that comes late is none."""
        self._new_leader.set()
        self._new_leader = asyncio.Event()

    def _whom_to_ask(self, asked_last: Leader) -> Leader:
        """The leader, as far as that is known; else, as of epoch -1, another voter than before, who may know.

        Whoever was not asked as the leader of this epoch may well have come to lead it since.
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
        client: Asker | None,
    ) -> Decided:
        if self._sender is None or node_id in (-1, self.broker_id):
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "No node is known to lead the metadata quorum.")
        timeout_s = min(self._request_timeout_s, deadline - get_running_loop().time())
        return await self._sender.send(node_id, command, request, max(0.001, timeout_s), client)

    async def decide(
        self, command: Command, request: RequestId | None, client: Asker | None = None
    ) -> Decided:
        """Decide what a peer asks, for itself or for a client; NOT_CONTROLLER unless this node leads."""
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

    # ---- what the quorum tells -------------------------------------------------------------------------

    def handle_commit(self, batch: MetadataBatch, image: MetadataImage, changes: MetadataChanges) -> None:
        """Publish the next image, then answer who waits for it."""
        committed = self._controller.handle_commit(batch, image)
        for listener in self._commit_listeners:
            listener(batch, image)
        self._publish(image, changes)
        if committed is not None and not committed.done():
            committed.set_result(None)

    def handle_snapshot(self, image: MetadataImage, changes: MetadataChanges) -> None:
        """Publish what this node missed in one go."""
        self._controller.handle_jump(image)
        for listener in self._commit_listeners:
            listener(None, image)
        self._publish(image, changes)

    def handle_leader_change(self) -> None:
        """Look who the controller is now."""
        self._ticks_now.set()

    def handle_leadership(self, epoch: int) -> None:
        """Decide from what is committed."""
        self._ticks_now.set()
        self._tell_new_leader()
        # Voters hear of the new leader at once, so one that has no connection here will make one now.
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
                self.peer_is_gone(broker_id, broker_epoch)

    def handle_resignation(self, detail: str) -> None:
        """The commands under way here fail; `submit` and their senders ask the next leader."""
        self._controller.resign(detail)

    def handle_peer_link(self, node_id: int, *, is_up: bool) -> None:
        """A voter that nobody here can talk to is most likely dead, and a broker that leads partitions."""
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


def _told(error: KafkaError) -> KafkaError:
    """What whoever waited is told when time is up: a lost connection among nodes is not the client's."""
    if error.code is ErrorCode.NETWORK_EXCEPTION:
        return KafkaError(ErrorCode.REQUEST_TIMED_OUT, error.detail)
    return error
