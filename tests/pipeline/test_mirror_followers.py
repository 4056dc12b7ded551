"""Copying to the target: topics, partitions, settings, groups. Source and target are one cluster."""

from uuid import uuid4

import pytest

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.group_offsets import CommittedOffset, commit_offsets, committed_offsets
from ottla.pipeline.client.offset_syncs import OffsetSync
from ottla.pipeline.client.topic_admin import (
    alter_configs,
    create_partitions,
)
from ottla.pipeline.columns.offset_runs import OffsetRun
from ottla.pipeline.mirror.group_follower import GroupState, GroupSync
from ottla.pipeline.mirror.sync_reader import SyncReader
from ottla.pipeline.mirror.topic_changes import TopicChanges
from tests.compat.wire_client import eventually
from tests.pipeline.conftest import MakeMirrored
from tests.pipeline.mirrored import Mirrored
from tests.pipeline.test_group_admin import member
from tests.pipeline.topics import fill, make_topic, own_configs

pytestmark = pytest.mark.slow


# ---- topics ---------------------------------------------------------------------------------------


def test_a_new_topic_is_made_with_its_partitions_and_settings(mirrored: Mirrored) -> None:
    topic = mirrored.make("orders", 3, cleanup_policy="compact", min_insync_replicas="1")
    follower = mirrored.topic_follower()

    changes = follower.follow()

    assert [one.name for one in changes.created] == [mirrored.remote(topic)]
    assert len(mirrored.cluster.topic(mirrored.remote(topic)).leaders) == 3
    mirrored.wait_for_configs(mirrored.remote(topic), {"cleanup.policy": "compact"})
    assert follower.follow() == TopicChanges()
    assert follower.follow(checks_target=True) == TopicChanges()


def test_more_partitions_are_followed(mirrored: Mirrored) -> None:
    topic = mirrored.make("orders", 2)
    follower = mirrored.topic_follower()
    follower.follow()

    create_partitions(mirrored.cluster, {topic: 5})

    def partitions_of(name: str) -> int:
        return len(mirrored.cluster.topic(name).leaders)

    eventually(lambda: partitions_of(topic), lambda count: count == 5)
    changes = follower.follow()

    assert changes.grown == {mirrored.remote(topic): 5}
    assert eventually(lambda: partitions_of(mirrored.remote(topic)), lambda count: count == 5) == 5


def test_settings_are_copied_and_removed(mirrored: Mirrored) -> None:
    topic = mirrored.make("orders", retention_ms="90000", segment_ms="70000")
    follower = mirrored.topic_follower()
    follower.follow()
    remote = mirrored.remote(topic)

    alter_configs(mirrored.cluster, {topic: {"retention.ms": "80000", "segment.ms": None}})
    alter_configs(mirrored.cluster, {remote: {"min.insync.replicas": "1"}})
    mirrored.wait_for_configs(topic, {"retention.ms": "80000"})
    mirrored.wait_for_configs(
        remote, {"retention.ms": "90000", "segment.ms": "70000", "min.insync.replicas": "1"}
    )
    changes = follower.sync_configs()

    assert changes.altered == {remote: {"retention.ms": "80000", "segment.ms": None}}
    # Excluded settings are left to the target.
    mirrored.wait_for_configs(remote, {"retention.ms": "80000", "min.insync.replicas": "1"})
    assert follower.sync_configs() == TopicChanges()


def test_a_topic_that_the_target_rejects_is_an_error(make_mirrored: MakeMirrored) -> None:
    mirrored = make_mirrored(replication_factor="99")
    topic = mirrored.make("orders")

    with pytest.raises(KafkaError, match=f"creating topic '{mirrored.remote(topic)}'"):
        mirrored.topic_follower().follow()


def test_the_topic_for_the_map_is_made_once(mirrored: Mirrored) -> None:
    for _ in range(2):
        mirrored.topic_follower().prepare()

    name = mirrored.options.policy.offset_syncs_topic()
    assert eventually(lambda: own_configs(mirrored.cluster, name), bool)["cleanup.policy"] == "compact"
    assert len(mirrored.cluster.topic(name).leaders) == 1


# ---- groups ---------------------------------------------------------------------------------------


def one(groups: list[GroupSync]) -> GroupSync:
    assert len(groups) == 1, groups
    return groups[0]


