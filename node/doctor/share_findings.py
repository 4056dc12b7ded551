"""Finds share groups whose start offset does not move, and share groups whose dead letters are lost.

The start offset stays while the oldest record is retried, is held by a member, or waits for its dead letter.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.escaped_text import escape_controls
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.cluster_features import DEAD_LETTERS_SINCE
from ottla.node.doctor.finding import Finding, named, note, problem
from ottla.node.share.record_state import SET_ASIDE, RecordState
from ottla.node.wire.messages.describe_share_partitions import InFlightRange, InFlightState

# A record that fails at once reaches its delivery limit soon, and one whose locks expire within minutes.
RETRIED_MS: Final = 60_000
LEAST_DELIVERIES: Final = 2
# Work that lasts longer is rare, and the node must remember all records finished behind this one.
HELD_MS: Final = 600_000
# A dead letter takes milliseconds; five attempts take some 15 seconds, or more if a node does not answer.
UNWRITTEN_MS: Final = 60_000
# An older loss is only a note: no letter was due since, so the cause may have been removed.
OLD_MS: Final = 3_600_000

_UNREACHED: Final = (
    "does not answer, has no leader, or has too few replicas in sync: see `ottla topic describe {topic}`"
)
_TOO_LARGE: Final = "accepts no batch as large as one dead letter: raise its max.message.bytes"
# The problem of the dead letter topic, by the error of the last attempt.
_REASONS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "does not exist, and the nodes may not create it: create it "
    "with errors.deadletterqueue.group.enable=true, or allow nodes to do so "
    "(errors.deadletterqueue.auto.create.topics.enable)",
    ErrorCode.UNKNOWN_TOPIC_ID: "was deleted",
    ErrorCode.INVALID_CONFIG: "is not enabled for them: it needs errors.deadletterqueue.group.enable=true "
    "and a name that begins with errors.deadletterqueue.topic.name.prefix",
    ErrorCode.MESSAGE_TOO_LARGE: _TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE: _TOO_LARGE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "does not allow the node that sends the letters "
    "to write: check the ACLs of the topic",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "is led by a node that rejects the node that sends the letters: "
    "compare their cluster.secret, certificates and logins",
    **dict.fromkeys(
        (
            ErrorCode.LEADER_NOT_AVAILABLE,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.NETWORK_EXCEPTION,
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            ErrorCode.BROKER_NOT_AVAILABLE,
            ErrorCode.KAFKA_STORAGE_ERROR,
        ),
        _UNREACHED,
    ),
}
# The state of the group must be written before a letter is, and cannot be.
_OF_COORDINATOR: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)


class ShareFacts(NamedTuple):
    """The state of a share group in one partition, from the partition's leader."""

    group_id: str
    partition: TopicPartition
    state: InFlightState
    letter_topic: str | None = None  # None if the group has none, or this client may not read it


def of_ignored_letters(groups: Sequence[str], share_version: int) -> Iterator[Finding]:
    """Yield a problem for groups that want dead letters, if this share.version does not have them."""
    if groups and share_version < DEAD_LETTERS_SINCE:
        yield problem(
            "share group",
            f"The share groups {named([escape_controls(one) for one in groups])} are set to have dead "
            f"letters, but share.version is {share_version}, below {DEAD_LETTERS_SINCE}: records that they "
            "reject or fail to process are archived without a dead letter. Once all nodes are upgraded, run "
            f"`kafka-features upgrade --feature share.version={DEAD_LETTERS_SINCE}`.",
        )


