"""An administrator that sends the members of a share group away and resets the group.

It alters or deletes the group's offsets, or deletes the group. A request without an answer may take effect
later, or never: the partition is then in doubt for `ShareHistory` and `ShareInvariants`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from tests.simulation import admin_requests
from tests.simulation.share_history import ShareHistory
from tests.simulation.share_invariants import ShareInvariants
from tests.simulation.share_members import ShareMember
from tests.simulation.sim_client import SimClient, pause
from tests.simulation.workload import Workload

PAUSE_S: Final = 1.0
TRY_S: Final = 0.1
PATIENCE_S: Final = 6.0  # silent members are removed after 3 s
# Errors that prove that nothing was done.
REFUSED: Final = {
    ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


class Reset(NamedTuple):
    """A reset of the group in some partitions, with the earliest start offset that may follow."""

    name: str
    partitions: Sequence[TopicPartition]
    start_offset: int
    ask: Callable[[], Awaitable[None]]


class ShareResetter:
    """A client that resets the group again and again until the faults end."""

    def __init__(
        self,
        workload: Workload,
        history: ShareHistory,
        invariants: ShareInvariants,
        partitions: Sequence[TopicPartition],
        members: Sequence[ShareMember],
    ) -> None:
        self.done = 0  # resets that were answered
        self._workload = workload
        self._history = history
        self._invariants = invariants
        self._partitions = partitions
        self._members = members
        self._client: SimClient
        self._client, self._chance, process = workload.client("resetter")
        workload.spawn(process, self._run())

    async def _run(self) -> None:
        workload = self._workload
        while not workload.is_calm and not workload.stopping:
            await pause(self._chance, PAUSE_S)
            await self._send_away(self._some_reset())
        # Perhaps once more after all faults, as the checks hold whatever happened before.
        if self._chance.random() < 0.5:
            await self._send_away(self._some_reset())
        self._client.close()

    async def _send_away(self, reset: Reset) -> None:
        for member in self._members:
            member.is_away = True
        try:
            await self._do(reset)
        finally:
            for member in self._members:
                member.is_away = False

    async def _do(self, reset: Reset) -> None:
        world = self._workload.world
        deadline_s = world.loop.now_s + PATIENCE_S
        while world.loop.now_s < deadline_s:
            self._tell(lambda one, partition: one.reset_asked(partition), reset)
            world.trace("reset", f"{reset.name} {reset.partitions} {reset.start_offset}")
            try:
                await reset.ask()
            except KafkaError as error:
                self._workload.judge(error)
                world.trace("refused", f"{reset.name} {error.code.name}")
                self._client.forget_coordinator(self._history.group)
                if error.code in REFUSED:
                    self._tell(lambda one, partition: one.reset_refused(partition), reset)
                    if error.code is not ErrorCode.NON_EMPTY_GROUP:
                        return  # there is nothing to delete
                else:
                    for partition in reset.partitions:
                        self._history.reset_in_doubt(partition, reset.start_offset)
                        self._invariants.reset_in_doubt(partition)
                await asyncio.sleep(TRY_S)
                continue
            for partition in reset.partitions:
                self._history.reset_answered(partition, reset.start_offset)
                self._invariants.reset_answered(partition)
            self.done += 1
            world.trace("was reset", reset.name)
            return

    def _tell(
        self, tell: Callable[[ShareHistory | ShareInvariants, TopicPartition], None], reset: Reset
    ) -> None:
        for partition in reset.partitions:
            tell(self._history, partition)
            tell(self._invariants, partition)

    def _some_reset(self) -> Reset:
        client, group, chance = self._client, self._history.group, self._chance
        partition = chance.choice(self._partitions)
        dice = chance.random()
        if dice < 0.6:
            told = self._workload.history.of(partition).acknowledged
            offset = chance.choice((0, chance.randint(0, max(told, default=0))))
            return Reset(
                "alter",
                [partition],
                offset,
                lambda: admin_requests.alter_share_offset(client, group, partition, offset),
            )
        if dice < 0.8:
            topic = partition.topic
            partitions = [one for one in self._partitions if one.topic == topic]
            return Reset(
                "forget", partitions, 0, lambda: admin_requests.delete_share_offsets(client, group, topic)
            )
        return Reset("delete", self._partitions, 0, lambda: admin_requests.delete_group(client, group))
