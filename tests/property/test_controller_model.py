"""The controller against a simple model: brokers that register, fall silent and leave, random commands.

The model does not know how decisions are made. It checks every image for states that must never occur:
leaders outside their ISR, fenced leaders, epochs that fall, an empty ISR, a leader out of sync without an
unclean election, a replica set that changes without a reassignment.
"""

from collections.abc import Sequence, Set
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.commands import (
    AlterConfigs,
    AlteredPartition,
    AlteredTopic,
    AlterPartition,
    AlterPartitionReassignments,
    AssignReplicasToDirs,
    BrokerConnectionLost,
    BrokerState,
    Command,
    ConfigChange,
    ConfigOperation,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    NewPartitions,
    ReassignablePartition,
    ReassignableTopic,
    ReplicaDirectory,
    ReportOfflineLogDirs,
    ResourceChanges,
    TopicReference,
    UnregisterBroker,
)
from ottla.metadata_raft.controller import Controller
from ottla.metadata_raft.delta import replay_batch
from ottla.metadata_raft.image import MetadataImage, PartitionImage
from ottla.metadata_raft.partition_change import RECOVERING
from ottla.metadata_raft.record_codec import decode_batch
from ottla.metadata_raft.records import NO_LEADER, ConfigResourceType
from ottla.metadata_raft.snapshot import decode_snapshot, encode_snapshot
from tests.unit.metadata_raft.metadata_world import CONFIG, EMPTY, MetadataWorld, log_dir_id

BROKERS = 4
TOPICS = ("a", "b")
BROKER = st.integers(0, BROKERS - 1)
TOPIC = st.sampled_from(TOPICS)
INDEX = st.integers(0, 2)
REPLICAS = st.lists(st.integers(0, BROKERS), min_size=0, max_size=4)
STEPS = st.one_of(
    st.tuples(st.just("restart"), BROKER, st.booleans()),
    st.tuples(st.just("heartbeat"), BROKER, st.booleans(), st.booleans(), st.booleans()),
    st.tuples(st.just("heartbeat"), BROKER, st.just(False), st.just(False), st.just(False)),
    st.tuples(st.just("cut"), BROKER),
    st.tuples(st.just("wait"), st.sampled_from([500, 1_001, 9_001, 300_000])),
    st.tuples(st.just("failover")),
    st.tuples(st.just("create"), TOPIC, st.integers(1, 3), st.integers(1, 3), st.booleans()),
    st.tuples(st.just("delete"), TOPIC),
    st.tuples(st.just("grow"), TOPIC, st.integers(1, 3)),
    st.tuples(st.just("allow"), TOPIC, st.booleans()),
    st.tuples(st.just("isr"), TOPIC, INDEX, REPLICAS, st.booleans()),
    st.tuples(st.just("isr"), TOPIC, INDEX, st.none(), st.booleans()),
    st.tuples(st.just("elect"), st.integers(0, 1)),
    st.tuples(st.just("move"), TOPIC, INDEX, st.one_of(st.none(), REPLICAS)),
    st.tuples(st.just("dir"), BROKER),
    st.tuples(st.just("place"), BROKER, TOPIC, INDEX, st.integers(0, 2)),
    st.tuples(st.just("unregister"), BROKER),
)


