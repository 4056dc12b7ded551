"""Eligible leader replicas (KIP-966): replicas that may lead beside the ISR, and the last known leader."""

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.cluster_features import ELIGIBLE_LEADER_REPLICAS_VERSION as ELR
from ottla.metadata_raft.commands import (
    AlterConfigs,
    AlteredPartition,
    AlteredTopic,
    AlterPartition,
    AlterPartitionReassignments,
    AssignReplicasToDirs,
    BrokerState,
    ConfigChange,
    ConfigOperation,
    CreateTopics,
    FeatureUpdate,
    ReassignablePartition,
    ReassignableTopic,
    ReplicaDirectory,
    ResourceChanges,
    UnregisterBroker,
    UpdateFeatures,
    UpgradeType,
)
from ottla.metadata_raft.image import PartitionImage
from ottla.metadata_raft.metadata_version import METADATA_VERSION
from ottla.metadata_raft.partition_change import RECOVERED, RECOVERING
from ottla.metadata_raft.records import (
    NO_LEADER,
    ConfigResourceType,
    FeatureLevelRecord,
    PartitionChangeRecord,
)
from ottla.metadata_raft.snapshot import decode_snapshot, encode_snapshot
from tests.unit.metadata_raft.metadata_world import CLUSTER_ID, EMPTY, MetadataWorld, log_dir_id

BOOT = b"one boot of host"
MIN_ISR = "min.insync.replicas"


def three(*, min_isr: int = 2, is_on: bool = True) -> MetadataWorld:
    """Return a world of brokers 0 to 3; the first three have the partition t-0, led by broker 0."""
    world = MetadataWorld(brokers=0)
    for broker_id in range(4):
        world.start_broker(broker_id, page_cache_id=BOOT)
    if is_on:
        world.raise_feature(ELR, 1)
    topic = world.topic("t", assignments=[(0, (0, 1, 2))], configs=[(MIN_ISR, str(min_isr))])
    world.submit(CreateTopics(topics=[topic]))
    return world


def partition(world: MetadataWorld) -> PartitionImage:
    return world.image.topics.by_name["t"].partitions[0]


