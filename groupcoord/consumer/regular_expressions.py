"""Regular expressions of consumer groups: has them matched, and applies the results.

Matching thousands of topics takes time, so a thread does it; meanwhile the group goes on without the new
expression. All expressions of a group are matched together, so that a new topic makes one rebalance. As in
Kafka, they match the topics that are visible to the member whose heartbeat has them matched; a changed ACL
shows when they are matched the next time.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, TypeAlias

from ottla.groupcoord.checked_append import checked_append
from ottla.groupcoord.consumer.consumer_commands import RegexesResolved
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_member import ConsumerMember
from ottla.groupcoord.consumer.consumer_membership import epoch_record, timeline_event
from ottla.groupcoord.consumer.consumer_records import (
    ConsumerGroupRecord,
    ConsumerGroupRegularExpressionRecord,
    ConsumerGroupRegularExpressionValue,
)
from ottla.groupcoord.consumer.executor_tasks import ResolveRegexes
from ottla.groupcoord.effects import Effect, RunTask
from ottla.groupcoord.group_hash import group_hash
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.timeline import Cause
from ottla.groupcoord.topic_regex import TopicRegex
from ottla.logstore.words.errors import KafkaError

REFRESH_MIN_INTERVAL_MS = 10_000  # Kafka's; a topic created soon after another waits for the next look
# A group waits for its next look this many times the CPU time of the last one: it gets 5 % of a processor.
WAITS_PER_CPU_TIME = 20


MayDescribe: TypeAlias = Callable[[str], bool] | None


class _Requester(NamedTuple):
    """The member for whom expressions are matched: its host, and the topics that it may see."""

    client_host: str
    may_describe: MayDescribe


class RegexStatus(Enum):
    """The change that a heartbeat made to its member's expression."""

    SAME = "same"
    CHANGED = "changed"
    CHANGED_AND_RESOLVED = "changed and resolved"  # the member's topics differ from now on


class RegexChange(NamedTuple):
    """The expressions without subscribers, to be removed, and perhaps a task for a thread."""

    status: RegexStatus
    dropped: list[str]
    effects: list[Effect]


def change_regex(
    shard: GroupShard,
    group: ConsumerGroup,
    before: ConsumerMember,
    after: ConsumerMember,
    now_ms: int,
    may_describe: MayDescribe,
) -> RegexChange:
    """Return the effects of a member's heartbeat on the expressions.

    INVALID_REGULAR_EXPRESSION for a new one that is malformed. `may_describe` returns True for topics that
    the member may see; None: for all.
    """
    old, new = before.topic_regex, after.topic_regex
    status, dropped, is_new = RegexStatus.SAME, [], False
    if old != new:
        status = RegexStatus.CHANGED
        if old and group.regex_member_count(old) == 1:
            dropped.append(old)
        if not new:
            status = RegexStatus.CHANGED_AND_RESOLVED
        elif group.regex_member_count(new) == 0:
            TopicRegex.compile(new)
            is_new = True
        elif new in group.regexes:
            status = RegexStatus.CHANGED_AND_RESOLVED
    wanted = (set(group.subscribed_regexes) - set(dropped)) | ({new} if new else set())
    requester = _Requester(after.client_host, may_describe)
    return RegexChange(status, dropped, _refresh(shard, group, wanted, now_ms, requester, is_new=is_new))


def _refresh(
    shard: GroupShard,
    group: ConsumerGroup,
    wanted: set[str],
    now_ms: int,
    requester: _Requester,
    *,
    is_new: bool,
) -> list[Effect]:
    """Have the expressions matched if one never was, if there are new topics, or if it was long ago."""
    if not wanted or group.group_id in shard.resolving:
        return []
    refresh_ms = shard.config.group_consumer_regex_refresh_interval_ms
    given_up = {
        regex
        for regex, tried_ms in group.given_up_regexes.items()
        if regex in wanted and tried_ms <= now_ms <= tried_ms + refresh_ms
    }
    wanted = wanted - given_up
    if not wanted:
        return []
    times_ms = [resolved.timestamp_ms for resolved in group.regexes.values()]
    if group.resolving_since_ms is not None:  # also of a try without a result
        times_ms.append(group.resolving_since_ms)
    last_ms = max(times_ms, default=None)
    pause_ms = max(REFRESH_MIN_INTERVAL_MS, WAITS_PER_CPU_TIME * group.resolving_cpu_ms)
    if last_ms is not None and last_ms <= now_ms <= last_ms + pause_ms:
        return []  # a time later than now: the clock was set back since
    resolved = {regex: one for regex, one in group.regexes.items() if regex not in given_up}
    oldest_version = min((one.version for one in resolved.values()), default=0)
    is_due = (
        is_new
        or wanted != resolved.keys()
        or oldest_version < shard.newest_topics_version
        or last_ms is None
        or now_ms > last_ms + refresh_ms
    )
    if not is_due:
        return []
    shard.resolving.add(group.group_id)
    return [RunTask(_task(shard, group, wanted, now_ms, requester))]


