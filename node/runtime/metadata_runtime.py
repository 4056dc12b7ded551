"""The metadata of this node: commands in, committed images out.

Owns the controller and the quorum. A command is decided against the controller's image, which runs ahead;
its records go to the quorum; when they are committed the image is published to the listeners of this node,
and only then is the command answered. So whoever was told that a topic exists finds it here.
"""

import logging
from asyncio import Future, get_running_loop, shield
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, overload

from logstore.errors import ErrorCode, KafkaError
from metadata_raft.commands import (
    AllocateProducerIds,
    AllocateProducerIdsReply,
    AlterConfigs,
    AlterConfigsReply,
    AssignReplicasToDirs,
    AssignReplicasToDirsReply,
    BrokerHeartbeat,
    BrokerHeartbeatReply,
    Command,
    CreatePartitions,
    CreatePartitionsReply,
    CreateTopics,
    CreateTopicsReply,
    DeleteTopics,
    DeleteTopicsReply,
    RegisterBroker,
    RegisterBrokerReply,
    Reply,
    ReportOfflineLogDirs,
    ReportOfflineLogDirsReply,
    UpdateFeatures,
    UpdateFeaturesReply,
)
from metadata_raft.controller import Controller
from metadata_raft.controller_config import ControllerConfig
from metadata_raft.delta import MetadataChanges
from metadata_raft.image import Endpoint, MetadataImage
from metadata_raft.quorum import Quorum
from metadata_raft.record_codec import MetadataBatch
from metadata_raft.records import BrokerEndpoint, BrokerFeature, MetadataRecord
from node.clock import Clock
from node.runtime.encoded_answers import EncodedAnswers

# Who acts on committed metadata: (image, what changed since the image before).
Listener = Callable[[MetadataImage, MetadataChanges], None]

log = logging.getLogger(__name__)


class _Pending(NamedTuple):
    """A batch on its way to the disk, with the image that it makes."""

    batch: MetadataBatch
    image: MetadataImage
    changes: MetadataChanges
    committed: "Future[None]"


