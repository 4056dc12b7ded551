"""Members of a consumer group (KIP-848), to which the coordinator assigns partitions.

A member uses its assigned partitions, revokes others at its next heartbeat, and joins again when it is
removed or fenced. A `ConsumerHistory` records what it receives and sends.
"""

import random
from collections.abc import Sequence
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.simulation.consumer_history import ConsumerHistory
from tests.simulation.sim_client import SimClient, check, pause
from tests.simulation.workload import Workload

SESSION_MS: Final = 3_000
# Longer than a session: a member that does not learn of a revocation is removed before this is over.
REBALANCE_MS: Final = 20_000
SETTINGS: Final = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
}
NOT_A_MEMBER: Final = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.FENCED_INSTANCE_ID,
}


class ConsumerMember:
    """A consumer that joins its group again and again."""

    def __init__(
        self,
        workload: Workload,
        history: ConsumerHistory,
        name: str,
        topics: Sequence[str],
        *,
        pause_s: float,
        instance: str | None = None,
        regex: str | None = None,
    ) -> None:
        self._workload = workload
        self._history = history
        self.name = name
        self._topics = topics
        self._pause_s = pause_s
        self._instance = instance
        self._regex = regex
        self._client: SimClient
        self._chance: random.Random
        self._client, self._chance, process = workload.client(name)
        self._ids: dict[bytes, str] = {}  # of topics
        self._incarnations = 0
        self._epoch = -1
        self._sends_all_fields = True
        self._assigned: set[TopicPartition] = set()
        self._answered_s = 0.0  # when the last answered heartbeat was sent
        self._revokes_since_s: float | None = None
        self.owned: set[TopicPartition] = set()
        self.is_calm = False  # it does not leave any more
        workload.spawn(process, self._run())

    @property
    def is_joined(self) -> bool:
        return self._epoch > 0 and self.owned == self._assigned

    @property
    def is_safe_until_s(self) -> float:
        """The time until which no other member may own its partitions.

        This is the end of its session, or before that the end of the time for a revocation.
        """
        session_s = self._answered_s + SESSION_MS / 1000
        if self._revokes_since_s is None:
            return session_s
        return min(session_s, self._revokes_since_s + REBALANCE_MS / 1000)

    @property
    def _member_id(self) -> str:
        return f"{self.name}.{self._incarnations}"

    @property
    def _now_s(self) -> float:
        return self._workload.world.loop.now_s

    async def _run(self) -> None:
        while not self._workload.stopping:
            try:
                if self._epoch < 0:
                    await self._fetch_topic_ids()
                    await self._heartbeat()
                else:
                    await pause(self._chance, self._pause_s)
                    await self._act()
            except KafkaError as error:
                self._workload.check_error(error)
                self._workload.world.trace("consumer", f"{self.name} {error.code.name}")
                if error.code in NOT_A_MEMBER:
                    self._reset()
                elif error.code is not ErrorCode.STALE_MEMBER_EPOCH:
                    self._client.forget_coordinator(self._history.group)
                    self._sends_all_fields = True
                await pause(self._chance)
        self._client.close()

    def _reset(self) -> None:
        self._epoch, self._sends_all_fields, self._revokes_since_s = -1, True, None
        self._assigned, self.owned = set(), set()

    async def _act(self) -> None:
        dice = self._chance.random()
        if dice < 0.04 and not self.is_calm:
            await self._leave()
        elif dice < 0.4 and self.owned & self._assigned:
            await self._commit(self._chance.choice(sorted(self.owned & self._assigned)))
        else:
            await self._heartbeat()

    async def _fetch_topic_ids(self) -> None:
        """Fetch the topic ids; a node that has just started may not know all topics yet."""
        while len(self._ids) < len(self._topics):
            found = await self._client.refresh(self._topics)
            self._ids = {bytes(one.topic_id): one.name for one in found.topics if one.name and one.partitions}
            await pause(self._chance)

    # ---- heartbeats --------------------------------------------------------------------------------------

    async def _heartbeat(self) -> None:
        """Send a heartbeat with the owned partitions, and take over the assignment of the response."""
        joins = self._epoch < 0
        self.owned &= self._assigned
        sends_all_fields = joins or self._sends_all_fields
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._history.group,
            member_id=self._member_id,
            member_epoch=0 if joins else self._epoch,
            instance_id=self._instance,
            rebalance_timeout_ms=REBALANCE_MS if sends_all_fields else -1,
            subscribed_topic_names=([] if self._regex else list(self._topics)) if sends_all_fields else None,
            subscribed_topic_regex=(self._regex or "") if sends_all_fields else None,
            topic_partitions=[] if joins else self._as_topics(),
        )
        coordinator = await self._client.coordinator_of(self._history.group)
        sent_s = self._now_s
        answer = await self._client.ask(coordinator, request, ConsumerGroupHeartbeatResponse)
        check(answer.error_code, answer.error_message)
        self._answered_s, self._epoch, self._sends_all_fields = sent_s, answer.member_epoch, False
        if answer.assignment is not None:
            await self._take_assignment(answer.assignment.topic_partitions)
        self._revokes_since_s = (self._revokes_since_s or sent_s) if self.owned - self._assigned else None

    async def _take_assignment(self, assignment: Sequence[TopicPartitions]) -> None:
        self._assigned = {
            TopicPartition(self._ids[bytes(topic.topic_id)], number)
            for topic in assignment
            if bytes(topic.topic_id) in self._ids
            for number in topic.partitions
        }
        new = sorted(self._assigned - self.owned)
        self._workload.world.trace("assigned", f"{self.name} {self._epoch} {sorted(self._assigned)}")
        for partition in new:
            self._history.note_received(self, partition, self._now_s)
        self.owned |= self._assigned
        for partition in new:
            at_least = self._history.offsets.of(partition).highest
            found = await self._client.committed(self._history.group, partition)
            if self._history.owner(partition) is self:
                self._history.offsets.check_fetched(partition, found, at_least=at_least)

    def _as_topics(self) -> list[TopicPartitions]:
        return [
            TopicPartitions(topic_id=topic_id, partitions=numbers)
            for topic_id, name in self._ids.items()
            if (numbers := sorted(one.partition for one in self.owned if one.topic == name))
        ]

    async def _leave(self) -> None:
        """Leave the group, a static member temporarily; either returns with another member id."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._history.group,
            member_id=self._member_id,
            member_epoch=-1 if self._instance is None else -2,
            instance_id=self._instance,
        )
        self._reset()
        coordinator = await self._client.coordinator_of(self._history.group)
        answer = await self._client.ask(coordinator, request, ConsumerGroupHeartbeatResponse)
        self._incarnations += 1
        check(answer.error_code, answer.error_message)

    # ---- commits -----------------------------------------------------------------------------------------

    async def _commit(self, partition: TopicPartition) -> None:
        """Commit an offset. If there is no answer, leave: this commit might take effect after a later one."""
        offsets = self._history.offsets
        offset = max(offsets.of(partition).attempted) + 1
        owner = self._history.owner(partition)
        offsets.of(partition).attempted.add(offset)
        try:
            await self._client.commit(
                self._history.group,
                partition,
                offset,
                generation_id=self._epoch,
                member_id=self._member_id,
            )
        except KafkaError as error:
            if error.code not in NOT_A_MEMBER and error.code is not ErrorCode.STALE_MEMBER_EPOCH:
                self._client.forget_coordinator(self._history.group)
                await self._leave()
            raise
        self._history.note_committed(self, partition, offset, owner_then=owner)
