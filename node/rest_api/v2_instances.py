"""Consumers that run in this node for clients of Confluent's v2: members of groups, driven by requests.

An instance belongs to the caller that created it, and stays on the node that created it: `base_uri` leads
there. It serves one request at a time. Between requests a task keeps its membership, and ends the instance
after `ottla.rest.consumers.timeout.ms` without a request. The number of instances is limited, for each
user or address and in all, and the memory of each by its fetch rounds.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from ottla.groupcoord.topic_regex import TopicRegex
from ottla.logstore.record import Record
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.cluster_client import Client
from ottla.node.client.consumer import SHORT_ROUNDS, Consumer
from ottla.node.client.deadline import Deadline
from ottla.node.client.group_member import GroupMember
from ottla.node.client.topic_admin import EARLIEST, LATEST, describe_topics, list_offsets
from ottla.node.net.act_for import Caller
from ottla.node.rest_api.fair_slots import FairSlots
from ottla.node.rest_api.rest_error import RestError
from ottla.node.rest_api.v2_errors import ALREADY_EXISTS, illegal_state, no_instance

KEEP_S: Final = 1.0  # the interval of checks of memberships; heartbeats are sent every three seconds
LEAVE_S: Final = 1.0  # for an instance that ends with the node
LOOK_S: Final = 30.0  # the interval between searches for topics that match a pattern; each lists all topics
RESETS: Final[Mapping[str, int]] = {"earliest": EARLIEST, "latest": LATEST}
T = TypeVar("T")
InstanceKey = tuple[str, str]  # the group and the name

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceConfig:
    """The options of a client that creates a consumer."""

    form: str  # of records: binary or json
    reset: str  # earliest, latest or none
    commits_alone: bool
    min_bytes: int
    request_timeout_ms: int


@dataclass(slots=True, eq=False)
class Instance:
    """One consumer, with a subscription, with partitions assigned by hand, or with neither."""

    group: str
    name: str
    caller: Caller
    config: InstanceConfig
    client: Client
    member: GroupMember
    consumer: Consumer
    topics: list[str] = field(default_factory=list)  # subscribed; with a pattern, those that it matched
    pattern: TopicRegex | None = None
    looked_s: float = 0.0  # when all topics were last matched with the pattern
    assigned: list[TopicPartition] = field(default_factory=list)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    used_s: float = 0.0
    delivered: dict[TopicPartition, int] = field(default_factory=dict)  # next offsets to commit
    dealt: list[TopicPartition] | None = None  # assigned by the group, and not started yet
    ending: asyncio.Event = field(default_factory=asyncio.Event)  # set when the instance is deleted

    # ---- subscription and assignment -----------------------------------------------------------------------

    @property
    def is_subscribed(self) -> bool:
        """Return True if it is subscribed, so a member of its group."""
        return bool(self.topics) or self.pattern is not None

    async def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group for these topics, replacing earlier ones; partitions are assigned during later
        reads.
        """
        if self.pattern is not None or (self.assigned and not self.topics):
            raise _mutually_exclusive()
        if list(topics) != self.topics:
            await self.unsubscribe()
            self.topics = list(topics)
            self.member.subscribe(self.topics)

    async def subscribe_to_pattern(self, pattern: TopicRegex) -> None:
        """Join the group for all topics whose whole name matches, including future ones."""
        if self.pattern is None and (self.topics or self.assigned):
            raise _mutually_exclusive()
        topics = await self._matching(pattern)
        await self.unsubscribe()
        self.topics, self.pattern, self.looked_s = topics, pattern, time.monotonic()
        self.member.subscribe(topics)

    async def _matching(self, pattern: TopicRegex) -> list[str]:
        """Return the topics whose name matches; never internal ones, as with Kafka's consumers."""
        topics = await describe_topics(self.client.renewed(), None)
        names = [one.name for one in topics if one.name and not one.is_internal]
        found: list[str] = []

        def match(pause: Callable[[], None]) -> bool:
            for name in names:
                pause()
                if pattern.matches(name):
                    found.append(name)
            return True

        assert self.client.opening is not None
        await self.client.opening(match)  # matching very many topics may take milliseconds for each
        return found

    async def _look_for_topics(self, pattern: TopicRegex) -> None:
        topics = await self._matching(pattern)
        self.looked_s = time.monotonic()
        if topics != self.topics:
            self.topics = topics
            self.member.subscribe(topics)

    async def unsubscribe(self) -> None:
        """Leave the group, or drop the assigned partitions."""
        if self.config.commits_alone:
            await self.commit()
        if self.is_subscribed:
            await self.member.leave()
        self.topics, self.pattern, self.assigned, self.consumer.positions = [], None, [], {}
        self.delivered, self.dealt = {}, None
        self.member = GroupMember(self.client, self.group, ())

    async def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Read these partitions, without joining the group."""
        if self.is_subscribed:
            raise _mutually_exclusive()
        if self.config.commits_alone:
            await self.commit()
        await self._begin_at(list(dict.fromkeys(partitions)))

    async def _begin_at(self, partitions: Sequence[TopicPartition]) -> None:
        """Start at the offsets that the group committed, or as `auto.offset.reset` says."""
        committed = await self.member.committed(partitions) if partitions else {}
        positions = {one: found.offset for one, found in committed.items() if found.offset >= 0}
        missing = [one for one in partitions if one not in positions]
        if missing:
            if self.config.reset not in RESETS:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{missing[0]}: nothing was committed.")
            positions |= await self._ends(missing, RESETS[self.config.reset])
        self.assigned, self.consumer.positions, self.delivered = list(partitions), positions, {}

    async def _ends(self, partitions: Sequence[TopicPartition], moment: int) -> dict[TopicPartition, int]:
        found = await list_offsets(self.client.renewed(), dict.fromkeys(partitions, moment))
        return {one: each.offset for one, each in found.items()}

    # ---- positions -----------------------------------------------------------------------------------------

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Continue from these offsets."""
        self._check_assigned(list(offsets))
        self.consumer.positions |= offsets

    async def seek_to(self, partitions: Sequence[TopicPartition], moment: int) -> None:
        """Continue from the start or the end of these partitions."""
        self._check_assigned(partitions)
        self.consumer.positions |= await self._ends(partitions, moment)

    async def offsets_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the first offset at or after a time in ms; the end if all records are older."""
        self._check_assigned(list(times))
        found = await list_offsets(self.client.renewed(), times)
        late = [one for one, each in found.items() if each.offset < 0]
        ends = await self._ends(late, LATEST) if late else {}
        return {one: each.offset for one, each in found.items()} | ends

    def _check_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        for one in partitions:
            if one not in self.consumer.positions:
                raise illegal_state(f"No current assignment for partition {one}")

    async def commit(
        self,
        offsets: Mapping[TopicPartition, int] | None = None,
        metadata: Mapping[TopicPartition, str] | None = None,
    ) -> None:
        """Commit these offsets, some with metadata, or all that were delivered if None."""
        if offsets is None:
            offsets = dict(self.delivered)
        await self.member.commit(offsets, metadata)
        self.delivered = {one: at for one, at in self.delivered.items() if offsets.get(one) != at}

    # ---- records -------------------------------------------------------------------------------------------

    async def read(
        self, deadline: Deadline, max_bytes: int, as_json: Callable[[TopicPartition, Record], T]
    ) -> list[T]:
        """Return `as_json` of the next records, up to `max_bytes` of them but at least one.

        The list is empty if none came in time. After an error or a cancellation the next read returns them
        again, since the client has not received them.
        """
        if not self.is_subscribed and not self.assigned:
            raise illegal_state("Consumer is not subscribed to any topics or assigned any partitions.")
        await self._wait_for_partitions(deadline)
        if self.config.commits_alone and self.delivered:
            await self.commit()
        before = dict(self.consumer.positions)
        try:
            found = await self._read(deadline, max_bytes)
            rows = [as_json(partition, one) for partition, one in found]
        except BaseException:
            self.consumer.positions = before
            raise
        self.delivered |= {partition: one.offset + 1 for partition, one in found}
        return rows

    async def _wait_for_partitions(self, deadline: Deadline) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(deadline.remaining_s):
                    await self.keep()
            if self.consumer.positions or deadline.is_over:
                return
            await asyncio.sleep(min(KEEP_S, deadline.remaining_s))

    async def _read(self, deadline: Deadline, max_bytes: int) -> list[tuple[TopicPartition, Record]]:
        found: list[tuple[TopicPartition, Record]] = []
        size = 0
        enough = max(1, min(self.config.min_bytes, max_bytes))
        while size < enough and not deadline.is_over and self.consumer.positions:
            try:
                rounds = await self.consumer.fetch(deadline)
            except KafkaError as error:
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE or self.config.reset not in RESETS:
                    raise
                await self._reset_those_out_of_range()
                continue
            for partition, records in rounds:
                for one in records:
                    length = len(one.key or b"") + len(one.value or b"")
                    if found and size + length > max_bytes:
                        self.consumer.positions[partition] = one.offset
                        break
                    found.append((partition, one))
                    size += length
        return found

    async def _reset_those_out_of_range(self) -> None:
        """Apply `auto.offset.reset` to partitions whose offset is out of range."""
        places = list(self.consumer.positions)
        first, last = await self._ends(places, EARLIEST), await self._ends(places, LATEST)
        begin = first if self.config.reset == "earliest" else last
        for one in places:
            if not first[one] <= self.consumer.positions[one] <= last[one]:
                self.consumer.positions[one] = begin[one]

    # ---- membership ----------------------------------------------------------------------------------------

    async def keep(self) -> None:
        """Join if the group requires it, otherwise heartbeat when it is due."""
        if not self.is_subscribed:
            return
        if self.pattern is not None and time.monotonic() - self.looked_s >= LOOK_S:
            await self._look_for_topics(self.pattern)
        if not self.member.must_rejoin:
            await self.member.heartbeat()
        if self.member.must_rejoin:
            if self.config.commits_alone:
                await self.commit()  # while the partitions are still assigned
            self.consumer.positions, self.delivered = {}, {}
            self.dealt = await self.member.join()
        if self.dealt is not None:
            await self._begin_at(self.dealt)
            self.dealt = None

    async def end(self) -> None:
        """Leave the group and close the connections."""
        try:
            with suppress(KafkaError):
                await self.unsubscribe()
        finally:
            await self.client.__aexit__(RestError, None, None)


def _mutually_exclusive() -> RestError:
    return illegal_state("Subscription to topics, partitions and pattern are mutually exclusive.")


class Instances:
    """The consumers of a node; the server runs `run` as a task."""

    def __init__(
        self, make_client: Callable[[Caller, str], Client], slots: FairSlots, timeout_s: float
    ) -> None:
        """Create clients by `make_client` of caller and share; instances end `timeout_s` after their last
        request.
        """
        self._make_client = make_client
        self.slots = slots
        self._timeout_s = timeout_s
        self._tasks = asyncio.TaskGroup()
        self._by_key: dict[InstanceKey, Instance] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    async def run(self) -> None:
        """Run the tasks that keep memberships, until cancelled."""
        async with self._tasks:
            await asyncio.Event().wait()

    def create(self, group: str, name: str, caller: Caller, share: str, config: InstanceConfig) -> None:
        """Create a consumer; RestError 409 if the name is taken, 429 if there are too many."""
        if (group, name) in self._by_key:
            raise RestError(
                409, ALREADY_EXISTS, "Consumer with specified consumer ID already exists in the group."
            )
        slot = ExitStack()
        slot.enter_context(self.slots.slot_now(share))
        client = self._make_client(caller, share)
        instance = Instance(
            group,
            name,
            caller,
            config,
            client,
            GroupMember(client, group, ()),
            Consumer(client, read_committed=False, limits=SHORT_ROUNDS),
            used_s=time.monotonic(),
        )
        self._by_key[group, name] = instance
        self._tasks.create_task(self._keep(instance, slot))

    async def _keep(self, instance: Instance, slot: ExitStack) -> None:
        with slot:
            try:
                while time.monotonic() - instance.used_s < self._timeout_s:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(KEEP_S):
                            await instance.ending.wait()
                            return
                    try:
                        async with instance.lock:
                            await instance.keep()
                    except KafkaError as error:
                        log.debug("Consumer %s of group %s: %s", instance.name, instance.group, error)
                    except Exception:
                        log.exception("A consumer of the REST API failed, and is ended")
                        return
            finally:
                if self._by_key.get((instance.group, instance.name)) is instance:
                    del self._by_key[instance.group, instance.name]
                async with instance.lock:
                    await self._end(instance)

    async def _end(self, instance: Instance) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await instance.end()

    @asynccontextmanager
    async def use(self, group: str, name: str, caller: Caller, deadline: Deadline) -> AsyncIterator[Instance]:
        """Lend a consumer to one request of its caller.

        RestError 404 if the caller has none with that name, 409 if another request holds it for too long.
        """
        instance = self._by_key.get((group, name))
        if instance is None or instance.caller.principal != caller.principal:
            raise no_instance()
        instance.used_s = time.monotonic()
        try:
            async with asyncio.timeout(deadline.remaining_s):
                await instance.lock.acquire()
        except TimeoutError:
            raise illegal_state("another request to this consumer is in progress") from None
        try:
            if self._by_key.get((group, name)) is not instance:
                raise no_instance()
            yield instance
        finally:
            instance.used_s = time.monotonic()
            instance.lock.release()

    async def delete(self, instance: Instance) -> None:
        """End a consumer that was lent."""
        del self._by_key[instance.group, instance.name]
        instance.ending.set()
        await instance.unsubscribe()
