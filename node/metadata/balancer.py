"""Balances the cluster from its controller, while `ottla.balance.enable` or `ottla.balance.requested` is set.

Each step makes a plan from the present metadata, and begins only when no partition is being reassigned. From
one step to the next only the sizes of partitions are kept, which give their growth, and the partitions that
moved recently. So the controller may change between two steps, and administrators may move partitions as
well. First data move, a few partitions at a time; then the order of replicas changes, and preferred leaders
are elected where other replicas lead.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.balance_plan import (
    BalanceMove,
    BalancePlan,
    BrokerRoom,
    PlacedPartition,
    plan_balance,
)
from ottla.metadata_raft.commands import (
    AlterConfigs,
    AlterPartitionReassignments,
    ConfigChange,
    ConfigOperation,
    ElectLeaders,
    ReassignablePartition,
    ReassignableTopic,
    ResourceChanges,
    TopicPartitions,
)
from ottla.metadata_raft.image import EVERY_BROKER, MetadataImage
from ottla.metadata_raft.reassignment_control import ongoing_reassignments
from ottla.metadata_raft.records import ConfigResourceType
from ottla.node.clock import Clock
from ottla.node.handing_over import Ask, InThread
from ottla.node.metadata.metadata_runtime import MetadataRuntime
from ottla.node.settings.balance_settings import REQUESTED, excluded_brokers
from ottla.node.settings.config import BrokerConfig
from ottla.node.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse

PURPOSE: Final = "balance"
TICK_S: Final = 1.0  # how often the balancer checks if a step is due
SAMPLE_MS: Final = 10_000  # the least time over which growth is measured
PINNED_MS: Final = 3_600_000  # for which a partition is not moved again
OLD_SAMPLE_MS: Final = 600_000  # after which sizes are too old to measure growth from
ASK_S: Final = 30.0
PREFERRED: Final = 0

log = logging.getLogger(__name__)


class LogDirSizes(NamedTuple):
    """The size and the used bytes of a broker's file systems, and the size of each of its replicas."""

    disk_bytes: int
    used_bytes: int
    replicas: Mapping[TopicPartition, int]


