"""Begins and ends the state of share-partitions; the share coordinators have the state itself.

A request to the persister is recorded before it is sent, so that a coordinator that loads the group later
knows of it. Heartbeats try to initialize again: at once after a failure, and after
`group.share.initialize.retry.interval.ms` without an answer (D55).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from ottla.groupcoord.checked_append import checked_append
from ottla.groupcoord.effects import Effect, StartTimer, TimerKey
from ottla.groupcoord.record_codec import GroupRecord
from ottla.groupcoord.shard import GroupShard, appends
from ottla.groupcoord.share.share_commands import ForgetShareTopics, ShareStateInitialized
from ottla.groupcoord.share.share_effects import DeleteShareState, InitializeShareState
from ottla.groupcoord.share.share_group import ShareGroup, ShareStates, TopicState, states_record
from ottla.groupcoord.share_state.share_state_words import (
    DeleteState,
    InitializeState,
    SharePartitionKey,
    StateResult,
)
from ottla.logstore.words.errors import ErrorCode

UNSET_OFFSET = -1  # share.auto.offset.reset decides where to start
UNKNOWN_TOPIC = "<UNKNOWN>"  # Kafka's name for a topic that is gone
FORGET_KEY = TimerKey("share-topics")
# Groups that lose a topic in one turn of the loop: 10 us each, and more if they have many topics.
GROUPS_PER_TURN = 200

V = TypeVar("V")


class Wanted(NamedTuple):
    """The share-partitions of a topic whose state is to begin."""

    topic_id: bytes
    name: str
    partitions: Mapping[int, int]  # partition -> its start offset


def missing_states(shard: GroupShard, group: ShareGroup, names: Collection[str], now_ms: int) -> list[Wanted]:
    """Return the partitions of these topics that have no state, and for which no recent request is open."""
    states = group.states or ShareStates()
    retry_ms = shard.config.share_initialize_retry_interval_ms
    wanted: list[Wanted] = []
    for name in sorted(names):
        topic = shard.topics.by_name(name)
        if topic is None:
            continue
        known: set[int] = set()
        done = states.initialized.get(topic.topic_id)
        if done is not None:
            known |= done.partitions
        being = states.initializing.get(topic.topic_id)
        since_ms = group.initializing_since_ms.get(topic.topic_id)
        if being is not None and since_ms is not None and 0 <= now_ms - since_ms < retry_ms:
            known |= being.partitions
        if len(known) < topic.num_partitions:
            partitions = (each for each in range(topic.num_partitions) if each not in known)
            wanted.append(Wanted(topic.topic_id, name, dict.fromkeys(partitions, UNSET_OFFSET)))
    return wanted


def begin_states(group: ShareGroup, wanted: Sequence[Wanted]) -> list[GroupRecord]:
    """Return the record that marks these partitions as initializing and no longer as deleting, if any."""
    states = group.states or ShareStates()
    initializing, deleting = dict(states.initializing), dict(states.deleting)
    for topic_id, name, partitions in wanted:
        before = initializing.get(topic_id)
        known = frozenset[int]() if before is None else before.partitions
        initializing[topic_id] = TopicState(name, known.union(partitions))
        deleting.pop(topic_id, None)
    if not wanted:
        return []
    return [states_record(group.group_id, states._replace(initializing=initializing, deleting=deleting))]


def initialize_requests(group_id: str, state_epoch: int, wanted: Iterable[Wanted]) -> list[InitializeState]:
    """Return the requests to the persister that initialize these share-partitions."""
    return [
        InitializeState(SharePartitionKey(group_id, topic_id, partition), state_epoch, start_offset)
        for topic_id, _, partitions in wanted
        for partition, start_offset in partitions.items()
    ]


def initialize_effect(
    shard: GroupShard, group_id: str, state_epoch: int, wanted: Iterable[Wanted]
) -> InitializeShareState:
    """Return the effect that begins the state of these for a heartbeat, which does not wait."""
    requests = initialize_requests(group_id, state_epoch, wanted)
    return InitializeShareState(group_id=group_id, job=shard.next_share_job(), requests=requests)


def states_initialized(shard: GroupShard, command: ShareStateInitialized) -> list[Effect]:
    """Apply the persister's answer: partitions with state are assigned from now on, failed ones tried again.

    Partitions that were given up meanwhile, as by DeleteGroups, stay given up, and their state is deleted.
    """
    group = shard.share_group(command.group_id)
    states = ShareStates() if group is None or group.states is None else group.states
    initializing, initialized = dict(states.initializing), dict(states.initialized)
    given_up: list[SharePartitionKey] = []
    for topic_id, results in _by_topic(command.results).items():
        done = {one.key.partition for one in results if one.error is ErrorCode.NONE}
        being = initializing.get(topic_id)
        before = initialized.get(topic_id)
        known = frozenset[int]() if before is None else before.partitions
        begun = frozenset[int]() if being is None else being.partitions & done
        if topic_id not in states.deleting:  # else its state is being deleted already
            given_up += [one.key for one in results if one.key.partition in done - begun - known]
        if being is None:
            continue
        if begun:
            initialized[topic_id] = TopicState(being.name, known | begun)
        left = being.partitions.difference(one.key.partition for one in results)
        if left:
            initializing[topic_id] = being._replace(partitions=left)
        else:
            del initializing[topic_id]
    after = states._replace(initializing=initializing, initialized=initialized)
    effects: list[Effect] = []
    if after != states:
        effects += checked_append(shard, [states_record(command.group_id, after)])
    if given_up:
        requests = [DeleteState(key) for key in given_up]
        effects.append(DeleteShareState(job=shard.next_share_job(), requests=requests))
    return effects


def _by_topic(results: Iterable[StateResult]) -> dict[bytes, list[StateResult]]:
    found: dict[bytes, list[StateResult]] = {}
    for result in results:
        found.setdefault(result.key.topic_id, []).append(result)
    return found


# ---- deleted topics ----------------------------------------------------------------------------------------


def look_for_deleted_topics(shard: GroupShard) -> list[Effect]:
    """Start a timer to forget the states of deleted topics, if there are any: this command writes nothing."""
    if any(shard.topics.by_id(topic_id) is None for topic_id in shard.groups_by_share_state):
        return [StartTimer(FORGET_KEY, 0, ForgetShareTopics())]
    return []


def forget_share_topics(shard: GroupShard) -> list[Effect]:
    """Remove deleted topics from the states of some groups, and of the others in later turns (D58).

    The share coordinators delete the state itself when they learn of the deletion from the metadata.
    """
    records: list[GroupRecord] = []
    gone = {topic_id for topic_id in shard.groups_by_share_state if shard.topics.by_id(topic_id) is None}
    group_ids = sorted({one for topic_id in gone for one in shard.groups_by_share_state[topic_id]})
    for group_id in group_ids[:GROUPS_PER_TURN]:
        group = shard.share_group(group_id)
        assert group is not None and group.states is not None
        states = ShareStates(
            _without(group.states.initializing, gone),
            _without(group.states.initialized, gone),
            _without(group.states.deleting, gone),
        )
        records.append(states_record(group_id, states))
    effects: list[Effect] = list(appends(records, shard.config.max_batch_bytes))
    if group_ids[GROUPS_PER_TURN:]:
        effects.append(StartTimer(FORGET_KEY, 0, ForgetShareTopics()))
    return effects


def _without(topics: Mapping[bytes, V], gone: set[bytes]) -> dict[bytes, V]:
    return {topic_id: one for topic_id, one in topics.items() if topic_id not in gone}
