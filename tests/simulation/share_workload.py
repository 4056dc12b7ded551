"""A share group under faults: its members, a client that describes its offsets, and the checks at the end.

After recovery the members share all partitions, and the coordinator knows no other members. They accept all
records that are left, until the leaders have no more for them; then each record must be accepted or archived.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Final

from ottla.groupcoord.share_state.share_state_records import SHARE_STATE_TOPIC
from ottla.logstore.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from ottla.node.wire.messages.produce import ProduceResponse
from ottla.node.wire.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from tests.simulation import admin_requests
from tests.simulation.invariants import replicas_of
from tests.simulation.share_history import ShareHistory
from tests.simulation.share_invariants import ShareInvariants
from tests.simulation.share_letters import check_letters, read_letters
from tests.simulation.share_members import ShareMember
from tests.simulation.share_resets import ShareResetter
from tests.simulation.share_traits import DELAYED_TOPICS, DELIVER_AFTER, Traits
from tests.simulation.sim_client import (
    LAST_VERSION_WITH_NAMES,
    SimClient,
    base_offset_of,
    check,
    pause,
    produce_request,
)
from tests.simulation.txn_history import TxnHistory
from tests.simulation.virtual_loop import SimulationError
from tests.simulation.workload import Workload
from tests.simulation.world import START_MS

GROUP: Final = "workers"
LOCK_MS: Final = 1_000
DELIVERY_LIMITS: Final = ("2", "3", "5")
STATE_PARTITIONS: Final = 2
POLL_S: Final = 0.3
FETCHED_S: Final = 1.0  # in which each member fetches at least once from each leader of its partitions
PROBE_MS: Final = 4_000  # longer than any other delay
LETTERS_S: Final = 40.0  # a write of dead letters is retried after up to 30 s
SETTINGS: Final = {
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "3000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "400",
    "group.share.assignment.interval.ms": "200",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.partition.max.record.locks": "100",
    "share.coordinator.state.topic.num.partitions": str(STATE_PARTITIONS),
    # Small numbers, so that there are many snapshots, and the log before them is pruned.
    "share.coordinator.snapshot.update.records.per.snapshot": "3",
    "share.coordinator.state.topic.prune.interval.ms": "700",
    "share.coordinator.cold.partition.snapshot.interval.ms": "1500",
}
STATES: Final = tuple(TopicPartition(SHARE_STATE_TOPIC, index) for index in range(STATE_PARTITIONS))


def settings(chance: random.Random, replicas: int) -> dict[str, str]:
    """Return the settings of all nodes where there is a share group."""
    return {
        **SETTINGS,
        "group.share.delivery.count.limit": chance.choice(DELIVERY_LIMITS),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(min(2, replicas)),
    }


class ShareWorkload:
    """One share group of a run, which reads only committed records where there are transactions."""

    def __init__(
        self,
        workload: Workload,
        txn_history: TxnHistory,
        partitions: Sequence[TopicPartition],
        txn_partitions: Sequence[TopicPartition],
        *,
        delivery_limit: int,
        traits: Traits = Traits(),
        letter_partitions: Sequence[TopicPartition] = (),
    ) -> None:
        self.history = ShareHistory(GROUP)
        self.traits = traits
        self._letter_partitions = letter_partitions
        self.partitions = [*partitions, *txn_partitions]
        self.members: list[ShareMember] = []
        self._workload = workload
        self._world = workload.world
        self._txn_history = txn_history
        self._txn_partitions = frozenset(txn_partitions)
        self.invariants = ShareInvariants(
            workload.world, self.history, lock_ms=LOCK_MS, delivery_limit=delivery_limit, traits=traits
        )

    async def begin(self, client: SimClient, workers: int, *, limit_s: float) -> None:
        """Configure the group and start its members."""
        isolation = "read_committed" if self._txn_partitions else "read_uncommitted"
        configs = {"share.auto.offset.reset": "earliest", "share.isolation.level": isolation}
        configs |= self.traits.group_configs()
        deadline_s = self._world.loop.now_s + limit_s
        while True:
            try:
                await admin_requests.set_group_configs(client, GROUP, configs)
                break
            except KafkaError as error:
                if self._world.loop.now_s > deadline_s:
                    raise SimulationError(f"{GROUP} cannot be configured: {error}") from error
                await pause(self._world.chance)
        while self.traits != Traits() and not self._is_known(configs):
            if self._world.loop.now_s > deadline_s:
                raise SimulationError(f"not all nodes know the configs of {GROUP}")
            await asyncio.sleep(0.05)
        topics = sorted({partition.topic for partition in self.partitions})
        chance = random.Random(f"share {self._world.seed}")
        for number in range(workers):
            self.members.append(
                ShareMember(
                    self._workload,
                    self.history,
                    f"worker-{number}",
                    topics,
                    note_read=self._note_read,
                    invariants=self.invariants,
                    pause_s=chance.choice((0.02, 0.1, 0.3)),
                    traits=self.traits,
                )
            )
        self._watch_start_offsets()
        if self.traits.resets:
            ShareResetter(self._workload, self.history, self.invariants, self.partitions, self.members)

    def _is_known(self, configs: Mapping[str, str]) -> bool:
        """Return True if all nodes know the configs of the group, after which faults may begin."""
        return all(
            node.broker is not None
            and dict(node.broker.quorum_services.image.configs.group(GROUP)) == configs
            for node in self._world.nodes
        )

    def _note_read(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        self._workload.history.note_read(partition, offset, value)
        if partition in self._txn_partitions:
            self._txn_history.note_read(partition, offset, value)

    def _watch_start_offsets(self) -> None:
        client, chance, process = self._workload.client("lag")

        async def poll() -> None:
            while not self._workload.stopping:
                await pause(chance, POLL_S)
                try:
                    await self._check_start_offsets(client)
                except KafkaError as error:
                    self._workload.check_error(error)
                    client.forget_coordinator(GROUP)
            client.close()

        self._workload.spawn(process, poll())

    async def _check_start_offsets(self, client: SimClient) -> None:
        request = DescribeShareGroupOffsetsRequest(
            groups=[DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)]
        )
        before = {partition: self.history.start_of(partition) for partition in self.partitions}
        coordinator = await client.coordinator_of(GROUP)
        answer = await client.ask(coordinator, request, DescribeShareGroupOffsetsResponse)
        check(answer.groups[0].error_code, answer.groups[0].error_message)
        for topic in answer.groups[0].topics:
            for one in topic.partitions:
                partition = TopicPartition(topic.topic_name, one.partition_index)
                if not one.error_code and partition in before:
                    self.history.note_start_offset(partition, one.start_offset, at_least=before[partition])

    # ---- end

    async def wait_until_agreed(self, client: SimClient, *, limit_s: float) -> None:
        """Wait until members and coordinator agree on an assignment of all partitions to these members."""
        for member in self.members:
            member.is_calm = True
        deadline_s = self._world.loop.now_s + limit_s
        while (problem := await self._disagreement(client)) is not None:
            if self._world.loop.now_s > deadline_s:
                raise SimulationError(problem)
            await pause(self._world.chance)

    async def _disagreement(self, client: SimClient) -> str | None:
        assigned = {one.member_id: sorted(one.assigned) for one in self.members if one.is_joined}
        try:
            coordinator = await client.coordinator_of(GROUP)
            answer = await client.ask(
                coordinator, ShareGroupDescribeRequest(group_ids=[GROUP]), ShareGroupDescribeResponse
            )
            [group] = answer.groups
            check(group.error_code, group.error_message)
        except KafkaError as error:
            client.forget_coordinator(GROUP)
            return f"{GROUP} cannot be described: {error}"
        found = {
            member.member_id: sorted(
                TopicPartition(topic.topic_name, number)
                for topic in member.assignment.topic_partitions
                for number in topic.partitions
            )
            for member in group.members
        }
        if len(assigned) < len(self.members) or found != assigned:
            return f"{GROUP} is {group.group_state} and has {found}, its members know {assigned}"
        if {one for some in assigned.values() for one in some} != set(self.partitions):
            return f"the members of {GROUP} share {assigned} of {self.partitions}"
        return None

    async def probe(self, client: SimClient, *, limit_s: float) -> None:
        """Check that a record with a long delay does not hold up the records behind it."""
        if not self.traits.delays:
            return
        partitions = [one for one in self.partitions if one.topic in DELAYED_TOPICS]
        due_s = self._world.loop.now_s + PROBE_MS / 1000
        behind = {one: await self._produce_probe(client, one, limit_s) for one in partitions}
        while left := [one for one, offset in behind.items() if not self.history.has_ended(one, offset)]:
            if self._world.loop.now_s >= due_s:
                raise SimulationError(f"{GROUP} does not receive the records behind a delayed one of {left}")
            await asyncio.sleep(0.05)

    async def _produce_probe(self, client: SimClient, partition: TopicPartition, limit_s: float) -> int:
        """Produce a record that is due much later and one that is due now; return the second one's offset."""
        deadline_s = self._world.loop.now_s + limit_s
        offset = -1
        delays_ms = [PROBE_MS, 0]
        for number in count():
            value = b"probe:%d:" % number
            self._workload.history.attempt(partition, [value])
            request = produce_request(
                partition,
                [value],
                now_ms=START_MS + int(self._world.loop.now_s * 1000),
                producer=(NO_PRODUCER_ID, NO_PRODUCER_EPOCH),
                base_sequence=NO_SEQUENCE,
                headers=[((DELIVER_AFTER, b"%d" % delays_ms[0]),)],
            )
            try:
                leader = await client.leader(partition)
                answer = await client.ask(
                    leader, request, ProduceResponse, max_version=LAST_VERSION_WITH_NAMES
                )
                offset = base_offset_of(answer)
                self._workload.history.acknowledge(partition, offset, [value])
                del delays_ms[0]
                if not delays_ms:
                    break
            except KafkaError as error:
                if self._world.loop.now_s > deadline_s:
                    raise SimulationError(f"{partition} accepts no records: {error}") from error
                client.forget_leader(partition)
                await pause(self._world.chance)
        return offset

    async def accept_all(self, *, limit_s: float) -> None:
        """Let the members accept all records that are left, and stop them; nothing is produced any more."""
        deadline_s = self._world.loop.now_s + limit_s + (LETTERS_S if self.traits.has_letters else 0)
        if self.traits.resets:  # leaders notice the last reset when the members fetch again
            await asyncio.sleep(FETCHED_S)
        while (unfinished := self._unfinished()) or not all(member.has_no_records for member in self.members):
            if self._world.loop.now_s > deadline_s:
                raise SimulationError(f"{GROUP} does not finish {unfinished}")
            await asyncio.sleep(0.05)
        for member in self.members:
            member.is_stopped = True
        tasks = [task for member in self.members for task in member.tasks]
        while not all(task.done() for task in tasks):
            if self._world.loop.now_s > deadline_s:
                raise SimulationError(f"a member of {GROUP} does not end after recovery")
            await asyncio.sleep(0.05)
        for task in tasks:
            task.result()

    def _unfinished(self) -> dict[TopicPartition, tuple[int, int]]:
        """Return start offset and log end offset of the partitions that the group has not finished."""
        unfinished = {}
        for partition in self.partitions:
            for node, replica in replicas_of(self._world, partition):
                if replica.is_leader:
                    start, end = self.invariants.start_offset_at(node, partition), replica.log.log_end_offset
                    if start < end:
                        unfinished[partition] = start, end
        return unfinished

    async def check(
        self, client: SimClient, contents: Mapping[TopicPartition, Mapping[int, bytes]], *, limit_s: float
    ) -> None:
        """Compare with the records that the group could see, when the cluster is at rest."""
        for partition in self.partitions:
            self.history.check_end(partition, contents[partition])
        letters = [
            letter
            for partition in self._letter_partitions
            for letter in await read_letters(
                self._world, client, self._world.chance, partition, limit_s=limit_s
            )
        ]
        check_letters(self.history, self.traits, letters, {one: contents[one] for one in self.partitions})