class MetadataRuntime:
    """All of its methods run on the event loop of the node."""

    def __init__(
        self, *, quorum: Quorum, image: MetadataImage, config: ControllerConfig, clock: Clock
    ) -> None:
        self._quorum = quorum
        self._controller = Controller(image, config)
        self._image = image
        self._clock = clock
        self._pending: deque[_Pending] = deque()
        self._listeners: list[Listener] = []
        self._producer_ids = range(0)
        self._producer_id_block: Future[None] | None = None
        self.encoded_answers = EncodedAnswers()
        self.broker_epoch = -1
        self.broker_id = -1
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
    def controller_id(self) -> int:
        """The node that leads the metadata quorum, -1 if none is known."""
        return self._quorum.leader_id

    def add_listener(self, listener: Listener) -> None:
        """Call `listener` with each new image; it must not raise."""
        self._listeners.append(listener)

    def reconfigure(self, config: ControllerConfig) -> None:
        """Decide by other settings from now on."""
        self._controller.config = config

    async def run(self) -> None:
        """Keep the quorum at work until `close`; its failure is the node's."""
        await self._quorum.run()

    def close(self) -> None:
        """Finish what was begun, then let `run` return."""
        self._quorum.close()

    # ---- commands --------------------------------------------------------------------------------------

    @overload
    async def submit(self, command: CreateTopics) -> CreateTopicsReply: ...
    @overload
    async def submit(self, command: DeleteTopics) -> DeleteTopicsReply: ...
    @overload
    async def submit(self, command: CreatePartitions) -> CreatePartitionsReply: ...
    @overload
    async def submit(self, command: AlterConfigs) -> AlterConfigsReply: ...
    @overload
    async def submit(self, command: RegisterBroker) -> RegisterBrokerReply: ...
    @overload
    async def submit(self, command: BrokerHeartbeat) -> BrokerHeartbeatReply: ...
    @overload
    async def submit(self, command: ReportOfflineLogDirs) -> ReportOfflineLogDirsReply: ...
    @overload
    async def submit(self, command: AssignReplicasToDirs) -> AssignReplicasToDirsReply: ...
    @overload
    async def submit(self, command: AllocateProducerIds) -> AllocateProducerIdsReply: ...
    @overload
    async def submit(self, command: UpdateFeatures) -> UpdateFeaturesReply: ...
    async def submit(self, command: Command) -> Reply:
        """Decide, commit and publish; KafkaError if the whole command is refused or cannot be committed."""
        if not self._quorum.is_leader:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "This node does not lead the metadata quorum.")
        now_ms = self._clock.now_ms()
        decision = self._controller.decide(command, now_ms)
        if decision.records:
            committed = self._append(decision.records, now_ms)
        elif self._pending:
            # The reply may show what is not committed yet.
            committed = self._pending[-1].committed
        else:
            return decision.reply
        await shield(committed)  # Others may wait for it too; one that is cancelled must not fail them.
        return decision.reply

    def _append(self, records: Sequence[MetadataRecord], now_ms: int) -> "Future[None]":
        before = self._controller.image
        batch = MetadataBatch(before.version + 1, self._quorum.epoch, now_ms, records)
        changes = self._controller.replay(batch)
        committed: Future[None] = get_running_loop().create_future()
        # Several may wait for one commit, or all of them may have gone.
        committed.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._pending.append(_Pending(batch, self._controller.image, changes, committed))
        try:
            self._quorum.append(batch)
        except KafkaError:
            self._pending.pop()
            self._controller.reset(before)
            raise
        return committed

    # ---- what the quorum tells -------------------------------------------------------------------------

    def handle_commit(self, batch: MetadataBatch, image: MetadataImage, changes: MetadataChanges) -> None:
        """Publish the next image; a batch of ours has its image already, and somebody who waits for it."""
        pending = self._pending[0] if self._pending else None
        if pending is not None and pending.batch.base_offset == batch.base_offset:
            assert pending.batch.epoch == batch.epoch, "another leader's batch stands where ours was to be"
            self._pending.popleft()
            self._publish(pending.image, pending.changes)
            if not pending.committed.done():
                pending.committed.set_result(None)
            return
        self._controller.reset(image)
        self._publish(image, changes)

    def handle_snapshot(self, image: MetadataImage, changes: MetadataChanges) -> None:
        """Publish what this node missed in one go."""
        self._controller.reset(image)
        self._publish(image, changes)

    def handle_leadership(self, epoch: int) -> None:
        """Decide from what is committed."""
        self._controller.reset(self._image)

    def handle_resignation(self, detail: str) -> None:
        """Nobody can say what becomes of the batches on their way; their commands fail, retriable."""
        failed, self._pending = self._pending, deque()
        self._controller.reset(self._image)
        for pending in failed:
            if not pending.committed.done():
                pending.committed.set_exception(KafkaError(ErrorCode.NOT_CONTROLLER, detail))

    def _publish(self, image: MetadataImage, changes: MetadataChanges) -> None:
        self._image = image
        self.encoded_answers.clear()
        for listener in self._listeners:
            listener(image, changes)

    # ---- this broker -----------------------------------------------------------------------------------

    async def register(
        self,
        *,
        broker_id: int,
        incarnation_id: bytes,
        listeners: Mapping[str, Endpoint],
        rack: str | None,
        log_dirs: Sequence[bytes],
        features: Mapping[str, tuple[int, int]],
    ) -> None:
        """Tell the cluster that this process is the broker `broker_id` from now on, still fenced."""
        reply = await self.submit(
            RegisterBroker(
                broker_id=broker_id,
                incarnation_id=incarnation_id,
                listeners=[
                    BrokerEndpoint(
                        name=name,
                        host=point.host,
                        port=point.port,
                        security_protocol=point.security_protocol,
                    )
                    for name, point in sorted(listeners.items())
                ],
                rack=rack,
                log_dirs=log_dirs,
                features=[
                    BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
                    for name, (low, high) in sorted(features.items())
                ],
            )
        )
        self.broker_id, self.broker_epoch = broker_id, reply.broker_epoch

    async def unfence(self) -> None:
        """Lead whatever this broker may lead: its logs are open and its listeners ready."""
        await self.submit(
            BrokerHeartbeat(
                broker_id=self.broker_id,
                broker_epoch=self.broker_epoch,
                current_metadata_offset=self._image.version,
            )
        )

    async def next_producer_id(self) -> int:
        """A producer id that nobody has; one commit serves a block of them, however many ask at once."""
        while not self._producer_ids:
            if self._producer_id_block is None:
                self._producer_id_block = get_running_loop().create_future()
                try:
                    await self._take_producer_ids()
                finally:
                    block, self._producer_id_block = self._producer_id_block, None
                    block.set_result(None)
            else:
                await self._producer_id_block
        first, self._producer_ids = self._producer_ids[0], self._producer_ids[1:]
        return first

    async def _take_producer_ids(self) -> None:
        command = AllocateProducerIds(broker_id=self.broker_id, broker_epoch=self.broker_epoch)
        reply = await self.submit(command)
        self._producer_ids = range(reply.producer_id_start, reply.producer_id_start + reply.producer_id_len)