def of_share_groups(facts: Iterable[ShareFacts], *, retried_ms: int | None = None) -> Iterator[Finding]:
    """Yield one finding per group and kind of trouble; retries count after `retried_ms`."""
    least_ms = RETRIED_MS if retried_ms is None else retried_ms
    retried: dict[str, list[str]] = {}
    held: dict[str, list[str]] = {}
    unwritten: dict[tuple[str, str], list[str]] = {}
    lost: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for group_id, partition, state, letter_topic in facts:
        oldest = state.oldest
        reason = _failure_reason(state.letter_failure, group_id, letter_topic)
        if oldest is not None and oldest.state in SET_ASIDE:
            if state.stalled_ms >= UNWRITTEN_MS:
                unwritten.setdefault((group_id, reason), []).append(_words(partition, oldest, state))
            continue
        if state.letter_failure and not state.letters_go_on:
            lost.setdefault((group_id, reason), []).append((str(partition), state.letter_failure_ms))
        if oldest is None or oldest.state == RecordState.WAITING:
            continue  # the group has a back-off, or the topic a delay: no member gets it now
        if oldest.delivery_count >= LEAST_DELIVERIES and state.stalled_ms >= least_ms:
            retried.setdefault(group_id, []).append(_words(partition, oldest, state))
        elif oldest.member_id is not None and state.stalled_ms >= HELD_MS:
            held.setdefault(group_id, []).append(_words(partition, oldest, state))
    for (group_id, reason), places in sorted(unwritten.items()):
        yield problem(
            "share group",
            f"The start offset of share group {escape_controls(group_id)} waits for dead letters that cannot "
            f"be written: {reason}. {named(places, separator='; ')}. After five failed attempts a record is "
            "archived without a dead letter.",
        )
    for (group_id, reason), failures in sorted(lost.items()):
        newest_ms = min(ms for _, ms in failures)
        lost_at = named([place for place, _ in failures])
        say = problem if newest_ms < OLD_MS else note
        yield say(
            "share group",
            f"The last dead letters of share group {escape_controls(group_id)} could not be written"
            f"{_ago(newest_ms)}: {reason}. Records of {lost_at} may have none; "
            "the node's log names their offsets.",
        )
    for group_id, places in sorted(retried.items()):
        yield problem(
            "share group",
            f"Share group {escape_controls(group_id)} retries the same record, and its start offset does not "
            f"move: {named(places, separator='; ')}. Read the record with `ottla consume TOPIC -p PARTITION "
            "-o OFFSET -n 1`, then fix the members, or let one of them reject it.",
        )
    for group_id, places in sorted(held.items()):
        yield note(
            "share group",
            f"A member of share group {escape_controls(group_id)} has held the same record for a long time, "
            f"and renews its lock: {named(places, separator='; ')}. Other members get the records after it.",
        )


def _ago(ms: int) -> str:
    """Return the age of an event in words; empty if unknown (-1)."""
    if ms < 0:
        return ""
    if ms >= OLD_MS:
        return f", {ms // OLD_MS} h ago, and no others were due since"
    return f", {ms // 60_000} min ago" if ms >= 60_000 else ", just now"


def _failure_reason(error_code: int, group_id: str, topic: str | None) -> str:
    if not error_code:
        return "the log of the leader's node may say why"
    try:
        code = ErrorCode(error_code)
    except ValueError:
        return f"error {error_code}, which this version of Ottla does not know"
    if code in _OF_COORDINATOR:
        return f"its share coordinator does not write its state ({code.name}); see __share_group_state"
    if code is ErrorCode.NOT_CONTROLLER:
        return f"the controller assigns no producer id, or does not create the topic ({code.name})"
    place = "TOPIC" if topic is None else escape_controls(topic)
    where = f"`ottla group config {escape_controls(group_id)}` names it" if topic is None else place
    what = _REASONS.get(code, "rejects them").format(topic=place)
    return f"the dead letter topic ({where}) {what} ({code.name})"


def _words(partition: TopicPartition, oldest: InFlightRange, state: InFlightState) -> str:
    times = "once" if oldest.delivery_count == 1 else f"{oldest.delivery_count} times"
    holder = "" if oldest.member_id is None else f", now by {escape_controls(oldest.member_id)}"
    return (
        f"offset {oldest.first_offset} of {partition}, delivered {times} of at most "
        f"{state.delivery_count_limit}{holder}, has been the oldest for {state.stalled_ms // 1000} s"
    )
