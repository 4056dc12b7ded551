"""Passes each command of share groups to the module that decides it."""

from ottla.groupcoord.effects import Effect
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.share.delete_share_groups import share_state_deleted
from ottla.groupcoord.share.share_commands import (
    AlterShareGroupOffsets,
    DeleteShareGroupOffsets,
    DescribeShareGroups,
    ExpireShareSession,
    ForgetShareTopics,
    ListSharePartitions,
    ShareCommand,
    ShareGroupHeartbeat,
    ShareStateDeleted,
    ShareStateInitialized,
)
from ottla.groupcoord.share.share_group_describe import describe_share_groups
from ottla.groupcoord.share.share_group_heartbeat import share_group_heartbeat
from ottla.groupcoord.share.share_group_offsets import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    list_share_partitions,
    share_offsets_altered,
)
from ottla.groupcoord.share.share_membership import expire_share_session
from ottla.groupcoord.share.share_states import forget_share_topics, states_initialized


def decide_share_command(shard: GroupShard, command: ShareCommand, now_ms: int) -> list[Effect]:
    match command:
        case ShareGroupHeartbeat():
            return share_group_heartbeat(shard, command, now_ms)
        case DescribeShareGroups():
            return describe_share_groups(shard, command)
        case ListSharePartitions():
            return list_share_partitions(shard, command)
        case AlterShareGroupOffsets():
            return alter_share_group_offsets(shard, command)
        case DeleteShareGroupOffsets():
            return delete_share_group_offsets(shard, command)
        case ShareStateInitialized():
            if command.waiting_request is not None:
                return share_offsets_altered(shard, command, command.waiting_request)
            return states_initialized(shard, command)
        case ShareStateDeleted():
            return share_state_deleted(shard, command)
        case ExpireShareSession():
            return expire_share_session(shard, command)
        case ForgetShareTopics():
            return forget_share_topics(shard)
