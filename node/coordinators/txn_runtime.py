"""The transaction coordinator of this node: one shard for each partition of `__transaction_state` it leads.

Request handlers and leaders call `ask`; the marker sender reports written markers through `send`.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from ottla.groupcoord.transactions.transaction_commands import (
    ClientCommand,
    Command,
    LevelChanged,
    MarkersWritten,
)
from ottla.groupcoord.transactions.transaction_config import ID_BYTES, TransactionConfig
from ottla.groupcoord.transactions.transaction_coordinator import TransactionCoordinator
from ottla.groupcoord.transactions.transaction_effects import MarkerJob
from ottla.groupcoord.transactions.transaction_records import TRANSACTIONS_TOPIC
from ottla.groupcoord.transactions.transaction_shard import TransactionShard
from ottla.logstore.compression import Compression
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.image import MetadataImage
from ottla.node.clock import Clock
from ottla.node.coordinators import coordinator_runtime
from ottla.node.coordinators.coordinator_runtime import CoordinatorRuntime, build_in_thread
from ottla.node.coordinators.coordinator_shard import ShardParts
from ottla.node.coordinators.txn_shard import TxnAnswer, txn_parts
from ottla.node.handing_over import StartTask
from ottla.node.net.answers import Delayed, Result
from ottla.node.replica.partition import Partition
from ottla.node.replica.replica_manager import ReplicaManager

# Ids listed at once: 2 us each, with their part of the response; a connection may bring 64 requests in a
# turn. If there are more, each shard has a turn of its own, in which it only reads its ids, 0.3 us each.
MAX_IDS_PER_TURN = 300

Make: TypeAlias = coordinator_runtime.Make[ClientCommand]
R = TypeVar("R")
Build: TypeAlias = Callable[[Any], R]  # builds a response from an answer, which may be a KafkaError


class TxnRuntime:
    """Routes commands to shards, and answers to their callers. For the event loop only."""

    def __init__(
        self,
        *,
        config: TransactionConfig,
        replicas: ReplicaManager,
        image: Callable[[], MetadataImage],
        create_topic: Callable[[], Awaitable[None]],
        clock: Clock,
        num_partitions: int,
        commit_timeout_ms: int,
        next_producer_id: Callable[[], Awaitable[int]],
        send_markers: Callable[[int, MarkerJob], None],
        drop_markers: Callable[[int], None],
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        """`send_markers` sends a decision of the shard with this index to the leaders, until all have it;
        `drop_markers` ends this for the whole shard. `has_room` says if there is memory for more ids.
        """
        self._config = config
        self._image = image
        self._next_producer_id = next_producer_id
        self._send_markers = send_markers
        self._drop_markers = drop_markers
        self._has_room = has_room
        self._start_task: StartTask | None = None
        self._runtime = CoordinatorRuntime[TransactionCoordinator, Command, TxnAnswer](
            topic=TRANSACTIONS_TOPIC,
            num_partitions=num_partitions,
            replicas=replicas,
            image=image,
            create_topic=create_topic,
            clock=clock,
            commit_timeout_ms=commit_timeout_ms,
            compression=Compression.NONE,
            parts=self._shard_parts,
        )
        self.shards = self._runtime.by_index

    # ---- start, end, and changes of the metadata -------------------------------------------------------

    def start(self, start_task: StartTask) -> None:
        """Begin to serve. `start_task` starts the tasks that load shards."""
        self._start_task = start_task
        self._runtime.start(start_task)

    def close(self) -> None:
        """Answer all waiting requests with NOT_COORDINATOR, and stop."""
        self._start_task = None
        self._runtime.close()

    def refresh(self) -> None:
        """Adapt the shards to the metadata: to the partitions of `__transaction_state` that this node leads
        now, and to the level of transaction.version.
        """
        self._runtime.refresh()
        level = self._level()
        for shard in list(self.shards.values()):
            if shard.is_open and shard.coordinator is not None and shard.coordinator.shard.level != level:
                shard.handle(LevelChanged(level=level))

    # ---- the place of an id --------------------------------------------------------------------------

    def partition_for(self, transactional_id: str) -> int:
        """Return the partition of `__transaction_state` that holds the id."""
        return self._runtime.partition_for(transactional_id)

    async def coordinator_of(self, transactional_id: str) -> int:
        """Return the node that leads the id's partition, -1 for none; create the topic on first use."""
        return await self._runtime.coordinator_of(transactional_id)

    def known_coordinator_of(self, transactional_id: str) -> int:
        """Return the node that leads the id's partition, -1 if none is known."""
        return self._runtime.known_coordinator_of(transactional_id)

    def coordinator_node(self, transactional_id: str) -> int | None:
        """Return the node that leads the id's partition, None if none is known."""
        node_id = self.known_coordinator_of(transactional_id)
        return node_id if node_id >= 0 else None

    # ---- commands ------------------------------------------------------------------------------------

    def ask(
        self, transactional_id: str, make: Make, build: Build[R], *, keeps_nothing: bool = False
    ) -> R | Delayed[R]:
        """Carry out a command in the shard of the id; see `CoordinatorRuntime.ask`."""
        return self._runtime.ask(transactional_id, make, build, keeps_nothing=keeps_nothing)

    def ask_each(
        self,
        commands: Sequence[tuple[str, Make]],
        build: coordinator_runtime.Build[R],
        *,
        is_large: bool = False,
    ) -> Result[R]:
        """Carry out several commands, each in the shard of its id, and build a response.

        `build` gets the answers in the order of the commands, and must use only these. Very many commands,
        and the commands of a request that `is_large`, take turns with the loop, and `build` is called in a
        thread.
        """
        return self._runtime.submit_each(commands, build, partial(build_in_thread, build), is_large=is_large)

    def ask_all_shards(
        self,
        make: Make,
        build: coordinator_runtime.Build[R],
        wrap: coordinator_runtime.Build[Result[R]] | None = None,
        *,
        is_large: bool = False,
    ) -> Result[R]:
        """Carry out one command in every shard of this node; `build` must use only the answers.

        If the shards have very many ids, or the request `is_large`, the shards take turns with the loop, and
        `build` is called in a thread, unless `wrap` is given and takes its place.
        """
        ids = sum(len(core.shard.transactions) for core in self._runtime.cores)
        is_large = is_large or ids > MAX_IDS_PER_TURN
        return self._runtime.ask_all(make, build, wrap, is_large=is_large)

    def send(self, partition_index: int, command: MarkersWritten) -> None:
        """Pass to the shard of a partition the report of partitions that have their marker.

        If the shard has moved to another node, this does nothing: its new coordinator sends all markers
        again.
        """
        shard = self.shards.get(partition_index)
        if shard is not None and shard.is_open:
            shard.handle(command)

    def fail_shard(self, partition_index: int, coordinator_epoch: int) -> None:
        """Close and reload a shard after a leader reported a newer coordinator than the one of this epoch."""
        shard = self.shards.get(partition_index)
        if shard is not None and shard.leader_epoch == coordinator_epoch:
            self._runtime.reopen_later(partition_index, shard)

    # ---- shards --------------------------------------------------------------------------------------

    @property
    def used_bytes(self) -> int:
        """Return the bytes of the transactional ids."""
        return ID_BYTES * sum(len(core.shard.transactions) for core in self._runtime.cores)

    def _shard_parts(
        self, index: int, partition: Partition
    ) -> ShardParts[TransactionCoordinator, Command, TxnAnswer]:
        return txn_parts(
            new_shard=partial(self._new_shard, partition.leader_epoch),
            level=self._level,
            need_id=self._take_id,
            send_markers=partial(self._send_markers, index),
            drop_markers=partial(self._drop_markers, index),
            max_batch_bytes=self._config.max_batch_bytes,
        )

    def _new_shard(self, coordinator_epoch: int) -> TransactionShard:
        shard = TransactionShard(self._config, level=self._level(), coordinator_epoch=coordinator_epoch)
        shard.has_room = self._has_room
        return shard

    def _level(self) -> int:
        return self._image().transaction_version

    def _take_id(self, give: Callable[[int | KafkaError], None]) -> None:
        if self._start_task is not None:
            self._start_task(self._give_id(give))

    async def _give_id(self, give: Callable[[int | KafkaError], None]) -> None:
        outcome: int | KafkaError
        try:
            outcome = await self._next_producer_id()
        except KafkaError as error:
            # Clients retry after this code, whatever keeps the controller from giving ids.
            outcome = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.detail)
        give(outcome)
