"""Expiry: removes offsets that were not needed for long and groups without offsets; also DeleteGroups.

The rules are Kafka's (KIP-211, `offsets.retention.minutes`):

    group                                         its offset expires
    with its own retention (commits v2 to v4)     when that is over
    empty, with a protocol type                   the retention after the group became empty
    without a protocol type (never any members)   the retention after its commit
    stable, with readable consumer subscriptions  the retention after its commit, if no member reads the topic
    any other classic group                       never
    a consumer or share group                     the retention after its commit, if no member reads the topic

An empty group without offsets is removed at the next look, except a share group. A group may have a retention
of its own in place of the broker's, or keep its offsets for ever (`ottla.offsets.retention.ms`).
"""

from collections.abc import Mapping

from ottla.groupcoord.admin_commands import DeleteGroups
from ottla.groupcoord.admin_results import DeleteGroupsResult
from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.classic.rebalance import session_key
from ottla.groupcoord.coordinator_config import EXPIRY_SLICE_OFFSETS, KEEPS_OFFSETS
from ottla.groupcoord.effects import CancelTimer, Effect, Reply, StartTimer, TimerKey
from ottla.groupcoord.group_records import NO_TIMESTAMP_MS, OffsetCommitValue, OffsetRecord
from ottla.groupcoord.offsets.offset_values import read_offset_value
from ottla.groupcoord.offsets.pending_offsets import OffsetKey
from ottla.groupcoord.record_codec import GroupRecord
from ottla.groupcoord.shard import Group, GroupShard, appends
from ottla.groupcoord.timer_commands import ExpireOffsets
from ottla.logstore.words.errors import ErrorCode

EXPIRY_KEY = TimerKey("offsets")


def expire_offsets(shard: GroupShard, now_ms: int) -> list[Effect]:
    """Expire one slice of a round over all groups.

    The timer brings the next slice, or after the last one the next round.
    """
    if not shard.expiry_queue:
        shard.expiry_queue = list(reversed(shard.groups))  # sorting 100,000 would take too long
    records: list[GroupRecord] = []
    seen = 0
    while shard.expiry_queue and seen < EXPIRY_SLICE_OFFSETS:
        group = shard.group(shard.expiry_queue.pop())
        if group is not None:
            seen += 1 + _expire_group(shard, group, now_ms, records)
    delay_ms = 0 if shard.expiry_queue else shard.config.offsets_retention_check_interval_ms
    timer = StartTimer(EXPIRY_KEY, delay_ms, ExpireOffsets())
    return [*appends(records, shard.config.max_batch_bytes), timer]


def _expire_group(shard: GroupShard, group: Group, now_ms: int, records: list[GroupRecord]) -> int:
    """Add the tombstones that are due for one group to `records`; return the number of its offsets."""
    group_id = group.group_id
    seen = 0
    pending = shard.pending.keys_of(group_id)
    all_expired = not pending
    retention_ms = shard.group_config(group_id).offsets_retention_ms
    for topic, partitions in shard.offsets.topics_of(group_id).items():
        is_read = group.is_subscribed_to(topic)
        for partition, content in partitions.items():
            seen += 1
            if (
                not is_read
                and (not pending or OffsetKey(group_id, topic, partition) not in pending)
                and _is_expired(group, read_offset_value(content), now_ms, retention_ms)
            ):
                records.append(OffsetRecord(group_id, topic, partition, None))
            else:
                all_expired = False
    if all_expired and group.can_expire:
        records += group.tombstones()
    return seen


def _is_expired(group: Group, value: OffsetCommitValue, now_ms: int, retention_ms: int) -> bool:
    since_ms = group.retained_since_ms(value.commit_timestamp)
    if since_ms is None or retention_ms == KEEPS_OFFSETS:
        return False
    if value.expire_timestamp != NO_TIMESTAMP_MS:
        return now_ms >= value.expire_timestamp
    return now_ms - since_ms >= retention_ms


def delete_groups(
    shard: GroupShard, command: DeleteGroups, failed: Mapping[str, ErrorCode] = {}
) -> list[Effect]:
    """Decide a DeleteGroups: remove each empty group with its offsets, except those that have `failed`."""
    effects: list[Effect] = []
    records: list[GroupRecord] = []
    errors: list[tuple[str, ErrorCode]] = []
    deleted: set[str] = set()
    for group_id in command.group_ids:
        group = shard.group(group_id)
        if group is None or group_id in deleted:
            errors.append((group_id, ErrorCode.GROUP_ID_NOT_FOUND))
        elif group_id in failed:
            errors.append((group_id, failed[group_id]))
        elif not group.is_empty:
            errors.append((group_id, ErrorCode.NON_EMPTY_GROUP))
        else:
            errors.append((group_id, ErrorCode.NONE))
            deleted.add(group_id)
            records += [*shard.offset_tombstones(group_id), *group.tombstones()]
            if isinstance(group, ClassicGroup):
                pending = sorted(group.pending_join_members)
                effects += [CancelTimer(session_key(group, each)) for each in pending]
    reply = Reply(command.token, DeleteGroupsResult(errors=errors), shows_state=True)
    return [*effects, *appends(records, shard.config.max_batch_bytes), reply]
