"""Resets of a group's offsets: the whole plan is made before any offset is changed.

A group with members is rejected: they would commit over the new offsets.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import group_admin, group_offsets, topic_admin
from ottla.node.client.ask_leaders import error_of, may_pass
from ottla.node.client.cluster_client import Client, unknown_partition
from ottla.node.client.group_admin import DEAD, EMPTY
from ottla.node.client.group_offsets import Change, PartitionFacts, Target, ToFile, ToTime
from ottla.node.client.refusal import Refused
from ottla.node.client.share_group_admin import SHARE, set_share_starts, share_starts
from ottla.node.client.topic_admin import OffsetAndTimestamp

Topics = Mapping[str, Sequence[int] | None]  # None: all of its partitions
MAX_TIMESTAMP_MS: Final = 2**63 - 1
_NAMED_MEMBERS: Final = 5  # members that an error names


def at_time(timestamp_ms: int) -> ToTime:
    """Return the target of a time. Negative times become 0: ListOffsets has special values below."""
    return ToTime(min(max(0, timestamp_ms), MAX_TIMESTAMP_MS))


def before_now(duration_ms: int) -> ToTime:
    """Return the target of a time so long before now."""
    return at_time(int(time.time() * 1000) - duration_ms)


async def partitions_of(client: Client, topics: Topics) -> list[TopicPartition]:
    """Return the partitions of these topics; UNKNOWN_TOPIC_OR_PARTITION for one that does not exist."""
    named: list[TopicPartition] = []
    for name, numbers in topics.items():
        topic = await client.topic_as_it_is(name)
        for number in topic.leaders if numbers is None else numbers:
            if number not in topic.leaders:
                raise unknown_partition(topic, number)
            named.append(TopicPartition(name, number))
    return sorted(named)


async def check_has_no_members(client: Client, group_id: str) -> bool:
    """Return True if the group is a share group; Refused while it has members.

    A group that does not exist is created by its first offset, as a classic group.
    """
    try:
        view = await group_admin.describe_group(client, group_id)
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return False
        raise
    if view.state not in (EMPTY, DEAD):
        names = [f"{one.instance_id or one.client_id or one.member_id} at {one.host}" for one in view.members]
        first, more = ", ".join(names[:_NAMED_MEMBERS]), len(names) - _NAMED_MEMBERS
        raise Refused(
            f"Group {group_id} is active ({view.state}); stop its members first:"
            f" {first or 'they are just joining'}{f' and {more} more' if more > 0 else ''}."
        )
    return view.group_type == SHARE


async def plan(
    client: Client, group_id: str, target: Target, topics: Topics | None, *, is_share: bool = False
) -> list[Change]:
    """Return the change of each partition's offset; if `topics` is None, of all committed offsets.

    For a share group the start offsets take the place of committed offsets.
    """
    committed: dict[TopicPartition, int | None]
    if is_share:
        starts = await share_starts(client, group_id)
        committed = {one: start.offset for one, start in starts.items()}
    else:
        committed = dict(await group_admin.committed_offsets(client, group_id))
    if isinstance(target, ToFile):
        partitions = sorted(target.offsets.get(group_id, ()))
        if not partitions:
            raise Refused(f"The file has no offsets of group {group_id}.")
    elif topics is None:
        partitions = sorted(committed)
        if not partitions:
            raise Refused(f"Group {group_id} has no committed offsets; name topics.")
    else:
        partitions = await partitions_of(client, topics)
    first = await _offsets(client, group_id, dict.fromkeys(partitions, topic_admin.EARLIEST))
    end = await _offsets(client, group_id, dict.fromkeys(partitions, topic_admin.LATEST))
    at_time: dict[TopicPartition, int] = {}
    if isinstance(target, ToTime):
        found = await _offsets(client, group_id, dict.fromkeys(partitions, target.timestamp_ms))
        at_time = {one: answer.offset for one, answer in found.items() if answer.offset >= 0}
    facts = {
        one: PartitionFacts(committed.get(one), first[one].offset, end[one].offset, at_time.get(one))
        for one in partitions
    }
    try:
        return group_offsets.plan_reset(group_id, target, facts)
    except ValueError as error:
        raise Refused(f"{error}.") from None


async def _offsets(
    client: Client, group_id: str, timestamps: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return the offset of each partition; Refused, with their names, if a leader does not answer."""
    answers = await topic_admin.find_offsets(client, timestamps)
    passing = {one: error for one, error in answers.problems.items() if may_pass(error)}
    if passing and len(passing) == len(answers.problems):
        names = ", ".join(map(str, sorted(passing)))
        raise Refused(
            f"The offsets of group {group_id} were not changed: {error_of(passing).detail.rstrip('.')}."
            f" Wait for a leader, or leave out {names}."
        )
    return answers.all()


async def apply(client: Client, group_id: str, changes: Sequence[Change], *, is_share: bool = False) -> None:
    """Commit the new offsets; Refused if the group has got members meanwhile."""
    offsets = {one.partition: one.after for one in changes}
    try:
        if is_share:
            await set_share_starts(client, group_id, offsets)
        else:
            await group_admin.commit_offsets(client, group_id, offsets)
    except KafkaError as error:
        if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NON_EMPTY_GROUP):
            raise Refused(f"Group {group_id} has members again; stop them first.") from None
        raise
