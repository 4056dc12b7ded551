"""The status of a mirror.

Any process can read the status of partitions from the two clusters; only the mirror knows that of groups.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.client_settings import ClientSettings, Role
from ottla.pipeline.client.group_offsets import committed_offsets
from ottla.pipeline.client.list_offsets import EARLIEST, LATEST, list_offsets
from ottla.pipeline.client.metadata import Cluster
from ottla.pipeline.mirror.group_follower import GroupSync
from ottla.pipeline.mirror.mirror_options import MirrorOptions
from ottla.pipeline.mirror.sync_reader import SyncReader
from ottla.pipeline.mirror.topic_follower import TopicFollower


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """The progress of a partition, in offsets of the source."""

    target: TopicPartition
    mirrored_to: int
    source_end: int

    @property
    def lag(self) -> int:
        """The offsets still to be read; some may be markers or rows that are left out."""
        return max(self.source_end - self.mirrored_to, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsStatus:
    """The outcome of the rounds; times are in ms since 1970, 0 for never."""

    groups: tuple[GroupSync, ...] = ()
    groups_synced_ms: int = 0
    topics_followed_ms: int = 0
    configs_synced_ms: int = 0
    problems: Mapping[str, str] = field(default_factory=dict)  # by the name of the round; from its last run


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorStatus:
    """A mirror at one moment."""

    partitions: Mapping[TopicPartition, PartitionStatus]  # by the source's names
    rows: int  # since this mirror was started; 0 if it runs elsewhere
    rounds: RoundsStatus

    @property
    def lag(self) -> int:
        """The sum over all partitions."""
        return sum(one.lag for one in self.partitions.values())


def source_cluster(options: MirrorOptions) -> Cluster:
    """Return a client of the source."""
    return Cluster(ClientSettings.from_options(options.source_client, Role.SOURCE))


def target_cluster(options: MirrorOptions, *, read_committed: bool = True) -> Cluster:
    """Return a client of the target, for everything but rows."""
    isolation = "read_committed" if read_committed else "read_uncommitted"
    settings = {**options.target_client, "kafka.isolation.level": isolation}
    return Cluster(ClientSettings.from_options(settings, Role.SOURCE))


def read_status(options: MirrorOptions) -> MirrorStatus:
    """Return what both clusters know of a mirror, whether it runs here, elsewhere or not at all."""
    source, target = source_cluster(options), target_cluster(options)
    try:
        partitions = partition_status(options, source, target)
    finally:
        source.close()
        target.close()
    return MirrorStatus(partitions=partitions, rows=0, rounds=RoundsStatus())


def partition_status(
    options: MirrorOptions, source: Cluster, target: Cluster
) -> dict[TopicPartition, PartitionStatus]:
    """Return the status of each mirrored partition of the source."""
    names = TopicFollower(source, target, options).source_topics()
    topics = source.topics([*names])
    partitions = [TopicPartition(name, index) for name in names for index in sorted(topics[name].leaders)]
    if not partitions:
        return {}
    # The offsets of a batch are committed to the group when the next batch begins; the map has them already.
    committed = committed_offsets(source, options.progress_group, partitions)
    offsets = SyncReader(target, options.policy.offset_syncs_topic()).read()
    starts = list_offsets(source, dict.fromkeys(partitions, EARLIEST))
    ends = list_offsets(source, dict.fromkeys(partitions, LATEST))
    found = {}
    for partition in partitions:
        remote = TopicPartition(names[partition.topic], partition.partition)
        of_group = committed[partition].offset if partition in committed else starts[partition]
        found[partition] = PartitionStatus(
            target=remote,
            mirrored_to=max(of_group, offsets.mirrored_to(remote) or 0),
            source_end=ends[partition],
        )
    return found
