"""Makes a scrape: reads the node in short turns of its loop, and makes families of samples of the readings.

Every step has a timeout. If the loop does not answer, the scrape says so, and has the families that can be
made without it; without a scrape, Prometheus could only show that the node is down.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, TypeVar

from ottla.logstore.log_config import topic_config
from ottla.logstore.volume import VolumeBytes, volume_bytes
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.latency import LatencyHistogram
from ottla.metadata_raft.image import INTERNAL_TOPICS, MetadataImage
from ottla.node.clock import monotonic_s
from ottla.node.coordinators.group_lag import GroupOffset, PartitionLag
from ottla.node.counters.node_counts import latencies_of
from ottla.node.counters.request_counters import RequestCounters
from ottla.node.counters.topic_counters import DELETED_TOPICS, TopicCounters
from ottla.node.metrics import read_groups, read_node, read_share_starts
from ottla.node.metrics.client_families import client_families
from ottla.node.metrics.cluster_families import (
    ClusterCounts,
    QuorumRates,
    controller_families,
    count_cluster,
    exporter_families,
    kminion_families,
    raft_families,
)
from ottla.node.metrics.family import Family
from ottla.node.metrics.group_families import (
    consumer_group_families,
    coordinator_families,
    kminion_group_families,
)
from ottla.node.metrics.loop_watch import LoopWatch
from ottla.node.metrics.node_families import (
    ProcessFamilies,
    always,
    certificate_families,
    loop_families,
    memory_families,
    rest_families,
    scrape_families,
)
from ottla.node.metrics.pace import Pace
from ottla.node.metrics.quota_families import quota_families
from ottla.node.metrics.readings import GroupReading, NodeReading, PartitionReading
from ottla.node.metrics.replica_families import (
    damage_families,
    flush_families,
    log_dir_families,
    partition_families,
    replica_manager_families,
)
from ottla.node.metrics.request_families import (
    audit_families,
    connection_families,
    request_families,
    topic_families,
)
from ottla.node.metrics.share_families import share_families
from ottla.node.metrics.windows import Window, counts_since
from ottla.node.net.peer_client import SOFTWARE_VERSION
from ottla.node.node_facts import NodeFacts
from ottla.node.services import Services
from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.metrics_settings import KAFKA_EXPORTER, KMINION
from ottla.node.work.turns import Steps, take_turns

# Timeouts for the ends of logs that other nodes lead, and for a file system that hangs.
LAG_TIMEOUT_S: Final = read_groups.LAG_TIMEOUT_S + 0.5
VOLUME_TIMEOUT_S: Final = 0.5
# For a reading in turns of the loop: it takes this long on a fully busy node.
TURNS_TIMEOUT_S: Final = 5.0
# At some 3 us each, a turn holds up requests for a fifth of a millisecond.
STEPS_PER_TURN: Final = 64
T = TypeVar("T")
_FLUSHES: Final = "flushes"
_COMMITS: Final = "commits"


class NodeCollector:
    """The scrapes of one node, and the earlier readings they need. Used in the thread of the REST API."""

    def __init__(self, facts: NodeFacts) -> None:
        self._facts = facts
        self._watch = LoopWatch()
        self._process = ProcessFamilies()
        self._counts: Window[dict[str, list[int]]] = Window()  # of latencies, by API or kind of work
        self._offsets: Window[int] = Window(30.0)  # ends of the metadata log
        self._busy: Window[float] = Window(30.0)  # CPU seconds of the loop
        self._cluster: tuple[MetadataImage, ClusterCounts] | None = None

    @property
    def max_bytes(self) -> int:
        """The size limit of one scrape (`ottla.metrics.bytes.max`)."""
        return self._facts.config.ottla_metrics_bytes_max

    @property
    def shows_all(self) -> bool:
        """True if every scrape includes internal topics and all buckets (`ottla.metrics.all`)."""
        return self._facts.config.ottla_metrics_all

    async def collect(self, pace: Pace, *, shows_all: bool) -> Iterable[Family]:
        """Read the node and return all families, which can be iterated once; each is made when it is reached.

        With `shows_all`, the partitions of internal topics, some 150, have samples of their own.
        """
        facts = self._facts
        if not facts.is_serving:
            return [*always(SOFTWARE_VERSION, is_serving=False, is_responsive=True), *self._process.collect()]
        families: Iterable[Family]
        try:
            families = await self._collect_all(pace, shows_all=shows_all)
            is_responsive = True
        except KafkaError:
            families, is_responsive = self._without_loop(), False
        return chain(
            always(SOFTWARE_VERSION, is_serving=facts.is_serving, is_responsive=is_responsive),
            families,
            self._process.collect(),
        )

    async def _collect_all(self, pace: Pace, *, shows_all: bool) -> Iterable[Family]:
        config = self._facts.config
        began_s = monotonic_s()
        look_every_s = config.ottla_metrics_loop_look_ms / 1000
        # Raises KafkaError if the loop hangs.
        await self._facts.ask(lambda _: self._watch.start(look_every_s))
        node = await self._in_turns(read_node.read_node)
        partitions = sorted(await self._in_turns(read_node.read_partitions), key=lambda one: one[:2])
        named = [one for one in partitions if shows_all or one.topic not in INTERNAL_TOPICS]
        clients = await self._in_turns(read_node.read_client_metrics)
        quotas = await self._in_turns(read_node.read_quotas)
        shares = await self._in_turns(read_node.read_shares)
        groups, offsets_left_out = await self._read_groups(config.ottla_metrics_group_offsets_max, pace)
        shown_groups = read_groups.shown_one_by_one(
            groups, config.ottla_metrics_groups_max, config.ottla_metrics_bytes_max // 2
        )
        starts, starts_left_out = await self._in_turns(
            partial(read_share_starts.read_share_starts, most=config.ottla_metrics_group_offsets_max)
        )
        read_s = monotonic_s()
        shown_groups = await self._with_lag(shown_groups, pace)
        share_lags = read_groups.shown_one_by_one(
            await self._share_lags(starts, pace),
            config.ottla_metrics_groups_max,
            config.ottla_metrics_bytes_max // 4,
        )
        lag_s = monotonic_s()
        volumes = await self._volumes(node)
        topics = self._topics().keys() - {DELETED_TOPICS}
        left_out = {
            "partition": max(0, len(named) - config.ottla_metrics_partitions_max),
            "group": len(groups) - len(shown_groups),
            "group_offset": offsets_left_out + starts_left_out,
            "share_group_lag": len(starts) - len(share_lags),
            "topic": max(0, len(topics) - config.ottla_metrics_topics_max),
            "share_partition": shares.left_out,
        }

        def families() -> Iterator[Family]:
            yield from self._families(
                config,
                node,
                partitions,
                named,
                groups,
                shown_groups,
                share_lags,
                volumes,
                shows_all=shows_all,
            )
            yield from share_families(shares)
            # Last, so that series whose number depends on clients take no room from the node's own.
            yield from quota_families(quotas)
            yield from client_families(clients)
            took = {"node": read_s - began_s, "lag": lag_s - read_s, "families": monotonic_s() - lag_s}
            yield from scrape_families(took, left_out)

        return families()

    def _without_loop(self) -> list[Family]:
        """Return the families that any thread can make at any time, without the node's loop."""
        requests, latencies, recent = self._requests()
        return [
            *topic_families(self._topics(), self._facts.config.ottla_metrics_topics_max),
            *request_families(requests, latencies, recent),
            *loop_families(self._watch, self._idle_share()),
            *rest_families(self._facts.rest_work()),
            *self._audit_families(),
        ]

    def _audit_families(self) -> list[Family]:
        audit = self._facts.services.audit
        return audit_families(audit.counts(), audit.lost_lines)

    # ---- reading ---------------------------------------------------------------------------------

    async def _in_turns(self, read: "Callable[[Services], Steps[T]]") -> T:
        """Run a reading on the node's loop, in turns, and return its result."""
        return await self._facts.run(
            lambda node: take_turns(read(node.services), STEPS_PER_TURN), timeout_s=TURNS_TIMEOUT_S
        )

    async def _read_groups(self, max_offsets: int, pace: Pace) -> tuple[list[GroupReading], int]:
        """Return the groups with their decoded offsets, and the number of offsets left out."""
        found, left_out = await self._in_turns(partial(read_groups.read_groups, max_offsets=max_offsets))
        groups = []
        for group, offsets in found:
            groups.append(read_groups.with_offsets(group, offsets))
            await pace.pause()
        return groups, left_out

    async def _with_lag(self, groups: Sequence[GroupReading], pace: Pace) -> list[GroupReading]:
        """Return the groups with their lag; partitions whose leader does not answer in time have none."""
        places = read_groups.offsets_to_measure(groups)
        if not places:
            return list(groups)
        try:
            lags = await self._facts.run(
                lambda node: read_groups.measure(node.services, places), timeout_s=LAG_TIMEOUT_S
            )
        except KafkaError:
            return list(groups)
        found = []
        for group in groups:
            found.append(read_groups.with_lag(group, lags))
            await pace.pause()
        return found

    async def _share_lags(
        self, starts: Mapping[str, Sequence[read_share_starts.ShareStart]], pace: Pace
    ) -> list[GroupReading]:
        """Return the share groups with states on this node, and their lag if the leaders answer in time."""
        ends: Mapping[GroupOffset, PartitionLag] = {}
        places = read_share_starts.ends_to_measure(starts)
        if places:
            with suppress(KafkaError):
                ends = await self._facts.run(
                    lambda node: read_groups.measure(node.services, places), timeout_s=LAG_TIMEOUT_S
                )
        found = []
        for group_id, ones in sorted(starts.items()):
            found.append(read_share_starts.with_ends(group_id, ones, ends))
            await pace.pause()
        return found

    async def _volumes(self, node: NodeReading) -> dict[str, VolumeBytes]:
        """Return size and free space by log directory; a file system that hangs is missing in this scrape."""
        found: dict[str, VolumeBytes] = {}
        for one in node.log_dirs:
            if one.is_online:
                try:
                    async with asyncio.timeout(VOLUME_TIMEOUT_S):
                        found[one.path] = await asyncio.to_thread(volume_bytes, Path(one.path))
                except TimeoutError:
                    continue
        return found

    # ---- families --------------------------------------------------------------------------------

    def _families(
        self,
        config: BrokerConfig,
        node: NodeReading,
        partitions: Sequence[PartitionReading],
        named: Sequence[PartitionReading],
        groups: Sequence[GroupReading],
        shown_groups: Sequence[GroupReading],
        share_lags: Sequence[GroupReading],
        volumes: Mapping[str, VolumeBytes],
        *,
        shows_all: bool,
    ) -> Iterator[Family]:
        services, now_s = self._facts.services, monotonic_s()
        image, is_controller = services.metadata.image, node.is_controller
        requests, latencies, recent = self._requests()
        shown = named[: config.ottla_metrics_partitions_max]
        voter = read_node.voter_of(services.quorum)
        yield from topic_families(self._topics(), config.ottla_metrics_topics_max)
        yield from request_families(requests, latencies, recent)
        yield from connection_families(node.listeners, self._facts.login_counts())
        yield from replica_manager_families(node, partitions)
        yield from partition_families(shown)
        yield from log_dir_families(node.log_dirs, partitions, volumes)
        yield from damage_families(services.maintenance.scrub)
        yield from flush_families(services.maintenance.flusher.times, recent[_FLUSHES])
        yield from controller_families(
            image, self._count(image), services.elections, is_controller=is_controller
        )
        yield from raft_families(
            node.quorum,
            QuorumRates(self._appended_per_second(node.quorum.log_end_offset, now_s)),
            services.metadata.commit_times,
            recent[_COMMITS],
            LatencyHistogram() if voter is None else voter.sync_times,
            now_ms=services.clock.now_ms(),
        )
        yield from self._exporters(
            config, image, partitions, shown, shown_groups, share_lags, is_controller=is_controller
        )
        yield from coordinator_families(groups, node, shows_all=shows_all)
        yield from loop_families(self._watch, self._idle_share())
        yield from memory_families(node, services.receive_memory.limit_bytes, services.memory_max_bytes)
        yield from rest_families(self._facts.rest_work())
        yield from certificate_families(node.tls_listeners, node.refused_certificates)
        yield from self._audit_families()

    def _exporters(
        self,
        config: BrokerConfig,
        image: MetadataImage,
        partitions: Sequence[PartitionReading],
        shown: Sequence[PartitionReading],
        groups: Sequence[GroupReading],
        share_lags: Sequence[GroupReading],
        *,
        is_controller: bool,
    ) -> Iterator[Family]:
        most = config.ottla_metrics_partitions_max
        if KAFKA_EXPORTER in config.ottla_metrics_exporters:
            yield from exporter_families(image, shown, is_controller=is_controller, max_partitions=most)
            yield from consumer_group_families(groups, share_lags)
        if KMINION in config.ottla_metrics_exporters:
            yield from kminion_families(
                image,
                partitions,
                shown,
                lambda topic: cleanup_policy_of(config, image, topic),
                node_id=config.node_id,
                controller_id=self._facts.services.metadata.controller_id,
                is_controller=is_controller,
                max_partitions=most,
            )
            yield from kminion_group_families(groups, config.node_id, share_lags)

    def _topics(self) -> dict[str, TopicCounters]:
        # Copied in one step, because the loop may add a topic at any time.
        return dict(self._facts.services.replica_manager.counters)

    def _requests(
        self,
    ) -> tuple[list[RequestCounters], dict[str, LatencyHistogram], dict[str, list[int]]]:
        """Return the request counters, the latencies by API, and the recent counts of each histogram."""
        services, now_s = self._facts.services, monotonic_s()
        requests = list(services.request_counters.by_version.values())
        latencies = latencies_of(requests)
        counts = {name: list(one.counts) for name, one in latencies.items()}
        counts[_FLUSHES] = list(services.maintenance.flusher.times.counts)
        counts[_COMMITS] = list(services.metadata.commit_times.counts)
        before = self._counts.oldest(now_s)
        self._counts.add(now_s, counts)
        return requests, latencies, counts_since(counts, None if before is None else before[1])

    def _count(self, image: MetadataImage) -> ClusterCounts:
        """Return the counts of an image; an image does not change, so each is counted once."""
        if self._cluster is None or self._cluster[0] is not image:
            self._cluster = image, count_cluster(image)
        return self._cluster[1]

    def _appended_per_second(self, end_offset: int, now_s: float) -> float:
        before = self._offsets.oldest(now_s)
        self._offsets.add(now_s, end_offset)
        return 0.0 if before is None else max(0, end_offset - before[1]) / before[0]

    def _idle_share(self) -> float:
        now_s, cpu_s = monotonic_s(), self._watch.cpu_s()
        before = self._busy.oldest(now_s)
        self._busy.add(now_s, cpu_s)
        return 1.0 if before is None else min(1.0, max(0.0, 1.0 - (cpu_s - before[1]) / before[0]))


def cleanup_policy_of(config: BrokerConfig, image: MetadataImage, topic: str) -> str:
    """Return a topic's cleanup.policy as text, without making a `LogConfig` of all forty settings."""
    policy = topic_config("cleanup.policy", image.configs.topic(topic), config.values)
    return ",".join(policy) if isinstance(policy, tuple) else ""