def _task(
    shard: GroupShard, group: ConsumerGroup, wanted: set[str], now_ms: int, requester: _Requester
) -> ResolveRegexes:
    """Return a task that matches these expressions: first those that never were, then the oldest.

    Expressions that were matched before are matched only with the topics that changed since, as far as these
    are known. If some topics are hidden from the member, all are looked at, since the earlier matches
    depended on the rights of that time.
    """
    changed_since: dict[str, frozenset[str]] = {}
    known = wanted if requester.may_describe is None else ()
    for version in {group.regexes[regex].version for regex in known if regex in group.regexes}:
        changed = shard.recent_topics.since(version)
        if changed is not None:
            same_version = (
                one for one in wanted if one in group.regexes and group.regexes[one].version == version
            )
            changed_since.update(dict.fromkeys(same_version, changed))

    def age(regex: str) -> tuple[int, str]:
        known = group.regexes.get(regex)
        return (-1 if known is None else known.version, regex)

    return ResolveRegexes(
        group_id=group.group_id,
        client_host=requester.client_host,
        regexes=tuple(sorted(wanted, key=age)),
        topics=shard.topics,
        began_ms=now_ms,
        known={regex: group.regexes[regex].topics for regex in changed_since},
        changed_since=changed_since,
        may_describe=requester.may_describe,
    )


def is_wanted(shard: GroupShard, task: ResolveRegexes) -> bool:
    """Return True if the group still exists and subscribes to one of these expressions."""
    group = shard.consumer_group(task.group_id)
    return group is not None and any(group.regex_member_count(regex) for regex in task.regexes)


def regexes_resolved(shard: GroupShard, command: RegexesResolved, now_ms: int) -> list[Effect]:
    """Write the matches of expressions that still have subscribers; other topics are a new epoch."""
    shard.resolving.discard(command.group_id)
    group = shard.consumer_group(command.group_id)
    if group is None:
        return []  # it was deleted meanwhile
    group.resolving_since_ms, group.resolving_cpu_ms = command.began_ms, command.cpu_ms
    tried = {**group.given_up_regexes, **dict.fromkeys(command.given_up, command.began_ms)}
    group.given_up_regexes = {
        regex: tried_ms
        for regex, tried_ms in tried.items()
        if group.regex_member_count(regex) and regex not in command.topics
    }
    records: list[ConsumerGroupRecord] = []
    changed: dict[str, frozenset[str] | None] = {}
    for regex, topics in sorted(command.topics.items()):
        if group.regex_member_count(regex) == 0:
            continue
        known = group.regexes.get(regex)
        if topics != (known.topics if known is not None else frozenset()):
            changed[regex] = topics
        value = ConsumerGroupRegularExpressionValue(
            topics=sorted(topics), version=command.version, timestamp=command.began_ms
        )
        records.append(ConsumerGroupRegularExpressionRecord(group.group_id, regex, value))
    metadata_hash = group.metadata_hash
    if changed or group.is_metadata_stale:  # else it takes a millisecond a thousand topics for nothing
        names = group.topics_after((), (), changed)
        is_hashed = command.version == shard.topics.version and names == command.union
        metadata_hash = command.union_hash if is_hashed else group_hash(names, shard.topics)
    effects: list[Effect] = []
    if changed or metadata_hash != group.metadata_hash:
        records.append(epoch_record(group.group_id, group.group_epoch + 1, metadata_hash))
        cause, changes = Cause.REGEX_CHANGED, sorted(changed)
        if not changed:
            cause, changes = Cause.TOPICS_CHANGED, sorted(group.changed_topics)
        effects.append(timeline_event(group, cause, now_ms, reason=", ".join(changes)))
    try:
        return [*checked_append(shard, records), *effects]
    except KafkaError:
        return []  # more names than a record can hold: the expression stays as it was