class Balancer:
    """The balancer of a node, which works while the node is the controller. Used on the event loop."""

    def __init__(
        self,
        *,
        node_id: int,
        metadata: MetadataRuntime,
        config: Callable[[], BrokerConfig],
        own_sizes: Callable[[], Awaitable[LogDirSizes]],
        ask: Ask,
        in_thread: InThread,
        clock: Clock,
    ) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._config = config
        self._own_sizes = own_sizes
        self._ask = ask
        self._in_thread = in_thread
        self._clock = clock
        self._looked_ms = 0
        self._sizes: dict[TopicPartition, int] = {}  # of the leaders' logs, at `_sampled_ms`
        self._sampled_ms = 0
        self._rates: dict[TopicPartition, float] = {}
        self._moved: dict[TopicPartition, int] = {}  # and when each was moved

    async def run(self) -> None:
        """Take a step whenever one is due and this node is the controller, until cancelled."""
        while True:
            await asyncio.sleep(TICK_S)
            if not self._metadata.is_controller or not self._is_due():
                continue
            self._looked_ms = self._clock.now_ms()
            try:
                await self.step()
            except KafkaError as error:
                log.warning("The cluster cannot be balanced at the moment: %s", error)

    def _is_due(self) -> bool:
        config = self._config()
        if config.ottla_balance_requested:
            return True
        since_ms = self._clock.now_ms() - self._looked_ms
        return config.ottla_balance_enable and since_ms >= config.ottla_balance_interval_ms

    async def step(self) -> None:
        """Begin the next moves unless some are ongoing; KafkaError if a broker does not return its sizes."""
        image, config = self._metadata.image, self._config()
        if any(ongoing_reassignments(image)):
            return
        sizes = await self._gather(image)
        if not self._measure(image, sizes):
            return
        plan = await self._in_thread(
            partial(
                plan_balance,
                rooms(image, sizes),
                [*placed_partitions(image, sizes, self._rates)],
                leaving=excluded_brokers(config.ottla_balance_exclude_brokers),
                not_leading=excluded_brokers(config.ottla_balance_exclude_leaders),
                pinned=self._pinned(),
            )
        )
        # The sizes and the plan take seconds: a balance that was cancelled meanwhile must not go on, and a
        # broker that was excluded must not get a replica.
        if _wanted(self._config()) != _wanted(config):
            return
        if self._metadata.image.version != image.version and any(ongoing_reassignments(self._metadata.image)):
            return
        if plan.moves:
            await self._begin(plan, config.ottla_balance_concurrent_moves)
        elif others := led_by_others(image):
            await self._metadata.submit(ElectLeaders(election_type=PREFERRED, topic_partitions=others))
        elif config.ottla_balance_requested:
            await self._end()

    async def _gather(self, image: MetadataImage) -> dict[int, LogDirSizes]:
        sizes = {}
        for broker in image.active_brokers():
            if broker.broker_id == self._node_id:
                sizes[broker.broker_id] = await self._own_sizes()
                continue
            response = await self._ask(
                broker.broker_id, PURPOSE, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, ASK_S
            )
            sizes[broker.broker_id] = sizes_in(response)
        return sizes

    def _measure(self, image: MetadataImage, sizes: Mapping[int, LogDirSizes]) -> bool:
        """Measure how fast partitions grow; return True if their growth is known."""
        now_ms = self._clock.now_ms()
        leaders = {
            TopicPartition(name, one.partition): one.leader
            for name, topic in image.topics.by_name.items()
            for one in topic.partitions
        }
        present = {
            topic_partition: sizes[leader].replicas.get(topic_partition, 0)
            for topic_partition, leader in leaders.items()
            if leader in sizes
        }
        since_ms = now_ms - self._sampled_ms
        if since_ms < SAMPLE_MS:
            return bool(self._rates)
        is_known = since_ms <= OLD_SAMPLE_MS
        if is_known:
            self._rates = {
                topic_partition: max(0, size - self._sizes.get(topic_partition, size)) * 1000 / since_ms
                for topic_partition, size in present.items()
            }
        self._sizes, self._sampled_ms = present, now_ms
        return is_known

    def _pinned(self) -> Container[TopicPartition]:
        """Return the partitions that were moved within `PINNED_MS`."""
        since_ms = self._clock.now_ms() - PINNED_MS
        self._moved = {
            topic_partition: at_ms for topic_partition, at_ms in self._moved.items() if at_ms > since_ms
        }
        return self._moved

    async def _begin(self, plan: BalancePlan, most: int) -> None:
        moves = [move for move in plan.moves if set(move.before) != set(move.after)][:most]
        orders = [] if moves else plan.moves
        # An administrator may have changed the number of replicas meanwhile: that must not be undone.
        reply = await self._metadata.submit(
            AlterPartitionReassignments(
                topics=by_topic(moves or orders), allow_replication_factor_change=False
            )
        )
        begun = [
            TopicPartition(topic.name, one.partition_index)
            for topic in reply.responses
            for one in topic.partitions
            if not one.error_code
        ]
        self._moved |= dict.fromkeys(begun, self._clock.now_ms())
        if moves:
            copied = sum(move.copied_bytes for move in moves)
            left = len(plan.moves) - len(moves)
            log.info("Balance: %d partitions move, %d bytes; %d are left.", len(moves), copied, left)
        else:
            await self._metadata.submit(
                ElectLeaders(election_type=PREFERRED, topic_partitions=places_by_topic(orders))
            )
            log.info("Balance: %d partitions get another leader.", len(orders))

    async def _end(self) -> None:
        change = ConfigChange(name=REQUESTED, operation=ConfigOperation.DELETE)
        resource = ResourceChanges(
            resource_type=ConfigResourceType.BROKER, resource_name=EVERY_BROKER, changes=[change]
        )
        await self._metadata.submit(AlterConfigs(resources=[resource]))
        log.info("Balance: nothing is left to move.")


