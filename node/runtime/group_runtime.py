"""The group coordinator of this node: one shard for each partition of `__consumer_offsets` that it leads.

Request handlers `ask`; shards are loaded when this node becomes leader of their partition and closed when it
is not any more (`refresh`, which whoever applies metadata calls). A group belongs to the partition that
Java's `String.hashCode` of its id picks, as every client and tool of Kafka expects it.
"""

import asyncio
import itertools
import logging
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any, TypeVar

from groupcoord.commands import ClientCommand
from groupcoord.consumer_commands import TopicsChanged
from groupcoord.coordinator_config import CoordinatorConfig, GroupConfig
from groupcoord.group_records import OFFSETS_TOPIC
from groupcoord.request_token import Token
from groupcoord.shard import Shard
from groupcoord.timer_commands import EndHold
from logstore.compression import Compression
from logstore.errors import ErrorCode, KafkaError
from logstore.topic_partition import TopicPartition
from metadata_raft.image import MetadataImage
from node.clock import Clock
from node.kafka_api.request_context import Aside, Delayed
from node.replica.partition import Partition
from node.replica.replica_manager import ReplicaManager
from node.runtime.group_loader import GroupLoader
from node.runtime.group_shard import Answer, GroupShard
from node.runtime.group_topics import ImageTopics
from node.runtime.timer_queue import TimerQueue

# After a load that failed (a disk that does not answer), until the next try.
RELOAD_DELAY_MS = 1_000
# Some 3 kB each, with the buffer of their connections. Beyond it they are answered at once.
MAX_HELD_HEARTBEATS = 2_000
# Groups whose place is remembered, 1 MB of them: to find it takes a tenth of a small commit's time.
REMEMBERED_GROUPS = 4_096
MAX_REMEMBERED_CHARS = 64
# Given in one turn of the loop: each makes a connection write, some 40 us.
MAX_ANSWERS_PER_TURN = 100
ASIDE_THREADS = 2  # as many as Kafka has by default (group.coordinator.background.threads)
MAX_COMMANDS_PER_TURN = 256  # some 5 ms; others have the loop before the next ones of the same request
MAX_GROUPS_PER_TURN = 2_000  # listed: 3 us each, with all that is written of them

R = TypeVar("R")
Build = Callable[[R | KafkaError], Any]
Make = Callable[[Token], ClientCommand]

log = logging.getLogger(__name__)


