"""Requests ISR changes from the controller: proposals of all partitions that this node leads, in one command.

A proposal that was lost, or could not be decided, is sent again for as long as its partition stands by it.
The committed ISR arrives with the metadata, as all metadata do.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.commands import (
    AlteredPartition,
    AlteredTopic,
    AlterPartition,
    AlterPartitionReply,
    BrokerState,
)
from ottla.node.replica.isr import IsrProposal
from ottla.node.replica.partition import Partition

RETRY_S: Final = 0.05
MAX_PROPOSALS: Final = 2_000  # in one command, which may need a record for each

log = logging.getLogger(__name__)


class IsrUpdates:
    """The pending proposals. It runs on the event loop; `run` is its task."""

    def __init__(
        self,
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
        alter_partition: Callable[[AlterPartition], Awaitable[AlterPartitionReply]],
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._alter_partition = alter_partition
        self._proposals: dict[Partition, IsrProposal] = {}
        self.expands = self.shrinks = self.failures = 0  # since the node started
        self._has_proposals = asyncio.Event()

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        """Send this proposal with the next command."""
        self._proposals[partition] = proposal
        self._has_proposals.set()

    async def run(self) -> None:
        """Send proposals for as long as the node runs."""
        while True:
            await self._has_proposals.wait()
            if not await self.submit():
                await asyncio.sleep(RETRY_S)

    async def submit(self) -> bool:
        """Send one command with the present proposals; False if some have to be sent again."""
        proposals = self._take()
        if not proposals:
            self._has_proposals.clear()
            return True
        sizes = {one: len(one.assignment.in_sync_replicas) for one in proposals}
        try:
            reply = await self._alter_partition(self._command(proposals))
        except KafkaError as error:
            log.warning("The ISRs of %d partitions could not be changed yet: %s", len(proposals), error)
            self.failures += len(proposals)
            self._keep(proposals)
            return False
        codes = {
            (topic.topic_id, one.partition_index): ErrorCode(one.error_code)
            for topic in reply.topics
            for one in topic.partitions
        }
        again: dict[Partition, IsrProposal] = {}
        for partition, proposal in proposals.items():
            name = partition.topic_id, partition.topic_partition.partition
            code = codes.get(name, ErrorCode.UNKNOWN_SERVER_ERROR)
            self._count(len(proposal.isr) - sizes[partition], code)
            if partition.isr is not None and partition.isr.settle(proposal, code):
                again[partition] = proposal
            else:
                partition.isr_settled()
        self._keep(again)
        return not again

    def _count(self, more: int, code: ErrorCode) -> None:
        if code is not ErrorCode.NONE:
            self.failures += 1
        elif more > 0:
            self.expands += 1
        elif more < 0:
            self.shrinks += 1

    def _take(self) -> dict[Partition, IsrProposal]:
        proposals: dict[Partition, IsrProposal] = {}
        for partition, proposal in tuple(self._proposals.items())[:MAX_PROPOSALS]:
            del self._proposals[partition]
            if partition.isr is not None and partition.isr.is_pending(proposal):
                proposals[partition] = proposal
        return proposals

    def _keep(self, proposals: dict[Partition, IsrProposal]) -> None:
        for partition, proposal in proposals.items():
            self._proposals.setdefault(partition, proposal)

    def _command(self, proposals: dict[Partition, IsrProposal]) -> AlterPartition:
        topics: dict[bytes, list[AlteredPartition]] = {}
        for partition, proposal in proposals.items():
            log.info(
                "%s: ISR %s will be changed to %s.",
                partition.topic_partition,
                sorted(partition.assignment.in_sync_replicas),
                sorted(proposal.broker_ids),
            )
            topics.setdefault(partition.topic_id, []).append(
                AlteredPartition(
                    partition_index=partition.topic_partition.partition,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=broker_id, broker_epoch=epoch)
                        for broker_id, epoch in proposal.isr
                    ],
                    partition_epoch=proposal.partition_epoch,
                    damaged_replicas=proposal.damaged,
                )
            )
        return AlterPartition(
            broker_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
            topics=[AlteredTopic(topic_id=topic_id, partitions=those) for topic_id, those in topics.items()],
        )
