"""The commands of a shard of the group coordinator.

A command with a `token` comes from a client: every token is answered exactly once, by a `Reply` or a
`Refuse`, perhaps much later. Commands without a token come from timers and from the node. Versions of the
protocol end at the request handlers; where versions differ in meaning, a field says which meaning is wanted.
"""

from typing import TypeAlias

from ottla.groupcoord.admin_commands import DeleteGroups, DescribeConsumerGroups, DescribeGroups, ListGroups
from ottla.groupcoord.classic.member_commands import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from ottla.groupcoord.consumer.consumer_commands import (
    ComputeTarget,
    ConsumerGroupHeartbeat,
    ExpireConsumerSession,
    ExpireRevocation,
    RegexesResolved,
    TargetComputed,
    TopicsChanged,
)
from ottla.groupcoord.consumer.migration_commands import (
    ExpireMemberJoin,
    ExpireMemberSync,
    FinishDowngrade,
    FinishUpgrade,
)
from ottla.groupcoord.offsets.offset_commands import (
    EndTransaction,
    ForgetOffsets,
    ForgetTopics,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    TxnOffsetCommit,
)
from ottla.groupcoord.share.share_commands import (
    AlterShareGroupOffsets,
    DeleteShareGroupOffsets,
    DescribeShareGroups,
    ExpireShareSession,
    ForgetShareTopics,
    ListSharePartitions,
    ShareGroupHeartbeat,
    ShareStateDeleted,
    ShareStateInitialized,
)
from ottla.groupcoord.timer_commands import (
    AnswerHeldHeartbeat,
    ExpireJoin,
    ExpireOffsets,
    ExpireSession,
    ExpireSync,
    ExtendInitialRebalance,
    WakeHeldHeartbeats,
)

ClientCommand: TypeAlias = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | ConsumerGroupHeartbeat
    | LeaveGroup
    | OffsetCommit
    | TxnOffsetCommit
    | OffsetFetch
    | OffsetDelete
    | DescribeGroups
    | DescribeConsumerGroups
    | ShareGroupHeartbeat
    | DescribeShareGroups
    | ListSharePartitions
    | AlterShareGroupOffsets
    | DeleteShareGroupOffsets
    | ListGroups
    | DeleteGroups
)
# Commands that lead to no records; they are carried out even while the log takes none.
ReadOnlyCommand: TypeAlias = (
    Heartbeat
    | AnswerHeldHeartbeat
    | OffsetFetch
    | DescribeGroups
    | DescribeConsumerGroups
    | DescribeShareGroups
    | ListSharePartitions
    | ListGroups
    | TopicsChanged
    | EndTransaction  # its marker is in the log already
)
TimerCommand: TypeAlias = (
    ExpireSession
    | ExtendInitialRebalance
    | ExpireJoin
    | ExpireSync
    | ExpireConsumerSession
    | ExpireRevocation
    | ComputeTarget
    | ExpireMemberJoin
    | ExpireMemberSync
    | ExpireOffsets
    | ExpireShareSession
    | ForgetShareTopics
    | AnswerHeldHeartbeat
    | WakeHeldHeartbeats
)
NodeCommand: TypeAlias = (
    EndTransaction
    | ForgetOffsets
    | ForgetTopics
    | TopicsChanged
    | RegexesResolved
    | TargetComputed
    | ShareStateInitialized
    | ShareStateDeleted
)
# Commands that a decision leaves to be carried out after its records were replayed.
InnerCommand: TypeAlias = FinishDowngrade | FinishUpgrade
Command: TypeAlias = ClientCommand | TimerCommand | NodeCommand | InnerCommand
