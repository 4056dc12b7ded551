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
RETRY_S: Final = 0.1
GIVE_UP_AFTER_S: Final = 6.0  # silent members are removed after 3 s
# Errors that prove that nothing was done.
REJECTIONS: Final = {
    ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


class Reset(NamedTuple):
    """A reset of the group in some partitions, with the earliest start offset that may follow."""

    name: str
    partitions: Sequence[TopicPartition]
    start_offset: int
    send: Callable[[], Awaitable[None]]


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
            await self._reset_without_members(self._random_reset())
        # Perhaps reset once more after all faults: the final checks must hold after a reset, too.
        if self._chance.random() < 0.5:
            await self._reset_without_members(self._random_reset())
        self._client.close()

    async def _reset_without_members(self, reset: Reset) -> None:
        for member in self._members:
            member.is_away = True
        try:
            await self._do(reset)
        finally:
            for member in self._members:
                member.is_away = False

    async def _do(self, reset: Reset) -> None:
        world = self._workload.world
        deadline_s = world.loop.now_s + GIVE_UP_AFTER_S
        while world.loop.now_s < deadline_s:
            self._note(lambda one, partition: one.reset_requested(partition), reset)
            world.trace("reset", f"{reset.name} {reset.partitions} {reset.start_offset}")
            try:
                await reset.send()
            except KafkaError as error:
                self._workload.check_error(error)
                world.trace("refused", f"{reset.name} {error.code.name}")
                self._client.forget_coordinator(self._history.group)
                if error.code in REJECTIONS:
                    self._note(lambda one, partition: one.reset_rejected(partition), reset)
                    if error.code is not ErrorCode.NON_EMPTY_GROUP:
                        return  # there is nothing to delete
                else:
                    for partition in reset.partitions:
                        self._history.reset_in_doubt(partition, reset.start_offset)
                        self._invariants.reset_in_doubt(partition)
                await asyncio.sleep(RETRY_S)
                continue
            for partition in reset.partitions:
                self._history.reset_answered(partition, reset.start_offset)
                self._invariants.reset_answered(partition)
            world.trace("was reset", reset.name)
            return

    def _note(
        self, note: Callable[[ShareHistory | ShareInvariants, TopicPartition], None], reset: Reset
    ) -> None:
        for partition in reset.partitions:
            note(self._history, partition)
            note(self._invariants, partition)

    def _random_reset(self) -> Reset:
        client, group, chance = self._client, self._history.group, self._chance
        partition = chance.choice(self._partitions)
        dice = chance.random()
        if dice < 0.6:
            acknowledged = self._workload.history.of(partition).acknowledged
            offset = chance.choice((0, chance.randint(0, max(acknowledged, default=0))))
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