def test_a_group_is_set_to_the_first_row_it_has_not_read(mirrored: Mirrored) -> None:
    topic, group = mirrored.make("orders", 2), f"{mirrored.prefix}.g"
    mirrored.topic_follower().prepare()
    mirrored.topic_follower().follow()
    first, second = (TopicPartition(mirrored.remote(topic), index) for index in range(2))
    commit_offsets(
        mirrored.cluster,
        group,
        {
            TopicPartition(topic, 0): CommittedOffset(offset=7, metadata="note"),
            TopicPartition(topic, 1): CommittedOffset(offset=3),
        },
    )
    mirrored.write_syncs(OffsetSync(partition=first, slot=1, runs=(OffsetRun(5, 0, 4),)), junk=True)
    follower = mirrored.group_follower()

    synced = one(follower.sync())

    assert (synced.state, synced.offsets) == (GroupState.SYNCED, {first: 2, second: 0})
    assert committed_offsets(mirrored.cluster, group, [first]) == {
        first: CommittedOffset(offset=2, metadata="note")
    }
    mirrored.write_syncs(OffsetSync(partition=second, slot=2, runs=(OffsetRun(0, 1, 9),)))
    commit_offsets(mirrored.cluster, group, {TopicPartition(topic, 0): CommittedOffset(offset=5)})
    assert one(follower.sync()).offsets == {first: 2, second: 4}  # one forward, the other not back


def test_a_group_with_members_in_the_target_is_left_alone(mirrored: Mirrored) -> None:
    topic, group = mirrored.make("orders"), f"{mirrored.prefix}.g"
    mirrored.topic_follower().prepare()
    mirrored.topic_follower().follow()
    fill(mirrored.bootstrap, mirrored.remote(topic), [b"v"])
    commit_offsets(mirrored.cluster, group, {TopicPartition(topic, 0): CommittedOffset(offset=0)})
    follower = mirrored.group_follower()

    with member(mirrored.bootstrap, group, mirrored.remote(topic), "classic"):
        in_use = one(follower.sync())

    assert in_use.state is GroupState.IN_USE
    assert one(follower.sync()).state is GroupState.SYNCED


def test_with_names_kept_the_map_of_the_way_back_is_used_too(make_mirrored: MakeMirrored) -> None:
    back = f"b{uuid4().hex[:8]}"
    given = {"replication_policy_class": "IdentityReplicationPolicy", "target_cluster_alias": back}
    mirrored = make_mirrored(**given)
    topic, group = mirrored.make("orders"), f"{mirrored.prefix}.g"
    mirrored.topic_follower().prepare()
    partition = TopicPartition(topic, 0)
    commit_offsets(mirrored.cluster, group, {partition: CommittedOffset(offset=5)})
    mirrored.write_syncs(OffsetSync(partition=partition, slot=1, runs=(OffsetRun(0, 10, 5),)))
    follower = mirrored.group_follower()

    # Of the target's own rows, which lie before those 5 there, the first 8 had been copied to the source.
    make_topic(mirrored.bootstrap, name=f"mirror-offset-syncs.{back}.internal")
    returned = OffsetSync(partition=partition, slot=1, runs=(OffsetRun(7, 0, 1),))
    mirrored.write_syncs(returned, topic=f"mirror-offset-syncs.{back}.internal")

    assert one(follower.sync()).offsets == {partition: 8}


def test_a_map_is_read_on_from_where_it_was_left(mirrored: Mirrored) -> None:
    mirrored.topic_follower().prepare()
    partition = TopicPartition("t", 0)
    reader = SyncReader(mirrored.cluster, mirrored.options.policy.offset_syncs_topic())
    assert reader.read().translate(partition, 0) is None

    mirrored.write_syncs(OffsetSync(partition=partition, slot=1, runs=(OffsetRun(0, 10, 5),)))
    assert reader.read().translate(partition, 9) == 15
    mirrored.write_syncs(OffsetSync(partition=partition, slot=2, runs=(OffsetRun(5, 20, 5),)), junk=True)

    assert reader.read().translate(partition, 9) == 24
    assert reader.refused == 1


def test_without_an_offset_syncs_topic_no_offset_is_known(mirrored: Mirrored) -> None:
    reader = SyncReader(mirrored.cluster, f"nowhere-{uuid4().hex}")

    assert not reader.exists()
    assert reader.read().mirrored_to(TopicPartition("t", 0)) is None


def test_groups_of_other_names_and_topics_are_not_followed(mirrored: Mirrored, bootstrap: str) -> None:
    topic, other = mirrored.make("orders"), make_topic(bootstrap)
    mirrored.topic_follower().follow()
    offset = CommittedOffset(offset=0)
    commit_offsets(mirrored.cluster, f"other-{mirrored.prefix}", {TopicPartition(topic, 0): offset})
    commit_offsets(mirrored.cluster, f"{mirrored.prefix}.g", {TopicPartition(other, 0): offset})

    assert mirrored.group_follower().sync() == []
