"""DeleteGroups for share groups: deletes their share-partition state, then the groups like all others."""

from ottla.groupcoord.admin_commands import DeleteGroups
from ottla.groupcoord.checked_append import checked_append
from ottla.groupcoord.effects import Effect
from ottla.groupcoord.offsets.offset_expiry import delete_groups
from ottla.groupcoord.record_codec import GroupRecord
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.share.share_commands import DeleteShareGroupOffsets, ShareStateDeleted
from ottla.groupcoord.share.share_effects import DeleteShareState
from ottla.groupcoord.share.share_group import ShareGroup, ShareStates, states_record
from ottla.groupcoord.share.share_group_offsets import share_offsets_deleted
from ottla.groupcoord.share_state.share_state_words import DeleteState, SharePartitionKey
from ottla.logstore.words.errors import ErrorCode


def delete_groups_of_any_kind(shard: GroupShard, command: DeleteGroups) -> list[Effect]:
    """Decide a DeleteGroups: at once if no group has state, else after the share coordinators deleted it."""
    records: list[GroupRecord] = []
    requests: list[DeleteState] = []
    for group_id in dict.fromkeys(command.group_ids):
        group = shard.share_group(group_id)
        if group is None or not group.is_empty or group.states is None:
            continue
        partitions = _partitions_with_state(shard, group)
        if partitions:
            deleting = {topic_id: name for topic_id, (name, _) in partitions.items()}
            records.append(states_record(group_id, ShareStates(deleting=deleting)))
        requests += [
            DeleteState(SharePartitionKey(group_id, topic_id, partition))
            for topic_id, (_, numbers) in sorted(partitions.items())
            for partition in sorted(numbers)
        ]
    if not requests:
        return delete_groups(shard, command)
    effects = checked_append(shard, records)
    shard.awaiting_persister.add(command.token)
    return [
        *effects,
        DeleteShareState(job=shard.next_share_job(), requests=requests, waiting_request=command),
    ]


def share_state_deleted(shard: GroupShard, command: ShareStateDeleted) -> list[Effect]:
    """Apply the persister's answer, and go on with its request. Groups with state left are not deleted."""
    match command.waiting_request:
        case None:
            return []
        case DeleteShareGroupOffsets() as waiting_request:
            return share_offsets_deleted(shard, waiting_request, command.results)
        case DeleteGroups() as waiting_request:
            shard.awaiting_persister.discard(waiting_request.token)
            failed = {
                result.key.group: result.error
                for result in command.results
                if result.error is not ErrorCode.NONE
            }
            return delete_groups(shard, waiting_request, failed)


def _partitions_with_state(shard: GroupShard, group: ShareGroup) -> dict[bytes, tuple[str, frozenset[int]]]:
    """Return all partitions that may have state, with topic names: also those about to begin or to end."""
    states = group.states or ShareStates()
    found = {topic_id: (one.name, one.partitions) for topic_id, one in states.initialized.items()}
    for topic_id, one in states.initializing.items():
        known = found.get(topic_id, ("", frozenset[int]()))[1]
        found[topic_id] = (one.name, known | one.partitions)
    for topic_id in states.deleting:
        topic = shard.topics.by_id(topic_id)
        if topic is not None:
            found[topic_id] = (topic.name, frozenset(range(topic.num_partitions)))
    return found
