"""Copies the offsets of groups to the target, so that members that move there continue where they were.

A group is set only if it has no members in the target, and only forward. Groups are independent: an error of
one is reported with it and does not keep others from being set.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.group_admin import ListedGroup, has_members, list_groups
from ottla.pipeline.client.group_offsets import CommittedOffset, commit_offsets, committed_offsets
from ottla.pipeline.client.list_offsets import EARLIEST, list_offsets
from ottla.pipeline.client.metadata import Cluster, TopicGone
from ottla.pipeline.mirror.group_plan import plan_commits
from ottla.pipeline.mirror.mirror_options import MirrorOptions
from ottla.pipeline.mirror.offset_map import OffsetMap
from ottla.pipeline.mirror.sync_reader import SyncReader

# Errors of a coordinator that finds members where there were none a moment ago.
_HAS_MEMBERS = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH}
)


class GroupState(Enum):
    """The outcome of the last sync of a group."""

    SYNCED = "synced"
    IN_USE = "has active members in the target"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSync:
    """The last sync of one group.

    `offsets` are those that it has in the target for the mirrored topics; there are none if it was not
    synced.
    """

    group_id: str
    state: GroupState
    offsets: Mapping[TopicPartition, int]
    problem: str = ""


class GroupFollower:
    """Translates and commits offsets, with the maps that it has read so far."""

    def __init__(self, source: Cluster, target: Cluster, options: MirrorOptions) -> None:
        self._source = source
        self._target = target
        self._options = options
        self._forward = SyncReader(target, options.policy.offset_syncs_topic())
        # If names are kept, another mirror may write the target's own rows into the same topics of the
        # source.
        back = f"mirror-offset-syncs.{options.policy.target_alias}.internal"
        self._backward = SyncReader(source, back) if options.policy.separator is None else None

    def sync(self) -> list[GroupSync]:
        """Sync all groups once."""
        # Offsets of groups are read first: a map that is newer than they are has all rows that they have
        # read.
        groups = {
            one.group_id: one
            for one in list_groups(self._source).values()
            if one.is_of_consumers and self._is_selected(one.group_id)
        }
        in_use = list_groups(self._target)
        read = {group_id: self._offsets_of(group_id) for group_id in sorted(groups)}
        forward = self._forward.read()
        backward = None
        if self._backward is not None and self._backward.exists():
            backward = self._backward.read()
        return [
            self._sync(group_id, offsets, in_use.get(group_id), forward, backward)
            for group_id, offsets in read.items()
            if offsets
        ]

    def _is_selected(self, group_id: str) -> bool:
        return self._options.groups.has(group_id) and group_id != self._options.progress_group

    def _offsets_of(self, group_id: str) -> dict[TopicPartition, CommittedOffset] | KafkaError:
        """Return the committed offsets by the target's names of partitions, or the error."""
        try:
            committed = committed_offsets(self._source, group_id)
        except KafkaError as error:
            return error
        return {
            TopicPartition(self._options.policy.remote_topic(one.topic), one.partition): offset
            for one, offset in committed.items()
            if self._options.topics.has(one.topic)
        }

    def _sync(
        self,
        group_id: str,
        in_source: dict[TopicPartition, CommittedOffset] | KafkaError,
        there: ListedGroup | None,
        forward: OffsetMap,
        backward: OffsetMap | None,
    ) -> GroupSync:
        try:
            if isinstance(in_source, KafkaError):
                raise in_source
            if has_members(self._target, there):
                return GroupSync(group_id=group_id, state=GroupState.IN_USE, offsets={})
            in_target = committed_offsets(self._target, group_id, [*in_source])
            commits = plan_commits(
                in_source, in_target, forward, backward=backward, log_starts=self._log_starts([*in_source])
            )
            commit_offsets(self._target, group_id, commits)
        except (KafkaError, TopicGone) as error:
            if isinstance(error, KafkaError) and error.code in _HAS_MEMBERS:
                return GroupSync(group_id=group_id, state=GroupState.IN_USE, offsets={})
            return GroupSync(group_id=group_id, state=GroupState.FAILED, offsets={}, problem=str(error))
        offsets = {partition: one.offset for partition, one in (in_target | commits).items()}
        return GroupSync(group_id=group_id, state=GroupState.SYNCED, offsets=offsets)

    def _log_starts(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log start offsets of those partitions that exist in the target."""
        topics = self._target.topics(sorted({one.topic for one in partitions}))
        there = [
            one for one in partitions if one.topic in topics and one.partition in topics[one.topic].leaders
        ]
        return list_offsets(self._target, dict.fromkeys(there, EARLIEST)) if there else {}
