"""The runtime of any coordinator: one shard for each partition of its topic that this node leads.

A shard is loaded in the background when this node becomes leader of its partition, and closed when it no
longer is; `refresh` does both, after each change of the metadata. A command goes to the shard of its key (a
group, a transactional id), and its answer to the caller; `coordinator_shard` describes the steps in between.
A coordinator adds its pure core and `ShardParts`, the functions that only it has in each shard.
"""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from ottla.groupcoord.request_token import Token
from ottla.logstore.compression import Compression
from ottla.logstore.words.errors import ErrorCode, KafkaError, kept
from ottla.logstore.words.latency import LatencyHistogram
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.image import MetadataImage
from ottla.node.clock import Clock, monotonic_s
from ottla.node.coordinators.coordinator_shard import CoordinatorShard, Core, ShardParts
from ottla.node.coordinators.key_partition import partition_for
from ottla.node.coordinators.shard_loader import ShardLoader
from ottla.node.coordinators.timer_queue import TimerQueue
from ottla.node.handing_over import StartTask
from ottla.node.net.answers import BuiltInThread, Delayed, Result
from ottla.node.net.client_lines import ClientLines
from ottla.node.replica.partition import Partition
from ottla.node.replica.replica_manager import ReplicaManager
from ottla.node.work.turns import Turn

# The pause between a load that failed (a disk that does not answer) and the next attempt.
RELOAD_DELAY_MS = 1_000
# Answers given in one turn of the loop: each makes a connection write, some 40 us. Large parts of an answer
# (lists of groups, offsets) are built in a thread, and only one answer of a rebalance has all metadata.
MAX_ANSWERS_PER_TURN = 100
# Some 3 ms; then other work gets the loop before the next commands of the same request. A turn ends earlier
# if commands take longer, as with ids of a kilobyte.
MAX_COMMANDS_PER_TURN = 128

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Core[Any, Any])
C = TypeVar("C")  # commands
A = TypeVar("A")  # answers; KafkaError is one of them
R = TypeVar("R")  # responses, built from answers
Make: TypeAlias = Callable[[Token], C]
Build: TypeAlias = Callable[[list[Any]], R]  # builds a response from the answers to commands, in their order


class ShardCounts(NamedTuple):
    """The number of a coordinator's shards on this node, by state."""

    loading: int
    active: int
    failed: int