class Model:
    """Brokers and their commands; checks every image that a command makes."""

    def __init__(self) -> None:
        self.world = MetadataWorld(brokers=BROKERS)
        self.seen: MetadataImage = self.world.image

    def play(self, step: tuple[Any, ...]) -> None:
        world = self.world
        match step:
            case ("restart", broker_id, unfence):
                world.start_broker(broker_id, unfence=unfence, log_dirs=2)
            case ("heartbeat", broker_id, behind, want_fence, want_shut_down):
                if broker_id in world.image.brokers:
                    offset = 0 if behind else world.image.version
                    world.heartbeat(
                        broker_id,
                        current_metadata_offset=offset,
                        want_fence=want_fence,
                        want_shut_down=want_shut_down,
                    )
            case ("cut", broker_id):
                if broker_id in world.image.brokers:
                    epoch = world.image.brokers[broker_id].broker_epoch
                    self.submit(BrokerConnectionLost(broker_id=broker_id, broker_epoch=epoch))
            case ("wait", time_ms):
                world.now_ms += time_ms
                for _ in range(3 * BROKERS):
                    if not world.tick():
                        break
                    self.check()
                else:
                    raise AssertionError("there is always something due")
            case ("failover",):
                world.controller = Controller(world.image, CONFIG)
                world.controller.activate(world.image, world.now_ms)
            case _:
                self.submit(self.command(step))
        self.check(by_the_leader=step[0] == "isr")

    def submit(self, command: Command) -> None:
        try:
            self.world.submit(command)
        except KafkaError as error:
            assert error.code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)

    def command(self, step: tuple[Any, ...]) -> Command:
        world = self.world
        match step:
            case ("create", name, partitions, factor, is_unclean):
                configs = [("unclean.leader.election.enable", str(is_unclean).lower())]
                return CreateTopics(topics=[world.topic(name, partitions, factor, configs=configs)])
            case ("delete", name):
                return DeleteTopics(topics=[TopicReference(name=name)])
            case ("grow", name, count):
                return CreatePartitions(topics=[NewPartitions(name=name, count=count)])
            case ("allow", name, is_unclean):
                change = ConfigChange(
                    name="unclean.leader.election.enable",
                    operation=ConfigOperation.SET,
                    value=str(is_unclean).lower(),
                )
                resource = ResourceChanges(
                    resource_type=ConfigResourceType.TOPIC, resource_name=name, changes=[change]
                )
                return AlterConfigs(resources=[resource])
            case ("isr", name, index, isr, is_recovered):
                return self.alter_isr(name, index, isr, is_recovered=is_recovered)
            case ("elect", kind):
                return ElectLeaders(election_type=kind)
            case ("move", name, index, replicas):
                one = ReassignablePartition(partition_index=index, replicas=replicas)
                return AlterPartitionReassignments(topics=[ReassignableTopic(name=name, partitions=[one])])
            case ("dir", broker_id):
                broker = world.image.brokers.get(broker_id)
                return ReportOfflineLogDirs(
                    broker_id=broker_id,
                    broker_epoch=-1 if broker is None else broker.broker_epoch,
                    log_dirs=[log_dir_id(broker_id, 1)],
                )
            case ("place", broker_id, name, index, number):
                topic = world.image.topics.by_name.get(name)
                broker = world.image.brokers.get(broker_id)
                place = ReplicaDirectory(
                    topic_id=bytes(16) if topic is None else topic.topic_id,
                    partition_index=index,
                    directory_id=log_dir_id(broker_id, number),
                )
                return AssignReplicasToDirs(
                    broker_id=broker_id,
                    broker_epoch=-1 if broker is None else broker.broker_epoch,
                    assignments=[place],
                )
            case ("unregister", broker_id):
                return UnregisterBroker(broker_id=broker_id)
            case _:
                raise AssertionError(step)

    def alter_isr(
        self, name: str, index: int, isr: Sequence[int] | None, *, is_recovered: bool
    ) -> AlterPartition:
        """Return any request that a leader may send; None stands for all replicas that can be in sync."""
        image = self.world.image
        topic = image.topics.by_name.get(name)
        if topic is None or index >= len(topic.partitions):
            return AlterPartition(broker_id=0, broker_epoch=0)
        now = topic.partitions[index]
        if isr is None:
            isr = [one for one in now.replicas if one in image.brokers and image.brokers[one].is_active]
        leader = image.brokers.get(now.leader)
        wanted = AlteredPartition(
            partition_index=index,
            leader_epoch=now.leader_epoch,
            partition_epoch=now.partition_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=one) for one in isr],
            leader_recovery_state=0 if is_recovered else now.leader_recovery_state,
        )
        return AlterPartition(
            broker_id=now.leader,
            broker_epoch=-1 if leader is None else leader.broker_epoch,
            topics=[AlteredTopic(topic_id=topic.topic_id, partitions=[wanted])],
        )

    def check(self, *, by_the_leader: bool = False) -> None:
        """Assert the invariants of an image, and of its difference to the previous one."""
        before, image = self.seen, self.world.image
        self.seen = image
        assert image.version >= before.version
        sessions = self.world.controller._sessions
        absent = sessions.absent(image, self.world.now_ms, CONFIG.broker_session_timeout_ms)
        for topic_id, topic in image.topics.by_id.items():
            old = before.topics.by_id.get(topic_id)
            for index, partition in enumerate(topic.partitions):
                check_partition(image, partition, absent)
                if old is not None and index < len(old.partitions):
                    check_step(old.partitions[index], partition, by_the_leader=by_the_leader)


