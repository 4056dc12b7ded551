"""Administrators: one creates, changes and deletes topics, another moves partitions and changes voters.

Each sends one request at a time, and never repeats one.
"""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from tests.simulation import admin_requests
from tests.simulation.admin_history import RequestedValue, TopicHistory
from tests.simulation.history import History
from tests.simulation.sim_client import SimClient, pause
from tests.simulation.virtual_loop import SimulationError
from tests.simulation.workload import Workload

MAX_PARTITIONS: Final = 5
# Errors that prove that nothing was done.
REJECTIONS: Final = {
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,  # a replica is down
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.DUPLICATE_VOTER,
    ErrorCode.VOTER_NOT_FOUND,
}
SETTINGS: Final = {
    "min.insync.replicas": ("1", "2", "3"),
    "segment.ms": ("1000", "3600000"),
    "flush.messages": ("1", "9223372036854775807"),
}


class TopicAdministrator:
    """An administrator that creates topics, alters their configs, adds partitions and deletes topics."""

    def __init__(self, workload: Workload, name: str, *, replication_factor: int, pause_s: float) -> None:
        self._workload = workload
        self._admin = workload.history.admin
        self._name = name
        self._replication_factor = replication_factor
        self._pause_s = pause_s
        self._client, self._chance, process = workload.client(name)
        workload.spawn(process, self._run())

    async def _run(self) -> None:
        workload, chance = self._workload, self._chance
        number = 0
        names: list[str] = []
        while not workload.stopping:
            await pause(chance, self._pause_s)
            dice = chance.random()
            if dice < 0.4 or not names:
                number += 1
                names.append(f"{self._name}-{number}")
                topic, work = names[-1], self._create(names[-1])
            elif dice < 0.7:
                topic = chance.choice(names)
                work = self._set_retention(topic)
            elif dice < 0.8:
                topic = chance.choice(names)
                work = self._add_partition(topic)
            else:
                topic = names.pop(chance.randrange(len(names)))
                work = self._delete(topic)
            try:
                await work
            except KafkaError as error:
                workload.check_error(error)
                self._admin.check_not_repeated(error, topic)
                workload.world.trace("refused", f"{self._name} {error.code.name}")
        self._client.close()

    async def _create(self, name: str) -> None:
        topic = self._admin.topics[name] = TopicHistory(RequestedValue(self._chance.randint(1, 2)))
        await admin_requests.create_topic(
            self._client, name, topic.partitions.settled, self._replication_factor, {}
        )
        topic.is_created = True
        self._workload.world.trace("made", name)

    async def _set_retention(self, name: str) -> None:
        await set_config(
            self._client,
            self._admin.topics[name],
            name,
            "retention.ms",
            str(self._chance.randrange(10_000_000, 1_000_000_000)),
        )

    async def _add_partition(self, name: str) -> None:
        """Add a partition to a topic: one more than all that were requested before."""
        partitions = self._admin.topics[name].partitions
        count = max(partitions.settled, *partitions.in_doubt, 0) + 1
        if count <= MAX_PARTITIONS:
            partitions.request(count)
            await admin_requests.create_partitions(self._client, name, count)
            partitions.settle(count)
            self._workload.world.trace("grown", f"{name} {count}")

    async def _delete(self, name: str) -> None:
        topic = self._admin.topics[name]
        topic.is_deletion_requested = True
        await admin_requests.delete_topic(self._client, name)
        topic.is_deleted = True
        self._workload.world.trace("deleted", name)