def state(world: MetadataWorld) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return leader, ISR, eligible replicas and the last known leader."""
    one = partition(world)
    return one.leader, one.isr, one.eligible_leader_replicas, one.last_known_elr


def fence(world: MetadataWorld, *broker_ids: int) -> None:
    """Fence brokers one after the other, each after a heartbeat of every active broker."""
    for broker_id in broker_ids:
        for other in world.image.active_brokers():
            world.heartbeat(other.broker_id)
        world.heartbeat(broker_id, want_fence=True)


def set_config(world: MetadataWorld, kind: ConfigResourceType, name: str, value: str | None) -> None:
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    change = ConfigChange(name=MIN_ISR, operation=operation, value=value)
    reply = world.submit(
        AlterConfigs(resources=[ResourceChanges(resource_type=kind, resource_name=name, changes=[change])])
    )
    result = reply.resources[0]  # type: ignore[union-attr]
    if result.error_code:
        raise KafkaError(ErrorCode(result.error_code), result.error_message or "")


def ask_for_isr(world: MetadataWorld, *isr: int, damaged: tuple[int, ...] = ()) -> None:
    """Let the leader ask for this ISR."""
    one = partition(world)
    wanted = AlteredPartition(
        leader_epoch=one.leader_epoch,
        partition_epoch=one.partition_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=broker_id) for broker_id in isr],
        damaged_replicas=damaged,
    )
    topic = AlteredTopic(topic_id=world.image.topics.by_name["t"].topic_id, partitions=[wanted])
    epoch = world.image.brokers[one.leader].broker_epoch
    world.submit(AlterPartition(broker_id=one.leader, broker_epoch=epoch, topics=[topic]))


def test_a_replica_that_leaves_an_isr_of_enough_is_not_eligible() -> None:
    world = three()

    fence(world, 2)

    assert state(world) == (0, (0, 1), (), ())


def test_a_replica_that_leaves_an_isr_of_too_few_is_eligible_until_there_are_enough() -> None:
    world = three()
    fence(world, 2, 1)
    too_few = state(world)

    world.heartbeat(1)
    ask_for_isr(world, 0, 1)

    assert too_few == (0, (0,), (1,), ())
    assert state(world) == (0, (0, 1), (), ())


def test_an_eligible_replica_leads_when_none_is_in_sync() -> None:
    world = three()
    fence(world, 2, 1, 0)
    leaderless = state(world)

    world.heartbeat(2)
    not_eligible = state(world)
    world.heartbeat(1)

    assert leaderless == not_eligible == (NO_LEADER, (), (0, 1), (0,))
    assert state(world) == (1, (1,), (0,), ())
    assert partition(world).leader_recovery_state == RECOVERED, "nothing is lost"


def test_a_live_eligible_replica_takes_over_at_once() -> None:
    world = three()
    fence(world, 2)
    ask_for_isr(world, 0)

    fence(world, 0)

    assert state(world) == (1, (1,), (0,), ())


def test_if_one_in_sync_is_enough_only_the_last_is_eligible() -> None:
    world = three(min_isr=1)
    fence(world, 2, 1, 0)
    leaderless = state(world)

    world.heartbeat(1)
    waits = state(world)
    world.heartbeat(0)

    assert leaderless == waits == (NO_LEADER, (), (0,), (0,))
    assert state(world) == (0, (0,), (), ())


def test_a_broker_that_may_have_lost_its_power_is_not_eligible() -> None:
    world = three()
    fence(world, 2, 1, 0)

    world.start_broker(1)
    world.heartbeat(1)

    assert state(world) == (NO_LEADER, (), (0,), (0,))


@pytest.mark.parametrize("proof", ["clean end", "same boot"])
def test_a_broker_that_proves_what_it_has_stays_eligible(proof: str) -> None:
    world = three()
    fence(world, 2, 1, 0)
    epoch = world.image.brokers[1].broker_epoch

    if proof == "clean end":
        world.start_broker(1, previous_broker_epoch=epoch)
    else:
        world.start_broker(1, page_cache_id=BOOT)

    assert state(world) == (1, (1,), (0,), ())


def test_the_last_leader_leads_if_no_replica_certainly_has_everything() -> None:
    """Kafka's balanced recovery: it is marked as recovering, since records may be lost."""
    world = three()
    fence(world, 2, 1, 0)

    world.start_broker(1)
    world.start_broker(0, unfence=False)
    world.heartbeat(2)
    waits = state(world)
    world.heartbeat(0)

    assert waits == (NO_LEADER, (), (), (0,))
    assert state(world) == (0, (0,), (), ())
    assert partition(world).leader_recovery_state == RECOVERING


def test_the_last_leader_does_not_lead_from_an_empty_disk() -> None:
    world = three()
    topic_id = world.image.topics.by_name["t"].topic_id
    fence(world, 2, 1, 0)
    world.start_broker(1)
    world.start_broker(0, log_dirs=2, unfence=False)
    epoch = world.image.brokers[0].broker_epoch
    one = partition(world)
    other_dir, gone = log_dir_id(0, 1), log_dir_id(9)
    places = (gone, *one.directories[1:])
    world.append([PartitionChangeRecord(partition_id=0, topic_id=topic_id, directories=places)])

    place = ReplicaDirectory(topic_id=topic_id, partition_index=0, directory_id=other_dir)
    world.submit(AssignReplicasToDirs(broker_id=0, broker_epoch=epoch, assignments=[place]))
    world.heartbeat(0)

    assert state(world) == (NO_LEADER, (), (), ())


def test_a_broker_that_is_unregistered_is_not_eligible() -> None:
    world = three()
    fence(world, 2, 1)

    world.submit(UnregisterBroker(broker_id=1))

    assert state(world) == (0, (0,), (), ())


