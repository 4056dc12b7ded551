"""A member leaves its consumer group: for good (-1), or a static one for a while (-2)."""

from dataclasses import replace

from ottla.groupcoord.assignment import with_epoch, without_epochs
from ottla.groupcoord.checked_append import checked_append
from ottla.groupcoord.consumer.consumer_commands import ConsumerGroupHeartbeat
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_member import LEAVE_STATIC_EPOCH
from ottla.groupcoord.consumer.consumer_membership import fence_members, revocation_key
from ottla.groupcoord.consumer.consumer_results import ConsumerGroupHeartbeatResult
from ottla.groupcoord.effects import CancelTimer, Effect, Reply
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.timeline import Cause
from ottla.logstore.words.errors import ErrorCode, KafkaError


def leave_consumer_group(shard: GroupShard, command: ConsumerGroupHeartbeat, now_ms: int) -> list[Effect]:
    group = shard.group(command.group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {command.group_id} not found.")
    if not isinstance(group, ConsumerGroup):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {command.group_id} is not a consumer group.")
    member = group.member_of(command.member_id, command.instance_id)
    if command.instance_id is not None and command.member_epoch == LEAVE_STATIC_EPOCH:
        # Its partitions wait for it. With epoch 0, the member that takes its place may commit for them.
        away = replace(
            member,
            member_epoch=LEAVE_STATIC_EPOCH,
            assigned=with_epoch(without_epochs(member.assigned), 0),
            pending_revocation={},
        )
        effects = [
            *checked_append(shard, [away.current_assignment_record(group.group_id)]),
            CancelTimer(revocation_key(group, member.member_id)),
        ]
    else:
        effects = fence_members(shard, group, [member], now_ms, Cause.MEMBER_LEFT)
    result = ConsumerGroupHeartbeatResult(member_id=member.member_id, member_epoch=command.member_epoch)
    return [*effects, Reply(command.token, result)]