async def set_config(client: SimClient, topic: TopicHistory, name: str, key: str, value: str) -> None:
    """Set a config of a topic and remember it."""
    setting = topic.setting(key)
    setting.request(value)
    await admin_requests.set_topic_config(client, name, key, value)
    setting.settle(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The partitions, nodes and voters that an administrator may change."""

    partitions: Sequence[TopicPartition]
    movable: Sequence[TopicPartition]
    nodes: int
    replicas: int  # of a partition, at most
    voters: int


class PartitionAdministrator:
    """An administrator that reassigns, elects, deletes records, alters configs and changes voters."""

    def __init__(self, workload: Workload, name: str, scope: Scope, *, pause_s: float) -> None:
        self._workload = workload
        self._history: History = workload.history
        self._admin = workload.history.admin
        self._name = name
        self._scope = scope
        self._pause_s = pause_s
        self._directories: dict[int, bytes] = {}  # of nodes that had a vote
        self._client, self._chance, process = workload.client(name)
        workload.spawn(process, self._run())

    async def _run(self) -> None:
        workload, scope = self._workload, self._scope
        kinds = [self._delete_records, self._set, self._elect]
        weights = [4, 2, 2]
        if scope.nodes > 1:
            kinds += [self._reassign, self._cancel, self._change_voters]
            weights += [6, 1, 2]
        while not workload.stopping:
            await pause(self._chance, self._pause_s)
            work: Coroutine[Any, Any, None] = self._chance.choices(kinds, weights)[0]()
            try:
                await work
            except KafkaError as error:
                workload.check_error(error)
                workload.world.trace("refused", f"{self._name} {error.code.name}")
        self._client.close()

    # ---- partitions ------------------------------------------------------------------------------------

    async def _reassign(self) -> None:
        scope, chance = self._scope, self._chance
        partition = chance.choice(scope.movable)
        # Two at least: a partition with one replica may lose what its disk loses.
        count = chance.randint(min(2, scope.replicas), scope.replicas)
        replicas = tuple(chance.sample(range(scope.nodes), count))
        assignment = self._admin.assignments.setdefault(partition, RequestedValue((), is_unknown=True))
        assignment.request(replicas)
        self._workload.world.trace("reassign", f"{partition} {replicas}")
        try:
            await admin_requests.reassign(self._client, partition, replicas)
        except KafkaError as error:
            if error.code in REJECTIONS:
                assignment.reject(replicas)
            raise
        assignment.settle(replicas)

    async def _cancel(self) -> None:
        partition = self._chance.choice(self._scope.movable)
        self._admin.cancel_requested(partition)
        self._workload.world.trace("cancel", str(partition))
        try:
            await admin_requests.reassign(self._client, partition, None)
        except KafkaError as error:
            if error.code in REJECTIONS:
                self._admin.cancel_answered(partition, is_done=False)
            raise
        self._admin.cancel_answered(partition, is_done=True)

    async def _elect(self) -> None:
        await admin_requests.elect_preferred_leader(self._client, self._chance.choice(self._scope.partitions))

    async def _set(self) -> None:
        name = self._chance.choice(self._scope.partitions).topic
        key = self._chance.choice(list(SETTINGS))
        await set_config(
            self._client, self._admin.topics[name], name, key, self._chance.choice(SETTINGS[key])
        )

    async def _delete_records(self) -> None:
        """Delete records up to a random acknowledged offset, which is committed and so can be deleted."""
        partition = self._chance.choice(self._scope.partitions)
        history = self._history.of(partition)
        if not history.acknowledged:
            return
        offset = self._chance.randint(history.deleted, max(history.deleted, *history.acknowledged))
        history.delete_requested = max(history.delete_requested, offset)
        try:
            low_watermark = await admin_requests.delete_records(self._client, partition, offset)
        except KafkaError:
            self._client.forget_leader(partition)
            raise
        self._workload.world.trace("cut", f"{partition} {offset}")
        self._history.note_deleted(partition, offset, low_watermark)

    # ---- voters ----------------------------------------------------------------------------------------

    async def _change_voters(self) -> None:
        """Remove a voter if all possible voters vote, else add one again."""
        members = await admin_requests.quorum_members(self._client)
        self._directories.update(members.voters)
        without = [node_id for node_id in range(self._scope.voters) if node_id not in members.voters]
        node_id = self._chance.choice(without or list(members.voters))
        vote = self._admin.votes.setdefault(node_id, RequestedValue(not without))
        adds = bool(without)
        is_first = not vote.in_doubt and vote.settled is not adds
        vote.request(adds)
        self._workload.world.trace("vote", f"{node_id} {adds}")
        try:
            change = admin_requests.add_voter if adds else admin_requests.remove_voter
            await change(self._client, node_id, self._directories[node_id])
        except KafkaError as error:
            if error.code is ErrorCode.INVALID_REQUEST:
                vote.reject(adds)  # too many of the others do not respond
                return
            if error.code in REJECTIONS:
                vote.reject(adds)
                if is_first:
                    raise SimulationError(f"the vote of {node_id} was changed twice: {error}") from error
            raise
        vote.settle(adds)