def _wanted(config: BrokerConfig) -> tuple[bool, Sequence[str], Sequence[str]]:
    """Return the settings for which a plan is made."""
    return (
        config.ottla_balance_enable or config.ottla_balance_requested,
        config.ottla_balance_exclude_brokers,
        config.ottla_balance_exclude_leaders,
    )


def rooms(image: MetadataImage, sizes: Mapping[int, LogDirSizes]) -> list[BrokerRoom]:
    """Return the room of each broker whose sizes are known."""
    return [
        BrokerRoom(broker_id, image.brokers[broker_id].rack, one.disk_bytes, one.used_bytes)
        for broker_id, one in sizes.items()
        if broker_id in image.brokers
    ]


def placed_partitions(
    image: MetadataImage, sizes: Mapping[int, LogDirSizes], rates: Mapping[TopicPartition, float]
) -> Iterable[PlacedPartition]:
    """Yield all partitions, each with the size of its largest replica."""
    for name, topic in sorted(image.topics.by_name.items()):
        for one in topic.partitions:
            topic_partition = TopicPartition(name, one.partition)
            size_bytes = max(
                (
                    sizes[replica].replicas.get(topic_partition, 0)
                    for replica in one.replicas
                    if replica in sizes
                ),
                default=0,
            )
            yield PlacedPartition(topic_partition, one.replicas, size_bytes, rates.get(topic_partition, 0.0))


def led_by_others(image: MetadataImage) -> list[TopicPartitions]:
    """Return the partitions whose preferred leader is in sync and does not lead."""
    found: list[TopicPartitions] = []
    for name, topic in sorted(image.topics.by_name.items()):
        partitions = [
            one.partition
            for one in topic.partitions
            if one.leader != one.replicas[0] and one.replicas[0] in one.isr
        ]
        if partitions:
            found.append(TopicPartitions(topic=name, partitions=partitions))
    return found


def sizes_in(response: DescribeLogDirsResponse) -> LogDirSizes:
    """Return the sizes in a broker's response, without its offline directories.

    KafkaError if the broker returned another error for a directory.
    """
    replicas: dict[TopicPartition, int] = {}
    disk_bytes = used_bytes = 0
    for log_dir in response.results:
        if log_dir.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
            continue
        if log_dir.error_code:
            raise KafkaError(
                ErrorCode(log_dir.error_code), "A broker did not return the sizes of its log directories."
            )
        disk_bytes += max(0, log_dir.total_bytes)
        used_bytes += max(0, log_dir.total_bytes - log_dir.usable_bytes)
        for topic in log_dir.topics:
            for one in topic.partitions:
                if not one.is_future_key:
                    replicas[TopicPartition(topic.name, one.partition_index)] = one.partition_size
    return LogDirSizes(disk_bytes, used_bytes, replicas)


def by_topic(moves: Sequence[BalanceMove]) -> list[ReassignableTopic]:
    """Return moves as the topics of an AlterPartitionReassignments command."""
    topics: dict[str, list[ReassignablePartition]] = {}
    for move in moves:
        moved = ReassignablePartition(
            partition_index=move.topic_partition.partition, replicas=list(move.after)
        )
        topics.setdefault(move.topic_partition.topic, []).append(moved)
    return [ReassignableTopic(name=name, partitions=partitions) for name, partitions in topics.items()]


def places_by_topic(moves: Sequence[BalanceMove]) -> list[TopicPartitions]:
    """Return the partitions of moves as the topics of an ElectLeaders command."""
    topics: dict[str, list[int]] = {}
    for move in moves:
        topics.setdefault(move.topic_partition.topic, []).append(move.topic_partition.partition)
    return [TopicPartitions(topic=name, partitions=partitions) for name, partitions in topics.items()]