def test_a_damaged_replica_leaves_without_being_eligible() -> None:
    world = three()
    fence(world, 2)

    ask_for_isr(world, 0, damaged=(1,))

    assert state(world) == (0, (0,), (), ())


def test_replicas_that_move_away_are_not_eligible() -> None:
    world = three()
    fence(world, 2, 1)
    move = ReassignableTopic(
        name="t", partitions=[ReassignablePartition(partition_index=0, replicas=[0, 3, 2])]
    )
    world.submit(AlterPartitionReassignments(topics=[move]))
    moving = state(world)

    world.heartbeat(2)
    ask_for_isr(world, 0, 2, 3)

    assert moving == (0, (0,), (1,), ())
    assert partition(world).replicas == (0, 3, 2)
    assert state(world) == (0, (0, 2, 3), (), ())


@pytest.mark.parametrize("of_topic", [True, False])
def test_no_replica_is_eligible_any_more_when_fewer_must_be_in_sync(of_topic: bool) -> None:
    """From then on the leader alone acknowledges records."""
    world = three()
    set_config(world, ConfigResourceType.BROKER, "", "2")
    fence(world, 2, 1)
    if not of_topic:
        set_config(world, ConfigResourceType.TOPIC, "t", None)
    still = state(world)

    if of_topic:
        set_config(world, ConfigResourceType.TOPIC, "t", "1")
    else:
        set_config(world, ConfigResourceType.BROKER, "", "1")

    assert still == (0, (0,), (1,), ())
    assert state(world) == (0, (0,), (), ())


def test_the_whole_cluster_has_one_value_while_the_feature_is_on() -> None:
    """Brokers and the controller must agree on it, as in Apache Kafka."""
    world = three(is_on=False)
    set_config(world, ConfigResourceType.BROKER, "1", "3")

    world.raise_feature(ELR, 1)
    configs = world.image.configs

    assert MIN_ISR not in configs.broker(1) and configs.broker(None)[MIN_ISR] == "1"
    with pytest.raises(KafkaError, match=f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled"):
        set_config(world, ConfigResourceType.BROKER, "1", "3")
    with pytest.raises(KafkaError, match=f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled"):
        set_config(world, ConfigResourceType.BROKER, "", None)
    set_config(world, ConfigResourceType.BROKER, "", "2")
    assert world.image.configs.broker(None)[MIN_ISR] == "2"


def test_the_last_in_sync_stay_so_while_the_feature_is_off() -> None:
    world = three(is_on=False)

    fence(world, 2, 1, 0)

    assert state(world) == (NO_LEADER, (0,), (), ())


def test_eligible_replicas_are_in_sync_when_the_feature_is_disabled() -> None:
    world = three()
    fence(world, 2, 1, 0)

    update = FeatureUpdate(feature=ELR, max_version_level=0, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
    world.submit(UpdateFeatures(feature_updates=[update]))
    downgraded = state(world)
    world.heartbeat(1)

    assert downgraded == (NO_LEADER, (0, 1), (), ())
    assert state(world) == (1, (1,), (), ())


def test_the_feature_needs_records_with_eligible_replicas() -> None:
    world = three(is_on=False)
    world.append([FeatureLevelRecord(name=METADATA_VERSION, feature_level=22)])

    with pytest.raises(KafkaError, match=f"It needs {METADATA_VERSION} 23 or higher") as refused:
        world.raise_feature(ELR, 1)

    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION


def test_a_snapshot_has_eligible_replicas_and_the_last_leader() -> None:
    world = three()
    fence(world, 2, 1, 0)
    image = world.image

    content = b"".join(map(bytes, encode_snapshot(image)))
    read = decode_snapshot(content, empty=EMPTY, version=image.version, epoch=image.epoch)

    assert EMPTY.cluster_id == CLUSTER_ID
    assert read.topics.by_name["t"] == image.topics.by_name["t"]
    assert state(world) == (NO_LEADER, (), (0, 1), (0,))