class GroupRuntime:
    """Routes commands to shards and answers to whoever asked. Lives on the event loop."""

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
    ) -> None:
        self._config = config
        self._replicas = replicas
        self._image = image
        self._create_offsets_topic = create_offsets_topic
        self._clock = clock
        self._num_partitions = offsets_topic_num_partitions
        self._commit_timeout_ms = offsets_commit_timeout_ms
        self._compression = offsets_topic_compression
        self._heartbeat_hold_ms = heartbeat_hold_ms
        self._held_count = 0  # heartbeats that wait for news, or for what they tell to be committed
        self._new_uuid = new_uuid
        self._group_config = group_config
        self._shards: dict[int, GroupShard] = {}
        self._tokens = itertools.count(1)
        self._asked: dict[Token, asyncio.Future[Answer] | Answer | None] = {}
        self._timers: TimerQueue | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._creation: asyncio.Future[None] | None = None
        # Answers to be given, and how many were in this turn of the loop.
        self._late_answers: deque[tuple[asyncio.Future[Answer], Answer]] = deque()
        self._given = 0
        self._is_counting = False
        self._loader = GroupLoader()
        # Threads of its own: an expression may take one for many seconds; the disks must not wait for it.
        self._threads = ThreadPoolExecutor(ASIDE_THREADS, thread_name_prefix="groups")

    # ---- life ----------------------------------------------------------------------------------------

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Begin to serve; loads of shards are tasks of that group."""
        self._timers = TimerQueue()
        self._tasks = tasks
        self.refresh()

    def close(self) -> None:
        """Answer all that wait with NOT_COORDINATOR and stop."""
        for shard in self._shards.values():
            shard.close(ErrorCode.NOT_COORDINATOR)
        self._shards.clear()
        while self._late_answers:
            self._given = 0
            self._give_answers()
        if self._timers is not None:
            self._timers.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._tasks = None

    def refresh(self) -> None:
        """Bring the shards in line with the partitions of `__consumer_offsets` that this node leads now."""
        if self._tasks is None:
            return
        topic = self._image().topics.by_name.get(OFFSETS_TOPIC)
        led: dict[int, Partition] = {}
        for index in range(len(topic.partitions)) if topic is not None else ():
            partition = self._replicas.find(TopicPartition(OFFSETS_TOPIC, index))
            if partition is not None and partition.is_leader:
                led[index] = partition
        for index, shard in list(self._shards.items()):
            partition = led.get(index)
            if partition is not shard.partition or partition.leader_epoch != shard.leader_epoch:
                shard.close(ErrorCode.NOT_COORDINATOR)
                del self._shards[index]
        for index, partition in led.items():
            if index not in self._shards:
                self._open_shard(index, partition)

    def forget_topics(self, topics: Iterable[str]) -> None:
        """These topics were deleted; drop what groups have committed for them."""
        deleted = frozenset(topics)
        for shard in list(self._shards.values()):
            shard.forget_topics(deleted)

    def change_topics(self, command: TopicsChanged) -> None:
        """Consumer groups that read what changed have to be assigned anew."""
        for shard in list(self._shards.values()):
            if shard.is_loaded and not shard.is_closed:
                shard.handle(command)

    # ---- where a group is ----------------------------------------------------------------------------

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that holds the group."""
        topic = self._image().topics.by_name.get(OFFSETS_TOPIC)
        count = len(topic.partitions) if topic is not None else self._num_partitions
        return partition_for(group_id, count)

    async def coordinator_of(self, group_id: str) -> int:
        """The id of the node that leads the group's partition, -1 for none; creates the topic on first
        use.
        """
        if OFFSETS_TOPIC not in self._image().topics.by_name:
            await self._ensure_offsets_topic()
        topic = self._image().topics.by_name.get(OFFSETS_TOPIC)
        if topic is None:
            return -1
        return topic.partitions[partition_for(group_id, len(topic.partitions))].leader

    async def _ensure_offsets_topic(self) -> None:
        """Create the topic once, however many clients come at the same moment."""
        if self._creation is not None:
            await asyncio.shield(self._creation)
            return
        creation = self._creation = asyncio.get_running_loop().create_future()
        try:
            await self._create_offsets_topic()
            self.refresh()
        except KafkaError as error:
            # Another node may have been faster; whoever asked looks at the metadata again.
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                log.warning("%s could not be created: %s", OFFSETS_TOPIC, error)
        finally:
            self._creation = None
            creation.set_result(None)

    # ---- commands ------------------------------------------------------------------------------------

    def ask(self, group_id: str, make: Make, build: Build[Any], *, keeps_nothing: bool = False) -> Any:
        """Have a command carried out and its answer turned into a response.

        `make` gets the token that the command has to bear; `build` gets the result, or the KafkaError that
        the whole command failed with. Returns what `build` makes, or a `Delayed` if the answer comes later.
        With `keeps_nothing` the caller says that `build` does without the request.
        """
        outcome = self._submit(self.partition_for(group_id), make)
        if not isinstance(outcome, asyncio.Future):
            return build(outcome)
        return Delayed(outcome, build, keeps_nothing=keeps_nothing)

    def hold_ms(self, software_name: str) -> int:
        """For how long a heartbeat of such a client may wait for news; 0 where it must not."""
        # Who does not say what it is may be anything, as a test that waits for each answer.
        if not software_name or self._held_count >= MAX_HELD_HEARTBEATS:
            return 0
        return self._heartbeat_hold_ms

    def ask_to_wait(self, group_id: str, member_id: str, make: Make, build: Build[Any]) -> Any:
        """The same for a heartbeat that may wait for news, until its connection cannot wait on."""
        index, token = self.partition_for(group_id), next(self._tokens)
        outcome = self._submit(index, make, token)
        if not isinstance(outcome, asyncio.Future):
            return build(outcome)
        self._held_count += 1
        outcome.add_done_callback(self._count_answered)
        shard, command = self._shards[index], EndHold(group_id=group_id, member_id=member_id, held=token)
        return Delayed(outcome, build, release=lambda: shard.release(command), keeps_nothing=True)

    def _count_answered(self, _: "asyncio.Future[Answer]") -> None:
        self._held_count -= 1

    def ask_each(
        self,
        asked: Sequence[tuple[str, Make]],
        build: Callable[[list[Any]], Any],
        *,
        builds_aside: bool = False,
    ) -> Any:
        """Several commands, each to the shard of its group; `build` gets the answers in the order of the
        commands. Very many of them take turns with the loop: a coroutine then; and a `build` that looks at
        nothing but the answers may be called beside it.
        """
        places = [(self.partition_for(group_id), make) for group_id, make in asked]
        if len(places) > MAX_COMMANDS_PER_TURN:
            if builds_aside:
                return self._ask_in_turns(places, lambda answers: Aside(partial(build, answers)))
            return self._ask_in_turns(places, build)
        return self._join([self._submit(*place) for place in places], build)

    async def _ask_in_turns(
        self,
        places: Sequence[tuple[int, Make]],
        build: Callable[[list[Any]], Any],
        per_turn: int = MAX_COMMANDS_PER_TURN,
    ) -> Any:
        outcomes = []
        for count, place in enumerate(places, 1):
            outcomes.append(self._submit(*place))
            if count % per_turn == 0:
                await asyncio.sleep(0)
        return self._join(outcomes, build)

    def ask_all_shards(self, make: Make, build: Callable[[list[Any]], Any]) -> Any:
        """One command to every shard of this node; `build` looks at nothing but the answers. Shards with very
        many groups take turns with the loop, and all is built beside it.
        """
        places = [(index, make) for index in sorted(self._shards)]
        loaded = [shard.coordinator.shard for shard in self._shards.values() if shard.coordinator is not None]
        if sum(len(shard.groups) for shard in loaded) > MAX_GROUPS_PER_TURN:
            return self._ask_in_turns(places, lambda answers: Aside(partial(build, answers)), 1)
        return self._join([self._submit(*place) for place in places], build)

    def _submit(
        self, index: int, make: Make, token: Token | None = None
    ) -> "Answer | asyncio.Future[Answer]":
        shard = self._shards.get(index)
        if shard is None or shard.is_closed or not shard.partition.is_leader:
            self.refresh()
            shard = self._shards.get(index)
        if shard is None:
            return KafkaError(ErrorCode.NOT_COORDINATOR, "this node does not lead the group's partition")
        if not shard.is_loaded:
            return KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the group's partition is being loaded")
        if token is None:
            token = next(self._tokens)
        self._asked[token] = None
        try:
            shard.handle(make(token))
        except BaseException:
            del self._asked[token]
            raise
        outcome = self._asked[token]
        if outcome is None:
            future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            self._asked[token] = future
            return future
        del self._asked[token]
        return outcome

    def _answered(self, token: Token, answer: Answer) -> None:
        waiting = self._asked[token]
        if waiting is None:
            self._asked[token] = answer  # while `_submit` is still at it
            return
        assert isinstance(waiting, asyncio.Future), f"token {token} was answered twice"
        del self._asked[token]
        self._late_answers.append((waiting, answer))
        self._give_answers()

    def _give_answers(self) -> None:
        """Some of those that are there: what a connection does with one takes longer than deciding it."""
        for _ in range(min(len(self._late_answers), MAX_ANSWERS_PER_TURN - self._given)):
            waiting, answer = self._late_answers.popleft()
            self._given += 1
            if not waiting.done():  # a client that went away has cancelled it
                waiting.set_result(answer)
        if self._given and not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._given, self._is_counting = 0, False
        self._give_answers()

    def _join(
        self, outcomes: "list[Answer | asyncio.Future[Answer]]", build: Callable[[list[Any]], Any]
    ) -> Any:
        futures = [outcome for outcome in outcomes if isinstance(outcome, asyncio.Future)]
        if not futures:
            return build(outcomes)
        done: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        left = len(futures)

        def count_down(_: "asyncio.Future[Answer]") -> None:
            nonlocal left
            left -= 1
            if left == 0 and not done.done():
                done.set_result(
                    [each.result() if isinstance(each, asyncio.Future) else each for each in outcomes]
                )

        for future in futures:
            future.add_done_callback(count_down)
        return Delayed(done, build)

    # ---- shards --------------------------------------------------------------------------------------

    def _open_shard(self, index: int, partition: Partition) -> None:
        assert self._timers is not None and self._tasks is not None
        shard = self._shards[index] = GroupShard(
            partition=partition,
            replicas=self._replicas,
            new_shard=self._new_shard,
            timers=self._timers,
            clock=self._clock,
            commit_timeout_ms=self._commit_timeout_ms,
            compression=self._compression,
            answer=self._answered,
            failed=lambda shard: self._reopen(index, shard),
            threads=self._threads,
        )
        if not shard.load_if_empty():
            self._tasks.create_task(self._load(index, shard))

    def _topic_id_of(self, name: str) -> bytes | None:
        topic = self._image().topics.by_name.get(name)
        return topic.topic_id if topic is not None else None

    def _new_shard(self) -> Shard:
        shard = Shard(self._config, self._new_uuid, self._group_config)
        shard.topics = ImageTopics(self._image())
        shard.newest_topics_version = shard.topics.version
        return shard

    async def _load(self, index: int, shard: GroupShard) -> None:
        try:
            await shard.load(self._loader, self._topic_id_of)
            if shard.is_loaded and not shard.is_closed:
                # What changed while it was loaded; its groups look at all their topics anyhow.
                shard.handle(
                    TopicsChanged(topics=ImageTopics(self._image()), has_new_topics=True, changed=frozenset())
                )
        except KafkaError as error:
            if shard.is_closed:
                return  # another node leads it, or it is gone, and its files with it
            log.error("%s could not be loaded: %s", shard.partition.topic_partition, error)
            shard.close(ErrorCode.NOT_COORDINATOR)
            if self._timers is not None:
                self._timers.start(("reload", index), RELOAD_DELAY_MS, lambda: self._reopen(index, shard))

    def _reopen(self, index: int, shard: GroupShard) -> None:
        """A shard failed: begin again from the log, if this node still leads it."""
        if self._shards.get(index) is shard:
            del self._shards[index]
        self.refresh()


def partition_for(group_id: str, num_partitions: int) -> int:
    """Kafka's choice: the absolute value of Java's `String.hashCode`, modulo the partitions."""
    is_usual = len(group_id) <= MAX_REMEMBERED_CHARS
    return (_remembered_hash(group_id) if is_usual else _absolute_hash(group_id)) % num_partitions


def _absolute_hash(group_id: str) -> int:
    value = 0
    units = group_id.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    if value >= 0x80000000:
        value = 0x100000000 - value
    # The one hash whose absolute value is no int32 counts as 0.
    return 0 if value == 0x80000000 else value


_remembered_hash = lru_cache(maxsize=REMEMBERED_GROUPS)(_absolute_hash)