class CoordinatorRuntime(Generic[K, C, A]):
    """Routes commands to shards, and answers to their callers. For the event loop only."""

    def __init__(
        self,
        *,
        topic: str,
        num_partitions: int,
        replicas: ReplicaManager,
        image: Callable[[], MetadataImage],
        create_topic: Callable[[], Awaitable[None]],
        clock: Clock,
        commit_timeout_ms: int,
        compression: Compression,
        parts: Callable[[int, Partition], ShardParts[K, C, A]],
    ) -> None:
        """`num_partitions` is the number that the topic will have, used until it exists."""
        self.by_index: dict[int, CoordinatorShard[K, C, A]] = {}
        self._topic = topic
        self._num_partitions = num_partitions
        self._replicas = replicas
        self._image = image
        self._create_topic = create_topic
        self._clock = clock
        self._commit_timeout_ms = commit_timeout_ms
        self._compression = compression
        self._parts = parts
        self._loader = ShardLoader()
        self.load_times = LatencyHistogram()  # of shards whose log had something
        self._tokens = itertools.count(1)
        self._waiting: dict[Token, asyncio.Future[A | KafkaError] | A | KafkaError | None] = {}
        self._timers: TimerQueue | None = None
        self._lines = ClientLines(log)
        self._start_task: StartTask | None = None
        self._creation: asyncio.Future[None] | None = None
        # Answers to give, and the number given in this turn of the loop.
        self._late_answers: deque[tuple[asyncio.Future[A | KafkaError], A | KafkaError]] = deque()
        self._given = 0
        self._is_counting = False

    # ---- shards --------------------------------------------------------------------------------------

    def start(self, start_task: StartTask) -> None:
        """Begin to serve. `start_task` starts the tasks that load shards."""
        self._timers = TimerQueue()
        self._start_task = start_task
        self.refresh()

    def start_task(self, work: Coroutine[Any, Any, R], /) -> "asyncio.Task[R]":
        """Start background work of this coordinator, which must have been started."""
        assert self._start_task is not None
        return self._start_task(work)

    def close(self) -> None:
        """Answer all waiting requests with NOT_COORDINATOR, and stop."""
        for shard in self.by_index.values():
            shard.close(ErrorCode.NOT_COORDINATOR)
        self.by_index.clear()
        while self._late_answers:
            self._given = 0
            self._give_answers()
        if self._timers is not None:
            self._timers.close()
        self._start_task = None

    @property
    def cores(self) -> list[K]:
        """The cores of the shards that are loaded."""
        return [shard.coordinator for shard in self.by_index.values() if shard.coordinator is not None]

    def count_shards(self) -> ShardCounts:
        """Return the number of shards by state. A failed shard is loaded again after `RELOAD_DELAY_MS`."""
        shards = self.by_index.values()
        failed = sum(shard.is_closed for shard in shards)
        active = sum(shard.is_loaded and not shard.is_closed for shard in shards)
        return ShardCounts(len(shards) - active - failed, active, failed)

    def send_all(self, command: C) -> None:
        """Send a command of the node, which has no answer, to every shard."""
        for shard in list(self.by_index.values()):
            shard.send(command)

    def refresh(self) -> None:
        """Open and close shards to match the partitions of the topic that this node leads now."""
        if self._start_task is None:
            return
        topic = self._image().topics.by_name.get(self._topic)
        led: dict[int, Partition] = {}
        for index in range(len(topic.partitions)) if topic is not None else ():
            partition = self._replicas.find(TopicPartition(self._topic, index))
            if partition is not None and partition.is_leader:
                led[index] = partition
        for index, shard in list(self.by_index.items()):
            partition = led.get(index)
            if partition is not shard.partition or partition.leader_epoch != shard.leader_epoch:
                shard.close(ErrorCode.NOT_COORDINATOR)
                del self.by_index[index]
        for index, partition in led.items():
            if index not in self.by_index:
                shard = self.by_index[index] = self._new_shard(index, partition)
                if not shard.load_if_empty():
                    self.start_task(self._load_one(index, shard))

    def _new_shard(self, index: int, partition: Partition) -> CoordinatorShard[K, C, A]:
        assert self._timers is not None
        return CoordinatorShard(
            partition=partition,
            parts=self._parts(index, partition),
            replicas=self._replicas,
            timers=self._timers,
            clock=self._clock,
            commit_timeout_ms=self._commit_timeout_ms,
            compression=self._compression,
            answer=self._answered,
            failed=partial(self.reopen, index),
        )

    async def _load_one(self, index: int, shard: CoordinatorShard[K, C, A]) -> None:
        began_s = monotonic_s()
        try:
            await shard.load(self._loader)
            self.load_times.observe(monotonic_s() - began_s)
        except KafkaError as error:
            if shard.is_closed:
                return  # another node leads the partition, or it was deleted with its files
            log.error(
                "The coordinator could not load %s, and tries again in %g s: %s",
                *(shard.partition.topic_partition, RELOAD_DELAY_MS / 1_000, error),
            )
            self.reopen_later(index, shard)

    def reopen(self, index: int, shard: CoordinatorShard[K, C, A]) -> None:
        """Replace a shard that failed by one loaded from the log, if this node still leads the partition."""
        if self.by_index.get(index) is shard:
            del self.by_index[index]
        self.refresh()

    def reopen_later(self, index: int, shard: CoordinatorShard[K, C, A]) -> None:
        """Close a shard, and load it again from the log after `RELOAD_DELAY_MS`."""
        shard.close(ErrorCode.NOT_COORDINATOR)
        if self._timers is not None:
            self._timers.start(("reload", index), RELOAD_DELAY_MS, lambda: self.reopen(index, shard))

    # ---- the place of a key --------------------------------------------------------------------------

    def partition_for(self, key: str) -> int:
        """Return the partition of the topic that holds the key."""
        topic = self._image().topics.by_name.get(self._topic)
        count = len(topic.partitions) if topic is not None else self._num_partitions
        return partition_for(key, count)

    def known_coordinator_of(self, key: str) -> int:
        """Return the id of the node that leads the key's partition, -1 if none is known."""
        topic = self._image().topics.by_name.get(self._topic)
        if topic is None:
            return -1
        return topic.partitions[partition_for(key, len(topic.partitions))].leader

    async def coordinator_of(self, key: str) -> int:
        """Return the id of the node that leads the key's partition, or -1; create the topic on first use."""
        if self._topic not in self._image().topics.by_name:
            await self._ensure_topic()
        return self.known_coordinator_of(key)

    async def _ensure_topic(self) -> None:
        """Create the topic, once even if many clients need it at the same moment."""
        if self._creation is not None:
            await asyncio.shield(self._creation)
            return
        creation = self._creation = asyncio.get_running_loop().create_future()
        try:
            await self._create_topic()
            self.refresh()
        except KafkaError as error:
            # Another node may have been faster; the caller reads the metadata again.
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                message = "%s could not be created: %s"
                self._lines.log(logging.WARNING, "", message, self._topic, error)
        finally:
            self._creation = None
            creation.set_result(None)

    # ---- commands ------------------------------------------------------------------------------------

    def new_token(self) -> Token:
        """Return a token for a caller that must know it before it makes the command."""
        return next(self._tokens)

    def loaded(self, index: int) -> CoordinatorShard[K, C, A]:
        """Return the loaded shard of a partition, after `refresh` if this node may have begun to lead it.

        Raises KafkaError with NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS if there is none.
        """
        shard = self.by_index.get(index)
        if shard is None or shard.is_closed or not shard.partition.is_leader:
            self.refresh()
            shard = self.by_index.get(index)
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"this node does not lead {self._topic}-{index}")
        if shard.is_closed or not shard.is_loaded:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self._topic}-{index} is being loaded")
        return shard

    def submit(
        self, index: int, make: Make[C], token: Token | None = None
    ) -> "A | KafkaError | asyncio.Future[A | KafkaError]":
        """Carry out a command, and return its answer or a future of it.

        `make` gets the token that the command must have.
        """
        try:
            shard = self.loaded(index)
        except KafkaError as error:
            return kept(error)
        if token is None:
            token = next(self._tokens)
        self._waiting[token] = None
        try:
            shard.handle(make(token))
        except BaseException:
            del self._waiting[token]
            raise
        outcome = self._waiting[token]
        if outcome is None:
            future: asyncio.Future[A | KafkaError] = asyncio.get_running_loop().create_future()
            self._waiting[token] = future
            return future
        del self._waiting[token]
        return outcome

    def ask(
        self, key: str, make: Make[C], build: Callable[[Any], R], *, keeps_nothing: bool = False
    ) -> R | Delayed[R]:
        """Carry out a command in the shard of a key, and build a response from its answer.

        `make` gets the token that the command must have; `build` gets the result, or the KafkaError that
        the whole command failed with. Returns the response, or a `Delayed` if the answer comes later.
        With `keeps_nothing` the caller says that `build` does not use the request.
        """
        outcome = self.submit(self.partition_for(key), make)
        if not isinstance(outcome, asyncio.Future):
            return build(outcome)
        return Delayed(outcome, build, keeps_nothing=keeps_nothing)

    def submit_each(
        self,
        commands: Sequence[tuple[int | str, Make[C]]],
        build: Build[Result[R]],
        wrap: Build[Result[R]] | None = None,
        *,
        is_large: bool = False,
    ) -> Result[R]:
        """Carry out several commands, each in the shard of a partition or of a key, and build a response.

        `build` gets the answers in the order of the commands. If there are more than `MAX_COMMANDS_PER_TURN`
        commands or the request `is_large`, returns a coroutine that takes turns with the loop, and ends with
        `wrap` instead of `build`.
        """
        if is_large or len(commands) > MAX_COMMANDS_PER_TURN:
            return self.submit_in_turns(commands, build if wrap is None else wrap, MAX_COMMANDS_PER_TURN)
        return self._join([self.submit(self._index_of(at), make) for at, make in commands], build)

    async def submit_in_turns(
        self, commands: Sequence[tuple[int | str, Make[C]]], build: Build[R], per_turn: int
    ) -> R | Delayed[R]:
        """Carry out commands as `submit_each` does, at most `per_turn` in each turn of the loop."""
        outcomes = []
        turn = Turn(per_turn)
        for at, make in commands:
            outcomes.append(self.submit(self._index_of(at), make))
            await turn.step()
        return self._join(outcomes, build)

    def ask_all(
        self, make: Make[C], build: Build[R], wrap: Build[Result[R]] | None = None, *, is_large: bool
    ) -> Result[R]:
        """Carry out one command in every shard of this node, and build a response from the answers alone.

        If the request `is_large` or `wrap` is given, the shards take turns with the loop, and the answers end
        in `wrap`, or by default in a thread that calls `build`. Otherwise `build` is called at once.
        """
        commands = [(index, make) for index in sorted(self.by_index)]
        if is_large or wrap is not None:
            return self.submit_in_turns(commands, wrap or partial(build_in_thread, build), 1)
        return self.submit_each(commands, build)

    def _index_of(self, index_or_key: int | str) -> int:
        return self.partition_for(index_or_key) if isinstance(index_or_key, str) else index_or_key

    def _answered(self, token: Token, answer: A | KafkaError) -> None:
        """Take an answer from a shard."""
        waiting = self._waiting[token]
        if waiting is None:
            self._waiting[token] = answer  # `submit` has not returned yet, and takes it
            return
        assert isinstance(waiting, asyncio.Future), f"token {token} was answered twice"
        del self._waiting[token]
        self._late_answers.append((waiting, answer))
        self._give_answers()

    def _give_answers(self) -> None:
        """Give as many answers as this turn may: a connection takes longer for one than the decision did."""
        for _ in range(min(len(self._late_answers), MAX_ANSWERS_PER_TURN - self._given)):
            waiting, answer = self._late_answers.popleft()
            self._given += 1
            if not waiting.done():  # it is cancelled if the client has disconnected
                waiting.set_result(answer)
        if self._given and not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._given, self._is_counting = 0, False
        self._give_answers()

    def _join(
        self, outcomes: "Sequence[A | KafkaError | asyncio.Future[A | KafkaError]]", build: Build[R]
    ) -> R | Delayed[R]:
        futures = [outcome for outcome in outcomes if isinstance(outcome, asyncio.Future)]
        if not futures:
            return build(list(outcomes))
        done: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        left = len(futures)

        def count_down(_: "asyncio.Future[A | KafkaError]") -> None:
            nonlocal left
            left -= 1
            if left == 0 and not done.done():
                done.set_result(
                    [each.result() if isinstance(each, asyncio.Future) else each for each in outcomes]
                )

        for future in futures:
            future.add_done_callback(count_down)
        return Delayed(done, build)


def build_in_thread(build: Build[R], answers: list[Any]) -> BuiltInThread[R]:
    """Return a result that builds the response from very many answers in a thread."""
    return BuiltInThread(partial(build, answers))