def check_partition(image: MetadataImage, partition: PartitionImage, absent: Set[int]) -> None:
    assert set(partition.isr) <= set(partition.replicas)
    assert set(partition.adding_replicas) <= set(partition.replicas)
    assert set(partition.removing_replicas) <= set(partition.replicas)
    assert not set(partition.adding_replicas) & set(partition.removing_replicas)
    moving = {*partition.adding_replicas, *partition.removing_replicas}
    assert not moving or set(partition.replicas) - set(partition.removing_replicas), "no replica is to stay"
    if partition.leader != NO_LEADER:
        leader = image.brokers[partition.leader]
        assert partition.leader in partition.isr
        assert leader.is_active, "a broker leads that is fenced or shuts down"
        assert leader.has_online_dir(partition.directory(partition.leader))
    # While there is no leader, or the leader may be down, all replicas in sync stay in the ISR.
    if partition.leader != NO_LEADER and partition.leader not in absent:
        for replica in partition.isr:
            assert image.brokers[replica].is_active, (
                "a live leader keeps a replica in the ISR that is not live"
            )


def check_step(old: PartitionImage, new: PartitionImage, *, by_the_leader: bool) -> None:
    assert new.partition_epoch >= old.partition_epoch and new.leader_epoch >= old.leader_epoch
    if new.partition_epoch == old.partition_epoch:
        assert new == old, "a partition changed within one partition epoch"
    if new.leader != old.leader:
        assert new.leader_epoch > old.leader_epoch, "another leader in the same leader epoch"
    if new.leader in (old.leader, NO_LEADER) or new.partition_epoch > old.partition_epoch + 1:
        return
    # A leader may add replicas to the ISR and lose the partition to one of them in the same step.
    is_unclean = new.leader_recovery_state == RECOVERING and new.isr == (new.leader,)
    assert is_unclean or new.leader in old.isr or by_the_leader, "the new leader was not in sync"


@pytest.mark.slow
@given(st.lists(STEPS, max_size=40))
def test_the_invariants_hold_after_any_steps(steps: list[tuple[Any, ...]]) -> None:
    model = Model()
    for name in TOPICS:
        model.play(("create", name, 3, 3, False))

    for step in steps:
        model.play(step)

    live = model.world.image
    again: MetadataImage = EMPTY
    for encoded in model.world.log:
        again, _ = replay_batch(again, decode_batch(encoded)[0])
    content = b"".join(bytes(part) for part in encode_snapshot(live))
    assert again == live
    assert decode_snapshot(content, empty=EMPTY, version=live.version, epoch=live.epoch) == live


def random_steps(chance: Random) -> list[tuple[Any, ...]]:
    """Return steps that keep a cluster running: mostly heartbeats and ISRs that grow, sometimes failures."""
    broker_id, name, index = chance.randrange(BROKERS), chance.choice(TOPICS), chance.randrange(3)
    all_live = [("heartbeat", one, False, False, False) for one in range(BROKERS)]
    in_sync = [("isr", name, index, None, chance.random() < 0.7)]
    replicas = chance.sample(range(BROKERS), chance.randint(1, 3))
    faults: list[list[tuple[Any, ...]]] = [
        [("restart", broker_id, chance.random() < 0.7)],
        [("heartbeat", broker_id, chance.random() < 0.2, chance.random() < 0.2, chance.random() < 0.3)],
        [("cut", broker_id)],
        [("wait", chance.choice([500, 1_001, 9_001, 300_000]))],
        [("failover",)],
        [("create", name, chance.randint(1, 3), chance.randint(1, 3), chance.random() < 0.3)],
        [("grow", name, chance.randint(1, 3))],
        [("allow", name, chance.random() < 0.4)],
        [("isr", name, index, replicas, chance.random() < 0.7)],
        [("elect", chance.randrange(2))],
        [("move", name, index, replicas)],
        [("move", name, index, None)],
        [("dir", broker_id)],
        [("place", broker_id, name, index, chance.randrange(3))],
        [("delete", name)],
        [("unregister", broker_id)],
    ]
    weights = [1.0] * (len(faults) - 2) + [0.2, 0.2]
    return chance.choice([all_live, in_sync, chance.choices(faults, weights)[0]])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_the_invariants_hold_in_a_long_run_with_many_failures(seed: int) -> None:
    chance, model = Random(seed), Model()
    for name in TOPICS:
        model.play(("create", name, 3, 3, False))

    for _ in range(150):
        for step in random_steps(chance):
            model.play(step)
