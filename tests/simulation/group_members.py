"""Members of a classic group: they join, receive partitions, commit offsets, and leave again.

They use the classic protocol like any consumer. A member whose commit is not answered leaves and joins again
with another member id: otherwise that commit might take effect after a later one.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.node.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from ottla.node.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.node.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.simulation.group_history import GroupHistory, Ownership
from tests.simulation.sim_client import SimClient, check, pause
from tests.simulation.workload import Workload

SESSION_MS: Final = 3_000
REBALANCE_MS: Final = 2_000
JOIN_TIMEOUT_S: Final = 4.0  # longer than a rebalance takes
PROTOCOL: Final = "sim"
# Errors after which a member joins again, as the group has a new generation or is about to have one.
REJOIN: Final = {
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
}

Work: TypeAlias = Callable[[SimClient, Ownership, TopicPartition], Awaitable[None]]


class GroupMember:
    """A consumer that joins its group again and again."""

    def __init__(
        self,
        workload: Workload,
        history: GroupHistory,
        name: str,
        partitions: Sequence[TopicPartition],
        *,
        pause_s: float,
        work: Work | None = None,
    ) -> None:
        """Create a member and start it.

        `work` is called with a partition that the member owns; by default it commits an offset.
        """
        self._workload = workload
        self._history = history
        self._name = name
        self._partitions = partitions
        self._pause_s = pause_s
        self._work = work
        self._client: SimClient
        self._chance: random.Random
        self._client, self._chance, process = workload.client(name)
        self._member_id = ""
        self._assignment_count = 0
        self._owned: Ownership | None = None
        workload.spawn(process, self._run())

    @property
    def is_joined(self) -> bool:
        return self._owned is not None

    async def _run(self) -> None:
        while not self._workload.stopping:
            try:
                if self._owned is None:
                    await self._join()
                else:
                    await pause(self._chance, self._pause_s)
                    await self._act(self._owned)
            except KafkaError as error:
                self._owned = None
                self._workload.check_error(error)
                self._workload.world.trace("rejoin", f"{self._name} {error.code.name}")
                if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
                    self._member_id = ""
                elif error.code not in REJOIN:
                    self._client.forget_coordinator(self._history.group)
                await pause(self._chance)
        self._client.close()

    async def _act(self, owned: Ownership) -> None:
        dice = self._chance.random()
        if dice < 0.05:
            await self._leave()
        elif dice < 0.5 and owned.partitions:
            partition = self._chance.choice(owned.partitions)
            if self._work is None:
                await self._commit(owned, partition)
            else:
                await self._work(self._client, owned, partition)
        else:
            await self._heartbeat(owned)

    # ---- join ------------------------------------------------------------------------------------------

    async def _join(self) -> None:
        request = JoinGroupRequest(
            group_id=self._history.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=b"")],
        )
        coordinator = await self._client.coordinator_of(self._history.group)
        joined = await self._client.ask(coordinator, request, JoinGroupResponse, timeout_s=JOIN_TIMEOUT_S)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
            return
        check(joined.error_code)
        self._member_id = joined.member_id
        sync = SyncGroupRequest(
            group_id=self._history.group,
            generation_id=joined.generation_id,
            member_id=self._member_id,
            protocol_type="consumer",
            protocol_name=PROTOCOL,
            assignments=self._assign(joined.members) if joined.leader == joined.member_id else [],
        )
        synced = await self._client.ask(coordinator, sync, SyncGroupResponse, timeout_s=JOIN_TIMEOUT_S)
        check(synced.error_code)
        assignment_id, _, numbers = bytes(synced.assignment).decode().partition(":")
        owned = Ownership(
            generation_id=joined.generation_id,
            member_id=self._member_id,
            assignment_id=assignment_id,
            partitions=[self._partitions[int(number)] for number in numbers.split(",") if number],
        )
        self._workload.world.trace("joined", f"{self._name} {owned.generation_id} {numbers}")
        if assignment_id:
            self._history.note_joined(owned)
        for partition in owned.partitions:
            at_least = self._history.of(partition).highest
            found = await self._client.committed(self._history.group, partition)
            self._history.check_fetched(
                partition, found, at_least=at_least, generation_id=owned.generation_id
            )
        self._owned = owned

    def _assign(self, members: Sequence[JoinGroupResponseMember]) -> list[SyncGroupRequestAssignment]:
        """Return an assignment of the partitions to the members in turn, with an id of its own."""
        self._assignment_count += 1
        return [
            SyncGroupRequestAssignment(
                member_id=member.member_id,
                assignment=f"{self._name}-{self._assignment_count}:{numbers}".encode(),
            )
            for place, member in enumerate(members)
            for numbers in (",".join(map(str, range(place, len(self._partitions), len(members)))),)
        ]

    # ---- membership ------------------------------------------------------------------------------------

    async def _heartbeat(self, owned: Ownership) -> None:
        request = HeartbeatRequest(
            group_id=self._history.group, generation_id=owned.generation_id, member_id=owned.member_id
        )
        coordinator = await self._client.coordinator_of(self._history.group)
        check((await self._client.ask(coordinator, request, HeartbeatResponse)).error_code)

    async def _commit(self, owned: Ownership, partition: TopicPartition) -> None:
        history = self._history
        offset = max(history.of(partition).attempted) + 1
        latest = history.generation_id
        history.of(partition).attempted.add(offset)
        try:
            await self._client.commit(
                history.group,
                partition,
                offset,
                generation_id=owned.generation_id,
                member_id=owned.member_id,
            )
        except KafkaError as error:
            if error.code not in REJOIN:
                self._client.forget_coordinator(history.group)
                await self._leave()
            raise
        history.note_committed(partition, offset, generation_id=owned.generation_id, latest_then=latest)

    async def _leave(self) -> None:
        request = LeaveGroupRequest(
            group_id=self._history.group, members=[MemberIdentity(member_id=self._member_id)]
        )
        self._member_id, self._owned = "", None
        coordinator = await self._client.coordinator_of(self._history.group)
        check((await self._client.ask(coordinator, request, LeaveGroupResponse)).error_code)
