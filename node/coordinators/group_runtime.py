"""The group coordinator of this node: one shard for each partition of `__consumer_offsets` that it leads.

Request handlers call `ask`. Beyond `coordinator_runtime`, it handles changes of the topics that groups read,
commits in transactions, and heartbeats that wait for news.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from ottla.groupcoord.commands import ClientCommand, Command
from ottla.groupcoord.consumer.consumer_commands import TopicsChanged
from ottla.groupcoord.coordinator import Coordinator
from ottla.groupcoord.coordinator_config import GROUP_BYTES, CoordinatorConfig, GroupConfig
from ottla.groupcoord.group_records import OFFSETS_TOPIC
from ottla.groupcoord.offsets.offset_commands import ForgetTopics, Producer
from ottla.groupcoord.offsets.offset_delete import readers_of_topics
from ottla.groupcoord.request_token import Token
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.shard_bytes import NodeBytes
from ottla.groupcoord.timer_commands import AnswerHeldHeartbeat
from ottla.logstore.compression import Compression
from ottla.logstore.partition_log import AppendResult
from ottla.logstore.record import EndTransactionMarker
from ottla.logstore.verification import NOT_VERIFIED, Guard
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.image import MetadataImage
from ottla.node.clock import Clock
from ottla.node.coordinators import coordinator_runtime
from ottla.node.coordinators.commit_order import CommitOrder
from ottla.node.coordinators.coordinator_log import FIRST_SEQUENCE, coordinator_error
from ottla.node.coordinators.coordinator_runtime import CoordinatorRuntime, build_in_thread
from ottla.node.coordinators.coordinator_shard import ShardParts
from ottla.node.coordinators.group_shard import (
    GroupAnswer,
    GroupCoordinatorShard,
    end_transaction,
    group_parts,
)
from ottla.node.coordinators.group_topics import ImageTopics
from ottla.node.coordinators.persister_jobs import PersisterJobs, StatePersister
from ottla.node.handing_over import StartTask
from ottla.node.net.answers import CloseConnection, Delayed, Result
from ottla.node.net.peer_client import SOFTWARE_NAME
from ottla.node.replica.replica_manager import ReplicaManager
from ottla.node.work.task_executor import TaskExecutor

# Some 3 kB each, with the buffer of their connections. Beyond this number heartbeats are answered at once.
MAX_HELD_HEARTBEATS = 2_000
# Groups listed at once: 3 us each, with their part of the response; a connection may bring 64 requests in a
# turn. If there are more, each shard has a turn of its own, and the response is built in a thread.
MAX_GROUPS_PER_TURN = 200
GROUPS_FORGOTTEN_PER_TURN = 200  # of a deleted topic: 10 to 20 us for each offset that a group drops

R = TypeVar("R")
Build: TypeAlias = Callable[[Any], R]  # builds a response from an answer, which may be a KafkaError
Make: TypeAlias = coordinator_runtime.Make[ClientCommand]
MakeGuarded: TypeAlias = Callable[[Guard | None, Token], ClientCommand]


class TransactionPart(NamedTuple):
    """The transaction of a command. With `adds`, the partition need not be in the transaction yet."""

    transactional_id: str
    producer: Producer
    adds: bool
    connection_number: int  # of the connection that the request came over


class Gate(Protocol):
    """The method of `TxnGate` that is used here."""

    def add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
    ) -> Awaitable[Mapping[TopicPartition, ErrorCode]]: ...


class GroupRuntime:
    """Routes commands to shards, and answers to their callers. For the event loop only."""

    def __init__(
        self,
        *,
        config: CoordinatorConfig,
        replicas: ReplicaManager,
        image: Callable[[], MetadataImage],
        create_offsets_topic: Callable[[], Awaitable[None]],
        clock: Clock,
        group_config: Callable[[str], GroupConfig] | None = None,
        offsets_topic_num_partitions: int = 50,
        offsets_commit_timeout_ms: int = 5_000,
        offsets_topic_compression: Compression = Compression.NONE,
        heartbeat_hold_ms: int = 0,
        new_uuid: Callable[[], str] = lambda: str(uuid.uuid4()),
        members: NodeBytes | None = None,
        offsets: NodeBytes | None = None,
        has_room: Callable[[], bool] = lambda: True,
        persister: StatePersister | None = None,
    ) -> None:
        """`members` and `offsets` count the bytes of all groups, and `has_room` says if there is memory for
        more. `persister` asks the share coordinators; without one, share-partitions get no state.
        """
        self._config = config
        self._image = image
        self._clock = clock
        self._heartbeat_hold_ms = heartbeat_hold_ms
        self._held_count = 0  # heartbeats that wait for news, or for the commit of the state that they show
        self._new_uuid = new_uuid
        self._group_config = group_config
        self._has_room = has_room
        self._members = members if members is not None else NodeBytes()
        self._offsets = offsets if offsets is not None else NodeBytes()
        self._runtime = CoordinatorRuntime[Coordinator, Command, GroupAnswer](
            topic=OFFSETS_TOPIC,
            num_partitions=offsets_topic_num_partitions,
            replicas=replicas,
            image=image,
            create_topic=create_offsets_topic,
            clock=clock,
            commit_timeout_ms=offsets_commit_timeout_ms,
            compression=offsets_topic_compression,
            parts=lambda index, partition: self._shard_parts(),
        )
        self.shards = self._runtime.by_index
        self.load_times = self._runtime.load_times
        self.count_shards = self._runtime.count_shards
        self._ended_rebalances = 0  # rebalances of share groups in shards that were closed
        self._commit_order = CommitOrder()
        self._executor = TaskExecutor()
        self.persister_jobs = PersisterJobs(persister, self._runtime.start_task)

    # ---- start, end, and changes of the metadata -------------------------------------------------------

    def start(self, start_task: StartTask) -> None:
        """Begin to serve. `start_task` starts the tasks that load shards."""
        self._runtime.start(start_task)

    def close(self) -> None:
        """Answer all waiting requests with NOT_COORDINATOR, and stop."""
        self._runtime.close()
        self._executor.close()

    def refresh(self) -> None:
        """Open and close shards to match the partitions of `__consumer_offsets` that this node leads now."""
        self._runtime.refresh()

    def forget_topics(self, topics: Iterable[str]) -> None:
        """Drop the committed offsets of deleted topics.

        If very many groups have some, the first groups drop them at once, and the others in later turns of
        the loop.
        """
        deleted, left = frozenset(topics), GROUPS_FORGOTTEN_PER_TURN
        later: list[tuple[GroupCoordinatorShard, Sequence[str]]] = []
        for shard in list(self.shards.values()):
            if not shard.is_open or shard.coordinator is None:
                shard.send(ForgetTopics(topics=deleted))
                continue
            readers = readers_of_topics(shard.coordinator.shard, deleted)
            if readers[:left]:
                shard.send(ForgetTopics(topics=deleted, group_ids=readers[:left]))
            if readers[left:]:
                later.append((shard, readers[left:]))
            left -= min(left, len(readers))
        if later:
            self._runtime.start_task(self._forget_in_turns(deleted, later))

    async def _forget_in_turns(
        self, deleted: frozenset[str], later: Sequence[tuple[GroupCoordinatorShard, Sequence[str]]]
    ) -> None:
        for shard, readers in later:
            for start in range(0, len(readers), GROUPS_FORGOTTEN_PER_TURN):
                await asyncio.sleep(0)
                some = readers[start : start + GROUPS_FORGOTTEN_PER_TURN]
                shard.send(ForgetTopics(topics=deleted, group_ids=some, is_late=True))

    def change_topics(self, command: TopicsChanged) -> None:
        """Send a change of topics to all shards, so that groups that read these topics are assigned again."""
        self._runtime.send_all(command)

    # ---- the place of a group ------------------------------------------------------------------------

    def partition_for(self, group_id: str) -> int:
        """Return the partition of `__consumer_offsets` that holds the group."""
        return self._runtime.partition_for(group_id)

    async def coordinator_of(self, group_id: str) -> int:
        """Return the node that leads the group's partition, -1 for none; create the topic on first use."""
        return await self._runtime.coordinator_of(group_id)

    def known_coordinator_of(self, group_id: str) -> int:
        """Return the id of the node that leads the group's partition, -1 if none is known."""
        return self._runtime.known_coordinator_of(group_id)

    # ---- commands ------------------------------------------------------------------------------------

    def ask(
        self, group_id: str, make: Make, build: Build[R], *, keeps_nothing: bool = False
    ) -> R | Delayed[R]:
        """Carry out a command in the shard of the group; see `CoordinatorRuntime.ask`."""
        return self._runtime.ask(group_id, make, build, keeps_nothing=keeps_nothing)

    def ask_in_transaction(
        self, group_id: str, part: TransactionPart, gate: Gate | None, make: MakeGuarded, build: Build[R]
    ) -> R | Delayed[R] | Awaitable[R]:
        """Carry out a command that writes in a producer's transaction, as `ask` does.

        The first command of a transaction asks the transaction's coordinator through the `gate` to verify
        that the group's partition is in the transaction, or to add it, and is carried out after its answer;
        without a gate it is not verified. Raises CloseConnection for a late copy of a request: its sender has
        given up that connection.
        """
        index = self.partition_for(group_id)
        try:
            partition = self._runtime.loaded(index).partition
            guard = partition.begin_verification(
                part.producer.producer_id,
                part.producer.producer_epoch,
                FIRST_SEQUENCE,
                bumps_epoch=part.adds,
                now_ms=self._clock.now_ms(),
            )
        except KafkaError as error:
            return build(coordinator_error(error))
        if guard is None or gate is None:
            self._check_order(group_id, part)
            guard_if_any = None if guard is None else NOT_VERIFIED
            return self.ask(group_id, partial(make, guard_if_any), build)
        return self._ask_verified(gate, group_id, part, guard, partition.topic_partition, make, build)

    async def _ask_verified(
        self,
        gate: Gate,
        group_id: str,
        part: TransactionPart,
        guard: Guard,
        partition: TopicPartition,
        make: MakeGuarded,
        build: Build[R],
    ) -> R:
        codes = await gate.add_or_verify(
            part.transactional_id,
            part.producer.producer_id,
            part.producer.producer_epoch,
            [partition],
            adds=part.adds,
        )
        if codes[partition] is not ErrorCode.NONE:
            return build(KafkaError(codes[partition]))
        self._check_order(group_id, part)
        outcome = self._runtime.submit(partition.partition, partial(make, guard))
        return build(await outcome if isinstance(outcome, asyncio.Future) else outcome)

    def _check_order(self, group_id: str, part: TransactionPart) -> None:
        if self._commit_order.is_late(group_id, part.producer, part.connection_number):
            raise CloseConnection(
                "a TxnOffsetCommit arrived after a later request of the same "
                "producer that came over a newer connection: it is a late copy"
            )

    def end_transaction(
        self,
        index: int,
        marker: EndTransactionMarker,
        *,
        producer_id: int,
        producer_epoch: int,
        transaction_version: int,
    ) -> AppendResult:
        """Write the marker of a transaction into a partition of `__consumer_offsets`.

        This commits or drops the offsets of the transaction. Raises KafkaError if the marker is rejected, or
        if the shard is not on this node or not loaded.
        """
        return end_transaction(
            self._runtime.loaded(index),
            marker,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_version=transaction_version,
        )

    def hold_ms(self, software_name: str) -> int:
        """Return how long a heartbeat of a client may wait for news, 0 if it must be answered at once."""
        # Clients that do not identify themselves may be tests that wait for every heartbeat; our own members
        # await each heartbeat between two fetches.
        if software_name in ("", SOFTWARE_NAME) or self._held_count >= MAX_HELD_HEARTBEATS:
            return 0
        return self._heartbeat_hold_ms

    def ask_to_wait(self, group_id: str, member_id: str, make: Make, build: Build[R]) -> R | Delayed[R]:
        """Carry out a heartbeat that may wait for news, as `ask` does.

        When its connection can wait no longer, the heartbeat is answered with the state of that moment.
        """
        index, token = self.partition_for(group_id), self._runtime.new_token()
        outcome = self._runtime.submit(index, make, token)
        if not isinstance(outcome, asyncio.Future):
            return build(outcome)
        self._held_count += 1
        outcome.add_done_callback(self._count_answered)
        shard, command = (
            self.shards[index],
            AnswerHeldHeartbeat(group_id=group_id, member_id=member_id, held=token),
        )
        return Delayed(outcome, build, release=partial(shard.send, command), keeps_nothing=True)

    def _count_answered(self, _: "asyncio.Future[GroupAnswer | KafkaError]") -> None:
        self._held_count -= 1

    def ask_each(
        self,
        commands: Sequence[tuple[str, Make]],
        build: coordinator_runtime.Build[Result[R]],
        *,
        builds_in_thread: bool = False,
        is_large: bool = False,
    ) -> Result[R]:
        """Carry out each command in the shard of its group, and build a response from the answers.

        `build` gets the answers in the order of the commands. Very many commands, and the commands of a
        request that `is_large`, take turns with the loop in a coroutine. With `builds_in_thread`, `build` is
        then called in a thread: it must use only the answers, and return the response itself.
        """
        if not builds_in_thread:
            return self._runtime.submit_each(commands, build, is_large=is_large)
        in_thread = partial(build_in_thread, cast("coordinator_runtime.Build[R]", build))
        return self._runtime.submit_each(commands, build, in_thread, is_large=is_large)

    def ask_all_shards(self, make: Make, build: coordinator_runtime.Build[R]) -> Result[R]:
        """Carry out one command in every shard of this node; `build` must use only the answers.

        If the shards have very many groups, they take turns with the loop, and the response is built in a
        thread.
        """
        is_large = sum(len(core.shard.groups) for core in self._runtime.cores) > MAX_GROUPS_PER_TURN
        return self._runtime.ask_all(make, build, is_large=is_large)

    # ---- shards --------------------------------------------------------------------------------------

    @property
    def used_bytes(self) -> int:
        """Return the bytes of the groups, without their members and offsets."""
        return GROUP_BYTES * sum(len(core.shard.groups) for core in self._runtime.cores)

    def _shard_parts(self) -> ShardParts[Coordinator, Command, GroupAnswer]:
        return group_parts(
            new_shard=self._new_shard,
            topic_id_of=self._topic_id_of,
            topics=lambda: ImageTopics(self._image()),
            executor=self._executor,
            persister_jobs=self.persister_jobs,
            members=self._members,
            offsets=self._offsets,
            max_batch_bytes=self._config.max_batch_bytes,
            stopped=self._keep_counts,
        )

    def _keep_counts(self, shard: GroupShard) -> None:
        self._ended_rebalances += shard.share_rebalances
        shard.share_rebalances = 0  # the closed shard may be counted for a while yet

    @property
    def share_rebalances(self) -> int:
        """Return the number of rebalances of share groups that were coordinated here."""
        return self._ended_rebalances + sum(core.shard.share_rebalances for core in self._runtime.cores)

    def _topic_id_of(self, name: str) -> bytes | None:
        topic = self._image().topics.by_name.get(name)
        return topic.topic_id if topic is not None else None

    def _new_shard(self) -> GroupShard:
        shard = GroupShard(self._config, self._new_uuid, self._group_config)
        shard.has_room = self._has_room
        shard.topics = ImageTopics(self._image())
        shard.newest_topics_version = shard.topics.version
        shard.recent_topics.restart(shard.topics.version)
        return shard
